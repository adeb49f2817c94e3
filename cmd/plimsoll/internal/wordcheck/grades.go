package wordcheck

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/archcheck"
)

// Grade is how hard a page's running text is to read. Tables and code are not counted, and a code
// span counts as one word.
type Grade struct {
	Path   string
	Words  int
	Median int     // words of the sentence in the middle
	Level  float64 // years of school that it takes, by Flesch and Kincaid
}

// Grades are those of all pages with running text, in their order.
func Grades(fsys fs.FS) ([]Grade, error) {
	var grades []Grade
	err := archcheck.Walk(fsys, func(name string, d fs.DirEntry) error {
		if d.IsDir() || path.Ext(name) != ".md" {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if g := grade(string(text)); g.Words > 0 {
			g.Path = name
			grades = append(grades, g)
		}
		return err
	})
	return grades, err
}

func grade(text string) Grade {
	var lengths []int
	words, syllables := 0, 0
	for _, text := range paragraphs(pageLines(text)) {
		for len(text) > 0 {
			end, n := sentence(text)
			for _, t := range text[:end] {
				for _, w := range t.words()[:min(1, len(t.words()))] {
					syllables += syllablesOf(w)
				}
			}
			if n > 0 {
				lengths = append(lengths, n)
				words += n
			}
			text = text[end:]
		}
	}
	if words == 0 {
		return Grade{}
	}
	slices.Sort(lengths)
	perSentence, perWord := float64(words)/float64(len(lengths)), float64(syllables)/float64(words)
	return Grade{Words: words, Median: lengths[len(lengths)/2], Level: 0.39*perSentence + 11.8*perWord - 15.59}
}

// paragraphs are the runs of running text: paragraphs, and items of lists.
func paragraphs(lines []line) [][]token {
	var all [][]token
	var text []token
	for _, l := range lines {
		if l.breaks && len(text) > 0 {
			all, text = append(all, text), nil
		}
		if l.prose && !l.cell {
			text = append(text, tokens(l)...)
		}
	}
	return append(all, text)
}

// syllablesOf counts the groups of vowels of a word, without an e at its end that is not heard.
func syllablesOf(word string) int {
	n, before := 0, false
	for _, r := range word {
		vowel := strings.ContainsRune("aeiouy", r)
		if vowel && !before {
			n++
		}
		before = vowel
	}
	if n > 1 && strings.HasSuffix(word, "e") && !strings.HasSuffix(word, "le") {
		n--
	}
	return max(1, n)
}
