package topics

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/reasons"
)

func TestPagesAreShownAsPlainText(t *testing.T) {
	for _, c := range []struct{ name, page, want string }{
		{"headings and marks", "# A `b` page\n\n## And *more*\n\n**Bold**, [a link](x.md#y) and `*.md`.\n", "A B PAGE\n\nAnd more\n\nBold, a link and *.md.\n"},
		{"a paragraph", strings.Repeat("word ", 20) + "\nend\n", strings.TrimSpace(strings.Repeat("word ", 16)) + "\nword word word word end\n"},
		{
			"a list", "- one\n  and more\n- two " + strings.Repeat("word ", 20) + "\n\n1. three\n",
			"- one and more\n- two " + strings.TrimSpace(strings.Repeat("word ", 15)) + "\n  " + strings.TrimSpace(strings.Repeat("word ", 5)) + "\n\n1. three\n",
		},
		{"a fence", "```\n| as it | is\n\n**x**\n```\n", "| as it | is\n\n    **x**\n"},
		{
			"a table", "| term | meaning | not |\n|---|---|---|\n| host | A `server`. | node |\n| a \\| b | Either. | |\n",
			"  host\n      A server.\n      not: node\n  a | b\n      Either.\n",
		},
		{"two tables", "| a | b |\n|---|---|\n| 1 | 2 |\n\n| c | d |\n|---|---|\n| 3 | 4 |\n", "  1\n      2\n\n  3\n      4\n"},
		{"what is next", "Text.\n\n**Next**: [a](b.md).\n", "Text.\n"},
	} {
		want := c.want
		if c.name == "a fence" {
			want = "    " + want
		}
		if diff := cmp.Diff(want, plain(c.page)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Every topic can be read in a terminal: no mark of Markdown is left, and no line is wide.
func TestEveryTopicIsPlain(t *testing.T) {
	for _, topic := range All {
		text := topic.Text()
		if len(text) < 1000 || topic.Short == "" {
			t.Errorf("%s: there is not much to read: %q", topic.Name, text)
		}
		for line := range strings.Lines(text) {
			fenced := strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, cellIndent)
			if utf8.RuneCountInString(line) > width+1 && !fenced || strings.Contains(line, "](") || strings.Contains(line, "**") || strings.HasPrefix(line, "|") {
				t.Errorf("%s: a line that is wide, or not plain: %q", topic.Name, line)
			}
		}
	}
	if !slices.IsSortedFunc(All, func(a, b Topic) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the topics are not in order")
	}
}

// The table of reasons is all of them.
func TestReasonsAreATopic(t *testing.T) {
	text := All[slices.IndexFunc(All, func(t Topic) bool { return t.Name == "reasons" })].Text()
	for _, code := range reasons.Codes() {
		if !strings.Contains(text, "\n  "+code+"\n") {
			t.Errorf("%s is missing", code)
		}
	}
}
