package pvesim

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/accounts"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/ha"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/machines"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/storages"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// request is what a client asks, as it came over the wire.
type request struct {
	method   string
	path     string // as it was sent, percent-encoded
	query    string
	header   http.Header
	encoding string // of the transfer
	body     []byte
	tooLarge bool // the body was not read
	call     *api.Call
}

// response is what a client gets.
type response struct {
	status   int
	reason   string
	kind     string // content type
	coding   string // content encoding
	location string
	body     []byte
	bare     bool  // neither body nor length
	lost     error // the connection breaks instead
}

// maxBody is the longest body that is read, but for uploads.
const maxBody = 512 << 10

// serve answers a request that has come to a host. The first check that fails is the answer: a
// caller without rights learns nothing about parameters, nor whether the thing exists.
func (f *front) serve(p *engine.Process, entry *world.Node, r *request) *response {
	k := exchange{&api.Call{Caller: world.Caller{World: f.c.World}, Entry: entry, Process: p, Node: entry}}
	began := f.c.Clock
	formatter, path, answer := r.place()
	if answer != nil {
		return answer
	}
	r.call = k.Call
	if answer := k.beforeAnswering(r, path); answer != nil {
		return answer
	}
	if err := k.admit(r, path); err != nil {
		p.Sleep(world.WaitUnauthorized)
		return bare(err)
	}
	if answer := r.refuseBody(path); answer != nil {
		return answer
	}
	if formatter != "json" && formatter != "extjs" {
		return plain(501, fmt.Sprintf("no formatter for uri %s, %s", path, formatter))
	}
	sent, answer := k.parameters(r)
	if answer != nil {
		return answer
	}
	data, err := k.answer(r.method, path, sent)
	if err != nil && failure.From(err).Status == 401 {
		p.Sleep(world.WaitUnauthorized - f.c.Clock.Sub(began))
	}
	answer = k.format(formatter, data, err)
	k.afterCode(answer)
	return answer
}

var apiForm = regexp.MustCompile(`(?s)^/api2/+([a-z][a-z0-9]+)(/.*)?$`)

// place is what a request asks for, and in which form, as far as it is one that is understood at
// all.
func (r *request) place() (formatter, path string, answer *response) {
	switch {
	case !slices.Contains([]string{"GET", "POST", "PUT", "DELETE"}, r.method):
		return "", "", &response{status: 501, reason: fmt.Sprintf("method '%s' not available", r.method), bare: true}
	case r.encoding == "chunked":
		return "", "", plain(501, "chunked transfer encoding not supported")
	case r.encoding != "":
		return "", "", plain(501, fmt.Sprintf("Unknown transfer encoding '%s'", r.encoding))
	}
	path, err := url.PathUnescape(r.path)
	if err != nil {
		path = r.path
	}
	if !strings.HasPrefix(path, "/api2") {
		return "", "", plain(501, fmt.Sprintf("no such file '%s'", path))
	}
	m := apiForm.FindStringSubmatch(path)
	if m == nil {
		return "", "", plain(501, "no such uri")
	}
	return m[1], cmp.Or(m[2], "/"), nil
}

// admit finds out who asks. Who uploads is asked for the right to before the file is read.
func (k exchange) admit(r *request, path string) error {
	if err := k.authenticate(r, path); err != nil {
		return err
	}
	m := uploadPath.FindStringSubmatch(path)
	if r.method != "POST" || m == nil {
		return nil
	}
	return k.Permit(api.May("/storage/{storage}", "Datastore.AllocateTemplate"), map[string]any{"storage": m[2]})
}

func plain(status int, text string) *response {
	return &response{status: status, reason: failure.FirstLine(text), body: []byte(text)}
}

func bare(err error) *response {
	e := failure.From(err)
	return &response{status: e.Status, reason: failure.FirstLine(e.Reason), bare: true}
}

// answer finds the method and does what is between it and its code.
func (k exchange) answer(method, path string, sent map[string]any) (any, error) {
	r := routes().find(path, k.Call)
	e := r.methods[method]
	if e == nil {
		return nil, &failure.Error{Status: 501, Reason: fmt.Sprintf("Method '%s %s' not implemented", method, path)}
	}
	for name, value := range k.Vars {
		if other, given := sent[name]; given && other != any(value) {
			return nil, failure.OfParameter(name, "duplicate parameter (already defined in URI) with conflicting values!")
		}
		sent[name] = value
	}
	if e.NotToken && k.ByToken {
		return nil, failure.Denied("URI '%s' not available with API token, need proper ticket.\n", path)
	}
	if !e.Open {
		if err := k.Permit(e.May, sent); err != nil {
			return nil, err
		}
	}
	if err := k.goThere(e); err != nil {
		return nil, err
	}
	if e.Protected {
		return k.occupyWorker(func(at *api.Call) (any, error) { return exchange{at}.run(e, sent) })
	}
	return k.run(e, sent)
}

