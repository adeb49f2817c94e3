package approval

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// money is what machines cost: those that there are, and those that a step adds.
type money struct {
	x     *nodescaler.Index
	all   []pricing.Placed
	pools map[string][]pricing.Placed
	more  map[string]pricing.Rate // what pools' machines add in this step
}

func newMoney(x *nodescaler.Index) *money {
	m := &money{x: x, pools: map[string][]pricing.Placed{}, more: map[string]pricing.Rate{}}
	for i := range x.Snapshot.Machines {
		p := placed(&x.Snapshot.Machines[i])
		m.all = append(m.all, p)
		pool := x.Snapshot.Machines[i].Pool
		m.pools[pool] = append(m.pools[pool], p)
	}
	return m
}

func placed(m *nodescaler.Machine) pricing.Placed {
	return pricing.Placed{Shape: m.Shape, Host: m.Host, Stopped: m.Phase == nodescaler.Spare}
}

// pool is what a pool's machines cost an hour, with the hosts that carry them.
func (m *money) pool(name string) pricing.Rate {
	return m.x.Book().Total(m.pools[name], m.x.Now) + m.more[name]
}

// with are all machines once an action is done.
func (m *money) with(a *nodescaler.Action) []pricing.Placed {
	all := slices.Clone(m.all)
	if a.Kind == nodescaler.Buy {
		return append(all, pricing.Placed{Shape: *a.Shape, Host: a.Host})
	}
	machine := m.x.Machine(a.Machine)
	if machine == nil {
		return all
	}
	i := slices.Index(all, placed(machine))
	switch {
	case i < 0:
	case a.Kind == nodescaler.Wake:
		all[i].Stopped = false
	default:
		all = slices.Delete(all, i, i+1)
	}
	return all
}

// marginal is what an action adds to the cost of all machines, with the fixed part of a host that
// begins or ends to carry some.
func (m *money) marginal(a *nodescaler.Action) pricing.Rate {
	return m.x.Book().Total(m.with(a), m.x.Now) - m.x.Book().Total(m.all, m.x.Now)
}

// spend counts what an action adds that is done.
func (m *money) spend(a *nodescaler.Action) {
	if a.Kind == nodescaler.Buy || a.Kind == nodescaler.Wake {
		m.more[a.Pool] += m.marginal(a)
		m.all = m.with(a)
	}
}

// change is what an action is part of.
func (m *money) change(a *nodescaler.Action) *Change {
	ch := &Change{Kind: aboutPool, Object: a.Pool, Does: EndMachine, Why: a.Reasons, Unit: m.x.Book().Unit}
	switch a.Kind {
	case nodescaler.Buy:
		ch.Does, ch.Subject, ch.Count = OrderMachines, a.Shape.Name, 1
		if a.Keep {
			ch.Subject += " spare"
		}
	case nodescaler.Wake:
		ch.Does, ch.Count = WakeSpares, 1
		if machine := m.x.Machine(a.Machine); machine != nil {
			ch.Subject = machine.Shape.Name
		}
	case nodescaler.Cordon, nodescaler.Uncordon, nodescaler.Evict, nodescaler.DeletePod, nodescaler.Return, nodescaler.Stash, nodescaler.Reboot:
		ch.Subject = a.Machine
	}
	of := *a
	of.Machine = cmp.Or(a.Machine, ch.Subject)
	ch.Price = m.marginal(&of)
	return ch
}
