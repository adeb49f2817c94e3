package printable

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

func TestWhatTerminalsObeyIsEscaped(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "",
		"web: 3 → 4 replicas\n\tbecause": "web: 3 → 4 replicas\n\tbecause",
		"\x1b]0;mine\x07":                `\u001b]0;mine\u0007`,
		"\x1b[2J\x1b[31mred\x1b[0m":      `\u001b[2J\u001b[31mred\u001b[0m`,
		"over\rwritten":                  `over\u000dwritten`,
		"a\u009b2Jb\x7f":                 `a\u009b2Jb\u007f`,
		"eur\u202egnp.exe\u2066x\u2069":  `eur\u202egnp.exe\u2066x\u2069`,
		"one\u2028two\u0085three":        `one\u2028two\u0085three`,
		"not UTF-8: \x9b2J":              "not UTF-8: \ufffd2J",
		"already \ufffd":                 "already \ufffd",
		"שלום":                           "שלום",
	} {
		if got := Text(in); got != want {
			t.Errorf("Text(%q) is %q, want %q", in, got, want)
		}
	}
}

// What is shown holds nothing that is obeyed, is the same however it was cut into pieces, and
// changes no more.
func TestNothingObeyedPasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.OneOf(
			rapid.Byte(), rapid.ByteRange(0, 0x1f), rapid.SampledFrom([]byte("\x1b\x9b\xe2\x80\xae\xc2\x85\x7f\r")),
		)).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		want := Text(in)
		if !utf8.ValidString(want) {
			t.Fatalf("%q is not UTF-8", want)
		}
		for _, r := range want {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
				t.Fatalf("%q lets %U through", want, r)
			}
		}
		if again := Text(want); again != want {
			t.Fatalf("%q changes into %q", want, again)
		}
		var out bytes.Buffer
		w := NewWriter(&out)
		for rest := []byte(in); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if _, err := w.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Fatalf("in pieces it is %q, whole %q", out.String(), want)
		}
	})
}

// JSON that is shown is still JSON, of the same value.
func TestJSONKeepsItsMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := strings.ToValidUTF8(rapid.String().Draw(t, "text"), "") + "\x1b\u009b\x7f\u202e"
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := json.Unmarshal([]byte(Text(string(text))), &got); err != nil || got != want {
			t.Fatalf("%s reads as %q (%v), want %q", Text(string(text)), got, err, want)
		}
	})
}

// What is read out of JSON made printable is what Text makes of what went in.
func TestJSONOfPrintableStrings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\x1b", "\r", "\b", "\f", "\\", `\u001b`, `"`, "<", "\u009b", "\u202e", "\u2028", "🙂"}))
		in := strings.ToValidUTF8(strings.Join(rapid.SliceOf(part).Draw(t, "parts"), ""), "")
		text, err := json.Marshal(map[string]string{"message": in})
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal(JSON(text), &got); err != nil || got["message"] != Text(in) {
			t.Fatalf("%s made printable is %s, which reads as %q (%v), want %q", text, JSON(text), got["message"], err, Text(in))
		}
	})
}
