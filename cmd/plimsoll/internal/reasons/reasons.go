// Package reasons explains the codes of the product: those of reasons, conditions, events and
// actions. One table has each code with its meaning and what to do about it. The explain verb and
// docs/reasons.md are made of it, and a test holds it to the codes that the product declares.
package reasons

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed table.txt
var table string

// Reason is one code.
type Reason struct {
	Code    string `json:"code"`
	Group   string `json:"group"`   // what codes of this kind are about
	Meaning string `json:"meaning"` // what is so
	Do      string `json:"do"`      // what to do about it
}

// All returns every code, in the order of the table.
func All() []Reason {
	var all []Reason
	group := ""
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if title, is := strings.CutPrefix(line, "# "); is {
			group = title
			continue
		}
		if line == "" {
			continue
		}
		cells := strings.Split(line, " | ")
		if len(cells) != 3 {
			panic(fmt.Sprintf("reasons: table.txt: must have code, meaning and what to do, was %q", line))
		}
		all = append(all, Reason{Code: cells[0], Group: group, Meaning: cells[1], Do: cells[2]})
	}
	return all
}

// Find returns the reason of a code. Upper and lower case count alike.
func Find(code string) (Reason, bool) {
	for _, r := range All() {
		if strings.EqualFold(r.Code, code) {
			return r, true
		}
	}
	return Reason{}, false
}

// Codes are the codes of the table, in its order.
func Codes() []string {
	var codes []string
	for _, r := range All() {
		codes = append(codes, r.Code)
	}
	return codes
}

const pageHead = `# Reasons, conditions and events

For anyone who reads a code in a status, an event, a plan, a record or a metric. Codes are stable; the sentence beside a code has the numbers.
` + "`plimsoll explain --reason CODE`" + ` prints a line of this page.

<!-- Written from cmd/plimsoll/internal/reasons/table.txt by make gen. -->
`

// Page is docs/reasons.md.
func Page() string {
	var page strings.Builder
	page.WriteString(pageHead)
	group := ""
	for _, r := range All() {
		if r.Group != group {
			group = r.Group
			fmt.Fprintf(&page, "\n## %s\n\n| code | meaning | what to do |\n|---|---|---|\n", group)
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s |\n", r.Code, r.Meaning, r.Do)
	}
	page.WriteString("\n**Next**: [troubleshoot by symptom](tasks/troubleshoot.md), [alerts](alerts.md).\n")
	return page.String()
}
