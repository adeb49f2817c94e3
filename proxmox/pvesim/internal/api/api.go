// Package api is how calls of the API are declared, who may make them, and what every call can do.
package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// Endpoint is one method of the API. Endpoints are declared in tables, each beside the code that
// serves it, and put together by the front.
type Endpoint struct {
	Method, Path string
	// In declares the parameters besides those in the path, in the notation of params.Schema.
	In string
	// May is who is let in. Rules that need more than it can say are checked by do.
	May Rule
	// Protected calls are done by pvedaemon, of whose workers there are three.
	Protected bool
	// NotToken refuses calls with an API token.
	NotToken bool
	// Open calls need no authentication.
	Open bool
	// Local calls are answered by the host that is asked, even if the path names another node.
	Local bool
	// Do serves the call while the world is locked, but for the times it waits.
	Do func(k *Call) (any, error)

	Schema *params.Schema // of in and of the path
}

// Call is one call of an endpoint.
type Call struct {
	world.Caller
	Entry   *world.Node // which was asked
	Process *engine.Process
	Node    *world.Node       // who answers: the host named in the path, or the entry
	Vars    map[string]string // from the path
	In      params.Values     // parameters, verified; those of the path among them
	Empty   bool              // a parameter was given without a value, and counts as absent
	File    []byte            // that was uploaded
	ByToken bool              // a token was in the header, though no one may have looked at it
	Total   *int              // set by lists that say how long they are

	Asked  time.Time
	Faults []*faults.Injected // that spoil it
}

// Rule is who may make a call: all of the parts, or one of them.
type Rule struct {
	Op    string // "user" for anybody, "perm", "and", "or", "self" for what do checks itself
	Path  string // with variables in braces
	Privs []string
	Any   bool   // one of privs is enough
	When  string // only when that parameter is given
	Parts []Rule
}

// Anybody who is authenticated.
var Anybody = Rule{Op: "user"}

// Checked by the endpoint itself, because it depends on more than the rules can say.
var Checked = Rule{Op: "self"}

// May wants all of the privileges on a path.
func May(path string, privs ...string) Rule { return Rule{Op: "perm", Path: path, Privs: privs} }

// MayAny wants one of the privileges on a path.
func MayAny(path string, privs ...string) Rule {
	return Rule{Op: "perm", Path: path, Privs: privs, Any: true}
}

// And wants all of the rules.
func And(parts ...Rule) Rule { return Rule{Op: "and", Parts: parts} }

// Or wants one of the rules.
func Or(parts ...Rule) Rule { return Rule{Op: "or", Parts: parts} }

// Given makes a rule hold only when a parameter is given.
func (r Rule) Given(param string) Rule { r.When = param; return r }

// Errand is the call's own work.
func (k *Call) Errand() *world.Errand {
	return &world.Errand{Caller: k.Caller, Patience: world.Patience{Process: k.Process}, Host: k.Node}
}

// Task starts a task on the host that answers, and returns its UPID.
func (k *Call) Task(kind, id string, body func(j *world.Errand) error) string {
	return k.World.Work(k.Node, k.Who, kind, id, body).UPID
}

// WriteUsers changes who there is and who may what, which needs quorum. Any error
// meanwhile ends up in one text, with its status in it if it had one of its own.
func (k *Call) WriteUsers(what string, change func() error) error {
	err := k.World.LockFile(k.Process, k.Node, "user_cfg")
	if err == nil {
		err = change()
	}
	if err == nil {
		return nil
	}
	e := failure.From(err)
	if e.Status == 500 {
		return failure.New("%s: %s", what, e.Reason)
	}
	text := fmt.Sprintf("%s: %d %s", what, e.Status, e.Reason)
	for _, key := range world.Sorted(e.Errors) {
		text += fmt.Sprintf("\n%s: %s", key, e.Errors[key])
	}
	return failure.New("%s", text)
}

// Index answers with what is below a path.
func Index(key, names string) func(*Call) (any, error) {
	var list []map[string]any
	for _, name := range strings.Fields(names) {
		list = append(list, map[string]any{key: name})
	}
	return func(*Call) (any, error) { return list, nil }
}

// NoSuchHost is what a call answers that names a host which is not there.
func NoSuchHost(name string) error {
	return failure.New("hostname lookup '%s' failed - failed to get address info for: %s: Temporary failure in name resolution", name, name)
}