// goThere passes the call on to the host that is named in the path.
func (k exchange) goThere(e *api.Endpoint) error {
	name, named := k.Vars["node"]
	if !named || e.Local || name == "localhost" || name == k.Entry.Name {
		return nil
	}
	h := k.World.Node(name)
	if h == nil {
		return api.NoSuchHost(name)
	}
	k.Node = h
	return k.proxy(h)
}

// run verifies the parameters and runs the code.
func (k exchange) run(e *api.Endpoint, sent map[string]any) (any, error) {
	in, err := e.Schema.Verify(sent)
	if err != nil {
		return nil, err
	}
	k.In = in
	for _, value := range sent {
		k.Empty = k.Empty || value == nil
	}
	k.beforeCode(e)
	if err := machines.Serves(k.World, e); err != nil {
		return nil, err
	}
	return e.Do(k.Call)
}

// route is a place in the tree of paths.
type route struct {
	fixed   map[string]*route
	any     *route
	name    string // of the variable that any means
	methods map[string]*api.Endpoint
}

// routes is the tree of all endpoints, with their parameters read.
var routes = sync.OnceValue(func() *route {
	root := &route{fixed: map[string]*route{}, methods: map[string]*api.Endpoint{}}
	for _, e := range endpoints() {
		at, notation := root, e.In
		for _, part := range segments(e.Path) {
			at = at.child(part)
			if name, is := variable(part); is && !strings.Contains(" "+e.In, " "+name+"?:") {
				notation += " " + pathNotation(name)
			}
		}
		if at.methods[e.Method] != nil {
			panic("pvesim: declared twice: " + e.Method + " " + e.Path)
		}
		e.Schema = params.Declare(notation)
		at.methods[e.Method] = &e
	}
	return root
})

// pathParams are what variables in paths are declared as; those that are not here are any text.
var pathParams = map[string]string{
	"node": "node", "vmid": "vmid", "storage": "storage-id", "userid": "userid[..64]", "roleid": "roleid",
	"tokenid": "/" + params.TokenName + "/", "poolid": "poolid", "snapname": "configid[..40]", "iface": "iface[2..20]",
	"sid": "ha-resource-or-vm-id", "group": "configid", "rule": "configid", "groupid": "groupid", "realm": "realm[..32]",
	"service": "enum(" + strings.Join(world.Sorted(services), ",") + ")",
}

func pathNotation(name string) string {
	if kind, is := pathParams[name]; is {
		return name + ":" + kind
	}
	return name + ":str"
}

func segments(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

func variable(part string) (string, bool) {
	name, is := strings.CutPrefix(part, "{")
	return strings.TrimSuffix(name, "}"), is
}

func (at *route) child(part string) *route {
	next := at.fixed[part]
	name, isVar := variable(part)
	if isVar {
		next = at.any
	}
	if next == nil {
		next = &route{fixed: map[string]*route{}, methods: map[string]*api.Endpoint{}}
	}
	if isVar {
		at.any, at.name = next, name
	} else {
		at.fixed[part] = next
	}
	return next
}

// find is the place of a path, and sets the call's variables. A volume is all that is left of a
// path.
func (at *route) find(path string, k *api.Call) *route {
	k.Vars = map[string]string{}
	parts := segments(path)
	for i, part := range parts {
		next := at.fixed[part]
		if next == nil && at.any != nil {
			next = at.any
			k.Vars[at.name] = part
			if at.name == "volume" {
				k.Vars[at.name] = strings.Join(parts[i:], "/")
				return next
			}
		}
		if next == nil {
			return &route{}
		}
		at = next
	}
	return at
}

// endpoints is the whole API.
func endpoints() []api.Endpoint {
	var all []api.Endpoint
	for _, some := range [][]api.Endpoint{
		accounts.Endpoints, loginEndpoints, indexEndpoints, clusterEndpoints, ha.Endpoints, nodeEndpoints, sdnEndpoints, poolEndpoints, storages.Endpoints, taskEndpoints, machines.Endpoints,
	} {
		all = append(all, some...)
	}
	return all
}

// exchange is a call on its way in and out.
type exchange struct{ *api.Call }
