package operator

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

// A namespace at its quota reads so in the status of its workloads and in events, and has no more
// than it may have. Once it may have more, it gets that, and reads so, too.
func TestWhatExceedsAQuotaIsSaid(t *testing.T) {
	for _, c := range []struct {
		name     string
		quota    nodescaler.Quota
		replicas int // scaled to
		machines int
		held     string // condition of the workload
	}{
		{name: "none of its own", quota: nodescaler.Quota{Namespace: "other", Replicas: 1}, replicas: 10, machines: 3},
		{name: "pods: it is not scaled further", quota: nodescaler.Quota{Namespace: "*", Replicas: 6}, replicas: 6, machines: 2},
		{name: "orders", quota: nodescaler.Quota{Namespace: "sh*", Orders: 2}, replicas: 10, machines: 2, held: "True NamespaceQuota"},
		{name: "money", quota: nodescaler.Quota{Namespace: "shop", Rate: pricing.Per(13*pricing.Unit, time.Hour)}, replicas: 10, machines: 2, held: "True NamespaceQuota"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.cfg.Quotas = []nodescaler.Quota{c.quota}
			w := h.web(active)
			h.replicas["shop/web"] = 5
			h.pool("aa", active)
			h.cores = 2
			h.begin().steps(12)
			h.expect("replicas", c.replicas, h.replicas["shop/web"])
			h.expect("machines", c.machines, len(h.machines))
			h.expect("what is held", c.held, said(w.Status.Conditions)["CapacityHeld"])
			events := strings.Join(h.told, "\n")
			h.expect("events of the workload", c.held != "", strings.Contains(events, "web NamespaceQuota"))
			h.expect("events of the pool", c.held != "", strings.Contains(events, "aa NamespaceQuota"))
			h.expect("it is limited by its quota", c.replicas < 10, strings.Contains(said(w.Status.Conditions)["ScalingLimited"], "NamespaceQuota"))
			h.term.Quotas = nil
			h.steps(12)
			h.expect("machines without it", 3, len(h.machines))
			if c.held != "" {
				h.expect("what is held without it", "False PlannedFor", said(w.Status.Conditions)["CapacityHeld"])
			}
		})
	}
}

// Which pods nothing is done for is read in the workload's status, in each mode.
func TestReplicasThatCannotBeCreatedAreSaid(t *testing.T) {
	for _, mode := range []string{active, ""} {
		h := newHouse(t)
		w := h.web(mode)
		h.pool("aa", active)
		h.cores = 2
		h.cfg.Cluster = failing{cluster{h}}
		h.begin().steps(4)
		h.expect("the condition", "True ReplicaFailure", said(w.Status.Conditions)["CapacityHeld"])
		h.expect("the event", true, slices.ContainsFunc(h.told, func(e string) bool { return strings.Contains(e, "web ReplicaFailure") }))
	}
}

// failing is a cluster in which two pods of each workload are, and no more can be created.
type failing struct{ cluster }

func (f failing) Observe(ctx context.Context) (loop.ClusterState, error) {
	s, err := f.cluster.Observe(ctx)
	s.Pods = slices.DeleteFunc(s.Pods, func(p nodescaler.Pod) bool {
		return !strings.HasSuffix(p.Name, "-00") && !strings.HasSuffix(p.Name, "-01")
	})
	s.Failing = map[string]string{"shop/web": "FailedCreate: exceeded quota: two"}
	return s, err
}
