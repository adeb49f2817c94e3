package pvesim

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// getHAStatus is what a person wants to know of high availability.
func getHAStatus(k *haCall) (any, error) {
	quorate := k.c.quorate(k.entry)
	text := "OK"
	if !quorate {
		text = fmt.Sprintf("No quorum on node '%s'!", k.entry.Name)
	}
	all := []any{map[string]any{"id": "quorum", "type": "quorum", "node": k.entry.Name, "status": text, "quorate": number(quorate)}}
	if master := k.c.ha.master; master != nil {
		all = append(all, map[string]any{
			"id": "master", "type": "master", "node": master.Name, "timestamp": k.c.ha.stamp.Unix(),
			"status": fmt.Sprintf("%s (%s, %s)", master.Name, managerOf(k.c).freshness(k.c.ha.stamp), clock(k.c.ha.stamp)),
		})
	}
	if k.c.since("9.2") {
		all = append(all, managerOf(k.c).fencing(k.entry))
	}
	if k.c.ha.master != nil {
		for _, h := range k.c.hosts {
			all = append(all, managerOf(k.c).hostManager(h))
		}
	}
	for _, sid := range sorted(k.c.ha.resources) {
		if k.c.ha.vmOf(sid) != nil {
			all = append(all, managerOf(k.c).serviceStatus(sid))
		}
	}
	return all, nil
}

func clock(t time.Time) string { return t.UTC().Format(time.ANSIC) }

// freshness is what is said of something that was written at a time.
func (a manager) freshness(at time.Time) string {
	if a.c.Clock.Sub(at) > 30*time.Second {
		return "old timestamp - dead?"
	}
	return "active"
}

func (a manager) fencing(asked *host) map[string]any {
	if a.master == nil {
		return map[string]any{"id": "fencing", "type": "fencing", "node": asked.Name, "armed-state": "standby", "status": "standby (CRM watchdog standby)"}
	}
	return map[string]any{"id": "fencing", "type": "fencing", "node": a.master.Name, "armed-state": "armed", "status": "armed (CRM watchdog active)"}
}

// hostManager is how a host's own manager is doing.
func (a manager) hostManager(h *host) map[string]any {
	mode, at := a.managerMode(h)
	text := fmt.Sprintf("%s (%s, %s)", h.Name, mode, clock(at))
	if watchdog := map[string]string{"active": "active", "idle": "standby"}[mode]; watchdog != "" && a.c.since("9.2") {
		text = fmt.Sprintf("%s (%s, watchdog %s, %s)", h.Name, mode, watchdog, clock(at))
	}
	return map[string]any{"id": "lrm:" + h.Name, "type": "lrm", "node": h.Name, "status": text, "timestamp": at.Unix()}
}

// managerMode is what a host's own manager does, and when it said so last.
func (a manager) managerMode(h *host) (string, time.Time) {
	busy := false
	for _, s := range a.services {
		busy = busy || s.host == h && s.state != "stopped"
	}
	at := a.c.Clock.Truncate(haFollows)
	if since, away := a.away[h.Name]; away {
		at = since
	}
	switch {
	case a.c.maintained(h):
		return "maintenance mode", at
	case a.freshness(at) != "active":
		return a.freshness(at), at
	case busy:
		return "active", at
	}
	return "idle", at
}

func (a manager) serviceStatus(sid string) map[string]any {
	r, s := a.resources[sid], a.services[sid]
	state := a.verboseState(sid)
	out := map[string]any{
		"id": "service:" + sid, "type": "service", "sid": sid, "node": a.vmOf(sid).host.Name, "state": state,
		"request_state": "started", "max_restart": 1, "max_relocate": 1,
	}
	if a.c.since("9.0") {
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
		out["node"], out["crm_state"] = s.host.Name, s.state
	}
	out["status"] = fmt.Sprintf("%s (%s, %s)", sid, out["node"], state)
	return out
}

// verboseState is a service's state as persons are told it, who want to see at once that they were
// heard.
func (a manager) verboseState(sid string) string {
	r, s := a.resources[sid], a.services[sid]
	switch {
	case r["state"] == "ignored":
		return "ignored"
	case s == nil:
		return "queued"
	case s.state == "stopped" && wantsStarted(r):
		return "starting"
	case s.state == "stopped" && r["state"] == "disabled":
		return "disabled"
	case s.state == "started" && !a.vmOf(sid).running():
		return "starting"
	case s.state == "started" && !wantsStarted(r):
		return "stopping"
	case s.state == "error" && r["state"] == "disabled":
		return "clearing error flag"
	}
	return s.state
}

// getHAManager is what the manager itself notes.
func getHAManager(k *haCall) (any, error) {
	notes := map[string]any{"node_status": map[string]any{}}
	out := map[string]any{
		"manager_status": notes,
		"quorum":         map[string]any{"node": k.entry.Name, "quorate": strconv.Itoa(number(k.c.quorate(k.entry)))},
	}
	if k.c.ha.master == nil {
		return out, nil
	}
	nodes, services, managers := map[string]any{}, map[string]any{}, map[string]any{}
	for _, h := range k.c.hosts {
		nodes[h.Name] = managerOf(k.c).nodeState(h)
		mode, at := managerOf(k.c).managerMode(h)
		kind := map[bool]string{true: "maintenance", false: "active"}[k.c.maintained(h)]
		state := map[bool]string{true: "active", false: "wait_for_agent_lock"}[slices.Contains([]string{"active", "maintenance mode"}, mode)]
		managers[h.Name] = map[string]any{"mode": kind, "state": state, "timestamp": at.Unix(), "results": map[string]any{}}
	}
	for sid, s := range k.c.ha.services {
		services[sid] = map[string]any{"node": s.host.Name, "state": s.state}
	}
	notes["master_node"], notes["node_status"], notes["service_status"] = k.c.ha.master.Name, nodes, services
	notes["timestamp"], out["lrm_status"] = k.c.ha.stamp.Unix(), managers
	return out, nil
}

// nodeState is how the manager finds a host.
func (a manager) nodeState(h *host) string {
	since, away := a.away[h.Name]
	switch {
	case away && a.c.Clock.Sub(since) >= haFences:
		return "fence"
	case away:
		return "unknown"
	case a.c.maintained(h):
		return "maintenance"
	}
	return "online"
}
