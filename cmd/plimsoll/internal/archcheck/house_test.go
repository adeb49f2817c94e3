package archcheck

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestTheHouseKeepsItsRules(t *testing.T) {
	tree := load(t, root(t))
	for _, v := range tree.Check() {
		t.Error(v)
	}
	// A check that looked at nothing finds nothing.
	for _, folder := range []string{"pricing", "podscaler", "nodescaler", "nodescaler/loop", "cmd/plimsoll"} {
		if !tree.holds(roomOf(folder)) {
			t.Errorf("the check saw no package in %s", folder)
		}
	}
}

// The table that people read and the table that is checked are the same.
func TestArchitectureDocHasTheTable(t *testing.T) {
	tree := load(t, root(t))
	doc := must.Get(os.ReadFile(filepath.Join(root(t), "docs", "architecture.md")))(t)
	want := map[string][]string{}
	for i := range rooms {
		r := &rooms[i]
		state := "planned"
		if tree.holds(r) {
			state = "built"
		}
		want[r.folder] = []string{state, importsCell(r)}
	}
	if diff := cmp.Diff(want, docTable(string(doc))); diff != "" {
		t.Errorf("docs/architecture.md has another table (-rules.go and the tree, +document):\n%s", diff)
	}
}

// docTable reads the rows `folder` | state | what lives there | may import.
func docTable(doc string) map[string][]string {
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\w+) \\|.*\\| ([^|]+) \\|$")
	rows := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(doc, -1) {
		rows[m[1]] = []string{m[2], m[3]}
	}
	return rows
}

// importsCell is what the document must say of a room's imports.
func importsCell(r *room) string {
	if len(r.imports) == 0 {
		return "–"
	}
	var words []string
	for _, w := range r.imports {
		if roomOf(w) != nil {
			w = "`" + w + "`"
		}
		words = append(words, w)
	}
	return strings.Join(words, ", ")
}

// elsewhere finds absolute paths of one particular machine.
var elsewhere = regexp.MustCompile(`(^|[^\w./-])/(home|root|work)/\w`)

func TestPathsOfOneMachineAreFound(t *testing.T) {
	for line, want := range map[string]bool{
		"see " + "/home" + "/me/plimsoll":  true,
		`cd "` + "/root" + `/go"`:          true,
		"/work" + "/tree/go.mod":           true,
		"https://example.com/home/page":    false,
		"deploy/work/x and ../work/y":      false,
		"the workload's /home page":        false,
		"every /scale and /root-less path": false,
	} {
		if got := elsewhere.MatchString(line); got != want {
			t.Errorf("%q: found %v, want %v", line, got, want)
		}
	}
}

// The project speaks of itself alone. Recorded data under testdata may say what it says.
func TestTrackedTextNamesNoMachineOfOurs(t *testing.T) {
	texts := 0
	for _, name := range tracked(t) {
		if strings.Contains("/"+name, "/testdata/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root(t), name))
		if os.IsNotExist(err) {
			continue // deleted and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(text, 0) >= 0 {
			continue
		}
		texts++
		for i, line := range strings.Split(string(text), "\n") {
			if elsewhere.MatchString(line) {
				t.Errorf("%s:%d: a path of one machine: %s", name, i+1, line)
			}
		}
	}
	if texts == 0 {
		t.Error("no text was looked at")
	}
}

// tracked lists the files that git keeps. Without a checkout there is no such list, and nothing
// to check; in CI there must be one.
func tracked(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("not a git checkout: %v", err)
	}
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
}

// root is the nearest folder above the test that holds our go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.Getwd())(t)
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module "+module+"\n") {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("no go.mod of %s above the test", module)
		}
		dir = filepath.Dir(dir)
	}
}

// A law that meets other cases in every run fails for no change of anyone's.
func TestLawsMeetFixedCases(t *testing.T) {
	tree, laws := load(t, root(t)), 0
	for i := range tree.packages {
		imports := map[string]bool{}
		for _, f := range tree.packages[i].files {
			for _, spec := range f.syntax.Imports {
				imports[importPath(spec)] = imports[importPath(spec)] || f.test
			}
		}
		if !imports["pgregory.net/rapid"] {
			continue
		}
		if laws++; !imports[module+"/testbed/seeded"] {
			t.Errorf("%s: its laws have no fixed seed: import %s/testbed/seeded", tree.packages[i].folder, module)
		}
	}
	if laws == 0 {
		t.Error("no package has laws")
	}
}
