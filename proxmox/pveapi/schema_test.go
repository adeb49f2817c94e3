package pveapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// shared reads a file of recorded data. A test that needs it says so when it is not there, and
// fails then in CI.
func shared(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "pve", name))
	if err == nil {
		return data
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("what was recorded of Proxmox VE is not there: %v", err)
	}
	t.Skipf("NOT TRIED, for what was recorded of Proxmox VE is not there: %v", err)
	return nil
}

// schema is Proxmox VE's own description of what its API takes.
type schema struct {
	Methods []schemaMethod           `json:"methods"`
	Formats map[string]*schemaFormat `json:"formats"`
}

type schemaMethod struct {
	Method, Path string
	Parameters   struct {
		Properties map[string]*schemaValue
	}
}

// schemaValue is a parameter, or a part of a property string.
type schemaValue struct {
	Type       string
	Optional   json.RawMessage
	Format     json.RawMessage
	Pattern    string
	Enum       []string
	Minimum    *float64
	Maximum    *float64
	MinLength  int
	MaxLength  int
	Requires   string
	DefaultKey json.RawMessage `json:"default_key"`
	Alias      string
	KeyAlias   string
}

type schemaFormat struct {
	Regex          string
	Check          string
	Enum           []string
	Item           *schemaFormat
	EmptyOr        string                  `json:"empty_or"`
	PropertyString map[string]*schemaValue `json:"property_string"`
}

var (
	readSchema sync.Once
	theSchema  *schema
)

// loadSchema returns the schema, or skips the test.
func loadSchema(t testing.TB) *schema {
	t.Helper()
	data := shared(t, "api-schema.json")
	readSchema.Do(func() {
		var s schema
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		theSchema = &s
	})
	return theSchema
}

