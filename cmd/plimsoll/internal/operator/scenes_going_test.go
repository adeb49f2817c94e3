package operator

import (
	"context"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
)

// quick is a node policy that takes nodes down soon.
func quick() nodepolicy.Spec {
	c := nodepolicy.DefaultUnneeded()
	soon := nodescaler.Duration(time.Minute)
	c.ScaleDownUnneededTime, c.ScaleDownUnreadyTime, c.ScaleDownDelayAfterAdd, c.ScaleDownDelayAfterFailure = soon, 2*soon, soon, soon
	return nodepolicy.Spec{Policy: "unneeded", Unneeded: &c}
}

// oneByOne takes nodes down as soon, and one at once.
func oneByOne() nodepolicy.Spec {
	c := quick()
	c.Unneeded.MaxEmptyBulkDelete = 1
	return c
}

// spares keeps one machine as a spare.
func spares() nodepolicy.Spec {
	c := nodepolicy.DefaultJoint()
	c.Spares.Most = 1
	return nodepolicy.Spec{Policy: "joint", Joint: &c}
}

// goingScenes are about machines that go, or are to go and stay.
var goingScenes = []scene{
	{
		name: "a pool keeps its minimum", nodes: quick(), objects: strings.Replace(scenePool, "min: 0", "min: 1", 1), services: []*service{deployment("web", 1, 1500, halfGiB)},
		acts: []act{scaled(2*time.Minute, "web", 0)}, long: 8 * time.Minute,
		says: []string{nodescaler.PoolAtMin},
	},
	{
		name: "pods come to a machine that is to go", nodes: quick(), services: []*service{deployment("late", 0, 500, halfGiB), deployment("web", 1, 1500, halfGiB)}, long: 12 * time.Minute,
		acts: []act{
			scaled(2*time.Minute, "web", 0),
			after(string(nodescaler.Return), func(l *setting) {
				s, now := l.service("shop/late"), l.sim.Now()
				s.replicas = 1
				l.pods = append(l.pods, &townPod{name: "shop/late-bound", of: s, node: l.nodes[0].Name, created: now, starts: now, asks: s.asks})
			}),
		},
		says: []string{pvecode.NodeHoldsPods, pvecode.Revoked},
	},
	{
		name: "the API server fails while a machine goes", nodes: quick(), services: []*service{deployment("web", 1, 1500, halfGiB)}, long: 14 * time.Minute,
		acts: []act{
			scaled(2*time.Minute, "web", 0), fault(0, "slow destroy by=1m"),
			after(string(nodescaler.Return), func(l *setting) { l.blind = true }),
			{at: 8 * time.Minute, do: func(l *setting) { l.blind = false }},
			after(pvecode.DestroyAsked, func(l *setting) { l.refuses = true }),
			after(pvecode.NodeNotRemoved, func(l *setting) { l.refuses = false }),
		},
		says: []string{pvecode.LastLookFailed, pvecode.NodeNotRemoved},
	},
	{
		name: "a machine that is to go has a second disk", nodes: quick(), services: []*service{deployment("web", 1, 1500, halfGiB)}, long: 8 * time.Minute,
		acts: []act{
			{at: time.Minute, do: func(l *setting) {
				v := l.ran()
				if err := l.person.VM(v.Host, v.ID).SetConfig(context.Background(), map[string]string{"scsi1": "local-lvm:1"}, nil, ""); err != nil {
					l.fault("%v", err)
				}
			}},
			scaled(2*time.Minute, "web", 0),
		},
		says: []string{pvecode.StrangeDevice},
	},
	{
		name: "people stop machines", nodes: quick(), services: []*service{deployment("web", 4, 1500, halfGiB)}, long: 15 * time.Minute,
		acts: []act{
			scaled(2*time.Minute, "web", 1),
			{at: 150 * time.Second, do: func(l *setting) {
				for _, v := range l.machines() {
					l.halts(v)
				}
			}},
			{when: func(l *setting) bool { return len(l.fleet.Braked()) > 0 }, do: func(l *setting) {
				l.pools["aa"].Annotations = map[string]string{v1alpha1.AnnotationResumed: l.now().UTC().Format(time.RFC3339)}
			}},
		},
		says: []string{pvecode.Stopped, pvecode.Undrained, pvecode.PoolResumed},
	},
	{
		name: "a person opens a node that is drained", nodes: quick(), services: []*service{deployment("web", 4, 500, halfGiB)}, long: 8 * time.Minute,
		before: func(l *setting) { l.stuck = true },
		acts: []act{
			scaled(2*time.Minute, "web", 2),
			after(string(nodescaler.Evict), func(l *setting) {
				for _, n := range l.nodes {
					n.Cordoned = false
				}
			}),
		},
		says: []string{nodescaler.DrainCalledOff},
	},
}

