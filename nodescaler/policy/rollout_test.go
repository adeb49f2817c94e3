package policy

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/nodescaler/sample/life"
)

// rolling is a life in which what machines are made from changes. It does for the rollout what the
// operator does: it reads the status of the step before, has machines made by the last good
// revision where that says so, and keeps what was decided.
type rolling struct {
	*life.Life
	by      *nodescaler.Rollout
	is      map[string]string // the revision of each machine
	bad     map[string]bool   // revisions whose machines never become nodes
	spec    string            // the pool's revision
	made    string            // the one that machines are made by, and since a step
	earlier string
	status  nodescaler.Rolled
	resumed time.Time
	instead map[string]bool // machines that were ordered in place of drifted ones
}

func newRolling(by *nodescaler.Rollout, budget nodescaler.NodeCount) *rolling {
	l := &rolling{Life: &life.Life{World: *sample.New(), Wanted: map[string]int{}}, by: by, is: map[string]string{}, bad: map[string]bool{}, spec: "r0", instead: map[string]bool{}}
	l.Pools[0].Max = 30
	l.Pools[0].Disruption = nodescaler.Disruption{Drift: nodescaler.DriftReplace, Rollout: by, Budgets: []nodescaler.NodeBudget{{Nodes: budget}}}
	for i := range l.Hosts {
		l.Hosts[i].Room = sample.Small.Resources().Times(12)
	}
	return l
}

// pass lets a time pass, and holds every step to the laws.
func (l *rolling) pass(t sample.Fatal, p nodescaler.Policy, d time.Duration) {
	t.Helper()
	for end := l.Now.Add(d); l.Now.Before(end); l.Now = l.Now.Add(life.Step) {
		for i := range l.Machines {
			if m := &l.Machines[i]; m.Phase == nodescaler.Ordered && l.bad[l.is[m.Name]] && l.Now.Sub(m.Created) >= life.Boot {
				m.Phase, m.Since, m.Problem = nodescaler.Failed, l.Now, "it never joined"
			}
		}
		l.Arrive()
		l.Control()
		l.Schedule()
		x := l.rolls()
		plan := p.Decide(x)
		if v := nodescaler.Check(x, plan); len(v) > 0 {
			t.Fatalf("the plan breaks the rules: %v", v)
		}
		l.holds(t, &plan)
		for _, a := range plan.Actions {
			l.Do(a)
			if a.Kind == nodescaler.Buy {
				l.is[nodescaler.MachineName(a.Pool, a.Order)] = l.made
			}
		}
	}
}

// rolls reads the status, and decides how far the rollout is.
func (l *rolling) rolls() *nodescaler.Index {
	r := nodescaler.Rolling{Revision: l.spec, Was: l.status, Resumed: l.resumed}
	r.Back = r.GoesBack(l.by)
	l.earlier = cmp.Or(l.made, l.spec)
	if l.made = l.spec; r.Back {
		l.made = l.status.Good
	}
	r.Compared = l.earlier
	for i := range l.Machines {
		m := &l.Machines[i]
		if m.Drifted = ""; l.is[m.Name] != l.earlier {
			m.Drifted = fmt.Sprintf("it is %s, and not %s", l.is[m.Name], l.earlier)
		}
	}
	l.Pools[0].Rolling = r
	x := nodescaler.NewIndex(&l.Snapshot)
	p := x.Pool(l.Pools[0].Name)
	l.status = x.Roll(p.Pool, nil)
	p.Rolling.Now = l.status
	return x
}