// strict returns a transport that fails the test for every request that Proxmox VE would not take.
func (s *schema) strict(t testing.TB, next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		var body []byte
		if req.Body != nil {
			body, _ = io.ReadAll(req.Body)
			_ = req.Body.Close()
			req = req.Clone(req.Context())
			req.Body = io.NopCloser(bytes.NewReader(body))
		}
		for _, fault := range s.check(req.Method, req.URL, req.Header.Get("Content-Type"), body) {
			t.Errorf("%s %s %s: %s", req.Method, req.URL.RequestURI(), body, fault)
		}
		return next.RoundTrip(req)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// check returns what Proxmox VE would find wrong with a request, each fault as "parameter: rule".
func (s *schema) check(method string, u *url.URL, contentType string, body []byte) []string {
	path, found := strings.CutPrefix(u.EscapedPath(), "/api2/json")
	if !found {
		return []string{"path: does not begin with /api2/json"}
	}
	m, params := s.find(method, path)
	if m == nil {
		return []string{"path: Method '" + method + " " + path + "' not implemented"}
	}
	for name, values := range u.Query() {
		params[name] = values[0]
	}
	if fault := readBody(contentType, body, params); fault != "" {
		return []string{fault}
	}
	return s.checkAll(m.Parameters.Properties, params)
}

// find returns the method for a path, and the parameters in the path.
func (s *schema) find(method, path string) (*schemaMethod, map[string]any) {
	have := strings.Split(path, "/")
	for i := range s.Methods {
		m := &s.Methods[i]
		want := strings.Split(m.Path, "/")
		if m.Method != method || len(want) != len(have) {
			continue
		}
		params := map[string]any{}
		fits := true
		for j, part := range want {
			if strings.HasPrefix(part, "{") {
				value, err := url.PathUnescape(have[j])
				fits = fits && err == nil && value != ""
				params[strings.Trim(part, "{}")] = value
			} else {
				fits = fits && part == have[j]
			}
		}
		if fits {
			return m, params
		}
	}
	return nil, nil
}

// readBody adds a body's parameters: texts of a form, and values of JSON as they are.
func readBody(contentType string, body []byte, params map[string]any) string {
	if len(body) == 0 {
		if contentType == "application/json" {
			return "body: must not be empty for application/json"
		}
		return ""
	}
	kind, args, _ := mime.ParseMediaType(contentType)
	switch kind {
	case "application/json":
		var values map[string]any
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if err := d.Decode(&values); err != nil {
			return "body: " + err.Error()
		}
		for name, value := range values {
			if value != nil {
				params[name] = value
			}
		}
	case "application/x-www-form-urlencoded":
		values, err := url.ParseQuery(string(body))
		if err != nil {
			return "body: " + err.Error()
		}
		for name, value := range values {
			params[name] = value[0]
		}
	case "multipart/form-data":
		r := multipart.NewReader(bytes.NewReader(body), args["boundary"])
		for {
			part, err := r.NextPart()
			if err == io.EOF {
				return ""
			}
			if err != nil {
				return "body: " + err.Error()
			}
			if name := part.FileName(); name != "" {
				params[part.FormName()] = name
				continue
			}
			text, _ := io.ReadAll(part)
			params[part.FormName()] = string(text)
		}
	default:
		return "body: upload 'Content-Type '" + contentType + "' not implemented"
	}
	return ""
}

// checkAll checks parameters, or the parts of a property string, against what there may be.
func (s *schema) checkAll(allowed map[string]*schemaValue, params map[string]any) (faults []string) {
	for name, value := range params {
		v := allowed[name]
		if v == nil {
			v = allowed[numbered.ReplaceAllString(name, "[n]")]
		}
		if v == nil {
			faults = append(faults, name+": property is not defined in schema and the schema does not allow additional properties")
			continue
		}
		if fault := s.checkValue(v, value); fault != "" {
			faults = append(faults, name+": "+fault)
		}
		if v.Requires != "" && params[v.Requires] == nil {
			faults = append(faults, v.Requires+": missing property - '"+name+"' requires this property")
		}
	}
	for name, v := range allowed {
		if _, is := params[name]; !is && v.Alias == "" && !truth(v.Optional) && !strings.HasSuffix(name, "[n]") {
			faults = append(faults, name+": property is missing and it is not optional")
		}
	}
	slices.Sort(faults)
	return faults
}

var numbered = regexp.MustCompile(`\d+$`)

func truth(raw json.RawMessage) bool { return string(raw) == "true" || string(raw) == "1" }

// checkValue checks one value: its type, its bounds, and the format of a text.
func (s *schema) checkValue(v *schemaValue, value any) string {
	text, fault := v.text(value)
	if fault != "" {
		return fault
	}
	switch {
	case len(v.Enum) > 0 && !slices.Contains(v.Enum, text):
		return fmt.Sprintf("value '%s' does not have a value in the enumeration '%s'", text, strings.Join(v.Enum, ", "))
	case v.MaxLength > 0 && len([]rune(text)) > v.MaxLength:
		return fmt.Sprintf("value may only be %d characters long", v.MaxLength)
	case len([]rune(text)) < v.MinLength:
		return fmt.Sprintf("value must be at least %d characters long", v.MinLength)
	case v.Pattern != "" && !perl("^(?:"+v.Pattern+")$").MatchString(text):
		return "value does not match the regex pattern"
	}
	if number, err := strconv.ParseFloat(text, 64); err == nil && (v.Type == "integer" || v.Type == "number") {
		switch {
		case v.Minimum != nil && number < *v.Minimum:
			return fmt.Sprintf("value must have a minimum value of %v", *v.Minimum)
		case v.Maximum != nil && number > *v.Maximum:
			return fmt.Sprintf("value must have a maximum value of %v", *v.Maximum)
		}
	}
	if len(v.Format) == 0 {
		return ""
	}
	if fault := s.checkFormat(v.Format, text); fault != "" {
		return "invalid format - " + fault
	}
	return ""
}

var (
	whole   = regexp.MustCompile(`^[+-]?\d+$`)
	decimal = regexp.MustCompile(`^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$`)
)

// text returns a value as the server sees it, if it is of the right type.
func (v *schemaValue) text(value any) (text, fault string) {
	switch value := value.(type) {
	case string:
		text = value
	case json.Number:
		text = value.String()
	case bool:
		text = strconv.Itoa(bit(value))
		if v.Type != "boolean" {
			text = fmt.Sprint(value)
			return text, fmt.Sprintf("type check ('%s') failed - got '%s'", v.Type, text)
		}
	case []any:
		var parts []string
		for _, part := range value {
			parts = append(parts, fmt.Sprint(part))
		}
		text = strings.Join(parts, ",")
		if !strings.HasSuffix(strings.Trim(string(v.Format), `"`), "-list") {
			return text, fmt.Sprintf("type check ('%s') failed - got array", v.Type)
		}
	default:
		return "", fmt.Sprintf("type check ('%s') failed - got %T", v.Type, value)
	}
	ok := true
	switch v.Type {
	case "integer":
		ok = whole.MatchString(text)
	case "number":
		ok = decimal.MatchString(text)
	case "boolean":
		ok = text == "0" || text == "1"
	}
	if !ok {
		return text, fmt.Sprintf("type check ('%s') failed - got '%s'", v.Type, text)
	}
	return text, ""
}

// perl compiles one of Perl's patterns, whose flags are written otherwise.
func perl(pattern string) *regexp.Regexp {
	return regexp.MustCompile(strings.NewReplacer("(?^:", "(?:", "(?^u:", "(?:", "(?^i:", "(?i:").Replace(pattern))
}

// checkFormat checks a text against a named format or a property string's parts.
func (s *schema) checkFormat(raw json.RawMessage, text string) string {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		f := s.Formats[name]
		if f == nil {
			return "" // a check that the description does not spell out
		}
		return s.checkNamed(f, text)
	}
	var parts map[string]*schemaValue
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "format of an unknown kind: " + err.Error()
	}
	return s.checkProperties(parts, text)
}

