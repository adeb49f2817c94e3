package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func selects(key, value string) func(*nodescaler.Pod) {
	return func(p *nodescaler.Pod) { p.Selector = map[string]string{key: value} }
}

func reserved(taint nodescaler.Taint, labels map[string]string) func(*nodescaler.Pool) {
	return func(p *nodescaler.Pool) { p.Taints, p.Labels = []nodescaler.Taint{taint}, labels }
}

// Many a claim is bound some seconds after its pod.
func TestANewPodsClaimsHaveTime(t *testing.T) {
	unbound := func(p *nodescaler.Pod) {
		p.Selector = map[string]string{nodescaler.SelectNowhere: "a node with the volume of claim d", nodescaler.SelectHelp: "that volume"}
	}
	w := sample.New().Pod("a", "", 600, 100, unbound)
	for age, reasons := range map[time.Duration]int{time.Minute - time.Second: 0, time.Minute: 1} {
		w.Pods[0].Created = w.Now.Add(-age)
		p := must.Get(New(Spec{Policy: "unneeded"}))(t)
		plan := p.Decide(nodescaler.NewIndex(&w.Snapshot))
		if len(plan.Unplaced) != reasons || len(plan.Actions) > 0 {
			t.Errorf("after %s: %v, and %v", age, plan.Unplaced, plan.Actions)
		}
	}
}

