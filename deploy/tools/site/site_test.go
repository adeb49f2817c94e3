package main

import (
	"encoding/json"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func checkout(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := build(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// All links lead somewhere, and every page can be reached from the first one.
func TestTheSiteIsWhole(t *testing.T) {
	files := checkout(t)
	reached := map[string]bool{}
	for next := []string{"index.html"}; len(next) > 0; next = next[1:] {
		if reached[next[0]] {
			continue
		}
		reached[next[0]] = true
		for _, to := range references(next[0], files[next[0]]) {
			file, _, _ := strings.Cut(to, "#")
			next = append(next, file)
		}
	}
	pages := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) == ".html" {
			pages++
		}
		if !reached[name] {
			t.Errorf("%s cannot be reached from index.html: link to it, from docs/README.md for example", name)
		}
	}
	if pages < 40 {
		t.Errorf("the site has %d pages only", pages)
	}
}

// Pages load nothing that is not in the site.
func TestPagesLoadNothingFromElsewhere(t *testing.T) {
	loads := regexp.MustCompile(`(?:src="|<link[^>]*href="|url\(|@import|fetch\()["']?(?:[a-z]+:)?//`)
	for name, data := range checkout(t) {
		if ext := path.Ext(name); ext != ".html" && ext != ".css" && ext != ".js" || name == "search-index.js" {
			continue
		}
		if found := loads.Find(data); found != nil {
			t.Errorf("%s loads %q", name, found)
		}
	}
}

func TestTheSearchFindsSections(t *testing.T) {
	text := string(checkout(t)["search-index.js"])
	text = strings.TrimSuffix(strings.TrimPrefix(text, "const sections = "), ";\n")
	var sections []section
	if err := json.Unmarshal([]byte(text), &sections); err != nil {
		t.Fatal(err)
	}
	for _, s := range sections {
		if s.Page == "docs/tasks/troubleshoot.html#why-is-my-pod-pending" && strings.Contains(s.Text, "kubectl describe pod") && s.Title == "Troubleshoot" {
			return
		}
	}
	t.Error("why a pod is pending is not found")
}

func TestLinksAreRewritten(t *testing.T) {
	small := fstest.MapFS{
		"README.md":           {Data: []byte("# Top\n\n[docs](docs/README.md) [two](docs/a.md#two-words) [out](https://e.example/a.md) [file](LICENSE)\n")},
		"CONTRIBUTING.md":     {Data: []byte("# C\n")},
		"CHANGELOG.md":        {Data: []byte("# C\n")},
		"LICENSE":             {Data: []byte("licence")},
		"docs/README.md":      {Data: []byte("# Docs\n\n## Group\n\n- [A `page`](a.md)\n")},
		"docs/a.md":           {Data: []byte("# A & B\n\n## Two words\n\n<script>alert(1)</script>\n\n![pic](a/pic.png)\n")},
		"docs/a/pic.png":      {Data: []byte("png")},
		"docs/get-started.md": {Data: []byte("# Start\n\n[up](../README.md)\n")},
	}
	files, err := build(small)
	if err != nil {
		t.Fatal(err)
	}
	for name, wants := range map[string][]string{
		"index.html":      {`href="docs/index.html"`, `href="docs/a.html#two-words"`, `href="https://e.example/a.md"`, `href="LICENSE"`},
		"docs/a.html":     {`<title>A &amp; B · Plimsoll</title>`, `src="a/pic.png"`, `href="../docs/a.html" aria-current="page">A page<`, `<li class="group">Group</li>`},
		"docs/a/pic.png":  {"png"},
		"search-index.js": {`"docs/a.html#two-words"`},
	} {
		for _, want := range wants {
			if !strings.Contains(string(files[name]), want) {
				t.Errorf("%s lacks %s:\n%s", name, want, files[name])
			}
		}
	}
	if strings.Contains(string(files["docs/a.html"]), "alert(1)</script>") {
		t.Error("HTML of a page is taken as it is")
	}

	small["docs/a.md"] = &fstest.MapFile{Data: []byte("# A\n\n[gone](gone.md) [none](README.md#none)\n")}
	_, err = build(small)
	want := []string{
		"docs/a.html: links to docs/gone.html, which is not in the site",
		"docs/a.html: links to docs/index.html#none, which has no such heading",
		"index.html: links to docs/a.html#two-words, which has no such heading",
	}
	if err == nil || cmp.Diff(want, strings.Split(err.Error(), "\n")) != "" {
		t.Errorf("broken links: %v", err)
	}
}
