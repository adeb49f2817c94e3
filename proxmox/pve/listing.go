package pve

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// listing puts hosts and machines into the loop's words.
type listing struct {
	cfg       *FleetConfig
	catalogue *catalogue
	roster    *roster
	view      *view
	members   *members
	holds     *holds
	intake    *intake
}

// state is the hosts and the machines in the loop's words.
func (li *listing) state() loop.MachineState {
	there := make([]*tracked, 0, len(li.roster.machines))
	for _, m := range li.roster.machines {
		if m.Gone.IsZero() {
			there = append(there, m)
		}
	}
	slices.SortFunc(there, func(a, b *tracked) int { return cmp.Compare(a.Name, b.Name) })
	g := li.intake.ground()
	state := loop.MachineState{Hosts: li.hosts(g), Machines: make([]nodescaler.Machine, len(there)), Refused: li.intake.refusals(g), Revisions: li.catalogue.revises}
	for i, m := range there {
		state.Machines[i] = li.machine(m)
	}
	return state
}

// machine is a machine in the loop's words.
func (li *listing) machine(m *tracked) nodescaler.Machine {
	w := nodescaler.Machine{
		Name: m.Name, ProviderID: m.ProviderID, SystemUUID: li.members.uuidOf(m), Held: li.holds.heldBy(m),
		LostIDs: m.lostIDs(), Order: m.Order, Pool: m.Pool, Shape: m.Shape, Host: m.Host,
		Phase: m.shown(), Created: m.Asked, Since: m.Since, Problem: li.problemOf(m), NoRoom: m.noRoom(), Removed: m.Failed != nil && m.Failed.Code == pvecode.Vanished,
		Keep: m.Keep, Woken: m.Woken, Rebooted: m.Rebooted, Rebooting: m.rebooting() || li.starts(m), Drifted: li.drift(m),
	}
	if m.problem.Code == pvecode.NeverJoined && w.Phase == nodescaler.Booting || li.holds.unfinished(m) && w.Phase == nodescaler.Ordered {
		w.Phase = nodescaler.Failed // no policy waits for it to take pods any more
	}
	switch w.Phase {
	case nodescaler.Ordered:
		w.Since = m.Created // it is one phase, of many steps
	case nodescaler.Deleting:
		w.Since = m.Returned
	case nodescaler.Joined:
		w.Since = m.Joined
		if m.Rejoined.After(m.Joined) {
			w.Since = m.Rejoined
		}
	case nodescaler.Spare:
		w.Since = m.Stashed
	case nodescaler.Failed:
		w.Since = cmp.Or(m.FailedAt, m.since)
	case nodescaler.Booting:
	}
	return w
}

// problemOf is what is wrong with a machine, the worst first.
func (li *listing) problemOf(m *tracked) string {
	tell := func(r nodescaler.Reason) string { return r.Code + ": " + r.Text }
	host := li.view.seen.Host(m.Host)
	node, _ := li.members.nodeOf(m)
	switch {
	case m.Held != nil:
		return tell(*m.Held)
	case li.holds.heldBy(m) != nil:
		return tell(*li.holds.heldBy(m))
	case m.Failed != nil:
		return strings.Join(append([]string{tell(*m.Failed)}, m.Hints...), "; ")
	case li.catalogue.pools[m.Pool] == nil:
		return tell(reason(pvecode.PoolUnknown, "pool %s is not configured any more, and nothing says how its machines are proved", m.Pool))
	case host == nil && node.Ready:
		return tell(reason(placement.CodeHostUnknown, "host %s is no host of the cluster any more, and the machine runs there on: its node is ready", m.Host))
	case host == nil:
		return tell(reason(placement.CodeHostUnknown, "host %s is no host of the cluster any more", m.Host))
	case !host.Online:
		return tell(reason(placement.CodeHostOffline, "host %s is offline; this is what was last known", m.Host))
	case li.view.frozen != nil:
		return tell(*li.view.frozen)
	case m.hung && m.Task != nil:
		return tell(m.hanging(true))
	case !li.view.silent[m.Host].IsZero() && !m.settled():
		return tell(reason(pvecode.HostSilent, "host %s is online and does not answer; it is asked again every minute", m.Host))
	case m.problem.Code != "":
		return tell(m.problem)
	case li.view.stopped(m):
		return tell(reason(pvecode.Stopped, "VM %d does not run", m.VMID))
	case m.Step == intents.StepStarted && li.cfg.Nodes == nil:
		return tell(reason(pvecode.NodesUnknown, "whether it has joined cannot be seen"))
	}
	return ""
}

// starts reports whether a machine has stopped by itself and is started soon.
func (li *listing) starts(m *tracked) bool {
	return li.catalogue.stoppedItself(m) && m.Failed == nil && m.problem.Code != pvecode.Stopped
}

// hosts are the hosts in the loop's words. A host's room does not depend on who asks, so where
// pools see it differently the least counts: a policy that goes by it orders nothing that is
// refused. While nothing may be changed no host takes anything.
func (li *listing) hosts(g *placement.Ground) []nodescaler.Host {
	var all []nodescaler.Host
	for i := range g.Hosts {
		h := &g.Hosts[i]
		w := nodescaler.Host{
			Host:   pricing.Host{Name: h.Name},
			Online: h.Online, Cordoned: h.Maintenance || li.view.frozen != nil,
		}
		first := true
		for _, name := range slices.Sorted(maps.Keys(g.Pools)) {
			p := g.Pools[name]
			if len(p.Hosts) > 0 && !slices.Contains(p.Hosts, h.Name) {
				continue
			}
			room := g.Room(p, h)
			if first {
				w.Room, first = room, false
			}
			w.Room.CPU, w.Room.Memory = min(w.Room.CPU, room.CPU), min(w.Room.Memory, room.Memory)
		}
		all = append(all, w)
	}
	return all
}

// drift says in what a machine differs from what its pool would make now. What cannot be read now
// has not changed, and a machine of which it was not kept how it was made, or in a way that is not
// known any more, does not differ. Nor does one whose owner has upgraded it to what its pool would
// install.
func (li *listing) drift(m *tracked) string {
	p := li.catalogue.pools[m.Pool]
	if p == nil {
		return ""
	}
	version, node := p.Join.Install.Version, li.members.match.node[m.Name]
	switch now := li.view.original(p, m.Host); {
	case settings.Differs(m.Settings, li.catalogue.settingsOf(p, m.Host)):
		return "the settings of pool " + p.Name + " are others than it was made with"
	case !slices.Contains(p.Shapes, m.Shape):
		return "pool " + p.Name + " has its shape " + m.Shape.Name + " no more"
	case m.Original != "" && now != "" && m.Original != now:
		return fmt.Sprintf("template %d was changed since it was cloned", p.Template.On(m.Host))
	case m.Version != "" && version != "" && m.Version != version && node.Version != "" && node.Version != version:
		return fmt.Sprintf("pool %s installs %s, and its node runs %s", p.Name, version, node.Version)
	}
	return ""
}
