package wordcheck

import (
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

var (
	target  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	outside = regexp.MustCompile(`^[a-z]+:`)
	heading = regexp.MustCompile(`^#+ +(.*?) *#*$`)
)

// links reports the relative links of a page that lead to no file or heading.
func (c *checker) links(text string) {
	for number, text := range unfenced(text) {
		for _, m := range target.FindAllStringSubmatch(codeSpan.ReplaceAllString(text, "X"), -1) {
			if fault := c.leads(m[1]); fault != "" {
				c.report(number, Link, strconv.Quote(m[1]), fault)
			}
		}
	}
}

// leads is what is wrong with a link, or nothing.
func (c *checker) leads(to string) string {
	if outside.MatchString(to) {
		return ""
	}
	file, anchor, _ := strings.Cut(to, "#")
	name := c.path
	if file != "" {
		name = path.Join(path.Dir(c.path), file)
	}
	if _, err := fs.Stat(c.fsys, name); err != nil {
		return "there is no file " + name
	}
	if anchor == "" || path.Ext(name) != ".md" {
		return ""
	}
	page, err := fs.ReadFile(c.fsys, name)
	if err != nil {
		return err.Error()
	}
	if !anchors(string(page))[anchor] {
		return "there is no such heading in " + name
	}
	return ""
}

// anchors are those of a page's headings.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, text := range unfenced(text) {
		m := heading.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		name := anchor(m[1])
		for n := 1; all[name]; n++ {
			name = anchor(m[1]) + "-" + strconv.Itoa(n)
		}
		all[name] = true
	}
	return all
}

// anchor is how a heading is addressed: its words in lower case, with hyphens between them.
func anchor(heading string) string {
	var name strings.Builder
	for _, r := range strings.ToLower(link.ReplaceAllString(heading, "]")) {
		switch {
		case r == ' ':
			name.WriteByte('-')
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			name.WriteRune(r)
		}
	}
	return name.String()
}

// unfenced yields the lines of a page that are not in a fence, with their numbers.
func unfenced(text string) func(func(int, string) bool) {
	return func(yield func(int, string) bool) {
		fenced := false
		for i, text := range strings.Split(text, "\n") {
			if strings.HasPrefix(strings.TrimSpace(text), "```") {
				fenced = !fenced
			} else if !fenced && !yield(i+1, text) {
				return
			}
		}
	}
}
