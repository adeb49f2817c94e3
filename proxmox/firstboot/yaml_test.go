package firstboot

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// unquote is the twin of quote: it reads what YAML says of double quotes.
func unquote(t interface{ Fatalf(string, ...any) }, s string) string {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		t.Fatalf("not in quotes: %s", s)
	}
	body := s[1 : len(s)-1]
	var b strings.Builder
	for len(body) > 0 {
		c := body[0]
		if c < ' ' || c > '~' || c == '"' {
			t.Fatalf("%q is in quotes as it is: %s", c, s)
		}
		body = body[1:]
		if c != '\\' {
			b.WriteByte(c)
			continue
		}
		c, body = body[0], body[1:]
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
		if digits > 0 {
			n, err := strconv.ParseUint(body[:digits], 16, 32)
			if err != nil {
				t.Fatalf("%v in %s", err, s)
			}
			b.WriteRune(rune(n))
			body = body[digits:]
			continue
		}
		plain, ok := map[byte]byte{'"': '"', '\\': '\\', 'n': '\n', 't': '\t'}[c]
		if !ok {
			t.Fatalf("\\%c is no escape, in %s", c, s)
		}
		b.WriteByte(plain)
	}
	return b.String()
}

// A quoted string is one line of printable ASCII, and read back it is what it was.
func TestLawQuotesHoldEveryString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		if got := unquote(t, quote(s)); got != s {
			t.Fatalf("%q came back as %q", s, got)
		}
	})
}

func FuzzQuotesHoldEveryString(f *testing.F) {
	for _, s := range []string{"", "no", "0o17", "a: b #c", "\"\\\n\t\r\x00\x7f", "é\u0085\u2028\ufeff😀", "{{ }}", "- x", "'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			t.Skip("everything that is written has been checked to be UTF-8")
		}
		if got := unquote(t, quote(s)); got != s {
			t.Errorf("%q came back as %q", s, got)
		}
	})
}

func TestTextsAreBlocksOnlyWhereBlocksGiveThemBack(t *testing.T) {
	for s, want := range map[string]string{
		"a\n":         "|\n  a",
		"a\n\n b\n":   "|\n  a\n  \n   b",
		"#!/bin/sh\n": "|\n  #!/bin/sh",
		"":            `""`,
		"a":           `"a"`,
		"a\n\n":       `"a\n\n"`,
		" a\n":        `" a\n"`,
		"\na\n":       `"\na\n"`,
		"a\tb\n":      `"a\tb\n"`,
		"é\n":         `"\xe9\n"`,
	} {
		if got := lines(s, "  "); got != want {
			t.Errorf("%q is written as %s, want %s", s, got, want)
		}
	}
}

func TestKeysAreQuotedWhereTheyCouldBeMisread(t *testing.T) {
	for s, want := range map[string]string{
		"node-name": "node-name", "eth0": "eth0", "dhcp_4": "dhcp_4",
		"y": `"y"`, "no": `"no"`, "null": `"null"`, "": `""`, "1e3": `"1e3"`, "a b": `"a b"`, "-": `"-"`, "~": `"~"`, "a:": `"a:"`,
	} {
		if got := key(s); got != want {
			t.Errorf("%q is written as %s, want %s", s, got, want)
		}
	}
}
