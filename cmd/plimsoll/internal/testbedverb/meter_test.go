package testbedverb

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed"
)

// said returns what a meter writes while half a run of 20 seconds is reported, and at its end.
func said(t *testing.T, terminal, quiet bool) string {
	t.Helper()
	var err bytes.Buffer
	start := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	now := start
	m := newMeter(&cli.Env{Stderr: &err, StderrIsTerminal: terminal, Now: func() time.Time { return now }}, quiet)
	half := testbed.Progress{Done: 30, Total: 80, Requests: 15_000_000, Part: 0.5}
	m.hear(half)
	m.heard <- half // so that the first is taken in
	now = start.Add(10 * time.Second)
	if !quiet {
		m.say(half)
	}
	m.hear(testbed.Progress{Done: 80, Total: 80, Requests: 30_000_000, Part: 1})
	now = start.Add(20 * time.Second)
	if took := m.stop(); took != 20*time.Second {
		t.Errorf("it took %s, want 20s", took)
	}
	return err.String()
}

func TestTheMeterWritesOneLineOnATerminalAndManyElsewhere(t *testing.T) {
	const half = "30 of 80 runs, 15.0 million requests (1.5 million a second), about 10s left"
	const whole = "80 runs, 30.0 million requests (1.5 million a second) in 20s\n"
	if diff := cmp.Diff(half+"\n"+whole, said(t, false, false)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("\r\x1b[K"+half+"\r\x1b[K"+whole, said(t, true, false)); diff != "" {
		t.Error(diff)
	}
	if got := said(t, true, true); got != "" {
		t.Errorf("a quiet meter says %q", got)
	}
}
