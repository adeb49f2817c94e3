package policy

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/nodescaler/sample/life"
)

// drawMarks has some workloads keep their pods apart from each other, or from those of another.
func drawMarks(t *rapid.T) map[string]life.Marks {
	all := map[string]life.Marks{}
	for _, app := range []string{"ns/app300", "ns/app700", "ns/app1100"} {
		m := life.Marks{Has: []string{app}}
		for _, other := range []string{"ns/app1100", "ns/app300", "ns/app700"} {
			if rapid.IntRange(0, 3).Draw(t, app+" repels "+other) == 0 {
				m.Repels = append(m.Repels, other)
			}
		}
		all[app] = m
	}
	return all
}

// After any load: once it is steady, every pod runs, and nothing more is done; and once it is gone,
// so are the machines.
func TestPoliciesComeToRest(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			l := &life.Life{World: *sample.New(), Wanted: map[string]int{}, Marks: drawMarks(t)}
			l.Pools[0].Max, l.Pools[0].Min = 30, rapid.IntRange(0, 2).Draw(t, "min")
			for i := range l.Hosts {
				l.Hosts[i].Room = sample.Small.Resources().Times(12)
			}
			p := build(t, Spec{Policy: name})
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				for _, size := range []string{"300", "700", "1100"} {
					l.Wanted["ns/app"+size] = rapid.IntRange(0, 6).Draw(t, size)
				}
				l.Live(t, p, time.Duration(rapid.IntRange(1, 15).Draw(t, "minutes"))*time.Minute)
			}
			l.Live(t, p, 60*time.Minute)
			if done := l.Live(t, p, 20*time.Minute); name == "unneeded" && len(done) > 0 {
				t.Fatalf("under a steady load, after an hour: %s", strings.Join(done, ", "))
			}
			if w := l.Waiting(); name == "unneeded" && len(w) > 0 {
				t.Fatalf("under a steady load, after an hour %v wait", w)
			}
			clear(l.Wanted)
			l.Live(t, p, 90*time.Minute)
			least := l.Pools[0].Min
			if name == "pending" {
				least = max(least, 1) // it keeps its last node
			}
			if got := len(l.Machines); got > least {
				t.Fatalf("without load there are %d machines, want %d at most", got, least)
			}
		}))
	}
}

// With spares, too: under a steady load nothing is done in the end and every pod runs, and without
// any load there are the spares and no more.
func TestJointWithSparesComesToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life.Life{World: *sample.New(), Wanted: map[string]int{}, Marks: drawMarks(t)}
		l.Pools[0].Max, l.Pools[0].Min = 30, rapid.IntRange(0, 2).Draw(t, "min")
		for i := range l.Hosts {
			l.Hosts[i].Room = sample.Small.Resources().Times(12)
		}
		j := DefaultJoint()
		if j.Spares.Most = rapid.IntRange(0, 4).Draw(t, "most"); j.Spares.Most == 0 {
			j.Spares.BudgetPercent = 5
		}
		p := build(t, Spec{Policy: "joint", Joint: &j})
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			for _, size := range []string{"300", "700", "1100"} {
				l.Wanted["ns/app"+size] = rapid.IntRange(0, 6).Draw(t, size)
			}
			l.Live(t, p, time.Duration(rapid.IntRange(1, 15).Draw(t, "minutes"))*time.Minute)
		}
		l.Live(t, p, 120*time.Minute)
		if done := l.Live(t, p, 20*time.Minute); len(done) > 0 {
			t.Fatalf("under a steady load, after two hours: %s", strings.Join(done, ", "))
		}
		if w := l.Waiting(); len(w) > 0 {
			t.Fatalf("under a steady load, after two hours %v wait", w)
		}
		clear(l.Wanted)
		l.Live(t, p, 120*time.Minute)
		running, spares := l.Count()
		most := j.Spares.Most
		if most == 0 {
			most = max(l.Top, 1)
		}
		if running > l.Pools[0].Min || spares != most {
			t.Fatalf("without load %d machines run and %d are spares, want %d at most and %d", running, spares, l.Pools[0].Min, most)
		}
	})
}

// However pods are to be spread over nodes and zones: once the load is steady they all run, and no
// machine is there for nothing.
func TestPodsThatAreSpreadAllRun(t *testing.T) {
	for _, c := range []struct {
		name  string
		world func(*rapid.T) (of *sample.World, zones int)
	}{
		{"a pool for each zone", func(t *rapid.T) (*sample.World, int) {
			zones := rapid.IntRange(1, 3).Draw(t, "zones")
			return sample.Zoned([]string{"z0", "z1", "z2"}[:zones]...), zones
		}},
		{"hosts are zones", func(*rapid.T) (*sample.World, int) { return sample.ZonedByHost(), 3 }},
	} {
		for _, name := range []string{"unneeded", "joint"} {
			t.Run(c.name+", "+name, rapid.MakeCheck(func(t *rapid.T) { allRunInTheEnd(t, name, c.world) }))
		}
	}
}

