package live

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/k6"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// tally adds up what the journal says of the time of a trial. What a step saw holds until the next
// one, as far as anybody knows.
type tally struct {
	from, to time.Time

	last     *loop.Step // in the trial, or the one before it
	before   *loop.Step // the first of them
	pods     time.Duration
	machines time.Duration
	charged  map[string]time.Time // until when every machine's time is in that
	changes  map[string][]sim.Change
	orders   int
	returns  int
	wakes    int
	moves    int
	decided  int
	telling  testbed.Telling
	peak     pricing.Rate // the most that a step saw
	// seen are machines that have been there, and going those that were returned, by name.
	seen, going map[string]bool
	came, went  int               // how many, in the trial
	acted       []nodescaler.Kind // what Plimsoll itself did about machines in the trial
}

// read takes the journal's steps in, one after the other.
func (t *tally) read(s *loop.Step) error {
	for _, p := range s.Problems {
		switch p.Code {
		case loop.CodePlanRefused, loop.CodeCostUnknown, loop.CodeOrderLost:
			return fmt.Errorf("step %s at %s: %s", s.ID, s.Time.Format(time.RFC3339), p)
		}
	}
	if s.Time.After(t.to) {
		return nil
	}
	if t.last != nil {
		t.hold(s.Time)
	}
	t.last = s
	if !s.Time.After(t.from) {
		t.before = s
		t.follow(s)
		return nil
	}
	came, went := t.follow(s)
	t.came, t.went = t.came+came, t.went+went
	t.count(s)
	t.telling.Hear(s, s.Time.Sub(t.from))
	t.peak = max(t.peak, s.Observed.Cost.Ordered)
	return nil
}

// hold charges what the last step saw until another moment.
func (t *tally) hold(until time.Time) {
	start := t.last.Time
	if start.Before(t.from) {
		start = t.from
	}
	span := until.Sub(start)
	if span <= 0 {
		return
	}
	for _, w := range t.last.Workloads {
		t.pods += span * time.Duration(w.Replicas)
	}
	for i := range t.last.Observed.Hosts {
		for _, m := range t.last.Observed.Hosts[i].Machines {
			if m.Phase == nodescaler.Spare { // it is there, and does not run
				t.charged[m.Name] = until
				continue
			}
			t.exists(m.Name, m.Created, until)
		}
	}
}

// exists charges a machine from its creation, which a step may see late, or from where it was
// charged to, until another moment. One that is only ordered does not exist.
func (t *tally) exists(name string, created, until time.Time) {
	if created.IsZero() {
		return
	}
	start := t.charged[name]
	for _, later := range []time.Time{created, t.from} {
		if later.After(start) {
			start = later
		}
	}
	t.machines += until.Sub(start)
	t.charged[name] = until
}

// count counts what a step of the trial did.
func (t *tally) count(s *loop.Step) {
	for _, o := range s.Outcomes {
		if o.Error != "" || o.Held != nil {
			continue
		}
		if o.Action < 0 {
			d := decision(s, o.Workload)
			t.decided++
			t.changes[o.Workload] = append(t.changes[o.Workload], sim.Change{At: s.Time.Sub(t.from), From: d.From, To: d.To})
			continue
		}
		t.acted = append(t.acted, s.Plan.Actions[o.Action].Kind)
		switch s.Plan.Actions[o.Action].Kind {
		case nodescaler.Buy:
			t.orders++
		case nodescaler.Return:
			t.returns++
		case nodescaler.Evict, nodescaler.DeletePod:
			t.moves++
		case nodescaler.Wake:
			t.wakes++
		case nodescaler.Cordon, nodescaler.Uncordon, nodescaler.Stash, nodescaler.Reboot:
		}
	}
}

// follow takes note of the machines of a step, and says how many are new and how many go that did
// not before.
func (t *tally) follow(s *loop.Step) (came, went int) {
	if !s.Observed.Cost.Known {
		return 0, 0
	}
	there := map[string]bool{}
	for i := range s.Observed.Hosts {
		for _, m := range s.Observed.Hosts[i].Machines {
			there[m.Name] = true
			if !t.seen[m.Name] {
				t.seen[m.Name] = true
				came++
			}
			if m.Phase == nodescaler.Deleting && !t.going[m.Name] {
				t.going[m.Name] = true
				went++
			}
		}
	}
	for name := range t.seen {
		if !there[name] && !t.going[name] {
			t.going[name] = true
			went++
		}
	}
	return came, went
}

// onlyWatched is for rows whose machines another decides on: what came and went is what that
// ordered and gave back, and Plimsoll must have done nothing about machines.
func (t *tally) onlyWatched() error {
	if len(t.acted) > 0 {
		return fmt.Errorf("cluster-autoscaler was to decide on machines, and Plimsoll did: %v", t.acted)
	}
	t.orders, t.returns = t.came, t.went
	return nil
}

func decision(s *loop.Step, workload string) *podscaler.Decision {
	for i := range s.Workloads {
		if s.Workloads[i].Workload == workload {
			return s.Workloads[i].Decision
		}
	}
	return &podscaler.Decision{}
}

