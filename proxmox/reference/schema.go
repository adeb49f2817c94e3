// Package reference holds exchanges against what is known of the real Proxmox VE: the schema that
// it publishes of its API, and what was recorded of its daemons. Both are read from data that lies
// beside the project; nothing of them is written down here, so that they can judge the emulator and
// the client alike.
package reference

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Schema is what Proxmox VE publishes about its API.
type Schema struct {
	Formats map[string]*Format `json:"formats"`
	Methods []*Method          `json:"methods"`
	Ranges  map[string]string  `json:"numbered_ranges"` // such as 0..31 for net
}

// Method is one endpoint.
type Method struct {
	Method, Path string
	Parameters   *Property
	Returns      *Property
	Protected    Flag
	Allowtoken   Flag
	Permissions  struct {
		User  string // all for everybody who is known, world for everybody
		Check json.RawMessage
	}
}

// Property is one property: of a call, of an answer, or of a property string. A name that ends in
// [n] means numbered ones.
type Property struct {
	Type       string
	Optional   Flag
	DefaultKey Flag            `json:"default_key"`
	FormatRaw  json.RawMessage `json:"format"`
	Pattern    string
	Enum       []string
	Minimum    *float64
	Maximum    *float64
	MaxLength  *int
	MinLength  *int
	Requires   string
	Alias      string
	KeyAlias   string
	Properties map[string]*Property
	Items      *Property

	AllOf        []*Property
	OneOf        []*Property
	InstanceType string    `json:"instance-type"`
	TypeProperty string    `json:"type-property"`
	TypeSchema   *Property `json:"type-property-schema"`

	Format string               // by name
	Inline map[string]*Property // a property string
	regex  *regexp.Regexp
}

// Format is a check that has a name.
type Format struct {
	Error   string
	Regex   string
	Check   string
	Enum    []string
	ListOf  string               `json:"list_of"`
	EmptyOr string               `json:"empty_or"`
	Item    *Format              `json:"item"`
	String  map[string]*Property `json:"property_string"`
	regex   *regexp.Regexp
}

// Flag is a boolean that is written as true or as 1.
type Flag bool

// UnmarshalJSON reads either.
func (f *Flag) UnmarshalJSON(data []byte) error {
	*f = string(data) == "true" || string(data) == "1"
	return nil
}

// Parse reads a schema.
func Parse(data []byte) (*Schema, error) {
	var s Schema
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	for name, f := range s.Formats {
		if err := f.compile(); err != nil {
			return nil, fmt.Errorf("format %s: %w", name, err)
		}
	}
	for _, m := range s.Methods {
		for _, p := range []*Property{m.Parameters, m.Returns} {
			if err := p.compile(); err != nil {
				return nil, fmt.Errorf("%s %s: %w", m.Method, m.Path, err)
			}
		}
	}
	return &s, nil
}

func (f *Format) compile() (err error) {
	if f.Regex != "" {
		if f.regex, err = perl(f.Regex); err != nil {
			return err
		}
	}
	if f.Item != nil {
		if err := f.Item.compile(); err != nil {
			return err
		}
	}
	return compileAll(f.String)
}

