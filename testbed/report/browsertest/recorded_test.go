//go:build browser

package browsertest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/sim"
	"github.com/plimsoll/plimsoll/testbed/whatif"
)

// serveRecording has the program itself serve a recording, for the view What if is its alone.
func serveRecording(t *testing.T) (url string) {
	t.Helper()
	folder, program := t.TempDir(), filepath.Join(t.TempDir(), "plimsoll")
	record(t, folder)
	build := exec.Command("go", "build", "-o", program, "./cmd/plimsoll")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(program, "dashboard", "--recording", folder, "--listen", "127.0.0.1:0")
	notes := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	line, err := bufio.NewReader(notes).ReadString('\n')
	if _, url, _ = strings.Cut(line, " on "); err != nil || url == "" {
		t.Fatalf("it does not say where its page is: %q, %v", line, err)
	}
	url, _, _ = strings.Cut(url, "/,")
	return url
}

// record records the morning of a small shop, which is the same every time.
func record(t *testing.T, folder string) {
	t.Helper()
	seconds := func(from, to time.Duration) timing.Range {
		return timing.Range{Min: from * time.Second, Max: to * time.Second}
	}
	pod := pricing.Resources{CPU: 500, Memory: 512 * pricing.MB}
	pools := []nodescaler.Pool{{Name: "worker", Min: 1, Max: 9, Shapes: []pricing.Shape{{Name: "small", CPU: 2000, Memory: 4 * pricing.GB}}}}
	room := pricing.Resources{CPU: 32 * pricing.Core, Memory: 64 * pricing.GB}
	c := whatif.Case{
		Length: 6 * time.Hour, Nodes: &nodepolicy.Spec{Policy: "joint"},
		World: sim.Config{
			Seed: 1, Start: time.Date(2026, 6, 1, 6, 0, 0, 0, time.UTC), Tick: 10 * time.Second, MetricsEvery: 15 * time.Second,
			Hosts: []nodescaler.Host{{Host: pricing.Host{Name: "pve1", Room: room}, Online: true}}, Pools: pools, Initial: map[string]int{"worker": 2},
			Delays: sim.Delays{Machine: timing.Machine{Clone: seconds(20, 40), Boot: seconds(40, 60), Delete: seconds(5, 10)}, PodStart: seconds(2, 6)},
			Workloads: []sim.Workload{{
				Name: "shop/web", Replicas: 4, Requests: pod, Quota: pod.CPU, Concurrency: 64, Balance: sim.LeastOfTwo, Demand: sim.Demand{Mean: 60 * time.Millisecond, Spread: .3},
				Load: sim.Load{Kind: sim.Sleep, Think: time.Second, Spread: time.Second, Level: sim.Curve{{Level: 20}, {At: 2 * time.Hour, Level: 80}, {At: 6 * time.Hour, Level: 40}}},
			}},
		},
		Intent: loop.Intent{Pools: pools, Prices: &pricing.Book{Unit: "EUR", PerVCPU: 6000, PerGB: 1200}, Workloads: []loop.Workload{{
			Workload: podscaler.Workload{
				Name: "shop/web", Min: 1, Max: 40, Pod: pod, RunPeriod: 10 * time.Second,
				SLO: podscaler.SLO{Quantile: .9, Target: 300 * time.Millisecond, Window: time.Minute},
			},
			Policy: podpolicy.Spec{Policy: "joint"},
		}}},
	}
	segments := 0
	tape := recording.Recorder{Open: func(time.Time) (io.WriteCloser, error) {
		segments++
		return os.Create(filepath.Join(folder, fmt.Sprintf("%08d.ndjson.gz", segments)))
	}}
	tape.Forget(recording.Nothing, c.Nodes)
	must.Get(c.Run(t.Context(), tape.Append))(t)
	must.Do(t, tape.Close())
}
