// Package params is what parameters of calls must be: the notation in which they are declared, the
// formats of Proxmox VE, and the keys of a virtual machine. It is pure.
package params

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
)

// Schema is how parameters are declared: in a notation of their own, separated by blanks:
//
//	newid:vmid name?:dns-name full?:bool format?:enum(raw,qcow2,vmdk) net[0..31]?:net
//
// A name followed by ? is optional, and one with a range in brackets declares numbered keys, here
// net0 to net31. After the colon is what a value must be:
//
//	str int num bool        of that type
//	enum(a,b)               one of these
//	/pattern/               a text that matches from end to end
//	{a:int b?:bool *c:str}  a property string with these keys; that with a star needs no name
//	storage-id              of a format of Proxmox VE without its pve-: see formats
//	storage-id-list         a list of these, split by comma, semicolon or blank
//	storage-content(a,b)    of a format, and one of these
//	qm-bootdisk/pattern/    of a format, and a text that matches
//	vmid[]                  an array of these
//
// and after that, without a blank, [least..most] for the range of a number or the length of a
// text, and &other for another parameter that must be given too. In a property string, old=new is
// another name for a key, and old=new@kind sets the key kind to that name besides. Three dots let
// anything else pass.
type Schema struct {
	Params   map[string]*Param
	Order    []string
	Numbered map[string]*Param // by what is before the number
	open     bool
}

// Param is one parameter as it is declared.
type Param struct {
	name        string // without its range
	First, Last int    // of numbered keys
	Optional    bool
	Typ         string // string, integer, number, boolean or array
	Items       *Param
	Format      string // its name, with -list
	Sub         *Schema
	Pattern     *regexp.Regexp
	Enum        []string
	Least, Most string // empty is unbounded
	Requires    string
	Alias       string // the key that is meant
	Kind        string // the key that is set to the name that was used
	Unnamed     bool   // of a property string: its key may be omitted
}

// Declare reads the notation. What it cannot read is a mistake in this package.
func Declare(notation string) *Schema {
	s := &Schema{Params: map[string]*Param{}, Numbered: map[string]*Param{}}
	for _, word := range declarations(notation) {
		if word == "..." {
			s.open = true
			continue
		}
		s.add(parseParam(word))
	}
	return s
}

func (s *Schema) add(p *Param) {
	into := s.Params
	if p.Last > 0 {
		into = s.Numbered
	}
	if into[p.name] != nil {
		panic("params: parameter declared twice: " + p.name)
	}
	into[p.name] = p
	s.Order = append(s.Order, p.name)
}

// declarations splits at blanks that are in no braces.
func declarations(notation string) []string {
	var words []string
	depth, start := 0, -1
	for i, r := range notation + " " {
		blank := r == ' ' || r == '\n' || r == '\t'
		switch {
		case r == '{':
			depth++
		case r == '}':
			depth--
		}
		switch {
		case blank && depth == 0 && start >= 0:
			words, start = append(words, notation[start:i]), -1
		case !blank && start < 0:
			start = i
		}
	}
	return words
}

var (
	aliasWord = regexp.MustCompile(`^([\w-]+)=([\w-]+)(?:@(\w+))?$`)
	paramWord = regexp.MustCompile(`(?s)^(\*?)([\w-]+)(?:\[(\d+)\.\.(\d+)\])?(\??):(.+?)(?:&([\w-]+))?$`)
	rangeTail = regexp.MustCompile(`\[(-?\d*)\.\.(-?\d*)\]$`)
)

func parseParam(word string) *Param {
	if m := aliasWord.FindStringSubmatch(word); m != nil {
		return &Param{name: m[1], Alias: m[2], Kind: m[3], Optional: true}
	}
	m := paramWord.FindStringSubmatch(word)
	if m == nil {
		panic("params: no declaration of a parameter: " + word)
	}
	p := &Param{Unnamed: m[1] != "", name: m[2], Optional: m[5] != "", Requires: m[7]}
	p.First, _ = strconv.Atoi(m[3])
	p.Last, _ = strconv.Atoi(m[4])
	p.parseType(m[6])
	return p
}

