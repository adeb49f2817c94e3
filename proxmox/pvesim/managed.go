package pvesim

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
)

// ha is what high availability manages. What is in maps is in configuration files; the rest is the
// manager's.
type ha struct {
	c         *World
	resources map[string]map[string]string // by service, such as vm:201
	groups    map[string]map[string]string
	rules     map[string]map[string]string
	ordinal   int // of rules
	services  map[string]*service
	wishes    []haWish
	master    *host // nil while the manager sleeps
	stamp     time.Time
	away      map[string]time.Time // hosts that are not there, and since when
	next      time.Time            // the manager looks around
	p         *engine.Process
	round     func() // what the manager does when it looks around
}

// service is a resource as the manager has it.
type service struct {
	host  *host
	state string // as the manager calls it: request_start, started, request_stop, stopped, fence, recovery, migrate, error
	goal  *host  // of a migration
	fails int
}

// haWish is something that the manager is asked, and takes note of in its next round.
type haWish struct{ SID, State, Target string }

func newHA(c *World) *ha {
	return &ha{
		c:         c,
		resources: map[string]map[string]string{}, groups: map[string]map[string]string{}, rules: map[string]map[string]string{},
		services: map[string]*service{}, away: map[string]time.Time{},
	}
}

func sidOf(id int) string { return "vm:" + strconv.Itoa(id) }

// vmOf is the virtual machine of a service; nil for containers, and without one.
func (a *ha) vmOf(sid string) *vm {
	id, _ := strconv.Atoi(strings.TrimPrefix(sid, "vm:"))
	return a.c.vms[id]
}

// manages reports whether high availability manages a virtual machine.
func (a *ha) manages(id int) bool {
	r, is := a.resources[sidOf(id)]
	return is && r["state"] != "ignored"
}

// status is what a virtual machine's state says of it.
func (a *ha) status(id int) map[string]any {
	if !a.manages(id) {
		return map[string]any{"managed": 0}
	}
	out := map[string]any{"managed": 1, "state": nil}
	if s := a.services[sidOf(id)]; s != nil {
		out["state"] = s.state
	}
	if group := a.resources[sidOf(id)]["group"]; group != "" {
		out["group"] = group
	}
	return out
}

// state is what lists say of a virtual machine that is managed; empty is nothing.
func (a *ha) state(id int) string {
	sid := sidOf(id)
	if s := a.services[sid]; s != nil {
		return s.state
	}
	return a.resources[sid]["state"]
}

// request asks for a virtual machine to be started, which is noted at once, or to be stopped or
// moved, which the manager hears of in its next round.
func (a *ha) request(id int, state, target string) {
	if state == "started" {
		a.resources[sidOf(id)]["state"] = state
		return
	}
	a.wishes = append(a.wishes, haWish{sidOf(id), state, target})
}

// add has a virtual machine managed from now on, and remove no longer.
func (a *ha) add(id int, state string) {
	a.resources[sidOf(id)] = map[string]string{"state": state}
	a.wake()
}

func (a *ha) remove(id int) { delete(a.resources, sidOf(id)) }

// maintained reports whether a host is in maintenance.
func (c *World) maintained(h *host) bool {
	return c.faults.Active("host maintenance", "HOST", h.Name) != nil
}

// wake wakes the manager, if it sleeps. It sleeps again when there is nothing left to manage.
func (a *ha) wake() {
	if a.p == nil {
		a.next = a.c.Clock.Add(haWakes)
		a.goOn()
	}
}

func (a *ha) goOn() {
	a.p = a.c.Start(func(p *engine.Process) {
		p.Sleep(a.next.Sub(a.c.Clock))
		for len(a.resources)+len(a.services) > 0 {
			a.round()
			a.next = a.c.Clock.Add(haRounds)
			p.Sleep(haRounds)
		}
		a.master, a.p, a.wishes = nil, nil, nil
	})
}

// digest is what changes of a configuration file are told by.
func digest(of map[string]map[string]string) string {
	h := sha1.New() //nolint:gosec // see above
	for _, name := range sorted(of) {
		fmt.Fprintln(h, name)
		for _, key := range sorted(of[name]) {
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
	haFollows  = 5 * time.Second   // until a host does what was decided
	haFences   = 60 * time.Second  // for which a host must be away to be given up
	haRecovers = 120 * time.Second // until what ran on it starts elsewhere
)