// A pod that waits in vain says what keeps it from each pool, the nearest first, and what would
// help.
func TestPodsWithoutAPlaceSayWhy(t *testing.T) {
	dedicated := nodescaler.Taint{Key: "dedicated", Value: "gpu", Effect: "NoSchedule"}
	for _, c := range []struct {
		name             string
		world            *sample.World
		code, text, help string
	}{
		{"no pool", sample.New().Pod("a", "", 600, 100).Change(func(w *sample.World) { w.Pools = nil }),
			nodescaler.PoolUnknown, "there is no pool that a machine could be ordered from", "a VMPool that is Ready"},
		{"more memory than any machine has", sample.New().Pod("a", "", 600, 64<<10).Change(sample.SecondPool()),
			nodescaler.InsufficientMemory, "pool w: its nearest shape, small, has 1800m CPU and 3.5 GiB for pods, and the pod asks for 600m CPU and 64.0 GiB; " +
				"pool x: its nearest shape, large, has 8000m CPU and 16.0 GiB for pods, and the pod asks for 600m CPU and 64.0 GiB",
			"a larger shape for pool w, or lower requests"},
		{"more CPU", sample.New().Pod("a", "", 1900, 100), nodescaler.InsufficientCPU,
			"pool w: its nearest shape, small, has 1800m CPU and 3.5 GiB for pods, and the pod asks for 1900m CPU and 100 MiB", "a larger shape for pool w, or lower requests"},
		{"what DaemonSets take", sample.New().Pod("a", "", 1700, 100).Change(func(w *sample.World) {
			w.Pools[0].Daemons.Sets = []*nodescaler.Pod{{Requests: pricing.Resources{CPU: 300}}}
			w.Pools[0].Daemons.Sets[0].Name = "kube-system/agent"
		}), nodescaler.InsufficientCPU, "pool w: its nearest shape, small, has 1500m CPU and 3.5 GiB for pods, and the pod asks for 1700m CPU and 100 MiB; " +
			"DaemonSets and static pods take 300m CPU and 0 MiB of each small of pool w, which would hold it without them; the largest is kube-system/agent, with 300m CPU and 0 MiB",
			"a larger shape for pool w, or lower requests"},
		{"a label that no pool has", sample.New().Pod("a", "", 600, 100, selects("disktype", "ssd")).Change(sample.SecondPool()),
			nodescaler.SelectorMismatch, "pools w, x: no label disktype=ssd", "the label disktype=ssd on a pool, or another nodeSelector of the pod"},
		{"a node affinity", sample.New().Pod("a", "", 600, 100, func(p *nodescaler.Pod) {
			p.Affinity = nodescaler.Affinity{{{Key: "gen", Operator: nodescaler.Gt, Values: []string{"3"}}, {Key: "disk", Operator: nodescaler.In, Values: []string{"ssd", "nvme"}}}}
		}), nodescaler.SelectorMismatch, "pool w: the pod's node affinity is not met, which requires gen > 3 and disk in (ssd, nvme)",
			"labels of a pool that meet it, or another node affinity of the pod"},
		{"a volume", sample.New().Pod("a", "", 600, 100, func(p *nodescaler.Pod) {
			p.Volumes = []nodescaler.Affinity{{{{Key: sample.Zone, Operator: nodescaler.In, Values: []string{"b"}}}}}
		}), nodescaler.VolumeElsewhere, "pool w: a volume or device of the pod is out of reach, which requires " + sample.Zone + "=b", "a pool whose nodes have that, or a volume or device elsewhere"},
		{"a taint", sample.New().Pod("a", "", 600, 100).Change(func(w *sample.World) { w.Pools[0].Taints = []nodescaler.Taint{dedicated} }),
			nodescaler.TaintNotTolerated, "pool w: taint dedicated=gpu:NoSchedule is not tolerated", "a toleration of dedicated=gpu:NoSchedule in the pod"},
		{"the pool that is meant comes first", sample.New().Pod("a", "", 600, 100, selects("gpu", "yes")).Change(sample.SecondPool(reserved(dedicated, map[string]string{"gpu": "yes"}))),
			nodescaler.TaintNotTolerated, "pool x: taint dedicated=gpu:NoSchedule is not tolerated; pool w: no label gpu=yes", "a toleration of dedicated=gpu:NoSchedule in the pod"},
		{"and one that would do but for its size before it", sample.New().Pod("a", "", 2600, 100).Change(sample.SecondPool(reserved(dedicated, nil))),
			nodescaler.InsufficientCPU, "pool w: its nearest shape, small, has 1800m CPU and 3.5 GiB for pods, and the pod asks for 2600m CPU and 100 MiB; " +
				"pool x: taint dedicated=gpu:NoSchedule is not tolerated", "a larger shape for pool w, or lower requests"},
		{"what no field says", sample.New().Pod("a", "", 600, 100, selects(nodescaler.SelectNowhere, "a node with nvidia.com/gpu")),
			nodescaler.RequirementUnmet, "the pod asks for a node with nvidia.com/gpu, and no pool is known to have one",
			"a node of that kind which joins without Plimsoll, or a pod that does not ask for it"},
		{"what is known to help", sample.New().Pod("a", "", 600, 100, func(p *nodescaler.Pod) {
			p.Selector = map[string]string{nodescaler.SelectNowhere: "a node with the volume of claim d, which does not exist", nodescaler.SelectHelp: "that claim"}
		}),
			nodescaler.RequirementUnmet, "the pod asks for a node with the volume of claim d, which does not exist, and no pool is known to have one", "that claim"},
		{"more volumes than a machine takes", sample.New().Pod("a", "", 600, 100, func(p *nodescaler.Pod) {
			p.Extra = pricing.Amounts{{Name: nodescaler.AttachableVolumes + "few", N: 4}}
		}).Change(func(w *sample.World) {
			w.Pools[0].Extra = pricing.Amounts{{Name: nodescaler.AttachableVolumes + "few", N: 3}}
		}),
			nodescaler.InsufficientResource, "pool w: its nearest shape, small, has 3 attachable-volumes/few for pods, and the pod asks for 4 attachable-volumes/few",
			"a pool whose machines take more volumes of few, or fewer volumes in the pod"},
		{"a port that a DaemonSet has", sample.New().Pod("a", "", 600, 100, sample.Lonely).Change(func(w *sample.World) {
			w.Pools[0].Daemons.Sets = []*nodescaler.Pod{{Repels: []string{"app=web"}}}
			w.Pools[0].Daemons.Sets[0].Name = "kube-system/agent"
		}), nodescaler.PodsApart, "pool w: each machine holds kube-system/agent, and kube-system/agent shares no node with pods that have app=web",
			"another port or anti-affinity of the pod, or of that DaemonSet"},
		{"no zone", sample.New().Pod("a", "", 600, 100, sample.SpreadBy(sample.Zone, 1)), nodescaler.NoDomain,
			"no node and no pool with the label " + sample.Zone + " can take it", "a pool in another zone, or a looser spread, affinity or anti-affinity in the pod"},
		{"a pool that is paused", sample.New().Pod("a", "", 600, 100).Change(sample.Shut), nodescaler.PoolClosed,
			"pool w: makes no machines now: 3 machines failed in a row", "pool w making machines again; its conditions and events say what is wrong"},
		{"a pool at its maximum", sample.New().Pod("a", "", 600, 100).Change(func(w *sample.World) { w.Pools[0].Max = 0 }), nodescaler.PoolAtMax,
			"pool w: at its maximum of 0 machines", "a max of pool w above 0"},
		{"no room on any host", sample.New().Pod("a", "", 600, 100).Change(func(w *sample.World) {
			for i := range w.Hosts {
				w.Hosts[i].Room = pricing.Resources{CPU: 1000, Memory: pricing.GiB}
			}
		}), nodescaler.NoHostRoom, "pool w: no host has room for its small of 2000m CPU and 4.0 GiB; pve1 has most left, 1000m CPU and 1.0 GiB",
			"room on a host of pool w, another host, or a smaller shape"},
		{"no host", sample.New().Pod("a", "", 600, 100).Change(sample.Refuse("pve1")).Change(func(w *sample.World) { w.Pools[0].Hosts = []string{"pve9"} }), nodescaler.NoHostRoom,
			"pool w: none of its hosts takes new machines", "a host of pool w that is on line and neither cordoned nor in maintenance"},
		{"what hosts refuse", sample.New().Pod("a", "", 600, 100).Change(sample.Refuse("pve1", "pve2", "pve3")), nodescaler.RefusedLately,
			"pool w: makes no such machine now: no room on pve1", "what that says; it is tried again by itself"},
		{"the limit", sample.New().Pod("a", "", 600, 100).Change(func(w *sample.World) { w.Limit = pricing.RateOf(1_000_000) }), nodescaler.LimitReached,
			"pool w: with another small all machines would cost 6.294967296/h of at most 1/h", "a higher limit on the cost"},
		{"a priority that is too low", sample.New().Pod("a", "", 600, 100, func(p *nodescaler.Pod) { p.Priority = -11 }), nodescaler.PodExpendable,
			"its priority of -11 is below -10, and no machine is ordered for such pods", "a higher priority of the pod, or a lower expendablePodsPriorityCutoff of the node policy"},
		{"a quota", sample.New().Pod("ns/a", "", 600, 100).Pod("ns/b", "ns-node", 600, 100).Node("ns-node", "pve1").Change(func(w *sample.World) {
			w.Quotas = []nodescaler.Quota{{Namespace: "ns", Replicas: 1}}
		}), nodescaler.NamespaceQuota, "namespace ns is at its quota: it would have 2 pods of at most 1", "a higher quota of namespace ns"},
		{"room that did not help", sample.New().Pod("a", "", 600, 100).Change(func(w *sample.World) {
			w.Unhelped = map[string]string{"a": "it has waited for 5m0s beside w-1"}
		}), nodescaler.PodsNotHelped,
			"it has waited for 5m0s beside w-1", "what the scheduler says in the pod's events"},
		{"a cluster that is not trusted", sample.New().Pod("a", "", 600, 100).Change(func(w *sample.World) {
			for i := range 5 {
				w.Node(fmt.Sprintf("w-%d", i), "pve1", sample.NotReady)
			}
		}), nodescaler.ClusterUnhealthy, "5 of 5 nodes on hosts that are there are not ready, more than 3 and 45 %: nothing is done", "nodes that are ready again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := must.Get(New(Spec{Policy: "unneeded"}))(t)
			plan := p.Decide(nodescaler.NewIndex(&c.world.Snapshot))
			if len(plan.Unplaced) != 1 {
				t.Fatalf("%d reasons, of %+v", len(plan.Unplaced), plan)
			}
			u := plan.Unplaced[0]
			if d := cmp.Diff([]string{c.code, c.text, c.help}, []string{u.Why.Code, u.Why.Text, u.Help}); d != "" {
				t.Errorf("- want, + is:\n%s", d)
			}
			if !slices.Contains(nodescaler.UnplacedCodes(), u.Why.Code) {
				t.Errorf("%s is not among the codes", u.Why.Code)
			}
			if strings.Contains(u.Text(), nodescaler.SelectNowhere) {
				t.Errorf("an internal label is in %q", u.Text())
			}
			if u.Count != 1 || len(u.Pods) != 1 || u.Coming != 0 {
				t.Errorf("%d pods, %v, %d to come", u.Count, u.Pods, u.Coming)
			}
			if again := p.Decide(nodescaler.NewIndex(c.world.At(1))); !cmp.Equal(again.Unplaced, plan.Unplaced) {
				t.Errorf("between two scans: %+v", again.Unplaced)
			}
		})
	}
}

