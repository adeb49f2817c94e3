package signals

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// sample is one line of a metrics page.
type sample struct {
	name   string
	labels []label // in the page's order
	value  float64
}

type label struct{ name, value string }

// maxLine is how long a line of a page may be.
const maxLine = 256 << 10

// parsePage reads a metrics page, in the text format or in OpenMetrics, and emits the samples
// whose name is wanted. Other lines are passed over without being understood: a page has
// thousands of which a few are needed. complete says that the page must end as OpenMetrics does.
func parsePage(page io.Reader, complete bool, wanted func(name string) bool, emit func(sample) error) error {
	lines := bufio.NewScanner(page)
	lines.Buffer(make([]byte, 0, 16<<10), maxLine)
	ended, n := false, 0
	for lines.Scan() {
		n++
		line := bytes.Trim(lines.Bytes(), " \t\r")
		if len(line) == 0 || line[0] == '#' {
			ended = ended || string(line) == "# EOF"
			continue
		}
		if name := bareName(line); line[0] != '{' && !wanted(string(name)) {
			continue
		}
		s, err := parseLine(string(line))
		if err == nil && wanted(s.name) {
			err = emit(s)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d: must be at most %d bytes long", n+1, maxLine)
	case err != nil:
		return err
	case complete && !ended:
		return errors.New("the page ends without # EOF: a part of it is missing")
	}
	return nil
}

// bareName is the name at the start of a line; nil where it is between braces, in quotes.
func bareName(line []byte) []byte {
	n := 0
	for n < len(line) && (line[n] == '_' || line[n] == ':' || 'a' <= line[n] && line[n] <= 'z' || 'A' <= line[n] && line[n] <= 'Z' || n > 0 && '0' <= line[n] && line[n] <= '9') {
		n++
	}
	if n == 0 {
		return nil
	}
	return line[:n]
}

// parseLine reads a sample. What is behind its value (a time, an exemplar) does not matter:
// the page is of now.
func parseLine(line string) (s sample, err error) {
	s.name = string(bareName([]byte(line)))
	rest := strings.TrimLeft(line[len(s.name):], " \t")
	if strings.HasPrefix(rest, "{") {
		if rest, err = s.parseLabels(rest[1:]); err != nil {
			return s, err
		}
	}
	if s.name == "" {
		return s, errors.New("a sample must have a name")
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return s, errors.New("a sample must have a value")
	}
	// Go reads 0x1p4 and 1_000 as numbers, which no such page means.
	if s.value, err = strconv.ParseFloat(fields[0], 64); err != nil || strings.ContainsAny(fields[0], "pPxX_") {
		return s, fmt.Errorf("a value must be a number, was %q", short(fields[0]))
	}
	return s, nil
}

// parseLabels reads labels up to the brace that closes them, and returns what follows it.
func (s *sample) parseLabels(rest string) (string, error) {
	for {
		rest = strings.TrimLeft(rest, " \t,")
		if rest == "" {
			return "", errors.New("labels must end with }")
		}
		if rest[0] == '}' {
			return rest[1:], nil
		}
		name, quoted, after, err := labelName(rest)
		if err != nil {
			return "", err
		}
		if !strings.HasPrefix(after, "=") {
			if !quoted || s.name != "" {
				return "", fmt.Errorf("label %q %w", short(name), errNoValue)
			}
			s.name, rest = name, after
			continue
		}
		value, after, err := unquote(strings.TrimLeft(after[1:], " \t"))
		if err != nil {
			return "", err
		}
		s.labels = append(s.labels, label{name, value})
		rest = after
	}
}

// errNoValue is of a label without one. Only a metric's name may be by itself between braces, and
// there it must be in quotes.
var errNoValue = errors.New("must have a value")

// labelName reads a name, in quotes or without, and returns what follows it and blanks.
func labelName(rest string) (name string, quoted bool, after string, err error) {
	if rest[0] == '"' {
		name, after, err = unquote(rest)
		return name, true, strings.TrimLeft(after, " \t"), err
	}
	i := strings.IndexAny(rest, "= \t,}\"")
	if i <= 0 {
		return "", false, "", fmt.Errorf("labels must be name=\"value\", was %q", short(rest))
	}
	return rest[:i], false, strings.TrimLeft(rest[i:], " \t"), nil
}

// unquote reads a string in double quotes at the start of a text, and returns what follows it.
func unquote(text string) (value, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		return "", "", fmt.Errorf("a label's value must be in double quotes, was %q", short(text))
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			if !utf8.ValidString(b.String()) {
				return "", "", errors.New("a label's value must be UTF-8")
			}
			return b.String(), text[i+1:], nil
		case c != '\\':
			b.WriteByte(c)
		case i+1 == len(text):
			// The quotes are not closed, which is reported below.
		default:
			i++
			escaped, known := map[byte]byte{'n': '\n', '"': '"', '\\': '\\'}[text[i]]
			if !known {
				return "", "", fmt.Errorf(`a label's value must have no escapes but \n, \" and \\, was \%c`, text[i])
			}
			b.WriteByte(escaped)
		}
	}
	return "", "", errors.New("a label's value must end with a double quote")
}

// get returns a label's value, empty without one.
func (s *sample) get(name string) string {
	for _, l := range s.labels {
		if l.name == name {
			return l.value
		}
	}
	return ""
}
