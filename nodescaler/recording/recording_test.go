package recording_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded" // the laws' cases are the same every time
)

// tape is a recording in memory.
type tape struct {
	recording.Recorder
	segments []*bytes.Buffer
}

type file struct{ io.Writer }

func (file) Close() error { return nil }

func newTape() *tape {
	t := &tape{}
	t.Open = func(time.Time) (io.WriteCloser, error) {
		t.segments = append(t.segments, &bytes.Buffer{})
		return file{t.segments[len(t.segments)-1]}, nil
	}
	return t
}

func (t *tape) read(f func(*recording.Moment) error) error {
	if err := t.Close(); err != nil {
		return err
	}
	for _, s := range t.segments {
		if err := recording.Read(bytes.NewReader(s.Bytes()), f); err != nil {
			return err
		}
	}
	return nil
}

// drifting is a cluster that changes from step to step by chance.
type drifting struct {
	*rand.Rand
	world *sample.World
	now   time.Time
	pods  int
	in    loop.Intent
}

func newDrifting(seed uint64) *drifting {
	d := &drifting{Rand: rand.New(rand.NewPCG(seed, 1)), world: sample.New(), now: time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)}
	d.world.Node("a", "pve1").Node("b", "pve1")
	d.in = loop.Intent{Pools: d.world.Pools, Prices: pricing.DefaultBook()}
	for i, policy := range []string{"hpa", "joint", "slocost"} {
		w := podscaler.Workload{
			Name: fmt.Sprintf("shop/web%d", i), Min: 1, Max: 9, SLO: podscaler.SLO{Quantile: .9, Target: 300 * time.Millisecond, Window: time.Minute},
			Cost: podscaler.CostTarget{Target: 40 * pricing.Unit, Per: time.Hour}, Pod: pricing.Resources{CPU: 500, Memory: pricing.GiB},
		}
		d.in.Workloads = append(d.in.Workloads, loop.Workload{Workload: w, Policy: podpolicy.Spec{Policy: policy}})
	}
	return d
}

// observe changes the cluster, and is what it is then. Nothing is shared with what was observed
// before, and much is the same.
func (d *drifting) observe() (o loop.Observation) {
	d.now = d.now.Add(time.Duration(10+d.IntN(30)) * time.Second)
	w := d.world
	w.Pods = slices.Clone(w.Pods)
	for range d.IntN(4) {
		d.pods++
		node := []string{"", "a", "b"}[d.IntN(3)]
		w.Pod(fmt.Sprintf("shop/web%d-%03d", d.IntN(3), d.pods), node, 500, 1024, func(p *nodescaler.Pod) {
			p.Workload, p.Unschedulable = p.Name[:len("shop/web0")], node == ""
		})
	}
	slices.SortFunc(w.Pods, func(a, b nodescaler.Pod) int { return strings.Compare(a.Name, b.Name) })
	w.Pods = slices.DeleteFunc(w.Pods, func(nodescaler.Pod) bool { return d.IntN(12) == 0 })
	for i := range w.Pods {
		w.Pods[i].CPU = podscaler.Sample{Known: d.IntN(5) > 0, Value: d.Float64(), At: d.now, Span: 30 * time.Second}
	}
	o = loop.Observation{Time: d.now, Machines: loop.MachineState{Hosts: w.Hosts, Machines: slices.Clone(w.Machines)}}
	o.Cluster = loop.ClusterState{Nodes: slices.Clone(w.Nodes), Pods: slices.Clone(w.Pods), Replicas: map[string]int{}}
	for i := range 3 {
		o.Cluster.Replicas[fmt.Sprintf("shop/web%d", i)] = 1 + d.IntN(3)
	}
	switch d.IntN(12) {
	case 0:
		o.MachinesErr = errors.New("does not answer")
	case 1:
		o.ClusterErr = errors.New("is away")
	case 2:
		o.Machines.Soon = map[string]nodescaler.Reason{w.Pools[0].Name: {Code: "Soon", Text: "is being read"}}
	}
	return o
}

// measure is what is known of the workloads whose turn it is.
func (d *drifting) measure(o *loop.Observation, m *loop.Memory) {
	o.Windows = map[string]loop.Measured{}
	for _, w := range m.Due(o, &d.in) {
		known := podscaler.Window{
			Latency: podscaler.Known(d.Float64()), Good: podscaler.Known(d.Float64()), Arrivals: podscaler.Known(d.Float64() * 50),
			InFlight: podscaler.Known(d.Float64() * 9), Since: d.now.Add(-time.Hour),
		}
		if o.Windows[w.Name] = (loop.Measured{Window: known}); d.IntN(9) == 0 {
			o.Windows[w.Name] = loop.Measured{Err: errors.New("is silent")}
		}
	}
}