// Like pods have one reason together, some by name; replicas to come are counted apart, and those
// only expected not at all.
func TestPodsWithoutAPlaceAreCounted(t *testing.T) {
	w := sample.New().Several(25, "ns/a", "", 1900, 100)
	w.Future = []nodescaler.Future{{Like: nodescaler.Pod{Workload: "ns/app", Requests: pricing.Resources{CPU: 1900, Memory: 100 * pricing.MiB}}, Count: 3, Ahead: 2}}
	for _, name := range []string{"unneeded", "joint"} {
		p := must.Get(New(Spec{Policy: name}))(t)
		plan := p.Decide(nodescaler.NewIndex(&w.Snapshot))
		if len(plan.Unplaced) != 1 {
			t.Fatalf("%s: %+v", name, plan.Unplaced)
		}
		u := plan.Unplaced[0]
		if u.Workload != "ns/app" || u.Count != 25 || len(u.Pods) != nodescaler.UnplacedNamed || u.Coming != 3 {
			t.Errorf("%s: %+v", name, u)
		}
	}
}

// What a machine is ordered for, or has room for on one that is on its way, has a place.
func TestPodsThatAreHelpedAreNotUnplaced(t *testing.T) {
	for name, w := range map[string]*sample.World{
		"ordered":       sample.New().Pod("a", "", 600, 100),
		"on its way":    sample.New().Change(booting("w-1", "pve1")).Pod("a", "", 600, 100).Change(func(w *sample.World) { w.Pools[0].Max, w.Machines[0].Created = 1, w.Now }),
		"on a node":     sample.New().Node("w-1", "pve1").Pod("a", "", 600, 100).Change(func(w *sample.World) { w.Pools[0].Max = 1 }),
		"no pod at all": sample.New(),
	} {
		for _, policy := range []string{"unneeded", "joint", "pending"} {
			p := must.Get(New(Spec{Policy: policy}))(t)
			// It does not look at nodes.
			if plan := p.Decide(nodescaler.NewIndex(&w.Snapshot)); len(plan.Unplaced) > 0 && !(policy == "pending" && name == "on a node") {
				t.Errorf("%s, %s: %+v", policy, name, plan.Unplaced)
			}
		}
	}
}

