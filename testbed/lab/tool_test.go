package lab

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// checkout makes a source tree in which the control plane is a program that prints a word.
func checkout(t *testing.T, word string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module github.com/plimsoll/plimsoll\n",
		"testbed/lab/controlplane/go.mod": "module controlplane\n\ngo 1.26\n\nrequire k8s.io/kubernetes v1.99.0\n\n" +
			"replace k8s.io/kubernetes => ./kubernetes\n",
		"testbed/lab/controlplane/kubernetes/go.mod": "module k8s.io/kubernetes\n",
		"testbed/lab/controlplane/main.go":           "package main\n\nfunc main() { " + word + " }\n",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// files are the names in a folder.
func files(t *testing.T, folder string) []string {
	t.Helper()
	entries := must.Get(os.ReadDir(folder))(t)
	var names []string
	for _, e := range entries {
		if e.Name() != buildLock {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestToolIsBuiltOnceHoweverManyAsk(t *testing.T) {
	cache, root := t.TempDir(), checkout(t, `println("aye")`)
	var (
		mu     sync.Mutex
		builds int
		paths  = map[string]bool{}
		group  sync.WaitGroup
	)
	box := Toolbox{Cache: cache, Checkout: root, Progress: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(line, "built controlplane v1.99.0 in ") {
			builds++
		}
	}}
	for range 4 {
		group.Go(func() {
			path, err := box.Path(t.Context(), ToolControlPlane)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			paths[path] = true
		})
	}
	group.Wait()
	if builds != 1 || len(paths) != 1 {
		t.Fatalf("%d builds of %v, want one", builds, paths)
	}
	path := slices.Collect(maps.Keys(paths))[0]
	if out, err := exec.Command(path).CombinedOutput(); err != nil || string(out) != "aye\n" {
		t.Errorf("it says %q, %v", out, err)
	}
	if !strings.HasPrefix(filepath.Base(path), "controlplane-v1.99.0-") {
		t.Errorf("%s does not print its version", path)
	}
}

func TestToolIsBuiltAnewWhenItsSourceChanges(t *testing.T) {
	cache := t.TempDir()
	box := Toolbox{Cache: cache, Checkout: checkout(t, `println("one")`)}
	one := must.Get(box.Path(t.Context(), ToolControlPlane))(t)
	box.Checkout = checkout(t, `println("two")`)
	two := must.Get(box.Path(t.Context(), ToolControlPlane))(t)
	if one == two {
		t.Errorf("both are %s", one)
	}
	box.Checkout = checkout(t, `println("one")`)
	if again, err := box.Path(t.Context(), ToolControlPlane); err != nil || again != one {
		t.Errorf("the first source gives %s, %v, want %s: where it lies does not matter", again, err, one)
	}
	if got := files(t, filepath.Join(cache, "tools")); len(got) != 2 {
		t.Errorf("the cache holds %v, want both", got)
	}
}

func TestBuildThatFailsSaysWhyAndLeavesNothing(t *testing.T) {
	cache := t.TempDir()
	_, err := Toolbox{Cache: cache, Checkout: checkout(t, "undeclared()")}.Path(t.Context(), ToolControlPlane)
	if err == nil || !strings.Contains(err.Error(), "build controlplane v1.99.0") || !strings.Contains(err.Error(), "undefined: undeclared") {
		t.Errorf("got %v, want what the compiler says", err)
	}
	if got := files(t, filepath.Join(cache, "tools")); got != nil {
		t.Errorf("the cache holds %v", got)
	}
}

func TestWaitingForAnotherBuildCanBeGivenUp(t *testing.T) {
	cache := t.TempDir()
	box := Toolbox{Cache: cache, Checkout: checkout(t, "")}
	folder := must.Get(box.folder())(t)
	unlock := must.Get(box.wait(t.Context(), folder))(t)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	box.Progress = func(string) { cancel() } // it says that it waits
	if _, err := box.Path(ctx, ToolControlPlane); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it cancelled", err)
	}
}

var update = flag.Bool("update", false, "write sources.zip anew")

// What the program has of the tools' modules is what the checkout has: both build the same tool.
func TestToolsCanBeBuiltWithoutACheckout(t *testing.T) {
	if *update {
		pack(t)
		return
	}
	want := map[Tool]string{}
	for tool, r := range recipes {
		want[tool] = must.Get(r.version(t.Context(), "."))(t).key
	}
	t.Chdir(t.TempDir())
	box := Toolbox{Cache: t.TempDir()}
	folder := must.Get(box.sources())(t)
	for tool, r := range recipes {
		v, err := r.version(t.Context(), folder)
		if err != nil || v.key != want[tool] {
			t.Errorf("%s would be built with key %v (%v), and with %s in a checkout: run make gen", tool, v, err, want[tool])
		}
	}
	if again := must.Get(box.sources())(t); again != folder {
		t.Errorf("the sources are in %s, and then in %s", folder, again)
	}
}

// pack writes what the program has of the tools' modules.
func pack(t *testing.T) {
	t.Helper()
	var archive bytes.Buffer
	w, folders := zip.NewWriter(&archive), map[string]bool{}
	for _, r := range recipes {
		folders[r.folder] = true
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		err := eachSource(filepath.FromSlash(folder), func(name string, text []byte) error {
			// Without a time, the same files make the same archive.
			file, err := w.CreateHeader(&zip.FileHeader{Name: folder + "/" + name, Method: zip.Deflate})
			if err == nil {
				_, err = file.Write(text)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), os.WriteFile("sources.zip", archive.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutGoItSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := (Toolbox{Cache: t.TempDir()}).Path(t.Context(), ToolControlPlane)
	if !errors.Is(err, ErrNoGo) || !strings.Contains(err.Error(), ": install Go 1.26") {
		t.Errorf("%v, want ErrNoGo and the release of Go", err)
	}
}

func TestACheckoutThatIsNamedMustBeOne(t *testing.T) {
	t.Setenv(K6Variable, BuildK6)
	for _, dir := range []string{t.TempDir(), "testdata"} {
		if _, err := (Toolbox{Cache: t.TempDir(), Checkout: dir}).Path(t.Context(), ToolK6); !errors.Is(err, ErrNoCheckout) {
			t.Errorf("%s: %v, want ErrNoCheckout", dir, err)
		}
	}
	if _, err := (Toolbox{}).Path(t.Context(), "hammer"); err == nil || err.Error() != `tool: must be one of [controlplane kwok prometheus k6], was "hammer"` {
		t.Errorf("an unknown tool: %v", err)
	}
	here := must.Get(findCheckout(""))(t)
	if _, err := os.Stat(filepath.Join(here, "testbed", "lab", "tool_test.go")); err != nil {
		t.Errorf("%s is not the checkout of this test: %v", here, err)
	}
}

// Every tool's module must say its version where the recipe looks for it.
func TestEveryToolHasItsVersion(t *testing.T) {
	want := map[Tool]string{ToolControlPlane: "v1.37.1", ToolKWOK: "v0.8.0", ToolPrometheus: "v0.315.0", ToolK6: "v1.8.1", ToolKubelet: "v1.37.1", ToolKubeadm: "v1.37.1"}
	for tool := range recipes {
		v, err := recipes[tool].version(t.Context(), ".")
		if err != nil {
			t.Errorf("%s: %v", tool, err)
			continue
		}
		if v.name != want[tool] || len(v.key) != 12 {
			t.Errorf("%s has version %s and key %s, want version %s", tool, v.name, v.key, want[tool])
		}
	}
}

func TestWhatNobodyUsesIsRemoved(t *testing.T) {
	folder, now := t.TempDir(), time.Now()
	for name, age := range map[string]time.Duration{"old": keep + time.Hour, "new": keep - time.Hour, buildLock: 2 * keep} {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := clear(folder, now); err != nil {
		t.Fatal(err)
	}
	if got := files(t, folder); !slices.Equal(got, []string{"new"}) {
		t.Errorf("left are %v, want new", got)
	}
	if _, err := os.Stat(filepath.Join(folder, buildLock)); err != nil {
		t.Error("the lock is gone, which others may hold")
	}
}

func TestGoBuildsOutputIsCountedAndKept(t *testing.T) {
	var rest strings.Builder
	p := &packages{rest: &rest}
	for _, piece := range []string{"internal/abi\nk8s.io/", "api/core/v1\n# k8s.io/api\n", "./main.go:3:1: undefined: x\n"} {
		if _, err := p.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := rest.String(), "# k8s.io/api\n./main.go:3:1: undefined: x\n"; p.count.Load() != 2 || got != want {
		t.Errorf("%d packages and %q, want 2 and %q", p.count.Load(), got, want)
	}
}
