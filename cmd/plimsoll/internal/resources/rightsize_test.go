package resources

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestContainersPoliciesAreReadAsTheyAreWritten(t *testing.T) {
	var a v1alpha1.WorkloadAutoscaler
	accepted(t, "wla-rightsize-full", &a)
	got, err := Rightsize(&a)
	if err != nil {
		t.Fatal(err)
	}
	want := &rightsize.Wants{Mode: rightsize.InPlace, MinReplicas: 2, Limits: rightsize.MLFDRS, Policies: rightsize.Policies{
		{
			Container: "app", Controls: []rightsize.Resource{rightsize.CPU, rightsize.Memory},
			Min: pricing.Resources{CPU: 50, Memory: 64 * pricing.MiB}, Max: pricing.Resources{CPU: 2000, Memory: 2 * pricing.GiB},
		},
		{Container: "proxy", Off: true},
		{Container: "*", Controls: []rightsize.Resource{rightsize.Memory}, Max: pricing.Resources{Memory: 512_000_000}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAnEmptyBlockRecommendsAndNoneDoesNot(t *testing.T) {
	var a v1alpha1.WorkloadAutoscaler
	accepted(t, "wla-rightsize-empty", &a)
	got, err := Rightsize(&a)
	if diff := cmp.Diff(&rightsize.Wants{Mode: rightsize.Off, MinReplicas: 2}, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	a.Spec.Rightsize = nil
	if got, err := Rightsize(&a); got != nil || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// What the rules of the CRD refuse is refused without them, too: an older CRD may be installed.
func TestSizesThatMeanNothingAreRefusedWithTheirKey(t *testing.T) {
	text := func(s string) *v1alpha1.Size { return new(v1alpha1.Size(s)) }
	for want, block := range map[string]v1alpha1.Rightsize{
		`spec.rightsize.mode: must be Off, Initial, InPlace or Auto, was "Recreate"`:                          {Mode: "Recreate"},
		`spec.rightsize.limits: must be DRF, MLFDRS or FFMRA, or be omitted to leave limits alone, was "drf"`: {Limits: "drf"},
		"spec.rightsize.containers[0].maxAllowed.memory: ": {Containers: []v1alpha1.ContainerPolicy{
			{Name: "app", MaxAllowed: &v1alpha1.ContainerResources{Memory: text("much")}},
		}},
		"spec.rightsize.containers[app].max.memory: must be at least min, 1024Mi, was 512Mi": {Containers: []v1alpha1.ContainerPolicy{
			{Name: "app", MinAllowed: &v1alpha1.ContainerResources{Memory: text("1GiB")}, MaxAllowed: &v1alpha1.ContainerResources{Memory: text("512MiB")}},
		}},
	} {
		_, err := Rightsize(&v1alpha1.WorkloadAutoscaler{Spec: v1alpha1.WorkloadAutoscalerSpec{Rightsize: &block}})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