// parseType reads what a value must be.
func (p *Param) parseType(t string) {
	if of, isArray := strings.CutSuffix(t, "[]"); isArray {
		p.Typ, p.Items = "array", &Param{}
		p.Items.parseType(of)
		return
	}
	if r := rangeTail.FindStringSubmatch(t); r != nil {
		p.Least, p.Most = r[1], r[2]
		t = strings.TrimSuffix(t, r[0])
	}
	p.Typ = "string"
	switch {
	case t == "str":
	case t == "int":
		p.Typ = "integer"
	case t == "num":
		p.Typ = "number"
	case t == "bool":
		p.Typ = "boolean"
	case t == "vmid":
		p.Typ, p.Format, p.Least, p.Most = "integer", t, "100", "999999999"
	case strings.HasPrefix(t, "{"):
		p.Sub = Declare(t[1 : len(t)-1])
	default:
		p.parseText(t)
	}
}

// parseText reads what a text must be: of a format, one of several, like a pattern.
func (p *Param) parseText(t string) {
	end := strings.IndexAny(t, "(/")
	if end < 0 {
		end = len(t)
	}
	if p.Format = t[:end]; p.Format == "enum" {
		p.Format = ""
	}
	if _, known := formatNamed(p.Format); p.Format != "" && !known {
		panic("params: no such format: " + p.Format)
	}
	switch rest := t[end:]; {
	case rest == "":
	case rest[0] == '(':
		p.Enum = strings.Split(rest[1:len(rest)-1], ",")
	default:
		p.Pattern = whole(rest[1 : len(rest)-1])
	}
}

// whole is a pattern that must match from end to end, but for a line feed at the end.
func whole(pattern string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + pattern + `)\n?\z`) }

// LookUp is the declaration of a key.
func (s *Schema) LookUp(key string) *Param {
	if p := s.Params[key]; p != nil {
		return p
	}
	stem := strings.TrimRight(key, "0123456789")
	p := s.Numbered[stem]
	if p == nil {
		return nil
	}
	digits := key[len(stem):]
	n, err := strconv.Atoi(digits)
	if err != nil || n < p.First || n > p.Last || strconv.Itoa(n) != digits {
		return nil
	}
	return p
}

// errorsOf collects what is wrong with parameters, by their names.
type errorsOf map[string]string

func (e errorsOf) add(key, text string) {
	if before, more := e[key]; more {
		text = before + `\n` + text
	}
	e[key] = text
}

// text is how a property string's errors appear within those of its parameter. The server
// reports them in no order; here it is that of their names.
func (e errorsOf) text() string {
	var b strings.Builder
	b.WriteString("format error\n")
	for _, key := range slices.Sorted(maps.Keys(e)) {
		fmt.Fprintf(&b, "%s: %s\n", key, e[key])
	}
	return b.String()
}

// Verify checks what was sent and returns it as text. Values are strings, or, from JSON, bool, nil
// and []any besides. All that is wrong is said at once.
func (s *Schema) Verify(sent map[string]any) (Values, error) {
	in, wrong := Values{}, errorsOf{}
	s.check(sent, "", in, wrong)
	if len(wrong) > 0 {
		return nil, &failure.Error{Status: 400, Reason: "Parameter verification failed.", Errors: wrong}
	}
	return in, nil
}

