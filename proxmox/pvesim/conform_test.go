package pvesim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/reference"
)

// conform lets calls through, and fails the test for every request that the published schema does
// not allow, and for every good answer that is not what it promises.
func conform(t testing.TB, next http.RoundTripper) http.RoundTripper {
	return &conforming{t: t, schema: publishedSchema(t), next: next}
}

type conforming struct {
	t      testing.TB
	schema *reference.Schema
	next   http.RoundTripper
}

func (c *conforming) RoundTrip(req *http.Request) (*http.Response, error) {
	x := reference.Exchange{Verb: req.Method, URL: req.URL, ContentType: req.Header.Get("Content-Type")}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		x.Body = body
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := c.next.RoundTrip(req)
	if err == nil {
		x.Status = resp.StatusCode
		x.Answer, err = io.ReadAll(resp.Body)
		resp.Body = io.NopCloser(bytes.NewReader(x.Answer))
	}
	for _, problem := range c.schema.Problems(x) {
		c.t.Errorf("%s", problem)
	}
	return resp, err
}

// canned answers everything alike.
type canned string

func (a canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}

// heard keeps what a test has heard.
type heard struct {
	testing.TB
	said []string
}

func (h *heard) Errorf(format string, args ...any) {
	h.said = append(h.said, fmt.Sprintf(format, args...))
}

