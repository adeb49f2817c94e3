package hull

import (
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/plimsoll/plimsoll/api/printable"
)

// Style is how a piece of text looks.
type Style int

// The styles.
const (
	Plain  Style = iota
	Strong       // what the eye should find first
	Faint        // what it may pass over
	Good         // all is well
	Bad          // something is not
	Doubt        // it is not known yet
	Water        // what pods ask for
	Free         // what is paid for and free
)

// Paint makes text of a style. The text has no line breaks.
type Paint func(s Style, text string) string

// NoColour leaves text as it is.
func NoColour(_ Style, text string) string { return text }

// Only the sixteen colours that terminals let their owners choose.
var styles = map[Style]lipgloss.Style{
	Plain:  lipgloss.NewStyle(),
	Strong: lipgloss.NewStyle().Bold(true),
	Faint:  lipgloss.NewStyle().Foreground(lipgloss.BrightBlack),
	Good:   lipgloss.NewStyle().Foreground(lipgloss.Green),
	Bad:    lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true),
	Doubt:  lipgloss.NewStyle().Foreground(lipgloss.Yellow),
	Water:  lipgloss.NewStyle().Foreground(lipgloss.Blue),
	Free:   lipgloss.NewStyle().Foreground(lipgloss.Cyan),
}

// Colour paints with the terminal's sixteen colours.
func Colour(s Style, text string) string {
	if s == Plain || text == "" {
		return text
	}
	return styles[s].Render(text)
}

// piece is text of one style; a row of them makes a line of the screen.
type piece struct {
	style Style
	text  string
}

type row []piece

func text(s string) row { return row{{Plain, s}} }

func (r row) and(s Style, text string) row { return append(r, piece{s, text}) }

// fit cuts the row at the width, with a sign that it was cut, or fills it up with blanks.
func (r row) fit(width int) row {
	var out row
	left := width
	for i, p := range r {
		n := lipgloss.Width(p.text)
		if n > left || n == left && i < len(r)-1 && r[i+1:].width() > 0 {
			return append(out, piece{p.style, cut(p.text, left)})
		}
		out, left = append(out, p), left-n
	}
	return out.and(Plain, strings.Repeat(" ", left))
}

func (r row) width() int {
	n := 0
	for _, p := range r {
		n += lipgloss.Width(p.text)
	}
	return n
}

// cut shortens text to the width; its last column says that there was more.
func cut(s string, width int) string {
	if width <= 0 {
		return ""
	}
	n := 0
	for i, r := range s {
		w := lipgloss.Width(string(r))
		if n+w > width-1 {
			return s[:i] + "…" + strings.Repeat(" ", width-1-n)
		}
		n += w
	}
	return s + "…" + strings.Repeat(" ", max(0, width-1-n))
}

// printable is the row with nothing in it that steers the terminal: the styles are put on
// afterwards.
func (r row) printable() row {
	out := make(row, len(r))
	for i, p := range r {
		out[i] = piece{p.style, printable.Text(p.text)}
	}
	return out
}

func (r row) paint(with Paint) string {
	var b strings.Builder
	for _, p := range r {
		b.WriteString(with(p.style, p.text))
	}
	return b.String()
}

// screen makes rows into a screen of the given size.
func screen(rows []row, width, height int, with Paint) string {
	lines := make([]string, height)
	for i := range lines {
		var r row
		if i < len(rows) {
			r = rows[i].printable()
		}
		lines[i] = strings.TrimRight(r.fit(width).paint(with), " ")
	}
	return strings.Join(lines, "\n")
}
