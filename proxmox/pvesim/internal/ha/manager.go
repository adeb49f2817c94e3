// Package ha is high availability: its manager, and what the API says of it.
package ha

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/machines"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// Endpoints are the calls on high availability.
var Endpoints = []api.Endpoint{
	{Method: "GET", Path: "/cluster/ha", May: api.May("/", "Sys.Audit"), Do: api.Index("id", "status resources groups rules")},
	{Method: "GET", Path: "/cluster/ha/status", May: api.Anybody, Do: api.Index("name", "current manager_status")},
	{Method: "GET", Path: "/cluster/ha/status/current", May: api.May("/", "Sys.Audit"), Do: do(getHAStatus)},
	{Method: "GET", Path: "/cluster/ha/status/manager_status", May: api.May("/", "Sys.Audit"), Do: do(getHAManager)},
	{Method: "GET", Path: "/cluster/ha/resources", May: api.May("/", "Sys.Audit"), Do: do(getHAResources), In: `type?:enum(ct,vm)`},
	{Method: "POST", Path: "/cluster/ha/resources", May: api.May("/", "Sys.Console"), Protected: true, Do: do(addHAResource),
		In: haResourceNotation + ` sid:ha-resource-or-vm-id type?:enum(ct,vm)`},
	{Method: "GET", Path: "/cluster/ha/resources/{sid}", May: api.May("/", "Sys.Audit"), Do: do(getHAResource)},
	{Method: "PUT", Path: "/cluster/ha/resources/{sid}", May: api.May("/", "Sys.Console"), Protected: true, Do: do(changeHAResource),
		In: haResourceNotation + ` delete?:configid-list[..4096] digest?:str[..64]`},
	{Method: "DELETE", Path: "/cluster/ha/resources/{sid}", May: api.May("/", "Sys.Console"), Protected: true, Do: do(removeHAResource), In: `purge?:bool`},
	{Method: "POST", Path: "/cluster/ha/resources/{sid}/migrate", May: api.May("/", "Sys.Console"), Protected: true, Do: do(moveHAResource), In: `node:node`},
	{Method: "POST", Path: "/cluster/ha/resources/{sid}/relocate", May: api.May("/", "Sys.Console"), Protected: true, Do: do(moveHAResource), In: `node:node`},
	{Method: "GET", Path: "/cluster/ha/groups", May: api.May("/", "Sys.Audit"), Do: do(getHAGroups)},
	{Method: "POST", Path: "/cluster/ha/groups", May: api.May("/", "Sys.Console"), Protected: true, Do: do(addHAGroup),
		In: haGroupNotation + ` group:configid nodes:ha-node-list type?:enum(group)`},
	{Method: "GET", Path: "/cluster/ha/groups/{group}", May: api.May("/", "Sys.Audit"), Do: do(getHAGroup)},
	{Method: "PUT", Path: "/cluster/ha/groups/{group}", May: api.May("/", "Sys.Console"), Protected: true, Do: do(changeHAGroup),
		In: haGroupNotation + ` nodes?:ha-node-list delete?:configid-list[..4096] digest?:str[..64]`},
	{Method: "DELETE", Path: "/cluster/ha/groups/{group}", May: api.May("/", "Sys.Console"), Protected: true, Do: do(removeHAGroup)},
	{Method: "GET", Path: "/cluster/ha/rules", May: api.May("/", "Sys.Audit"), Do: do(getHARules), In: `type?:enum(node-affinity,resource-affinity) resource?:str`},
	{Method: "POST", Path: "/cluster/ha/rules", May: api.May("/", "Sys.Console"), Protected: true, Do: do(addHARule),
		In: haRuleNotation + ` rule:configid type:enum(node-affinity,resource-affinity) resources:ha-resource-id-list`},
	{Method: "GET", Path: "/cluster/ha/rules/{rule}", May: api.May("/", "Sys.Audit"), Do: do(getHARule)},
	{Method: "PUT", Path: "/cluster/ha/rules/{rule}", May: api.May("/", "Sys.Console"), Protected: true, Do: do(changeHARule),
		In: haRuleNotation + ` type:enum(node-affinity,resource-affinity) resources?:ha-resource-id-list delete?:configid-list[..4096] digest?:str[..64]`},
	{Method: "DELETE", Path: "/cluster/ha/rules/{rule}", May: api.May("/", "Sys.Console"), Protected: true, Do: do(removeHARule)},
}

// How entries of its configuration files are declared.
var (
	haResourceSchema = params.Declare(haResourceNotation)
	haGroupSchema    = params.Declare(haGroupNotation)
	haRuleSchema     = params.Declare(haRuleNotation + ` order:int`)
)

