// Package wordcheck finds prose that is hard to read: words that docs/glossary.md replaces, wide
// comments, long sentences, and links of pages that lead nowhere.
//
// It reads the comments of every Go file, the string literals that are sentences, and every page
// of documentation, without a build. Only tests use this package.
package wordcheck

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/archcheck"
)

// Rule names what is wrong with a text.
type Rule string

// The rules.
const (
	Word     Rule = "word"     // the glossary has a better word
	Width    Rule = "width"    // a comment is wider than a reader's window
	Sentence Rule = "sentence" // a sentence is longer than a reader's breath
	Link     Rule = "link"     // a link leads to no file or heading
)

const (
	widest   = 100 // columns of a comment's line
	longest  = 40  // words of a sentence
	tabWidth = 4

	glossaryFile = "docs/glossary.md"
)

// Finding is one place that breaks a rule.
type Finding struct {
	Path  string // from the root
	Line  int
	Rule  Rule
	Found string
	Fix   string // what to do about it
}

// String prints the finding as a line.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s: %s", f.Path, f.Line, f.Rule, f.Found, f.Fix)
}

// Check returns every finding in the tree, sorted by place.
func Check(fsys fs.FS) ([]Finding, error) {
	page, err := fs.ReadFile(fsys, glossaryFile)
	if err != nil {
		return nil, err
	}
	replaced, err := readReplacements(string(page))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", glossaryFile, err)
	}
	c := checker{fsys: fsys, replaced: replaced}
	err = archcheck.Walk(fsys, func(name string, d fs.DirEntry) error {
		if ext := path.Ext(name); d.IsDir() || ext != ".go" && ext != ".md" {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		return c.file(name, string(text))
	})
	slices.SortStableFunc(c.found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return c.found, err
}

type checker struct {
	fsys     fs.FS
	replaced replacements
	found    []Finding
	path     string // of the file that is being read
}

func (c *checker) file(name, text string) error {
	c.path = name
	if path.Ext(name) == ".go" {
		return c.source(text)
	}
	c.page(text)
	return nil
}

func (c *checker) report(line int, rule Rule, found, fix string) {
	c.found = append(c.found, Finding{c.path, line, rule, found, fix})
}

// block checks a run of lines that belong together: the words of all, and the sentences of those
// that are running text.
func (c *checker) block(lines []line) {
	c.words(lines)
	var text []token
	for _, l := range lines {
		if l.breaks {
			c.sentences(text)
			text = text[:0]
		}
		if l.prose {
			text = append(text, tokens(l)...)
		}
	}
	c.sentences(text)
}

// words reports the words and pairs of words that the glossary replaces.
func (c *checker) words(lines []line) {
	if c.path == glossaryFile { // it quotes them
		return
	}
	var before string
	for _, l := range lines {
		for _, t := range tokens(l) {
			for _, w := range t.words() {
				for _, phrase := range []string{w, before + " " + w} {
					if fix, is := c.replaced[phrase]; is {
						c.report(l.number, Word, strconv.Quote(phrase), "write "+fix)
					}
				}
				before = w
			}
		}
	}
}

// sentences reports those with more words than a reader keeps in mind.
func (c *checker) sentences(text []token) {
	for len(text) > 0 {
		end, words := sentence(text)
		if words > longest {
			c.report(text[0].line, Sentence, fmt.Sprintf("%d words", words),
				fmt.Sprintf("split %q, at most %d words", opening(text[:end]), longest))
		}
		text = text[end:]
	}
}

// sentence is where the first sentence of a text ends, and how many words it has.
func sentence(text []token) (end, words int) {
	for end < len(text) {
		t := text[end]
		words += min(1, len(t.words()))
		end++
		if end == len(text) || t.stops() && text[end].starts() {
			break
		}
	}
	return end, words
}

// opening is how a sentence begins.
func opening(text []token) string {
	var words []string
	for _, t := range text[:min(5, len(text))] {
		words = append(words, t.text)
	}
	return strings.Join(words, " ") + " …"
}
