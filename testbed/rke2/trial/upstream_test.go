package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// upstreamSite is a site whose machines cluster-autoscaler decides on.
const upstreamSite = siteText + `  vmPool: {mode: Active, scaledBy: ClusterAutoscaler}
addons:
  plimsoll: {mode: Active, nodes: ClusterAutoscaler, clusterAutoscalerImage: 'registry.example/cluster-autoscaler:v1.34.0'}
`

// handed is the experiment with the row slocost-b's machines left to cluster-autoscaler, and
// slocost-a's not, of which some are tried.
func handed(t testing.TB, unneeded string, rows ...string) *testbed.Experiment {
	t.Helper()
	file := must.Get(testbed.File("slo-cost"))(t)
	before, row, _ := strings.Cut(string(file), "- name: slocost-b\n")
	row = strings.Replace(row, "nodes: *pending", "nodes: {policy: unneeded, scaledBy: ClusterAutoscaler, unneeded: "+unneeded+"}", 1)
	e := must.Get(testbed.Parse([]byte(before + "- name: slocost-b\n" + row)))(t)
	e = must.Get(e.With(testbed.Options{Policies: rows, Users: []int{10}, Trials: 1, Duration: time.Minute}))(t)
	return e
}

func upstreamRow(t testing.TB) *testbed.Experiment {
	return handed(t, "{scaleDownUnneededTime: 1m}", "slocost-b")
}

// built is a bed as up leaves it for a site with cluster-autoscaler: that runs.
func built(t testing.TB, b *bed) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.site = upstreamSite
	one := int32(1)
	labels := map[string]string{"app": autoscalerName}
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "plimsoll", Name: "plimsoll-provider"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "plimsoll-provider-client"}},
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: autoscalerName},
			Spec:       appsv1.DeploymentSpec{Replicas: &one, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}},
		},
	} {
		b.must(b.objects.Create(t.Context(), o))
	}
}

// ended reports whether a pod that was evicted has had its time.
func ended(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && time.Since(c.LastTransitionTime.Time) >= 4*time.Second
	})
}

// decides wants one to decide on machines, and the pool to say who.
func (b *bed) decides(ctx context.Context, p *corev1.Pod, pool *v1alpha1.VMPool, policy string) {
	var theirs corev1.PodList
	b.must(b.objects.List(ctx, &theirs, client.InNamespace("kube-system"), client.MatchingLabels{"app": autoscalerName}))
	components, by := "--components=podscaler,nodescaler", v1alpha1.ScaledByPlimsoll
	if policy == "provider" {
		components, by = "--components=podscaler,provider", v1alpha1.ScaledByClusterAutoscaler
	} else if len(theirs.Items) > 0 {
		b.t.Errorf("there are %d pods of cluster-autoscaler while Plimsoll decides on machines", len(theirs.Items))
	}
	if args := p.Spec.Containers[0].Args; !slices.Contains(args, components) || pool.Spec.ScaledBy != by {
		b.t.Errorf("Plimsoll runs with policy %s and %v, and the pool is scaled by %s", policy, args, pool.Spec.ScaledBy)
	}
}

// autoscaler is a cluster-autoscaler that a run has started: it orders a machine once the workload
// has grown, moves a pod 40 s after the load has begun, and is about to give a machine back when it
// is stopped.
func (b *bed) autoscaler(ctx context.Context) {
	var pods corev1.PodList
	b.must(b.objects.List(ctx, &pods, client.InNamespace("kube-system"), client.MatchingLabels{"app": autoscalerName}))
	if len(pods.Items) == 0 || pods.Items[0].Annotations[attempt] == "" {
		b.scans = 0
		return
	}
	status := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: statusName}}
	b.must(b.objects.Delete(ctx, status))
	status.ResourceVersion, status.Data = "", map[string]string{"status": "autoscalerStatus: Running"}
	if b.scans++; b.scans < 3 {
		status.Data["status"] = "autoscalerStatus: Initializing"
	}
	b.must(b.objects.Create(ctx, status))
	if b.grown && b.number == 1 {
		b.number++
	}
	if !b.began.IsZero() && time.Since(b.began) >= 40*time.Second && time.Since(b.began) < 41*time.Second {
		b.drain(ctx)
	}
}

