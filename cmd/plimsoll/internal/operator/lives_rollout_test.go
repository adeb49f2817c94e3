package operator

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
)

// rollsOut reports whether what machines are made from changes in a life, and people watch over it.
// Pools that cluster-autoscaler scales have no rollouts.
func rollsOut(seed uint64) bool {
	return !viaProvider(seed) && rand.New(rand.NewPCG(seed, 9)).IntN(3) == 0
}

// rolloutHappenings are what those lives may meet besides, by kind.
var rolloutHappenings = map[string]func(*life, *rand.Rand){
	"template changed": changesTemplate,
	"bad template": func(l *life, r *rand.Rand) {
		changesTemplate(l, r)
		l.pools["aa"].Spec.Guest.CPUType = broken
	},
	"rollout paused": func(l *life, r *rand.Rand) {
		if by := l.rollout(); by != nil {
			by.Paused = r.IntN(2) == 0
			l.pools["aa"].Generation++
		}
	},
	"rollout undone": func(l *life, _ *rand.Rand) {
		if by, st := l.rollout(), l.pools["aa"].Status.Rollout; by != nil && st != nil {
			by.Undo = st.Revision
			l.pools["aa"].Generation++
		}
	},
	"rollout resumed": func(l *life, _ *rand.Rand) { l.resumeRollout(l.pools["aa"]) },
}

// changesTemplate has the pool make other machines, and roll them out in some way.
func changesTemplate(l *life, r *rand.Rand) {
	p := l.pools["aa"]
	l.breaks = func(config map[string]string) bool { return config["cpu"] == broken }
	p.Spec.JoinTimeout = "3m"
	p.Spec.Guest.CPUType = one(r, []string{"host", "x86-64-v2-AES", "x86-64-v3"})
	p.Spec.Disruption = &v1alpha1.Disruption{
		Drift: "Replace", Budgets: []v1alpha1.NodeBudget{{Nodes: one(r, []v1alpha1.NodeCount{"1", "50%"})}},
		Rollout: &v1alpha1.Rollout{
			Surge: one(r, []v1alpha1.NodeCount{"", "1", "2", "50%"}), Canary: one(r, []*v1alpha1.Canary{nil, {Machines: 1, For: "2m"}, {Machines: 2, For: "5m"}}),
			MaxFailures: int32(r.IntN(3)), OnFailure: one(r, []string{"", "", "Stop"}),
		},
	}
	p.Generation++
}

// rollout is that of the pool, or nil.
func (l *life) rollout() *v1alpha1.Rollout {
	if d := l.pools["aa"].Spec.Disruption; d != nil {
		return d.Rollout
	}
	return nil
}

// resumeRollout has a person try a rollout anew that has stopped.
func (l *life) resumeRollout(p *v1alpha1.VMPool) {
	said := map[string]string{v1alpha1.AnnotationRolloutResumed: l.now().UTC().Format(time.RFC3339)}
	for key, value := range p.Annotations {
		if key != v1alpha1.AnnotationRolloutResumed {
			said[key] = value
		}
	}
	p.Annotations = said
}

// calmRollout has a person see to what is made, and try it anew.
func (l *life) calmRollout(p *v1alpha1.VMPool) {
	if p.Spec.Guest.CPUType == broken {
		p.Spec.Guest.CPUType = "host"
		p.Generation++
	}
	if by := l.rollout(); by != nil {
		by.Paused, by.Undo = false, ""
		l.resumeRollout(p)
	}
}

// rolled is what holds of the rollout in the end: what works is not rolled back, nor stopped. An
// objective may be missed for other reasons, and a process whose clock is ahead of the API server's
// takes a pod that was just made for one that is late.
func (l *life) rolled() {
	p := l.pools["aa"]
	excused := func(message string) bool {
		return strings.Contains(message, "has missed its objective") || l.ahead > 0 && strings.Contains(message, "is not ready on")
	}
	if st := p.Status.Rollout; st != nil && l.rollout() != nil && !excused(st.Message) {
		switch nodescaler.RolloutPhase(st.Phase) {
		case nodescaler.PhaseStopped, nodescaler.PhaseRollingBack, nodescaler.PhaseRolledBack:
			l.fault("at the end the rollout is %s, and its machines work: %s", st.Phase, st.Message)
		case nodescaler.PhaseComplete, nodescaler.PhaseCanary, nodescaler.PhaseProgressing, nodescaler.PhasePaused:
		}
	}
}