func allRunInTheEnd(t *rapid.T, name string, world func(*rapid.T) (*sample.World, int)) {
	w, zones := world(t)
	l := &life.Life{World: *w, Wanted: map[string]int{}, Marks: map[string]life.Marks{}}
	for i := range l.Pools {
		l.Pools[i].Max = 30
	}
	for i := range l.Hosts {
		l.Hosts[i].Room = sample.Small.Resources().Times(30)
	}
	mosts := map[string]int{}
	for _, size := range []string{"300", "700", "1100"} {
		app, most := "ns/app"+size, 6
		m := life.Marks{Has: []string{app}}
		switch rapid.IntRange(0, 5).Draw(t, app) {
		case 0:
			m.Topology = []nodescaler.Topology{{Key: nodescaler.HostLabel, Mark: app, Skew: rapid.IntRange(1, 3).Draw(t, "skew"), Tolerated: rapid.Bool().Draw(t, "tolerated")}}
		case 1:
			m.Topology = []nodescaler.Topology{{Key: sample.Zone, Mark: app, Skew: rapid.IntRange(1, 2).Draw(t, "skew"), MinDomains: rapid.IntRange(0, zones).Draw(t, "least")}}
		case 2:
			m.Topology, most = []nodescaler.Topology{{Key: sample.Zone, Mark: app}}, zones
		case 3:
			m.Topology = []nodescaler.Topology{{Key: sample.Zone, Mark: app, Skew: 1}, {Key: nodescaler.HostLabel, Mark: app, Skew: 2}}
		}
		l.Marks[app], mosts[app] = m, most
	}
	p := build(t, Spec{Policy: name})
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		for _, app := range slices.Sorted(maps.Keys(mosts)) {
			l.Wanted[app] = rapid.IntRange(0, mosts[app]).Draw(t, app)
		}
		l.Live(t, p, time.Duration(rapid.IntRange(1, 15).Draw(t, "minutes"))*time.Minute)
	}
	l.Live(t, p, 30*time.Minute)
	if done := l.Live(t, p, 30*time.Minute); boughtIn(done) > 1 {
		t.Fatalf("under a steady load, after half an hour: %s, %+v", strings.Join(done, ", "), l.Marks)
	}
	if w := l.Waiting(); len(w) > 0 {
		t.Fatalf("after an hour %v wait: %+v", w, l.Marks)
	}
	for _, n := range l.Nodes {
		if !slices.ContainsFunc(l.Pods, func(p nodescaler.Pod) bool { return p.Node == n.Name && !p.Daemon }) {
			t.Fatalf("after an hour %s is empty: %+v", n.Name, l.Marks)
		}
	}
}

func boughtIn(done []string) (n int) {
	for _, d := range done {
		if strings.HasPrefix(d, "Buy") {
			n++
		}
	}
	return n
}

// spreadOverNodes has pods of a workload spread over nodes.
func spreadOverNodes(app string, skew int) []nodescaler.Topology {
	return []nodescaler.Topology{{Key: nodescaler.HostLabel, Mark: app, Skew: skew}}
}

// Five pods by skew 2 and five by skew 1 fit on three nodes, but the scheduler lets none of them go
// there before the fourth is gone. So it is not emptied.
func TestANodeThatKeepsOthersFromTheirPlacesIsKept(t *testing.T) {
	for _, policy := range []string{"joint", "unneeded"} {
		l := &life.Life{
			World:  *sample.New(),
			Wanted: map[string]int{"ns/app300": 5, "ns/app700": 5},
			Marks: map[string]life.Marks{
				"ns/app300": {Has: []string{"a"}, Topology: spreadOverNodes("a", 2)}, "ns/app700": {Has: []string{"b"}, Topology: spreadOverNodes("b", 1)},
			},
		}
		p := build(t, Spec{Policy: policy})
		l.Live(t, p, time.Hour)
		if done := l.Live(t, p, 31*time.Hour); len(done) > 0 {
			t.Errorf("%s: in 31 hours of steady load: %v", policy, done)
		}
		if len(l.Waiting()) > 0 {
			t.Errorf("%s: %v wait", policy, l.Waiting())
		}
	}
}

// Pods by rules that are not observed fit on three nodes and not as the scheduler places them. A
// node that is emptied for that is needed again at once.
func TestANodeThatIsNeededAgainEachTimeIsKept(t *testing.T) {
	l := &life.Life{
		World:  *sample.New(),
		Wanted: map[string]int{"ns/app300": 5, "ns/app700": 5},
		Marks: map[string]life.Marks{
			"ns/app300": {Has: []string{"a"}, Unseen: spreadOverNodes("a", 2)}, "ns/app700": {Has: []string{"b"}, Unseen: spreadOverNodes("b", 1)},
		},
	}
	p := build(t, Spec{Policy: "joint"})
	l.Live(t, p, time.Hour)
	if n := boughtIn(l.Live(t, p, 31*time.Hour)); n == 0 || n > 8 {
		t.Errorf("%d machines were bought in 31 hours of steady load, want 1 to 8: none is emptied for 1, 2, 4, 8 and 16 hours", n)
	}
	if len(l.Waiting()) > 0 || len(l.Machines) != 4 {
		t.Errorf("%d machines, and %v wait", len(l.Machines), l.Waiting())
	}
	l.Wanted["ns/app700"] = 0
	l.Live(t, p, 3*time.Hour)
	if len(l.Machines) != 1 {
		t.Errorf("three hours later, with five small pods, there are %d machines", len(l.Machines))
	}
}
