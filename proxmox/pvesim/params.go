package pvesim

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
)

// Parameters are declared in a notation of their own, with blanks between one and the next:
//
//	newid:vmid name?:dns-name full?:bool format?:enum(raw,qcow2,vmdk) net[0..31]?:net bwlimit?:int[0..]
//
// A name followed by ? is optional, and one with a range in brackets stands for numbered keys, here
// net0 to net31. After the colon stands what a value must be:
//
//	str int num bool        of that type
//	enum(a,b)               one of these
//	/pattern/               a text that matches from end to end
//	{a:int b?:bool *c:str}  a property string with these keys; that with a star may stand without its name
//	storage-id              of a format of Proxmox VE, less the pve- in front of its name: see formats
//	storage-id-list         a list of these, split by comma, semicolon or blank
//	storage-content(a,b)    of a format, and one of these
//	qm-bootdisk/pattern/    of a format, and a text that matches
//	vmid[]                  an array of these
//
// and after that, without a blank, [least..most] for the range of a number or the length of a text, and
// &other for another parameter that must be given too. In a property string, old=new is another name
// for a key, and old=new@kind sets the key kind to that name besides. Three dots let anything else pass.
type schema struct {
	params   map[string]*param
	order    []string
	numbered map[string]*param // by what stands before the number
	open     bool
}

// param is one parameter as it is declared.
type param struct {
	name        string // without its range
	first, last int    // of numbered keys
	optional    bool
	typ         string // string, integer, number, boolean or array
	items       *param
	format      string // its name, with -list
	sub         *schema
	pattern     *regexp.Regexp
	enum        []string
	least, most string // empty is unbounded
	requires    string
	alias       string // the key that is meant
	kind        string // the key that is set to the name that was used
	unnamed     bool   // of a property string: its key may be left out
}

// declare reads the notation. What it cannot read is a mistake in this package.
func declare(notation string) *schema {
	s := &schema{params: map[string]*param{}, numbered: map[string]*param{}}
	for _, word := range declarations(notation) {
		if word == "..." {
			s.open = true
			continue
		}
		s.add(parseParam(word))
	}
	return s
}

func (s *schema) add(p *param) {
	into := s.params
	if p.last > 0 {
		into = s.numbered
	}
	if into[p.name] != nil {
		panic("pvesim: parameter declared twice: " + p.name)
	}
	into[p.name] = p
	s.order = append(s.order, p.name)
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

func parseParam(word string) *param {
	if m := aliasWord.FindStringSubmatch(word); m != nil {
		return &param{name: m[1], alias: m[2], kind: m[3], optional: true}
	}
	m := paramWord.FindStringSubmatch(word)
	if m == nil {
		panic("pvesim: no declaration of a parameter: " + word)
	}
	p := &param{unnamed: m[1] != "", name: m[2], optional: m[5] != "", requires: m[7]}
	p.first, _ = strconv.Atoi(m[3])
	p.last, _ = strconv.Atoi(m[4])
	p.parseType(m[6])
	return p
}

// parseType reads what a value must be.
func (p *param) parseType(t string) {
	if of, isArray := strings.CutSuffix(t, "[]"); isArray {
		p.typ, p.items = "array", &param{}
		p.items.parseType(of)
		return
	}
	if r := rangeTail.FindStringSubmatch(t); r != nil {
		p.least, p.most = r[1], r[2]
		t = strings.TrimSuffix(t, r[0])
	}
	p.typ = "string"
	switch {
	case t == "str":
	case t == "int":
		p.typ = "integer"
	case t == "num":
		p.typ = "number"
	case t == "bool":
		p.typ = "boolean"
	case t == "vmid":
		p.typ, p.format, p.least, p.most = "integer", t, "100", "999999999"
	case strings.HasPrefix(t, "{"):
		p.sub = declare(t[1 : len(t)-1])
	default:
		p.parseText(t)
	}
}

// parseText reads what a text must be: of a format, one of several, like a pattern.
func (p *param) parseText(t string) {
	end := strings.IndexAny(t, "(/")
	if end < 0 {
		end = len(t)
	}
	if p.format = t[:end]; p.format == "enum" {
		p.format = ""
	}
	if _, known := formatNamed(p.format); p.format != "" && !known {
		panic("pvesim: no such format: " + p.format)
	}
	switch rest := t[end:]; {
	case rest == "":
	case rest[0] == '(':
		p.enum = strings.Split(rest[1:len(rest)-1], ",")
	default:
		p.pattern = whole(rest[1 : len(rest)-1])
	}
}

// whole is a pattern that must match from end to end, but for a line feed at the end.
func whole(pattern string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + pattern + `)\n?\z`) }

