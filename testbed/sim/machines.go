package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

// ErrNoRoom is what an order is refused with when its host cannot hold the machine.
var ErrNoRoom = fmt.Errorf("%w: no room on the host", loop.ErrRefused)

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
func (w *World) List(context.Context) (loop.MachineState, error) {
	s := loop.MachineState{Hosts: slices.Clone(w.hosts), Machines: make([]nodescaler.Machine, len(w.machines))}
	for i, m := range w.machines {
		s.Machines[i] = m.obs
	}
	return s, nil
}

// Create orders a machine. An order that is known already changes nothing.
func (w *World) Create(_ context.Context, o loop.Order) error {
	a := o.Action
	if slices.ContainsFunc(w.machines, func(m *machine) bool { return m.obs.Order == o.ID }) {
		return nil
	}
	i := slices.IndexFunc(w.cfg.Pools, func(p nodescaler.Pool) bool { return p.Name == a.Pool })
	if i < 0 {
		return fmt.Errorf("%w: pool %q does not exist", loop.ErrRefused, a.Pool)
	}
	if a.Shape == nil {
		return fmt.Errorf("%w: it names no shape", loop.ErrRefused)
	}
	if err := w.room(a.Host, *a.Shape); err != nil {
		return err
	}
	m := w.newMachine(&w.cfg.Pools[i], o.ID, *a.Shape, a.Host)
	m.obs.Keep = a.Keep
	w.Totals.Orders++
	w.cloning.queue = append(w.cloning.queue, m)
	w.startClones()
	return nil
}

// room says whether a host takes another machine of the shape.
func (w *World) room(host string, s pricing.Shape) error {
	h := w.host(host)
	if h == nil {
		return fmt.Errorf("%w: host %q does not exist", loop.ErrRefused, host)
	}
	if !h.Online {
		return fmt.Errorf("%w: host %s is offline", loop.ErrRefused, host)
	}
	left := w.free(h)
	if !s.Resources().Within(left) {
		return fmt.Errorf("%w: %s has %s left, %s takes %s", ErrNoRoom, host, nodescaler.Amount(left), s.Name, nodescaler.Amount(s.Resources()))
	}
	return nil
}

// free is what a host's room is less the machines on it.
func (w *World) free(h *nodescaler.Host) pricing.Resources {
	left := h.Room
	for _, m := range w.machines {
		if m.obs.Host == h.Name && m.obs.Phase != nodescaler.Spare {
			left = left.Minus(m.obs.Shape.Resources())
		}
	}
	return left
}

func (w *World) newMachine(pool *nodescaler.Pool, order string, s pricing.Shape, host string) *machine {
	m := &machine{pool: pool, obs: nodescaler.Machine{
		Name: nodescaler.MachineName(pool.Name, order), Order: order, Pool: pool.Name,
		Shape: s, Host: host, Phase: nodescaler.Ordered, Since: w.clock(),
	}}
	at, _ := slices.BinarySearchFunc(w.machines, m.obs.Name, func(m *machine, name string) int {
		return strings.Compare(m.obs.Name, name)
	})
	w.machines = slices.Insert(w.machines, at, m)
	return m
}

// exist begins a machine's paid life.
func (m *machine) exist(w *World) {
	m.obs.Created, m.from = w.clock(), w.clock()
	w.must(w.ledger.Start(m.obs.Name, m.obs.Shape, m.obs.Host, w.clock()))
	w.topRate()
}

// cloning is the machines that wait for their clone, and how many clones run.
type cloning struct {
	queue   []*machine
	running int
	failing int // clones that a fault lets fail
}

// startClones starts as many clones as may run at a time.
func (w *World) startClones() {
	c := &w.cloning
	for len(c.queue) > 0 && (w.cfg.Clones == 0 || c.running < w.cfg.Clones) {
		m := c.queue[0]
		c.queue = c.queue[1:]
		if m.obs.Phase != nodescaler.Ordered { // reclaimed while it waited
			continue
		}
		c.running++
		m.exist(w)
		w.later(w.cfg.Delays.Clone.Draw(w.chance.clone), func() { w.cloned(m) })
	}
}

func (w *World) cloned(m *machine) {
	w.cloning.running--
	defer w.startClones()
	if m.obs.Phase != nodescaler.Ordered {
		return
	}
	if w.cloning.failing > 0 {
		w.cloning.failing--
		m.phase(w, nodescaler.Failed)
		m.obs.Problem = "clone failed: the storage did not answer"
		return
	}
	m.boot(w)
}

// boot starts a machine that is there.
func (m *machine) boot(w *World) {
	m.start(w, w.cfg.Delays.Boot.Draw(w.chance.boot))
}

// start lets a machine be a node after a while, unless something comes between.
func (m *machine) start(w *World, takes time.Duration) {
	m.phase(w, nodescaler.Booting)
	since := m.obs.Since
	w.later(takes, func() {
		if m.obs.Phase == nodescaler.Booting && m.obs.Since.Equal(since) && !m.dead {
			m.join(w)
		}
	})
}

func (m *machine) phase(w *World, p nodescaler.Phase) {
	m.obs.Phase, m.obs.Since = p, w.clock()
}