// holds checks what is true of each plan.
func (l *rolling) holds(t sample.Fatal, plan *nodescaler.Plan) {
	t.Helper()
	became := map[string]bool{}
	joined, out := 0, map[string]bool{}
	for i := range l.Nodes {
		became[l.Nodes[i].Machine] = true
		if joined++; !l.Nodes[i].Ready || l.Nodes[i].Draining {
			out[l.Nodes[i].Machine] = true
		}
	}
	beside := 0
	for i := range l.Machines {
		m := &l.Machines[i]
		if l.instead[m.Name] && m.Phase.Live() && !became[m.Name] {
			beside++
		}
		if m.Drifted != "" && out[m.Name] {
			beside++
		}
	}
	ordered, before := 0, len(out)
	for _, a := range plan.Actions {
		drift := slices.ContainsFunc(a.Reasons, func(r nodescaler.Reason) bool { return r.Code == nodescaler.MachineDrifted })
		if !drift || a.Kind != nodescaler.Buy && a.Kind != nodescaler.Cordon {
			continue
		}
		if s := l.status.Phase; s == nodescaler.PhasePaused || s == nodescaler.PhaseStopped || s == nodescaler.PhaseRollingBack && !l.Pools[0].Rolling.Back {
			t.Fatalf("%s: %s of %s%s", s, a.Kind, a.Order, a.Node)
		}
		if a.Kind == nodescaler.Cordon {
			out[a.Machine+a.Node] = true
			continue
		}
		l.instead[nodescaler.MachineName(a.Pool, a.Order)] = true
		if ordered++; l.status.Phase == nodescaler.PhaseCanary {
			if n := l.updated() + ordered; n > l.by.Canary.Machines {
				t.Fatalf("%d machines are, or are ordered, for a canary of %d", n, l.by.Canary.Machines)
			}
		}
	}
	d := &l.Pools[0].Disruption
	if most, by := d.Limit(nodescaler.Drifted, l.Now, joined); by != nil && len(out) > before && len(out) > most {
		t.Fatalf("%d of %d machines are on their way out, and the budget is %d", len(out), joined, most)
	}
	if l.by.Surge != nil && ordered > 0 && beside+ordered > l.by.Surge.Of(joined) {
		t.Fatalf("%d machines are beside those that they replace, and the surge is %s of %d", beside+ordered, l.by.Surge, joined)
	}
}

// updated counts the machines of the pool's revision, but for those that failed.
func (l *rolling) updated() (n int) {
	for i := range l.Machines {
		if m := &l.Machines[i]; m.Phase.Live() && l.is[m.Name] == l.spec {
			n++
		}
	}
	return n
}

// revisions counts the machines by revision.
func (l *rolling) revisions() map[string]int {
	all := map[string]int{}
	for i := range l.Machines {
		all[l.is[l.Machines[i].Name]]++
	}
	return all
}

func count(n int) *nodescaler.NodeCount { return &nodescaler.NodeCount{N: n} }

// start is a rollout whose first revision was rolled out, under a load that needs so many machines.
func start(t sample.Fatal, l *rolling, p nodescaler.Policy, machines int) {
	t.Helper()
	l.Wanted["ns/app1100"] = machines
	l.pass(t, p, 20*time.Minute)
	if l.status.Phase != nodescaler.PhaseComplete || l.status.Good != "r0" || len(l.Machines) < machines {
		t.Fatalf("it does not begin well: %+v", l.status)
	}
}

func TestARolloutReplacesAllMachines(t *testing.T) {
	l := newRolling(&nodescaler.Rollout{Surge: count(2), Canary: nodescaler.Canary{Machines: 1, For: nodescaler.Duration(10 * time.Minute)}}, nodescaler.NodeCount{N: 100, Percent: true})
	p := build(t, Spec{Policy: "joint"})
	start(t, l, p, 6)
	l.spec = "r1"
	l.pass(t, p, 9*time.Minute)
	if l.status.Phase != nodescaler.PhaseCanary || l.revisions()["r1"] != 1 {
		t.Fatalf("within the canary's time: %+v, %v", l.status, l.revisions())
	}
	l.pass(t, p, 60*time.Minute)
	if l.status.Phase != nodescaler.PhaseComplete || l.status.Good != "r1" || l.revisions()["r1"] != len(l.Machines) {
		t.Errorf("in the end: %+v, %v", l.status, l.revisions())
	}
}