// lookUp is the declaration of a key.
func (s *schema) lookUp(key string) *param {
	if p := s.params[key]; p != nil {
		return p
	}
	stem := strings.TrimRight(key, "0123456789")
	p := s.numbered[stem]
	if p == nil {
		return nil
	}
	digits := key[len(stem):]
	n, err := strconv.Atoi(digits)
	if err != nil || n < p.first || n > p.last || strconv.Itoa(n) != digits {
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

// text is how a property string's errors are told within those of its parameter. The server tells them
// in no order; here it is that of their names.
func (e errorsOf) text() string {
	var b strings.Builder
	b.WriteString("format error\n")
	for _, key := range slices.Sorted(maps.Keys(e)) {
		fmt.Fprintf(&b, "%s: %s\n", key, e[key])
	}
	return b.String()
}

// verify checks what was sent and returns it as text. Values are strings, or, from JSON, bool, nil and
// []any besides. All that is wrong is said at once.
func (s *schema) verify(sent map[string]any) (values, error) {
	in, wrong := values{}, errorsOf{}
	s.check(sent, "", in, wrong)
	if len(wrong) > 0 {
		return nil, &failure.Error{Status: 400, Reason: "Parameter verification failed.", Errors: wrong}
	}
	return in, nil
}

func (s *schema) check(sent map[string]any, path string, in values, wrong errorsOf) {
	for _, name := range s.order {
		p := s.params[name]
		if p != nil && !p.optional && p.alias == "" && sent[name] == nil {
			wrong.add(path+name, "property is missing and it is not optional")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(sent)) {
		value := sent[key]
		p := s.lookUp(key)
		switch {
		case p == nil && !s.open:
			wrong.add(path+key, "property is not defined in schema and the schema does not allow additional properties")
		case value == nil:
		case p == nil:
			in[key], _ = value.(string)
		default:
			if p.requires != "" && sent[p.requires] == nil {
				wrong.add(path+p.requires, fmt.Sprintf("missing property - '%s' requires this property", path+key))
			}
			if text, why := p.check(value, path+key, wrong); why != "" {
				wrong.add(path+key, why)
			} else {
				in[key] = text
			}
		}
	}
}

// check returns a value as text, or what is wrong with it. Elements of an array put theirs into wrong.
func (p *param) check(value any, key string, wrong errorsOf) (text, why string) {
	switch v := value.(type) {
	case []any:
		return p.checkArray(v, key, wrong)
	case bool:
		if p.typ != "boolean" {
			return "", p.mistyped("JSON::PP::Boolean")
		}
		return map[bool]string{true: "1", false: "0"}[v], ""
	case map[string]any:
		return "", p.mistyped("HASH")
	case string:
		if p.typ == "array" {
			return p.checkArray([]any{v}, key, wrong)
		}
		return v, p.checkText(v, key)
	}
	return "", p.mistyped(fmt.Sprintf("%T", value))
}

func (p *param) mistyped(got string) string {
	if p.typ == "array" {
		return "type check ('array') failed"
	}
	return fmt.Sprintf("type check ('%s') failed - got %s", p.typ, got)
}

// between stands between the elements of an array in values.
const between = "\x00"

func (p *param) checkArray(elements []any, key string, wrong errorsOf) (text, why string) {
	item, sep := p.items, between
	if item == nil {
		if !strings.HasSuffix(p.format, "-list") {
			return "", p.mistyped("ARRAY")
		}
		item, sep = &param{typ: "string"}, ","
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
	if p.items == nil {
		why = p.checkText(text, key)
	}
	return text, why
}

var (
	isInteger = regexp.MustCompile(`^[+-]?\d+\n?\z`)
	isNumber  = regexp.MustCompile(`^[+-]?(?:\d+\.\d+|\d+\.|\.\d+|\d+)(?:[eE][+-]?\d+)?\n?\z`)
)

// checkText says the first thing that is wrong with a value.
func (p *param) checkText(v, key string) string {
	if p.typ == "integer" && !isInteger.MatchString(v) || p.typ == "number" && !isNumber.MatchString(v) ||
		p.typ == "boolean" && v != "0" && v != "1" {
		return p.mistyped("'" + v + "'")
	}
	if why := p.checkFormat(v, key); why != "" {
		return "invalid format - " + why
	}
	if p.pattern != nil && !p.pattern.MatchString(v) {
		return "value does not match the regex pattern"
	}
	if why := p.checkRange(v); why != "" {
		return why
	}
	if p.enum != nil && !slices.Contains(p.enum, v) {
		return fmt.Sprintf("value '%s' does not have a value in the enumeration '%s'", v, strings.Join(p.enum, ", "))
	}
	return ""
}

func (p *param) checkFormat(v, key string) string {
	if p.sub != nil {
		_, why := p.sub.properties(v, key)
		return why
	}
	if p.format == "" {
		return ""
	}
	check, _ := formatNamed(p.format)
	return check(v, key)
}

func (p *param) checkRange(v string) string {
	if p.typ == "string" {
		n := len([]rune(v))
		if most, err := strconv.Atoi(p.most); err == nil && n > most {
			return fmt.Sprintf("value may only be %s characters long", p.most)
		}
		if least, err := strconv.Atoi(p.least); err == nil && n < least {
			return fmt.Sprintf("value must be at least %s characters long", p.least)
		}
		return ""
	}
	n, err := strconv.ParseFloat(strings.TrimSuffix(v, "\n"), 64)
	if err != nil && p.typ == "boolean" {
		return ""
	}
	if most, err := strconv.ParseFloat(p.most, 64); err == nil && n > most {
		return "value must have a maximum value of " + p.most
	}
	if least, err := strconv.ParseFloat(p.least, 64); err == nil && n < least {
		return "value must have a minimum value of " + p.least
	}
	return ""
}

// properties reads a property string, and says what is wrong with it.
func (s *schema) properties(text, path string) (values, string) {
	sent := map[string]any{}
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		if why := s.property(part, sent); why != "" {
			return nil, why + "\n"
		}
	}
	in, wrong := values{}, errorsOf{}
	s.check(sent, path+".", in, wrong)
	if len(wrong) > 0 {
		return nil, wrong.text()
	}
	return in, ""
}

// property reads one part of a property string.
func (s *schema) property(part string, sent map[string]any) string {
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
	if p := s.params[key]; p != nil && p.alias != "" {
		if p.kind != "" {
			if sent[p.kind] != nil {
				return fmt.Sprintf("key alias '%s' is already defined", p.kind)
			}
			sent[p.kind] = key
		}
		key = p.alias
	}
	if p := s.params[key]; p != nil && p.typ == "boolean" {
		value = folded(value)
	}
	sent[key] = value
	return ""
}

// unnamed is the key that may be left out.
func (s *schema) unnamed() string {
	for _, name := range s.order {
		if p := s.params[name]; p != nil && p.unnamed {
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

// propertyString reads a value of the named format, such as net, that has been verified before.
func propertyString(format, text string) values {
	in, _ := propertyFormat(format).properties(text, format)
	if in == nil {
		in = values{}
	}
	return in
}

// propertySchemas are those of the property strings that have names and were asked for before.
var propertySchemas sync.Map

// propertyFormat is a property string that has a name.
func propertyFormat(name string) *schema {
	if s, known := propertySchemas.Load(name); known {
		return s.(*schema)
	}
	s := declare(propertyNotations[name])
	propertySchemas.Store(name, s)
	return s
}

// has reports whether a parameter was given.
func (v values) has(key string) bool { _, given := v[key]; return given }

// or is a parameter, or what holds when it was not given.
func (v values) or(key, otherwise string) string {
	if text, given := v[key]; given {
		return text
	}
	return otherwise
}

// is reports whether a boolean was given and true.
func (v values) is(key string) bool { return v[key] == "1" }

// int is a whole number, or what holds when it was not given.
func (v values) int(key string, otherwise int) int {
	n, err := strconv.Atoi(strings.TrimSpace(v[key]))
	if err != nil {
		return otherwise
	}
	return n
}

// list is what a list or an array holds.
func (v values) list(key string) []string { return splitList(v[key]) }

// splitList splits as the server does: at NUL, or else at commas, semicolons and blanks.
func splitList(text string) []string {
	if text == "" {
		return nil
	}
	if strings.Contains(text, between) {
		return strings.Split(text, between)
	}
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",; \t\n\r\f", r) })
}
