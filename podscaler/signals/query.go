package signals

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// variables are what an owner's query may use, and whether as a name, which has to be in quotes:
// unquoted it would be a metric or a function.
var variables = map[string]struct{ name bool }{
	"namespace": {name: true},
	"workload":  {name: true},
	"quantile":  {},
	"window":    {},
	"target":    {},
	"targetMs":  {},
}

// checkQuery returns what is wrong with an owner's query.
func checkQuery(text string) error {
	_, _, err := expand(text, nil)
	return err
}

// expand puts values in the place of variables, and says which were met. Within quotes a value
// is escaped for the kind of quotes that it is in, and, behind =~ or !~, as a regular
// expression that matches nothing but it.
func expand(text string, values map[string]string) (expanded string, met []string, err error) {
	l := lexer{values: values}
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case l.quote == 0 && c == '#':
			end := i + len(text[i:])
			if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
				end = i + n
			}
			l.out.WriteString(text[i:end])
			i = end
		case l.quote == '"' || l.quote == '\'':
			i += l.quoted(text[i:])
		case c == '$':
			i += l.variable(text[i:])
		default:
			l.plain(text, i)
			i++
		}
	}
	if l.quote != 0 {
		l.errs = append(l.errs, fmt.Errorf("must close every quote, was %s", strconv.Quote(text)))
	}
	return l.out.String(), l.met, errors.Join(l.errs...)
}

// lexer walks through a query, knowing only what it must of PromQL: what is within quotes.
type lexer struct {
	values map[string]string
	out    strings.Builder
	quote  byte // the quotes that it is within, 0 for none
	regex  bool // which hold a regular expression
	met    []string
	errs   []error
}

// plain takes a character that is neither a variable nor escaped.
func (l *lexer) plain(text string, at int) {
	c := text[at]
	switch {
	case l.quote == c:
		l.quote = 0
	case l.quote == 0 && (c == '"' || c == '\'' || c == '`'):
		before := strings.TrimRight(text[:at], " \t\r\n")
		l.quote, l.regex = c, strings.HasSuffix(before, "=~") || strings.HasSuffix(before, "!~")
	}
	l.out.WriteByte(c)
}

// quoted takes what comes next within quotes that have escapes, and returns its length.
func (l *lexer) quoted(rest string) int {
	switch {
	case rest[0] == '\\' && len(rest) > 1:
		l.out.WriteString(rest[:2])
		return 2
	case rest[0] == '$':
		return l.variable(rest)
	}
	l.plain(rest, 0)
	return 1
}

// variableForm is what is taken for a variable. $1 and ${1} are what label_replace puts in.
var variableForm = regexp.MustCompile(`^\$([a-zA-Z]+|\{(?:[a-zA-Z]+\}?|\}|$))`)

// variable takes a $ and the name behind it, if there is one, and returns their length.
func (l *lexer) variable(rest string) int {
	m := variableForm.FindStringSubmatch(rest)
	if m == nil {
		l.out.WriteByte('$')
		return 1
	}
	name := m[1]
	v, known := variables[name]
	switch {
	case !known:
		l.errs = append(l.errs, fmt.Errorf("must speak of $%s only, was $%s", strings.Join(slices.Sorted(maps.Keys(variables)), ", $"), name))
	case v.name && l.quote == 0:
		l.errs = append(l.errs, fmt.Errorf("must have $%s within quotes, as in label=\"$%s\", was without", name, name))
	}
	l.met = append(l.met, name)
	l.out.WriteString(l.escape(l.values[name]))
	return len(m[0])
}

func (l *lexer) escape(value string) string {
	if l.quote != 0 && l.regex {
		value = regexp.QuoteMeta(value)
	}
	if l.quote == '"' || l.quote == '\'' {
		q := string(l.quote)
		value = strings.NewReplacer(`\`, `\\`, q, `\`+q, "\n", `\n`).Replace(value)
	}
	return value
}

// values are the values of the variables.
func (s *Source) values() map[string]string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	return map[string]string{
		"namespace": s.Target.Namespace,
		"workload":  s.Target.Name,
		"quantile":  number(s.SLO.Quantile),
		"window":    promDuration(s.window()),
		"target":    number(s.SLO.Target.Seconds()),
		"targetMs":  number(1000 * s.SLO.Target.Seconds()),
	}
}

// defaultWindow is what a workload without an objective is measured over.
const defaultWindow = time.Minute

func (s *Source) window() time.Duration {
	if s.SLO.Window > 0 {
		return s.SLO.Window
	}
	return defaultWindow
}

// over is what the workload's signals are measured over, and 0 where none is to be measured.
func (s *Source) over() time.Duration {
	if s.Spec.preset() == None && s.Spec.Queries == (Queries{}) && len(s.Spec.Metrics) == 0 && s.Spec.Scrape == nil {
		return 0
	}
	return s.window()
}

// promDuration writes a duration as PromQL does.
func promDuration(d time.Duration) string {
	if d%time.Second != 0 {
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}

// quoteLabel writes a string as PromQL does.
func quoteLabel(s string) string {
	return `"` + labelEscapes.Replace(s) + `"`
}

// labelEscapes is made once, which takes longer than most of what it is used for.
var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
