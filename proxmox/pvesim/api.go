package pvesim

import (
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
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

// endpoints is the whole API.
func endpoints() []endpoint {
	var all []endpoint
	for _, some := range [][]endpoint{
		accessEndpoints, indexEndpoints, clusterEndpoints, haEndpoints, nodeEndpoints, poolEndpoints, storageEndpoints, taskEndpoints, vmEndpoints,
	} {
		all = append(all, some...)
	}
	return all
}

// call is one call of an endpoint.
type call struct {
	caller
	entry   *host // which was asked
	p       *engine.Process
	node    *host             // who answers: the host named in the path, or the entry
	vars    map[string]string // from the path
	in      params.Values     // parameters, verified; those of the path among them
	empty   bool              // a parameter was given without a value, and counts as absent
	file    []byte            // that was uploaded
	byToken bool              // a token was in the header, though no one may have looked at it
	total   *int              // set by lists that say how long they are

	asked  time.Time
	faults []*faults.Injected // that spoil it
}

// exchange is a call on its way in and out.
type exchange struct{ *call }

// How long the server waits for things. They are all here, so that one look shows what the
// emulated cluster's days are made of.
const (
	waitUnauthorized = 3 * time.Second  // before every 401
	waitFile         = 10 * time.Second // for the lock on a VM's configuration
	waitFileOfClone  = 1 * time.Second  // for those of a clone and its source
	waitStorage      = 10 * time.Second // for the lock on a storage
	waitQuorum       = 10 * time.Second // for a cluster-wide lock without quorum
	waitAgent        = 3 * time.Second  // for a guest agent that does not answer
	waitProxy        = 30 * time.Second // for pvedaemon, or another host
	waitLost         = 8 * time.Second  // until hosts agree that one has gone: a token's time-out, then consensus
	waitFound        = 3 * time.Second  // until they agree that one has come
	waitShutdown     = 60 * time.Second // for a guest to go down, unless told otherwise
	broadcastEvery   = 10 * time.Second // of what hosts tell about their VMs
	broadcastExpires = 5 * time.Minute
	keepAliveIdle    = 5 * time.Second
	keepAliveCalls   = 100
	daemonWorkers    = 3
)

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
func (k *call) errand() *errand {
	return &errand{caller: k.caller, patience: patience{p: k.p}, host: k.node}
}

// task starts a task on the host that answers, and returns its UPID.
func (k *call) task(kind, id string, body func(j *errand) error) string {
	return k.c.work(k.node, k.who, kind, id, body).upid
}

// writeUsers changes who there is and who may what, which needs quorum. Whatever goes wrong
// meanwhile ends up in one text, with its status in it if it had one of its own.
func (k *call) writeUsers(what string, change func() error) error {
	err := k.c.lockFile(k.p, k.node, "user_cfg")
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
	for _, key := range sorted(e.Errors) {
		text += fmt.Sprintf("\n%s: %s", key, e.Errors[key])
	}
	return failure.New("%s", text)
}
