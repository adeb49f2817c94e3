package operator

import (
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/placement"
)

// poolLike is a pool like scenePool of another name, with its own VMIDs and more of its spec.
func poolLike(name string, first int, more string) string {
	return "\n---\n" + strings.NewReplacer("pool-aa", "pool-"+name, "name: aa", "name: "+name, "first: 1000, last: 1019", fmt.Sprintf("first: %d, last: %d", first, first+19)).Replace(scenePool) + more
}

// lonely is an act in which a pod comes that the town's scheduler places nowhere.
func lonely(at time.Duration, what func(*nodescaler.Pod)) act {
	return act{at: at, do: func(l *setting) {
		l.made++
		l.pods = append(l.pods, &townPod{
			name: fmt.Sprintf("shop/lonely-%d", l.made), of: &service{}, created: l.sim.Now(), asks: pricing.Resources{CPU: 100, Memory: 100 * pricing.MiB}, odd: what,
		})
	}}
}

// prefersSSD is a pod's preference of nodes with a label.
func prefersSSD(p *nodescaler.Pod) {
	p.Prefers = []nodescaler.Preference{{Weight: 10, Affinity: nodescaler.Affinity{{{Key: "disk", Operator: nodescaler.In, Values: []string{"ssd"}}}}}}
}

// holding has every new node of a pool hold daemons.
func holding(d nodescaler.Daemons) func(*setting) {
	return func(l *setting) {
		l.sees = func(s *loop.ClusterState) { s.Daemons = func(*nodescaler.Pool) nodescaler.Daemons { return d } }
	}
}

// delayed orders nothing for young pods.
func delayed() nodepolicy.Spec {
	s := quick()
	s.Unneeded.NewPodScaleUpDelay = nodescaler.Duration(time.Minute)
	return s
}

// onPort is a pod with a host port.
var onPort = nodescaler.Pod{Pod: podscaler.Pod{Name: "kube-system/proxy"}, Has: []string{"port=80"}, Repels: []string{"port=80"}}