// passes records some steps, and returns what was observed.
func (d *drifting) passes(t *rapid.T, into *tape, steps int) (seen []loop.Observation) {
	nodes := nodepolicy.Spec{Policy: []string{"joint", "unneeded"}[d.IntN(2)]}
	var m loop.Memory
	begin := func(kept recording.Remembered) {
		policy := must.Get(nodepolicy.New(nodes))(t)
		if m.Nodes = policy; kept == recording.Nothing {
			m = loop.Memory{Nodes: policy}
		}
		into.Forget(kept, &nodes)
	}
	begin(recording.Nothing)
	for i := range steps {
		switch d.IntN(30) * min(i, 1) {
		case 1:
			begin(recording.Nothing)
		case 2:
			m = m.Jump(d.now)
			begin(recording.Jumped)
		}
		if d.IntN(10) == 0 {
			d.in.Limit = pricing.RateOf(pricing.Micros(d.IntN(60)) * pricing.Unit)
		}
		o := d.observe()
		d.measure(&o, &m)
		s := loop.Decide(&o, &d.in, &m)
		for i := range s.Plan.Actions {
			s.Outcomes = append(s.Outcomes, loop.Outcome{Action: i, Error: []string{"", "", "refused"}[d.IntN(3)]})
		}
		if o.ClusterErr == nil {
			m.Learn(&s)
		}
		must.Do(t, into.Append(&o, &d.in, &s))
		seen = append(seen, o)
	}
	return seen
}

// What is read is what was observed, and what is decided by it is what was decided.
func TestLawARecordingIsDecidedAsItWas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d, into := newDrifting(rapid.Uint64().Draw(t, "seed")), newTape()
		seen := d.passes(t, into, rapid.IntRange(1, 20).Draw(t, "steps"))
		var replay recording.Replay
		i := 0
		must.Do(t, into.read(func(m *recording.Moment) error {
			if want, got := text(t, &seen[i]), text(t, &m.Observation); want != got {
				t.Fatalf("step %d: %s", i, firstDifference(want, got))
			}
			s, same, err := replay.Decide(m)
			if !same || s.ID != m.Step.ID {
				t.Fatalf("step %d, %s, is decided otherwise, as %s", i, m.Step.ID, s.ID)
			}
			i++
			return err
		}))
		if whole := replay.Whole(); i != len(seen) || !whole {
			t.Fatalf("%d of %d steps are there, from the first of a term on: %v", i, len(seen), whole)
		}
	})
}

// text is an observation in a form that is the same for what is decided alike.
func text(t *rapid.T, o *loop.Observation) string {
	c := o.Cluster
	c.Daemons = nil
	data := must.Get(json.Marshal([]any{o.Time, c.Nodes, c.Pods, c.Replicas, o.Machines, fmt.Sprint(o.ClusterErr, o.MachinesErr), fmt.Sprint(o.Windows)}))(t)
	return strings.NewReplacer("null", "", "[]", "").Replace(string(data))
}

// firstDifference is where two texts part.
func firstDifference(want, got string) string {
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	from := max(at-60, 0)
	return fmt.Sprintf("observed …%.150s…, read as …%.150s…", want[from:], got[from:])
}

// A segment that was cut off is read as far as it goes, wherever that is; each segment can be read
// without the others.
func TestLawACutSegmentIsReadAsFarAsItGoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d, into := newDrifting(rapid.Uint64().Draw(t, "seed")), newTape()
		steps := len(d.passes(t, into, 20))
		must.Do(t, into.Close())
		read, last := 0, into.segments[len(into.segments)-1].Bytes()
		for _, s := range slices.Backward(into.segments) { // in any order
			must.Do(t, recording.Read(bytes.NewReader(s.Bytes()), func(*recording.Moment) error { read++; return nil }))
		}
		if read != steps {
			t.Fatalf("read %d of %d steps", read, steps)
		}
		cut := rapid.IntRange(0, len(last)).Draw(t, "cut")
		if err := recording.Read(bytes.NewReader(last[:cut]), func(*recording.Moment) error { return nil }); err != nil {
			t.Fatalf("cut after %d of %d bytes: %v", cut, len(last), err)
		}
	})
}

// What a write loses is lost; the next step begins a segment and is whole.
func TestAfterAFailedWriteASegmentBegins(t *testing.T) {
	d, into := newDrifting(1), newTape()
	into.Forget(recording.Nothing, nil)
	full, opened := false, 0
	open := into.Open
	into.Open = func(at time.Time) (io.WriteCloser, error) {
		if opened++; full {
			return nil, errors.New("no space left on device")
		}
		return open(at)
	}
	for i := range 6 {
		full = i == 2
		if full {
			into.Forget(recording.Nothing, nil) // has a segment begin
		}
		o := d.observe()
		err := into.Append(&o, &d.in, &loop.Step{ID: fmt.Sprint("d-", i), Time: o.Time})
		if (err != nil) != full {
			t.Errorf("step %d: %v", i, err)
		}
	}
	read := 0
	if err := into.read(func(*recording.Moment) error { read++; return nil }); err != nil || read != 5 || opened != 3 {
		t.Errorf("read %d steps of %d segments, %v; want 5 of 3, one of which was never there", read, opened, err)
	}
}

func TestNoRecording(t *testing.T) {
	for _, text := range []string{"no recording", strings.Repeat("\x1f\x8b", 20)} {
		if err := recording.Read(strings.NewReader(text), func(*recording.Moment) error { return nil }); err == nil || !strings.Contains(err.Error(), "segment") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A policy that nothing says how to make anew is no part of a recording.
func TestAMadePolicyIsRefused(t *testing.T) {
	d, into := newDrifting(1), newTape()
	policy := must.Get(podpolicy.New(podpolicy.Spec{Policy: "hpa"}))(t)
	d.in.Workloads = append(d.in.Workloads, loop.Scaled(podscaler.Workload{Name: "shop/other"}, policy))
	o := d.observe()
	if err := into.Append(&o, &d.in, &loop.Step{}); err == nil || !strings.Contains(err.Error(), "shop/other") {
		t.Errorf("%v, want the workload named", err)
	}
}
