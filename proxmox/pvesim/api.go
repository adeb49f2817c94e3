package pvesim

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

// endpoint is one method of the API. Endpoints are declared in tables, each beside the code that
// serves it, and put together in endpoints.
type endpoint struct {
	method, path string
	// in declares the parameters besides those in the path, in the notation of params.go.
	in string
	// may is who is let in. Rules that need more than it can say are checked by do.
	may rule
	// protected calls are done by pvedaemon, of whose workers there are three.
	protected bool
	// notToken refuses calls with an API token.
	notToken bool
	// open calls need no authentication.
	open bool
	// local calls are answered by the host that is asked, whatever node the path names.
	local bool
	// do serves the call while the world stands still, but for the times it waits.
	do func(k *call) (any, error)

	schema *params.Schema // of in and of the path
}

// call is one call of an endpoint.
type call struct {
	world.Caller
	entry   *world.Node // which was asked
	p       *engine.Process
	node    *world.Node       // who answers: the host named in the path, or the entry
	vars    map[string]string // from the path
	in      params.Values     // parameters, verified; those of the path among them
	empty   bool              // a parameter was given without a value, and counts as absent
	file    []byte            // that was uploaded
	byToken bool              // a token was in the header, though no one may have looked at it
	total   *int              // set by lists that say how long they are

	asked  time.Time
	faults []*faults.Injected // that spoil it
}

// rule is who may make a call: all of the parts, or one of them.
type rule struct {
	op    string // "user" for anybody, "perm", "and", "or", "self" for what do checks itself
	path  string // with variables in braces
	privs []string
	any   bool   // one of privs is enough
	when  string // only when that parameter is given
	parts []rule
}

// anybody who is authenticated.
var anybody = rule{op: "user"}

// checked by the endpoint itself, because it depends on more than the rules can say.
var checked = rule{op: "self"}

func may(path string, privs ...string) rule { return rule{op: "perm", path: path, privs: privs} }

func mayAny(path string, privs ...string) rule {
	return rule{op: "perm", path: path, privs: privs, any: true}
}

func and(parts ...rule) rule { return rule{op: "and", parts: parts} }
func or(parts ...rule) rule  { return rule{op: "or", parts: parts} }

// given makes a rule hold only when a parameter is given.
func (r rule) given(param string) rule { r.when = param; return r }

// errand is the call's own work.
func (k *call) errand() *world.Errand {
	return &world.Errand{Caller: k.Caller, Patience: world.Patience{Process: k.p}, Host: k.node}
}

// task starts a task on the host that answers, and returns its UPID.
func (k *call) task(kind, id string, body func(j *world.Errand) error) string {
	return k.World.Work(k.node, k.Who, kind, id, body).UPID
}

// writeUsers changes who there is and who may what, which needs quorum. Whatever goes wrong
// meanwhile ends up in one text, with its status in it if it had one of its own.
func (k *call) writeUsers(what string, change func() error) error {
	err := k.World.LockFile(k.p, k.node, "user_cfg")
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

// index answers with what is below a path.
func index(key, names string) func(*call) (any, error) {
	var list []map[string]any
	for _, name := range strings.Fields(names) {
		list = append(list, map[string]any{key: name})
	}
	return func(*call) (any, error) { return list, nil }
}

func noSuchHost(name string) error {
	return failure.New("hostname lookup '%s' failed - failed to get address info for: %s: Temporary failure in name resolution", name, name)
}
