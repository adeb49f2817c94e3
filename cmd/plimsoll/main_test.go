package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

var update = flag.Bool("update", false, "write what the scripts' commands print into the scripts; read the diff")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"plimsoll": main, "plimsoll-moved": moved})
}

// moved is the program with a clock that is off by what is in the file that PLIMSOLL_CLOCK names.
// It shows the time of the wall, as a clock does that was set by hand. Tests elsewhere build it
// from here, so that the program itself has no option for the time.
func moved() {
	ctx, env := cli.FromProcess()
	env.Now = func() time.Time {
		text, err := os.ReadFile(os.Getenv("PLIMSOLL_CLOCK"))
		if err != nil {
			panic(err)
		}
		off, err := time.ParseDuration(string(text))
		if err != nil {
			panic(err)
		}
		return time.Now().Round(0).Add(off)
	}
	env.Exit(run(ctx, env))
}

// Under the race detector only scripts of verbs that do several things at a time run.
func TestScripts(t *testing.T) {
	p := testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup:               prepare,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "serve": serveHosts, "expand": expand, "root": root, "fault": fault, "onlyread": onlyread, "vmpools": vmpools,
			"kube": serveKube, "prometheus": servePrometheus, "rates": serveRates, "counts": counts,
			"harmless": harmless, "record": record,
		},
	}
	if race.On {
		p.Dir = ""
		for _, verb := range []string{"demo", "run_cluster_refused", "run_quotas", "run_refused", "testbed", "testbed_loader", "testbed_pve"} {
			p.Files = append(p.Files, "testdata/script/"+verb+".txt")
		}
	}
	testscript.Run(t, p)
}

// counts writes a recorded load of so many days that swings from hour to hour: counts load.csv 3
func counts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: counts file days")
	}
	days, err := strconv.Atoi(args[1])
	ts.Check(err)
	var b bytes.Buffer
	b.WriteString("minute,count\n")
	for i := range days * 24 * 60 {
		fmt.Fprintf(&b, "%d,%d\n", i, 600+300*(i/60%3)+i%7)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o600))
}

// harmless checks that nothing steers a terminal in something that was printed: harmless stdout
func harmless(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: harmless file")
	}
	text := ts.ReadFile(args[0])
	if !utf8.ValidString(text) {
		ts.Fatalf("%s is not UTF-8", args[0])
	}
	for i, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			ts.Fatalf("%s holds %U: %q", args[0], r, text[max(0, i-40):min(len(text), i+40)])
		}
	}
}

// Nothing is printed past the guard, but by what draws on the terminal.
func TestAllIsPrintedThroughTheGuard(t *testing.T) {
	var files []string
	for _, folder := range []string{".", "internal/cli", "internal/demoverb"} {
		more := must.Get(filepath.Glob(filepath.Join(folder, "*.go")))(t)
		files = append(files, more...)
	}
	past := regexp.MustCompile(`os\.Std(out|err)|\b(func |cli\.)Unguarded\(|fmt\.Print`)
	allowed := map[string]int{"internal/cli/env.go": 5, "internal/demoverb/screen.go": 1, "meter.go": 1, "top.go": 1}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		if found := past.FindAllString(string(text), -1); len(found) != allowed[file] && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("%s prints past the guard of Env.guarded, or does so no more: %q", file, found)
		}
	}
}

// exits runs a program and checks the code it exits with: exits 2 plimsoll price
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program [argument]...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s exits with %d, want %d", args[1], got, want)
	}
}
