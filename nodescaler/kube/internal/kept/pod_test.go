package kept

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// keptPod reads a pod and keeps of it what is kept.
func keptPod(t testing.TB, text string) *Pod {
	t.Helper()
	o := must.Get(Keep(written.Object[corev1.Pod](t, text)))(t)
	return o.(*Pod)
}

func TestPodIsToldInOurWords(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC) }
	for _, c := range []struct {
		name, pod string
		want      nodescaler.Pod
	}{{
		name: "one that runs",
		pod: `metadata: {namespace: shop, name: web-1-a, creationTimestamp: "2026-03-01T12:00:00Z", ` + written.Owned + `}
spec: {nodeName: n-1, priority: 7, nodeSelector: {disk: ssd}, containers: [{name: a, resources: {requests: {cpu: 100m, memory: 64Mi}}}]}
status: {phase: Running, startTime: "2026-03-01T12:01:00Z", conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-03-01T12:02:00Z"}]}`,
		want: nodescaler.Pod{
			Pod:  podscaler.Pod{Name: "shop/web-1-a", Phase: podscaler.Running, Ready: true, Started: at(1), ReadyChanged: at(2)},
			Node: "n-1", Requests: pricing.Resources{CPU: 100, Memory: 64 * pricing.MiB}, Priority: 7, Created: at(0), Selector: map[string]string{"disk": "ssd"},
		},
	}, {
		name: "one that asks for more than CPU and memory",
		pod: `metadata: {namespace: shop, name: b, ` + written.Owned + `}
spec: {nodeName: n-1, initContainers: [{name: i, resources: {requests: {nvidia.com/gpu: 2, example.com/none: 0}}}],
  containers: [{name: a, resources: {requests: {nvidia.com/gpu: 1, hugepages-2Mi: 4Mi, ephemeral-storage: "1500m"}}}, {name: b, resources: {requests: {ephemeral-storage: 1Gi}}}]}`,
		want: nodescaler.Pod{
			Pod: podscaler.Pod{Name: "shop/b"}, Node: "n-1",
			Extra: pricing.Amounts{{Name: "ephemeral-storage", N: 1<<30 + 2}, {Name: "hugepages-2Mi", N: 4 << 20}, {Name: "nvidia.com/gpu", N: 2}},
		},
	}, {
		name: "requests whose sum is more than can be counted take nothing from others",
		pod: `metadata: {namespace: shop, name: b, ` + written.Owned + `}
spec: {nodeName: n-1, containers: [{name: a, resources: {requests: {cpu: 1, memory: "9223372036854775807"}}}, {name: b, resources: {requests: {memory: "9223372036854775807"}}}]}`,
		want: nodescaler.Pod{Pod: podscaler.Pod{Name: "shop/b"}, Node: "n-1", Requests: pricing.Resources{CPU: 1000}},
	}, {
		name: "one that no node takes",
		pod: `metadata: {namespace: shop, name: b, ` + written.Owned + `}
spec: {containers: [{name: a}]}
status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}`,
		want: nodescaler.Pod{Pod: podscaler.Pod{Name: "shop/b", Phase: podscaler.Pending}, Unschedulable: true},
	}, {
		name: "one that others are preempted for",
		pod: `metadata: {namespace: shop, name: b, ` + written.Owned + `}
spec: {containers: [{name: a}]}
status: {phase: Pending, nominatedNodeName: n-1, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}`,
		want: nodescaler.Pod{
			Pod: podscaler.Pod{Name: "shop/b", Phase: podscaler.Pending}, Unschedulable: true, Nominated: "n-1", Pinned: "the scheduler makes room for it there",
		},
	}, {
		name: "one that is not to be scheduled yet",
		pod: `metadata: {namespace: shop, name: b, ` + written.Owned + `}
spec: {schedulingGates: [{name: wait}], containers: [{name: a}]}
status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated}]}`,
		want: nodescaler.Pod{Pod: podscaler.Pod{Name: "shop/b", Phase: podscaler.Pending}},
	}, {
		name: "one that is deleted before it was placed",
		pod: `metadata: {namespace: shop, name: b, deletionTimestamp: "2026-03-01T12:00:00Z", ` + written.Owned + `}
status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}`,
		want: nodescaler.Pod{Pod: podscaler.Pod{Name: "shop/b", Phase: podscaler.Pending, Terminating: true}},
	}, {
		name: "a daemon's",
		pod:  `metadata: {namespace: kube-system, name: d, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: d, controller: true}]}`,
		want: nodescaler.Pod{Pod: podscaler.Pod{Name: "kube-system/d"}, Daemon: true},
	}, {
		name: "one that the kubelet runs by itself",
		pod:  `metadata: {namespace: kube-system, name: s, annotations: {kubernetes.io/config.mirror: x}, ownerReferences: [{apiVersion: v1, kind: Node, name: n, uid: n, controller: true}]}`,
		want: nodescaler.Pod{Pod: podscaler.Pod{Name: "kube-system/s"}, Daemon: true},
	}, {
		name: "init containers run one by one, sidecars stay, and overhead comes on top",
		pod: `metadata: {namespace: shop, name: b, ` + written.Owned + `}
spec: {overhead: {cpu: 5m, memory: 1Mi},
  initContainers: [{name: i, resources: {requests: {cpu: 900m, memory: 10Mi}}}, {name: s, restartPolicy: Always, resources: {requests: {cpu: 50m, memory: 20Mi}}},
    {name: j, resources: {requests: {cpu: 100m, memory: 500Mi}}}],
  containers: [{name: a, resources: {requests: {cpu: 200m, memory: 30Mi}}}, {name: b, resources: {requests: {cpu: 300m, memory: 30Mi}}}]}`,
		want: nodescaler.Pod{
			Pod:      podscaler.Pod{Name: "shop/b"},
			Requests: pricing.Resources{CPU: 905, Memory: 521 * pricing.MiB}, // i; j beside s
		},
	}, {
		name: "what the pod asks for as a whole counts",
		pod: `metadata: {namespace: shop, name: b, ` + written.Owned + `}
spec: {resources: {requests: {cpu: "2"}}, containers: [{name: a, resources: {requests: {cpu: 200m, memory: 30Mi}}}]}`,
		want: nodescaler.Pod{Pod: podscaler.Pod{Name: "shop/b"}, Requests: pricing.Resources{CPU: 2000, Memory: 30 * pricing.MiB}},
	}, {
		name: "fractions are rounded up",
		pod: `metadata: {namespace: shop, name: b, ` + written.Owned + `}
spec: {containers: [{name: a, resources: {requests: {cpu: 100u, memory: 1500m}}}]}`,
		want: nodescaler.Pod{Pod: podscaler.Pod{Name: "shop/b"}, Requests: pricing.Resources{CPU: 1, Memory: 2}},
	}, {
		name: "tolerations that let it onto a node",
		pod: `metadata: {namespace: shop, name: b, ` + written.Owned + `}
spec: {tolerations: [{key: a, operator: Exists, effect: NoSchedule}, {key: b, value: x}, {operator: Exists, effect: NoExecute}, {key: c, operator: Gt, value: "3"},
  {key: d, value: x, effect: PreferNoSchedule}, {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}, {key: e, effect: NoSchedule}]}`,
		want: nodescaler.Pod{
			Pod:         podscaler.Pod{Name: "shop/b"},
			Tolerations: []nodescaler.Toleration{{Key: "a", Effect: "NoSchedule"}, {Key: "b", Value: "x"}, {Effect: "NoExecute"}, {Key: "e", Effect: "NoSchedule", Exact: true}},
		},
	}} {
		t.Run(c.name, func(t *testing.T) {
			got := keptPod(t, c.pod).Says()
			for _, at := range []*time.Time{&got.Created, &got.Started, &got.ReadyChanged} {
				*at = at.UTC()
			}
			got.Asks = nil // see below
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What a HorizontalPodAutoscaler's metrics are in percent of: containers and sidecars by
// themselves, neither other init containers nor overhead; or what the pod requests as a whole.
func TestAsksAreAsAHorizontalPodAutoscalerCountsThem(t *testing.T) {
	got := keptPod(t, `metadata: {namespace: shop, name: b, `+written.Owned+`}
spec:
  overhead: {cpu: 1}
  initContainers:
  - {name: setup, resources: {requests: {cpu: 4}}}
  - {name: sidecar, restartPolicy: Always, resources: {requests: {cpu: 100m}}}
  containers:
  - {name: app, resources: {requests: {cpu: 1500u, memory: 1Ki, example.com/tokens: 2}}}
  - {name: proxy}`).Says().Asks
	want := &podscaler.Asks{Containers: []podscaler.ContainerAsks{
		{Name: "app", Requests: map[string]int64{"cpu": 2, "memory": 1024_000, "example.com/tokens": 2000}}, {Name: "proxy"},
		{Name: "sidecar", Requests: map[string]int64{"cpu": 100}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for resource, wanted := range map[string]string{"cpu": "container proxy of pod shop/b requests no cpu"} {
		if _, why := got.Of("shop/b", resource, ""); why != wanted {
			t.Errorf("%q, should be %q", why, wanted)
		}
	}
	whole := keptPod(t, `metadata: {namespace: shop, name: b, `+written.Owned+`}
spec: {resources: {requests: {cpu: 2}}, containers: [{name: app, resources: {requests: {cpu: 1, memory: 1Ki}}}]}`).Says().Asks
	if cpu, why := whole.Of("shop/b", "cpu", ""); cpu != 2000 || why != "" {
		t.Errorf("the whole requests %d: %s", cpu, why)
	}
	if cpu, why := whole.Of("shop/b", "cpu", "app"); cpu != 1000 || why != "" {
		t.Errorf("its container requests %d: %s", cpu, why)
	}
}

func TestPodsThatMustNotBeEvictedAre(t *testing.T) {
	const disk = `spec: {volumes: [{name: cache, emptyDir: {}}]}`
	for _, c := range []struct{ name, meta, spec, want string }{
		{"a pod like others", written.Owned, "", ""},
		{"one of a job", `ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: j, controller: true}]`, "", ""},
		{"a bare one", "", "", "bare: nothing would make it again"},
		{"written.Owned, without a controller", `ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: c, uid: c}]`, "", "bare: nothing would make it again"},
		{"a bare one that may go", `annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "true"}`, "", ""},
		{"ours", written.Owned + `, annotations: {plimsoll.dev/do-not-evict: "true"}`, "", `annotated plimsoll.dev/do-not-evict: "true"`},
		{"ours, without a value", written.Owned + `, annotations: {plimsoll.dev/do-not-evict: ""}`, "", `annotated plimsoll.dev/do-not-evict: ""`},
		{"ours, taken back", written.Owned + `, annotations: {plimsoll.dev/do-not-evict: "false"}`, "", ""},
		{"Karpenter's", written.Owned + `, annotations: {karpenter.sh/do-not-disrupt: "true"}`, "", `annotated karpenter.sh/do-not-disrupt: "true"`},
		{"cluster-autoscaler's", written.Owned + `, annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "false"}`, "", `annotated cluster-autoscaler.kubernetes.io/safe-to-evict: "false"`},
		{"ours against cluster-autoscaler's", written.Owned + `, annotations: {plimsoll.dev/do-not-evict: "true", cluster-autoscaler.kubernetes.io/safe-to-evict: "true"}`, "", `annotated plimsoll.dev/do-not-evict: "true"`},
		{"with a disk", written.Owned, disk, "local storage: volume cache is an emptyDir"},
		{"with a disk that is in memory", written.Owned, `spec: {volumes: [{name: cache, emptyDir: {medium: Memory}}]}`, ""},
		{"with a path of the node", written.Owned, `spec: {volumes: [{name: logs, hostPath: {path: /var/log}}]}`, "local storage: volume logs is a path of the node"},
		{"with a disk, safe to evict", written.Owned + `, annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "true"}`, disk, ""},
		{"with a disk, safe to lose", written.Owned + `, annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes: "other, cache"}`, disk, ""},
		{"with another disk, safe to lose", written.Owned + `, annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes: "other"}`, disk, "local storage: volume cache is an emptyDir"},
		{"a daemon with a disk", `ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: d, controller: true}]`, disk, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := keptPod(t, "metadata: {namespace: shop, name: a, "+c.meta+"}\n"+c.spec).Form.Pinned; got != c.want {
				t.Errorf("pinned %q, want %q", got, c.want)
			}
		})
	}
}

func TestPodIsKeptOnce(t *testing.T) {
	p := keptPod(t, `metadata: {namespace: shop, name: a}`)
	if again, err := Keep(p); err != nil || again != any(p) {
		t.Errorf("%v, %v", again, err)
	}
}

// anyPod is a pod as the API server shows it, with what real ones are full of.
func anyPod(t testing.TB, i int) *corev1.Pod {
	p := written.Object[corev1.Pod](t, `metadata: {namespace: shop, labels: {app.kubernetes.io/name: web, app.kubernetes.io/instance: web, pod-template-hash: 7d4b9c, team: shop, tier: front},
  annotations: {prometheus.io/scrape: "true", prometheus.io/port: "9090", kubectl.kubernetes.io/restartedAt: "2026-03-01T12:00:00Z"}, `+written.Owned+`}
spec: {nodeName: n-1, serviceAccountName: web, tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300},
    {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}],
  volumes: [{name: token, projected: {sources: [{serviceAccountToken: {path: token}}]}}],
  containers: [{name: main, image: registry.example.com/shop/web:1.2.3, args: [serve, --port=8080], ports: [{containerPort: 8080}],
    env: [{name: A, value: a}, {name: B, value: b}], resources: {requests: {cpu: 100m, memory: 64Mi}}, volumeMounts: [{name: token, mountPath: /var/run}],
    readinessProbe: {httpGet: {path: /ready, port: 8080}}}]}
status: {phase: Running, startTime: "2026-03-01T12:01:00Z", podIP: 10.0.0.1, conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-03-01T12:02:00Z"},
    {type: PodScheduled, status: "True"}, {type: Initialized, status: "True"}, {type: ContainersReady, status: "True"}],
  containerStatuses: [{name: main, image: registry.example.com/shop/web:1.2.3, imageID: "sha256:4c4c", ready: true}]}`)
	p.Name, p.UID, p.ResourceVersion = fmt.Sprintf("web-7d4b9c-%05d", i), types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)), fmt.Sprint(1000000+i)
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 1200))}}
	return p
}

