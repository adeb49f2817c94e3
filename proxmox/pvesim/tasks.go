package pvesim

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// shownFinished is how many tasks of each host that are over the whole cluster sees.
const shownFinished = 25

var taskEndpoints = []api.Endpoint{
	{Method: "GET", Path: "/cluster/tasks", May: api.Anybody, Do: getClusterTasks},
	{
		Method: "GET", Path: "/nodes/{node}/tasks", May: api.Anybody, Do: getTasks,
		In: `errors?:bool limit?:int[0..] since?:int source?:enum(archive,active,all) start?:int[0..]
			statusfilter?:task-status-type-list typefilter?:str until?:int userfilter?:str vmid?:vmid`,
	},
	{Method: "GET", Path: "/nodes/{node}/tasks/{upid}", May: api.Anybody, Local: true, Do: api.Index("name", "log status")},
	{Method: "DELETE", Path: "/nodes/{node}/tasks/{upid}", May: api.Anybody, Protected: true, Do: deleteTask},
	{
		Method: "GET", Path: "/nodes/{node}/tasks/{upid}/log", May: api.Anybody, Protected: true, Do: getTaskLog,
		In: "download?:bool limit?:int[0..] start?:int[0..]",
	},
	{Method: "GET", Path: "/nodes/{node}/tasks/{upid}/status", May: api.Anybody, Protected: true, Do: getTaskStatus},
}

var upidText = regexp.MustCompile(`^UPID:[a-zA-Z0-9][a-zA-Z0-9-]*:[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8,9}:[0-9A-Fa-f]{8}:[^:\s]+:[^:\s]*:[^:\s]+:$`)

// taskNamed is the UPID that the call is about.
func taskNamed(k *api.Call) (string, error) {
	upid := k.In["upid"]
	if !upidText.MatchString(upid) {
		return "", failure.OfParameter("upid", "unable to parse worker upid")
	}
	return upid, nil
}

// ofTask is the task that the call is about. Those of others are only for who may see the host's,
// or what priv says.
func ofTask(k *api.Call, priv string) (*world.Task, error) {
	upid, err := taskNamed(k)
	if err != nil {
		return nil, err
	}
	t := k.Node.Task(upid)
	if t == nil {
		return nil, failure.OfParameter("upid", "no such task")
	}
	if t.User != k.Who.User {
		return t, k.Errand().All("/nodes/"+k.Node.Name, priv)
	}
	return t, nil
}

// aboutTask is what every list says of a task.
func aboutTask(t *world.Task) map[string]any {
	a := map[string]any{"upid": t.UPID, "node": t.Host.Name, "type": t.Kind, "id": t.ID, "user": t.User, "starttime": t.Start.Unix()}
	if t.Token != "" {
		a["tokenid"] = t.Token
	}
	return a
}

// outcomeOf is how a task's end is classified.
func outcomeOf(t *world.Task) string {
	switch {
	case t.Running():
		return ""
	case t.Exit == "OK":
		return "ok"
	case !t.Failed():
		return "warning"
	case t.Exit == "unexpected status":
		return "unknown"
	}
	return "error"
}

func getTaskStatus(k *api.Call) (any, error) {
	t, err := ofTask(k, "Sys.Audit")
	if err != nil {
		return nil, err
	}
	a := aboutTask(t)
	a["pid"], a["pstart"], a["status"] = t.PID, t.PStart, "running"
	if !t.Running() {
		a["status"], a["exitstatus"] = "stopped", t.Exit
	}
	return a, nil
}

func getTaskLog(k *api.Call) (any, error) {
	upid, err := taskNamed(k)
	if err != nil {
		return nil, err
	}
	lines := []string{"unable to open file - No such file or directory"}
	if t := k.Node.Task(upid); t != nil {
		if t.User != k.Who.User {
			if err := k.Errand().All("/nodes/"+k.Node.Name, "Sys.Audit"); err != nil {
				return nil, err
			}
		}
		if lines = t.Log; len(lines) == 0 {
			lines = []string{"no content"}
		}
	}
	total := len(lines)
	k.Total = &total
	from, most := k.In.Int("start", 0), k.In.Int("limit", 50)
	if most == 0 { // which is all
		most = total
	}
	shown := []any{}
	for n := from; n < min(total, from+most); n++ {
		shown = append(shown, map[string]any{"n": n + 1, "t": lines[n]})
	}
	return shown, nil
}

