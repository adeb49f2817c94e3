package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// limitedHouse has two pods on a node of two cores and 4 GiB that request half a core and 256Mi
// each, and use less.
func limitedHouse(t *testing.T, more string) *house {
	h := sizedHouse(t, more)
	h.uses["app"] = use(0.1, 100)
	return h
}

// limits are what the status says that the container may use.
func (h *house) limits() []v1alpha1.ContainerLimits {
	all := slices.Clone(h.sizing().Limits)
	for i := range all {
		all[i].Reasons = nil
	}
	return all
}

func amountsIn(cpu, memory string) v1alpha1.ContainerAmounts {
	return v1alpha1.ContainerAmounts{CPU: cpu, Memory: memory}
}

// Each of the two pods has half of the node by DRF, in the resource of which it requests the larger
// part. That is said in every mode, and done where pods are resized.
func TestFairLimitsAreSaidAndSetWherePodsAreResized(t *testing.T) {
	set := []string{"resize shop/web-00 app 500m 256Mi of 1 512Mi", "resize shop/web-01 app 500m 256Mi of 1 512Mi"}
	for name, c := range map[string]struct {
		more  string
		spoil func(*house)
		want  []string
	}{
		"in mode Off":                {active + "  rightsize: {limits: DRF}\n", func(*house) {}, []string{}},
		"in mode Initial":            {active + "  rightsize: {mode: Initial, limits: DRF}\n", func(h *house) { h.cfg.Admission = true }, []string{}},
		"in mode InPlace":            {active + "  rightsize: {mode: InPlace, limits: DRF}\n", func(*house) {}, set},
		"in mode Auto":               {active + "  rightsize: {mode: Auto, limits: DRF}\n", func(*house) {}, set},
		"the object recommends":      {"  rightsize: {mode: InPlace, limits: DRF}\n", func(*house) {}, []string{}},
		"the object is paused":       {active + "  rightsize: {mode: InPlace, limits: DRF}\n", annotate(v1alpha1.AnnotationPaused, "true"), []string{}},
		"a lid on everything":        {active + "  rightsize: {mode: InPlace, limits: DRF}\n", func(h *house) { h.cfg.Active = false }, []string{}},
		"its last resize is pending": {active + "  rightsize: {mode: InPlace, limits: DRF}\n", func(h *house) { h.sizes["shop/web-01"] = pending(h) }, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			h := limitedHouse(t, c.more)
			c.spoil(h)
			h.begin().steps(6)
			h.expect("resized", c.want, h.resized())
			want := []v1alpha1.ContainerLimits{{Name: "app", Least: amountsIn("1", "512Mi"), Most: amountsIn("1", "512Mi")}}
			if d := cmp.Diff(want, h.limits()); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if why := h.sizing().Limits[0].Reasons; len(why) != 1 || why[0].Code != rightsize.ReasonShare || !strings.HasPrefix(why[0].Text, "pod shop/web-00: container app: by DRF it has ") {
				t.Errorf("%v", why)
			}
		})
	}
}

func pending(h *house) rightsize.Pod {
	return rightsize.Pod{Running: true, Resize: rightsize.ResizePending, Containers: h.containers}
}

func TestWithoutARuleThereAreNoFairLimits(t *testing.T) {
	h := limitedHouse(t, active+resizes)
	h.begin().steps(4)
	h.expect("resized", []string{}, h.resized())
	h.expect("limits", 0, len(h.limits()))
}

// Pods come and go, of two workloads of one node. After each change limits are set anew, those that
// are lowered first, until all together may use no more than the node has. A pod that shares
// nothing has what it requests.
func TestLimitsFollowThePodsOfTheNode(t *testing.T) {
	h := limitedHouse(t, active+"  rightsize: {mode: InPlace, limits: DRF}\n")
	other := h.autoscaler(`
metadata: {name: api}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}
  mode: Active
  policy: HPA
  minReplicas: 1
  maxReplicas: 1
`)
	h.begin().steps(6)
	h.expect("alone", []string{"1 512Mi", "1 512Mi"}, leastMost(h.limits()))
	for _, c := range []struct {
		name    string
		web     int
		api     int
		apiRule v1alpha1.LimitsRule
		want    []string
	}{
		{"a pod of another workload comes, that shares nothing", 2, 1, "", []string{"750m 384Mi", "750m 384Mi"}},
		{"it shares", 2, 1, v1alpha1.LimitsDRF, []string{"666m 341Mi", "667m 341Mi"}},
		{"by another rule", 2, 1, v1alpha1.LimitsMLFDRS, []string{"666m 341Mi", "667m 341Mi"}},
		{"it goes", 2, 0, "", []string{"1 512Mi", "1 512Mi"}},
	} {
		h.replicas["shop/web"], *h.autoscalers["shop/web"].Spec.MinReplicas, h.autoscalers["shop/web"].Spec.MaxReplicas = c.web, int32(c.web), int32(c.web)
		other.Spec.Rightsize = nil
		if c.apiRule != "" {
			other.Spec.Rightsize = &v1alpha1.Rightsize{Mode: v1alpha1.RightsizeInPlace, Limits: c.apiRule}
		}
		delete(h.replicas, "shop/api")
		if c.api > 0 {
			h.replicas["shop/api"] = c.api
		}
		h.steps(12)
		h.expect(c.name, c.want, leastMost(h.limits()))
		h.done = nil
		h.steps(4)
		h.expect(c.name+": settled", []string{}, h.resized())
		h.within(c.name)
	}
}

func leastMost(all []v1alpha1.ContainerLimits) []string {
	return []string{all[0].Least.CPU + " " + all[0].Least.Memory, all[0].Most.CPU + " " + all[0].Most.Memory}
}

// within reports a node whose pods may use more than it has, or request it without a limit.
func (h *house) within(when string) {
	h.Helper()
	state, _ := h.Observe(h.Context())
	for _, n := range state.Nodes {
		var sum pricing.Resources
		for _, p := range state.Pods {
			if p.Node != n.Name {
				continue
			}
			size, _ := h.Size(p.Name)
			takes := size.Containers[0].Requests
			if limits := size.Containers[0].Limits; limits != (pricing.Resources{}) {
				takes = limits
			}
			sum = sum.Plus(takes)
		}
		if !sum.Within(n.Allocatable) {
			h.Errorf("%s: on %s pods may use %v of %v", when, n.Name, fmt.Sprint(sum), n.Allocatable)
		}
	}
}
