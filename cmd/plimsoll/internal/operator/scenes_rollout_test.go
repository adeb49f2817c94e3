package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// broken is the type of CPU that no machine of the town becomes a node with.
const broken = "athlon"

// rolls gives the pool of most scenes a rollout, and has machines with a broken CPU never join.
func rolls(maximum int32, by v1alpha1.Rollout) func(*setting) {
	return func(l *setting) {
		disrupts(maximum, v1alpha1.Disruption{Drift: "Replace", Rollout: &by, Budgets: []v1alpha1.NodeBudget{{Nodes: "100%"}}})(l)
		l.pools["aa"].Spec.JoinTimeout = "2m"
		l.breaks = func(config map[string]string) bool { return config["cpu"] == broken }
	}
}

// changedBadly has the pool make machines from then on that never become nodes.
func changedBadly(at time.Duration) act {
	return act{at: at, do: func(l *setting) { l.pools["aa"].Spec.Guest.CPUType = broken }}
}

// rolledOut is what happens as soon as the rollout of the pool is in a phase.
func rolledOut(phase nodescaler.RolloutPhase, do func(*setting)) act {
	return act{at: 8 * time.Minute, when: func(l *setting) bool {
		st := l.pools["aa"].Status.Rollout
		return st != nil && st.Phase == string(phase)
	}, do: do}
}

// rolloutScenes are about machines that are replaced since their pool makes others now.
var rolloutScenes = []scene{
	{
		name: "a rollout begins with a canary", services: []*service{deployment("web", 3, 1500, halfGiB)}, long: 45 * time.Minute,
		before: rolls(8, v1alpha1.Rollout{Surge: "1", Canary: &v1alpha1.Canary{Machines: 1, For: "5m"}}),
		acts:   []act{rolledOut(nodescaler.PhaseComplete, func(l *setting) { l.pools["aa"].Spec.Guest.CPUType = "host" }), rolledOut(nodescaler.PhaseCanary, func(*setting) {})},
		says: []string{
			v1alpha1.ConditionRolledOut, nodescaler.RolloutComplete, nodescaler.RolloutCanary, nodescaler.RolloutProgressing, nodescaler.RolloutHeld, nodescaler.RolloutSurge,
		},
	},
	{
		name: "a rollout that fails is rolled back", services: []*service{deployment("web", 2, 1500, halfGiB)}, long: 60 * time.Minute,
		before: rolls(8, v1alpha1.Rollout{}), acts: []act{changedBadly(8 * time.Minute), rolledOut(nodescaler.PhaseRolledBack, func(*setting) {})},
		says: []string{nodescaler.RolloutFailed, nodescaler.RolloutRolledBack},
	},
	{
		name: "a person goes back to the last good revision", services: []*service{deployment("web", 3, 1500, halfGiB)}, long: 60 * time.Minute,
		before: rolls(8, v1alpha1.Rollout{Surge: "1"}),
		acts: []act{changed(8 * time.Minute), {
			when: func(l *setting) bool {
				st := l.pools["aa"].Status.Rollout
				return st != nil && st.Phase == string(nodescaler.PhaseProgressing) && st.Updated > 0 && st.Updated < st.Total
			},
			do: func(l *setting) { l.pools["aa"].Spec.Disruption.Rollout.Undo = l.pools["aa"].Status.Rollout.Revision },
		}, rolledOut(nodescaler.PhaseRolledBack, func(*setting) {})},
		says: []string{nodescaler.RolloutRollingBack, nodescaler.RolloutRolledBack},
	},
	{
		name: "a rollout is paused", services: []*service{deployment("web", 1, 1500, halfGiB)}, long: 20 * time.Minute,
		before: rolls(4, v1alpha1.Rollout{}),
		acts:   []act{changed(8 * time.Minute), {at: 8 * time.Minute, do: func(l *setting) { l.pools["aa"].Spec.Disruption.Rollout.Paused = true }}},
		says:   []string{nodescaler.RolloutPaused, nodescaler.RolloutHeld},
	},
}

// Twenty machines under load and disruption budgets are to be replaced. In the middle the template
// is changed to one whose machines never join. The rollout stops and goes back, and no pod is lost.
func TestARolloutOfTwentyMachinesWithABadTemplate(t *testing.T) {
	if race.On {
		t.Skip("nothing is listened to under the race detector")
	}
	s := &scene{nodes: quick(), objects: scenePool, long: 5 * time.Hour}
	for i := range 4 {
		web := deployment(fmt.Sprintf("web%d", i), 5, 1500, halfGiB)
		web.available = 4
		s.services = append(s.services, web)
	}
	s.before = func(l *setting) {
		rolls(26, v1alpha1.Rollout{Surge: "3", Canary: &v1alpha1.Canary{Machines: 1, For: "5m"}})(l)
		l.pools["aa"].Spec.VMIDs.Last, l.pools["aa"].Spec.Disruption.Budgets = 1099, []v1alpha1.NodeBudget{{Nodes: "25%"}}
		l.cfg.Interval, l.most = 20*time.Second, 26
	}
	rollout := func(l *setting) v1alpha1.RolloutStatus {
		if st := l.pools["aa"].Status.Rollout; st != nil {
			return *st
		}
		return v1alpha1.RolloutStatus{}
	}
	var met []string
	served := map[string]int{} // the fewest pods of each service that were ready
	s.acts = []act{
		{when: func(l *setting) bool { return rollout(l).Phase == "Complete" && rollout(l).Total == 20 }, do: func(l *setting) {
			l.pools["aa"].Spec.Guest.CPUType = "host"
			for _, w := range l.services {
				served[w.name] = w.replicas
			}
		}},
		{when: func(l *setting) bool { return rollout(l).Phase == "Progressing" && rollout(l).Updated >= 8 }, do: func(l *setting) { l.pools["aa"].Spec.Guest.CPUType = broken }},
		{when: func(l *setting) bool {
			for _, w := range l.services {
				if _, began := served[w.name]; began {
					served[w.name] = min(served[w.name], l.ready(w))
				}
			}
			if phase := rollout(l).Phase; len(met) == 0 || met[len(met)-1] != phase {
				met = append(met, phase)
			}
			return rollout(l).Phase == "RolledBack"
		}, do: func(l *setting) {
			for _, v := range l.machines() {
				if v.Config["cpu"] == broken || v.Config["cpu"] == "host" {
					l.fault("%s is left of another revision: cpu %s", v.Config["name"], v.Config["cpu"])
				}
			}
		}},
	}
	l, err := newScene(s)
	if err != nil {
		t.Fatal(err)
	}
	listened(func() { l.play(s) })
	if len(l.wrong) > 0 {
		t.Fatalf("%v\nphases: %v\n%+v\n%s", l.wrong, met, rollout(l), strings.Join(l.log[max(0, len(l.log)-200):], "\n"))
	}
	for name, fewest := range served {
		if fewest < 4 {
			t.Errorf("%s had only %d pods that were ready", name, fewest)
		}
	}
	for _, phase := range []string{"Complete", "Canary", "Progressing", "RollingBack", "RolledBack"} {
		if !slices.Contains(met, phase) {
			t.Errorf("it never was %s: %v", phase, met)
		}
	}
	state, err := l.fleet.List(context.Background())
	if err != nil || len(state.Machines) < 20 {
		t.Errorf("there are %d machines: %v", len(state.Machines), err)
	}
}