// BenchmarkKeptPod measures how large a pod is as it comes, and as it is kept.
func BenchmarkKeptPod(b *testing.B) {
	const count = 5000
	grown := func(one func(int) any) float64 {
		all := make([]any, count)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range all {
			all[i] = one(i)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(all)
		return float64(after.HeapAlloc-before.HeapAlloc) / count
	}
	kept := func(i int) any {
		return must.Get(Keep(anyPod(b, i)))(b)
	}
	whole, small := grown(func(i int) any { return anyPod(b, i) }), grown(kept)
	p := anyPod(b, 0)
	b.ReportAllocs()
	for b.Loop() {
		must.Get(Keep(p))(b)
	}
	b.ReportMetric(whole, "B/pod-as-it-comes")
	b.ReportMetric(small, "B/pod-kept")
}

func TestNamesOfWhatIsExpectedAreNamesAndLabels(t *testing.T) {
	long := strings.Repeat("a", 253)
	for name, want := range map[string]string{"web": "plimsoll-ahead-web", long: ""} {
		got := ExpectName(name)
		if want != "" && got != want || len(got) > 63 {
			t.Errorf("%s: %s", name, got)
		}
	}
	if ExpectName(long) == ExpectName(long[1:]) {
		t.Error("two that are long have one name")
	}
}
