package pvesim

import (
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
)

// wiring is which hosts reach each other, and what they have agreed on about that.
type wiring struct {
	c       *World
	changes int                  // of which hosts there are, as far as hosts can tell
	moving  bool                 // hosts are agreeing on that; what writes waits meanwhile
	until   time.Time            // they have agreed
	parted  map[[2]int]bool      // pairs of hosts, by number, between which no calls come through
	lost    map[[2]int]time.Time // since when calls of one host do not come through to another
}

// reaches reports whether a host and another are in touch as members of the cluster.
func (h *host) reaches(other *host) bool {
	return h.up && other.up && (h == other || h.island == other.island)
}

// calls reports whether a host's calls come through to another.
func (w *wiring) calls(from, to *host) bool {
	return from.reaches(to) && !w.parted[[2]int{from.id, to.id}]
}

// rewire changes what is up or what reaches what. The hosts take a while to agree on who is left;
// until then, who had quorum believes to have it, and what writes hangs.
func (w *wiring) rewire(change func()) {
	members, calls := w.links((*host).reaches), w.links(w.calls)
	change()
	now := w.links(w.calls)
	for pair := range calls {
		if !now[pair] {
			w.lost[pair] = w.c.Clock
		}
	}
	for pair := range now {
		delete(w.lost, pair)
	}
	left := w.links((*host).reaches)
	if maps.Equal(members, left) {
		return
	}
	takes := waitFound
	for pair := range members {
		if !left[pair] {
			takes = waitLost
		}
	}
	w.moving, w.until = true, w.c.Clock.Add(takes)
	w.agreeLater()
}

// agreeLater lets the hosts agree when it is time, unless something changes before.
func (w *wiring) agreeLater() {
	w.changes++
	this := w.changes
	w.c.Start(func(p *engine.Process) {
		p.Sleep(w.until.Sub(w.c.Clock))
		if this == w.changes {
			w.agree()
		}
	})
}

// links are the pairs of hosts, each with itself too, for which something holds.
func (w *wiring) links(holds func(a, b *host) bool) map[[2]int]bool {
	all := map[[2]int]bool{}
	for _, a := range w.c.hosts {
		for _, b := range w.c.hosts {
			if holds(a, b) {
				all[[2]int{a.id, b.id}] = true
			}
		}
	}
	return all
}

// agree lets every host know whom it reaches. A host that has lost the majority keeps the
// configuration that it knew last, and learns of no change to it.
func (w *wiring) agree() {
	w.moving = false
	for _, h := range w.c.hosts {
		h.members = map[*host]bool{}
		for _, other := range w.c.hosts {
			if h.reaches(other) {
				h.members[other] = true
			}
		}
		switch {
		case w.majority(h):
			h.known = nil
		case h.known == nil:
			h.known = w.guests(nil)
		}
	}
}

// majority reports whether a host is together with more than half of the cluster.
func (w *wiring) majority(h *host) bool { return 2*len(h.members) > len(w.c.hosts) }

// quorate reports whether a host has quorum, as far as it knows.
func (w *wiring) quorate(h *host) bool {
	return w.majority(h) && w.c.faults.Active("no quorum") == nil
}

// online reports whether a host takes another for being there.
func (h *host) online(other *host) bool { return h.members[other] }

// guestPlace is what the configuration file of a virtual machine, or its place, tells everybody at
// once.
type guestPlace struct {
	host       *host
	tags, lock string
}

// guests are the virtual machines by their numbers, as a host knows them; nil knows all.
func (w *wiring) guests(h *host) map[int]guestPlace {
	if h != nil && h.known != nil {
		return h.known
	}
	all := make(map[int]guestPlace, len(w.c.vms))
	for id, m := range w.c.vms {
		all[id] = guestPlace{m.host, m.Conf["tags"], m.Conf["lock"]}
	}
	return all
}

// exists reports whether there is a virtual machine of that number, as far as a host knows.
func (w *wiring) exists(h *host, id int) bool {
	_, is := w.guests(h)[id]
	return is
}

// settled waits while hosts agree on who is there: so long, what writes to the configuration hangs.
func (w *wiring) settled(p *engine.Process) {
	p.Until(func() bool { return !w.moving })
}

// needQuorum refuses at once what can only be done with quorum.
func (w *wiring) needQuorum(h *host) error {
	if w.quorate(h) {
		return nil
	}
	return failure.New("cluster not ready - no quorum?")
}

// lockFile waits for the cluster's lock on a file below /etc/pve, such as user_cfg, and fails
// without quorum. Who gets it has it for no time at all: nothing that is written takes any.
func (w *wiring) lockFile(p *engine.Process, h *host, file string) error {
	w.settled(p)
	if p.Wait(waitQuorum, func() bool { return w.quorate(h) }) {
		return nil
	}
	return failure.New("cfs-lock 'file-%s' error: no quorum!", file)
}

// canWrite fails without quorum as a process does that writes a file below /etc/pve.
func (w *wiring) canWrite(p *engine.Process, h *host, file string, pid int) error {
	w.settled(p)
	if w.quorate(h) {
		return nil
	}
	return failure.New("unable to open file '/etc/pve/%s.tmp.%d' - Permission denied", file, pid)
}

// powerOff ends at once all that goes on on a host. What it knew of the configuration lies on its
// disk, for the time when it starts without the others.
func (w *wiring) powerOff(h *host) {
	h.up, h.known = false, w.guests(h)
	for _, p := range slices.SortedFunc(maps.Keys(h.serving), func(a, b *engine.Process) int { return a.Born - b.Born }) {
		p.Kill()
	}
	w.c.hostDied(h)
	for _, t := range h.tasks {
		if t.running() { // it had not begun
			t.finish(w.c.Clock, "unexpected status")
		}
	}
	h.serving, h.heard = map[*engine.Process]bool{}, map[*host]*report{}
	h.restartWorkers()
}

// powerOn starts a host, if it is off. What is to run there starts when it has quorum.
func (w *wiring) powerOn(h *host) {
	if h.up {
		return
	}
	h.up, h.since, h.members, h.starting = true, w.c.Clock, map[*host]bool{h: true}, true
	w.startGuests(h)
}

// startGuests starts what is to run on a host as soon as it has quorum.
func (w *wiring) startGuests(h *host) {
	since := h.since
	w.c.Start(func(p *engine.Process) {
		p.Until(func() bool { return !w.moving && w.quorate(h) || h.since != since })
		if h.up && h.since == since {
			h.starting = false
			w.c.hostBack(h)
		}
	})
}

// powerCycle turns a host off, and on again when it has started anew.
func (w *wiring) powerCycle(h *host) {
	w.rewire(func() { w.powerOff(h) })
	h.returns = w.c.Clock.Add(rebootTakes)
	w.returnLater(h)
}

func (w *wiring) returnLater(h *host) {
	w.c.Start(func(p *engine.Process) {
		p.Sleep(h.returns.Sub(w.c.Clock))
		h.returns = time.Time{}
		if w.c.faults.Active("host down", "HOST", h.Name) == nil {
			w.rewire(func() { w.powerOn(h) })
		}
	})
}

// worker is one of pvedaemon's.
type worker struct {
	line     []float64 // calls that wait in pveproxy for a connection to it, by their turns
	underway int       // calls that it has been passed, that which it serves among them
	busy     bool
}

// restartWorkers gives a host workers that have nothing to do.
func (h *host) restartWorkers() {
	h.workers = nil
	for range daemonWorkers {
		h.workers = append(h.workers, &worker{})
	}
}
