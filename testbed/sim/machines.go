package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

// ErrNoRoom is what an order is refused with when its host cannot hold the machine.
var ErrNoRoom = fmt.Errorf("%w: no room on the host", loop.ErrRefused)

// fleet is the hosts, the machines on them and what these cost.
type fleet struct {
	cluster
	hosts    []nodescaler.Host
	machines []*machine // by name
	cloning  cloning
	chance   chances
	down     map[string]int // faults that keep a host down

	ledger *pricing.Ledger
	peak   pricing.Rate
	spent  pricing.Micros // on spares that are none any more

	Totals Totals
}

// chances are the fleet's own streams of chance.
type chances struct{ clone, boot, remove, wake *rand.Rand }

// machine is a virtual machine, from its order until it is gone.
type machine struct {
	obs  nodescaler.Machine
	pool *nodescaler.Pool
	node *node
	dead bool      // its host is down
	off  bool      // it was stopped when it was reclaimed
	from time.Time // it runs, or is kept, since then
}

// runs reports whether it is paid for as a machine that runs.
func (m *machine) runs() bool {
	return !m.obs.Created.IsZero() && m.obs.Phase != nodescaler.Spare && !m.off
}

// List returns the hosts and the machines as they are.
func (f *fleet) List(context.Context) (loop.MachineState, error) {
	s := loop.MachineState{Hosts: slices.Clone(f.hosts), Machines: make([]nodescaler.Machine, len(f.machines))}
	for i, m := range f.machines {
		s.Machines[i] = m.obs
	}
	return s, nil
}

// Create orders a machine. An order that is known already changes nothing.
func (f *fleet) Create(_ context.Context, o loop.Order) error {
	a := o.Action
	if slices.ContainsFunc(f.machines, func(m *machine) bool { return m.obs.Order == o.ID }) {
		return nil
	}
	i := slices.IndexFunc(f.cfg.Pools, func(p nodescaler.Pool) bool { return p.Name == a.Pool })
	if i < 0 {
		return fmt.Errorf("%w: pool %q does not exist", loop.ErrRefused, a.Pool)
	}
	if a.Shape == nil {
		return fmt.Errorf("%w: it names no shape", loop.ErrRefused)
	}
	if err := f.room(a.Host, *a.Shape); err != nil {
		return err
	}
	m := f.newMachine(&f.cfg.Pools[i], o.ID, *a.Shape, a.Host)
	m.obs.Keep = a.Keep
	f.Totals.Orders++
	f.cloning.queue = append(f.cloning.queue, m)
	f.startClones()
	return nil
}

// room says whether a host takes another machine of the shape.
func (f *fleet) room(host string, s pricing.Shape) error {
	h := f.host(host)
	if h == nil {
		return fmt.Errorf("%w: host %q does not exist", loop.ErrRefused, host)
	}
	if !h.Online {
		return fmt.Errorf("%w: host %s is offline", loop.ErrRefused, host)
	}
	left := f.free(h)
	if !s.Resources().Within(left) {
		return fmt.Errorf("%w: %s has %s left, %s takes %s", ErrNoRoom, host, nodescaler.Amount(left), s.Name, nodescaler.Amount(s.Resources()))
	}
	return nil
}

// free is what a host's room is less the machines on it.
func (f *fleet) free(h *nodescaler.Host) pricing.Resources {
	left := h.Room
	for _, m := range f.machines {
		if m.obs.Host == h.Name && m.obs.Phase != nodescaler.Spare {
			left = left.Minus(m.obs.Shape.Resources())
		}
	}
	return left
}

func (f *fleet) newMachine(pool *nodescaler.Pool, order string, s pricing.Shape, host string) *machine {
	m := &machine{pool: pool, obs: nodescaler.Machine{
		Name: nodescaler.MachineName(pool.Name, order), Order: order, Pool: pool.Name,
		Shape: s, Host: host, Phase: nodescaler.Ordered, Since: f.clock(),
	}}
	at, _ := slices.BinarySearchFunc(f.machines, m.obs.Name, func(m *machine, name string) int {
		return strings.Compare(m.obs.Name, name)
	})
	f.machines = slices.Insert(f.machines, at, m)
	return m
}

// exist begins a machine's paid life.
func (m *machine) exist(f *fleet) {
	m.obs.Created, m.from = f.clock(), f.clock()
	f.must(f.ledger.Start(m.obs.Name, m.obs.Shape, m.obs.Host, f.clock()))
	f.topRate()
}

// cloning is the machines that wait for their clone, and how many clones run.
type cloning struct {
	queue   []*machine
	running int
	failing int // clones that a fault lets fail
}