// planScenes are about what is planned, and why nothing is.
var planScenes = []scene{
	{
		name: "a pod asks for more memory than a machine has", long: time.Minute,
		acts: []act{lonely(0, func(p *nodescaler.Pod) { p.Requests.Memory = 100 * pricing.GiB })},
		says: []string{nodescaler.InsufficientMemory},
	},
	{
		name: "a pod tolerates no taint", objects: scenePool + "  taints: [{key: gpu, effect: NoSchedule}]\n", services: []*service{deployment("web", 1, 500, halfGiB)}, long: time.Minute,
		says: []string{nodescaler.TaintNotTolerated},
	},
	{
		name: "daemons take all pod slots", objects: scenePool + "  podSlots: 2\n", services: []*service{deployment("web", 1, 500, halfGiB)}, long: time.Minute,
		before: holding(nodescaler.Daemons{Static: nodescaler.Used{Pods: 2}}),
		says:   []string{nodescaler.NoPodSlot},
	},
	{
		name: "a daemon has the port", long: time.Minute, before: holding(nodescaler.Daemons{Sets: []*nodescaler.Pod{&onPort}}),
		acts: []act{lonely(0, func(p *nodescaler.Pod) { p.Has, p.Repels = onPort.Has, onPort.Repels })},
		says: []string{nodescaler.PodsApart},
	},
	{
		name: "hosts lack what pools name", long: time.Minute, services: []*service{deployment("web", 1, 500, halfGiB)},
		objects: scenePool + "  bridge: vmbr9\n" + strings.Replace(poolLike("bb", 1020, ""), "iso: {storage: local}", "iso: {storage: nas}", 1) + poolLike("cc", 1040, "  placement: {storageReserve: 1TiB}\n"),
		says:    []string{placement.CodeBridgeMissing, placement.CodeStorageMissing, placement.CodeStorageFull},
	},
	{
		name: "each host has as many machines as it may", services: []*service{deployment("web", 4, 1500, halfGiB)}, long: 3 * time.Minute,
		objects: scenePool + "  placement: {maxPerHost: 1}\n",
		says:    []string{placement.CodeHostAtLimit, nodescaler.RefusedLately},
	},
	{
		name: "machines would cost too much", services: []*service{deployment("web", 1, 500, halfGiB)}, long: time.Minute,
		before: func(l *setting) { l.cfg.Limit = 1 },
		says:   []string{nodescaler.LimitReached},
	},
	{
		name: "pods are young", nodes: delayed(), services: []*service{deployment("web", 1, 500, halfGiB)}, long: time.Minute,
		says: []string{nodescaler.PodTooYoung},
	},
	{
		name: "pools of one price", long: time.Minute, objects: scenePool + poolLike("bb", 1020, "  labels: {disk: ssd}\n"),
		acts: []act{lonely(0, prefersSSD)},
		says: []string{nodescaler.PreferencesMet},
	},
	{
		name: "the pool that a pod prefers is dearer", long: time.Minute,
		objects: scenePool + strings.Replace(poolLike("bb", 1020, "  labels: {disk: ssd}\n"), "memory: 4GiB", "memory: 8GiB", 1),
		acts:    []act{lonely(0, prefersSSD)},
		says:    []string{nodescaler.PreferenceGivenUp},
	},
	{
		name: "more replicas than all pools could hold", nodes: quick(), services: []*service{deployment("web", 1, 500, halfGiB)}, long: 2 * time.Minute,
		objects: scenePool + webScaled(3000, 3000, "HPA\n  hpa: {metrics: [{type: Resource, name: cpu, averageValue: 300m}]}"),
		before:  func(l *setting) { l.refuses = true }, // the town would make them all
		says:    []string{nodescaler.BeyondAllPools},
	},
	{
		name: "load grows", services: []*service{deployment("web", 2, 500, halfGiB)}, long: 30 * time.Minute,
		objects: scenePool + webScaled(1, 20, "Joint\n  slo: {p: 90th, target: 300ms, window: 1m}\n  cost: {target: \"40\", per: 1h}\n  signals: {preset: Istio}"),
		before: func(l *setting) {
			l.pools["aa"].Spec.Max = 9
			l.service("shop/web").cores = 0.3
		},
		acts: growing(),
		says: []string{nodescaler.PodsExpected},
	},
	{
		name: "kproximate's rules", nodes: nodepolicy.Spec{Policy: "pending"}, services: []*service{deployment("web", 4, 500, halfGiB)}, long: 15 * time.Minute,
		acts: []act{
			lonely(0, func(p *nodescaler.Pod) { p.Requests.CPU = 3 * pricing.Core }),
			{at: 4 * time.Minute, do: func(l *setting) { l.halts(l.ran()) }},
			{at: 7 * time.Minute, do: func(l *setting) { l.starts(l.machines()[0]); l.starts(l.machines()[1]) }},
			{at: 8 * time.Minute, do: func(l *setting) {
				l.service("shop/web").replicas = 2
				l.sees = func(s *loop.ClusterState) {
					for i := range s.Pods {
						s.Pods[i].Pinned = "it is bare"
					}
				}
			}},
			{at: 10 * time.Minute, do: func(l *setting) { l.sees = nil }},
		},
		says: []string{
			nodescaler.LargestOfNeed, nodescaler.SpreadHost, nodescaler.CapacityInFlight, nodescaler.PodTooBig, nodescaler.NodeNotReady, nodescaler.PodPinned,
			nodescaler.LoadFitsFewer, nodescaler.LeastLoaded,
		},
	},
}

// webScaled is an autoscaler of the Deployment web, by a policy and with what follows it.
func webScaled(least, most int, policy string) string {
	return fmt.Sprintf(`
---
kind: WorkloadAutoscaler
metadata: {name: web}
spec:
  mode: Active
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: %d
  maxReplicas: %d
  runPeriod: 10s
  policy: %s
`, least, most, policy)
}

// growing lets the load grow steadily from the fifth minute.
func growing() (all []act) {
	for at := 5 * time.Minute; at < 30*time.Minute; at += 10 * time.Second {
		all = append(all, act{at: at, do: func(l *setting) { l.service("shop/web").cores += 0.03 }})
	}
	return all
}