func TestARolloutThatFailsGoesBack(t *testing.T) {
	l := newRolling(&nodescaler.Rollout{Surge: count(2)}, nodescaler.NodeCount{N: 50, Percent: true})
	p := build(t, Spec{Policy: "unneeded"})
	start(t, l, p, 6)
	l.spec = "r1"
	for l.status.Updated < 3 {
		l.pass(t, p, life.Step)
	}
	l.spec, l.bad["r2"] = "r2", true
	l.pass(t, p, 90*time.Minute)
	if l.status.Phase != nodescaler.PhaseRolledBack || l.status.Good != "r0" || l.revisions()["r0"] != len(l.Machines) {
		t.Fatalf("in the end: %+v, %v", l.status, l.revisions())
	}
	l.pass(t, p, 60*time.Minute)
	if got := l.revisions(); got["r0"] != len(l.Machines) {
		t.Errorf("it is tried again by itself: %v", got)
	}
	delete(l.bad, "r2") // a person has seen to it
	l.resumed = l.Now
	l.pass(t, p, 90*time.Minute)
	if l.status.Phase != nodescaler.PhaseComplete || l.status.Good != "r2" || l.revisions()["r2"] != len(l.Machines) {
		t.Errorf("tried anew: %+v, %v", l.status, l.revisions())
	}
}

// Machines that failed say nothing of those that are made once the rollout goes back: pods that
// come then do not wait for their pool's backoff to end.
func TestAfterARolloutThatFailedMachinesAreMadeAtOnce(t *testing.T) {
	for _, name := range []string{"unneeded", "joint"} {
		l := newRolling(&nodescaler.Rollout{Surge: count(4)}, nodescaler.NodeCount{N: 50, Percent: true})
		p := build(t, Spec{Policy: name})
		start(t, l, p, 8)
		l.spec, l.bad["r1"] = "r1", true
		for l.status.Phase != nodescaler.PhaseRollingBack {
			l.pass(t, p, life.Step)
		}
		l.Wanted["ns/app1100"] = 12
		l.pass(t, p, 4*time.Minute)
		if n := len(l.Waiting()); n > 0 {
			t.Errorf("%s: %d pods wait for machines of the revision that is good: %+v", name, n, l.status)
		}
	}
}

func TestARolloutWithoutAGoodRevisionStops(t *testing.T) {
	l := newRolling(&nodescaler.Rollout{MaxFailures: 1, OnFailure: nodescaler.RolloutStop}, nodescaler.NodeCount{N: 50, Percent: true})
	p := build(t, Spec{Policy: "unneeded"})
	start(t, l, p, 4)
	l.spec, l.bad["r1"] = "r1", true
	l.pass(t, p, 60*time.Minute)
	if l.status.Phase != nodescaler.PhaseStopped || l.status.Why.Code != nodescaler.RolloutFailed || l.revisions()["r0"] < 4 {
		t.Errorf("in the end: %+v, %v", l.status, l.revisions())
	}
}

func TestAPersonUndoesARollout(t *testing.T) {
	by := &nodescaler.Rollout{}
	l := newRolling(by, nodescaler.NodeCount{N: 50, Percent: true})
	p := build(t, Spec{Policy: "unneeded"})
	start(t, l, p, 6)
	l.spec = "r1"
	for l.revisions()["r0"] > 3 {
		l.pass(t, p, life.Step)
	}
	by.Undo, by.Paused = "r1", true // the way back is paused, too
	l.pass(t, p, life.Step)
	before := l.revisions()["r0"]
	l.pass(t, p, 60*time.Minute)
	if after := l.revisions(); after["r0"] != before || l.status.Phase != nodescaler.PhaseRollingBack {
		t.Errorf("while it is paused: %+v, %v", l.status, after)
	}
	by.Paused = false
	l.pass(t, p, 60*time.Minute)
	if l.status.Phase != nodescaler.PhaseRolledBack || l.revisions()["r0"] != len(l.Machines) {
		t.Errorf("undone: %+v, %v", l.status, l.revisions())
	}
	l.spec = "r2" // the next one is not meant
	l.pass(t, p, 60*time.Minute)
	if l.status.Phase != nodescaler.PhaseComplete || l.revisions()["r2"] != len(l.Machines) {
		t.Errorf("a later revision: %+v, %v", l.status, l.revisions())
	}
}

