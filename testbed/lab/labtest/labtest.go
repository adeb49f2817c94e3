// Package labtest gives a test a lab.
package labtest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// Up brings a lab up for one test and takes it down behind it. Its folder is the test's artifact
// folder if the configuration names none: go test -artifacts keeps it. If the test fails, the last
// lines of every log are printed.
func Up(t testing.TB, cfg lab.Config) *lab.Lab {
	t.Helper()
	if cfg.Data == "" {
		cfg.Data = t.ArtifactDir()
	}
	if cfg.Progress == nil {
		cfg.Progress = func(line string) { t.Log(line) }
	}
	l, err := lab.Up(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			logs(t, l)
		}
		Down(t, l)
	})
	return l
}

// Down takes a lab down, and fails the test if anything would not stop.
func Down(t testing.TB, l *lab.Lab) {
	t.Helper()
	if err := l.Down(); err != nil {
		t.Error(err)
	}
}

// patience is for a machine that is busy with other things.
const patience = 5 * time.Minute

// Until asks, with a pause between, until there is no error any more.
func Until(t testing.TB, what string, pause time.Duration, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not after %s: %v", what, patience, err)
		case <-time.After(pause):
		}
	}
}

// PodReady reports whether a pod is ready.
func PodReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Results are those that a run of experiments has left in a folder.
func Results(t testing.TB, folder string) *testbed.Results {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(folder, "results.json")))(t)
	return must.Get(testbed.ReadResults(bytes.NewReader(text)))(t)
}

// logs prints the last lines of every log.
func logs(t testing.TB, l *lab.Lab) {
	const lines = 25
	for _, part := range l.Status() {
		text, err := os.ReadFile(l.Log(part.Name))
		if err != nil {
			continue // a part in this process logs where it likes
		}
		all := strings.Split(strings.TrimSpace(string(text)), "\n")
		t.Logf("the last lines of %s, which is %s:\n%s", part.Name, part.State, strings.Join(all[max(0, len(all)-lines):], "\n"))
	}
}
