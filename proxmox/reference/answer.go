package reference

import (
	"bytes"
	"fmt"
	"maps"
	"mime"
	"mime/multipart"
	"net/url"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// unpublished are endpoints that the server was seen to have and the published part of the schema
// leaves out, so that nothing can be said about them.
var unpublished = []string{
	"GET /", "GET /access/domains", "POST /access/users", "POST /storage",
	"GET /nodes/{node}/capabilities/qemu/migration", "GET /nodes/{node}/firewall/options",
}

// beyond are endpoints that Proxmox VE publishes, though not in the part that is kept here.
var beyond = []string{"GET /cluster/sdn/vnets"}

// Unpublished reports whether an endpoint was seen or is published elsewhere, though it is not in
// the part of the schema that is kept here.
func Unpublished(verb, path string) bool {
	return among(unpublished, verb, path) || among(beyond, verb, path)
}

func among(endpoints []string, verb, path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for _, known := range endpoints {
		verbToo, template, _ := strings.Cut(known, " ")
		if _, ok := matchPath(strings.Split(strings.Trim(template, "/"), "/"), parts); ok && verbToo == verb {
			return true
		}
	}
	return false
}

// Exchange is a call and its answer.
type Exchange struct {
	Verb        string
	URL         *url.URL
	ContentType string
	Body        []byte
	Status      int
	Answer      []byte
}

// Problems says what the schema does not allow: about the request, answered or not, and about the
// answer when it is a good one.
func (s *Schema) Problems(x Exchange) []string {
	m, params, err := s.Request(x.Verb, x.URL, x.ContentType, x.Body)
	var all []string
	if err != nil {
		all = append(all, err.Error())
	}
	if m != nil && err == nil {
		for key, problem := range s.Verify(m, params) {
			all = append(all, fmt.Sprintf("%s: %q", key, problem))
		}
	}
	if m != nil && x.Status == 200 {
		answer, _ := s.Answer(m, x.Answer)
		all = append(all, answer...)
	}
	sort.Strings(all)
	for i := range all {
		all[i] = x.Verb + " " + x.URL.Path + ": " + all[i]
	}
	return all
}

// Faults says what is wrong with a request of a client that keeps to what is published, and that
// escapes what it puts into a path. Problems takes more: endpoints that are not published, and
// paths of other clients, which the server takes apart in its own way.
func (s *Schema) Faults(verb string, u *url.URL, kind string, body []byte) []string {
	all := s.Problems(Exchange{Verb: verb, URL: u, ContentType: kind, Body: body})
	path := strings.TrimPrefix(u.EscapedPath(), "/api2/json")
	m, _ := s.Find(verb, path)
	switch {
	case m == nil && len(all) == 0 && !among(beyond, verb, path):
		all = append(all, verb+" "+u.Path+": is not published")
	case m != nil && (strings.Contains(path, "//") || strings.Count(path, "/") != strings.Count(m.Path, "/")):
		all = append(all, verb+" "+u.Path+": has an empty part, or a slash in one that is not escaped")
	}
	return all
}

// Request finds the method that a request asks for, and its parameters. The method is nil for
// endpoints that the schema leaves out.
func (s *Schema) Request(verb string, u *url.URL, kind string, body []byte) (*Method, map[string]any, error) {
	path, ok := strings.CutPrefix(u.EscapedPath(), "/api2/json")
	if !ok {
		return nil, nil, fmt.Errorf("is not below /api2/json")
	}
	path, err := url.PathUnescape(path)
	if err != nil {
		return nil, nil, err
	}
	m, vars := s.Find(verb, path)
	if m == nil {
		if Unpublished(verb, path) {
			return nil, nil, nil
		}
		return nil, nil, fmt.Errorf("there is no such endpoint")
	}
	params, err := bodyParams(kind, body)
	if err != nil {
		return m, nil, err
	}
	for key, values := range u.Query() {
		params[key] = values[0]
	}
	for key, value := range vars {
		if other, twice := params[key]; twice && fmt.Sprint(other) != value {
			return m, nil, fmt.Errorf("%s: duplicate parameter (already defined in URI) with conflicting values", key)
		}
		params[key] = value
	}
	return m, params, nil
}

func bodyParams(kind string, body []byte) (map[string]any, error) {
	params := map[string]any{}
	media, more, _ := mime.ParseMediaType(kind)
	switch {
	case len(body) == 0 && media == "application/json":
		return nil, fmt.Errorf("a body of type %s is empty", media)
	case len(body) == 0:
	case media == "application/json":
		if err := Decode(body, &params); err != nil {
			return nil, err
		}
		if params == nil { // the body is null
			params = map[string]any{}
		}
		maps.DeleteFunc(params, func(_ string, value any) bool { return value == nil })
	case media == "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, err
		}
		for key, values := range form {
			params[key] = values[0]
		}
	case media == "multipart/form-data":
		form, err := multipart.NewReader(bytes.NewReader(body), more["boundary"]).ReadForm(1 << 20)
		if err != nil {
			return nil, err
		}
		for key, values := range form.Value {
			params[key] = values[0]
		}
		for key, files := range form.File {
			params[key] = files[0].Filename
		}
	default:
		return nil, fmt.Errorf("a body of type %q is not understood", kind)
	}
	return params, nil
}

