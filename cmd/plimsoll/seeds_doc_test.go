package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var (
	codeSpan   = regexp.MustCompile("`([^`]+)`")
	pathInTree = regexp.MustCompile(`^[a-z0-9]+(/[a-zA-Z0-9_.-]+)*(/|\.(go|yaml|js))$`)
	testName   = regexp.MustCompile(`^Test[A-Z][A-Za-z0-9]+$`)
	experiment = regexp.MustCompile(`^plimsoll testbed (?:run|profile) ([a-z0-9-]+)`)
)

// The page on the papers names files, tests and experiments that are there.
func TestThePapersPageNamesWhatIsThere(t *testing.T) {
	page := string(must.Get(os.ReadFile("../../docs/seeds.md"))(t))
	tests := testsBelow(t, "../..")
	files, held, played := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, m := range codeSpan.FindAllStringSubmatch(page, -1) {
		span := m[1]
		if pathInTree.MatchString(span) {
			files[span] = true
			if _, err := os.Stat(filepath.Join("../..", span)); err != nil {
				t.Errorf("the page names a file that is not there: %v", err)
			}
		}
		if testName.MatchString(span) {
			held[span] = true
			if !tests[span] {
				t.Errorf("the page names a test that is not there: %s", span)
			}
		}
		if e := experiment.FindStringSubmatch(span); e != nil {
			played[e[1]] = true
			if fault := shown(t, e[1]); fault != "" {
				t.Errorf("the page names an experiment that is not there: %s", fault)
			}
		}
	}
	if len(files) < 35 || len(held) < 25 || len(played) < 10 {
		t.Errorf("only %d files, %d tests and %d experiments were found", len(files), len(held), len(played))
	}
}

// shown is why an experiment cannot be shown, or nothing.
func shown(t *testing.T, name string) string {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), &cli.Env{
		Args: []string{"testbed", "show", name}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Getenv:   func(string) string { return "" },
		ReadFile: func(name string) ([]byte, error) { return nil, fmt.Errorf("open %s: %w", name, os.ErrNotExist) },
	})
	if code != cli.ExitDone {
		return errs.String()
	}
	return ""
}

// citedAuthor is a person or an entity, as the Citation File Format has them.
type citedAuthor struct {
	Name   string `json:"name,omitempty"`
	Family string `json:"family-names,omitempty"`
	Given  string `json:"given-names,omitempty"`
}

// cited is what the Citation File Format 1.2.0 requires of a work, and what ours has beside it.
type cited struct {
	Type    string        `json:"type"`
	Title   string        `json:"title"`
	Authors []citedAuthor `json:"authors"`
	Journal string        `json:"journal,omitempty"`
	DOI     string        `json:"doi,omitempty"`
	Year    int           `json:"year,omitempty"`
}

func (c *cited) fault() string {
	switch {
	case !slices.Contains([]string{"software", "article", "conference-paper", "report"}, c.Type):
		return fmt.Sprintf("type: %q is not of the format's types", c.Type)
	case c.Title == "" || len(c.Authors) == 0:
		return "title and authors are required"
	}
	for _, a := range c.Authors {
		if (a.Name == "") == (a.Family == "" || a.Given == "") {
			return fmt.Sprintf("authors: %+v is neither a person nor an entity", a)
		}
	}
	return ""
}

func TestTheCitationFileIsValid(t *testing.T) {
	var file struct {
		Version string `json:"cff-version"`
		Message string `json:"message"`
		cited
		Abstract   string   `json:"abstract"`
		License    string   `json:"license"`
		Repository string   `json:"repository-code"`
		Keywords   []string `json:"keywords"`
		References []cited  `json:"references"`
	}
	must.Do(t, yaml.UnmarshalStrict(must.Get(os.ReadFile("../../CITATION.cff"))(t), &file))
	if file.Version != "1.2.0" || file.Message == "" || file.Type != "software" || file.License != "Apache-2.0" {
		t.Errorf("cff-version, message, type or license is missing or wrong: %+v", file)
	}
	page := strings.Join(strings.Fields(string(must.Get(os.ReadFile("../../docs/seeds.md"))(t))), " ")
	for _, c := range append(file.References, file.cited) {
		if fault := c.fault(); fault != "" {
			t.Errorf("%s: %s", c.Title, fault)
		}
	}
	for _, c := range file.References {
		if !strings.Contains(page, c.Title) {
			t.Errorf("docs/seeds.md has no section of %q", c.Title)
		}
	}
	if len(file.References) != 5 {
		t.Errorf("%d papers are cited, want 5", len(file.References))
	}
}
