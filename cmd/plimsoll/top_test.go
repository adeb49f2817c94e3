package main

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// Standard input can be read once: what it says is shown once, on a terminal, too.
func TestTopShowsAJournalOnStandardInputOnce(t *testing.T) {
	var out strings.Builder
	env := &cli.Env{Stdin: strings.NewReader(`{"id":"d-000001","time":"2026-01-01T00:00:00Z"}` + "\n"), Stdout: &out, IsTerminal: true}
	cmd := newTopCommand(env)
	cmd.SetArgs([]string{"--journal", "-", "--every", "1ms"})
	must.Do(t, cmd.ExecuteContext(t.Context()))
	if strings.Count(out.String(), "HOST") != 1 {
		t.Errorf("printed %q", out.String())
	}
}
