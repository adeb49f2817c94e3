package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
)

// pageFile is a file in memory.
type pageFile struct {
	bytes.Buffer
	files map[string]string
	name  string
}

func (k *pageFile) Close() error {
	k.files[k.name] = k.String()
	return nil
}

// manPrints is what a command line prints. What it writes goes into files, by base names.
func manPrints(t *testing.T, files map[string]string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	env := &cli.Env{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }}
	env.Create = func(name string) (io.WriteCloser, error) {
		return &pageFile{files: files, name: filepath.Base(name)}, nil
	}
	if code := run(t.Context(), env); code != cli.ExitDone {
		t.Fatalf("%v: exit %d, %s", args, code, errs.String())
	}
	return out.String()
}

// Every verb that help lists, at any depth, has a page with its name.
func TestEveryVerbHasAManualPage(t *testing.T) {
	pages := map[string]string{}
	manPrints(t, pages, "man", "--out", "pages")
	verbs := 0
	var visit func(path []string)
	visit = func(path []string) {
		name := strings.Join(append([]string{"plimsoll"}, path...), "-")
		if text := pages[name+".1"]; !strings.Contains(text, "\n"+strings.ReplaceAll(name, "-", `\-`)+` \- `) {
			t.Errorf("%s has no page, or one without its name: %q", name, text)
		}
		verbs++
		_, list, _ := strings.Cut(manPrints(t, pages, append([]string{"help"}, path...)...), "Available Commands:\n")
		for line := range strings.Lines(list) {
			if !strings.HasPrefix(line, "  ") {
				break
			}
			visit(append(path[:len(path):len(path)], strings.Fields(line)[0]))
		}
	}
	visit(nil)
	if verbs != len(pages) || verbs < 40 {
		t.Errorf("%d verbs were found, and %d pages", verbs, len(pages))
	}
	if page := manPrints(t, pages, "man", "pve", "setup"); page != pages["plimsoll-pve-setup.1"] {
		t.Errorf("the page alone is another:\n%s", page)
	}
}
