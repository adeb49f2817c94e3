package loop

import (
	"errors"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// account keeps the ledger from what is observed: a machine is paid for from its creation
// until the step that no longer sees it.
type account struct {
	ledger  *pricing.Ledger
	started time.Time
	open    []string                  // machines that are being charged, sorted
	as      map[string]pricing.Placed // what those are charged as
	stopped map[string]time.Time
}

// see brings the ledger up to date with the machines of this step.
func (a *account) see(book *pricing.Book, machines []nodescaler.Machine, now time.Time) error {
	if a.ledger == nil {
		a.ledger, a.started, a.stopped, a.as = pricing.NewLedger(book), now, map[string]time.Time{}, map[string]pricing.Placed{}
	}
	var errs []error
	still := make([]string, 0, len(machines))
	for i := range machines {
		m := &machines[i]
		if m.Created.IsZero() { // ordered, and not there yet
			continue
		}
		still = append(still, m.Name)
		_, known := slices.BinarySearch(a.open, m.Name)
		was := a.as[m.Name]
		is := pricing.Placed{Shape: m.Shape, Host: m.Host}
		is.Stopped = m.Phase == nodescaler.Spare || was.Stopped && m.Phase == nodescaler.Deleting
		switch {
		case known && was == is:
		case known && was.Stopped == is.Stopped: // it was moved or resized
			errs = append(errs, a.change(m.Name, is, now))
		default:
			errs = append(errs, a.charge(m, known, now))
		}
	}
	for _, name := range a.open {
		if _, there := slices.BinarySearch(still, name); !there {
			errs = append(errs, a.ledger.Stop(name, now))
			a.stopped[name] = now
			delete(a.as, name)
		}
	}
	a.open = still
	return errors.Join(errs...)
}

// charge begins to charge for a machine as it is: running, or kept.
func (a *account) charge(m *nodescaler.Machine, known bool, now time.Time) error {
	by := func(t time.Time) time.Time { // a clock that was put back says when it was made, too
		if t.After(now) {
			return now
		}
		return t
	}
	from, begin := by(m.Created), a.ledger.Start
	if known { // what was between its last change and now was charged the other way already
		from = now
	}
	if t := a.stopped[m.Name]; t.After(from) { // it was not listed for a while, and not gone
		from = t
	}
	off := m.Phase == nodescaler.Spare
	a.as[m.Name] = pricing.Placed{Shape: m.Shape, Host: m.Host, Stopped: off}
	if !off {
		return begin(m.Name, m.Shape, m.Host, from)
	}
	begin = a.ledger.Keep
	// before that it ran, unobserved; none that is known can have been stopped after now
	if since := by(m.Since); since.After(from) {
		if err := a.ledger.Start(m.Name, m.Shape, m.Host, from); err != nil {
			return err
		}
		from = since
	}
	return begin(m.Name, m.Shape, m.Host, from)
}

// change charges for a machine from now on as what it is, and until now as what it was.
func (a *account) change(name string, is pricing.Placed, now time.Time) error {
	if err := a.ledger.Stop(name, now); err != nil {
		return err
	}
	begin := a.ledger.Start
	if is.Stopped {
		begin = a.ledger.Keep
	}
	a.as[name] = is
	return begin(name, is.Shape, is.Host, now)
}

// period returns the cost period that now lies in; periods follow each other from the first
// step on.
func (a *account) period(per time.Duration, now time.Time) (from, to time.Time) {
	from = a.started.Add(now.Sub(a.started).Truncate(per))
	return from, from.Add(per)
}

// rates adds up what the joined machines cost now, and what all do.
func rates(s *nodescaler.Snapshot) (joined, ordered pricing.Rate) {
	var in, all []pricing.Placed
	for i := range s.Machines {
		m := &s.Machines[i]
		p := pricing.Placed{Shape: m.Shape, Host: m.Host, Stopped: m.Phase == nodescaler.Spare}
		all = append(all, p)
		if m.Phase == nodescaler.Joined {
			in = append(in, p)
		}
	}
	return s.Prices.Total(in, s.Now), s.Prices.Total(all, s.Now)
}
