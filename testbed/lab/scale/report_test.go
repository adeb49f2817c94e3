//go:build lab

package scale

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/product"
)

// report is what was measured.
type report struct {
	nodes, pods, autoscalers int
	machines, replicas       made
	span                     time.Duration
	steps                    []time.Duration
	wakes, clones            []time.Duration
	cpu                      map[string]float64 // cores, by part
	after                    map[string]process // by part
	heap                     []float64          // in use after each step, in bytes
	// Of the workloads, those whose response time was known at the end.
	measured               float64
	load                   string
	asked, failed, deleted atomic.Int64
}

// measure watches Plimsoll for a while, and makes pods meanwhile that fit nowhere.
func (w *world) measure() {
	r := &w.report
	asked, failed, deleted := r.asked.Load(), r.failed.Load(), r.deleted.Load()
	before, begun := w.processes(), time.Now()
	steps := w.watchSteps()
	for i := range *probes {
		time.Sleep(time.Until(begun.Add(time.Duration(i+1) * *during / time.Duration(*probes+1))))
		wake, clone := w.probe(i)
		r.wakes, r.clones = append(r.wakes, wake), append(r.clones, clone)
	}
	time.Sleep(time.Until(begun.Add(*during)))
	r.span = time.Since(begun)
	steps.stop()
	r.steps, r.heap, r.measured = steps.took, steps.heap, steps.known
	load, _ := os.ReadFile("/proc/loadavg") // only Linux has it
	r.load, _, _ = strings.Cut(string(load), " ")
	r.after, r.cpu = w.processes(), map[string]float64{}
	for part, p := range r.after {
		r.cpu[part] = (p.cpu - before[part].cpu).Seconds() / r.span.Seconds()
	}
	r.asked.Add(-asked)
	r.failed.Add(-failed)
	r.deleted.Add(-deleted)
	w.count()
}

// count counts what there is.
func (w *world) count() {
	r, page := &w.report, w.page()
	for series := range page {
		if strings.HasPrefix(series, "plimsoll_workload_replicas{") {
			r.autoscalers++
		}
	}
	w.journal.mu.Lock()
	defer w.journal.mu.Unlock()
	r.nodes, r.pods = w.journal.last.Nodes, w.journal.last.Pods
}

func (w *world) page() page {
	w.Helper()
	p, err := readPage(w.lab.Endpoint(product.PartName, "metrics"))
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// processes are the lab's.
func (w *world) processes() map[string]process {
	all := map[string]process{}
	for _, s := range w.lab.Status() {
		if s.PID > 0 && s.PID != os.Getpid() { // else it is a part in this process
			all[s.Name] = readProcess(w, s.PID)
		}
	}
	return all
}

// stepWatch reads what Plimsoll says of itself after each of its steps.
type stepWatch struct {
	end   context.CancelFunc
	ended chan struct{}
	took  []time.Duration
	heap  []float64
	known float64
}

func (s *stepWatch) stop() {
	s.end()
	<-s.ended
}

const (
	stepSum   = "plimsoll_loop_step_seconds_sum"
	stepCount = "plimsoll_loop_step_seconds_count"
)

// watchSteps reads the page of metrics once after each step, which is no more than a Prometheus
// reads it. Steps of which two have ended meanwhile count with the mean of them.
func (w *world) watchSteps() *stepWatch {
	ctx, end := context.WithCancel(w.Context())
	s := &stepWatch{end: end, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		last := w.page()
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.stepped:
				time.Sleep(time.Second) // its statuses are still to be written
			}
			p, err := readPage(w.lab.Endpoint(product.PartName, "metrics"))
			if err != nil {
				w.Error(err)
				return
			}
			if n := p[stepCount] - last[stepCount]; n > 0 {
				took := time.Duration((p[stepSum] - last[stepSum]) / n * float64(time.Second))
				s.took = append(s.took, slices.Repeat([]time.Duration{took}, int(n))...)
			}
			s.heap, s.known, last = append(s.heap, p["go_memstats_heap_inuse_bytes"]), p.known(), p
		}
	}()
	return s
}

// known is how many workloads' response times were known when they were last decided on.
func (p page) known() (n float64) {
	for series := range p {
		if strings.HasPrefix(series, "plimsoll_workload_latency_seconds{") && strings.Contains(series, `kind="measured"`) {
			n++
		}
	}
	return n
}

// print prints the report as a table.
func (r *report) print(to io.Writer) {
	t := tabwriter.NewWriter(to, 0, 0, 3, ' ', 0)
	row := func(what, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", what, fmt.Sprintf(format, args...)) }
	plimsoll, plane := r.after[product.PartName], r.after[lab.ControlPlanePart]
	fmt.Fprintln(t)
	row("cluster", "%d nodes, %d pods of %d workloads with a WorkloadAutoscaler", r.nodes, r.pods, r.autoscalers)
	row("machine", "%d CPUs, load average %s", runtime.NumCPU(), r.load)
	row("made", "%d machines in %s, ordered by Plimsoll; %d pods in %s", r.machines.many, short(r.machines.in), r.replicas.many, short(r.replicas.in))
	row("measured for", "%s: %d requests, %d failed; %d pods deleted; response time known of %.0f workloads", short(r.span), r.asked.Load(), r.failed.Load(), r.deleted.Load(), r.measured)
	row("memory", "%s resident, %s at most; heap in use %s", mega(plimsoll.rss), mega(plimsoll.peak), mega(slices.Max(append(r.heap, 0))))
	row("CPU", "%.1f %% of a core", 100*r.cpu[product.PartName])
	row("step of the loop", "p50 %s, p99 %s, longest %s, of %d", short(quantile(r.steps, 0.5)), short(quantile(r.steps, 0.99)), short(quantile(r.steps, 1)), len(r.steps))
	row("unschedulable to step", "p50 %s, longest %s, of %d", short(quantile(r.wakes, 0.5)), short(quantile(r.wakes, 1)), len(r.wakes))
	row("unschedulable to clone", "p50 %s, longest %s, of %d", short(quantile(r.clones, 0.5)), short(quantile(r.clones, 1)), len(r.clones))
	row("control plane", "%s resident, %.0f %% of a core", mega(plane.rss), 100*r.cpu[lab.ControlPlanePart])
	_ = t.Flush() // to a terminal or a pipe
}

// quantile is the smallest value that a part q of all is not above; 0 of none.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func short(d time.Duration) string {
	if d > 10*time.Second {
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

func mega(bytes float64) string { return fmt.Sprintf("%.0f MB", bytes/1e6) }
