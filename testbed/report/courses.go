package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/figure"
)

// mostMarked is how many changes can be distinguished when each is marked.
const mostMarked = 150

// courses draws the load, the late requests, the replicas and the machines of each policy over one
// axis of time, in the trial that results keep of it, in one source or in several together.
func courses(sources []testbed.Source) []Figure {
	var charts []*figure.Chart
	for _, policy := range sources[0].Policies() {
		for _, c := range []*figure.Chart{requests(policy, sources), course(policy, sources)} {
			if c != nil {
				charts = append(charts, c)
			}
		}
	}
	return drawn(charts)
}

// requests draws the requests of each minute, and the late ones of them; nil if any source does not
// count them by minutes.
func requests(policy string, sources []testbed.Source) *figure.Chart {
	level := busiest(sources[0].Results)
	c := &figure.Chart{
		ID: "requests-" + policy, Title: fmt.Sprintf("Requests of %s, at %s", policy, described(level)), Steps: true,
		X: figure.Axis{Title: "time"}, Y: figure.Axis{Title: "requests a minute"},
	}
	all, late := 0, 0
	for i := range sources {
		run := kept(sources[i].Results, policy, level)
		if run == nil || len(run.Minutes) == 0 {
			return nil
		}
		clock := clockOf(run)
		c.X.Unit = clock.unit
		answered := figure.Series{Name: in("requests", &sources[i]), Area: len(sources) == 1, Unmarked: true, Kin: 1}
		tardy := figure.Series{Name: in("late", &sources[i]), Unmarked: true, Kin: 2}
		for m := range len(run.Minutes) + 1 { // the last minute reaches to the end
			n := run.Minutes[min(m, len(run.Minutes)-1)]
			answered.Points = append(answered.Points, clock.at(testbed.Number(60*m), n.Requests))
			tardy.Points = append(tardy.Points, clock.at(testbed.Number(60*m), n.Late))
			if m < len(run.Minutes) {
				all, late = all+n.Requests, late+n.Late
			}
		}
		c.Series = append(c.Series, answered, tardy)
	}
	c.Desc = fmt.Sprintf("How many requests each minute had, and how many of them %s left unanswered or answered later than the "+
		"objective allows, in the first trial: %d of %d.", policy, late, all)
	return c
}

// course draws that of a policy; nil if any source keeps none.
func course(policy string, sources []testbed.Source) *figure.Chart {
	level := busiest(sources[0].Results)
	c := &figure.Chart{
		ID: "course-" + policy, Title: fmt.Sprintf("Replicas and machines of %s, at %s", policy, described(level)), Steps: true,
		X: figure.Axis{Title: "time", Unit: "min"}, Y: figure.Axis{Title: "replicas, machines"},
	}
	changes, moves := 0, 0
	for i := range sources {
		run := kept(sources[i].Results, policy, level)
		if run == nil {
			return nil
		}
		clock := clockOf(run)
		c.X.Unit = clock.unit
		machines := clock.machines(run, in("machines", &sources[i]))
		machines.Area, machines.Unmarked = len(sources) == 1, true
		replicas := clock.replicas(run, in("replicas", &sources[i]))
		replicas.Unmarked = true
		machines.Kin, replicas.Kin = 1, 2
		c.Series = append(c.Series, machines, replicas)
		decided, ordered := changed(&replicas, "replicas changed"), changed(&machines, "machines changed")
		changes, moves = changes+len(decided.Points), moves+len(ordered.Points)
		if len(sources) == 1 && len(decided.Points)+len(ordered.Points) <= mostMarked {
			c.Series = append(c.Series, decided, ordered)
		}
	}
	c.Desc = fmt.Sprintf("How many replicas %s asked for and how many machines there were or were on their way, in the first trial: "+
		"%d changes of replicas and %d of machines.", policy, changes, moves)
	return c
}

// described names a level with what it counts.
func described(l testbed.Level) string {
	if l.Scenario != "" {
		return l.Scenario
	}
	return l.String() + " users"
}

// busiest is the level with the most users.
func busiest(r *testbed.Results) testbed.Level {
	var most testbed.Level
	for _, l := range r.Levels() {
		if l.Users > most.Users {
			most = l
		}
	}
	return most
}

// kept is the trial whose course results keep.
func kept(r *testbed.Results, policy string, l testbed.Level) *testbed.Trial {
	i := slices.IndexFunc(r.Runs, func(t testbed.Trial) bool {
		return t.Trial == 1 && t.Policy == policy && t.Level() == l && len(t.Path) > 0 && len(t.Machines) > 0
	})
	if i < 0 {
		return nil
	}
	return &r.Runs[i]
}

// clock is what a trial's time is counted in.
type clock struct {
	unit string
	of   time.Duration
}

func clockOf(run *testbed.Trial) clock {
	if length := time.Duration(float64(run.Path[len(run.Path)-1].Seconds)) * time.Second; length > 3*time.Hour {
		return clock{"h", time.Hour}
	}
	return clock{"min", time.Minute}
}

func (c clock) at(seconds testbed.Number, n int) figure.Point {
	return at(float64(seconds)/c.of.Seconds(), float64(n))
}

func (c clock) replicas(run *testbed.Trial, name string) figure.Series {
	s := figure.Series{Name: name}
	for _, m := range run.Path {
		s.Points = append(s.Points, c.at(m.Seconds, m.Replicas))
	}
	return s
}

func (c clock) machines(run *testbed.Trial, name string) figure.Series {
	s := figure.Series{Name: name}
	for _, m := range run.Machines {
		s.Points = append(s.Points, c.at(m.Seconds, m.Machines))
	}
	return s
}

// changed are the points at which a line is not what it was before.
func changed(of *figure.Series, name string) figure.Series {
	s := figure.Series{Name: name, Dots: true}
	for i, p := range of.Points {
		if i > 0 && p.Y != of.Points[i-1].Y {
			s.Points = append(s.Points, p)
		}
	}
	return s
}
