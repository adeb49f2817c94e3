package world

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
)

func newHA(c *World) *HA {
	return &HA{
		World:     c,
		Resources: map[string]map[string]string{}, Groups: map[string]map[string]string{}, Rules: map[string]map[string]string{},
		Services: map[string]*Service{}, Away: map[string]time.Time{},
	}
}

// SIDOf is the service that a virtual machine is.
func SIDOf(id int) string { return "vm:" + strconv.Itoa(id) }

// VMOf is the virtual machine of a service; nil for containers, and without one.
func (a *HA) VMOf(sid string) *Guest {
	id, _ := strconv.Atoi(strings.TrimPrefix(sid, "vm:"))
	return a.World.VMs[id]
}

// Manages reports whether high availability manages a virtual machine.
func (a *HA) Manages(id int) bool {
	r, is := a.Resources[SIDOf(id)]
	return is && r["state"] != "ignored"
}

// Status is what a virtual machine's state says of it.
func (a *HA) Status(id int) map[string]any {
	if !a.Manages(id) {
		return map[string]any{"managed": 0}
	}
	out := map[string]any{"managed": 1, "state": nil}
	if s := a.Services[SIDOf(id)]; s != nil {
		out["state"] = s.State
	}
	if group := a.Resources[SIDOf(id)]["group"]; group != "" {
		out["group"] = group
	}
	return out
}

// State is what lists say of a virtual machine that is managed; empty is nothing.
func (a *HA) State(id int) string {
	sid := SIDOf(id)
	if s := a.Services[sid]; s != nil {
		return s.State
	}
	return a.Resources[sid]["state"]
}

// Request asks for a virtual machine to be started, which is noted at once, or to be stopped or
// moved, which the manager hears of in its next round. The last to ask for a stop says how long it
// may take.
func (a *HA) Request(id int, w Wish) {
	w.SID = SIDOf(id)
	if w.State == "started" {
		a.Resources[w.SID]["state"] = w.State
		return
	}
	a.Wishes = append(a.Wishes, w)
}

// Add has a virtual machine managed from now on, and remove no longer.
func (a *HA) Add(id int, state string) {
	a.Resources[SIDOf(id)] = map[string]string{"state": state}
	a.Wake()
}

// Remove takes a virtual machine out of high availability.
func (a *HA) Remove(id int) { delete(a.Resources, SIDOf(id)) }

// Maintained reports whether a host is in maintenance.
func (c *World) Maintained(h *Node) bool {
	return c.Faults.Active("host maintenance", "HOST", h.Name) != nil
}

// Wake wakes the manager, if it sleeps. It sleeps again when there is nothing left to manage.
func (a *HA) Wake() {
	if a.Process == nil {
		a.Next = a.World.Clock.Add(haWakes)
		a.GoOn()
	}
}

// GoOn has the manager make its rounds while it has services.
func (a *HA) GoOn() {
	a.Process = a.World.Start(func(p *engine.Process) {
		p.Sleep(a.Next.Sub(a.World.Clock))
		for len(a.Resources)+len(a.Services) > 0 {
			a.Round()
			a.Next = a.World.Clock.Add(haRounds)
			p.Sleep(haRounds)
		}
		a.Master, a.Process, a.Wishes = nil, nil, nil
	})
}

// Digest is what changes of a configuration file are detected by.
func Digest(of map[string]map[string]string) string {
	h := sha1.New() //nolint:gosec // see above
	for _, name := range Sorted(of) {
		fmt.Fprintln(h, name)
		for _, key := range Sorted(of[name]) {
			fmt.Fprintln(h, key, of[name][key])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// How high availability spends its time. Its manager looks around every ten seconds; what it
// decides, the hosts' own managers do a while later.
const (
	haWakes    = 15 * time.Second // the manager, when there is something to manage
	haRounds   = 10 * time.Second
	HAFollows  = 5 * time.Second   // until a host does what was decided
	HAFences   = 60 * time.Second  // for which a host must be away to be given up
	HARecovers = 120 * time.Second // until what ran on it starts elsewhere
)
