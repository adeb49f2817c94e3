package loop

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// Intent is what people want, as of one step.
type Intent struct {
	// Pools are those that machines are decided on for here. HeldUp and HeldDown of a pool are why
	// nothing is done that gives it more capacity, or less. Beside a pool that is not held it is
	// planned around; while all pools are held, plans are recommendations, and made as if none
	// were.
	Pools []nodescaler.Pool
	// Offered are the pools that cluster-autoscaler orders machines of. None is planned for here,
	// but workloads that want more replicas may count on them.
	Offered []nodescaler.Pool
	// Others says of further pools why their machines are left alone.
	Others map[string]nodescaler.Reason
	// HandedOff says that replicas which are expected beyond those decided on are made known to
	// whoever orders machines for them. Here, only those whose places were made so far are planned
	// for.
	HandedOff bool
	Workloads []Workload
	Prices    *pricing.Book
	// Limit is what all machines together may cost an hour; 0 is no limit. No machine is
	// ordered beyond it, for any policy.
	Limit pricing.Rate
	// Quotas are what namespaces may take of the machines. The first that fits a namespace counts.
	Quotas []nodescaler.Quota
	// Consent is about what people are asked first.
	Consent approval.Consent
	// DryRun decides and records, and does nothing.
	DryRun bool
}

// Workload is what people want of one workload.
type Workload struct {
	podscaler.Workload
	Policy PolicySpec // nil decides nothing
	// Paused leaves everything about it as it is, also what was made known of it.
	Paused bool
	// Held is why its replicas are not changed; they are decided on and recorded all the same.
	Held *nodescaler.Reason
	// Pause fixes its replicas, or keeps them from going one way.
	Pause podscaler.Pause
	// Missed is since when its objective has been missed; zero while it is not.
	Missed time.Time
	// ScaledToZero says that its status records replicas of 0 as our own doing. A scaler goes by
	// it at its first look, and by its memory after that.
	ScaledToZero bool
	// SwitchedOff says that it records them as another client's.
	SwitchedOff bool
	// ByContainer says that its policy goes by what containers use, and not by pods' CPU alone.
	ByContainer bool
	// Sizes is what is wanted of the requests of its pods; nil leaves them alone.
	Sizes *rightsize.Wants
}

// PolicySpec makes a workload's policy. What a policy remembers lasts as long as workload and spec
// are deeply equal to those of the step before, but for what pods request.
type PolicySpec interface {
	New() (podscaler.Policy, error)
}

// Scaled is a workload with a policy that is there already.
func Scaled(w podscaler.Workload, p podscaler.Policy) Workload {
	return Workload{Workload: w, Policy: &made{p}}
}

type made struct{ policy podscaler.Policy }

func (m *made) New() (podscaler.Policy, error) { return m.policy, nil }

// same reports whether the workload is wanted as it was. What pods request does not count: it is
// measured, and sizing changes it and so does a webhook.
func (w *Workload) same(o *Workload) bool {
	is := o.Workload
	is.Pod = w.Pod
	return reflect.DeepEqual(w.Policy, o.Policy) && reflect.DeepEqual(w.Workload, is)
}

// held says why an action of the kind is not to be done for a pool, or nil.
func (in *Intent) held(pool string, k nodescaler.Kind) *nodescaler.Reason {
	if i := slices.IndexFunc(in.Pools, func(p nodescaler.Pool) bool { return p.Name == pool }); i >= 0 {
		if k.Grows() {
			return in.Pools[i].HeldUp
		}
		return in.Pools[i].HeldDown
	}
	if pool == "" {
		return nil
	}
	if why, known := in.Others[pool]; known {
		return &why
	}
	return &nodescaler.Reason{Code: nodescaler.PoolUnknown, Text: fmt.Sprintf("there is no VMPool %s: its machines are left alone", pool)}
}

// onlyRecommends reports whether all pools are held, both ways. Nothing comes of a plan then: it
// may as well say what would be done to them, and what machines replicas would need that are only
// recommended. Otherwise machines would be ordered, or kept, for what nothing is done about.
func (in *Intent) onlyRecommends() bool {
	return !slices.ContainsFunc(in.Pools, func(p nodescaler.Pool) bool { return p.HeldUp == nil || p.HeldDown == nil })
}

// planned are the pools as policies are to see them.
func (in *Intent) planned() []nodescaler.Pool {
	pools := slices.Clone(in.Pools)
	only := in.onlyRecommends()
	for i := range pools {
		p := &pools[i]
		if only {
			p.HeldUp, p.HeldDown = nil, nil
		}
		p.HeldUp, p.HeldDown = named(p.Name, p.HeldUp), named(p.Name, p.HeldDown)
	}
	return pools
}

func named(pool string, why *nodescaler.Reason) *nodescaler.Reason {
	if why == nil {
		return nil
	}
	return &nodescaler.Reason{Code: why.Code, Text: fmt.Sprintf("pool %s is left as it is: %s", pool, why.Text)}
}

// book is what machines are priced by.
func (in *Intent) book() *pricing.Book { return cmp.Or(in.Prices, defaultBook) }

var defaultBook = pricing.DefaultBook()
