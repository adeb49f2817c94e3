// Package topics shows pages of the documentation, and the table of reasons, as plain text in a
// terminal.
package topics

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/reasons"
	"github.com/plimsoll/plimsoll/docs"
)

// Topic is something to read about.
type Topic struct {
	Name, Short string
	page        string // below docs; empty for the table of reasons
}

// All are the topics by name.
var All = []Topic{
	{"glossary", "Every term, and what it means", "glossary.md"},
	{"loop", "What Plimsoll does every ten seconds", "concepts/loop.md"},
	{"prices", "What counts as cost, and what is really saved", "concepts/prices.md"},
	{"reasons", "Every code of a reason, what it means and what to do", ""},
	{"trust", "What Plimsoll never does, and why", "concepts/trust.md"},
}

// Text is the topic as plain text.
func (t *Topic) Text() string {
	if t.page == "" {
		return codes()
	}
	page, err := docs.Pages.ReadFile(t.page)
	if err != nil { // it is in the program
		panic(err)
	}
	return plain(string(page))
}

// codes is the table of reasons, by its groups.
func codes() string {
	var b strings.Builder
	b.WriteString("REASONS, CONDITIONS AND EVENTS\n")
	group := ""
	for _, r := range reasons.All() {
		if r.Group != group {
			group = r.Group
			fmt.Fprintf(&b, "\n%s\n\n", group)
		}
		b.WriteString("  " + r.Code + "\n")
		wrap(&b, inline(r.Meaning+" "+r.Do), cellIndent, cellIndent)
	}
	return b.String()
}
