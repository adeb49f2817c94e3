package convert

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/testbed/golden"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// The values of kproximate's chart in the shapes that people write, and what comes of each. What a
// join command or another secret holds is nowhere in it.
func TestKproximatesValues(t *testing.T) {
	shapes(t, "kproximate", func(name string, data []byte) string {
		out := convertedValues(data)
		if strings.Contains(out, "s3cret") {
			t.Errorf("%s: a secret is printed", name)
		}
		return out
	})
}

// shapes compares what comes of each source in a table with what is behind it there.
func shapes(t *testing.T, table string, converted func(name string, data []byte) string) {
	t.Helper()
	path := filepath.Join("testdata", table+".txtar")
	read := must.Get(txtar.ParseFile(path))(t)
	got := txtar.Archive{Comment: read.Comment}
	for _, f := range read.Files {
		if name, is := strings.CutSuffix(f.Name, ".yaml"); is {
			got.Files = append(got.Files, f, txtar.File{Name: name + ".out", Data: []byte(converted(name, f.Data))})
		}
	}
	if len(got.Files) < 2*20 {
		t.Errorf("%d shapes", len(got.Files)/2)
	}
	golden.Compare(t, path, string(txtar.Format(&got)))
}

// convertedValues is what comes of a file, as text.
func convertedValues(data []byte) string {
	results, others, err := Manifests(data, Options{})
	var out strings.Builder
	for _, o := range others {
		out.WriteString("skipped: " + o + "\n")
	}
	if err != nil {
		return out.String() + err.Error() + "\n"
	}
	for i := range results {
		r := &results[i]
		for _, n := range r.Notes {
			out.WriteString("note: " + n + "\n")
		}
		for _, l := range r.Lost {
			out.WriteString("lost: " + l.String() + "\n")
		}
		text, err := yaml.Marshal(map[string]any{r.Pool.Name: r.Pool.Spec})
		if err != nil {
			return err.Error()
		}
		out.Write(text)
	}
	return out.String()
}
