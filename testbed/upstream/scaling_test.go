package upstream_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/lab/upstream"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// site is the world with pods in it, which a scheduler puts on nodes, for a client to scale by the
// real provider.
type site struct {
	*world
	t     *testing.T
	pods  []nodescaler.Pod
	marks map[string]bool
	moved int
}

// want has so many pods, each with a name of its own.
func (s *site) want(n int) {
	for len(s.pods) < n {
		s.moved++
		s.pods = append(s.pods, nodescaler.Pod{
			Pod: podscaler.Pod{Name: fmt.Sprintf("default/web-%03d", s.moved)}, Workload: "default/web", Created: s.sim.Now().Add(-5 * time.Second),
			Unschedulable: true, Requests: pricing.Resources{CPU: 600, Memory: 256 * pricing.MiB},
		})
	}
	s.pods = s.pods[:n]
}

// place puts pods that wait onto nodes that have room, and has those wait whose node is gone.
func (s *site) place() {
	nodes := s.nodes()
	for i := range s.pods {
		p := &s.pods[i]
		if p.Node != "" && !slices.ContainsFunc(nodes, func(n nodescaler.Node) bool { return n.Name == p.Node }) {
			s.t.Errorf("%s was on %s, which is gone", p.Name, p.Node)
		}
		for j := range nodes {
			if n := &nodes[j]; p.Node == "" && !n.Cordoned && s.used(n.Name)+p.Requests.CPU <= n.Allocatable.CPU {
				p.Node, p.Unschedulable = n.Name, false
			}
		}
	}
}

func (s *site) used(node string) (cpu pricing.MilliCPU) {
	for i := range s.pods {
		if s.pods[i].Node == node {
			cpu += s.pods[i].Requests.CPU
		}
	}
	return cpu
}

func (s *site) nodes() (all []nodescaler.Node) {
	for _, n := range s.kube.joined() {
		pool := s.pool(n.labels["plimsoll.dev/pool"])
		all = append(all, nodescaler.Node{
			Name: n.Name, Labels: n.labels, Ready: n.Ready, Joined: n.JoinedAt, Allocatable: pool.Shapes[0].Resources().Minus(pool.Reserved),
			Draining: s.marks[n.Name], Cordoned: s.marks[n.Name],
		})
	}
	slices.SortFunc(all, func(a, b nodescaler.Node) int { return compare(a.Name, b.Name) })
	return all
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Observe is the cluster as it is now.
func (s *site) Observe(context.Context) (upstream.Sight, error) {
	seen := upstream.Sight{ProviderIDs: map[string]string{}}
	seen.State.Nodes, seen.State.Pods = s.nodes(), slices.Clone(s.pods)
	for _, n := range s.kube.joined() {
		seen.ProviderIDs[n.Name] = n.ProviderID
	}
	return seen, nil
}

// Mark closes a node or opens it.
func (s *site) Mark(_ context.Context, node string, marked bool) error {
	s.marks[node] = marked
	return nil
}

// Evict has a pod go, and another wait in its place.
func (s *site) Evict(_ context.Context, pod string) error {
	n := len(s.pods)
	s.pods = slices.DeleteFunc(s.pods, func(p nodescaler.Pod) bool { return p.Name == pod })
	s.want(n)
	return nil
}

// scan scans each ten seconds until something is so.
func (s *site) scan(c *upstream.Client, what string, so func() bool) {
	s.t.Helper()
	for range 120 {
		s.place()
		if so() {
			return
		}
		must.Get(c.Once(s.t.Context()))(s.t)
		s.run(10 * time.Second)
	}
	s.t.Fatalf("it is not so that %s\n%s", what, s.story())
}

// The client scales the real provider, whose machines are made on the emulated cluster: up for pods
// that wait, down by emptying nodes, and past a machine that cannot be made. Nothing is left of
// what went.
func TestClientScalesTheProvider(t *testing.T) {
	w := begin(t, plan{})
	s := &site{world: w, t: t, marks: map[string]bool{}}
	flags := nodepolicy.DefaultUnneeded()
	flags.ScaleDownUnneededTime, flags.ScaleDownDelayAfterAdd = podscaler.Duration(time.Minute), podscaler.Duration(time.Minute)
	flags.ScaleDownDelayAfterFailure, flags.InitialNodeGroupBackoffDuration = podscaler.Duration(time.Minute), podscaler.Duration(time.Minute)
	c := must.Get(upstream.New(upstream.Config{Provider: w.CloudProviderClient, Cluster: s, Unneeded: flags, Expander: upstream.Price, Now: w.sim.Now, Log: t.Logf}))(t)
	must.Do(t, c.Begin(t.Context()))
	placed := func() bool {
		return !slices.ContainsFunc(s.pods, func(p nodescaler.Pod) bool { return p.Node == "" })
	}
	machines := func(n int) func() bool {
		return func() bool {
			names := []string{}
			for _, node := range s.nodes() {
				names = append(names, node.Name)
			}
			return placed() && len(w.vmNames()) == n && cmp.Equal(names, w.vmNames()) && len(w.discs()) == 0
		}
	}
	s.want(6)
	s.scan(c, "six pods have three small machines", machines(3))
	made := s.moved
	on := map[string]bool{}
	s.pods = slices.DeleteFunc(s.pods, func(p nodescaler.Pod) bool { // one is left on each
		was := on[p.Node]
		on[p.Node] = true
		return was
	})
	s.scan(c, "three pods have two", machines(2))
	if s.moved == made {
		t.Error("no pod was moved, and a node with one went")
	}
	w.inject("fail clone")
	s.want(6)
	failed := func() bool {
		return slices.ContainsFunc(w.instances(w.group("small")), func(i instance) bool { return i.Code != "" })
	}
	s.scan(c, "a machine has failed", failed)
	w.sim.Heal()
	s.scan(c, "six pods have room, whatever failed", func() bool { return placed() && !failed() && len(w.discs()) == 0 })
	s.want(2)
	s.scan(c, "two pods have one machine, and nothing else is left", machines(1))
}
