package vpa

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"

	"github.com/plimsoll/plimsoll/podscaler/rightsize"
)

// given is a pod that the LimitRanges of its namespace admit, and what is recommended for it.
type given struct {
	ranges []*corev1.LimitRange
	pod    *corev1.Pod
	target map[string]corev1.ResourceList // by container
	// policy allows that, and not much else.
	policy *vpav1.PodResourcePolicy
	// rule is that of its limits, or "", and part how much of its node it requests.
	rule rightsize.Rule
	part float64
	uses map[string]int64 // bytes, by container
}

// chance draws.
type chance struct {
	*rand.Rand
	most map[corev1.ResourceName]int64 // of what containers request
}

// one reports true once in n times.
func (c *chance) one(n int) bool { return c.IntN(n) == 0 }

// given draws until a pod is admitted.
func (c *chance) given(namespace string) given {
	for {
		cpu, memory := []int64{20, 3000}[c.IntN(2)], []int64{64 << 10, 4 << 30}[c.IntN(2)]
		c.most = map[corev1.ResourceName]int64{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}
		g := given{pod: c.pod(namespace), target: map[string]corev1.ResourceList{}, part: 0.1 + c.Float64()/2, uses: map[string]int64{}}
		for i := range 1 + c.IntN(2) {
			g.ranges = append(g.ranges, c.limitRange(g.pod, fmt.Sprint("l", i)))
		}
		if !valid(g.ranges) {
			continue
		}
		admitted, err := admit(g.pod, g.ranges)
		if err != nil {
			continue
		}
		g.pod = admitted
		for _, k := range sizable(g.pod) {
			if list := c.recommended(); len(list) > 0 && !c.one(6) {
				g.target[k.Name] = list
			}
			if len(g.target[k.Name]) > 0 && c.one(5) {
				g.allow(k.Name)
			}
			g.uses[k.Name] = c.Int64N(k.Resources.Limits.Memory().Value() + 1)
		}
		if c.one(3) {
			g.rule = rightsize.Rules()[c.IntN(3)]
		}
		return g
	}
}

// allow has the policy allow little else than what is recommended for a container.
func (g *given) allow(container string) {
	policy := vpav1.ContainerResourcePolicy{ContainerName: container, MinAllowed: corev1.ResourceList{}, MaxAllowed: corev1.ResourceList{}}
	for r := range g.target[container] {
		n := number(r, g.target[container])
		policy.MinAllowed[r], policy.MaxAllowed[r] = quantity(r, max(n-n/10, 1)), quantity(r, n+n/10)
	}
	if g.policy == nil {
		g.policy = &vpav1.PodResourcePolicy{}
	}
	g.policy.ContainerPolicies = append(g.policy.ContainerPolicies, policy)
}

func (c *chance) amount(r corev1.ResourceName) int64 { return 1 + c.Int64N(c.most[r]) }

func quantity(r corev1.ResourceName, n int64) resource.Quantity {
	if r == corev1.ResourceCPU {
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	}
	return *resource.NewQuantity(n, resource.BinarySI)
}

func number(r corev1.ResourceName, list corev1.ResourceList) int64 {
	if r == corev1.ResourceCPU {
		return list.Cpu().MilliValue()
	}
	return list.Memory().Value()
}

// pod draws up to three containers, a sidecar and an init container that ends.
func (c *chance) pod(namespace string) *corev1.Pod {
	yes, always := true, corev1.ContainerRestartPolicyAlways
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "web-0", UID: "web-0",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "web", Controller: &yes}},
		},
	}
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	for _, name := range []string{"app", "proxy", "agent"}[:1+c.IntN(3)] {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name, Image: "i", Resources: c.resources()})
	}
	if c.one(4) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "sidecar", Image: "i", Resources: c.resources(), RestartPolicy: &always})
	}
	if c.one(4) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "setup", Image: "i", Resources: c.resources()})
	}
	return p
}

// resources draws requests and limits, the one or the other, or nothing.
func (c *chance) resources() corev1.ResourceRequirements {
	all := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	for _, r := range resources {
		request := c.amount(r)
		which := c.IntN(10)
		if which < 7 {
			all.Requests[r] = quantity(r, request)
		}
		if which > 2 && which < 9 {
			all.Limits[r] = quantity(r, request+c.Int64N(2*request))
		}
	}
	return all
}

// recommended draws what is recommended for a container.
func (c *chance) recommended() corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, r := range resources {
		if !c.one(8) {
			list[r] = quantity(r, c.amount(r))
		}
	}
	return list
}

// limitRange draws bounds, about as wide as a pod needs.
func (c *chance) limitRange(p *corev1.Pod, name string) *corev1.LimitRange {
	l := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name}}
	l.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "LimitRange"}
	for _, of := range []corev1.LimitType{corev1.LimitTypeContainer, corev1.LimitTypePod} {
		if !c.one(3) {
			l.Spec.Limits = append(l.Spec.Limits, c.item(p, of))
		}
	}
	return l
}

func (c *chance) item(p *corev1.Pod, of corev1.LimitType) corev1.LimitRangeItem {
	item := corev1.LimitRangeItem{
		Type: of, Min: corev1.ResourceList{}, Max: corev1.ResourceList{}, Default: corev1.ResourceList{}, DefaultRequest: corev1.ResourceList{},
		MaxLimitRequestRatio: corev1.ResourceList{},
	}
	for _, r := range resources {
		least, most := c.most[r], int64(1)
		var requests, limits int64
		for _, k := range sizable(p) {
			least, most = min(least, max(number(r, k.Resources.Requests), 1)), max(most, number(r, k.Resources.Limits))
			requests, limits = requests+number(r, k.Resources.Requests), limits+number(r, k.Resources.Limits)
		}
		if of == corev1.LimitTypePod {
			least, most = max(requests, 1), max(limits, 1)
		}
		if c.one(2) {
			item.Min[r] = quantity(r, 1+c.Int64N(least))
		}
		if c.one(2) {
			item.Max[r] = quantity(r, most+c.Int64N(1+most/int64(1+c.IntN(20))))
		}
		if c.one(3) {
			item.MaxLimitRequestRatio[r] = *resource.NewMilliQuantity(1000+100*c.Int64N(25), resource.DecimalSI)
		}
		if of == corev1.LimitTypeContainer && c.one(3) {
			item.Default[r] = quantity(r, c.amount(r))
		}
		if of == corev1.LimitTypeContainer && c.one(3) {
			item.DefaultRequest[r] = quantity(r, c.amount(r))
		}
	}
	return item
}
