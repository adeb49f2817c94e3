package podscaler

import (
	"fmt"
	"time"
)

// Decision is what came of one run of a scaler: what was asked for, what the policy proposed,
// what the guards made of it, and the reasons in the order they applied.
type Decision struct {
	Workload string   `json:"workload"`
	From     int      `json:"from"`
	Proposed int      `json:"proposed"`
	To       int      `json:"to"`
	Known    bool     `json:"known"`
	Reasons  []Reason `json:"reasons"`
}

// Scaler decides for one workload: it runs the policy when its period has come, and applies
// the guards. Its memory is safe to forget.
type Scaler struct {
	workload Workload
	policy   Policy
	lastRun  time.Time
	lastMove time.Time
}

// NewScaler returns a scaler for w that asks p.
func NewScaler(w Workload, p Policy) *Scaler { return &Scaler{workload: w, policy: p} }

// Workload is what the scaler decides for; it is not to be changed.
func (s *Scaler) Workload() *Workload { return &s.workload }

// Due reports whether the run period has come round.
func (s *Scaler) Due(now time.Time) bool {
	return s.lastRun.IsZero() || now.Sub(s.lastRun) >= s.workload.RunPeriod
}

// Decide runs the policy and the guards.
func (s *Scaler) Decide(v *View) Decision {
	s.lastRun = v.Now
	d := Decision{Workload: s.workload.Name, From: v.Replicas, Proposed: v.Replicas, To: v.Replicas}
	r := s.policy.Desired(v)
	d.Known, d.Reasons = r.Known, r.Reasons
	if !r.Known {
		return d
	}
	d.Proposed = r.Replicas
	d.To = min(max(d.Proposed, s.workload.Min), s.workload.Max)
	if d.To != d.From && !s.lastMove.IsZero() && v.Now.Sub(s.lastMove) < s.workload.Cooldown {
		d.Reasons = append(d.Reasons, Reason{"Cooldown", fmt.Sprintf("%s since the last change, cool-down is %s", v.Now.Sub(s.lastMove), s.workload.Cooldown)})
		d.To = d.From
	}
	if d.To != d.From {
		s.lastMove = v.Now
	}
	return d
}