func (s *Schema) check(sent map[string]any, path string, in Values, wrong errorsOf) {
	for _, name := range s.Order {
		p := s.Params[name]
		if p != nil && !p.Optional && p.Alias == "" && sent[name] == nil {
			wrong.add(path+name, "property is missing and it is not optional")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(sent)) {
		value := sent[key]
		p := s.LookUp(key)
		switch {
		case p == nil && !s.open:
			wrong.add(path+key, "property is not defined in schema and the schema does not allow additional properties")
		case value == nil:
		case p == nil:
			in[key], _ = value.(string)
		default:
			if p.Requires != "" && sent[p.Requires] == nil {
				wrong.add(path+p.Requires, fmt.Sprintf("missing property - '%s' requires this property", path+key))
			}
			if text, why := p.check(value, path+key, wrong); why != "" {
				wrong.add(path+key, why)
			} else {
				in[key] = text
			}
		}
	}
}

// check returns a value as text, or what is wrong with it. Elements of an array put theirs into
// wrong.
func (p *Param) check(value any, key string, wrong errorsOf) (text, why string) {
	switch v := value.(type) {
	case []any:
		return p.checkArray(v, key, wrong)
	case bool:
		if p.Typ != "boolean" {
			return "", p.mistyped("JSON::PP::Boolean")
		}
		return map[bool]string{true: "1", false: "0"}[v], ""
	case map[string]any:
		return "", p.mistyped("HASH")
	case string:
		if p.Typ == "array" {
			return p.checkArray([]any{v}, key, wrong)
		}
		return v, p.checkText(v, key)
	}
	return "", p.mistyped(fmt.Sprintf("%T", value))
}

func (p *Param) mistyped(got string) string {
	if p.Typ == "array" {
		return "type check ('array') failed"
	}
	return fmt.Sprintf("type check ('%s') failed - got %s", p.Typ, got)
}

// between separates the elements of an array in values.
const between = "\x00"

func (p *Param) checkArray(elements []any, key string, wrong errorsOf) (text, why string) {
	item, sep := p.Items, between
	if item == nil {
		if !strings.HasSuffix(p.Format, "-list") {
			return "", p.mistyped("ARRAY")
		}
		item, sep = &Param{Typ: "string"}, ","
	}
	var texts []string
	for i, e := range elements {
		at := fmt.Sprintf("%s[%d]", key, i)
		t, why := item.check(e, at, wrong)
		if why != "" {
			wrong.add(at, why)
		}
		texts = append(texts, t)
	}
	text = strings.Join(texts, sep)
	if p.Items == nil {
		why = p.checkText(text, key)
	}
	return text, why
}

var (
	isInteger = regexp.MustCompile(`^[+-]?\d+\n?\z`)
	isNumber  = regexp.MustCompile(`^[+-]?(?:\d+\.\d+|\d+\.|\.\d+|\d+)(?:[eE][+-]?\d+)?\n?\z`)
)

// checkText says the first thing that is wrong with a value.
func (p *Param) checkText(v, key string) string {
	if p.Typ == "integer" && !isInteger.MatchString(v) || p.Typ == "number" && !isNumber.MatchString(v) ||
		p.Typ == "boolean" && v != "0" && v != "1" {
		return p.mistyped("'" + v + "'")
	}
	if why := p.checkFormat(v, key); why != "" {
		return "invalid format - " + why
	}
	if p.Pattern != nil && !p.Pattern.MatchString(v) {
		return "value does not match the regex pattern"
	}
	if why := p.checkRange(v); why != "" {
		return why
	}
	if p.Enum != nil && !slices.Contains(p.Enum, v) {
		return fmt.Sprintf("value '%s' does not have a value in the enumeration '%s'", v, strings.Join(p.Enum, ", "))
	}
	return ""
}

func (p *Param) checkFormat(v, key string) string {
	if p.Sub != nil {
		_, why := p.Sub.Properties(v, key)
		return why
	}
	if p.Format == "" {
		return ""
	}
	check, _ := formatNamed(p.Format)
	return check(v, key)
}

func (p *Param) checkRange(v string) string {
	if p.Typ == "string" {
		n := len([]rune(v))
		if most, err := strconv.Atoi(p.Most); err == nil && n > most {
			return fmt.Sprintf("value may only be %s characters long", p.Most)
		}
		if least, err := strconv.Atoi(p.Least); err == nil && n < least {
			return fmt.Sprintf("value must be at least %s characters long", p.Least)
		}
		return ""
	}
	n, err := strconv.ParseFloat(strings.TrimSuffix(v, "\n"), 64)
	if err != nil && p.Typ == "boolean" {
		return ""
	}
	if most, err := strconv.ParseFloat(p.Most, 64); err == nil && n > most {
		return "value must have a maximum value of " + p.Most
	}
	if least, err := strconv.ParseFloat(p.Least, 64); err == nil && n < least {
		return "value must have a minimum value of " + p.Least
	}
	return ""
}

// Properties reads a property string, and says what is wrong with it.
func (s *Schema) Properties(text, path string) (Values, string) {
	sent := map[string]any{}
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		if why := s.property(part, sent); why != "" {
			return nil, why + "\n"
		}
	}
	in, wrong := Values{}, errorsOf{}
	s.check(sent, path+".", in, wrong)
	if len(wrong) > 0 {
		return nil, wrong.text()
	}
	return in, ""
}