// manyScenes are about what happens to many nodes at once.
var manyScenes = []scene{
	{
		name: "many nodes are not needed at once", nodes: oneByOne(), services: []*service{deployment("web", 3, 1500, halfGiB)}, long: 8 * time.Minute,
		acts: []act{scaled(2*time.Minute, "web", 0)}, says: []string{nodescaler.ParallelLimit},
	},
	{
		name: "no node reports its status", services: []*service{deployment("web", 4, 1500, halfGiB)}, long: 20 * time.Minute,
		before: func(l *setting) {
			l.sees = func(s *loop.ClusterState) {
				for i := range s.Nodes {
					s.Nodes[i].Ready = s.Nodes[i].Ready && l.now().Before(t0.Add(18*time.Minute))
				}
			}
		},
		says: []string{nodescaler.ClusterUnhealthy},
	},
}

// spareScenes are about spares.
var spareScenes = []scene{
	{
		name: "a spare does not start", nodes: spares(), services: []*service{deployment("web", 1, 1500, halfGiB)}, long: 30 * time.Minute,
		acts: []act{fault(0, "slow clone by=3m"), after(pvecode.Stashed, func(l *setting) {
			l.inject("fail start for=3m")
			l.service("shop/web").replicas = 2
		})},
		says: []string{pvecode.Woken, pvecode.NotWoken},
	},
	{
		name: "spares would pay and none may be kept", nodes: nodepolicy.Spec{Policy: "joint"}, services: []*service{deployment("web", 1, 1500, halfGiB)}, long: 70 * time.Minute,
		acts: []act{fault(0, "slow clone by=3m"), scaled(20*time.Minute, "web", 3), scaled(40*time.Minute, "web", 1), scaled(50*time.Minute, "web", 3)},
		says: []string{nodescaler.SparesAdvised},
	},
	{
		name: "a spare is not what it would be now", nodes: spares(), services: []*service{deployment("web", 1, 1500, halfGiB)}, long: 20 * time.Minute,
		acts: []act{fault(0, "slow clone by=3m"), after(pvecode.Stashed, func(l *setting) {
			l.pools["aa"].Spec.Guest.CPUType = "host"
			l.pools["aa"].Spec.Disruption = &v1alpha1.Disruption{Drift: string(nodescaler.DriftReplace)}
		})},
		says: []string{nodescaler.SpareDrifted},
	},
	{
		name: "another policy keeps no spares", nodes: spares(), services: []*service{deployment("web", 1, 1500, halfGiB)}, long: 20 * time.Minute,
		acts: []act{fault(0, "slow clone by=3m"), after(pvecode.Stashed, func(l *setting) {
			l.cfg.Nodes = quick()
			if err := l.start(); err != nil {
				l.fault("%v", err)
			}
		})},
		says: []string{nodescaler.SpareUnneeded},
	},
	{
		name: "pods take a machine that was to be a spare", nodes: spares(), services: []*service{deployment("web", 1, 1500, halfGiB)}, long: 15 * time.Minute,
		acts: []act{fault(0, "slow clone by=3m"), {
			when: func(l *setting) bool {
				state, _ := l.fleet.List(context.Background())
				for i := range state.Machines {
					if n := l.node(state.Machines[i].Name); n != nil && state.Machines[i].Keep && !l.sim.Now().Before(n.ready) {
						return true
					}
				}
				return false
			},
			do: func(l *setting) { l.service("shop/web").replicas = 2 },
		}},
		says: []string{nodescaler.SpareTaken},
	},
}