// drain evicts a pod of the application's, and taints a node.
func (b *bed) drain(ctx context.Context) {
	var pods corev1.PodList
	b.must(b.objects.List(ctx, &pods, client.InNamespace("plimsoll-testbed")))
	at := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return p.Annotations["of"] != "job" })
	if at < 0 {
		return
	}
	p := &pods.Items[at]
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", LastTransitionTime: metav1.Now(),
	})
	b.must(b.objects.Status().Update(ctx, p))
	var n corev1.Node
	b.must(b.objects.Get(ctx, client.ObjectKey{Name: "workers-1"}, &n))
	n.Spec.Unschedulable = true
	n.Spec.Taints = []corev1.Taint{{Key: emptiedTaint, Effect: corev1.TaintEffectNoSchedule}, {Key: "other", Effect: corev1.TaintEffectNoSchedule}}
	b.must(b.objects.Update(ctx, &n))
}

// As in other rows, but that the machine is seen a step later, and is ordered, and a pod moved, by
// cluster-autoscaler.
func TestARunWithClusterAutoscalerIsScored(t *testing.T) {
	r, _ := made(t, built, upstreamRow)
	got := r.Runs[0]
	want := testbed.Trial{
		NodePolicy: "ClusterAutoscaler", Requests: 500, Orders: 1, PodMoves: 1, UpheavalPerHour: 120, Decisions: 1,
		VMHours: testbed.Rounded((18 + 42*2) / 3600.), CostUnits: testbed.Rounded(10 * (23 + 37*2) / 3600.),
	}
	have := testbed.Trial{
		NodePolicy: got.NodePolicy, Requests: got.Requests, Orders: got.Orders, Returns: got.Returns, PodMoves: got.PodMoves, UpheavalPerHour: got.UpheavalPerHour,
		Decisions: got.Decisions, VMHours: got.VMHours, CostUnits: got.CostUnits, Warning: got.Warning,
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRunsWithClusterAutoscalerGoOnWhereverTheProcessDied(t *testing.T) {
	race.Skip(t)
	dies(t, built, upstreamRow)
}

// Rows of both kinds are made on one test bed, in turn; decides holds at every step.
func TestRowsWithClusterAutoscalerAndWithoutTakeTurns(t *testing.T) {
	within(t, func(t *testing.T, b *bed) {
		built(t, b)
		e := must.Get(handed(t, "{}", "slocost-a", "slocost-b").With(testbed.Options{Trials: 2}))(t)
		r := must.Get(b.run(t.Context(), e))(t)
		by := map[string]int{}
		for i := range r.Runs {
			by[r.Runs[i].NodePolicy] += 1 + 10*r.Runs[i].PodMoves
		}
		if diff := cmp.Diff(map[string]int{"pending": 2, "ClusterAutoscaler": 22}, by); diff != "" {
			t.Errorf("rows, and tens of pods that were moved (-want +got)\n%s", diff)
		}
	})
}

func TestClusterAutoscalerIsStoppedBehindARun(t *testing.T) {
	within(t, func(t *testing.T, b *bed) {
		built(t, b)
		must.Get(b.run(t.Context(), upstreamRow(t)))(t)
		var d appsv1.Deployment
		b.must(b.objects.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: autoscalerName}, &d))
		if *d.Spec.Replicas != 0 {
			t.Errorf("it is to have %d pods", *d.Spec.Replicas)
		}
		var n corev1.Node
		b.must(b.objects.Get(t.Context(), client.ObjectKey{Name: "workers-1"}, &n))
		if diff := cmp.Diff([]corev1.Taint{{Key: "other", Effect: corev1.TaintEffectNoSchedule}}, n.Spec.Taints); diff != "" || n.Spec.Unschedulable {
			t.Errorf("the node that it was about to give back is cordoned: %v, and has other taints (-want +got)\n%s", n.Spec.Unschedulable, diff)
		}
	})
}

func TestWhatClusterAutoscalerLacksIsTold(t *testing.T) {
	for want, prepare := range map[string]func(t *testing.T, b *bed) *testbed.Experiment{
		"there is no secret kube-system/plimsoll-provider-client: plimsoll testbed rke2 up makes it where addons.plimsoll.nodes is ClusterAutoscaler": func(t *testing.T, b *bed) *testbed.Experiment {
			b.must(b.objects.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "plimsoll-provider-client"}}))
			return upstreamRow(t)
		},
		"the cluster does not know the kind CapacityBuffer.autoscaling.x-k8s.io": func(t *testing.T, _ *bed) *testbed.Experiment {
			return handed(t, "{capacityBufferPodInjectionEnabled: true}", "slocost-b")
		},
	} {
		within(t, func(t *testing.T, b *bed) {
			built(t, b)
			began := time.Now()
			if _, err := b.run(t.Context(), prepare(t, b)); err == nil || !strings.Contains(err.Error(), want) || time.Since(began) > time.Minute {
				t.Errorf("after %s: %v\nwant %s", time.Since(began), err, want)
			}
		})
	}
}

