package world

import (
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
)

// reaches reports whether a host and another are in touch as members of the cluster.
func (h *Node) reaches(other *Node) bool {
	return h.Up && other.Up && (h == other || h.Island == other.Island)
}

// Connects reports whether a host's calls come through to another.
func (w *Wiring) Connects(from, to *Node) bool {
	return from.reaches(to) && !w.parted[[2]int{from.ID, to.ID}]
}

// Rewire changes what is up or what reaches what. The hosts take a while to agree on who is left;
// until then, who had quorum believes to have it, and what writes hangs.
func (w *Wiring) Rewire(change func()) {
	members, calls := w.links((*Node).reaches), w.links(w.Connects)
	change()
	now := w.links(w.Connects)
	for pair := range calls {
		if !now[pair] {
			w.Lost[pair] = w.c.Clock
		}
	}
	for pair := range now {
		delete(w.Lost, pair)
	}
	left := w.links((*Node).reaches)
	if maps.Equal(members, left) {
		return
	}
	takes := WaitFound
	for pair := range members {
		if !left[pair] {
			takes = WaitLost
		}
	}
	w.Moving, w.Until = true, w.c.Clock.Add(takes)
	w.AgreeLater()
}

// AgreeLater lets the hosts agree when it is time, unless something changes before.
func (w *Wiring) AgreeLater() {
	w.changes++
	this := w.changes
	w.c.Start(func(p *engine.Process) {
		p.Sleep(w.Until.Sub(w.c.Clock))
		if this == w.changes {
			w.agree()
		}
	})
}

// links are the pairs of hosts, each with itself too, for which something holds.
func (w *Wiring) links(holds func(a, b *Node) bool) map[[2]int]bool {
	all := map[[2]int]bool{}
	for _, a := range w.c.Nodes {
		for _, b := range w.c.Nodes {
			if holds(a, b) {
				all[[2]int{a.ID, b.ID}] = true
			}
		}
	}
	return all
}

// agree lets every host know which hosts it reaches. A host that has lost the majority keeps the
// configuration that it knew last, and learns of no change to it.
func (w *Wiring) agree() {
	w.Moving = false
	for _, h := range w.c.Nodes {
		h.Members = map[*Node]bool{}
		for _, other := range w.c.Nodes {
			if h.reaches(other) {
				h.Members[other] = true
			}
		}
		switch {
		case w.majority(h):
			h.Known = nil
		case h.Known == nil:
			h.Known = w.Guests(nil)
		}
	}
}

// majority reports whether a host is together with more than half of the cluster.
func (w *Wiring) majority(h *Node) bool { return 2*len(h.Members) > len(w.c.Nodes) }

// Quorate reports whether a host has quorum, as far as it knows.
func (w *Wiring) Quorate(h *Node) bool {
	return w.majority(h) && w.c.Faults.Active("no quorum") == nil
}

// Online reports whether a host takes another for being there.
func (h *Node) Online(other *Node) bool { return h.Members[other] }

// Guests are the virtual machines by their numbers, as a host knows them; nil knows all.
func (w *Wiring) Guests(h *Node) map[int]GuestPlace {
	if h != nil && h.Known != nil {
		return h.Known
	}
	all := make(map[int]GuestPlace, len(w.c.VMs))
	for id, m := range w.c.VMs {
		all[id] = GuestPlace{m.Host, m.Conf["tags"], m.Conf["lock"]}
	}
	return all
}

// Exists reports whether there is a virtual machine of that number, as far as a host knows.
func (w *Wiring) Exists(h *Node, id int) bool {
	_, is := w.Guests(h)[id]
	return is
}

// Settled waits while hosts agree on who is there: so long, what writes to the configuration hangs.
func (w *Wiring) Settled(p *engine.Process) {
	p.Until(func() bool { return !w.Moving })
}

// NeedQuorum refuses at once what can only be done with quorum.
func (w *Wiring) NeedQuorum(h *Node) error {
	if w.Quorate(h) {
		return nil
	}
	return failure.New("cluster not ready - no quorum?")
}

// LockFile waits for the cluster's lock on a file below /etc/pve, such as user_cfg, and fails
// without quorum. Who gets it has it for no time at all: nothing that is written takes any.
func (w *Wiring) LockFile(p *engine.Process, h *Node, file string) error {
	w.Settled(p)
	if p.Wait(WaitQuorum, func() bool { return w.Quorate(h) }) {
		return nil
	}
	return failure.New("cfs-lock 'file-%s' error: no quorum!", file)
}

// canWrite fails without quorum as a process does that writes a file below /etc/pve.
func (w *Wiring) canWrite(p *engine.Process, h *Node, file string, pid int) error {
	w.Settled(p)
	if w.Quorate(h) {
		return nil
	}
	return failure.New("unable to open file '/etc/pve/%s.tmp.%d' - Permission denied", file, pid)
}

// PowerOff ends at once all that goes on on a host. What it knew of the configuration lies on its
// disk, for the time when it starts without the others.
func (w *Wiring) PowerOff(h *Node) {
	h.Up, h.Known = false, w.Guests(h)
	for _, p := range slices.SortedFunc(maps.Keys(h.Serving), func(a, b *engine.Process) int { return a.Born - b.Born }) {
		p.Kill()
	}
	w.c.hostDied(h)
	for _, t := range h.Tasks {
		if t.Running() { // it had not begun
			t.finish(w.c.Clock, "unexpected status")
		}
	}
	h.Serving, h.Heard = map[*engine.Process]bool{}, map[*Node]*Report{}
	h.RestartWorkers()
}

// PowerOn starts a host, if it is off. What is to run there starts when it has quorum.
func (w *Wiring) PowerOn(h *Node) {
	if h.Up {
		return
	}
	h.Up, h.Since, h.Members, h.Starting = true, w.c.Clock, map[*Node]bool{h: true}, true
	w.StartGuests(h)
}

// StartGuests starts what is to run on a host as soon as it has quorum.
func (w *Wiring) StartGuests(h *Node) {
	since := h.Since
	w.c.Start(func(p *engine.Process) {
		p.Until(func() bool { return !w.Moving && w.Quorate(h) || h.Since != since })
		if h.Up && h.Since == since {
			h.Starting = false
			w.c.hostBack(h)
		}
	})
}

// PowerCycle turns a host off, and on again when it has started anew.
func (w *Wiring) PowerCycle(h *Node) {
	w.Rewire(func() { w.PowerOff(h) })
	h.Returns = w.c.Clock.Add(RebootTakes)
	w.ReturnLater(h)
}

// ReturnLater starts a host at the time at which it is to return.
func (w *Wiring) ReturnLater(h *Node) {
	w.c.Start(func(p *engine.Process) {
		p.Sleep(h.Returns.Sub(w.c.Clock))
		h.Returns = time.Time{}
		if w.c.Faults.Active("host down", "HOST", h.Name) == nil {
			w.Rewire(func() { w.PowerOn(h) })
		}
	})
}

// RestartWorkers gives a host workers that have nothing to do.
func (h *Node) RestartWorkers() {
	h.Workers = nil
	for range daemonWorkers {
		h.Workers = append(h.Workers, &Worker{})
	}
}