const (
	haGroupNotation    = `comment?:str[..4096] nofailback?:bool restricted?:bool`
	haResourceNotation = `comment?:str[..4096] failback?:bool group?:configid max_relocate?:int[0..] max_restart?:int[0..]
		state?:enum(started,stopped,enabled,disabled,ignored)`
	haRuleNotation = `comment?:str[..4096] disable?:bool nodes?:ha-node-list strict?:bool affinity?:enum(positive,negative)`
)

// manager is high availability at work.
type manager struct{ *world.HA }

func managerOf(c *world.World) manager { return manager{c.HA} }

// Manage lets high availability do its rounds, whenever there is something to manage.
func Manage(c *world.World) { c.HA.Round = managerOf(c).round }

// Resume has a host do what had been decided before a cluster was saved.
func Resume(c *world.World, h *world.Node) { managerOf(c).followLater(h) }

// round is what the manager does when it looks around. Without quorum no one is the manager.
func (a manager) round() {
	i := slices.IndexFunc(a.World.Nodes, a.World.Quorate)
	if i < 0 {
		return
	}
	if a.Master == nil || !a.World.Quorate(a.Master) {
		a.Master = a.World.Nodes[i]
	}
	a.Stamp = a.World.Clock
	a.look()
	a.hear()
	for _, sid := range world.Sorted(a.Services) {
		a.decide(sid, a.Services[sid])
	}
	for _, h := range a.World.Nodes {
		if h.Up {
			a.follow(h)
		}
	}
}

// look notes who is away, and takes in what is new.
func (a manager) look() {
	for _, h := range a.World.Nodes {
		switch {
		case a.Master.Online(h):
			delete(a.Away, h.Name)
		case a.Away[h.Name].IsZero():
			a.Away[h.Name] = a.World.Clock
		}
	}
	for sid := range a.Services {
		if m := a.VMOf(sid); m == nil || a.Resources[sid] == nil {
			delete(a.Services, sid)
		}
	}
	for sid, r := range a.Resources {
		if m := a.VMOf(sid); m != nil && a.Services[sid] == nil && r["state"] != "ignored" {
			a.Services[sid] = &world.Service{Host: m.Host, State: requested(r)}
		}
	}
}

// requested is the state in which the manager brings a service to that which its resource wants.
func requested(r map[string]string) string {
	if wantsStarted(r) {
		return "request_start"
	}
	return "request_stop"
}

func wantsStarted(r map[string]string) bool {
	return r["state"] == "" || r["state"] == "started" || r["state"] == "enabled"
}

// hear takes note of what the manager was asked.
func (a manager) hear() {
	wishes := a.Wishes
	a.Wishes = nil
	for _, w := range wishes {
		r, s := a.Resources[w.SID], a.Services[w.SID]
		switch {
		case r == nil || s == nil:
		case w.Target != "":
			if s.State == "started" || s.State == "stopped" {
				s.Goal = a.World.Node(w.Target)
			}
		default:
			r["state"], s.Limit = w.State, w.Limit
		}
	}
}

// decide moves a service on by one state.
func (a manager) decide(sid string, s *world.Service) {
	r, m := a.Resources[sid], a.VMOf(sid)
	since, away := a.Away[s.Host.Name]
	gone := a.World.Clock.Sub(since)
	switch {
	case away && gone >= world.HARecovers && s.State == "fence":
		a.recoverElsewhere(sid, s)
	case away && gone >= world.HAFences && s.State != "stopped":
		s.State = "fence"
	case away:
	case s.State == "error":
		if r["state"] == "disabled" {
			s.State, s.Fails = "stopped", 0
		}
	case a.World.Maintained(s.Host) && s.Goal == nil && s.State == "started":
		s.Goal = a.refuge(s.Host)
	case s.State == "request_start":
		s.State = "started"
	case s.State == "request_stop":
		if !m.Running() {
			s.State, s.Limit = "stopped", 0
		}
	case s.State == "started" && !wantsStarted(r), s.State == "stopped" && wantsStarted(r):
		s.State = requested(r)
	}
}

// recoverElsewhere gives a service of a host that is gone to another one.
func (a manager) recoverElsewhere(sid string, s *world.Service) {
	s.State = "recovery"
	if to := a.refuge(s.Host); to != nil {
		m := a.VMOf(sid)
		if m.Running() {
			a.World.SwitchOff(m)
		}
		m.Host, s.Host = to, to
		s.State = requested(a.Resources[sid])
	}
}

// refuge is the host with the fewest services among those that can take one from another.
func (a manager) refuge(from *world.Node) *world.Node {
	var best *world.Node
	least := 0
	for _, h := range a.World.Nodes {
		if h == from || !a.Master.Online(h) || a.World.Maintained(h) {
			continue
		}
		n := 0
		for _, s := range a.Services {
			if s.Host == h {
				n++
			}
		}
		if best == nil || n < least {
			best, least = h, n
		}
	}
	return best
}

