package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write what the scripts' commands print into the scripts; read the diff")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"plimsoll": main, "plimsoll-moved": moved})
}

// moved is the program with a clock that is off by what stands in the file that PLIMSOLL_CLOCK names. It
// shows the time of the wall, as a clock does that somebody sets. Tests elsewhere build it from here, so that
// the program itself need not take anybody's word for the time.
func moved() {
	ctx, env := fromProcess()
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

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup:               prepare,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "serve": serveHosts, "expand": expand, "root": root, "fault": fault, "onlyread": onlyread, "vmpools": vmpools,
			"kube": serveKube, "prometheus": servePrometheus, "rates": serveRates, "counts": counts,
		},
	})
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
