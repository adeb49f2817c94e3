package explain

import (
	"strings"
	"unicode/utf8"
)

// Node is a line of the tree, with the lines under it. A line has a label, a text, or both.
type Node struct {
	Label string
	Text  string
	Under []Node
}

// Add hangs a line under the node.
func (n *Node) Add(label, text string) *Node {
	n.Under = append(n.Under, Node{Label: label, Text: text})
	return &n.Under[len(n.Under)-1]
}

// String draws the tree as a text that ends with a line break.
func (n *Node) String() string { return strings.Join(n.Lines(0), "\n") + "\n" }

// Lines draws the tree. Lines under the same one have their texts in one column. With a width
// above 0, texts are broken to it, at blanks.
func (n *Node) Lines(width int) []string {
	return n.draw(broken(nil, "", "", n.Text, width), "", width)
}

func (n *Node) draw(lines []string, indent string, width int) []string {
	column := 0
	for i := range n.Under {
		if n.Under[i].Text != "" {
			column = max(column, utf8.RuneCountInString(n.Under[i].Label))
		}
	}
	for i := range n.Under {
		branch, further := "├─ ", "│  "
		if i == len(n.Under)-1 {
			branch, further = "└─ ", "   "
		}
		child := &n.Under[i]
		head, rest := child.head(column), indent+further
		if len(child.Under) > 0 {
			rest += "│"
		}
		lines = broken(lines, indent+branch+head, rest, child.Text, width)
		lines = child.draw(lines, indent+further, width)
	}
	return lines
}

// head is what is before the node's text, which is to start in the given column.
func (n *Node) head(column int) string {
	if n.Label == "" || n.Text == "" {
		return n.Label
	}
	return n.Label + strings.Repeat(" ", column-utf8.RuneCountInString(n.Label)) + "  "
}

// narrow is the width below which breaking a text makes it no more readable.
const narrow = 16

// broken adds a text to the lines, behind head. What does not fit within the width goes below
// it, in the same column, behind rest.
func broken(lines []string, head, rest, text string, width int) []string {
	at := utf8.RuneCountInString(head)
	if width-at < narrow {
		return append(lines, head+text)
	}
	rest += strings.Repeat(" ", max(0, at-utf8.RuneCountInString(rest)))
	line, used := head, at
	for i, word := range strings.Split(text, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case used+1+n > width:
			lines = append(lines, line)
			line, used = rest, at
		default:
			line, used = line+" ", used+1
		}
		line, used = line+word, used+n
	}
	return append(lines, line)
}