// follow has a host do what was decided for its services, a while later. A host that has services
// and no quorum for a minute is reset by its watchdog.
func (a manager) follow(h *world.Node) {
	since, away := a.Away[h.Name]
	switch {
	case len(a.servicesOf(h)) == 0:
	case away && a.World.Clock.Sub(since) >= world.HAFences:
		a.World.PowerCycle(h)
	case !away:
		h.Follows = a.World.Clock.Add(world.HAFollows)
		a.followLater(h)
	}
}

func (a manager) followLater(h *world.Node) {
	a.World.Start(func(p *engine.Process) {
		p.Sleep(h.Follows.Sub(a.World.Clock))
		h.Follows = time.Time{}
		if h.Up && a.World.Quorate(h) {
			for _, sid := range a.servicesOf(h) {
				a.act(sid, a.Services[sid])
			}
		}
	})
}

// servicesOf are those that are on a host.
func (a manager) servicesOf(h *world.Node) []string {
	var all []string
	for _, sid := range world.Sorted(a.Services) {
		if a.Services[sid].Host == h {
			all = append(all, sid)
		}
	}
	return all
}

// act starts, stops or moves a virtual machine, as the host's own manager does it.
func (a manager) act(sid string, s *world.Service) {
	m := a.VMOf(sid)
	if m == nil || a.busy(m) {
		return
	}
	switch {
	case s.Goal != nil:
		a.move(m, s)
	case s.State == "started" && !m.Running():
		if s.Fails > 1 { // it is tried once more, and then given up
			s.State = "error"
			return
		}
		a.watch(s, a.task(m, "qmstart"))
	case s.State == "request_stop" && m.Running():
		a.task(m, "qmshutdown")
	}
}

// task has a host do something to a virtual machine in high availability's own name.
func (a manager) task(m *world.Guest, kind string) *world.Task {
	id, limit := m.ID, a.Services[world.SIDOf(m.ID)].Limit
	return a.World.Work(m.Host, &access.Identity{User: access.RootUser}, kind, strconv.Itoa(id), func(j *world.Errand) error {
		if kind == "qmstart" {
			return machines.Start(j, id)
		}
		return machines.ShutDown(j, id, limit)
	})
}

// move moves a virtual machine to the host that the service is to be on.
func (a manager) move(m *world.Guest, s *world.Service) {
	s.State = "migrate"
	t := machines.Migrate(a.World, m, s.Goal)
	a.World.Start(func(p *engine.Process) {
		p.Until(func() bool { return !t.Running() })
		s.Goal, s.Host, s.State = nil, m.Host, "started"
	})
}

// busy reports whether a task is at work on a virtual machine.
func (a manager) busy(m *world.Guest) bool {
	return slices.ContainsFunc(m.Host.Tasks, func(t *world.Task) bool {
		return t.Running() && t.ID == strconv.Itoa(m.ID) && t.Kind != "hastart" && t.Kind != "hastop" && t.Kind != "qmclone"
	})
}

// watch counts a start that fails.
func (a manager) watch(s *world.Service, t *world.Task) {
	a.World.Start(func(p *engine.Process) {
		p.Until(func() bool { return !t.Running() })
		s.Fails++
		if t.Exit == "OK" || strings.HasPrefix(t.Exit, "WARNINGS") {
			s.Fails = 0
		}
	})
}

// haEntry is an entry of a configuration file as answers have it.
func haEntry(of map[string]map[string]string, s *params.Schema, key, name string) map[string]any {
	out := map[string]any{key: name, "digest": world.Digest(of)}
	for k, v := range of[name] {
		out[k] = s.Shown(k, v)
	}
	return out
}

// change sets and deletes an entry's keys as the call says, but for those that name it.
func (k *call) change(entry map[string]string, but ...string) {
	for key, value := range k.In {
		if key != "delete" && key != "digest" && !slices.Contains(but, key) {
			entry[key] = value
		}
	}
	for _, key := range k.In.List("delete") {
		delete(entry, key)
	}
}

// unchanged refuses a change to what another client has changed meanwhile.
func (k *call) unchanged(of map[string]map[string]string) error {
	if k.In.Has("digest") && k.In["digest"] != world.Digest(of) {
		return failure.New("detected modified configuration - file changed by other user? Try again.")
	}
	return nil
}

// lockHA waits for the lock on what high availability is configured by.
func (k *call) lockHA(what string) error {
	k.World.Settled(k.Process)
	if k.Process.Wait(world.WaitQuorum, func() bool { return k.World.Quorate(k.Node) }) {
		return nil
	}
	return failure.New("%s: cfs-lock 'domain-ha' error: no quorum!", what)
}

// call is a call about high availability.
type call struct{ *api.Call }

func do(do func(k *call) (any, error)) func(*api.Call) (any, error) {
	return func(k *api.Call) (any, error) { return do(&call{k}) }
}
