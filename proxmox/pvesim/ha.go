package pvesim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
)

//nolint:gosec // it is what the server tells changes by

var haEndpoints = []endpoint{
	{method: "GET", path: "/cluster/ha", may: may("/", "Sys.Audit"), do: index("id", "status resources groups rules")},
	{method: "GET", path: "/cluster/ha/status", may: anybody, do: index("name", "current manager_status")},
	{method: "GET", path: "/cluster/ha/status/current", may: may("/", "Sys.Audit"), do: haDo(getHAStatus)},
	{method: "GET", path: "/cluster/ha/status/manager_status", may: may("/", "Sys.Audit"), do: haDo(getHAManager)},
	{method: "GET", path: "/cluster/ha/resources", may: may("/", "Sys.Audit"), do: haDo(getHAResources), in: `type?:enum(ct,vm)`},
	{method: "POST", path: "/cluster/ha/resources", may: may("/", "Sys.Console"), protected: true, do: haDo(addHAResource),
		in: haResourceNotation + ` sid:ha-resource-or-vm-id type?:enum(ct,vm)`},
	{method: "GET", path: "/cluster/ha/resources/{sid}", may: may("/", "Sys.Audit"), do: haDo(getHAResource)},
	{method: "PUT", path: "/cluster/ha/resources/{sid}", may: may("/", "Sys.Console"), protected: true, do: haDo(changeHAResource),
		in: haResourceNotation + ` delete?:configid-list[..4096] digest?:str[..64]`},
	{method: "DELETE", path: "/cluster/ha/resources/{sid}", may: may("/", "Sys.Console"), protected: true, do: haDo(removeHAResource), in: `purge?:bool`},
	{method: "POST", path: "/cluster/ha/resources/{sid}/migrate", may: may("/", "Sys.Console"), protected: true, do: haDo(moveHAResource), in: `node:node`},
	{method: "POST", path: "/cluster/ha/resources/{sid}/relocate", may: may("/", "Sys.Console"), protected: true, do: haDo(moveHAResource), in: `node:node`},
	{method: "GET", path: "/cluster/ha/groups", may: may("/", "Sys.Audit"), do: haDo(getHAGroups)},
	{method: "POST", path: "/cluster/ha/groups", may: may("/", "Sys.Console"), protected: true, do: haDo(addHAGroup),
		in: haGroupNotation + ` group:configid nodes:ha-node-list type?:enum(group)`},
	{method: "GET", path: "/cluster/ha/groups/{group}", may: may("/", "Sys.Audit"), do: haDo(getHAGroup)},
	{method: "PUT", path: "/cluster/ha/groups/{group}", may: may("/", "Sys.Console"), protected: true, do: haDo(changeHAGroup),
		in: haGroupNotation + ` nodes?:ha-node-list delete?:configid-list[..4096] digest?:str[..64]`},
	{method: "DELETE", path: "/cluster/ha/groups/{group}", may: may("/", "Sys.Console"), protected: true, do: haDo(removeHAGroup)},
	{method: "GET", path: "/cluster/ha/rules", may: may("/", "Sys.Audit"), do: haDo(getHARules), in: `type?:enum(node-affinity,resource-affinity) resource?:str`},
	{method: "POST", path: "/cluster/ha/rules", may: may("/", "Sys.Console"), protected: true, do: haDo(addHARule),
		in: haRuleNotation + ` rule:configid type:enum(node-affinity,resource-affinity) resources:ha-resource-id-list`},
	{method: "GET", path: "/cluster/ha/rules/{rule}", may: may("/", "Sys.Audit"), do: haDo(getHARule)},
	{method: "PUT", path: "/cluster/ha/rules/{rule}", may: may("/", "Sys.Console"), protected: true, do: haDo(changeHARule),
		in: haRuleNotation + ` type:enum(node-affinity,resource-affinity) resources?:ha-resource-id-list delete?:configid-list[..4096] digest?:str[..64]`},
	{method: "DELETE", path: "/cluster/ha/rules/{rule}", may: may("/", "Sys.Console"), protected: true, do: haDo(removeHARule)},
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
type manager struct{ *ha }

func managerOf(c *World) manager { return manager{c.ha} }

// manage lets high availability do its rounds, whenever there is something to manage.
func manage(c *World) { c.ha.round = managerOf(c).round }

// round is what the manager does when it looks around. Without quorum no one is the manager.
func (a manager) round() {
	i := slices.IndexFunc(a.c.hosts, a.c.quorate)
	if i < 0 {
		return
	}
	if a.master == nil || !a.c.quorate(a.master) {
		a.master = a.c.hosts[i]
	}
	a.stamp = a.c.Clock
	a.look()
	a.hear()
	for _, sid := range sorted(a.services) {
		a.decide(sid, a.services[sid])
	}
	for _, h := range a.c.hosts {
		if h.up {
			a.follow(h)
		}
	}
}

// look notes who is away, and takes in what is new.
func (a manager) look() {
	for _, h := range a.c.hosts {
		switch {
		case a.master.online(h):
			delete(a.away, h.Name)
		case a.away[h.Name].IsZero():
			a.away[h.Name] = a.c.Clock
		}
	}
	for sid := range a.services {
		if m := a.vmOf(sid); m == nil || a.resources[sid] == nil {
			delete(a.services, sid)
		}
	}
	for sid, r := range a.resources {
		if m := a.vmOf(sid); m != nil && a.services[sid] == nil && r["state"] != "ignored" {
			a.services[sid] = &service{host: m.host, state: requested(r)}
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
	wishes := a.wishes
	a.wishes = nil
	for _, w := range wishes {
		r, s := a.resources[w.SID], a.services[w.SID]
		switch {
		case r == nil || s == nil:
		case w.Target != "":
			if s.state == "started" || s.state == "stopped" {
				s.goal = a.c.host(w.Target)
			}
		default:
			r["state"] = w.State
		}
	}
}

// decide moves a service on by one state.
func (a manager) decide(sid string, s *service) {
	r, m := a.resources[sid], a.vmOf(sid)
	since, away := a.away[s.host.Name]
	gone := a.c.Clock.Sub(since)
	switch {
	case away && gone >= haRecovers && s.state == "fence":
		a.recoverElsewhere(sid, s)
	case away && gone >= haFences && s.state != "stopped":
		s.state = "fence"
	case away:
	case s.state == "error":
		if r["state"] == "disabled" {
			s.state, s.fails = "stopped", 0
		}
	case a.c.maintained(s.host) && s.goal == nil && s.state == "started":
		s.goal = a.refuge(s.host)
	case s.state == "request_start":
		s.state = "started"
	case s.state == "request_stop":
		if !m.running() {
			s.state = "stopped"
		}
	case s.state == "started" && !wantsStarted(r), s.state == "stopped" && wantsStarted(r):
		s.state = requested(r)
	}
}

// recoverElsewhere gives a service of a host that is gone to another one.
func (a manager) recoverElsewhere(sid string, s *service) {
	s.state = "recovery"
	if to := a.refuge(s.host); to != nil {
		m := a.vmOf(sid)
		if m.running() {
			a.c.switchOff(m)
		}
		m.host, s.host = to, to
		s.state = requested(a.resources[sid])
	}
}

// refuge is the host with the fewest services among those that can take one from another.
func (a manager) refuge(from *host) *host {
	var best *host
	least := 0
	for _, h := range a.c.hosts {
		if h == from || !a.master.online(h) || a.c.maintained(h) {
			continue
		}
		n := 0
		for _, s := range a.services {
			if s.host == h {
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
func (a manager) follow(h *host) {
	since, away := a.away[h.Name]
	switch {
	case len(a.servicesOf(h)) == 0:
	case away && a.c.Clock.Sub(since) >= haFences:
		a.c.powerCycle(h)
	case !away:
		h.follows = a.c.Clock.Add(haFollows)
		a.followLater(h)
	}
}

func (a manager) followLater(h *host) {
	a.c.Start(func(p *engine.Process) {
		p.Sleep(h.follows.Sub(a.c.Clock))
		h.follows = time.Time{}
		if h.up && a.c.quorate(h) {
			for _, sid := range a.servicesOf(h) {
				a.act(sid, a.services[sid])
			}
		}
	})
}

// servicesOf are those that are on a host.
func (a manager) servicesOf(h *host) []string {
	var all []string
	for _, sid := range sorted(a.services) {
		if a.services[sid].host == h {
			all = append(all, sid)
		}
	}
	return all
}

// act starts, stops or moves a virtual machine, as the host's own manager does it.
func (a manager) act(sid string, s *service) {
	m := a.vmOf(sid)
	if m == nil || a.busy(m) {
		return
	}
	switch {
	case s.goal != nil:
		a.move(m, s)
	case s.state == "started" && !m.running():
		if s.fails > 1 { // it is tried once more, and then given up
			s.state = "error"
			return
		}
		a.watch(s, a.task(m, "qmstart"))
	case s.state == "request_stop" && m.running():
		a.task(m, "qmshutdown")
	}
}

// task has a host do something to a virtual machine in high availability's own name.
func (a manager) task(m *vm, kind string) *task {
	id := m.id
	return a.c.work(m.host, &access.Identity{User: access.RootUser}, kind, strconv.Itoa(id), func(j *errand) error {
		if kind == "qmstart" {
			return powerOnAgain(j, id)
		}
		return shutDown(j, id)
	})
}

// move moves a virtual machine to the host that the service is to be on.
func (a manager) move(m *vm, s *service) {
	s.state = "migrate"
	t := migrate(a.c, m, s.goal)
	a.c.Start(func(p *engine.Process) {
		p.Until(func() bool { return !t.running() })
		s.goal, s.host, s.state = nil, m.host, "started"
	})
}

// busy reports whether a task is at work on a virtual machine.
func (a manager) busy(m *vm) bool {
	return slices.ContainsFunc(m.host.tasks, func(t *task) bool {
		return t.running() && t.id == strconv.Itoa(m.id) && t.kind != "hastart" && t.kind != "hastop" && t.kind != "qmclone"
	})
}

// watch counts a start that fails.
func (a manager) watch(s *service, t *task) {
	a.c.Start(func(p *engine.Process) {
		p.Until(func() bool { return !t.running() })
		s.fails++
		if t.exit == "OK" || strings.HasPrefix(t.exit, "WARNINGS") {
			s.fails = 0
		}
	})
}

// haEntry is an entry of a configuration file as answers have it.
func haEntry(of map[string]map[string]string, s *params.Schema, key, name string) map[string]any {
	out := map[string]any{key: name, "digest": digest(of)}
	for k, v := range of[name] {
		out[k] = s.Shown(k, v)
	}
	return out
}

// change sets and deletes an entry's keys as the call says, but for those that name it.
func (k *haCall) change(entry map[string]string, but ...string) {
	for key, value := range k.in {
		if key != "delete" && key != "digest" && !slices.Contains(but, key) {
			entry[key] = value
		}
	}
	for _, key := range k.in.List("delete") {
		delete(entry, key)
	}
}

// unchanged refuses a change to what another client has changed meanwhile.
func (k *haCall) unchanged(of map[string]map[string]string) error {
	if k.in.Has("digest") && k.in["digest"] != digest(of) {
		return failure.New("detected modified configuration - file changed by other user? Try again.")
	}
	return nil
}

// lockHA waits for the lock on what high availability is configured by.
func (k *haCall) lockHA(what string) error {
	k.c.settled(k.p)
	if k.p.Wait(waitQuorum, func() bool { return k.c.quorate(k.node) }) {
		return nil
	}
	return failure.New("%s: cfs-lock 'domain-ha' error: no quorum!", what)
}

// haCall is a call about high availability.
type haCall struct{ *call }

func haDo(do func(k *haCall) (any, error)) func(*call) (any, error) {
	return func(k *call) (any, error) { return do(&haCall{k}) }
}
