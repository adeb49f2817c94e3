package vpa

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/config"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/routines"
	vpautils "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
)

// amounts are a number of cores and one of bytes.
type amounts struct{ CPU, Memory json.Number }

func (a amounts) of(r corev1.ResourceName) resource.Quantity {
	if r == corev1.ResourceCPU {
		return resource.MustParse(a.CPU.String())
	}
	return resource.MustParse(a.Memory.String())
}

func (a amounts) list() corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, r := range resources {
		if q := a.of(r); !q.IsZero() {
			list[r] = q
		}
	}
	return list
}

var resources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// twinCase is one line of a file of cases.
type twinCase struct {
	Name string
	// ResourcePolicy is that of a manifest, in place of Policies.
	ResourcePolicy *vpav1.PodResourcePolicy
	Stream         []struct {
		Kind, Pod, Container             string
		From, Every, N, First, Step, Mod int64
	}
	Policies []struct {
		Container string
		Off       bool
		Controls  []corev1.ResourceName
		Min, Max  amounts
	}
	Want []struct {
		Container                      string
		Resources                      []corev1.ResourceName
		Target, Lower, Upper, Uncapped amounts
	}
}

func readCases(t *testing.T, name string) []twinCase {
	t.Helper()
	file, err := os.Open("../../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var cases []twinCase
	for d := json.NewDecoder(file); d.More(); {
		var c twinCase
		if err := d.Decode(&c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	return cases
}

func TestTheRecommenderRecommendsTheSame(t *testing.T) {
	recommendsTheSame(t, readCases(t, "podscaler/rightsize/testdata/twin.jsonl"), 100)
}

func TestTheRecommenderRecommendsAsConvertedManifestsDo(t *testing.T) {
	recommendsTheSame(t, readCases(t, "cmd/plimsoll/internal/convert/testdata/vpa.jsonl"), 50)
}

func recommendsTheSame(t *testing.T, cases []twinCase, least int) {
	t.Helper()
	if len(cases) < least {
		t.Fatalf("%d cases, want %d and more", len(cases), least)
	}
	compared := 0
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			known := c.feed()
			got := slices.DeleteFunc(c.recommend(t, known), func(r vpav1.RecommendedContainerResources) bool {
				return len(r.Target) == 0 // nothing of it is controlled
			})
			if len(got) != len(c.Want) {
				t.Fatalf("there are recommendations for %d containers here, and for %d elsewhere", len(got), len(c.Want))
			}
			for i, want := range c.Want {
				if got[i].ContainerName != want.Container {
					t.Fatalf("container %d is %s here, and %s elsewhere", i, got[i].ContainerName, want.Container)
				}
				for _, r := range resources {
					if !slices.Contains(want.Resources, r) {
						c.absent(t, want.Container, r, got[i].Target, known[want.Container])
						continue
					}
					compare(t, want.Container+" target", r, got[i].Target, want.Target)
					compare(t, want.Container+" lower bound", r, got[i].LowerBound, want.Lower)
					compare(t, want.Container+" upper bound", r, got[i].UpperBound, want.Upper)
					compare(t, want.Container+" uncapped target", r, got[i].UncappedTarget, want.Uncapped)
					compared++
				}
			}
		})
	}
	t.Logf("%d recommendations of a container's resource are equal, to the unit", compared)
}

func compare(t *testing.T, what string, r corev1.ResourceName, list corev1.ResourceList, want amounts) {
	t.Helper()
	got, there := list[r]
	if w := want.of(r); !there || got.Cmp(w) != 0 {
		t.Errorf("%s of %s is %s here, and %s elsewhere", what, r, got.String(), w.String())
	}
}

// absent checks why something is not recommended elsewhere: a policy leaves it alone, which it does
// here, too, or there is no sample, for which the recommender takes its floor.
func (c *twinCase) absent(t *testing.T, container string, r corev1.ResourceName, target corev1.ResourceList, s *model.AggregateContainerState) {
	t.Helper()
	_, here := target[r]
	empty := s.AggregateMemoryPeaks.IsEmpty()
	if r == corev1.ResourceCPU {
		empty = s.AggregateCPUUsage.IsEmpty()
	}
	if here && !empty {
		t.Errorf("%s of %s is recommended here, after samples, and not elsewhere", r, container)
	}
}

