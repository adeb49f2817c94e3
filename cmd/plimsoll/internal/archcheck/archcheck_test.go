package archcheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// Each fixture is a small tree under testdata, with what must be found in it in want.txt: one
// line each, place, rule and finding.
func TestFixturesBreakTheRulesTheySay(t *testing.T) {
	for _, dir := range fixtures(t) {
		t.Run(dir, func(t *testing.T) {
			want := must.Get(os.ReadFile(filepath.Join("testdata", dir, "want.txt")))(t)
			var got strings.Builder
			for _, v := range check(t, dir) {
				got.WriteString(v.Where() + " " + string(v.Rule) + " " + v.Found + "\n")
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryRuleHasAFixtureOfItsOwn(t *testing.T) {
	for _, r := range allRules(t) {
		own := false
		for _, v := range check(t, string(r)) {
			own = own || v.Rule == r
		}
		if !own {
			t.Errorf("testdata/%s breaks no rule %q", r, r)
		}
	}
}

func TestEveryViolationSaysWhy(t *testing.T) {
	for _, dir := range fixtures(t) {
		for _, v := range check(t, dir) {
			if v.Reason == "" || !strings.HasSuffix(v.String(), v.Reason) {
				t.Errorf("%s: no reason in %q", dir, v)
			}
		}
	}
}

// Every row of the tables must have an effect: a ban or a module without a fixture may have a
// typing mistake that no test sees.
func TestEveryReasonIsSeenInAFixture(t *testing.T) {
	seen := map[string]bool{}
	for _, dir := range fixtures(t) {
		for _, v := range check(t, dir) {
			seen[v.Reason] = true
		}
	}
	whys := []string{pureModulesWhy, testModulesWhy, goroutines.why}
	for _, b := range bans {
		whys = append(whys, b.why)
	}
	for _, m := range moduleHomes {
		whys = append(whys, m.why)
	}
	for _, why := range whys {
		if !seen[why] {
			t.Errorf("no fixture is refused because %s", why)
		}
	}
}

func TestTablesNameOnlyRoomsOfTheHouse(t *testing.T) {
	known := map[string]bool{everything: true, everythingButCmd: true}
	for _, r := range rooms {
		known[r.folder], known[string(r.floor)] = true, true
		if r.why == "" {
			t.Errorf("room %s: no reason", r.folder)
		}
	}
	var words []string
	for _, r := range rooms {
		words = append(append(words, r.imports...), r.tests...)
	}
	for _, b := range bans {
		words = append(words, b.in...)
	}
	for _, w := range words {
		if !known[w] {
			t.Errorf("%q is neither a room nor a floor", w)
		}
	}
}

func TestUnreadableSourceIsAnError(t *testing.T) {
	_, err := Load(fstest.MapFS{"pricing/broken.go": {Data: []byte("package")}})
	if err == nil || !strings.Contains(err.Error(), "pricing/broken.go") {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

func fixtures(t *testing.T) []string {
	t.Helper()
	entries := must.Get(os.ReadDir("testdata"))(t)
	var dirs []string
	for _, e := range entries {
		dirs = append(dirs, e.Name())
	}
	return dirs
}

func check(t *testing.T, fixture string) []Violation {
	t.Helper()
	return load(t, filepath.Join("testdata", fixture)).Check()
}

func load(t *testing.T, root string) *Tree {
	t.Helper()
	return must.Get(Load(os.DirFS(root)))(t)
}

// allRules reads the rules off their declaration, so that no list can omit one.
func allRules(t *testing.T) []Rule {
	t.Helper()
	var rules []Rule
	f := must.Get(parser.ParseFile(token.NewFileSet(), "rules.go", nil, 0))(t)
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Rule" {
			name := must.Get(strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value))(t)
			rules = append(rules, Rule(name))
		}
		return true
	})
	if len(rules) == 0 {
		t.Fatal("rules.go declares no rules")
	}
	return rules
}
