package ha

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// getHAStatus is what a person wants to know of high availability.
func getHAStatus(k *call) (any, error) {
	quorate := k.World.Quorate(k.Entry)
	text := "OK"
	if !quorate {
		text = fmt.Sprintf("No quorum on node '%s'!", k.Entry.Name)
	}
	all := []any{map[string]any{"id": "quorum", "type": "quorum", "node": k.Entry.Name, "status": text, "quorate": world.Number(quorate)}}
	if master := k.World.HA.Master; master != nil {
		all = append(all, map[string]any{
			"id": "master", "type": "master", "node": master.Name, "timestamp": k.World.HA.Stamp.Unix(),
			"status": fmt.Sprintf("%s (%s, %s)", master.Name, managerOf(k.World).freshness(k.World.HA.Stamp), clock(k.World.HA.Stamp)),
		})
	}
	if k.World.Since("9.2") {
		all = append(all, managerOf(k.World).fencing(k.Entry))
	}
	if k.World.HA.Master != nil {
		for _, h := range k.World.Nodes {
			all = append(all, managerOf(k.World).hostManager(h))
		}
	}
	for _, sid := range world.Sorted(k.World.HA.Resources) {
		if k.World.HA.VMOf(sid) != nil {
			all = append(all, managerOf(k.World).serviceStatus(sid))
		}
	}
	return all, nil
}

func clock(t time.Time) string { return t.UTC().Format(time.ANSIC) }

// freshness is what is said of something that was written at a time.
func (a manager) freshness(at time.Time) string {
	if a.World.Clock.Sub(at) > 30*time.Second {
		return "old timestamp - dead?"
	}
	return "active"
}

func (a manager) fencing(asked *world.Node) map[string]any {
	if a.Master == nil {
		return map[string]any{"id": "fencing", "type": "fencing", "node": asked.Name, "armed-state": "standby", "status": "standby (CRM watchdog standby)"}
	}
	return map[string]any{"id": "fencing", "type": "fencing", "node": a.Master.Name, "armed-state": "armed", "status": "armed (CRM watchdog active)"}
}

// hostManager is how a host's own manager is doing.
func (a manager) hostManager(h *world.Node) map[string]any {
	mode, at := a.managerMode(h)
	text := fmt.Sprintf("%s (%s, %s)", h.Name, mode, clock(at))
	if watchdog := map[string]string{"active": "active", "idle": "standby"}[mode]; watchdog != "" && a.World.Since("9.2") {
		text = fmt.Sprintf("%s (%s, watchdog %s, %s)", h.Name, mode, watchdog, clock(at))
	}
	return map[string]any{"id": "lrm:" + h.Name, "type": "lrm", "node": h.Name, "status": text, "timestamp": at.Unix()}
}

// managerMode is what a host's own manager does, and when it said so last.
func (a manager) managerMode(h *world.Node) (string, time.Time) {
	busy := false
	for _, s := range a.Services {
		busy = busy || s.Host == h && s.State != "stopped"
	}
	at := a.World.Clock.Truncate(world.HAFollows)
	if since, away := a.Away[h.Name]; away {
		at = since
	}
	switch {
	case a.World.Maintained(h):
		return "maintenance mode", at
	case a.freshness(at) != "active":
		return a.freshness(at), at
	case busy:
		return "active", at
	}
	return "idle", at
}

func (a manager) serviceStatus(sid string) map[string]any {
	r, s := a.Resources[sid], a.Services[sid]
	state := a.verboseState(sid)
	out := map[string]any{
		"id": "service:" + sid, "type": "service", "sid": sid, "node": a.VMOf(sid).Host.Name, "state": state,
		"request_state": "started", "max_restart": 1, "max_relocate": 1,
	}
	if a.World.Since("9.0") {
		out["failback"] = 1
	}
	if !wantsStarted(r) {
		out["request_state"] = r["state"]
	}
	for _, key := range []string{"max_restart", "max_relocate", "failback"} {
		if n, err := strconv.Atoi(r[key]); err == nil {
			out[key] = n
		}
	}
	for _, key := range []string{"group", "comment"} {
		if r[key] != "" {
			out[key] = r[key]
		}
	}
	if s != nil {
		out["node"], out["crm_state"] = s.Host.Name, s.State
	}
	out["status"] = fmt.Sprintf("%s (%s, %s)", sid, out["node"], state)
	return out
}

// verboseState is a service's state as it is shown to persons, who want to see at once that they
// were heard.
func (a manager) verboseState(sid string) string {
	r, s := a.Resources[sid], a.Services[sid]
	switch {
	case r["state"] == "ignored":
		return "ignored"
	case s == nil:
		return "queued"
	case s.State == "stopped" && wantsStarted(r):
		return "starting"
	case s.State == "stopped" && r["state"] == "disabled":
		return "disabled"
	case s.State == "started" && !a.VMOf(sid).Running():
		return "starting"
	case s.State == "started" && !wantsStarted(r):
		return "stopping"
	case s.State == "error" && r["state"] == "disabled":
		return "clearing error flag"
	}
	return s.State
}

// getHAManager is what the manager itself notes.
func getHAManager(k *call) (any, error) {
	notes := map[string]any{"node_status": map[string]any{}}
	out := map[string]any{
		"manager_status": notes,
		"quorum":         map[string]any{"node": k.Entry.Name, "quorate": strconv.Itoa(world.Number(k.World.Quorate(k.Entry)))},
	}
	if k.World.HA.Master == nil {
		return out, nil
	}
	nodes, services, managers := map[string]any{}, map[string]any{}, map[string]any{}
	for _, h := range k.World.Nodes {
		nodes[h.Name] = managerOf(k.World).nodeState(h)
		mode, at := managerOf(k.World).managerMode(h)
		kind := map[bool]string{true: "maintenance", false: "active"}[k.World.Maintained(h)]
		state := map[bool]string{true: "active", false: "wait_for_agent_lock"}[slices.Contains([]string{"active", "maintenance mode"}, mode)]
		managers[h.Name] = map[string]any{"mode": kind, "state": state, "timestamp": at.Unix(), "results": map[string]any{}}
	}
	for sid, s := range k.World.HA.Services {
		services[sid] = map[string]any{"node": s.Host.Name, "state": s.State}
	}
	notes["master_node"], notes["node_status"], notes["service_status"] = k.World.HA.Master.Name, nodes, services
	notes["timestamp"], out["lrm_status"] = k.World.HA.Stamp.Unix(), managers
	return out, nil
}

// nodeState is how the manager finds a host.
func (a manager) nodeState(h *world.Node) string {
	since, away := a.Away[h.Name]
	switch {
	case away && a.World.Clock.Sub(since) >= world.HAFences:
		return "fence"
	case away:
		return "unknown"
	case a.World.Maintained(h):
		return "maintenance"
	}
	return "online"
}
