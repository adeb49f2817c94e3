package podscaler

import (
	"fmt"
	"time"
)

// Pause is what a person wants left alone for a while.
type Pause struct {
	// Replicas fixes the number of replicas against the bounds and the policy; nil does not.
	Replicas *int
	// Up and Down keep the workload from growing, and from shrinking.
	Up, Down bool
	Until    time.Time // when it ends by itself; zero is not at all
	Why      string    // who paused it, for people
}

// fixed returns the number of replicas that is fixed at a time, or nil.
func (p *Pause) fixed(now time.Time) *int {
	if p.over(now) {
		return nil
	}
	return p.Replicas
}

func (p *Pause) over(now time.Time) bool { return !p.Until.IsZero() && !now.Before(p.Until) }

// String says who paused it, and until when.
func (p *Pause) String() string {
	text := "paused"
	if p.Why != "" {
		text = p.Why
	}
	if !p.Until.IsZero() {
		text += fmt.Sprintf(" until %s", p.Until.Format(time.RFC3339))
	}
	return text
}

// pause takes a change back in a direction that a person has paused. Nothing is above it.
func (s *Scaler) pause(v *View, d *Decision) {
	p := &v.Pause
	if p.Replicas != nil || p.over(v.Now) {
		return
	}
	switch {
	case p.Up && d.To > d.From:
		d.because(ReasonPaused, "%d wanted, but growing is paused: %s", d.To, p)
	case p.Down && d.To < d.From:
		d.because(ReasonPaused, "%d wanted, but shrinking is paused: %s", d.To, p)
	default:
		return
	}
	d.To = d.From
}

// mayGrow reports whether replicas may be added, and machines ordered for them.
func (s *Scaler) mayGrow(v *View) bool {
	return !(v.Pause.Up && !v.Pause.over(v.Now)) && s.workload.Behavior.grows()
}