// join makes a machine a node, or makes its node ready again.
func (m *machine) join(w *World) {
	m.phase(w, nodescaler.Joined)
	if m.node != nil {
		m.node.obs.Ready, m.node.away = true, false
		w.restart(m.node)
		w.dirty = true
		return
	}
	m.node = &node{machine: m, obs: nodescaler.Node{
		Name: m.obs.Name, Machine: m.obs.Name, Pool: m.pool.Name,
		Allocatable: m.obs.Shape.Resources().Minus(m.pool.Reserved),
		Extra:       m.pool.Extras(m.obs.Shape), PodSlots: m.pool.PodSlots, Labels: m.pool.Labels, Taints: m.pool.Taints,
		Ready: true, Joined: w.clock(),
	}}
	w.addNode(m.node)
}

// find returns a machine that exists.
func (w *World) find(name string) (*machine, error) {
	i := slices.IndexFunc(w.machines, func(m *machine) bool { return m.obs.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("machine %s does not exist", name)
	}
	return w.machines[i], nil
}

// Stash shuts a machine down and keeps it. Its node stays, and is not ready once the cluster misses
// it.
func (w *World) Stash(_ context.Context, name string) error {
	m, err := w.find(name)
	switch {
	case err != nil:
		return err
	case m.obs.Phase == nodescaler.Spare:
		return nil
	case m.obs.Phase != nodescaler.Joined || m.dead:
		return fmt.Errorf("machine %s cannot be stopped to be kept: it is %s", name, m.obs.Phase)
	}
	w.Totals.Stashes++
	w.lose(m.node)
	m.rest(w)
	return nil
}

// Reboot stops a machine and starts it again. Its node is not ready meanwhile, once the cluster
// misses it.
func (w *World) Reboot(_ context.Context, name string) error {
	m, err := w.find(name)
	switch {
	case err != nil:
		return err
	case m.obs.Phase != nodescaler.Joined || m.dead:
		return fmt.Errorf("machine %s cannot be rebooted: it is %s", name, m.obs.Phase)
	}
	w.lose(m.node)
	m.obs.Rebooted, m.obs.Rebooting = w.clock(), true
	w.later(w.cfg.Delays.Wake.Draw(w.chance.wake), func() {
		if m.obs.Phase == nodescaler.Joined && m.obs.Rebooting && !m.dead {
			m.obs.Rebooting = false
			m.join(w)
		}
	})
	return nil
}

// rest makes a machine a spare.
func (m *machine) rest(w *World) {
	w.Totals.MachineTime += w.clock().Sub(m.from)
	m.phase(w, nodescaler.Spare)
	m.from, m.obs.Keep = w.clock(), false
	w.must(w.ledger.Keep(m.obs.Name, m.obs.Shape, m.obs.Host, w.clock()))
}

// Wake starts a spare, or lets one in the making be a machine like any other.
func (w *World) Wake(_ context.Context, name string) error {
	m, err := w.find(name)
	switch {
	case err != nil:
		return err
	case m.obs.Phase != nodescaler.Spare:
		m.obs.Keep = false
		return nil
	}
	if err := w.room(m.obs.Host, m.obs.Shape); err != nil {
		return err
	}
	w.Totals.Wakes++
	w.spent += w.cfg.Prices.SpareRate(m.obs.Shape).For(w.clock().Sub(m.from))
	m.from, m.obs.Woken = w.clock(), w.clock()
	w.must(w.ledger.Start(m.obs.Name, m.obs.Shape, m.obs.Host, w.clock()))
	w.topRate()
	m.start(w, w.cfg.Delays.Wake.Draw(w.chance.wake))
	return nil
}

// Delete gives a machine back: its node goes at once, the machine when it is destroyed.
func (w *World) Delete(_ context.Context, name string) error {
	m, err := w.find(name)
	if err != nil || m.obs.Phase == nodescaler.Deleting {
		return err
	}
	m.off = m.obs.Phase == nodescaler.Spare
	m.phase(w, nodescaler.Deleting)
	w.Totals.Returns++
	if m.node != nil {
		w.removeNode(m.node)
		m.node = nil
	}
	w.later(w.cfg.Delays.Delete.Draw(w.chance.remove), func() { w.gone(m) })
	return nil
}

func (w *World) gone(m *machine) {
	w.machines = slices.DeleteFunc(w.machines, func(o *machine) bool { return o == m })
	if !m.obs.Created.IsZero() {
		w.must(w.ledger.Stop(m.obs.Name, w.clock()))
		if used := w.clock().Sub(m.from); m.off {
			w.spent += w.cfg.Prices.SpareRate(m.obs.Shape).For(used)
		} else {
			w.Totals.MachineTime += used
		}
	}
}

// running counts the machines that are no spares.
func (w *World) running() int {
	n := 0
	for _, m := range w.machines {
		if m.obs.Phase != nodescaler.Spare {
			n++
		}
	}
	return n
}

func (w *World) host(name string) *nodescaler.Host {
	for i := range w.hosts {
		if w.hosts[i].Name == name {
			return &w.hosts[i]
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