// disrupts gives the pool of most scenes a maximum and a block disruption.
func disrupts(maximum int32, d v1alpha1.Disruption) func(*setting) {
	return func(l *setting) { l.pools["aa"].Spec.Max, l.pools["aa"].Spec.Disruption = maximum, &d }
}

// changed has the pool's machines drift.
func changed(at time.Duration) act {
	return act{at: at, do: func(l *setting) { l.pools["aa"].Spec.Guest.CPUType = "host" }}
}

// lifecycleScenes are about machines that work and are to be replaced.
var lifecycleScenes = []scene{
	{
		name: "machines drift and are replaced", services: []*service{deployment("web", 2, 1500, halfGiB)}, long: 30 * time.Minute,
		before: disrupts(4, v1alpha1.Disruption{Drift: "Replace"}), acts: []act{changed(8 * time.Minute), after(string(nodescaler.Return), func(*setting) {})},
		says: []string{nodescaler.MachineDrifted, nodescaler.ReplacementOrdered, nodescaler.ReplacementAwaited, nodescaler.NodeBudgetSpent, v1alpha1.ConditionMachinesOutdated, reasonUpToDate},
	},
	{
		name: "a drifted machine is kept unless drift is asked for", services: []*service{deployment("web", 1, 1500, halfGiB)}, long: 15 * time.Minute,
		acts: []act{changed(8 * time.Minute)}, says: []string{nodescaler.MachineDrifted},
	},
	{
		name: "machines expire", services: []*service{deployment("web", 1, 1500, halfGiB)}, long: 75 * time.Minute,
		before: disrupts(4, v1alpha1.Disruption{ExpireAfter: "1h"}), acts: []act{after(string(nodescaler.Return), func(*setting) {})},
		says: []string{nodescaler.MachineExpired},
	},
	{
		name: "a drifted machine has no room for its replacement", services: []*service{deployment("web", 1, 1500, halfGiB)}, long: 15 * time.Minute,
		before: disrupts(1, v1alpha1.Disruption{Drift: "Replace"}), acts: []act{changed(8 * time.Minute)}, says: []string{nodescaler.ReplacementBlocked},
	},
	{
		name: "nodes break and are replaced", services: []*service{deployment("web", 2, 1500, halfGiB)}, long: 25 * time.Minute,
		before: func(l *setting) {
			disrupts(4, v1alpha1.Disruption{Repair: &v1alpha1.Repair{Conditions: []v1alpha1.NodeAilment{{Type: "KernelDeadlock", Status: "True", For: "2m"}}}})(l)
			l.sees = func(s *loop.ClusterState) { // all at first, and then the first of them
				for i := range s.Nodes {
					since := s.Nodes[i].Joined
					if age := l.now().Sub(since); since.Before(t0.Add(5*time.Minute)) && (i == 0 || l.now().Before(t0.Add(10*time.Minute))) && age > 2*time.Minute {
						s.Nodes[i].Conditions = []nodescaler.NodeCondition{{Type: "KernelDeadlock", Status: "True", Since: since}}
					}
				}
			}
		},
		acts: []act{after(string(nodescaler.Return), func(*setting) {})},
		says: []string{nodescaler.RepairHalted, nodescaler.MachineUnhealthy, reasonRepairing},
	},
	{
		name: "a node breaks, is rebooted and works", services: []*service{deployment("web", 2, 1500, halfGiB)}, long: 20 * time.Minute,
		before: func(l *setting) {
			disrupts(4, v1alpha1.Disruption{Repair: &v1alpha1.Repair{
				Conditions: []v1alpha1.NodeAilment{{Type: "KernelDeadlock", Status: "True", For: "2m"}}, Reboot: &v1alpha1.Reboot{Within: "5m"},
			}})(l)
			l.sees = func(s *loop.ClusterState) {
				since := t0.Add(6 * time.Minute)
				if len(s.Nodes) > 0 && l.now().After(since) && !l.repaired {
					s.Nodes[0].Conditions = []nodescaler.NodeCondition{{Type: "KernelDeadlock", Status: "True", Since: since}}
				}
			}
		},
		acts: []act{scaled(6*time.Minute, "web", 1), after(pvecode.Rebooted, func(l *setting) { l.repaired = true })},
		says: []string{nodescaler.RebootFirst, nodescaler.RebootAwaited, nodescaler.RebootHelped, pvecode.RebootBegun, pvecode.Rebooted, string(nodescaler.Reboot)},
	},
	{
		name: "a machine that cost too much is replaced", services: []*service{deployment("web", 1, 2500, halfGiB), deployment("api", 1, 300, halfGiB)}, long: 60 * time.Minute,
		before: func(l *setting) {
			disrupts(4, v1alpha1.Disruption{Consolidation: &v1alpha1.Consolidation{Policy: "WhenEmptyOrUnderutilized", After: "5m"}})(l)
			large := l.pools["aa"].Spec.Shapes[0]
			large.Name, large.CPU, large.Memory = "large", "4", "8Gi"
			l.pools["aa"].Spec.Shapes = append(l.pools["aa"].Spec.Shapes, large)
		},
		acts: []act{{at: 10 * time.Minute, do: func(l *setting) { l.service("shop/web").replicas = 0 }}, after(string(nodescaler.Return), func(*setting) {})},
		says: []string{nodescaler.MachineCostly, reasonDisrupting},
	},
	{
		name: "room is kept free", services: []*service{deployment("web", 1, 1500, halfGiB)}, long: 12 * time.Minute,
		before: func(l *setting) {
			like := nodescaler.Pod{Workload: "shop/CapacityBuffer/room", Requests: pricing.Resources{CPU: 1500, Memory: 256 * pricing.MiB}}
			l.headroom = []nodescaler.Headroom{{Name: "shop/room", Like: like, Count: 1}}
		},
		acts: []act{{at: 6 * time.Minute, do: func(l *setting) { l.headroom[0].Count = 50 }}},
		says: []string{nodescaler.HeadroomWanted, nodescaler.HeadroomShort},
	},
	{
		name: "the drain of a drifted machine ends", services: []*service{deployment("web", 1, 1500, halfGiB)}, long: 30 * time.Minute,
		before: disrupts(4, v1alpha1.Disruption{Drift: "Replace", TerminationGracePeriod: "2m"}),
		acts: []act{
			{at: 7 * time.Minute, do: func(l *setting) {
				for _, p := range l.pods {
					p.pinned = "annotated"
				}
			}},
			changed(8 * time.Minute), after(nodescaler.DrainEnds, func(*setting) {}), after(string(nodescaler.Return), func(*setting) {}),
		},
		says: []string{nodescaler.DrainEnds, string(nodescaler.DeletePod)},
	},
	{
		name: "volumes are detached before a machine goes", services: []*service{deployment("web", 1, 1500, halfGiB)}, long: 30 * time.Minute,
		before: func(l *setting) {
			disrupts(4, v1alpha1.Disruption{Drift: "Replace"})(l)
			l.service("shop/web").volumes = true
		},
		acts: []act{changed(8 * time.Minute), after(string(nodescaler.Return), func(*setting) {})},
		says: []string{nodescaler.VolumesAttached},
	},
	{
		name: "machines go only when they are empty", services: []*service{deployment("web", 1, 500, halfGiB)}, long: 15 * time.Minute,
		before: disrupts(4, v1alpha1.Disruption{Consolidation: &v1alpha1.Consolidation{Policy: "WhenEmpty"}}), says: []string{nodescaler.WhenEmptyOnly},
	},
	{
		name: "the owner of a drifted node keeps it", services: []*service{deployment("web", 1, 1500, halfGiB)}, long: 15 * time.Minute,
		before: func(l *setting) {
			disrupts(4, v1alpha1.Disruption{Drift: "Replace"})(l)
			l.sees = func(s *loop.ClusterState) {
				for i := range s.Nodes {
					s.Nodes[i].Pinned = `annotated plimsoll.dev/do-not-disrupt: "true"`
				}
			}
		},
		acts: []act{changed(8 * time.Minute)}, says: []string{nodescaler.NodePinned},
	},
}
