package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The packages that lack what is generated do not compile, or know too little. This one compiles
// all the same, and says what to run.
func TestGeneratedFilesAreWhatTheSourcesSay(t *testing.T) {
	const root = "../../../.."
	if stale := staleFiles(t, root); len(stale) > 0 {
		t.Error(advice(stale))
	}
}

func TestAPolicyThatIsNotGeneratedYetIsReported(t *testing.T) {
	root := t.TempDir()
	for _, folder := range []string{policyFolder, forecastFolder, apiFolder} {
		files, err := filepath.Glob(filepath.Join("../../../..", folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			put(t, filepath.Join(root, folder, filepath.Base(file)), file)
		}
	}
	put(t, filepath.Join(root, tableFile), filepath.Join("../../../..", tableFile))
	put(t, filepath.Join(root, policyFolder, "queue.go"), "testdata/newcomer/queue.go.txt")
	said := advice(staleFiles(t, root))
	for _, want := range []string{specFile, apiFile, tableFile, "make gen", "go generate ./api/v1alpha1"} {
		must(t, said, want)
	}
	if strings.Contains(said, forecastFile) {
		t.Errorf("a pod policy changes no forecaster: %s", said)
	}
	if err := generate(root); err != nil {
		t.Fatal(err)
	}
	if stale := staleFiles(t, root); len(stale) > 0 {
		t.Errorf("generated, and still: %s", advice(stale))
	}
}

// staleFiles are the generated files of a module that are not what its sources make of them.
func staleFiles(t *testing.T, root string) (stale []string) {
	t.Helper()
	files, err := generated(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if is, err := os.ReadFile(filepath.Join(root, name)); err != nil || !bytes.Equal(is, files[name]) {
			stale = append(stale, name)
		}
	}
	return stale
}

func advice(stale []string) string {
	return fmt.Sprintf("%s: not what the policies say: run make gen, or go generate ./api/v1alpha1 for these alone", strings.Join(stale, ", "))
}
