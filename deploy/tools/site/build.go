package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed page.html
var pageHTML string

//go:embed style.css
var style []byte

//go:embed search.js
var search []byte

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// besides are the pages that do not lie in docs.
var besides = []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}

// build returns the files of the site, by their names.
func build(fsys fs.FS) (map[string][]byte, error) {
	names, err := sources(fsys)
	if err != nil {
		return nil, err
	}
	menu, err := readMenu(fsys)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"style.css": style, "search.js": search}
	var sections []section
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		p, err := render(name, text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, asset := range p.assets {
			if files[asset], err = fs.ReadFile(fsys, asset); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		if files[p.name], err = p.html(menu); err != nil {
			return nil, err
		}
		sections = append(sections, p.sections...)
	}
	index, err := json.Marshal(sections)
	if err != nil {
		return nil, err
	}
	files["search-index.js"] = slices.Concat([]byte("const sections = "), index, []byte(";\n"))
	return files, errors.Join(broken(files)...)
}

// sources are the pages of Markdown that the site is made of.
func sources(fsys fs.FS) ([]string, error) {
	names := slices.Clone(besides)
	err := fs.WalkDir(fsys, "docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

// menu are the entries of the list of all pages.
type menuEntry struct {
	Heading string // of a group; or
	Title   string
	Page    string // its name in the site
}

// readMenu reads the list of all pages off docs/README.md: its headings, and the links in its
// lists.
func readMenu(fsys fs.FS) ([]menuEntry, error) {
	text, err := fs.ReadFile(fsys, "docs/README.md")
	if err != nil {
		return nil, err
	}
	menu := []menuEntry{{Title: "Overview", Page: "index.html"}, {Title: "Get started", Page: "docs/get-started.html"}}
	for line := range strings.Lines(string(text)) {
		if heading, is := strings.CutPrefix(line, "## "); is {
			menu = append(menu, menuEntry{Heading: strings.TrimSpace(heading)})
		}
		if !strings.HasPrefix(line, "- ") {
			continue
		}
		for _, m := range linkInText.FindAllStringSubmatch(line, -1) {
			file, _, _ := strings.Cut(m[2], "#")
			if name := path.Join("docs", file); path.Ext(name) == ".md" {
				menu = append(menu, menuEntry{Title: strings.ReplaceAll(m[1], "`", ""), Page: target(name)})
			}
		}
	}
	return menu, nil
}

// html is the whole page.
func (p *page) html(menu []menuEntry) ([]byte, error) {
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, map[string]any{
		"Title": p.title, "Up": strings.Repeat("../", strings.Count(p.name, "/")), "Menu": menu, "Here": p.name,
		"Body": template.HTML(p.body), //nolint:gosec // rendered from our own pages, raw HTML is not taken
	})
	return out.Bytes(), err
}

// target is a page's name in the site.
func target(source string) string {
	name := strings.TrimSuffix(source, ".md")
	if path.Base(name) == "README" {
		name = path.Join(path.Dir(name), "index")
	}
	return name + ".html"
}
