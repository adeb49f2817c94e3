package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// Every command line of ours on a page has a verb and flags that the program has, and values that
// it takes: what a page announces runs.
func TestCommandsOfThePagesExist(t *testing.T) {
	tried := 0
	for _, name := range pagesOfTheTree(t) {
		for _, line := range commandsOf(string(must.Get(os.ReadFile(name))(t))) {
			tried++
			args := shellWords(line)
			var out, errs bytes.Buffer
			env := &cli.Env{
				Args: append(args[1:len(args):len(args)], "--help"), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
				Getenv:   func(string) string { return "" },
				ReadFile: func(name string) ([]byte, error) { return nil, fmt.Errorf("open %s: %w", name, os.ErrNotExist) },
			}
			code := run(t.Context(), env)
			// Words such as NAME, and the value of a flag at the end, are for the reader to give.
			open := toReplace.MatchString(line) || strings.HasPrefix(args[len(args)-1], "--")
			if fault := errs.String(); code != cli.ExitDone && (strings.Contains(fault, "unknown") || !open) {
				t.Errorf("%s: %s\n%s", name, line, fault)
			}
		}
	}
	if tried < 200 {
		t.Errorf("only %d command lines were found: what is looked for is not what is written", tried)
	}
}

var (
	toReplace = regexp.MustCompile(`\b[A-Z]{2,}\b|…|\.\.\.`)
	inSpan    = regexp.MustCompile("`(plimsoll [^`|]+)[^`]*`")
	command   = regexp.MustCompile(`(?:^|[|&(]\s*|\$ )(plimsoll [^|<>&#()]*)`)
)

func pagesOfTheTree(t *testing.T) []string {
	t.Helper()
	names := []string{"../../README.md", "../../CONTRIBUTING.md", "../../CHANGELOG.md"}
	must.Do(t, filepath.WalkDir("../../docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	}))
	return names
}

// commandsOf are the command lines of ours in a page's code. Lines that show a choice in brackets
// are left to the reader.
func commandsOf(page string) []string {
	var all []string
	fenced := false
	for line := range strings.Lines(strings.ReplaceAll(page, "\\\n", "")) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		found := inSpan
		if fenced || strings.HasPrefix(line, "    ") {
			found, line = command, strings.TrimSpace(line)
		}
		for _, m := range found.FindAllStringSubmatch(line, -1) {
			if text := strings.TrimSpace(m[1]); !strings.ContainsAny(text, "[{") && !strings.Contains(text, "plimsoll testbed run …") {
				all = append(all, text)
			}
		}
	}
	return all
}

// shellWords splits a command line as a shell does.
func shellWords(line string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	begun := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case quote == 0 && r == ' ':
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}

var manifest = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$")

// Every manifest of ours on a page has keys that its kind has.
func TestManifestsOfThePagesAreRead(t *testing.T) {
	kinds := map[string]func() any{
		"WorkloadAutoscaler": func() any { return new(v1alpha1.WorkloadAutoscaler) },
		"VMPool":             func() any { return new(v1alpha1.VMPool) },
		"PriceBook":          func() any { return new(v1alpha1.PriceBook) },
	}
	read := 0
	for _, name := range pagesOfTheTree(t) {
		page := string(must.Get(os.ReadFile(name))(t))
		for _, m := range manifest.FindAllStringSubmatch(page, -1) {
			text := regexp.MustCompile("(?m)^"+m[1]).ReplaceAllString(m[2], "")
			for document := range strings.SplitSeq(text, "\n---\n") {
				var head struct{ Kind string }
				if err := yaml.Unmarshal([]byte(document), &head); err != nil || kinds[head.Kind] == nil {
					continue
				}
				read++
				if err := yaml.UnmarshalStrict([]byte(document), kinds[head.Kind]()); err != nil {
					t.Errorf("%s: %v\n%s", name, err, document)
				}
			}
		}
	}
	if read < 10 {
		t.Errorf("only %d manifests were found", read)
	}
}