// feed gives the samples to the recommender's model.
func (c *twinCase) feed() map[string]*model.AggregateContainerState {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	aggregates := map[string]*model.AggregateContainerState{}
	instances := map[[2]string]*model.ContainerState{}
	for _, b := range c.Stream {
		aggregate, known := aggregates[b.Container]
		if !known {
			aggregate = model.NewAggregateContainerState()
			aggregates[b.Container] = aggregate
		}
		instance, known := instances[[2]string{b.Pod, b.Container}]
		if !known {
			// What it requests has no part in it since 1.8: samples weigh the same.
			instance = model.NewContainerState(model.Resources{model.ResourceCPU: 700}, aggregate)
			instances[[2]string{b.Pod, b.Container}] = instance
		}
		for i := range b.N {
			at, v := noon.Add(time.Duration(b.From+i*b.Every)*time.Second), model.ResourceAmount(b.First+i*b.Step%b.Mod)
			switch b.Kind {
			case "oom":
				_ = instance.RecordOOM(at, v) // too old is no error of ours
			default:
				instance.AddSample(&model.ContainerUsageSample{MeasureStart: at, Usage: v, Resource: model.ResourceName(b.Kind)})
			}
		}
	}
	return aggregates
}

// recommend asks the recommender as its main loop does, with its default configuration.
func (c *twinCase) recommend(t *testing.T, known map[string]*model.AggregateContainerState) []vpav1.RecommendedContainerResources {
	t.Helper()
	vpa := &vpav1.VerticalPodAutoscaler{Spec: vpav1.VerticalPodAutoscalerSpec{ResourcePolicy: c.policy()}}
	on := model.ContainerNameToAggregateStateMap{}
	for name, s := range known {
		s.UpdateFromPolicy(vpautils.GetContainerResourcePolicy(name, vpa.Spec.ResourcePolicy))
		if *s.GetScalingMode() != vpav1.ContainerScalingModeOff {
			on[name] = s
		}
	}
	d := config.DefaultRecommenderConfig()
	recommender := logic.CreatePodResourceRecommender(logic.RecommendationConfig{
		SafetyMarginFraction: d.SafetyMarginFraction, PodMinCPUMillicores: d.PodMinCPUMillicores, PodMinMemoryMb: d.PodMinMemoryMb,
		TargetCPUPercentile: d.TargetCPUPercentile, LowerBoundCPUPercentile: d.LowerBoundCPUPercentile, UpperBoundCPUPercentile: d.UpperBoundCPUPercentile,
		ConfidenceIntervalCPU: d.ConfidenceIntervalCPU, TargetMemoryPercentile: d.TargetMemoryPercentile,
		LowerBoundMemoryPercentile: d.LowerBoundMemoryPercentile, UpperBoundMemoryPercentile: d.UpperBoundMemoryPercentile,
		ConfidenceIntervalMemory: d.ConfidenceIntervalMemory,
	})
	list := logic.MapToListOfRecommendedContainerResources(recommender.GetRecommendedPodResources(on),
		logic.RecommendationFormat{RoundCPUMillicores: d.RoundCPUMillicores, RoundMemoryBytes: d.RoundMemoryBytes})
	return routines.NewCappingRecommendationProcessor(nil).Process(vpa, list).ContainerRecommendations
}

func (c *twinCase) policy() *vpav1.PodResourcePolicy {
	if c.ResourcePolicy != nil {
		return c.ResourcePolicy
	}
	policy := &vpav1.PodResourcePolicy{}
	for _, p := range c.Policies {
		mode := vpav1.ContainerScalingModeAuto
		if p.Off {
			mode = vpav1.ContainerScalingModeOff
		}
		container := vpav1.ContainerResourcePolicy{ContainerName: p.Container, Mode: &mode, MinAllowed: p.Min.list(), MaxAllowed: p.Max.list()}
		if len(p.Controls) > 0 {
			container.ControlledResources = &p.Controls
		}
		policy.ContainerPolicies = append(policy.ContainerPolicies, container)
	}
	return policy
}
