package topics

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// width is how wide a line is at most, unless a page has it in a fence.
const width = 80

// cellIndent is before the cells of a table's row, which come one below the other.
const cellIndent = "      "

var (
	links    = regexp.MustCompile(`!?\[([^\]]+)\]\([^)\s]+\)`)
	emphasis = regexp.MustCompile(`\*([^*\s][^*]*)\*`)
	item     = regexp.MustCompile(`^(-|\d+\.) +`)
	ruler    = regexp.MustCompile(`^\|[-:| ]+\|$`)
)

// page is one that is being written.
type page struct {
	out       strings.Builder
	paragraph string   // the lines that have come of one
	hang      string   // what its lines but the first begin with
	header    []string // of the table that is being read
}

// plain is a page of Markdown as plain text.
func plain(text string) string {
	var p page
	fenced := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			p.flush()
			fenced = !fenced
		case fenced:
			p.out.WriteString(strings.TrimRight("    "+line, " ") + "\n")
		default:
			p.line(line)
		}
	}
	p.flush()
	return strings.Trim(p.out.String(), "\n") + "\n"
}

// line takes a line that is not in a fence.
func (p *page) line(line string) {
	if !strings.HasPrefix(line, "|") && p.header != nil {
		p.header = nil
	}
	switch mark := item.FindString(line); {
	case line == "":
		p.flush()
		p.space()
	case strings.HasPrefix(line, "#"):
		p.flush()
		title := inline(strings.TrimLeft(line, "# "))
		if strings.HasPrefix(line, "# ") {
			title = strings.ToUpper(title)
		}
		p.out.WriteString(title + "\n")
	case ruler.MatchString(line):
	case strings.HasPrefix(line, "|"):
		p.flush()
		p.row(cells(line))
	case mark != "":
		p.flush()
		p.paragraph, p.hang = line, strings.Repeat(" ", len(mark))
	default:
		p.paragraph = strings.TrimSpace(p.paragraph + " " + strings.TrimSpace(line))
	}
}

// space ends what was written with one empty line.
func (p *page) space() {
	if !strings.HasSuffix(p.out.String(), "\n\n") {
		p.out.WriteString("\n")
	}
}

// flush writes the paragraph. What to read next is for those who can follow a link.
func (p *page) flush() {
	if p.paragraph != "" && !strings.HasPrefix(p.paragraph, "**Next**") {
		wrap(&p.out, inline(p.paragraph), "", p.hang)
	}
	p.paragraph, p.hang = "", ""
}

// row writes a row of a table: its first cell, and the others below it. Those from the third on
// say what they are.
func (p *page) row(cells []string) {
	if p.header == nil {
		p.header = cells
		return
	}
	p.out.WriteString("  " + inline(cells[0]) + "\n")
	for i, cell := range cells[1:] {
		if cell == "" {
			continue
		}
		if i > 0 && i+1 < len(p.header) {
			cell = p.header[i+1] + ": " + cell
		}
		wrap(&p.out, inline(cell), cellIndent, cellIndent)
	}
}

// cells are those of a row.
func cells(row string) []string {
	row = strings.TrimSuffix(strings.TrimPrefix(strings.ReplaceAll(row, `\|`, "\x00"), "|"), "|")
	all := strings.Split(row, "|")
	for i := range all {
		all[i] = strings.ReplaceAll(strings.TrimSpace(all[i]), "\x00", "|")
	}
	return all
}

// inline takes the marks out of a text. What is code stays as it is.
func inline(text string) string {
	parts := strings.Split(links.ReplaceAllString(text, "$1"), "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = emphasis.ReplaceAllString(strings.ReplaceAll(parts[i], "**", ""), "$1")
	}
	return strings.Join(parts, "")
}

// wrap writes a text in lines of the width.
func wrap(b *strings.Builder, text, first, hang string) {
	line, begun := first, false
	for _, word := range strings.Fields(text) {
		if begun && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			b.WriteString(line + "\n")
			line, begun = hang, false
		}
		if begun {
			line += " "
		}
		line, begun = line+word, true
	}
	b.WriteString(line + "\n")
}