// startClones starts as many clones as may run at a time.
func (f *fleet) startClones() {
	c := &f.cloning
	for len(c.queue) > 0 && (f.cfg.Clones == 0 || c.running < f.cfg.Clones) {
		m := c.queue[0]
		c.queue = c.queue[1:]
		if m.obs.Phase != nodescaler.Ordered { // reclaimed while it waited
			continue
		}
		c.running++
		m.exist(f)
		f.later(f.cfg.Delays.Clone.Draw(f.chance.clone), func() { f.cloned(m) })
	}
}

func (f *fleet) cloned(m *machine) {
	f.cloning.running--
	defer f.startClones()
	if m.obs.Phase != nodescaler.Ordered {
		return
	}
	if f.cloning.failing > 0 {
		f.cloning.failing--
		m.phase(f, nodescaler.Failed)
		m.obs.Problem = "clone failed: the storage did not answer"
		return
	}
	m.boot(f)
}

// boot starts a machine that is there.
func (m *machine) boot(f *fleet) {
	m.start(f, f.cfg.Delays.Boot.Draw(f.chance.boot))
}

// start lets a machine be a node after a while, unless something comes between.
func (m *machine) start(f *fleet, takes time.Duration) {
	m.phase(f, nodescaler.Booting)
	since := m.obs.Since
	f.later(takes, func() {
		if m.obs.Phase == nodescaler.Booting && m.obs.Since.Equal(since) && !m.dead {
			m.join(f)
		}
	})
}

func (m *machine) phase(f *fleet, p nodescaler.Phase) {
	m.obs.Phase, m.obs.Since = p, f.clock()
}

// join makes a machine a node, or makes its node ready again.
func (m *machine) join(f *fleet) {
	m.phase(f, nodescaler.Joined)
	if m.node != nil {
		m.node.obs.Ready, m.node.away = true, false
		f.restart(m.node)
		f.dirty = true
		return
	}
	m.node = &node{machine: m, obs: nodescaler.Node{
		Name: m.obs.Name, Machine: m.obs.Name, Pool: m.pool.Name,
		Allocatable: m.obs.Shape.Resources().Minus(m.pool.Reserved),
		Extra:       m.pool.Extras(m.obs.Shape), PodSlots: m.pool.PodSlots, Labels: m.pool.Labels, Taints: m.pool.Taints,
		Ready: true, Joined: f.clock(),
	}}
	f.addNode(m.node)
}

