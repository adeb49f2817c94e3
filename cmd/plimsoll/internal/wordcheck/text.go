package wordcheck

import (
	"errors"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// line is a line of text with its markup taken off.
type line struct {
	number int
	text   string
	prose  bool // running text, not a picture or code
	breaks bool // no sentence goes on from the line before
	cell   bool // a cell of a table, or a heading
}

// token is what lies between two spaces.
type token struct {
	line int
	text string
}

func tokens(l line) []token {
	var all []token
	for text := range strings.FieldsSeq(l.text) {
		all = append(all, token{l.number, text})
	}
	return all
}

// words are the lower-case words of a token. Names such as s.Told and told_by are one word each.
func (t token) words() []string {
	all := strings.FieldsFunc(strings.ToLower(t.text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-'’._", r)
	})
	kept := all[:0]
	for _, w := range all {
		if w = strings.Trim(w, "-'’._"); w != "" {
			kept = append(kept, w)
		}
	}
	return kept
}

// stops reports whether a sentence may end with the token.
func (t token) stops() bool {
	text := strings.TrimRight(t.text, "\"'”’)*_`")
	return t.text == "·" || strings.HasSuffix(text, ".") || strings.HasSuffix(text, "!") || strings.HasSuffix(text, "?")
}

// starts reports whether a sentence may begin with the token: none does with a small letter.
func (t token) starts() bool {
	r, _ := utf8.DecodeRuneInString(strings.TrimLeft(t.text, "\"'“‘(*_"))
	return !unicode.IsLower(r)
}

// source checks the comments and the texts of a Go file.
func (c *checker) source(text string) error {
	set := gotoken.NewFileSet()
	f, err := parser.ParseFile(set, c.path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(f) {
		return err
	}
	lines := strings.Split(text, "\n")
	at := func(p gotoken.Pos) int { return set.Position(p).Line }
	for _, group := range f.Comments {
		c.comment(group, at, lines)
	}
	if strings.HasSuffix(c.path, "_test.go") { // its texts are what the product's must be
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field: // its tag is no text
			return n.Tag == nil
		case *ast.BasicLit:
			c.literal(n, at(n.Pos()))
		}
		return true
	})
	return nil
}

// directive matches comments that steer a tool, and are as long as they must be.
var directive = regexp.MustCompile(`^//([a-z0-9]+:[a-z0-9]|\s*\+)`)

// comment checks a group of comments.
func (c *checker) comment(group *ast.CommentGroup, at func(gotoken.Pos) int, source []string) {
	var lines []line
	for _, part := range group.List {
		steers := directive.MatchString(part.Text)
		text := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(part.Text, "//"), "/*"), "*/")
		for i, text := range strings.Split(text, "\n") {
			number := at(part.Pos()) + i
			if !steers {
				c.width(number, source[number-1])
			}
			lines = append(lines, plainLine(number, strings.TrimPrefix(text, " "), steers))
		}
	}
	// The first word may be the name of what is declared below the comment.
	below := at(group.End())
	if name, rest, _ := strings.Cut(lines[0].text, " "); below < len(source) && declares(source[below], name) {
		lines[0].text = rest
	}
	c.block(lines)
}

// declares reports whether a line of code has a name in it.
func declares(code, name string) bool {
	return slices.Contains(strings.FieldsFunc(code, func(r rune) bool { return !unicode.IsLetter(r) && r != '_' }), name)
}

// width checks the line of a comment. An address cannot be broken.
func (c *checker) width(number int, text string) {
	columns := utf8.RuneCountInString(strings.ReplaceAll(text, "\t", strings.Repeat(" ", tabWidth)))
	if columns > widest && !strings.Contains(text, "://") {
		c.report(number, Width, strconv.Itoa(columns)+" columns", "wrap at "+strconv.Itoa(widest))
	}
}

// literal checks a string that is a sentence: one of more than three words.
func (c *checker) literal(n *ast.BasicLit, number int) {
	if n.Kind != gotoken.STRING {
		return
	}
	text, err := strconv.Unquote(n.Value)
	if err != nil || len(strings.Fields(text)) <= 3 {
		return
	}
	raw := n.Value[0] == '`'
	var lines []line
	for i, text := range strings.Split(text, "\n") {
		if !raw {
			i = 0
		}
		lines = append(lines, plainLine(number+i, text, false))
	}
	c.block(lines)
}

// item matches the beginning of a list's item or of a key with its value.
var item = regexp.MustCompile(`^\s*([-*]|\d+\.)\s|^[\w.-]+:(\s|$)`)

// plainLine is a line of text without markup: what is indented in it is code or a table.
func plainLine(number int, text string, steers bool) line {
	l := line{number: number, text: text}
	l.breaks = steers || strings.TrimSpace(text) == "" || text[0] == ' ' || text[0] == '\t' || item.MatchString(text)
	l.prose = !steers && (!l.breaks || item.MatchString(text))
	return l
}

var (
	codeSpan  = regexp.MustCompile("`[^`]*`")
	link      = regexp.MustCompile(`\]\([^)]*\)`)
	pageBreak = regexp.MustCompile(`^\s*(#|>|[-*] |\d+\. |$)`)
)

// page checks a page of Markdown.
func (c *checker) page(text string) {
	c.block(pageLines(text))
	c.links(text)
}

// pageLines are the lines of a page. Fenced code and code spans are quotations.
func pageLines(text string) []line {
	var lines []line
	fenced, table := false, false
	for i, text := range strings.Split(unreleased(text), "\n") {
		if strings.HasPrefix(strings.TrimSpace(text), "```") {
			fenced = !fenced
			lines = append(lines, line{number: i + 1, breaks: true})
			continue
		}
		if fenced {
			continue
		}
		text = link.ReplaceAllString(codeSpan.ReplaceAllString(text, "X"), "]")
		row := strings.HasPrefix(text, "|")
		if code := strings.HasPrefix(text, "    "); !row {
			lines = append(lines, line{i + 1, text, !code, code || table || pageBreak.MatchString(text), strings.HasPrefix(text, "#")})
		} else {
			for cell := range strings.SplitSeq(text, "|") {
				lines = append(lines, line{i + 1, cell, true, true, true})
			}
		}
		table = row
	}
	return lines
}

// unreleased is a page without the changes of earlier releases, which are history.
func unreleased(text string) string {
	_, changes, found := strings.Cut(text, "\n## Unreleased\n")
	if !found {
		return text
	}
	if _, released, found := strings.Cut(changes, "\n## "); found {
		return strings.TrimSuffix(text, released)
	}
	return text
}

// replacements say for words in lower case what to write in their place.
type replacements map[string]string

// tableHead is the head of the glossary's table of replacements.
const tableHead = "| not | write |\n|---|---|\n"

// readReplacements reads the table of a glossary: | word, word | what to write |.
func readReplacements(page string) (replacements, error) {
	_, table, found := strings.Cut(page, tableHead)
	if !found {
		return nil, errors.New("has no table that begins with " + strconv.Quote(tableHead))
	}
	all := replacements{}
	for row := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(row, "|")
		if len(cells) != 4 {
			break
		}
		for phrase := range strings.SplitSeq(cells[1], ",") {
			all[strings.TrimSpace(phrase)] = strings.TrimSpace(cells[2])
		}
	}
	return all, nil
}
