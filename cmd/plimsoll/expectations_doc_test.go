package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// declared are the names of all tests of the tree, those of nested modules and of other builds too.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	test := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.IsDir() && (d.Name() == "out" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".git")) {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		for _, found := range test.FindAllStringSubmatch(string(text), -1) {
			names[found[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Every expectation and feature has a test that is there, or says what is missing, and why.
func TestExpectationsAreHeldByTestsThatAreThere(t *testing.T) {
	text := string(must.Get(os.ReadFile("../../docs/expectations.md"))(t))
	tests, rows := declared(t), []int{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "## ") {
			rows = append(rows, 0)
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		number, err := strconv.Atoi(strings.TrimSpace(cells[0]))
		if err != nil {
			continue
		}
		last := &rows[len(rows)-1]
		if *last++; number != *last || len(cells) != 4 {
			t.Fatalf("row %d: want number %d and four cells: %s", number, *last, line)
		}
		held := strings.TrimSpace(cells[3])
		name := strings.Trim(held, "`")
		script, isScript := strings.CutPrefix(name, "script:")
		switch {
		case strings.HasPrefix(held, "missing: "):
		case isScript:
			if _, err := os.Stat(filepath.Join("testdata", "script", script+".txt")); err != nil {
				t.Errorf("row %d: %v", number, err)
			}
		case !tests[name]:
			t.Errorf("row %d: there is no test %q", number, name)
		}
	}
	if want := []int{44, 72, 63}; !slices.Equal(rows, want) {
		t.Errorf("the tables have %v rows, want %v", rows, want)
	}
}
