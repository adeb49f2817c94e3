package firstboot

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// What is written as YAML is put together from these, strings and bools. Order is the writer's.
type (
	mapping []entry
	entry   struct {
		key   string
		value any
	}
	list []any
	row  []string // a list on one line, such as a command
	text string   // a text of lines, written unquoted where that is safe
)

// add appends an entry.
func (m *mapping) add(key string, value any) { *m = append(*m, entry{key, value}) }

// some appends a list of strings, unless it is empty.
func (m *mapping) some(key string, values []string) {
	var items list
	for _, v := range values {
		items = append(items, v)
	}
	if items != nil {
		m.add(key, items)
	}
}

// document writes a mapping as a YAML document.
func document(m mapping) string {
	var b strings.Builder
	writeMapping(&b, m, "")
	return b.String()
}

// writeMapping writes the entries, the first one at the end of the builder and the others at the
// indent.
func writeMapping(b *strings.Builder, m mapping, indent string) {
	for i, e := range m {
		if i > 0 {
			b.WriteString(indent)
		}
		b.WriteString(key(e.key) + ":")
		switch v := e.value.(type) {
		case mapping:
			b.WriteString("\n" + indent + "  ")
			writeMapping(b, v, indent+"  ")
		case list:
			b.WriteByte('\n')
			for _, item := range v {
				b.WriteString(indent + "  - ")
				writeItem(b, item, indent+"    ")
			}
		default:
			b.WriteString(" " + scalar(v, indent+"  ") + "\n")
		}
	}
}

func writeItem(b *strings.Builder, item any, indent string) {
	if m, ok := item.(mapping); ok {
		writeMapping(b, m, indent)
		return
	}
	b.WriteString(scalar(item, indent) + "\n")
}

// scalar is a value that begins on the line of its key.
func scalar(v any, indent string) string {
	switch v := v.(type) {
	case bool:
		return fmt.Sprint(v)
	case int:
		return fmt.Sprint(v)
	case string:
		return quote(v)
	case row:
		words := make([]string, len(v))
		for i, word := range v {
			words[i] = quote(word)
		}
		return "[" + strings.Join(words, ", ") + "]"
	case text:
		return lines(string(v), indent)
	}
	panic(fmt.Sprintf("firstboot: cannot write %T as YAML", v))
}

// lines writes a text as a literal block, which people can read, or in quotes where a block
// would not give it back byte for byte.
func lines(s, indent string) string {
	if !blockSafe(s) {
		return quote(s)
	}
	return "|\n" + indent + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n"+indent)
}

// blockSafe reports whether a literal block gives the text back: it ends with one newline, its
// first line shows the indent, and there is nothing in it that readers fold, strip or refuse.
func blockSafe(s string) bool {
	if s == "" || s[0] == ' ' || s[0] == '\n' || !strings.HasSuffix(s, "\n") || strings.HasSuffix(s, "\n\n") {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '\n' && (c < ' ' || c > '~') {
			return false
		}
	}
	return true
}

// quote writes a string in double quotes, which is the one style of YAML that holds every
// string and that no reader takes for a number, a date or a yes. All but printable ASCII is
// escaped, so that neither a terminal nor a mailer on the way changes it. The string is UTF-8.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r >= ' ' && r <= '~':
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// key writes a mapping's key, plain where no reader could take it for anything but a word.
func key(s string) string {
	switch s {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return quote(s)
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '-' || c == '_')) {
			return quote(s)
		}
	}
	if s == "" {
		return quote(s)
	}
	return s
}

// printable reports whether a string is one line of UTF-8 without control characters.
func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\ufeff' {
			return false
		}
	}
	return true
}
