package planner

import (
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// sparing is a policy that holds machines as joint does before it knows more, and keeps spares.
type sparing struct{ *Planner }

func withSpares(most int) sparing {
	r := DefaultRules()
	r.EnforceNodeGroupMinSize, r.CapacityBufferPodInjectionEnabled = true, true
	r.ScaleDownUtilizationThreshold, r.ScaleDownDelayAfterAdd = 1, 0
	r.Spares = &Spared{Most: most, Worth: 30}
	r.Hold = func(n *nodescaler.NodeLoad) time.Duration {
		if len(n.Held()) == 0 {
			return 0
		}
		return 3 * time.Minute
	}
	return sparing{New(r)}
}

func (s sparing) Decide(x *nodescaler.Index) nodescaler.Plan {
	s.See(x.Snapshot, 3*time.Minute)
	plan := s.Scan(x)
	plan.LookAgain = x.Now.Add(1)
	return plan
}