func TestObjectivesThatAreMissedStopARollout(t *testing.T) {
	w := full(2)
	replaces()(w)
	began := w.Now.Add(-time.Hour)
	p := &w.Pools[0]
	p.Disruption.Rollout = &nodescaler.Rollout{}
	drifted("w-1")(w)
	for i := range w.Machines {
		w.Machines[i].Created = began.Add(time.Minute)
	}
	for i := range w.Pods {
		w.Pods[i].Workload = "ns/" + w.Pods[i].Name
	}
	for _, c := range []struct {
		workload string
		since    time.Duration // before now
		want     nodescaler.RolloutPhase
	}{
		{"ns/p-2", 11 * time.Minute, nodescaler.PhaseRollingBack},
		{"ns/p-2", 9 * time.Minute, nodescaler.PhaseProgressing},  // not for long enough
		{"ns/p-2", 2 * time.Hour, nodescaler.PhaseProgressing},    // it missed it before
		{"ns/p-1", 11 * time.Minute, nodescaler.PhaseProgressing}, // its pods are on an old machine
	} {
		p.Rolling = nodescaler.Rolling{Revision: "r1", Compared: "r1", Was: nodescaler.Rolled{Revision: "r1", Good: "r0", Phase: nodescaler.PhaseProgressing, Began: began, Since: began}}
		x := nodescaler.NewIndex(&w.Snapshot)
		if got := x.Roll(p, []nodescaler.Missed{{Workload: c.workload, Since: w.Now.Add(-c.since)}}); got.Phase != c.want {
			t.Errorf("%s for %s: %s (%s), want %s", c.workload, c.since, got.Phase, got.Why, c.want)
		}
	}
}

func TestACanaryWhosePodsAreNotReady(t *testing.T) {
	for _, c := range []struct {
		name      string
		elsewhere bool // another pod of the workload is ready on an old machine
		worked    time.Duration
		want      nodescaler.RolloutPhase
	}{
		{"it is waited for", true, 12 * time.Minute, nodescaler.PhaseCanary},
		{"it fails", true, 26 * time.Minute, nodescaler.PhaseRollingBack},
		{"its workload is ready nowhere", false, 12 * time.Minute, nodescaler.PhaseProgressing},
	} {
		w := full(2)
		replaces()(w)
		p := &w.Pools[0]
		p.Disruption.Rollout = &nodescaler.Rollout{Canary: nodescaler.Canary{Machines: 1, For: nodescaler.Duration(10 * time.Minute)}}
		drifted("w-1")(w)
		for i := range w.Pods {
			w.Pods[i].Workload, w.Pods[i].Ready, w.Pods[i].Created = "ns/app", c.elsewhere && w.Pods[i].Node == "w-1", w.Now.Add(-time.Hour)
		}
		for i := range w.Nodes {
			w.Nodes[i].Joined = w.Now.Add(-c.worked)
		}
		for i := range w.Machines {
			w.Machines[i].Since = w.Now.Add(-c.worked)
		}
		p.Rolling = nodescaler.Rolling{Revision: "r1", Compared: "r1", Was: nodescaler.Rolled{Revision: "r1", Good: "r0", Phase: nodescaler.PhaseCanary, Began: w.Now.Add(-time.Hour), Since: w.Now.Add(-time.Hour)}}
		if got := nodescaler.NewIndex(&w.Snapshot).Roll(p, nil); got.Phase != c.want {
			t.Errorf("%s: %s (%s), want %s", c.name, got.Phase, got.Why, c.want)
		}
	}
}