func (s *schema) checkNamed(f *schemaFormat, text string) string {
	switch {
	case f.PropertyString != nil:
		return s.checkProperties(f.PropertyString, text)
	case f.EmptyOr != "" && text == "":
		return ""
	case f.Item != nil:
		for _, part := range splitList(text) {
			if fault := s.checkNamed(f.Item, part); fault != "" {
				return fault
			}
		}
	case len(f.Enum) > 0 && !slices.Contains(f.Enum, text):
		return "value is none of " + strings.Join(f.Enum, ", ")
	case f.Regex != "" && !perl(f.Regex).MatchString(text):
		return "value does not match " + f.Regex
	case f.Check != "":
		return checkSpelled(f.Check, text)
	}
	return ""
}

var volumeID = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]:.+$`)

// checkSpelled knows the checks that are described in words.
func checkSpelled(check, text string) string {
	ok := true
	switch check {
	case "STORAGE:VOLUME":
		ok = volumeID.MatchString(text)
	case "none, cdrom, absolute path, or pve-volume-id":
		ok = text == "none" || text == "cdrom" || strings.HasPrefix(text, "/") || volumeID.MatchString(text)
	case "absolute path or pve-volume-id":
		ok = strings.HasPrefix(text, "/") || volumeID.MatchString(text)
	case "ipv6 address":
		a, err := netip.ParseAddr(text)
		ok = err == nil && a.Is6()
	case "ipv4/8..32 or ipv6/8..128":
		p, err := netip.ParsePrefix(text)
		ok = err == nil && p.Bits() >= 8
	}
	if !ok {
		return "value is not " + check
	}
	return ""
}

// checkProperties checks a property string: a=1,b=2, of which one part may go without its name.
func (s *schema) checkProperties(parts map[string]*schemaValue, text string) string {
	params := map[string]any{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(part, "=")
		if !found {
			value = part
			name = ""
			for key, v := range parts {
				if truth(v.DefaultKey) {
					name = key
				}
			}
			if name == "" {
				return fmt.Sprintf("format error: value without a key %q", part)
			}
		}
		v := parts[name]
		if v != nil && v.Alias != "" {
			if v.KeyAlias != "" {
				params[v.KeyAlias] = name
			}
			name, v = v.Alias, parts[v.Alias]
		}
		if v != nil && v.Type == "boolean" {
			value = map[string]string{"on": "1", "yes": "1", "true": "1", "off": "0", "no": "0", "false": "0"}[strings.ToLower(value)] +
				map[bool]string{true: value}[value == "0" || value == "1"]
		}
		if _, twice := params[name]; twice {
			return "format error: duplicate key in comma-separated list property: " + name
		}
		params[name] = value
	}
	if faults := s.checkAll(parts, params); len(faults) > 0 {
		return "format error\n" + strings.Join(faults, "\n")
	}
	return ""
}

// exchange is one recorded request and the server's answer to it.
type exchange struct {
	Group, Note string
	Stub        json.RawMessage `json:"stub_artefact"`
	Request     *struct {
		Method, Path, Raw string
		Form              map[string]any
		Headers           map[string]string
	}
	Response *struct {
		Status int
		Reason string
		Body   json.RawMessage
	}
	UPID       string
	TaskStatus json.RawMessage `json:"status"`
	Log        []json.RawMessage
}

// exchanges returns what was recorded, without what only the test bed has said.
func exchanges(t testing.TB) []exchange {
	t.Helper()
	var all []exchange
	d := json.NewDecoder(bytes.NewReader(shared(t, "transcripts.jsonl")))
	for d.More() {
		var e exchange
		if err := d.Decode(&e); err != nil {
			t.Fatal(err)
		}
		if len(e.Stub) == 0 {
			all = append(all, e)
		}
	}
	return all
}

// body returns a recorded request's body as it was sent.
func (e *exchange) body() []byte {
	if len(e.Request.Form) == 0 {
		return []byte(e.Request.Raw)
	}
	form := url.Values{}
	for name, value := range e.Request.Form {
		if f, is := value.(float64); is {
			value = strconv.FormatFloat(f, 'f', -1, 64)
		}
		form.Set(name, fmt.Sprint(value))
	}
	return []byte(form.Encode())
}

// The check is worth something if it says what the real server said.
func TestTheSchemaSaysWhatTheServerSaid(t *testing.T) {
	s := loadSchema(t)
	good, bad := 0, 0
	for _, e := range exchanges(t) {
		if e.Request == nil || e.Response == nil || !strings.HasPrefix(e.Request.Path, "/api2/json/") {
			continue
		}
		u, err := url.Parse(e.Request.Path)
		if err != nil {
			continue
		}
		if m, _ := s.find(e.Request.Method, strings.TrimPrefix(u.EscapedPath(), "/api2/json")); m == nil {
			continue
		}
		contentType := e.Request.Headers["Content-Type"]
		if contentType == "" && e.Request.Raw != "" || strings.HasSuffix(e.Request.Raw, "…") {
			continue // recorded in other words than it was sent
		}
		faults := s.check(e.Request.Method, u, contentType, e.body())
		var answer struct{ Errors map[string]string }
		_ = json.Unmarshal(e.Response.Body, &answer)
		switch {
		case e.Response.Status == 200 && len(faults) > 0:
			t.Errorf("%s: %s %s %s: the server took it, the check says %q", e.Note, e.Request.Method, e.Request.Path, e.body(), faults)
		case e.Response.Status == 200:
			good++
		case e.Response.Status == 400:
			for name, text := range answer.Errors {
				if !bySchema(text) {
					continue
				}
				bad++
				if !slices.ContainsFunc(faults, func(f string) bool { return strings.HasPrefix(f, name+": ") }) {
					t.Errorf("%s: %s %s %s: the server said %s: %s, the check %q", e.Note, e.Request.Method, e.Request.Path, e.body(), name, text, faults)
				}
			}
		}
	}
	if good < 300 || bad < 20 {
		t.Errorf("only %d good requests and %d faults were compared", good, bad)
	}
	t.Logf("%d good requests, %d faults", good, bad)
}

// bySchema reports whether a fault is one that the description has in it.
func bySchema(text string) bool {
	for _, rule := range []string{
		"property is missing", "property is not defined", "type check", "value must have a", "in the enumeration",
		"the regex pattern", "characters long", "invalid characters in tag", "valid DNS name", "valid VM ID",
	} {
		if strings.Contains(text, rule) {
			return true
		}
	}
	return false
}