func TestAClusterAutoscalerThatBeginsAnewRuinsTheRun(t *testing.T) {
	within(t, func(t *testing.T, b *bed) {
		built(t, b)
		go func() {
			for t.Context().Err() == nil {
				time.Sleep(time.Second)
				b.mu.Lock()
				var pods corev1.PodList
				b.must(b.objects.List(t.Context(), &pods, client.InNamespace("kube-system"), client.MatchingLabels{"app": autoscalerName}))
				if !b.began.IsZero() && len(pods.Items) == 1 {
					pods.Items[0].Status.ContainerStatuses = []corev1.ContainerStatus{{
						RestartCount: 1, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 255, Reason: "Error"}},
					}}
					b.must(b.objects.Status().Update(t.Context(), &pods.Items[0]))
					b.mu.Unlock()
					return
				}
				b.mu.Unlock()
			}
		}()
		_, err := b.run(t.Context(), upstreamRow(t))
		time.Sleep(time.Minute) // who prints logs finds out that no one reads them
		if want := "cluster-autoscaler has begun anew: it ended with 255 Error"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

// usualFlags are those of a row that says nothing.
var usualFlags = []string{
	"--scan-interval=10s", "--frequent-loops-enabled=false", "--expendable-pods-priority-cutoff=-10", "--new-pod-scale-up-delay=0s",
	"--enforce-node-group-min-size=false", "--max-node-provision-time=15m0s", "--initial-node-group-backoff-duration=5m0s",
	"--max-node-group-backoff-duration=30m0s", "--node-group-backoff-reset-timeout=3h0m0s", "--scale-down-utilization-threshold=0.5",
	"--ignore-daemonsets-utilization=false", "--scale-down-unneeded-time=10m0s", "--scale-down-unready-time=20m0s",
	"--scale-down-delay-after-add=10m0s", "--scale-down-delay-after-delete=0s", "--scale-down-delay-after-failure=3m0s",
	"--max-scale-down-parallelism=10", "--max-drain-parallelism=1", "--max-pod-eviction-time=2m0s", "--max-graceful-termination-sec=600",
	"--node-delete-delay-after-taint=5s", "--ok-total-unready-count=3", "--max-total-unready-percentage=45",
}

// The row's cluster-autoscaler is the manifests' with the site's image and the row's flags, each
// said once.
func TestClusterAutoscalerHasTheRowsFlags(t *testing.T) {
	manifests := []string{
		"./cluster-autoscaler", "--cloud-provider=externalgrpc", "--cloud-config=/etc/plimsoll/cloud-config.yaml", "--namespace=kube-system",
		"--node-info-cache-expire-time=1h", "--balancing-ignore-label=plimsoll.dev/pool", "--expander=grpc",
	}
	buffers := []string{"--capacity-buffer-controller-enabled=true", "--capacity-buffer-pod-injection-enabled=true", "--kube-api-content-type=application/json"}
	expander := []string{"--grpc-expander-url=plimsoll.plimsoll.svc:8087", "--grpc-expander-cert=/etc/plimsoll/tls/ca.crt"}
	for _, row := range []struct {
		unneeded string
		more     []string
		changed  map[string]string
	}{
		{unneeded: "{}"},
		{unneeded: "{capacityBufferPodInjectionEnabled: true}", more: buffers},
		{
			unneeded: "{scanInterval: 5s, scaleDownUnneededTime: 90s, scaleDownUtilizationThreshold: 0.75, maxGracefulTermination: 30s, enforceNodeGroupMinSize: true, frequentLoopsEnabled: true, maxTotalUnreadyPercentage: 12.5}",
			changed: map[string]string{
				"--scan-interval": "5s", "--scale-down-unneeded-time": "1m30s", "--scale-down-utilization-threshold": "0.75", "--max-graceful-termination-sec": "30",
				"--enforce-node-group-min-size": "true", "--frequent-loops-enabled": "true", "--max-total-unready-percentage": "12.5",
			},
		},
	} {
		want := slices.Concat(manifests, row.more, expander)
		for _, f := range usualFlags {
			name, _, _ := strings.Cut(f, "=")
			if v, is := row.changed[name]; is {
				f = name + "=" + v
			}
			want = append(want, f)
		}
		objects := must.Get(newRow(t, handed(t, row.unneeded, "slocost-b")).upstream())(t)
		at := slices.IndexFunc(objects, func(o client.Object) bool { _, is := o.(*appsv1.Deployment); return is })
		d, _ := objects[at].(*appsv1.Deployment)
		c := d.Spec.Template.Spec.Containers[0]
		if diff := cmp.Diff(want, c.Command); diff != "" || c.Image != "registry.example/cluster-autoscaler:v1.34.0" || *d.Spec.Replicas != 1 {
			t.Errorf("%s: %s, %d (-want +got)\n%s", row.unneeded, c.Image, *d.Spec.Replicas, diff)
		}
	}
}

// newRow is a run of an experiment's only row.
func newRow(t *testing.T, e *testbed.Experiment) *run {
	t.Helper()
	b := newBed(t)
	b.site = upstreamSite
	r := must.Get(b.world().newRun(e, &testbed.Job{Policy: &e.Policies[0], Level: testbed.Level{Users: 10}, Trial: 1, Length: time.Minute}))(t)
	return r
}

// The configurations of Plimsoll and its pool, by who decides on machines.
func TestConfigurationsSayWhoDecidesOnMachines(t *testing.T) {
	provider := map[string]any{"listen": ":8086", "expander": ":8087", "tls": map[string]any{
		"certificate": "provider-tls.crt", "clientCA": "provider-ca.crt", "key": "provider-tls.key", "clients": []any{"cluster-autoscaler"},
	}}
	for _, row := range []struct {
		name, unneeded, by string
		handoff, provider  any
		policy             bool
	}{
		{name: "slocost-a", unneeded: "{}", by: "Plimsoll", policy: true},
		{name: "slocost-b", unneeded: "{}", by: "ClusterAutoscaler", handoff: map[string]any{"by": "none"}, provider: provider},
		{name: "slocost-b", unneeded: "{capacityBufferPodInjectionEnabled: true}", by: "ClusterAutoscaler", handoff: map[string]any{"by": "CapacityBuffer"}, provider: provider},
	} {
		r := newRow(t, handed(t, row.unneeded, row.name))
		objects := must.Get(r.installed(r.scaling(), r.row(), r.attempt, 1))(t)
		var config map[string]any
		for _, o := range objects {
			if u, is := o.(*unstructured.Unstructured); is && u.GetKind() == "ConfigMap" {
				config = read(t, u)
			}
		}
		if diff := cmp.Diff([]any{row.handoff, row.provider, row.policy}, []any{config["handoff"], config["provider"], config["nodes"] != nil}); diff != "" {
			t.Errorf("%s %s: handoff, provider and whether there are nodes (-want +got)\n%s", row.name, row.unneeded, diff)
		}
		offer := must.Get(r.offer(r.scaling()))(t)
		pool, _ := offer[1].(*unstructured.Unstructured)
		spec, _ := pool.Object["spec"].(map[string]any)
		if spec["scaledBy"] != row.by || spec["mode"] != "Active" {
			t.Errorf("%s: the pool is %v, scaled by %v", row.name, spec["mode"], spec["scaledBy"])
		}
	}
}

func TestFlagsThatClusterAutoscalerLacksAreRefused(t *testing.T) {
	const key = "policies x nodes.unneeded"
	for want, change := range map[string]func(*nodepolicy.Unneeded){
		"": func(*nodepolicy.Unneeded) {},
		key + ".maxEmptyBulkDelete: omitted, as cluster-autoscaler has no such flag any more,: 5":           func(u *nodepolicy.Unneeded) { u.MaxEmptyBulkDelete = 5 },
		key + ".maxNodeStartupTime: omitted, as few releases of cluster-autoscaler have such a flag,: 1m0s": func(u *nodepolicy.Unneeded) { u.MaxNodeStartupTime = nodescaler.Duration(time.Minute) },
		key + ".maxGracefulTermination: whole seconds: 1.5s":                                                func(u *nodepolicy.Unneeded) { u.MaxGracefulTermination = nodescaler.Duration(1500 * time.Millisecond) },
	} {
		u := nodepolicy.DefaultUnneeded()
		change(&u)
		got := ""
		checkFlags(&u, key, func(kept bool, key, rule string, was any) {
			if !kept {
				got = fmt.Sprintf("%s: %s: %v", key, rule, was)
			}
		})
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestPodsThatMayHaveEndedUnseenAreDoubted(t *testing.T) {
	e := &evictions{most: 4 * time.Second}
	if doubt := e.doubt(5 * time.Second); doubt != "" {
		t.Error(doubt)
	}
	const want = "two were 4s apart, and a pod ends in 3s"
	if doubt := e.doubt(3 * time.Second); !strings.Contains(doubt, want) {
		t.Errorf("%q, want %s", doubt, want)
	}
}

// read is the configuration in a ConfigMap.
func read(t *testing.T, o *unstructured.Unstructured) map[string]any {
	t.Helper()
	text, _, err := unstructured.NestedString(o.Object, "data", "config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	must.Do(t, yaml.Unmarshal([]byte(text), &config))
	return config
}
