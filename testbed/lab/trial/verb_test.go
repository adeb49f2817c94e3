//go:build lab

package trial_test

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
)

// verb runs the real program, and returns what it prints.
func verb(t *testing.T, program string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, append([]string{"testbed"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	t.Logf("%s\n%s%s", strings.Join(args, " "), &out, &errs)
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The short form of the experiment, with everything as in the long one: the real program, policy,
// control plane, machines, pods and k6. What is so on any machine is asserted, and no speed.
func TestAnExperimentRunsInTheLab(t *testing.T) {
	const users, minutes = 10, 2
	program, folder := labtest.Program(t), t.ArtifactDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	short := func(world string) []string {
		return []string{"run", "slo-cost", "--world", world, "--policies", "slocost-b", "--users", "10", "--trials", "1", "--for", "2m", "--out", in(world)}
	}
	began := time.Now()
	verb(t, program, short("lab")...)
	t.Logf("after %.0f s", time.Since(began).Seconds())

	r := labtest.Results(t, in("lab"))
	if r.World != "lab" || len(r.Runs) != 1 || r.Planned != 1 || r.DurationSeconds != 60*minutes {
		t.Fatalf("%+v with %d runs", r.Header, len(r.Runs))
	}
	run := &r.Runs[0]
	between := func(what string, least, v, most float64) {
		t.Helper()
		if !(least <= v && v <= most) {
			t.Errorf("%s is %g, want %g to %g", what, v, least, most)
		}
	}
	// A user sends at most one a second. A request takes a pod 80 ms when it is alone, and the last
	// of all users together not a minute.
	between("requests", users*60*minutes/20, float64(run.Requests), users*60*minutes)
	between("failed", 0, float64(run.Failed), float64(run.Requests)/100)
	between("goodFraction", 0.01, float64(run.GoodFraction), 1)
	between("p50Ms", 80, float64(run.P50Ms), float64(run.P90Ms))
	between("p90Ms", 80, float64(run.P90Ms), 60_000)
	between("p99Ms", float64(run.P90Ms), float64(run.P99Ms), 60_000)
	// The policy grows far below its cost, so that the first machine does not do; there are 16 at
	// most.
	between("podMinutes", minutes+0.5, float64(run.PodMinutes), 48*minutes)
	between("vmHours", (minutes+0.5)/60., float64(run.VMHours), 16*minutes/60.)
	between("costUnits", 9.99*(minutes+0.5)/60., float64(run.CostUnits), 160*minutes/60.)
	between("orders", 1, float64(run.Orders), 15)
	between("decisions", 1, float64(run.Decisions), 2*minutes)
	between("lateMs", 0.001, float64(run.LateMs), math.MaxFloat64)
	between("servedP90Ms", 80, float64(run.ServedP90Ms), float64(run.P90Ms))

	for _, name := range []string{"report.html", "experiment.yaml", "p90.svg", "cost.svg", "lab/slocost-b-10-1/journal.ndjson", "lab/slocost-b-10-1/summary.json"} {
		if _, err := os.Stat(in("lab/" + name)); err != nil {
			t.Error(err)
		}
	}
	verb(t, program, short("sim")...)
	if out := verb(t, program, "report", in("sim"), in("lab"), "--out", in("worlds")); !strings.Contains(out, "sim off lab") {
		t.Errorf("the worlds are not laid side by side:\n%s", out)
	}
}