func TestWhatDoesNotConformIsTold(t *testing.T) {
	for _, test := range []struct {
		request, answer string
		want            []string
	}{
		{"GET /version", `{"data":{"release":"9.2","repoid":"14a22df35955d97d","version":"9.2.11"}}`, nil},
		{"GET /version?foo=1", `{"data":{"release":"9.2","repoid":"14a22df35955d97d","version":"9.2.11"}}`, []string{
			`GET /api2/json/version: foo: "property is not defined in schema and the schema does not allow additional properties"`}},
		{"GET /version", `{"data":{"release":9,"repoid":"14a22df35955d97d"}}`, []string{
			"GET /api2/json/version: data.release: is json.Number 9, and not of type string",
			"GET /api2/json/version: data.version: is missing"}},
		{"POST /nodes/pve1/qemu/100/clone?newid=abc", `{"data":"UPID:"}`, []string{
			`POST /api2/json/nodes/pve1/qemu/100/clone: newid: "type check ('integer') failed - got 'abc'"`}},
		{"GET /nope", `{"data":null}`, []string{"GET /api2/json/nope: there is no such endpoint"}},
	} {
		h := &heard{TB: t}
		verb, path, _ := strings.Cut(test.request, " ")
		form := ""
		if verb == "POST" {
			path, form, _ = strings.Cut(path, "?")
		}
		req, err := http.NewRequest(verb, "https://pve1:8006/api2/json"+path, strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if _, err := conform(h, canned(test.answer)).RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(h.said, test.want) {
			t.Errorf("%s: %q, want %q", test.request, h.said, test.want)
		}
	}
}

// The emulator's own notation of its endpoints says what the published schema says: the same
// parameters with the same rules, the same privileges, and the same daemon.
func TestEndpointsAreDeclaredAsPublished(t *testing.T) {
	published := publishedSchema(t)
	n, beyond := 0, 0
	routes() // reads the notation
	for _, e := range declaredEndpoints() {
		name := e.Method + " " + e.Path
		m := published.Named(e.Method, e.Path)
		switch {
		case m == nil && (reference.Unpublished(e.Method, e.Path) || undumped[e.Path] != ""):
			beyond++
			continue
		case m == nil:
			t.Errorf("%s: there is no such endpoint", name)
			continue
		}
		n++
		c := comparison{t: t, published: published}
		c.properties(name, m.Parameters.All(), e.Schema)
		if e.Protected != bool(m.Protected) {
			t.Errorf("%s: is protected: %t, published %t", name, e.Protected, m.Protected)
		}
		if e.NotToken == bool(m.Allowtoken) {
			t.Errorf("%s: may be called with a token: %t, published %t", name, !e.NotToken, m.Allowtoken)
		}
		comparePermission(t, name, e, m)
	}
	t.Logf("%d of the %d endpoints that are published are declared so, and %d others", n, len(published.Methods), beyond)
}

// undumped are paths of Proxmox VE's that are neither in the published part of the schema nor among
// the recordings, and why the emulator serves them.
var undumped = map[string]string{
	"/access/groups":           "privileges are often granted to groups",
	"/access/groups/{groupid}": "privileges are often granted to groups",
	"/access/users/{userid}":   "users are changed and removed",
	"/storage/{storage}":       "storages are changed and removed",

	"/cluster/config":                        "clients that describe a cluster follow its indexes",
	"/cluster/config/join":                   "clients read the hosts' addresses and fingerprints here",
	"/nodes/{node}/hardware":                 "clients that describe a host follow its indexes",
	"/nodes/{node}/hardware/pci":             "Terraform's provider and go-proxmox list devices",
	"/nodes/{node}/hardware/usb":             "Terraform's provider and go-proxmox list devices",
	"/nodes/{node}/services":                 "clients look whether a host's daemons run",
	"/nodes/{node}/services/{service}":       "clients look whether a host's daemons run",
	"/nodes/{node}/services/{service}/state": "clients look whether a host's daemons run",
	"/nodes/{node}/wakeonlan":                "clients wake hosts that are off",

	"/cluster/mapping":                       "Terraform's provider lists mappings",
	"/cluster/mapping/dir":                   "Terraform's provider lists mappings",
	"/cluster/mapping/pci":                   "Terraform's provider lists mappings",
	"/cluster/mapping/usb":                   "Terraform's provider lists mappings",
	"/cluster/sdn/zones":                     "Terraform's provider lists virtual networks",
	"/nodes/{node}/sdn/zones/{zone}/content": "clients look which virtual networks a host has",
	"/nodes/{node}/certificates/info":        "clients that pin a certificate ask for its fingerprint",
}

// declaredEndpoints are the endpoints with their notation read.
func declaredEndpoints() []*api.Endpoint {
	var all []*api.Endpoint
	var walk func(at *route)
	walk = func(at *route) {
		for _, e := range at.methods {
			all = append(all, e)
		}
		for _, next := range at.fixed {
			walk(next)
		}
		if at.any != nil {
			walk(at.any)
		}
	}
	walk(routes())
	slices.SortFunc(all, func(a, b *api.Endpoint) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	return all
}

type comparison struct {
	t         *testing.T
	published *reference.Schema
}

// properties compares the parameters of a call, or the keys of a property string.
func (c *comparison) properties(at string, want map[string]*reference.Property, got *params.Schema) {
	declared := map[string]*params.Param{}
	for name, p := range got.Params {
		declared[name] = p
	}
	for stem, p := range got.Numbered {
		declared[stem+"[n]"] = p
		if has := fmt.Sprintf("%d..%d", p.First, p.Last); has != c.published.Ranges[stem] {
			c.t.Errorf("%s: %s: runs from %s, published %s", at, stem, has, c.published.Ranges[stem])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if p := declared[name]; p == nil {
			c.t.Errorf("%s: %s: is not declared", at, name)
		} else {
			c.property(at+": "+name, want[name], p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if want[name] == nil {
			c.t.Errorf("%s: %s: is declared, and not published", at, name)
		}
	}
}

func (c *comparison) property(at string, want *reference.Property, got *params.Param) {
	differ := func(what string, got, want any) {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			c.t.Errorf("%s: %s is %v, published %v", at, what, got, want)
		}
	}
	differ("alias", got.Alias, want.Alias)
	if want.Alias != "" {
		differ("the key that the alias sets", got.Kind, want.KeyAlias)
		return
	}
	differ("type", got.Typ, want.Type)
	differ("being optional", got.Optional, want.Optional)
	differ("standing without its name", got.Unnamed, want.DefaultKey)
	differ("enumeration", got.Enum, want.Enum)
	differ("what it requires", got.Requires, want.Requires)
	differ("having a pattern", got.Pattern != nil, want.Pattern != "")
	least, most := want.Minimum, want.Maximum
	if want.Type == "string" {
		least, most = lengthLimit(want.MinLength), lengthLimit(want.MaxLength)
	}
	differ("least", got.Least, limitText(least))
	differ("most", got.Most, limitText(most))
	c.format(at, want, got)
	if (want.Items == nil) != (got.Items == nil) {
		differ("having items", got.Items != nil, want.Items != nil)
	} else if want.Items != nil {
		items := *want.Items
		items.Optional = reference.Flag(got.Items.Optional)
		c.property(at+"[]", &items, got.Items)
	}
}

func lengthLimit(n *int) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}

func limitText(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'f', -1, 64)
}

// format compares formats by their names; those that are property strings, key by key.
func (c *comparison) format(at string, want *reference.Property, got *params.Param) {
	keys := want.Inline
	if f := c.published.Formats[want.Format]; f != nil && f.String != nil {
		keys = f.String
	}
	sub := got.Sub
	if sub == nil && got.Format != "" {
		sub = subSchema(got.Format)
	}
	switch {
	case (keys != nil) != (sub != nil):
		c.t.Errorf("%s: is a property string: %t, published %t", at, sub != nil, keys != nil)
	case keys != nil:
		c.properties(at, keys, sub)
	case "pve-"+got.Format != want.Format && got.Format != want.Format:
		c.t.Errorf("%s: has format %q, published %q", at, got.Format, want.Format)
	}
}

// subSchema are the keys of a named property string.
func subSchema(name string) *params.Schema {
	if params.PropertyNotations[name] == "" {
		return nil
	}
	return params.PropertyFormat(name)
}

// comparePermission holds who may call to be who is published to may.
func comparePermission(t *testing.T, name string, e *api.Endpoint, m *reference.Method) {
	published := string(m.Permissions.Check)
	switch {
	case m.Permissions.User == "world" || e.Open:
		if e.Open != (m.Permissions.User == "world") {
			t.Errorf("%s: is open to everybody: %t, published %s %s", name, e.Open, m.Permissions.User, published)
		}
	case m.Permissions.User == "all":
		if e.May.Op != api.Anybody.Op {
			t.Errorf("%s: may be called by %v, published all users", name, e.May)
		}
	case published == "":
		if e.May.Op != api.Checked.Op {
			t.Errorf("%s: may be called by %v, and it is published that the code decides", name, e.May)
		}
	default:
		var want any
		if err := json.Unmarshal(m.Permissions.Check, &want); err != nil {
			t.Fatal(err)
		}
		wantText, _ := json.Marshal(want)
		gotText, _ := json.Marshal(expression(e.May))
		if string(gotText) != string(wantText) {
			t.Errorf("%s: may be called by %s, published %s", name, gotText, wantText)
		}
	}
}

// expression is a rule as Proxmox VE writes it.
func expression(r api.Rule) []any {
	all := []any{r.Op}
	switch r.Op {
	case "perm":
		all = append(all, r.Path, r.Privs)
		if r.Any {
			all = append(all, "any", 1)
		}
		if r.When != "" {
			all = append(all, "require_param", r.When)
		}
	case "perm-modify", "userid-param":
		all = append(all, r.Path)
	case "userid-group":
		all = append(all, r.Privs)
	default:
		for _, part := range r.Parts {
			all = append(all, expression(part))
		}
	}
	return all
}