// find returns a machine that exists.
func (f *fleet) find(name string) (*machine, error) {
	i := slices.IndexFunc(f.machines, func(m *machine) bool { return m.obs.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("machine %s does not exist", name)
	}
	return f.machines[i], nil
}

// Stash shuts a machine down and keeps it. Its node stays, and is not ready once the cluster misses
// it.
func (f *fleet) Stash(_ context.Context, name string) error {
	m, err := f.find(name)
	switch {
	case err != nil:
		return err
	case m.obs.Phase == nodescaler.Spare:
		return nil
	case m.obs.Phase != nodescaler.Joined || m.dead:
		return fmt.Errorf("machine %s cannot be stopped to be kept: it is %s", name, m.obs.Phase)
	}
	f.Totals.Stashes++
	f.lose(m.node)
	m.rest(f)
	return nil
}

// Reboot stops a machine and starts it again. Its node is not ready meanwhile, once the cluster
// misses it.
func (f *fleet) Reboot(_ context.Context, name string) error {
	m, err := f.find(name)
	switch {
	case err != nil:
		return err
	case m.obs.Phase != nodescaler.Joined || m.dead:
		return fmt.Errorf("machine %s cannot be rebooted: it is %s", name, m.obs.Phase)
	}
	f.lose(m.node)
	m.obs.Rebooted, m.obs.Rebooting = f.clock(), true
	f.later(f.cfg.Delays.Wake.Draw(f.chance.wake), func() {
		if m.obs.Phase == nodescaler.Joined && m.obs.Rebooting && !m.dead {
			m.obs.Rebooting = false
			m.join(f)
		}
	})
	return nil
}

// rest makes a machine a spare.
func (m *machine) rest(f *fleet) {
	f.Totals.MachineTime += f.clock().Sub(m.from)
	m.phase(f, nodescaler.Spare)
	m.from, m.obs.Keep = f.clock(), false
	f.must(f.ledger.Keep(m.obs.Name, m.obs.Shape, m.obs.Host, f.clock()))
}

// Wake starts a spare, or lets one in the making be a machine like any other.
func (f *fleet) Wake(_ context.Context, name string) error {
	m, err := f.find(name)
	switch {
	case err != nil:
		return err
	case m.obs.Phase != nodescaler.Spare:
		m.obs.Keep = false
		return nil
	}
	if err := f.room(m.obs.Host, m.obs.Shape); err != nil {
		return err
	}
	f.Totals.Wakes++
	f.spent += f.cfg.Prices.SpareRate(m.obs.Shape).For(f.clock().Sub(m.from))
	m.from, m.obs.Woken = f.clock(), f.clock()
	f.must(f.ledger.Start(m.obs.Name, m.obs.Shape, m.obs.Host, f.clock()))
	f.topRate()
	m.start(f, f.cfg.Delays.Wake.Draw(f.chance.wake))
	return nil
}

// Delete gives a machine back: its node goes at once, the machine when it is destroyed.
func (f *fleet) Delete(_ context.Context, name string) error {
	m, err := f.find(name)
	if err != nil || m.obs.Phase == nodescaler.Deleting {
		return err
	}
	m.off = m.obs.Phase == nodescaler.Spare
	m.phase(f, nodescaler.Deleting)
	f.Totals.Returns++
	if m.node != nil {
		f.removeNode(m.node)
		m.node = nil
	}
	f.later(f.cfg.Delays.Delete.Draw(f.chance.remove), func() { f.gone(m) })
	return nil
}

func (f *fleet) gone(m *machine) {
	f.machines = slices.DeleteFunc(f.machines, func(o *machine) bool { return o == m })
	if !m.obs.Created.IsZero() {
		f.must(f.ledger.Stop(m.obs.Name, f.clock()))
		if used := f.clock().Sub(m.from); m.off {
			f.spent += f.cfg.Prices.SpareRate(m.obs.Shape).For(used)
		} else {
			f.Totals.MachineTime += used
		}
	}
}

// running counts the machines that are no spares.
func (f *fleet) running() int {
	n := 0
	for _, m := range f.machines {
		if m.obs.Phase != nodescaler.Spare {
			n++
		}
	}
	return n
}

func (f *fleet) host(name string) *nodescaler.Host {
	for i := range f.hosts {
		if f.hosts[i].Name == name {
			return &f.hosts[i]
		}
	}
	return nil
}

// Totals are the sums over a run.
type Totals struct {
	Orders, Returns int
	Stashes, Wakes  int           // machines that were made spares, and spares that were started
	MachineTime     time.Duration // of machines that are gone or stopped, while they ran
	Steps           int
}

// Cost is what the machines have cost since the start.
func (f *fleet) Cost() pricing.Micros { return f.ledger.Between(f.cfg.Start, f.clock()) }

// PeakRate is the most that the machines have cost an hour at any time. A tariff that lasts less
// than a minute may be missed.
func (f *fleet) PeakRate() pricing.Rate { return f.peak }

// topRate takes note of what the machines cost now.
func (f *fleet) topRate() { f.peak = max(f.peak, f.ledger.Rate(f.clock())) }

// Reprice lets machines cost what b says from now on. What they have cost stays as it is.
func (f *fleet) Reprice(b *pricing.Book) error { return f.ledger.Reprice(b, f.clock()) }

// MachineTime is the time of all machines so far.
func (f *fleet) MachineTime() time.Duration {
	t := f.Totals.MachineTime
	for _, m := range f.machines {
		if m.runs() {
			t += f.clock().Sub(m.from)
		}
	}
	return t
}

// SpareCost is what the spares have cost so far, and is part of the cost.
func (f *fleet) SpareCost() pricing.Micros {
	sum := f.spent
	for _, m := range f.machines {
		if m.obs.Phase == nodescaler.Spare {
			sum += f.cfg.Prices.SpareRate(m.obs.Shape).For(f.clock().Sub(m.from))
		}
	}
	return sum
}

// kill stops a host. What its pods were doing is lost; the cluster learns of it later.
func (f *fleet) kill(name string, lasts time.Duration) error {
	h := f.host(name)
	if h == nil {
		return fmt.Errorf("host %q does not exist", name)
	}
	f.down[name]++ // faults may overlap: the host is back when the last of them is over
	if lasts > 0 {
		f.later(lasts, func() {
			if f.down[name]--; f.down[name] == 0 {
				f.revive(h)
			}
		})
	}
	if !h.Online {
		return nil
	}
	h.Online = false
	for _, m := range f.machines {
		if m.obs.Host == name {
			m.dead = true
			if m.node != nil {
				f.lose(m.node)
			}
		}
	}
	return nil
}

// revive brings a host back: its machines boot, and their nodes and pods start again.
func (f *fleet) revive(h *nodescaler.Host) {
	h.Online = true
	for _, m := range f.machines {
		if m.obs.Host != h.Name || !m.dead {
			continue
		}
		m.dead = false
		if m.obs.Phase == nodescaler.Booting || m.obs.Phase == nodescaler.Joined {
			m.boot(f)
		}
	}
}
