package notify

import "time"

// quiet is how long a condition must have been over before that is notified. One that comes and
// goes is reported once.
const quiet = 5 * time.Minute

// Alerts keeps account of what has been reported. It is for one goroutine.
type Alerts struct {
	open map[alertKey]*alert
}

type alertKey struct{ kind, namespace, name, condition string }

type alert struct {
	over time.Time // since when it is over; zero while it is not
}

// Statement is what is known of a condition of an object.
type Statement struct {
	Notice      // Status is filled in by Alerts
	Bad    bool // it needs attention
	// WasBad says that the object's own status, which outlives the process, had it so before: then
	// it has been reported already.
	WasBad bool
}

// See takes a statement in, and returns the notice to be sent because of it, or nil.
func (a *Alerts) See(s Statement) *Notice {
	key := alertKey{s.Kind, s.Namespace, s.Name, s.Condition}
	known, n := a.open[key], s.Notice
	switch {
	case s.Bad && known != nil:
		known.over = time.Time{}
	case s.Bad:
		a.remember(key)
		if !s.WasBad {
			n.Status = Firing
			return &n
		}
	case known == nil && s.WasBad:
		a.remember(key)
		a.open[key].over = s.Time
	case known == nil:
	case known.over.IsZero() || s.Time.Before(known.over): // or the clock was put back
		known.over = s.Time
	case s.Time.Sub(known.over) >= quiet:
		delete(a.open, key)
		n.Status = Resolved
		return &n
	}
	return nil
}

func (a *Alerts) remember(key alertKey) {
	if a.open == nil {
		a.open = map[alertKey]*alert{}
	}
	a.open[key] = &alert{}
}

// Forget drops what is known of objects for which keep says no: they are gone.
func (a *Alerts) Forget(keep func(kind, namespace, name string) bool) {
	for key := range a.open {
		if !keep(key.kind, key.namespace, key.name) {
			delete(a.open, key)
		}
	}
}
