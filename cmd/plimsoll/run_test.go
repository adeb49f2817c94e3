package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// inProcess runs the program in an environment made of a few files and a stopped clock.
func inProcess(t *testing.T, files fstest.MapFS, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), &cli.Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err,
		Getenv:   func(string) string { return "" },
		ReadFile: files.ReadFile,
		Stat:     files.Stat,
		Now:      func() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 500, time.UTC) },
		Exit:     func(int) { t.Error("run exits by itself") },
	})
	return out.String(), err.String(), code
}

func TestProgramRunsInsideATest(t *testing.T) {
	files := fstest.MapFS{"prices.yaml": {Data: []byte("currency: EUR\npricePerVCPUHour: 0.0316\npricePerGiBHour: 0.0042\n")}}
	stdout, stderr, code := inProcess(t, files, "price", "--vcpu", "2", "--memory", "8GiB", "--book", "prices.yaml", "-o", "json")
	if code != cli.ExitDone || stderr != "" {
		t.Fatalf("exits with %d: %s", code, stderr)
	}
	var answer struct {
		Amount json.Number `json:"amount"`
		At     time.Time   `json:"at"`
	}
	must.Do(t, json.Unmarshal([]byte(stdout), &answer))
	if answer.Amount != "0.0968" || !answer.At.Equal(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("the answer is %+v, want 0.0968 at the time it was asked", answer)
	}
	if _, stderr, code := inProcess(t, nil, "price", "--vcpu", "2", "--memory", "8GiB", "--book", "none.yaml"); code != cli.ExitConfig || !strings.Contains(stderr, "--book: open none.yaml") {
		t.Errorf("without the book it exits with %d: %s", code, stderr)
	}
}

func TestBooksInTheHelpAreAccepted(t *testing.T) {
	plain, derived, ok := strings.Cut(exampleBook, "\nIn place of the prices per vCPU and GB, they can be derived from power and hardware:\n")
	if !ok {
		t.Fatal("the help shows one book, not two")
	}
	files := fstest.MapFS{"plain.yaml": {Data: []byte(plain)}, "derived.yaml": {Data: []byte("  currency: EUR\n" + derived)}}
	for file := range files {
		if _, stderr, code := inProcess(t, files, "price", "--vcpu", "2", "--memory", "8GB", "--book", file); code != cli.ExitDone {
			t.Errorf("%s: exits with %d: %s", file, code, stderr)
		}
	}
}

func TestYAMLSaysWhatJSONSays(t *testing.T) {
	args := []string{"price", "--vcpu", "500m", "--memory", "8GiB", "--host", "yes", "--shape-name", "1e3", "-o"}
	asJSON, _, _ := inProcess(t, nil, append(args, "json")...)
	asYAML, _, _ := inProcess(t, nil, append(args, "yaml")...)
	var one, other any
	must.Do(t, json.Unmarshal([]byte(asJSON), &one))
	must.Do(t, yaml.Unmarshal([]byte(asYAML), &other))
	back := must.Get(json.Marshal(other))(t)
	must.Do(t, json.Unmarshal(back, &other))
	if diff := cmp.Diff(one, other); diff != "" {
		t.Error(diff)
	}
}

func TestErrorsCarryCodeAndHintThroughWrapping(t *testing.T) {
	plain := errors.New("it broke")
	for _, c := range []struct {
		err  error
		code int
		want string
	}{
		{nil, cli.ExitDone, ""},
		{plain, cli.ExitFailed, "plimsoll: it broke\n"},
		{cli.WithHint("mend it", plain), cli.ExitFailed, "plimsoll: it broke\nhint: mend it\n"},
		{cli.WithCode(cli.ExitUnreachable, plain), cli.ExitUnreachable, "plimsoll: it broke\n"},
		{cli.WithHint("try later", cli.WithCode(cli.ExitUnreachable, plain)), cli.ExitUnreachable, "plimsoll: it broke\nhint: try later\n"},
		{fmt.Errorf("run: %w", cli.WithHint("mend it", cli.WithCode(cli.ExitThreshold, plain))), cli.ExitThreshold, "plimsoll: run: it broke\nhint: mend it\n"},
		{cli.Misconfigured("f.yaml", errors.Join(plain, plain)), cli.ExitConfig, "plimsoll: f.yaml is refused:\n  it broke\n  it broke\n"},
		{errors.Join(plain, plain), cli.ExitFailed, "plimsoll: it broke\nplimsoll: it broke\n"},
	} {
		if got := cli.ExitCode(c.err); got != c.code {
			t.Errorf("%v exits with %d, want %d", c.err, got, c.code)
		}
		var out strings.Builder
		if c.err != nil {
			cli.Report(&out, c.err)
		}
		if diff := cmp.Diff(c.want, out.String()); diff != "" {
			t.Error(diff)
		}
		if c.err != nil && !errors.Is(c.err, plain) && c.code != cli.ExitConfig {
			t.Errorf("%v hides its cause", c.err)
		}
	}
}

func TestVersionIsTheLinkedOneOrTheModules(t *testing.T) {
	info := &debug.BuildInfo{
		Main:     debug.Module{Version: "v0.1.0"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
	}
	text := func(b build) string {
		var out strings.Builder
		b.table(&out)
		line, _, _ := strings.Cut(out.String(), ", go")
		return line
	}
	if got := text(readBuild(info, true)); got != "plimsoll v0.1.0 (abc, modified)" {
		t.Errorf("the module's version prints as %q", got)
	}
	if got := text(readBuild(nil, false)); got != "plimsoll (devel)" {
		t.Errorf("no version prints as %q", got)
	}
	defer func(was string) { version = was }(version)
	version = "v1.2.3"
	if got := readBuild(info, true).Version; got != "v1.2.3" {
		t.Errorf("the linked version v1.2.3 prints as %q", got)
	}
}