// pending names what its one shape does not hold, and what its pool may not have.
func TestPendingSaysWhyPodsHaveNoPlace(t *testing.T) {
	for _, c := range []struct {
		name  string
		world *sample.World
		want  []string
	}{
		{"a label", sample.New().Pod("a", "", 600, 100, selects("disk", "ssd")), []string{nodescaler.SelectorMismatch}},
		{"too big", sample.New().Pod("a", "", 2600, 100), []string{nodescaler.InsufficientCPU}},
		{"too big and others", sample.New().Pod("a", "", 2600, 100).Pod("b", "", 600, 100), []string{nodescaler.InsufficientCPU}},
		{"the maximum", sample.New().Pod("a", "", 600, 100).Change(func(w *sample.World) { w.Pools[0].Max = 0 }), []string{nodescaler.PoolAtMax}},
		{"no pool", sample.New().Pod("a", "", 600, 100).Change(func(w *sample.World) { w.Pools = nil }), []string{nodescaler.PoolUnknown}},
	} {
		p := must.Get(New(Spec{Policy: "pending"}))(t)
		var is []string
		for _, u := range p.Decide(nodescaler.NewIndex(&c.world.Snapshot)).Unplaced {
			is = append(is, u.Why.Code)
		}
		if !slices.Equal(is, c.want) {
			t.Errorf("%s: %v, want %v", c.name, is, c.want)
		}
	}
}