func compileAll(ps map[string]*Property) error {
	for name, p := range ps {
		if err := p.compile(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (p *Property) compile() (err error) {
	if p == nil {
		return nil
	}
	if p.Pattern != "" {
		// The server anchors a pattern without grouping it: of "a|b" each end is open.
		if p.regex, err = perl("^" + p.Pattern + "$"); err != nil {
			return err
		}
	}
	if raw := string(p.FormatRaw); strings.HasPrefix(raw, `"`) {
		err = json.Unmarshal(p.FormatRaw, &p.Format)
	} else if raw != "" {
		err = json.Unmarshal(p.FormatRaw, &p.Inline)
	}
	if err == nil {
		err = compileAll(p.Inline)
	}
	if err == nil {
		err = compileAll(p.Properties)
	}
	for _, q := range slices.Concat([]*Property{p.Items, p.TypeSchema}, p.AllOf, p.OneOf) {
		if err == nil {
			err = q.compile()
		}
	}
	return err
}

var perlisms = strings.NewReplacer(`(?^:`, `(?:`, `(?^i:`, `(?i:`, `(?^u:`, `(?:`, `(?>`, `(?:`, `{,`, `{0,`, `{0,4096}`, `*`)

// perl compiles a regular expression of Perl. Atomic groups lose their atomicity, which makes
// matching slower and not different as long as nothing follows that could be returned; and a
// length beyond what Go counts to is not counted.
func perl(re string) (*regexp.Regexp, error) { return regexp.Compile(perlisms.Replace(re)) }

// Find is the method that serves a path, and what is in the path's places.
func (s *Schema) Find(verb, path string) (*Method, map[string]string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for _, m := range s.Methods {
		if m.Method != verb {
			continue
		}
		if vars, ok := matchPath(strings.Split(strings.Trim(m.Path, "/"), "/"), parts); ok {
			return m, vars
		}
	}
	return nil, nil
}

// Named is the method of a path as it is published, with its places in braces.
func (s *Schema) Named(verb, path string) *Method {
	for _, m := range s.Methods {
		if m.Method == verb && m.Path == path {
			return m
		}
	}
	return nil
}

// matchPath holds a path against a template. The last place takes slashes too: of a volume's id,
// which clients may leave as they are.
func matchPath(template, parts []string) (map[string]string, bool) {
	vars := map[string]string{}
	for i, want := range template {
		if i >= len(parts) {
			return nil, false
		}
		name, isVar := strings.CutPrefix(want, "{")
		switch name = strings.TrimSuffix(name, "}"); {
		case !isVar && want != parts[i]:
			return nil, false
		case isVar && name == "volume" && i == len(template)-1:
			vars[name] = strings.Join(parts[i:], "/")
			return vars, true
		case isVar:
			vars[name] = parts[i]
		}
	}
	return vars, len(parts) == len(template)
}

// Lookup is the property of a name, numbered ones among them.
func (s *Schema) Lookup(ps map[string]*Property, name string) *Property {
	if p := ps[name]; p != nil {
		return p
	}
	base := strings.TrimRight(name, "0123456789")
	digits := name[len(base):]
	p := ps[base+"[n]"]
	if p == nil || digits == "" || len(digits) > 1 && digits[0] == '0' {
		return nil
	}
	_, most, _ := strings.Cut(s.Ranges[base], "..")
	n, _ := strconv.Atoi(digits)
	if limit, err := strconv.Atoi(most); err != nil || n > limit {
		return nil
	}
	return p
}

// Verify says what is wrong with the parameters of a call, by parameter, as the server says it.
// Values are text as in forms, or what a JSON body holds.
func (s *Schema) Verify(m *Method, params map[string]any) map[string]string {
	v := verifier{schema: s, errs: map[string]string{}}
	v.object(m.Parameters, "", params)
	return v.errs
}

type verifier struct {
	schema *Schema
	errs   map[string]string
}

func (v *verifier) add(path, text string, args ...any) {
	if _, known := v.errs[path]; !known {
		v.errs[path] = fmt.Sprintf(text, args...)
	}
}

// object checks what is given against the properties there are; prefix is before their names.
func (v *verifier) object(p *Property, prefix string, given map[string]any) {
	ps := p.merged(given)
	for name, q := range ps {
		if _, there := given[name]; !there && !bool(q.Optional) && q.Alias == "" && !strings.HasSuffix(name, "[n]") {
			v.add(prefix+name, "property is missing and it is not optional")
		}
	}
	for name, value := range given {
		q := v.schema.Lookup(ps, name)
		if q == nil {
			v.add(prefix+name, "property is not defined in schema and the schema does not allow additional properties")
			continue
		}
		if q.Requires != "" && given[q.Requires] == nil {
			v.add(prefix+name, "missing property - '%s' requires this property", q.Requires)
			continue
		}
		v.value(q, prefix+name, value)
	}
}

// All are the properties that an object may have with any type in it. What only some types must
// have is optional.
func (p *Property) All() map[string]*Property {
	ps := map[string]*Property{}
	for name, q := range p.Properties {
		ps[name] = q
	}
	for _, q := range p.AllOf {
		maps.Copy(ps, q.All())
	}
	if p.TypeProperty != "" {
		ps[p.TypeProperty] = p.TypeSchema
	}
	for i, q := range p.OneOf {
		for name, r := range q.Properties {
			for j, other := range p.OneOf {
				if j != i && other.Properties[name] == nil {
					optional := *r
					optional.Optional = true
					r = &optional
				}
			}
			ps[name] = r
		}
	}
	return ps
}

// merged are the properties of an object that may be put together out of several, by a type that is
// given in it.
func (p *Property) merged(given map[string]any) map[string]*Property {
	ps := map[string]*Property{}
	for name, q := range p.Properties {
		ps[name] = q
	}
	for _, q := range p.AllOf {
		for name, r := range q.merged(given) {
			ps[name] = r
		}
	}
	if p.TypeProperty != "" {
		ps[p.TypeProperty] = p.TypeSchema
		for _, q := range p.OneOf {
			if q.InstanceType == given[p.TypeProperty] {
				for name, r := range q.Properties {
					ps[name] = r
				}
			}
		}
	}
	return ps
}

var (
	isInteger = regexp.MustCompile(`^[+-]?\d+$`)
	isNumber  = regexp.MustCompile(`^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$`)
	isBoolean = regexp.MustCompile(`^[01]$`)
)

// typed reports whether text is of a type.
func typed(kind, text string) bool {
	switch kind {
	case "integer":
		return isInteger.MatchString(text)
	case "number":
		return isNumber.MatchString(text)
	case "boolean":
		return isBoolean.MatchString(text)
	}
	return true
}

// value checks one value in the order in which the server does.
func (v *verifier) value(p *Property, path string, value any) {
	if p.Type == "array" {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for i, item := range list {
			v.value(p.Items, fmt.Sprintf("%s[%d]", path, i), item)
		}
		return
	}
	if list, ok := value.([]any); ok && strings.HasSuffix(p.Format, "-list") {
		value = joined(list)
	}
	text, ok := plain(value)
	_, isBool := value.(bool)
	switch {
	case isBool && p.Type != "boolean":
		v.add(path, "type check ('%s') failed - got JSON::PP::Boolean", p.Type)
	case !ok || !typed(p.Type, text):
		v.add(path, "type check ('%s') failed - got '%s'", p.Type, text)
	case p.Type == "null":
		v.add(path, "type check ('null') failed - got '%s'", text)
	default:
		if problem := v.schema.formatProblem(p, path, text); problem != "" {
			v.add(path, "invalid format - %s\n", problem)
		} else if problem := p.limits(text); problem != "" {
			v.add(path, "%s", problem)
		}
	}
}

func joined(list []any) string {
	var items []string
	for _, item := range list {
		text, _ := plain(item)
		items = append(items, text)
	}
	return strings.Join(items, ",")
}

// plain is a value as text: what JSON writes as true is 1.
func plain(value any) (string, bool) {
	switch value := value.(type) {
	case string:
		return value, true
	case json.Number:
		return value.String(), true
	case bool:
		if value {
			return "1", true
		}
		return "0", true
	}
	return fmt.Sprint(value), false
}

// limits are the rules of a property besides its type and its format.
func (p *Property) limits(text string) string {
	if p.Type == "integer" || p.Type == "number" {
		n, _ := strconv.ParseFloat(text, 64)
		switch {
		case p.Maximum != nil && n > *p.Maximum:
			return fmt.Sprintf("value must have a maximum value of %.0f", *p.Maximum)
		case p.Minimum != nil && n < *p.Minimum:
			return fmt.Sprintf("value must have a minimum value of %.0f", *p.Minimum)
		}
	}
	switch {
	case p.MaxLength != nil && len([]rune(text)) > *p.MaxLength:
		return fmt.Sprintf("value may only be %d characters long", *p.MaxLength)
	case p.MinLength != nil && len([]rune(text)) < *p.MinLength:
		return fmt.Sprintf("value must be at least %d characters long", *p.MinLength)
	case p.regex != nil && !p.regex.MatchString(text):
		return "value does not match the regex pattern"
	case p.Enum != nil && !slices.Contains(p.Enum, text):
		return fmt.Sprintf("value '%s' does not have a value in the enumeration '%s'", text, strings.Join(p.Enum, ", "))
	}
	return ""
}
