package plane

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/testbed/serving"
)

// The annotations of a pod that say how it serves. AnnotationDemand makes it an application's; the
// others may be omitted.
const (
	// AnnotationDemand is the CPU time of one request, such as 50ms.
	AnnotationDemand = "testbed.plimsoll.dev/demand"
	// AnnotationSpread is how far from that it goes either way, such as 20%; 0% if omitted.
	AnnotationSpread = "testbed.plimsoll.dev/spread"
	// AnnotationConcurrency is how many requests are served at a time; 64 if omitted.
	AnnotationConcurrency = "testbed.plimsoll.dev/concurrency"
	// AnnotationBalance is least-of-two, or random; the former if omitted.
	AnnotationBalance = "testbed.plimsoll.dev/balance"
	// AnnotationContainer names the container that serves, whose CPU limit is the quota; the first
	// if omitted. The others, such as a sidecar, use nothing.
	AnnotationContainer = "testbed.plimsoll.dev/container"
	// AnnotationCPU is what a pod that serves nothing uses all the time, such as 120m; 0 if
	// omitted.
	AnnotationCPU = "testbed.plimsoll.dev/cpu"
	// AnnotationBuckets is Istio's own: {"istiocustom":[...]} with the edges of its histograms in
	// milliseconds.
	AnnotationBuckets = "sidecar.istio.io/statsHistogramBuckets"
	// AnnotationHalted is put on a node whose machine does not run.
	AnnotationHalted = "testbed.plimsoll.dev/halted"
)

const defaultConcurrency = 64

// behavior is how a pod serves.
type behavior struct {
	serves      bool
	demand      serving.Demand
	concurrency int
	balance     serving.Balance
	container   string
	quota       float64   // cores
	steady      float64   // cores, of a pod that serves nothing
	edges       []float64 // of its histograms, in milliseconds
}

// readBehavior reads it from a pod. Every fault is reported, by annotation, rule and value.
func readBehavior(p *corev1.Pod) (behavior, error) {
	r := reader{annotations: p.Annotations}
	b := behavior{edges: r.edges()}
	if _, there := p.Annotations[AnnotationDemand]; !there {
		b.steady = r.cores(AnnotationCPU)
		return b, errors.Join(r.faults...)
	}
	b.serves = true
	b.demand = serving.Demand{Mean: r.duration(AnnotationDemand), Spread: r.share(AnnotationSpread)}
	b.concurrency = r.count(AnnotationConcurrency, defaultConcurrency)
	b.balance = r.balance(AnnotationBalance)
	r.must(p.Annotations[AnnotationCPU] == "", AnnotationCPU, "omitted beside "+AnnotationDemand)
	b.container, b.quota = r.quota(p)
	return b, errors.Join(r.faults...)
}

// reader reads annotations and collects what is wrong with them.
type reader struct {
	annotations map[string]string
	faults      []error
}

func (r *reader) must(kept bool, key, rule string) {
	if !kept {
		r.faults = append(r.faults, fmt.Errorf("%s: must be %s, was %q", key, rule, r.annotations[key]))
	}
}

func (r *reader) duration(key string) time.Duration {
	d, err := time.ParseDuration(r.annotations[key])
	r.must(err == nil && d > 0, key, "a duration greater than 0, such as 50ms")
	return d
}

func (r *reader) share(key string) float64 {
	text, there := r.annotations[key]
	if !there {
		return 0
	}
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	r.must(percent && err == nil && v >= 0 && v < 100, key, "from 0% to below 100%")
	return v / 100
}

func (r *reader) count(key string, otherwise int) int {
	text, there := r.annotations[key]
	if !there {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	r.must(err == nil && n > 0, key, "a number greater than 0")
	return n
}

func (r *reader) balance(key string) serving.Balance {
	text, there := r.annotations[key]
	if !there {
		return serving.LeastOfTwo
	}
	b := serving.Balance(text)
	r.must(b == serving.LeastOfTwo || b == serving.AtRandom, key, fmt.Sprintf("%s or %s", serving.LeastOfTwo, serving.AtRandom))
	return b
}

func (r *reader) cores(key string) float64 {
	text, there := r.annotations[key]
	if !there {
		return 0
	}
	q, err := parseQuantity(text)
	r.must(err == nil && q >= 0, key, "an amount of CPU, such as 120m")
	return q
}

// quota is the container that serves, and its CPU limit.
func (r *reader) quota(p *corev1.Pod) (container string, cores float64) {
	if len(p.Spec.Containers) == 0 {
		return "", 0
	}
	container = p.Spec.Containers[0].Name
	if name, there := r.annotations[AnnotationContainer]; there {
		container = name
	}
	i := slices.IndexFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	if i < 0 {
		r.must(false, AnnotationContainer, "the name of one of the pod's containers")
		return container, 0
	}
	limit := p.Spec.Containers[i].Resources.Limits.Cpu()
	if limit.Sign() <= 0 {
		r.faults = append(r.faults, fmt.Errorf("spec.containers[%d].resources.limits.cpu: must be given, for it is what requests are served with, was %s", i, limit))
	}
	return container, limit.AsApproximateFloat64()
}

// defaultEdges are those of Istio's histograms, in milliseconds.
var defaultEdges = []float64{0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000, 600000, 1800000, 3600000}

func (r *reader) edges() []float64 {
	text, there := r.annotations[AnnotationBuckets]
	if !there {
		return defaultEdges
	}
	var byPrefix map[string][]float64
	err := json.Unmarshal([]byte(text), &byPrefix)
	edges, custom := byPrefix["istiocustom"]
	if err == nil && !custom {
		return defaultEdges // it is about other metrics of the proxy
	}
	rising := len(edges) > 0
	for i, e := range edges {
		rising = rising && e > 0 && (i == 0 || e > edges[i-1])
	}
	r.must(err == nil && rising, AnnotationBuckets, `like {"istiocustom":[1,5,10]}, with edges that rise from above 0`)
	return edges
}
