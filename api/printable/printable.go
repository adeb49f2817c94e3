// Package printable makes text harmless to look at. Names, messages and answers come from people
// and servers that are not ours; printed as they are, they could move the cursor of a terminal,
// retitle it, colour over what was said, or turn a line round.
package printable

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Text returns the text with every character escaped that a terminal or a browser would obey and
// not show: control characters but line feed and tab, what sets the direction of writing, and the
// line ends that only some know. The escape is JSON's, which YAML and JavaScript read inside double
// quotes too, so that quoted text keeps its meaning. Bytes that are not UTF-8 become U+FFFD.
func Text(s string) string {
	if harmless(s) {
		return s
	}
	return string(escape(nil, []byte(s)))
}

func harmless(s string) bool {
	for i, r := range s {
		if obeyed(r) || r == utf8.RuneError && !isReplacement(s[i:]) {
			return false
		}
	}
	return true
}

// isReplacement reports whether the text begins with U+FFFD itself, and not with a byte that is not
// UTF-8.
func isReplacement(s string) bool {
	_, size := utf8.DecodeRuneInString(s)
	return size > 1
}

// obeyed reports whether a character is one that is obeyed and not shown.
func obeyed(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < utf8.RuneSelf:
		return r < ' ' || r == 0x7f
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// escape appends text to out.
func escape(out, text []byte) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if obeyed(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
		text = text[size:]
	}
	return out
}

// JSON returns JSON of which every string is as Text has it, so that whoever reads it can print
// what it says.
func JSON(text []byte) []byte {
	if harmless(string(text)) && !bytes.ContainsRune(text, '\\') {
		return text
	}
	var out []byte
	for len(text) > 0 {
		r, size := escaped(text)
		if obeyed(r) {
			out = fmt.Appendf(out, `\\u%04x`, r)
		} else {
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
	return out
}

// escaped reads the first character of JSON, and how many bytes it takes. Of an escape that nothing
// obeys it is a backslash.
func escaped(text []byte) (rune, int) {
	if text[0] != '\\' || len(text) < 2 {
		return utf8.DecodeRune(text)
	}
	switch text[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'r':
		return '\r', 2
	case 'u':
		if len(text) < 6 {
			break
		}
		if n, err := strconv.ParseUint(string(text[2:6]), 16, 16); err == nil {
			return rune(n), 6
		}
	}
	return '\\', 2 // and what it is before
}

// Writer passes on what is written to it as Text has it. Several goroutines may write to it.
type Writer struct {
	to io.Writer

	mu   sync.Mutex
	held []byte // the beginning of a character of which the rest has yet to come
}

// NewWriter returns a writer to another one.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Unguarded is the writer behind this one, for what draws on a terminal with texts of its own.
func (w *Writer) Unguarded() io.Writer { return w.to }

// Write passes text on, in one piece. A character that ends in a later piece waits for it.
func (w *Writer) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	whole := text
	if len(w.held) > 0 {
		whole = append(w.held, text...)
		w.held = nil
	}
	if n := begun(whole); n > 0 {
		w.held = bytes.Clone(whole[len(whole)-n:])
		whole = whole[:len(whole)-n]
	}
	if len(whole) == 0 {
		return len(text), nil
	}
	if _, err := w.to.Write(escape(nil, whole)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// begun is how many bytes at the end are the beginning of a character.
func begun(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Close passes on a character that never ended. The writer behind stays open.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) == 0 {
		return nil
	}
	_, err := w.to.Write(escape(nil, w.held))
	w.held = nil
	return err
}
