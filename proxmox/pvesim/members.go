package pvesim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
)

// wiring is which hosts reach each other, and what they have agreed on about that.
type wiring struct {
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
func (c *Cluster) calls(from, to *host) bool {
	return from.reaches(to) && !c.parted[[2]int{from.id, to.id}]
}

// rewire changes what is up or what reaches what. The hosts take a while to agree on who is left; until
// then, who had quorum believes to have it, and what writes hangs.
func (c *Cluster) rewire(change func()) {
	members, calls := c.links((*host).reaches), c.links(c.calls)
	change()
	now := c.links(c.calls)
	for pair := range calls {
		if !now[pair] {
			c.lost[pair] = c.now
		}
	}
	for pair := range now {
		delete(c.lost, pair)
	}
	left := c.links((*host).reaches)
	if maps.Equal(members, left) {
		return
	}
	takes := waitFound
	for pair := range members {
		if !left[pair] {
			takes = waitLost
		}
	}
	c.moving, c.until = true, c.now.Add(takes)
	c.agreeLater()
}

// agreeLater lets the hosts agree when it is time, unless something changes before.
func (c *Cluster) agreeLater() {
	c.changes++
	this := c.changes
	c.start(func(p *process) {
		p.sleep(c.until.Sub(c.now))
		if this == c.changes {
			c.agree()
		}
	})
}

// links are the pairs of hosts, each with itself too, for which something holds.
func (c *Cluster) links(holds func(a, b *host) bool) map[[2]int]bool {
	all := map[[2]int]bool{}
	for _, a := range c.hosts {
		for _, b := range c.hosts {
			if holds(a, b) {
				all[[2]int{a.id, b.id}] = true
			}
		}
	}
	return all
}

// agree lets every host know whom it reaches. A host that has lost the majority keeps the configuration
// that it knew last, and learns of no change to it.
func (c *Cluster) agree() {
	c.moving = false
	for _, h := range c.hosts {
		h.members = map[*host]bool{}
		for _, other := range c.hosts {
			if h.reaches(other) {
				h.members[other] = true
			}
		}
		switch {
		case c.majority(h):
			h.known = nil
		case h.known == nil:
			h.known = c.guests(nil)
		}
	}
}

// majority reports whether a host is together with more than half of the cluster.
func (c *Cluster) majority(h *host) bool { return 2*len(h.members) > len(c.hosts) }

// quorate reports whether a host has quorum, as far as it knows.
func (c *Cluster) quorate(h *host) bool {
	return c.majority(h) && c.faults.Active("no quorum") == nil
}

// online reports whether a host takes another for being there.
func (h *host) online(other *host) bool { return h.members[other] }

// guestPlace is what the configuration file of a virtual machine, or its place, tells everybody at once.
type guestPlace struct {
	host       *host
	tags, lock string
}

// guests are the virtual machines by their numbers, as a host knows them; nil knows all.
func (c *Cluster) guests(h *host) map[int]guestPlace {
	if h != nil && h.known != nil {
		return h.known
	}
	all := make(map[int]guestPlace, len(c.vms))
	for id, m := range c.vms {
		all[id] = guestPlace{m.host, m.Conf["tags"], m.Conf["lock"]}
	}
	return all
}

// exists reports whether there is a virtual machine of that number, as far as a host knows.
func (c *Cluster) exists(h *host, id int) bool {
	_, is := c.guests(h)[id]
	return is
}

// settled waits while hosts agree on who is there: so long, what writes to the configuration hangs.
func (c *Cluster) settled(p *process) {
	p.until(func() bool { return !c.moving })
}

// needQuorum refuses at once what can only be done with quorum.
func (c *Cluster) needQuorum(h *host) error {
	if c.quorate(h) {
		return nil
	}
	return failure.New("cluster not ready - no quorum?")
}

// lockFile waits for the cluster's lock on a file below /etc/pve, such as user_cfg, and fails without
// quorum. Who gets it has it for no time at all: nothing that is written takes any.
func (c *Cluster) lockFile(p *process, h *host, file string) error {
	c.settled(p)
	if p.wait(waitQuorum, func() bool { return c.quorate(h) }) {
		return nil
	}
	return failure.New("cfs-lock 'file-%s' error: no quorum!", file)
}

// canWrite fails without quorum as a process does that writes a file below /etc/pve.
func (c *Cluster) canWrite(p *process, h *host, file string, pid int) error {
	c.settled(p)
	if c.quorate(h) {
		return nil
	}
	return failure.New("unable to open file '/etc/pve/%s.tmp.%d' - Permission denied", file, pid)
}

// powerOff ends at once all that goes on on a host. What it knew of the configuration lies on its disk, for
// the time when it starts without the others.
func (c *Cluster) powerOff(h *host) {
	h.up, h.known = false, c.guests(h)
	for _, p := range slices.SortedFunc(maps.Keys(h.serving), func(a, b *process) int { return a.born - b.born }) {
		p.kill()
	}
	c.hostDied(h)
	for _, t := range h.tasks {
		if t.running() { // it had not begun
			t.finish(c.now, "unexpected status")
		}
	}
	h.serving, h.heard = map[*process]bool{}, map[*host]*report{}
	h.restartWorkers()
}

// powerOn starts a host, if it is off. What is to run there starts when it has quorum.
func (c *Cluster) powerOn(h *host) {
	if h.up {
		return
	}
	h.up, h.since, h.members, h.starting = true, c.now, map[*host]bool{h: true}, true
	c.startGuests(h)
}

// startGuests starts what is to run on a host as soon as it has quorum.
func (c *Cluster) startGuests(h *host) {
	since := h.since
	c.start(func(p *process) {
		p.until(func() bool { return !c.moving && c.quorate(h) || h.since != since })
		if h.up && h.since == since {
			h.starting = false
			c.hostBack(h)
		}
	})
}

// powerCycle turns a host off, and on again when it has started anew.
func (c *Cluster) powerCycle(h *host) {
	c.rewire(func() { c.powerOff(h) })
	h.returns = c.now.Add(rebootTakes)
	c.returnLater(h)
}

func (c *Cluster) returnLater(h *host) {
	c.start(func(p *process) {
		p.sleep(h.returns.Sub(c.now))
		h.returns = time.Time{}
		if c.faults.Active("host down", "HOST", h.Name) == nil {
			c.rewire(func() { c.powerOn(h) })
		}
	})
}

// sorted are a map's keys in their order.
func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