// A pod that the scheduler has no node for, where nothing grows and nothing is on its way, has room
// on a node that takes it or a reason that names it.
func TestNoPodWaitsInSilence(t *testing.T) {
	for _, name := range []string{"joint", "unneeded"} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			w := anyWorld(t)
			plan := sample.Decide(t, build(t, anySpec(t, name)), &w.Snapshot)
			counted := 0
			for i := range plan.Unplaced {
				counted += plan.Unplaced[i].Count
			}
			x := nodescaler.NewIndex(&w.Snapshot)
			if counted > len(x.Pending) {
				t.Fatalf("%d pods have no place, of %d that wait", counted, len(x.Pending))
			}
			moves := func(m *nodescaler.Machine) bool {
				return m.Phase != nodescaler.Joined || x.NodeOf(m.Name) == nil || !x.NodeOf(m.Name).Ready
			}
			if slices.ContainsFunc(x.Machines, moves) || slices.ContainsFunc(plan.Actions, func(a nodescaler.Action) bool { return a.Kind.Grows() || a.Kind == nodescaler.Return }) {
				return
			}
			for _, p := range x.Pending {
				open := slices.ContainsFunc(x.Nodes, func(n nodescaler.NodeLoad) bool {
					return nodescaler.Accepts(p, n.Node) == "" && p.Requests.Within(n.Allocatable)
				})
				named := slices.ContainsFunc(plan.Unplaced, func(u nodescaler.Unplaced) bool { return slices.Contains(u.Pods, p.Name) })
				if !open && !named {
					t.Fatalf("%s waits and has no reason:%s", p.Name, sample.Reasons(plan))
				}
			}
		}))
	}
}

// Pods that are packed as one since they share a node each have their reason.
func TestPodsThatArePackedTogetherAllHaveAReason(t *testing.T) {
	w := sample.New().Change(func(w *sample.World) { w.Pools[0].Max = 0 })
	for _, name := range []string{"ns/a", "ns/b", "ns/c"} {
		w.Pod(name, "", 100, 100, func(p *nodescaler.Pod) {
			p.Has, p.Topology = []string{"app=web"}, []nodescaler.Topology{{Key: nodescaler.HostLabel, Mark: "app=web", Together: true}}
		})
	}
	p := must.Get(New(Spec{Policy: "joint"}))(t)
	plan, count := p.Decide(nodescaler.NewIndex(&w.Snapshot)), 0
	for _, u := range plan.Unplaced {
		if count += u.Count; u.Why.Code != nodescaler.PoolAtMax {
			t.Errorf("%+v", u)
		}
	}
	if count != 3 {
		t.Errorf("%d have a reason: %+v", count, plan.Unplaced)
	}
}
