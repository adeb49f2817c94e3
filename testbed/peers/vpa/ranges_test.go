package vpa

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/recommendation"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/limitrange"
	vpautils "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/apis/core"
	corefuncs "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/kubesim"
)

// Pods that Kubernetes' LimitRanger admits are sized as they are created and while they run. It has
// to admit them again. Where the Vertical Pod Autoscaler's admission controller makes something
// else of the same, one of the reasons below says why.
const (
	same      = "the same"
	rounded   = "rounded otherwise, by some millicores or bytes"
	refused   = "Kubernetes refuses the original's pod"
	panics    = "the original panics"
	nothing   = "the original has a container request nothing that nothing is recommended for"
	others    = "the original changes a container that nothing is recommended for"
	sidecars  = "the original neither sizes nor counts sidecars"
	policies  = "the original has the policy count, and not the LimitRange"
	starts    = "the original does not count what starts before the containers"
	unfitting = "none of it was admitted, and it stays as it is"
)

func TestTheLimitRangerAdmitsWhatIsSized(t *testing.T) {
	c := &chance{Rand: rand.New(rand.NewPCG(11, 28))}
	by, resized := map[string]int{}, 0
	for range 4 {
		w := newWorld(t, c, 500)
		for i := range w.given {
			g := &w.given[i]
			created := g.created(t, w.cluster)
			for _, r := range resources {
				reason := w.differs(g, r, created)
				if by[string(r)+": "+reason]++; reason == "" {
					t.Errorf("%s\nbecomes %s\nand %s with the original, without a reason that is known for %s", g, text(created), text(w.theirs(g)), r)
				}
			}
			if g.running(t, w.cluster) {
				resized++
			}
		}
		for how := range w.panicked {
			t.Logf("the original panics: %s", how)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		t.Logf("%5d pods: %s", by[reason], reason)
	}
	t.Logf("%5d pods were resized while they ran", resized)
	// One that sizes nothing is refused nothing.
	for _, r := range resources {
		if like, stays := by[string(r)+": "+same]+by[string(r)+": "+rounded], by[string(r)+": "+unfitting]; like < 1000 || stays > 20 {
			t.Errorf("of 2000 pods %d are sized as by the original, and %d stay as they are, in %s", like, stays, r)
		}
	}
	if resized < 1500 {
		t.Errorf("%d of 2000 pods were resized while they ran", resized)
	}
}

// world is a cluster with a pod in each of many namespaces.
type world struct {
	given    []given
	cluster  *kube.Cluster
	upstream recommendation.Provider
	panicked map[string]int // by how
}

func newWorld(t *testing.T, c *chance, pods int) *world {
	t.Helper()
	w := &world{panicked: map[string]int{}}
	g := v1alpha1.GroupVersion
	kinds := []kubesim.Kind{{Group: g.Group, Version: g.Version, Name: v1alpha1.KindScalingProposal, Resource: "scalingproposals", Status: true, Custom: true}}
	for kind, resource := range map[string]string{
		v1alpha1.KindWorkloadAutoscaler: "workloadautoscalers", v1alpha1.KindVMPool: "vmpools", v1alpha1.KindPriceBook: "pricebooks",
	} {
		kinds = append(kinds, kubesim.Kind{Group: g.Group, Version: g.Version, Name: kind, Resource: resource, ClusterWide: resource[0] != 'w', Status: true, Custom: true})
	}
	server, factory := kubesim.New(1, kinds...), informers.NewSharedInformerFactory(nil, 0)
	known := factory.Core().V1().LimitRanges().Informer().GetIndexer()
	for i := range pods {
		given := c.given(fmt.Sprint("n", i))
		w.given = append(w.given, given)
		given.put(t, server)
		for _, l := range given.ranges {
			if err := known.Add(l); err != nil {
				t.Fatal(err)
			}
		}
	}
	calculator, err := limitrange.NewLimitsRangeCalculator(factory)
	if err != nil {
		t.Fatal(err)
	}
	w.upstream = recommendation.NewProvider(calculator, vpautils.NewCappingRecommendationProcessor(calculator))
	if w.cluster, err = kube.New(kube.Config{REST: server.Client("plimsoll", nil).Config()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.cluster.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	if err := w.cluster.Synced(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := w.cluster.Observe(ctx); err != nil {
		t.Fatal(err)
	}
	return w
}

// put has a cluster hold the pod, its LimitRanges, and the status that new pods go by.
func (g *given) put(t *testing.T, server *kubesim.Server) {
	t.Helper()
	running := g.pod.DeepCopy()
	running.Status.Phase = corev1.PodRunning
	objects := []runtime.Object{running}
	for _, l := range g.ranges {
		objects = append(objects, l)
	}
	var created []v1alpha1.CreatedContainer
	for _, name := range slices.Sorted(maps.Keys(g.target)) {
		k := v1alpha1.CreatedContainer{Name: name}
		if q, is := g.target[name][corev1.ResourceCPU]; is {
			k.Requests.CPU = q.String()
		}
		if q, is := g.target[name][corev1.ResourceMemory]; is {
			k.Requests.Memory = q.String()
		}
		created = append(created, k)
	}
	status, err := json.Marshal(created)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Apply(fmt.Sprintf(`{apiVersion: %s, kind: WorkloadAutoscaler, metadata: {name: web, namespace: %s, uid: %[2]s}, `+
		`spec: {scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: web}, mode: Active, policy: HPA, rightsize: {mode: Initial}}, `+
		`status: {rightsize: {created: %[3]s}}}`, v1alpha1.GroupVersion, g.pod.Namespace, status)); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err == nil {
			err = server.Put(raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// valid reports whether the API server would keep LimitRanges, which have its defaults then.
func valid(all []*corev1.LimitRange) bool {
	return !slices.ContainsFunc(all, func(l *corev1.LimitRange) bool {
		corefuncs.SetObjectDefaults_LimitRange(l)
		var in core.LimitRange
		err := corefuncs.Convert_v1_LimitRange_To_core_LimitRange(l, &in, nil)
		return err != nil || len(validation.ValidateLimitRange(&in)) > 0
	})
}

// admit does to a pod what the API server does before webhooks see it, and says what its
// LimitRanger has against it.
func admit(p *corev1.Pod, ranges []*corev1.LimitRange) (*corev1.Pod, error) {
	p = p.DeepCopy()
	corefuncs.SetObjectDefaults_Pod(p)
	var in core.Pod
	err := corefuncs.Convert_v1_Pod_To_core_Pod(p, &in, nil)
	for _, l := range ranges {
		err = errors.Join(err, limitranger.PodMutateLimitFunc(l, &in))
	}
	for _, l := range ranges {
		err = errors.Join(err, limitranger.PodValidateLimitFunc(l, &in))
	}
	out := &corev1.Pod{TypeMeta: p.TypeMeta}
	err = errors.Join(err, corefuncs.Convert_core_Pod_To_v1_Pod(&in, out, nil))
	for _, k := range append(sizable(out), starting(out)...) {
		for _, r := range resources {
			if limit := number(r, k.Resources.Limits); limit > 0 && number(r, k.Resources.Requests) > limit {
				err = errors.Join(err, fmt.Errorf("container %s requests more %s than its limit", k.Name, r))
			}
		}
	}
	return out, err
}

// sizable are a pod's containers and sidecars.
func sizable(p *corev1.Pod) (all []*corev1.Container) {
	for i := range p.Spec.Containers {
		all = append(all, &p.Spec.Containers[i])
	}
	for i := range p.Spec.InitContainers {
		if k := &p.Spec.InitContainers[i]; k.RestartPolicy != nil {
			all = append(all, k)
		}
	}
	return all
}

// starting are a pod's init containers that end.
func starting(p *corev1.Pod) (all []*corev1.Container) {
	for i := range p.Spec.InitContainers {
		if k := &p.Spec.InitContainers[i]; k.RestartPolicy == nil {
			all = append(all, k)
		}
	}
	return all
}

// with is the pod with other amounts; 0 changes nothing.
func with(p *corev1.Pod, changes []rightsize.Change) *corev1.Pod {
	p = p.DeepCopy()
	for _, k := range sizable(p) {
		for _, change := range changes {
			if change.Container == k.Name {
				k.Resources.Requests = set(k.Resources.Requests, change.Requests)
				k.Resources.Limits = set(k.Resources.Limits, change.Limits)
			}
		}
	}
	return p
}

func set(list corev1.ResourceList, to pricing.Resources) corev1.ResourceList {
	if list == nil {
		list = corev1.ResourceList{}
	}
	if to.CPU > 0 {
		list[corev1.ResourceCPU] = quantity(corev1.ResourceCPU, int64(to.CPU))
	}
	if to.Memory > 0 {
		list[corev1.ResourceMemory] = quantity(corev1.ResourceMemory, int64(to.Memory))
	}
	return list
}

// created is the pod as it is created.
func (g *given) created(t *testing.T, c *kube.Cluster) *corev1.Pod {
	t.Helper()
	_, changes := c.Created(g.pod.Namespace, g.pod)
	after, err := admit(with(g.pod, changes), g.ranges)
	if err != nil {
		t.Errorf("%s\nis created as %s: %v", g, text(with(g.pod, changes)), err)
	}
	return after
}

// noon is when all that is recommended is known.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// learnt is what a Sizer knows after two days.
var learnt = func() string {
	wants := &rightsize.Wants{Of: "it"}
	s := rightsize.NewSizer(wants, noon.AddDate(0, 0, -2))
	pod := rightsize.Candidate{Name: "p"}
	var uses []podscaler.ContainerUse
	for _, name := range []string{"app", "proxy", "agent", "sidecar"} {
		pod.Containers = append(pod.Containers, rightsize.Container{Name: name})
		uses = append(uses, podscaler.ContainerUse{Name: name})
	}
	for at := noon.AddDate(0, 0, -2); at.Before(noon); at = at.Add(time.Minute) {
		for i := range uses {
			uses[i].CPU = podscaler.Sample{Known: true, Value: 1, At: at, Span: time.Minute}
			uses[i].Memory = podscaler.Sample{Known: true, Value: 1e9, At: at}
		}
		s.Learn(at, []rightsize.Candidate{pod}, map[string][]podscaler.ContainerUse{"p": uses})
	}
	says, _ := s.Decide(noon, wants, []rightsize.Candidate{pod})
	return says.Saved
}()

// running resizes the pod while it runs, if it is to be, and looks at what comes of it.
func (g *given) running(t *testing.T, c *kube.Cluster) bool {
	t.Helper()
	name := g.pod.Namespace + "/web-0"
	size, known := c.Size(name)
	if !known {
		t.Fatalf("pod %s is not known", name)
	}
	wants := &rightsize.Wants{Of: "it", Mode: rightsize.InPlace, Saved: learnt, Limits: g.rule}
	pod := rightsize.Candidate{Name: name, Ready: true, Pod: size}
	for _, k := range sizable(g.pod) {
		pod.Uses = append(pod.Uses, podscaler.ContainerUse{Name: k.Name, Memory: podscaler.Sample{Known: true, Value: float64(g.uses[k.Name]), At: noon}})
		policy := rightsize.Policy{Container: k.Name, Off: len(g.target[k.Name]) == 0}
		for r := range g.target[k.Name] {
			policy.Controls = append(policy.Controls, rightsize.Resource(r))
		}
		to := set(nil, pricing.Resources{})
		maps.Copy(to, g.target[k.Name])
		policy.Min = pricing.Resources{CPU: pricing.MilliCPU(to.Cpu().MilliValue()), Memory: pricing.Bytes(to.Memory().Value())}
		policy.Max = policy.Min
		wants.Policies = append(wants.Policies, policy)
	}
	if g.rule != "" {
		var all pricing.Resources
		for i := range size.Containers {
			all = all.Plus(size.Containers[i].Requests)
		}
		pod.Node = rightsize.NewShared("n", pricing.Resources{CPU: pricing.MilliCPU(float64(all.CPU) / g.part), Memory: pricing.Bytes(float64(all.Memory) / g.part)})
		pod.Node.Add(name, all, &size, wants)
	}
	s := rightsize.NewSizer(wants, noon)
	for range 2 { // the first round only looks
		s.Learn(noon, []rightsize.Candidate{pod}, nil)
	}
	_, order := s.Decide(noon, wants, []rightsize.Candidate{pod})
	if order == nil {
		return false
	}
	after, err := admit(with(g.pod, order.Changes), g.ranges)
	if was, is := qos.ComputePodQOS(g.pod), qos.ComputePodQOS(after); was != is {
		err = errors.Join(err, fmt.Errorf("class of service %s becomes %s", was, is))
	}
	for _, k := range sizable(after) {
		was, is := number(corev1.ResourceMemory, named(g.pod, k.Name).Resources.Limits), number(corev1.ResourceMemory, k.Resources.Limits)
		if is < g.uses[k.Name] && (is < was || was == 0) && is > 0 {
			err = errors.Join(err, fmt.Errorf("container %s uses %d of memory, and its limit becomes %d", k.Name, g.uses[k.Name], is))
		}
	}
	if err != nil {
		t.Errorf("%s\nwith rule %q is resized to %s: %v\nby %v", g, g.rule, text(after), err, order.Reasons)
	}
	return true
}

// theirs is the pod as the Vertical Pod Autoscaler's admission controller makes it, or nil if that
// panics.
func (w *world) theirs(g *given) (p *corev1.Pod) {
	defer func() {
		if fault := recover(); fault != nil {
			w.panicked[fmt.Sprint(fault)]++
			p = nil
		}
	}()
	vpa := &vpav1.VerticalPodAutoscaler{Spec: vpav1.VerticalPodAutoscalerSpec{ResourcePolicy: g.policy}}
	vpa.Status.Recommendation = &vpav1.RecommendedPodResources{}
	for _, k := range g.pod.Spec.Containers {
		if to := g.target[k.Name]; len(to) > 0 {
			vpa.Status.Recommendation.ContainerRecommendations = append(vpa.Status.Recommendation.ContainerRecommendations,
				vpav1.RecommendedContainerResources{ContainerName: k.Name, Target: to.DeepCopy(), LowerBound: to.DeepCopy(), UpperBound: to.DeepCopy()})
		}
	}
	all, _, err := w.upstream.GetContainersResourcesForPod(g.pod, vpa)
	if err != nil {
		return nil
	}
	p = g.pod.DeepCopy()
	for i := range all {
		k := &p.Spec.Containers[i].Resources
		if len(all[i].Limits) > 0 && k.Limits == nil {
			k.Limits = corev1.ResourceList{}
		}
		if len(all[i].Requests) > 0 && k.Requests == nil {
			k.Requests = corev1.ResourceList{}
		}
		maps.Copy(k.Requests, all[i].Requests)
		maps.Copy(k.Limits, all[i].Limits)
	}
	return p
}

// differs says why a pod is created with other amounts of a resource than by the original, or "".
func (w *world) differs(g *given, r corev1.ResourceName, ours *corev1.Pod) string {
	theirs := w.theirs(g)
	if theirs == nil {
		return panics
	}
	after, err := admit(theirs, g.ranges)
	changed := func(of []*corev1.Container, how func(k *corev1.Container) bool) bool {
		return slices.ContainsFunc(of, func(k *corev1.Container) bool {
			_, is := g.target[k.Name][r]
			return !is && how(k)
		})
	}
	apart := distance(r, ours, after)
	switch {
	case apart == 0:
		return same
	case err != nil && strings.Contains(err.Error(), string(r)):
		return refused
	case apart <= 5 || near(r, ours, after):
		return rounded
	case changed(sizable(theirs), func(k *corev1.Container) bool { q, is := k.Resources.Requests[r]; return is && q.Sign() <= 0 }):
		return nothing
	case distance(r, ours, g.pod) == 0:
		return unfitting
	case changed(sizable(after), func(k *corev1.Container) bool { return furthest(r, k, named(g.pod, k.Name)) > 0 }):
		return others
	}
	return w.counts(g, r, ours)
}

// counts says what the original counts otherwise, or "".
func (w *world) counts(g *given, r corev1.ResourceName, ours *corev1.Pod) string {
	asRecommended := !slices.ContainsFunc(sizable(ours), func(k *corev1.Container) bool {
		to := g.target[k.Name]
		_, is := to[r]
		return is && number(r, to) != number(r, k.Resources.Requests)
	})
	if asRecommended && len(starting(g.pod)) > 0 {
		return starts
	}
	if plain := *g; g.policy != nil {
		if plain.policy = nil; w.differs(&plain, r, ours) != "" {
			return policies
		}
	}
	if named(g.pod, "sidecar") != nil {
		if w.differs(g.flat(), r, (&given{pod: ours}).flat().pod) != "" {
			return sidecars
		}
	}
	return ""
}

// flat has the pod's sidecars be containers.
func (g *given) flat() *given {
	flat := *g
	flat.pod = g.pod.DeepCopy()
	for i, k := range g.pod.Spec.InitContainers {
		if k.RestartPolicy != nil {
			k.RestartPolicy = nil
			flat.pod.Spec.Containers = append(flat.pod.Spec.Containers, k)
			flat.pod.Spec.InitContainers = slices.Delete(flat.pod.Spec.InitContainers, i, i+1)
			break
		}
	}
	return &flat
}

// named is a container of a pod, or nil.
func named(p *corev1.Pod, name string) *corev1.Container {
	for _, k := range sizable(p) {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// distance is by how much the containers of two pods differ at most.
func distance(r corev1.ResourceName, a, b *corev1.Pod) (most int64) {
	for _, k := range sizable(a) {
		most = max(most, furthest(r, k, named(b, k.Name)))
	}
	return most
}

// near reports whether all that two pods have differs by a thousandth at most: where the sum of
// what is scaled is small, its rounding shows in all that is scaled by it.
func near(r corev1.ResourceName, a, b *corev1.Pod) bool {
	return !slices.ContainsFunc(sizable(a), func(k *corev1.Container) bool {
		return furthest(r, k, named(b, k.Name)) > 5+number(r, k.Resources.Requests)/1000
	})
}

func furthest(r corev1.ResourceName, a, b *corev1.Container) int64 {
	requests := number(r, a.Resources.Requests) - number(r, b.Resources.Requests)
	limits := number(r, a.Resources.Limits) - number(r, b.Resources.Limits)
	return max(requests, -requests, limits, -limits)
}

// text is what a pod's containers have.
func text(p *corev1.Pod) (all string) {
	if p == nil {
		return "nothing"
	}
	part := func(what string, list corev1.ResourceList) string {
		return fmt.Sprintf(" %s %d, %d", what, number(corev1.ResourceCPU, list), number(corev1.ResourceMemory, list))
	}
	for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range containers {
			k := &containers[i]
			all += fmt.Sprintf("%s:%s%s; ", k.Name, part("requests", k.Resources.Requests), part("limits", k.Resources.Limits))
		}
	}
	return all
}

func (g *given) String() string {
	all := "a pod with " + text(g.pod) + "in"
	for _, l := range g.ranges {
		for _, i := range l.Spec.Limits {
			all += fmt.Sprintf(" %s:", i.Type)
			for what, list := range map[string]corev1.ResourceList{"min": i.Min, "max": i.Max, "ratio": i.MaxLimitRequestRatio, "default": i.Default} {
				for _, r := range resources {
					if q, is := list[r]; is {
						all += fmt.Sprintf(" %s %s %s", what, r, q.AsDec())
					}
				}
			}
		}
	}
	return all + fmt.Sprintf(", recommended %v", g.target)
}
