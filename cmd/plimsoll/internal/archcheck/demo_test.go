package archcheck

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	demoMain = module + "/cmd/plimsoll/demo"
	// demoPackages bounds what a newcomer compiles before the first picture. A third of them are
	// what the standard library's web server imports.
	demoPackages = 260
)

// heavy modules take minutes to compile, and the demo needs none of them.
var heavy = []string{"k8s.io", "sigs.k8s.io", "google.golang.org", "github.com/prometheus", "github.com/luthermonson"}

func TestDemoCompilesInSeconds(t *testing.T) {
	imports := importsBelow(t, demoMain)
	if len(imports) > demoPackages {
		t.Errorf("%s compiles %d packages, and may compile %d: put the code that imports more into a package of its own",
			demoMain, len(imports), demoPackages)
	}
	for _, way := range waysTo(imports, demoMain, heavy) {
		t.Errorf("%s compiles a heavy package: %s", demoMain, strings.Join(way, " → "))
	}
}

func TestWaysEndAtTheFirstHeavyPackage(t *testing.T) {
	imports := map[string][]string{"main": {"a", "b"}, "a": {"b"}, "b": {"k8s.io/x"}, "k8s.io/x": {"k8s.io/y"}}
	ways := waysTo(imports, "main", heavy)
	if len(ways) != 1 || strings.Join(ways[0], " ") != "main b k8s.io/x" {
		t.Errorf("got %v, want main b k8s.io/x", ways)
	}
}

// importsBelow lists the packages that a package is compiled from, each with its imports.
func importsBelow(t *testing.T, target string) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, target)
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	imports := map[string][]string{}
	for row := range strings.Lines(string(out)) {
		words := strings.Fields(row)
		imports[words[0]] = words[1:]
	}
	return imports
}

// waysTo finds the shortest chain of imports to each package of the modules that another package
// brings in.
func waysTo(imports map[string][]string, from string, modules []string) [][]string {
	var found [][]string
	seen := map[string]bool{from: true}
	for queue := [][]string{{from}}; len(queue) > 0; queue = queue[1:] {
		way := queue[0]
		last := way[len(way)-1]
		if underAny(last, modules) {
			found = append(found, way)
			continue
		}
		for _, next := range imports[last] {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, append(slices.Clone(way), next))
			}
		}
	}
	return found
}
