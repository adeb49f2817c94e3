package lab

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// program puts a program of a shell's into a folder of its own.
func program(t *testing.T, script string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("NOT TRIED: the programs are of a shell")
	}
	file := filepath.Join(t.TempDir(), "k6")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// A k6 on PATH is taken where it runs the scripts, and one is built where it does not; the log says
// which, and why.
func TestK6OnPathIsTakenIfItServes(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		taken  bool
		says   string
	}{
		"the same":      {`echo "k6 v1.8.1 (go1.26.0, linux/amd64)"`, true, "v1.8.1, found on PATH"},
		"newer":         {`echo "k6 v1.12.0 (commit/af6ce1b2, go1.27.1, linux/amd64)"; echo Extensions:`, true, "v1.12.0, found on PATH"},
		"an older one":  {`echo "k6 v1.7.9 (go1.25.0, linux/amd64)"`, false, "is v1.7.9, and it takes one from v1.8 on, below v2"},
		"an old major":  {`echo "k6 v0.49.0 (go1.21.6, linux/amd64)"`, false, "is v0.49.0"},
		"a major ahead": {`echo "k6 v2.0.0 (go1.28.0, linux/amd64)"`, false, "is v2.0.0"},
		"broken":        {`echo "k6 v1.9.0"; exit 3`, false, "exit status 3"},
		"something":     {`echo "k6 is what I am called"`, false, `it says "k6 is what I am called"`},
		"nothing":       {`:`, false, `it says ""`},
	} {
		t.Run(name, func(t *testing.T) {
			file := program(t, c.script)
			t.Setenv("PATH", filepath.Dir(file))
			t.Setenv(K6Variable, "")
			var said []string
			box := Toolbox{Cache: t.TempDir(), Checkout: t.TempDir(), Progress: func(line string) { said = append(said, line) }}
			got, err := box.Path(t.Context(), ToolK6)
			if c.taken != (got == file && err == nil) || !c.taken && !errors.Is(err, ErrNoCheckout) {
				t.Errorf("got %q, %v", got, err)
			}
			if len(said) != 1 || !strings.Contains(said[0], c.says) || !strings.Contains(said[0], file) {
				t.Errorf("said %q, want %q", said, c.says)
			}
		})
	}
}

func TestWithoutK6OnPathItIsBuilt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(K6Variable, "")
	if _, err := (Toolbox{Cache: t.TempDir(), Checkout: t.TempDir()}).Path(t.Context(), ToolK6); !errors.Is(err, ErrNoCheckout) {
		t.Errorf("got %v, want that it is built", err)
	}
}

// A k6 of the environment variable is taken or refused, and nothing else put in its place.
func TestChosenK6IsTakenOrRefused(t *testing.T) {
	served, older := program(t, `echo "k6 v1.9.2 (go1.26.0, linux/amd64)"`), program(t, `echo "k6 v1.2.0 (go1.24.0, linux/amd64)"`)
	t.Setenv("PATH", filepath.Dir(older))
	box := Toolbox{Cache: t.TempDir(), Checkout: t.TempDir()}
	t.Setenv(K6Variable, served)
	if got, err := box.Path(t.Context(), ToolK6); err != nil || got != served {
		t.Errorf("got %q, %v, want %q", got, err, served)
	}
	for value, says := range map[string]string{older: "it is v1.2.0", filepath.Join(t.TempDir(), "k6"): "no such file"} {
		t.Setenv(K6Variable, value)
		_, err := box.Path(t.Context(), ToolK6)
		if err == nil || !strings.HasPrefix(err.Error(), "PLIMSOLL_K6: must be a k6 from v1.8 on, below v2, or build, was ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", value, err, says)
		}
	}
	t.Setenv("PATH", filepath.Dir(served))
	t.Setenv(K6Variable, BuildK6)
	if _, err := box.Path(t.Context(), ToolK6); !errors.Is(err, ErrNoCheckout) {
		t.Errorf("got %v, want it built whatever is on PATH", err)
	}
}

// What is asked of a k6 that is found is what the one that is built has.
func TestLeastK6IsTheOneThatIsBuilt(t *testing.T) {
	v, err := recipes[ToolK6].version(t.Context(), ".")
	if err != nil || !strings.HasPrefix(v.name, leastK6.String()+".") {
		t.Errorf("%v, %v, want a patch of %s", v, err, leastK6)
	}
}

func TestK6GoesByItsFilesName(t *testing.T) {
	file := program(t, `echo "k6-v1.8.1-6cfb1ed60e36 v1.8.1 (go1.26.8, linux/amd64)"`)
	if v, r, err := k6Version(t.Context(), file); v != "v1.8.1" || !r.serves() || err != nil {
		t.Errorf("%s %s %v", v, r, err)
	}
}
