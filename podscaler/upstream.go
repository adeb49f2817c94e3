package podscaler

import (
	"cmp"
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Upstream says what looks like an outage of those who call the workload, or of those it calls:
// most of the requests are gone at once, and of the rest more fail; or they come as before, and
// many more fail. Shrinking by that would leave too little for the moment when all is well again.
// It is on unless Off, and needs Window.Arrivals and Window.Errors.
type Upstream struct {
	Off bool
	// Drop is the share of the arrivals that must be gone; 0 is 0.9.
	Drop float64
	// Within is the time in which they must have gone, besides the window that they are measured
	// over; 0 is 1m.
	Within time.Duration
	// ErrorRise is by how much the fraction of failed requests must have risen; 0 is 0.01.
	ErrorRise float64
	// Hold is how long nothing is shrunk, after the last run that gave cause; 0 is 15m.
	Hold time.Duration
}

// failingRise is by how much the fraction of failed requests must have risen to be cause enough
// where they come as before. Requests that fail fast make any policy see a load that falls so much.
const failingRise = 0.25

// filled returns the settings with the defaults in.
func (u Upstream) filled() Upstream {
	u.Drop, u.ErrorRise = cmp.Or(u.Drop, 0.9), cmp.Or(u.ErrorRise, 0.01)
	u.Within, u.Hold = cmp.Or(u.Within, time.Minute), cmp.Or(u.Hold, 15*time.Minute)
	return u
}

func (u *Upstream) validate(f *Faults) {
	f.Unless(u.Drop >= 0 && u.Drop <= 1, "upstream.drop", "must be above 0 and at most 1", u.Drop)
	f.Unless(u.Within >= 0, "upstream.within", "must be above 0", u.Within)
	f.Unless(u.ErrorRise >= 0 && u.ErrorRise <= 1, "upstream.errorRise", "must be above 0 and at most 1", u.ErrorRise)
	f.Unless(u.Hold >= 0, "upstream.hold", "must be above 0", u.Hold)
}

// traffic is what came in at one run.
type traffic struct {
	at     time.Time
	rate   float64
	errors Reading
	blind  bool // requests that have not ended are counted nowhere
}

// suspicion is that the callers are out of order.
type suspicion struct {
	until time.Time
	why   string
}

// watch keeps account of what comes in, and grows suspicious. What was there before the first run
// is not known: until a suspicion from that time would be over, failing requests are enough for
// one.
func (s *Scaler) watch(v *View) {
	u, m := s.workload.Upstream.filled(), &s.memory
	rate, known := v.Window.Arrivals.Number()
	if u.Off || !known {
		return
	}
	_, flying := v.Window.InFlight.Number()
	m.remember(traffic{v.Now, rate, v.Window.Errors, !flying}, u.Within+s.measuredOver(v))
	if why := m.failing(u); why != "" {
		m.suspicion = suspicion{v.Now.Add(u.Hold), why}
	}
	if v.Now.Before(m.suspicion.until) {
		return
	}
	failed, measured := v.Window.Errors.Number()
	if why := cmp.Or(m.collapse(u), m.hanging()); why != "" {
		m.suspicion = suspicion{v.Now.Add(u.Hold), why}
		m.traffic = nil
	} else if begun := m.started.Add(u.Hold); measured && failed >= u.ErrorRise && v.Now.Before(begun) {
		m.suspicion = suspicion{begun, fmt.Sprintf("%.3g%% of the requests fail, and what came in before the first run is not known", 100*failed)}
	}
}

// remember keeps what came in, as far back as a collapse is looked for. The run before is kept
// however long it is ago.
func (m *memory) remember(t traffic, lookback time.Duration) {
	m.traffic = append(m.traffic, t)
	for len(m.traffic) > 2 && t.at.Sub(m.traffic[0].at) > lookback {
		m.traffic = m.traffic[1:]
	}
}

// failing says how many requests fail of those that still come, or nothing. It goes by the fewest
// that were ever seen to fail, and by what came in when it was last as few. Where most requests are
// gone, the collapse alone counts: what fails then may do so for good.
func (m *memory) failing(u Upstream) string {
	now, fewest := m.traffic[len(m.traffic)-1], &m.sound.errors
	failed, known := now.errors.Number()
	switch {
	case !known:
	case !fewest.Known || failed < fewest.Value+u.ErrorRise:
		if fewest.Known {
			now.errors.Value = min(failed, fewest.Value)
		}
		m.sound = now
	case failed >= fewest.Value+max(failingRise, u.ErrorRise)-1e-9 && now.rate > m.sound.rate*(1-u.Drop)*slack:
		return fmt.Sprintf("%.3g%% of the requests fail, of which it was %.3g%%", 100*failed, 100*fewest.Value)
	}
	return ""
}

// slack is for sums that are not quite what they should be: 200 less 90 % is not quite 20.
const slack = 1 + 1e-9

// collapse says from what to what the traffic has collapsed, or nothing.
func (m *memory) collapse(u Upstream) string {
	now := m.traffic[len(m.traffic)-1]
	worst, measured := now.errors.Number()
	for i := len(m.traffic) - 2; i >= 0; i-- {
		was := m.traffic[i]
		failed, known := was.errors.Number()
		if known && measured && was.rate > 0 && now.rate <= was.rate*(1-u.Drop)*slack && worst >= failed+u.ErrorRise-1e-9 {
			return fmt.Sprintf("arrivals went from %.4g to %.4g a second within %s while failures went from %.3g%% to %.3g%%",
				was.rate, now.rate, pricing.Short(now.at.Sub(was.at)), 100*failed, 100*worst)
		}
		if known {
			worst, measured = max(worst, failed), true
		}
	}
	return ""
}

// hanging says from what the traffic has ended at once, or nothing. Where requests count at their
// end alone, those that all hang look like none.
func (m *memory) hanging() string {
	now := m.traffic[len(m.traffic)-1]
	if _, measured := now.errors.Number(); measured || !now.blind || now.rate > 0 {
		return ""
	}
	for i := len(m.traffic) - 2; i >= 0; i-- {
		was := m.traffic[i]
		if _, known := was.errors.Number(); known && was.rate > 0 {
			return fmt.Sprintf("arrivals went from %.4g to 0 a second within %s, and requests that hang may not be counted",
				was.rate, pricing.Short(now.at.Sub(was.at)))
		}
	}
	return ""
}

// called holds the shrinking of a workload whose callers seem to be out of order.
func (s *Scaler) called(v *View, d *Decision) (Reason, bool) {
	left := s.memory.suspicion.until.Sub(v.Now)
	if d.To >= d.From || left <= 0 {
		return Reason{}, false
	}
	return Because(ReasonUpstreamSuspect, "%d wanted, but %s: %s left", d.To, s.memory.suspicion.why, pricing.Short(left)), true
}