// tallied reads a journal.
func tallied(steps Steps, from, to time.Time) (*tally, error) {
	t := &tally{from: from, to: to, changes: map[string][]sim.Change{}, charged: map[string]time.Time{}, seen: map[string]bool{}, going: map[string]bool{}}
	if err := steps(t.read); err != nil {
		return nil, err
	}
	if t.before == nil || t.last == t.before {
		return nil, errors.New("the journal does not cover the trial")
	}
	t.hold(to)
	return t, nil
}

// spent is what the machines cost in the trial. After the last step it goes on at the rate that the
// step saw.
func (t *tally) spent() (float64, error) {
	first, last := &t.before.Observed.Cost, &t.last.Observed.Cost
	if !first.Known || !last.Known {
		return 0, errors.New("what the machines cost is not known at the start or at the end of the trial")
	}
	until := func(s *loop.Step, at time.Time) float64 {
		return s.Observed.Cost.Spent.Units() + s.Observed.Cost.Ordered.For(at.Sub(s.Time)).Units()
	}
	return until(t.last, t.to) - until(t.before, t.from), nil
}

// put fills in what the journal says of a run.
func (t *tally) put(into *testbed.Trial, e *testbed.Experiment, j *testbed.Job) error {
	cost, err := t.spent()
	if err != nil {
		return err
	}
	into.CostUnits = testbed.Rounded(cost)
	into.VMHours = testbed.Rounded(t.machines.Hours())
	into.PodMinutes = testbed.Rounded(t.pods.Minutes())
	into.ModelUnsure = t.telling.ModelUnsure()
	into.Orders, into.Returns, into.PodMoves, into.Decisions = t.orders, t.returns, t.moves, t.decided
	courses := make([]testbed.Course, len(e.Workloads))
	for i := range e.Workloads {
		w := &e.Workloads[i]
		courses[i] = testbed.Course{Start: w.Replicas.Start, Most: w.Scaled(j.Policy).Max, Changes: t.changes[w.Name]}
	}
	into.Follow(e, courses, &t.telling, t.to.Sub(t.from))
	into.RateMax, into.ModelOff = testbed.Rounded(t.peak.Units()), t.telling.ModelOff()
	into.Wakes, into.SpareUnits = t.wakes, testbed.Number(math.NaN())
	return nil
}

// Steps reads a journal's steps, in their order.
type Steps func(read func(*loop.Step) error) error

// Score fills in what a run came to: the users' part from k6, and Plimsoll's from the journal.
// What is counted is counted from k6's start to the end of the trial. Where cluster-autoscaler
// decides on machines, Plimsoll's journal knows nothing of the pods that it moved: that is filled
// in already.
func Score(into *testbed.Trial, e *testbed.Experiment, j *testbed.Job, journal Steps, load *k6.Summary) error {
	t, err := tallied(journal, load.Began, load.Began.Add(j.Length))
	if err == nil && j.Policy.Upstream() {
		t.moves = into.PodMoves
		err = t.onlyWatched()
	}
	if err == nil {
		err = t.put(into, e, j)
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	scoreLate(into, load)
	return scoreLoad(into, load, e.Workloads[0].SLO.Target)
}

// scoreLoad fills in what k6 says of a run.
func scoreLoad(into *testbed.Trial, s *k6.Summary, target time.Duration) error {
	good, any := s.GoodFraction()
	if !any {
		return errors.New("k6: no request was answered")
	}
	if s.Dropped > 0 {
		return fmt.Errorf("k6: %d requests were not sent, for %d were on their way already for each a second", s.Dropped, inFlight)
	}
	into.Requests, into.Failed, into.GoodFraction = s.Requests, s.Failed, testbed.Rounded(good)
	into.Lateness(s.Requests-s.Failed-s.Good, s.Failed, s.Requests)
	minutes := make([]testbed.Minute, len(s.Minutes))
	for i, m := range s.Minutes {
		minutes[i] = testbed.Minute{Requests: m.Requests, Late: m.Late}
	}
	into.Each(minutes)
	// k6 waits for what is on its way, and does not count what it gives up.
	into.Unfinished = testbed.Number(math.NaN())
	into.P50Ms, into.P90Ms, into.P99Ms = testbed.Rounded(s.P50), testbed.Rounded(s.P90), testbed.Rounded(s.P99)
	for _, m := range s.Minutes {
		if m.Requests > 0 && m.Quantile > float64(target)/float64(time.Millisecond) {
			into.SLOViolationMinutes++
		}
	}
	return nil
}

// scoreLate fills in how late answers were, and warns if that is no small part of how long they
// took: then the machine was too slow for the load, or too busy with other things.
func scoreLate(into *testbed.Trial, s *k6.Summary) {
	if s.Late == nil || s.Served == nil {
		return
	}
	into.LateMs, into.ServedP90Ms = testbed.Rounded(s.Late.P90), testbed.Rounded(s.Served.P90)
	if s.Late.P90 > mostLate*s.P90 || s.Late.Mean > mostLate*s.P50 {
		into.Warning = fmt.Sprintf("answers were late by %.1f ms in the mean and by %.1f at the 90th percentile, which is over %g %% of what they took: the machine did not keep up with the lab",
			s.Late.Mean, s.Late.P90, 100*mostLate)
	}
}

// mostLate is the part of response times that answers may be late by.
const mostLate = 0.05
