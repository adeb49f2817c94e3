package loop_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// slow is a cluster whose writes take a tenth of a second.
type slow struct {
	still
	created time.Time
}

func (s *slow) SetReplicas(_ context.Context, workload string, n int) error {
	time.Sleep(100 * time.Millisecond)
	if n%5 == 0 {
		return errors.New("not " + workload)
	}
	return nil
}

func (s *slow) Create(context.Context, loop.Order) error { s.created = time.Now(); return nil }

// parallel is one that takes eight at once.
type parallel struct{ *slow }

func (parallel) AtOnce() int { return 8 }

// Replicas of many workloads hold a machine up no longer than their writes take at once, and what
// came of each is in the order of the workloads.
func TestReplicasAreWrittenAtOnce(t *testing.T) {
	for name, want := range map[string]time.Duration{"one by one": 2 * time.Second, "eight at once": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slow{}
				p := &loop.Ports{Cluster: s, Machines: s}
				if name != "one by one" {
					p.Cluster = parallel{s}
				}
				step := &loop.Step{Plan: nodescaler.Plan{Actions: []nodescaler.Action{{Kind: nodescaler.Buy, Order: "a", Shape: &pricing.Shape{}}}}}
				for i := range 20 {
					w := fmt.Sprintf("shop/%02d", i)
					step.Workloads = append(step.Workloads, loop.WorkloadStep{Workload: w, Decision: &podscaler.Decision{Workload: w, From: 100, To: i}})
				}
				began := time.Now()
				p.Act(t.Context(), step)
				if took := s.created.Sub(began); took != want {
					t.Errorf("a machine is ordered after %s, want %s", took, want)
				}
				for i, o := range step.Outcomes[:20] {
					if w := fmt.Sprintf("shop/%02d", i); o.Workload != w || (o.Error == "not "+w) != (i%5 == 0) {
						t.Errorf("%d: %s: %q", i, o.Workload, o.Error)
					}
				}
			})
		})
	}
}