// taskFilter is which tasks are asked for.
type taskFilter struct {
	k            *api.Call
	all          bool // not only the caller's own
	since, until int64
	outcomes     []string
}

func (f *taskFilter) wants(t *world.Task) bool {
	in := f.k.In
	switch {
	case !f.all && t.User != f.k.Who.User,
		in.Has("userfilter") && !strings.Contains(strings.ToLower(t.By()), strings.ToLower(in["userfilter"])),
		in.Has("typefilter") && t.Kind != in["typefilter"],
		in.Has("vmid") && t.ID != in["vmid"],
		in.Is("errors") && (t.Running() || t.Exit == "OK"),
		in.Has("since") && t.Start.Unix() < f.since,
		in.Has("until") && t.Start.Unix() > f.until,
		len(f.outcomes) > 0 && !slices.Contains(f.outcomes, outcomeOf(t)):
		return false
	}
	return true
}

func getTasks(k *api.Call) (any, error) {
	f := &taskFilter{
		k: k, all: k.World.Access.May(k.Who, "/nodes/"+k.Node.Name, "Sys.Audit"), outcomes: k.In.List("statusfilter"),
		since: int64(k.In.Int("since", 0)), until: int64(k.In.Int("until", 0)),
	}
	source := k.In.Or("source", "archive")
	var found []*world.Task
	for _, t := range newestFirst(k.Node.Tasks) {
		if (source == "all" || (source == "active") == t.Running()) && f.wants(t) {
			found = append(found, t)
		}
	}
	if n := len(found); n > 0 {
		k.Total = &n
	}
	from := min(k.In.Int("start", 0), len(found))
	most := k.In.Int("limit", 50)
	shown := []any{}
	for _, t := range found[from:min(len(found), from+most)] {
		shown = append(shown, listedTask(t))
	}
	return shown, nil
}

// newestFirst puts tasks in the order of their ends: those that run come first.
func newestFirst(tasks []*world.Task) []*world.Task {
	sorted := slices.Clone(tasks)
	slices.SortStableFunc(sorted, func(a, b *world.Task) int {
		switch {
		case a.Running() != b.Running():
			return map[bool]int{true: -1, false: 1}[a.Running()]
		case !a.End.Equal(b.End):
			return b.End.Compare(a.End)
		}
		return cmp.Compare(b.PID, a.PID)
	})
	return sorted
}

// listedTask is what a host's list says of a task.
func listedTask(t *world.Task) map[string]any {
	a := aboutTask(t)
	a["pid"], a["pstart"], a["status"] = t.PID, t.PStart, "RUNNING"
	if !t.Running() {
		a["status"], a["endtime"] = t.Exit, t.End.Unix()
	}
	return a
}

// getClusterTasks lists what runs, and the last tasks of each host. Tokens that may not see
// everything see nothing here, not even what they have started.
func getClusterTasks(k *api.Call) (any, error) {
	all := k.World.Access.May(k.Who, "/", "Sys.Audit")
	var found []*world.Task
	for _, h := range k.World.Nodes {
		finished := 0
		for _, t := range newestFirst(h.Tasks) {
			if !t.Running() {
				finished++
			}
			if finished <= shownFinished && (all || t.User == k.Who.User && k.Who.Token == "") {
				found = append(found, t)
			}
		}
	}
	shown := []any{}
	for _, t := range newestFirst(found) {
		a := aboutTask(t)
		if !t.Running() {
			a["endtime"], a["status"], a["saved"] = t.End.Unix(), t.Exit, "1"
		}
		shown = append(shown, a)
	}
	return shown, nil
}

func deleteTask(k *api.Call) (any, error) {
	t, err := ofTask(k, "Sys.Modify")
	if err != nil {
		return nil, err
	}
	k.Errand().EndTask(t)
	return nil, nil
}
