package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// scenario is a test of Karpenter's core, by its name there. A world is written in words, in
// statements that end with semicolons:
//
//	pool w drift under budget=1/Drifted max=3
//	node a large drifted age=2h
//	pod p a 900 pinned
//	pdb ns/app 0
//	room r 2 500
//
// A pod on no node has - for one. The policy joint decides at noon, and 15 seconds, 11 minutes and
// 12 minutes after it; no action is done. Wanted are the actions that it plans, without evictions:
// which nodes are drained, and which shapes are ordered.
type scenario struct {
	name, world string
	want        string
	differs     string // why the outcome is another than there; then world may be empty
}

// words builds the world.
func words(t *testing.T, text string) *sample.World {
	w := sample.New()
	huge := sample.Large
	huge.Name, huge.CPU, huge.Memory = "2xlarge", 2*huge.CPU, 2*huge.Memory
	w.Pools[0].Shapes = []pricing.Shape{sample.Small, sample.Large}
	w.Pools = append(w.Pools, nodescaler.Pool{Name: "x", Max: 10, Shapes: []pricing.Shape{sample.Large}, Reserved: w.Pools[0].Reserved})
	for i := range w.Hosts {
		w.Hosts[i].Room = sample.Large.Resources().Times(20)
	}
	shapes := map[string]pricing.Shape{"large": sample.Large, "2xlarge": huge}
	for statement := range strings.SplitSeq(text, ";") {
		f := strings.Fields(statement)
		if len(f) == 0 {
			continue
		}
		switch f[0] {
		case "pool":
			wordsPool(t, w, f[1:])
		case "node":
			wordsNode(t, w, f[1], f[2:], shapes)
		case "pod":
			wordsPod(t, w, f[1:])
		case "room":
			w.Change(room(number(t, f[2]), pricing.MilliCPU(number(t, f[3]))))
		case "pdb":
			w.Budgets = append(w.Budgets, nodescaler.Budget{Workload: f[1], Allowed: number(t, f[2])})
		default:
			t.Fatalf("%s is not a statement", f[0])
		}
	}
	return w
}

func number(t *testing.T, text string) int {
	n := must.Get(strconv.Atoi(text))(t)
	return n
}

func lasts(t *testing.T, text string) time.Duration {
	d := must.Get(time.ParseDuration(text))(t)
	return d
}

func wordsPool(t *testing.T, w *sample.World, f []string) {
	p := &w.Pools[0]
	if f[0] == "x" {
		p = &w.Pools[1]
	}
	d := &p.Disruption
	for _, word := range f {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "w", "x":
		case "max":
			p.Max = number(t, value)
		case "min":
			p.Min = number(t, value)
		case "drift":
			d.Drift = nodescaler.DriftReplace
		case "expire":
			d.ExpireAfter = nodescaler.Duration(lasts(t, value))
		case "grace":
			d.TerminationGracePeriod = nodescaler.Duration(lasts(t, value))
		case "under":
			d.Consolidation.Policy = nodescaler.WhenEmptyOrUnderutilized
		case "empty":
			d.Consolidation.Policy = nodescaler.WhenEmpty
		case "after":
			d.Consolidation.After = nodescaler.Duration(lasts(t, value))
		case "ill":
			d.Repair.Conditions = []nodescaler.Ailment{{Type: "Ill", Status: "True", For: nodescaler.Duration(lasts(t, value))}}
		case "held":
			p.HeldDown = &sample.Paused
		case "budget":
			n, cause, some := strings.Cut(value, "/")
			var b nodescaler.NodeBudget
			must.Do(t, b.Nodes.UnmarshalText([]byte(n)))
			if some {
				b.Reasons = []nodescaler.Cause{nodescaler.Cause(cause)}
			}
			d.Budgets = append(d.Budgets, b)
		default:
			t.Fatalf("%s is not known of a pool", word)
		}
	}
}