// property reads one part of a property string.
func (s *Schema) property(part string, sent map[string]any) string {
	key, value, named := strings.Cut(part, "=")
	if !named {
		key, value = s.unnamed(), part
		if key == "" {
			return "value without key, but schema does not define a default key"
		}
	} else if key == "" || value == "" {
		return "missing key in comma-separated list property"
	}
	if sent[key] != nil {
		return "duplicate key in comma-separated list property: " + key
	}
	if p := s.Params[key]; p != nil && p.Alias != "" {
		if p.Kind != "" {
			if sent[p.Kind] != nil {
				return fmt.Sprintf("key alias '%s' is already defined", p.Kind)
			}
			sent[p.Kind] = key
		}
		key = p.Alias
	}
	if p := s.Params[key]; p != nil && p.Typ == "boolean" {
		value = folded(value)
	}
	sent[key] = value
	return ""
}

// unnamed is the key that may be omitted.
func (s *Schema) unnamed() string {
	for _, name := range s.Order {
		if p := s.Params[name]; p != nil && p.Unnamed {
			return name
		}
	}
	return ""
}

// folded is a boolean in one of the forms that property strings know.
func folded(v string) string {
	switch strings.ToLower(v) {
	case "1", "on", "yes", "true":
		return "1"
	case "0", "off", "no", "false":
		return "0"
	}
	return v
}

// PropertyString reads a value of the named format, such as net, that has been verified before.
func PropertyString(format, text string) Values {
	in, _ := PropertyFormat(format).Properties(text, format)
	if in == nil {
		in = Values{}
	}
	return in
}

// propertySchemas are those of the property strings that have names and were asked for before.
var propertySchemas sync.Map

// PropertyFormat is a property string that has a name.
func PropertyFormat(name string) *Schema {
	if s, known := propertySchemas.Load(name); known {
		return s.(*Schema)
	}
	s := Declare(PropertyNotations[name])
	propertySchemas.Store(name, s)
	return s
}

// Has reports whether a parameter was given.
func (v Values) Has(key string) bool { _, given := v[key]; return given }

// Or is a parameter, or what holds when it was not given.
func (v Values) Or(key, otherwise string) string {
	if text, given := v[key]; given {
		return text
	}
	return otherwise
}

// Is reports whether a boolean was given and true.
func (v Values) Is(key string) bool { return v[key] == "1" }

// Int is a whole number, or what holds when it was not given.
func (v Values) Int(key string, otherwise int) int {
	n, err := strconv.Atoi(strings.TrimSpace(v[key]))
	if err != nil {
		return otherwise
	}
	return n
}

// List is what a list or an array holds.
func (v Values) List(key string) []string { return SplitList(v[key]) }

// SplitList splits as the server does: at NUL, or else at commas, semicolons and blanks.
func SplitList(text string) []string {
	if text == "" {
		return nil
	}
	if strings.Contains(text, between) {
		return strings.Split(text, between)
	}
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",; \t\n\r\f", r) })
}

// Values are parameters as text, the way they are in configuration files: booleans are 0 and 1.
type Values map[string]string

// optionLists are the options, and keys of such options, that are shown as lists.
var optionLists = []string{"registered-tags", "user-allow-list"}

// Shown is a value as answers have it: numbers as such, and property strings taken apart.
func (s *Schema) Shown(key, text string) any {
	p := s.LookUp(key)
	switch {
	case slices.Contains(optionLists, key):
		return SplitList(text)
	case p == nil:
		return text
	case p.Typ != "string":
		return json.Number(text)
	case p.Sub == nil || key == "bwlimit":
		return text
	}
	in, _ := p.Sub.Properties(text, key)
	out := map[string]any{}
	for k, v := range in {
		out[k] = p.Sub.Shown(k, v)
	}
	return out
}