// Answer says where an answer is not what the schema promises: declared fields must be right, and
// others may be there.
func (s *Schema) Answer(m *Method, body []byte) ([]string, []*BrokenPromise) {
	var envelope map[string]any
	if err := Decode(body, &envelope); err != nil {
		return []string{"no JSON: " + err.Error()}, nil
	}
	data, there := envelope["data"]
	if !there {
		return []string{"has no data"}, nil
	}
	a := answers{schema: s, endpoint: m.Method + " " + m.Path}
	a.value(m.Returns, "data", data)
	sort.Strings(a.problems)
	return slices.Compact(a.problems), a.broken
}

type answers struct {
	schema   *Schema
	endpoint string
	problems []string
	broken   []*BrokenPromise // that were met
}

func (a *answers) problem(path, text string, args ...any) {
	path, text = indices.ReplaceAllString(path, "[]"), fmt.Sprintf(text, args...)
	for _, b := range brokenPromises {
		if b.endpoint == a.endpoint && b.field == path && b.instead.MatchString(text) {
			a.broken = append(a.broken, b)
			return
		}
	}
	a.problems = append(a.problems, path+": "+text)
}

var indices = regexp.MustCompile(`\[\d+\]`)

func (a *answers) value(p *Property, path string, value any) {
	if p == nil || p.Type == "" || p.Type == "any" {
		return
	}
	switch value := value.(type) {
	case nil:
		if p.Type != "null" {
			a.problem(path, "is null, and not of type %s", p.Type)
		}
	case map[string]any:
		if p.Type != "object" {
			a.problem(path, "is an object, and not of type %s", p.Type)
			return
		}
		a.object(p, path, value)
	case []any:
		if p.Type != "array" {
			a.problem(path, "is a list, and not of type %s", p.Type)
			return
		}
		for i, item := range value {
			a.value(p.Items, fmt.Sprintf("%s[%d]", path, i), item)
		}
	default:
		a.scalar(p, path, value)
	}
}

func (a *answers) object(p *Property, path string, value map[string]any) {
	ps := p.merged(value)
	for name, q := range ps {
		if _, there := value[name]; !there && !bool(q.Optional) && q.Alias == "" && !strings.HasSuffix(name, "[n]") {
			a.problem(path+"."+name, "is missing")
		}
	}
	for name, field := range value {
		if q := a.schema.Lookup(ps, name); q != nil {
			a.value(q, path+"."+name, field)
		}
	}
}

func (a *answers) scalar(p *Property, path string, value any) {
	text, ok := plain(value)
	_, isText := value.(string)
	_, isBool := value.(bool)
	switch {
	case !ok, p.Type == "object", p.Type == "array", p.Type == "null":
		a.problem(path, "is %v, and not of type %s", value, p.Type)
	case p.Type == "string" != isText || isBool && p.Type != "boolean" || !typed(p.Type, text):
		a.problem(path, "is %T %v, and not of type %s", value, value, p.Type)
	default:
		if problem := a.schema.formatProblem(p, path, text); problem != "" {
			a.problem(path, "is %q: invalid format - %s", text, problem)
		} else if problem := p.limits(text); problem != "" {
			a.problem(path, "is %q: %s", text, problem)
		}
	}
}

// BrokenPromise is where the real server answers something else than its schema says.
type BrokenPromise struct {
	endpoint, field string
	instead         *regexp.Regexp // what the answer is
	why             string
}

var brokenPromises = func() []*BrokenPromise {
	broken := func(endpoint, field, instead, why string) *BrokenPromise {
		return &BrokenPromise{endpoint, field, regexp.MustCompile("^is " + instead + ", and not of type"), why}
	}
	const (
		nextid  = "GET /cluster/nextid"
		options = "GET /cluster/options"
		token   = "POST /access/users/{userid}/token/{tokenid}"
		pending = "GET /nodes/{node}/qemu/{vmid}/pending"
		content = "GET /nodes/{node}/storage/{storage}/content"
	)
	return []*BrokenPromise{
		broken(nextid, "data", `string \d+`, "a number out of a regular expression stays text in Perl"),
		broken(token, "data.info.privsep", `string [01]`, "what came as a form is returned as text"),
		broken(token, "data.info.expire", `string \d+`, "what came as a form is returned as text"),
		broken("POST /nodes/{node}/qemu/{vmid}/config", "data", "null", "a change that ends within background_delay has no task"),
		broken(pending, "data[].value", `json.Number \d+`, "integers of the configuration are integers here too"),
		broken(pending, "data[].pending", `json.Number \d+`, "integers of the configuration are integers here too"),
		broken(options, "data.registered-tags", "a list", "it is returned in parts"),
		broken(options, "data.tag-style", "an object", "it is returned in parts"),
		broken(options, "data.user-tag-access", "an object", "it is returned in parts"),
		broken(content, "data[].parent", "null", "a volume without parent has none"),
	}
}()
