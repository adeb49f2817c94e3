package pve

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
)

// deceive lets what the fleet is shown be other than it is: nodes vanish from the list or are there
// twice, hold pods when their machines are to go, and the clock leaps.
func (l *life) deceive() {
	switch l.rng.IntN(5) {
	case 0:
		l.note("THE NODES VANISH")
		some := l.rng.IntN(3)
		l.emptied = func(name string) bool { return some == 0 || int(name[len(name)-1])%3 != some }
		for range 1 + l.rng.IntN(5) {
			l.live(time.Duration(1+l.rng.IntN(4)) * time.Minute)
			l.asTheLoopDoes()
			if names := l.names(); l.rng.IntN(2) == 0 && len(names) > 0 {
				l.giveBack(names[l.rng.IntN(len(names))])
			}
			if r, err := l.fleet.Collect(context.Background(), nil); err == nil && l.rng.IntN(2) == 0 {
				l.note("COLLECT %+v", r.Orphans)
			}
		}
		if l.rng.IntN(4) > 0 {
			l.note("THE NODES ARE BACK")
			l.emptied = nil
		}
	case 1:
		if n := l.someNode(); n != nil {
			l.note("%s HOLDS PODS", n.Name)
			l.pods[n.Name] = []string{"shop/web-0"}
		}
	case 2:
		l.note("THE PODS GO")
		clear(l.pods)
	case 3:
		if n := l.someNode(); n != nil {
			twin := Node{Name: fmt.Sprintf("twin-%d", l.rng.IntN(100)), ProviderID: n.ProviderID, Ready: l.rng.IntN(2) == 0}
			if l.rng.IntN(2) == 0 {
				twin.ProviderID, twin.SystemUUID = "", n.SystemUUID
			}
			l.note("%s CLAIMS THE MACHINE OF %s", twin.Name, n.Name)
			l.joins = append(l.joins, joining{node: twin, at: l.sim.Now()})
		}
	case 4:
		l.ahead = []time.Duration{0, 0, 6 * time.Hour, 20 * time.Minute, -time.Hour}[l.rng.IntN(5)]
		l.note("THE CLOCK GOES %s AHEAD", l.ahead)
	}
}

// undeceive lets all be shown as it is.
func (l *life) undeceive() {
	l.emptied, l.ahead = nil, 0
	clear(l.pods)
	l.joins = slices.DeleteFunc(l.joins, func(j joining) bool { return strings.HasPrefix(j.node.Name, "twin-") })
}

func (l *life) someNode() *Node {
	if len(l.joins) == 0 {
		return nil
	}
	return &l.joins[l.rng.IntN(len(l.joins))].node
}

// waits reports whether a machine is held, and lets a person resume the pool when the brake holds
// it: what is let go then goes in the next round.
func (l *life) waits() bool {
	braked := len(l.fleet.Braked()) > 0
	if braked {
		err := l.fleet.Resume("web")
		l.note("A PERSON RESUMES THE POOL: %v", err)
		l.silent = nil
	}
	there := map[string]bool{}
	for _, v := range l.sim.Inventory().VMs {
		_, smbios := pveapi.Properties(v.Config["smbios1"])
		there[smbios["uuid"]] = true
	}
	state, err := l.fleet.List(context.Background())
	named := func(n Node) bool {
		return slices.ContainsFunc(state.Machines, func(m nodescaler.Machine) bool { return m.Held != nil && strings.Contains(m.Held.Text, n.Name+" ") })
	}
	// And whoever reads of contradictions deletes what is left over.
	l.joins = slices.DeleteFunc(l.joins, func(j joining) bool {
		return !there[j.node.SystemUUID] && named(j.node)
	})
	return braked || err != nil || slices.ContainsFunc(state.Machines, func(m nodescaler.Machine) bool { return m.Held != nil && !l.excused(m.Name) })
}

// nodesOf are the nodes of a machine, as they are shown.
func (l *life) nodesOf(v pvesim.VMState) (all []Node) {
	nodes, _ := l.nodes(context.Background())
	for _, n := range nodes {
		if n.SystemUUID != "" && strings.Contains(v.Config["smbios1"], n.SystemUUID) {
			all = append(all, n)
		}
	}
	return all
}

// seen notes which machines the fleet has been shown a ready node of.
func (l *life) seen() {
	for _, m := range l.fleet.roster.machines {
		if n, there := l.fleet.members.nodeOf(m); there && n.Ready && !m.Joined.IsZero() {
			l.once[m.Name] = true
		}
	}
}

// watchEnd looks at a machine that is about to be shut down, stopped or destroyed.
func (l *life) watchEnd(v pvesim.VMState) {
	name := l.made[v.ID]
	if l.disks[v.ID] && v.Config["scsi1"] != "" {
		l.fail("VM %d (%s) would go with a disk that a person has put into it", v.ID, name)
	}
	ready := false
	for _, n := range l.nodesOf(v) {
		ready = ready || n.Ready
		if n.Ready && len(l.pods[n.Name]) > 0 && l.cfg.LastLook != nil {
			l.fail("VM %d (%s) would be stopped, and its node %s is ready and holds pods", v.ID, name, n.Name)
		}
	}
	began, begun := l.leaving[name]
	if begun && !began.Before(l.lost) || v.State != "running" {
		return
	}
	l.leaving[name] = l.sim.Now()
	if ready || !l.once[name] || l.rests(name) {
		return
	}
	l.silent = append(l.silent, l.sim.Now())
	n := 0
	for _, at := range l.silent {
		if l.sim.Now().Sub(at) < brakeWindow && at.After(l.lost) {
			n++
		}
	}
	if n > 1 { // pools have fewer than twenty machines here
		l.fail("%d machines went within an hour whose nodes were away, the last was VM %d (%s)", n, v.ID, name)
	}
}
