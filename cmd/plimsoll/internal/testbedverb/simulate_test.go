package testbedverb

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

func TestDurationsMayHaveDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"7d": 7 * 24 * time.Hour, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour, "90m": 90 * time.Minute,
	} {
		got, err := wholeMinutes(text)
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "7", "7dd", "-7d", "-3h", "30s", "90s", "0d", "1e300d", "NaNd", "7d3", "7d-3h", "53375d2000000h"} {
		if got, err := wholeMinutes(text); err == nil || !strings.Contains(err.Error(), strconv.Quote(text)) {
			t.Errorf("%q: got %s, %v", text, got, err)
		}
	}
}

func TestTheBusiestDayIsShownOrAllThereIs(t *testing.T) {
	quiet, busy := make([]float64, replay.MinutesADay), slices.Repeat([]float64{7}, replay.MinutesADay)
	if diff := cmp.Diff(span{replay.MinutesADay, 2 * replay.MinutesADay}, busiest(slices.Concat(quiet, busy, quiet)), cmp.AllowUnexported(span{})); diff != "" {
		t.Error(diff)
	}
	if got := busiest(make([]float64, 100)); got != (span{0, 100}) {
		t.Errorf("of a hundred minutes: %v", got)
	}
}

// TestInterruptedSimulationsWriteNoResults interrupts one as soon as the load was kept.
func TestInterruptedSimulationsWriteNoResults(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var made []string
	var out, err bytes.Buffer
	env := &cli.Env{
		Args:   []string{"simulate", "--trace", "mmpp", "--policies", "hpa", "--out", "there"},
		Stdout: &out, Stderr: &err, Now: time.Now, Getenv: func(string) string { return "" },
		ReadFile: func(string) ([]byte, error) { return nil, fs.ErrNotExist },
		Create: func(name string) (io.WriteCloser, error) {
			made = append(made, name)
			cancel()
			return sink{}, nil
		},
	}
	if code := cli.Run(ctx, env, func(env *cli.Env) *cobra.Command { return NewSimulate(env, nil) }); code != cli.ExitFailed {
		t.Errorf("exits with %d, want %d", code, cli.ExitFailed)
	}
	if !strings.Contains(err.String(), "plimsoll: interrupted: 0 of ") || out.Len() > 0 {
		t.Errorf("it says %q, and prints %q", err.String(), out.String())
	}
	if diff := cmp.Diff([]string{"there/load.csv"}, made); diff != "" {
		t.Error(diff)
	}
}

type sink struct{}

func (sink) Write(p []byte) (int, error) { return len(p), nil }
func (sink) Close() error                { return nil }
