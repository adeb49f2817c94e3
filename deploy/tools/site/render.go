package main

import (
	"bytes"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// page is a page of the site.
type page struct {
	name     string // in the site
	title    string
	body     string
	sections []section
	assets   []string // other files that it links to
}

// section is what the search knows of a part of a page.
type section struct {
	Page    string `json:"page"` // with the anchor
	Title   string `json:"title"`
	Heading string `json:"heading"`
	Text    string `json:"text"`
}

var (
	markdown   = goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	linkInText = regexp.MustCompile(`\[([^\]]*)\]\(([^)]*)\)`)
	elsewhere  = regexp.MustCompile(`^([a-z]+:|#)`)
)

// render makes a page of Markdown.
func render(source string, data []byte) (*page, error) {
	p := &page{name: target(source)}
	root := markdown.Parser().Parse(text.NewReader(data), parser.WithContext(parser.NewContext(parser.WithIDs(&anchors{used: map[string]bool{}}))))
	p.split(root, data)
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			switch n := n.(type) {
			case *ast.Link:
				n.Destination = p.leads(source, n.Destination)
			case *ast.Image:
				n.Destination = p.leads(source, n.Destination)
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = markdown.Renderer().Render(&out, data, root)
	p.body = out.String()
	return p, err
}

// leads is where a link leads in the site. Files that are no pages are noted, to be copied.
func (p *page) leads(source string, to []byte) []byte {
	if elsewhere.Match(to) {
		return to
	}
	file, anchor, found := strings.Cut(string(to), "#")
	name := path.Join(path.Dir(source), file)
	if path.Ext(name) != ".md" {
		p.assets = append(p.assets, name)
		return to
	}
	file = path.Join(path.Dir(file), path.Base(target(name)))
	if found {
		file += "#" + anchor
	}
	return []byte(file)
}

// split notes the page's title and its sections.
func (p *page) split(root ast.Node, data []byte) {
	var s *section
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		plain := strings.Join(strings.Fields(plainText(n, data)), " ")
		if h, is := n.(*ast.Heading); is {
			if p.title == "" {
				p.title = plain
			}
			id, _ := h.AttributeString("id")
			anchor, _ := id.([]byte)
			p.sections = append(p.sections, section{Page: p.name + "#" + string(anchor), Title: p.title, Heading: plain})
			s = &p.sections[len(p.sections)-1]
		} else if s != nil {
			s.Text = strings.TrimSpace(s.Text + " " + plain)
		}
	}
}

// plainText is the text of a node without its markup.
func plainText(n ast.Node, data []byte) string {
	var out strings.Builder
	// The walk returns the error of the function, which has none.
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			out.Write(n.Segment.Value(data))
			if n.SoftLineBreak() || n.HardLineBreak() {
				out.WriteByte(' ')
			}
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				out.Write(line.Value(data))
			}
		}
		if n.Type() == ast.TypeBlock {
			out.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// anchors names headings as GitHub does, so that one link works in both.
type anchors struct{ used map[string]bool }

// Generate is the anchor of a heading.
func (a *anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	var name strings.Builder
	for _, r := range strings.ToLower(linkInText.ReplaceAllString(string(heading), "$1")) {
		switch {
		case r == ' ':
			name.WriteByte('-')
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			name.WriteRune(r)
		}
	}
	id := name.String()
	for i := 1; a.used[id]; i++ {
		id = name.String() + "-" + strconv.Itoa(i)
	}
	a.used[id] = true
	return []byte(id)
}

// Put notes an anchor that a page gives itself.
func (a *anchors) Put(id []byte) { a.used[string(id)] = true }
