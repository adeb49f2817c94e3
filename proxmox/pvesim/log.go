package pvesim

import (
	"bytes"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// Call is a call that was made, as it ended.
type Call struct {
	At   time.Time     `json:"at"` // it came
	Took time.Duration `json:"took"`
	Host string        `json:"host"` // that was asked
	// With the token, if it came with one; empty if no one is known.
	User   string `json:"user"`
	Method string `json:"method"`
	Path   string `json:"path"` // without /api2/json and query
	Query  string `json:"query,omitempty"`
	Status int    `json:"status"` // 0 if the connection broke
	Reason string `json:"reason"`
	Task   string `json:"task,omitempty"` // that it started
}

// front is how calls come in, and what is remembered of them.
type front struct {
	c      *Cluster
	made   []Call
	onCall func(Call)
}

// keptCalls is how many calls are remembered.
const keptCalls = 100_000

// Calls are the calls that were made, oldest first. Of many, only the newest are remembered.
func (c *Cluster) Calls() []Call {
	var all []Call
	c.With(func() { all = append(all, c.made...) })
	return all
}

// OnCall sets what is called with every call that was made. It is called while the cluster is
// locked, and must not call it back.
func (c *Cluster) OnCall(told func(Call)) { c.With(func() { c.onCall = told }) }

// serveAndLog serves a request, remembers it, and ends it with the host.
func (f *front) serveAndLog(p *engine.Process, entry *world.Node, r *request) *response {
	entry.Serving[p] = true
	did := Call{At: f.c.Clock, Host: entry.Name, Method: r.method, Path: apiPath(r.path), Query: r.query, Reason: "connection broke"}
	defer func() {
		delete(entry.Serving, p)
		did.Took = f.c.Clock.Sub(did.At)
		f.log(did)
	}()
	answer := f.serve(p, entry, r)
	if r.call != nil && r.call.Who != nil {
		did.User = r.call.Who.String()
	}
	if answer.lost == nil {
		did.Status, did.Reason, did.Task = answer.status, answer.reason, startedTask(answer.body)
	}
	return answer
}

func (f *front) log(did Call) {
	if len(f.made) == keptCalls {
		f.made = append(f.made[:0], f.made[keptCalls/2:]...)
	}
	f.made = append(f.made, did)
	if f.onCall != nil {
		f.onCall(did)
	}
}

// apiPath is a path without what says in which form answers are wanted.
func apiPath(path string) string {
	if rest, is := strings.CutPrefix(path, "/api2/"); is {
		_, rest, _ = strings.Cut(rest, "/")
		return "/" + rest
	}
	return path
}

// startedTask is the task that an answer names.
func startedTask(body []byte) string {
	rest, is := bytes.CutPrefix(body, []byte(`{"data":"UPID:`))
	if !is {
		return ""
	}
	upid, _, _ := bytes.Cut(rest, []byte(`"`))
	return "UPID:" + string(upid)
}