func wordsNode(t *testing.T, w *sample.World, name string, f []string, shapes map[string]pricing.Shape) {
	w.Node(name, fmt.Sprintf("pve%d", len(w.Nodes)%3+1))
	m, n := &w.Machines[len(w.Machines)-1], &w.Nodes[len(w.Nodes)-1]
	n.Labels = map[string]string{nodescaler.HostLabel: name}
	for _, word := range f {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "large", "2xlarge":
			m.Shape = shapes[key]
			n.Allocatable = m.Shape.Resources().Minus(w.Pools[0].Reserved)
		case "pool":
			m.Pool, n.Pool = value, value
		case "cordoned":
			n.Cordoned = true
		case "draining":
			sample.Draining(n)
		case "notready":
			n.Ready = false
		case "pinned":
			n.Pinned = "annotated"
		case "local":
			n.LocalClaims = []string{"ns/data"}
		case "drifted":
			sample.Drifted(m)
		case "ill":
			n.Conditions = []nodescaler.NodeCondition{{Type: "Ill", Status: "True", Since: w.Now.Add(-lasts(t, value))}}
		case "age":
			m.Created, m.Since, n.Joined = w.Now.Add(-lasts(t, value)), w.Now.Add(-lasts(t, value)), w.Now.Add(-lasts(t, value))
		case "zone":
			n.Labels[sample.Zone] = value
		case "phase":
			m.Phase = nodescaler.Phase(value)
		case "foreign":
			n.Machine, n.Pool = "", ""
			w.Machines = w.Machines[:len(w.Machines)-1]
		default:
			t.Fatalf("%s is not known of a node", word)
		}
	}
}

func wordsPod(t *testing.T, w *sample.World, f []string) {
	node := f[1]
	if node == "-" {
		node = ""
	}
	w.Pod(f[0], node, pricing.MilliCPU(number(t, f[2])), 100)
	p := &w.Pods[len(w.Pods)-1]
	for _, word := range f[3:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "pinned":
			p.Pinned = "annotated"
		case "daemon":
			p.Daemon = true
		case "leaving":
			p.Terminating = true
		case "costly":
			p.DeletionCost = 1<<31 - 1
		case "prior":
			p.Priority = 1000000000
		case "lonely":
			sample.Lonely(p)
		case "spread":
			sample.SpreadBy(sample.Zone, 1)(p)
		case "own":
			p.Workload = value
		case "done":
			p.Phase = podscaler.Succeeded
		default:
			t.Fatalf("%s is not known of a pod", word)
		}
	}
}

// Scenarios of the suites of Karpenter v1.14.1 about disruption and termination.
func TestKarpentersScenarios(t *testing.T) {
	count, played := 0, 0
	for _, suite := range karpenters {
		for _, s := range suite.list {
			if count++; s.world == "" {
				if s.differs == "" {
					t.Errorf("%s: %s has neither a world nor why it differs", suite.name, s.name)
				}
				continue
			}
			played++
			t.Run(suite.name+"/"+s.name, func(t *testing.T) {
				w := words(t, s.world)
				p := build(t, Spec{Policy: "joint"})
				var got []string
				var why string
				sample.Decide(t, p, w.At(0))
				for _, at := range []time.Duration{15 * time.Second, 11 * time.Minute, 12 * time.Minute} {
					plan := sample.Decide(t, p, w.At(at))
					why += sample.Reasons(plan)
					for _, line := range sample.Lines(plan) {
						f := strings.Fields(line)
						switch f[0] {
						case "Evict":
							continue
						case "Buy":
							f = []string{"Buy", f[2]}
						}
						if line = strings.Join(f, " "); !slices.Contains(got, line) {
							got = append(got, line)
						}
					}
				}
				slices.Sort(got)
				if text := strings.Join(got, ", "); text != s.want {
					t.Errorf("%s:\n got %q\nwant %q%s", s.world, text, s.want, why)
				}
			})
		}
	}
	if count < 210 || played < 154 {
		t.Errorf("%d of %d scenarios are played, want at least 154 of 210", played, count)
	}
}