// A new machine that stops being ready failed, unless Proxmox VE says why it does not run; one that
// works again did not.
func TestWhichNewMachinesFailed(t *testing.T) {
	for _, c := range []struct {
		name   string
		ready  bool
		change func(*nodescaler.Machine)
		was    nodescaler.RolloutPhase
		failed []string
		want   nodescaler.RolloutPhase
	}{
		{"it is not ready", false, nil, nodescaler.PhaseProgressing, nil, nodescaler.PhaseStopped},
		{"its VM was stopped", false, func(m *nodescaler.Machine) { m.Problem = "Stopped: VM 1 does not run" }, nodescaler.PhaseProgressing, nil, nodescaler.PhaseProgressing},
		{"its host is away", false, func(m *nodescaler.Machine) { m.Host = "pve3" }, nodescaler.PhaseProgressing, nil, nodescaler.PhaseProgressing},
		{"another client removed it", false, func(m *nodescaler.Machine) { m.Phase, m.Removed = nodescaler.Failed, true }, nodescaler.PhaseProgressing, nil, nodescaler.PhaseProgressing},
		{"it works again", true, nil, nodescaler.PhaseStopped, []string{"w-2"}, nodescaler.PhaseProgressing},
		{"another one failed", true, nil, nodescaler.PhaseStopped, []string{"w-2", "w-9"}, nodescaler.PhaseStopped},
	} {
		w := full(2)
		replaces()(w)
		began := w.Now.Add(-time.Hour)
		p := &w.Pools[0]
		p.Disruption.Rollout = &nodescaler.Rollout{MaxFailures: 1, OnFailure: nodescaler.RolloutStop}
		drifted("w-1")(w)
		w.Hosts[2].Online = false
		w.Nodes[1].Ready, w.Nodes[1].Joined = c.ready, began.Add(time.Minute)
		if c.change != nil {
			c.change(&w.Machines[1])
		}
		p.Rolling = nodescaler.Rolling{Revision: "r1", Compared: "r1", Was: nodescaler.Rolled{
			Revision: "r1", Good: "r0", Phase: c.was, Began: began, Since: began, Failed: c.failed, Why: nodescaler.Reason{Code: nodescaler.RolloutFailed, Text: "it failed"},
		}}
		if got := nodescaler.NewIndex(&w.Snapshot).Roll(p, nil); got.Phase != c.want {
			t.Errorf("%s: %s (%s), want %s", c.name, got.Phase, got.Why, c.want)
		}
	}
}

// People change what they like, and the process starts anew. Budgets, surge, canary and pauses are
// kept in every plan. In the end all machines are of the pool's revision, or of the last good one
// if its machines fail.
func TestRolloutsKeepTheirLimits(t *testing.T) {
	for _, name := range []string{"unneeded", "joint"} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			by := &nodescaler.Rollout{Surge: rapid.SampledFrom([]*nodescaler.NodeCount{nil, count(1), count(2), {N: 30, Percent: true}}).Draw(t, "surge")}
			if n := rapid.IntRange(0, 2).Draw(t, "canary"); n > 0 {
				by.Canary = nodescaler.Canary{Machines: n, For: nodescaler.Duration(rapid.IntRange(1, 10).Draw(t, "for")) * nodescaler.Duration(time.Minute)}
			}
			l := newRolling(by, rapid.SampledFrom([]nodescaler.NodeCount{{N: 1}, {N: 3}, {N: 50, Percent: true}}).Draw(t, "budget"))
			p := build(t, Spec{Policy: name})
			start(t, l, p, rapid.IntRange(3, 8).Draw(t, "machines"))
			for range rapid.IntRange(1, 5).Draw(t, "changes") {
				switch rapid.SampledFrom([]string{"good", "bad", "pause", "restart", "load", "undo"}).Draw(t, "change") {
				case "good":
					l.spec = fmt.Sprintf("r%d", len(l.is))
				case "bad":
					l.spec = fmt.Sprintf("r%d", len(l.is))
					l.bad[l.spec] = true
				case "pause":
					by.Paused = !by.Paused
				case "restart":
					p = build(t, Spec{Policy: name})
				case "load":
					l.Wanted["ns/app1100"] = rapid.IntRange(1, 8).Draw(t, "pods")
				case "undo":
					by.Undo = l.spec
				}
				l.pass(t, p, time.Duration(rapid.IntRange(1, 25).Draw(t, "minutes"))*time.Minute)
			}
			by.Paused = false
			l.Wanted["ns/app1100"] = max(l.Wanted["ns/app1100"], 3)
			l.pass(t, p, 6*time.Hour)
			want := l.spec
			if l.bad[l.spec] || by.Undo == l.spec && l.status.Good != l.spec {
				want = l.status.Good
			}
			if got := l.revisions(); got[want] != len(l.Machines) || len(l.Waiting()) > 0 {
				t.Fatalf("in the end %v of %d, want %s: %+v", got, len(l.Machines), want, l.status)
			}
		}))
	}
}
