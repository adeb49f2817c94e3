package testbed

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/testbed/sim"
)

// In returns the experiment as it is at a level of load: where a scenario says so, in another
// world.
func (e *Experiment) In(l Level) *Experiment {
	for i := range e.Load.Scenarios {
		if s := &e.Load.Scenarios[i]; s.Name == l.Scenario && s.Otherwise != nil {
			return e.otherwise(s.Otherwise)
		}
	}
	return e
}

func (e *Experiment) otherwise(o *Otherwise) *Experiment {
	out := *e
	if o.Think > 0 {
		out.Load.Think = o.Think
	}
	out.Workloads = slices.Clone(e.Workloads)
	for i := range out.Workloads {
		out.Workloads[i].become(o)
	}
	if o.Delays != nil {
		out.Delays = *o.Delays
	}
	if o.Signals != nil {
		out.Signals = *o.Signals
	}
	out.Faults = slices.Concat(e.Faults, o.Faults)
	return &out
}

func (w *Workload) become(o *Otherwise) {
	if o.Demand != nil {
		w.Demand = *o.Demand
	}
	if o.Quota > 0 {
		w.Quota = o.Quota
	}
	if o.Balance != "" {
		w.Balance = o.Balance
	}
}

// check asks a world whether it can be what the experiment wants at every level.
func (e *Experiment) check(w World) error {
	if err := w.Check(e); err != nil {
		return err
	}
	var errs []error
	for i := range e.Load.Scenarios {
		s := &e.Load.Scenarios[i]
		if s.Otherwise == nil {
			continue
		}
		if err := w.Check(e.otherwise(s.Otherwise)); err != nil {
			errs = append(errs, fmt.Errorf("scenario %s: %w", s.Name, err))
		}
	}
	return errors.Join(errs...)
}

// validate looks at what a scenario that lasts so long has otherwise. What it does not set is
// validated in the experiment.
func (o *Otherwise) validate(f *Faults, path string, e *Experiment, lasts time.Duration) {
	if o == nil {
		return
	}
	f.Must(o.Think >= 0, path+".think", "must not be negative", o.Think)
	if o.Demand != nil {
		o.Demand.validate(f, path+".demand")
	}
	f.Must(o.Quota >= 0, path+".quota", "must not be negative", o.Quota)
	if o.Balance != "" {
		f.OneOf(path+".balance", string(o.Balance), balances)
	}
	if o.Delays != nil {
		o.Delays.validate(f, path+".delays")
	}
	if o.Signals != nil {
		o.Signals.validate(f, path+".signals")
	}
	checker{e, f}.validateFaults(path+".faults", o.Faults, lasts)
}

// whole says whether a duration is so many seconds, to which signals are kept.
func whole(d time.Duration) bool { return d%time.Second == 0 }

var balances = []string{string(sim.LeastOfTwo), string(sim.AtRandom)}

// faultKinds are what can go wrong.
func faultKinds() []string {
	out := make([]string, len(sim.FaultKinds))
	for i, k := range sim.FaultKinds {
		out[i] = string(k)
	}
	return out
}
