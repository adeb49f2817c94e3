package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// docs/security.md names the tests that hold its lines, and a line that nothing holds says so.
func TestSecurityPageNamesTestsThatExist(t *testing.T) {
	root := filepath.Join("..", "..")
	page := must.Get(os.ReadFile(filepath.Join(root, "docs", "security.md")))(t)
	there := testsBelow(t, root)
	named, words := 0, regexp.MustCompile("^(`(Test|Fuzz)[A-Za-z0-9_]+`|`[a-z_]+\\.txt`)(, |$)")
	for number, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "| ") || cells[len(cells)-1] == "held by" {
			continue
		}
		held := cells[len(cells)-1]
		for rest := held; rest != "-"; {
			m := words.FindStringSubmatch(rest)
			if m == nil {
				t.Errorf("line %d: what holds it must be - or names of tests and scripts with commas between, was %q", number+1, held)
				break
			}
			if name := strings.Trim(m[1], "`"); !there[name] {
				t.Errorf("line %d: there is no %s", number+1, name)
			}
			named++
			if rest = strings.TrimPrefix(rest, m[0]); rest == "" {
				break
			}
		}
	}
	if named == 0 {
		t.Error("the page names no test: what is looked for is not what is written")
	}
}

// The program sends nothing to its makers: each server that its code names is one that the page
// says is called, and by which verb.
func TestServersThatTheCodeNamesAreOnThePage(t *testing.T) {
	root := filepath.Join("..", "..")
	page := string(must.Get(os.ReadFile(filepath.Join(root, "docs", "security.md")))(t))
	server := regexp.MustCompile("[\"`/ ]https?://([a-z0-9.-]+\\.(?:com|dev|io|net|org))[\"'`/ )]")
	found := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		rel := filepath.ToSlash(strings.TrimPrefix(name, root+string(filepath.Separator)))
		switch {
		case err != nil:
			return err
		case d.IsDir() && (rel == "testbed" || rel == "out" || rel == ".git" || rel == "deploy/tools" || rel == "proxmox/pvesim"):
			return filepath.SkipDir // not the program
		case filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		for line := range strings.Lines(string(must.Get(os.ReadFile(name))(t))) {
			if strings.HasPrefix(strings.TrimSpace(line), "//") {
				continue
			}
			for _, m := range server.FindAllStringSubmatch(line, -1) {
				found++
				if !strings.Contains(page, "`"+m[1]+"`") {
					t.Errorf("%s names the server %s, and docs/security.md does not", rel, m[1])
				}
			}
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("%d servers are named, %v", found, err)
	}
}

// testsBelow are the names of all tests and fuzz targets, in all modules, and of the program's
// scripts.
func testsBelow(t *testing.T, root string) map[string]bool {
	t.Helper()
	there := map[string]bool{}
	begins := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	must.Do(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "out" || d.Name() == ".git"):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".txt") && filepath.Base(filepath.Dir(name)) == "script":
			there[d.Name()] = true
		case strings.HasSuffix(name, "_test.go"):
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			for _, m := range begins.FindAllSubmatch(text, -1) {
				there[string(m[1])] = true
			}
		}
		return nil
	}))
	return there
}
