package policy

import (
	"cmp"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
)

// startup is what a policy says itself of pods that are starting; what it leaves unset is the
// workload's to say.
type startup struct{ initialization, readinessDelay *time.Duration }

// startupOf reads the two times from a policy's settings.
func startupOf(f *podscaler.Faults, block string, initialization, readinessDelay *podscaler.Duration) startup {
	var s startup
	if initialization != nil {
		s.initialization = new(time.Duration(*initialization))
		f.Unless(*initialization >= 0, block+".cpuInitializationPeriod", "must be at least 0", *initialization)
	}
	if readinessDelay != nil {
		s.readinessDelay = new(time.Duration(*readinessDelay))
		f.Unless(*readinessDelay >= 0, block+".initialReadinessDelay", "must be at least 0", *readinessDelay)
	}
	return s
}

// over are the workload's rules, but where the policy has its own.
func (s startup) over(r podscaler.Readiness) podscaler.Readiness {
	if s.initialization != nil {
		r.CPUInitialization = s.initialization
	}
	if s.readinessDelay != nil {
		r.InitialDelay = s.readinessDelay
	}
	return r
}

// samples are a metric's values of each pod: a series by pod name if there is one, and else what is
// used of a resource by the pod, or by one container of it.
type samples struct {
	series              map[string]float64
	resource, container string
	// filter leaves out pods that are starting.
	filter bool
}

// of returns a pod's sample, in whole thousandths, and when it began. A series does not say when:
// it is taken to be of this moment.
func (s samples) of(p *podscaler.Pod, now time.Time) (value float64, since time.Time, ok bool) {
	if s.series == nil {
		value, sample, ok := p.Used(s.resource, s.container)
		return value, sample.At.Add(-sample.Span), ok
	}
	value, ok = s.series[p.Name]
	return podscaler.Thousandths(value), now, ok && podscaler.Known(value).Known
}

// worth is what a pod's sample is worth.
type worth int

const (
	ignored worth = iota // it is on its way out
	unready
	missing
	ready
	worths // how many there are
)

// worth judges a pod's sample.
func (s samples) worth(p *podscaler.Pod, rules *podscaler.Readiness, now time.Time) (w worth, value float64) {
	if p.Terminating || p.Phase == podscaler.Failed {
		return ignored, 0
	}
	value, since, ok := s.of(p, now)
	switch {
	case p.Phase == podscaler.Pending:
		return unready, 0
	case !ok:
		return missing, 0
	case s.filter && rules.Starting(p, since, now):
		return unready, 0
	}
	return ready, value
}

// tally is a workload's pods by what their samples are worth, and the sum over the ready ones.
type tally struct {
	ready, unready, missing int
	total                   float64 // in whole thousandths
}

// tally sorts the pods; those that are on their way out count for nothing.
func (s startup) tally(v *podscaler.View, of samples) (t tally) {
	rules := s.over(v.Workload.Readiness)
	var count [worths]int
	for i := range v.Pods {
		w, value := of.worth(&v.Pods[i], &rules, v.Now)
		count[w]++
		t.total += value
	}
	t.ready, t.unready, t.missing = count[ready], count[unready], count[missing]
	return t
}

// perPod returns where a metric's values of each pod come from, or why there are none.
func perPod(v *podscaler.View, kind MetricType, name, container string) (of samples, why string) {
	m, measured := v.Window.Metrics[name]
	switch {
	case len(v.Pods) == 0:
		return of, "the workload has no pods"
	case kind == ContainerResource:
		return samples{resource: name, container: container}, ""
	case kind == Resource:
		return samples{resource: name}, ""
	case !measured:
		return of, "it was not measured"
	case m.PerPod == nil:
		return of, cmp.Or(m.Why, "it has no value for each pod")
	}
	return samples{series: m.PerPod}, ""
}

// noSample says why no ready pod has a sample of a metric, if more is known of it.
func noSample(pods []podscaler.Pod, container string) string {
	lacks := false
	for i := range pods {
		if container == "" || pods[i].Has(container) {
			return "no ready pod has a sample"
		}
		lacks = lacks || pods[i].Uses != nil
	}
	if !lacks {
		return "no ready pod has a sample"
	}
	return "no pod has a container " + container
}

// whole returns a metric's one value in thousandths, or why it has no single value.
func whole(v *podscaler.View, name string) (total float64, why string) {
	m, measured := v.Window.Metrics[name]
	if !measured {
		return 0, "it was not measured"
	}
	total, ok := m.Total.Number()
	if !ok {
		return 0, cmp.Or(m.Why, "it has no value")
	}
	return podscaler.Thousandths(total), ""
}

// failedCodes are an HPA's words for a metric that is unknown.
var failedCodes = map[MetricType]string{
	Resource:          podscaler.ReasonFailedGetResourceMetric,
	ContainerResource: podscaler.ReasonFailedGetContainerMetric,
	Pods:              podscaler.ReasonFailedGetPodsMetric,
	Object:            podscaler.ReasonFailedGetObjectMetric,
	External:          podscaler.ReasonFailedGetExternalMetric,
}

func failed(kind MetricType, name, why string) podscaler.Reason {
	return podscaler.Because(failedCodes[kind], "%s is unknown: %s", name, why)
}

// incomplete says that some metrics are unknown which might want more than the others do.
func incomplete(unknown, all, replicas, want int) podscaler.Reason {
	return podscaler.Because(podscaler.ReasonMetricsIncomplete,
		"%d of %d metrics are unknown, so %d replicas are not reduced to %d", unknown, all, replicas, want)
}

// band is how far from 1 a ratio may be with nothing done.
type band struct{ down, up float64 }

// bandOf is a policy's tolerance, or the workload's own by direction.
func bandOf(v *podscaler.View, tolerance float64) band {
	t := band{tolerance, tolerance}
	if b := v.Workload.Behavior; b != nil {
		if b.Down.Tolerance != nil {
			t.down = *b.Down.Tolerance
		}
		if b.Up.Tolerance != nil {
			t.up = *b.Up.Tolerance
		}
	}
	return t
}

// serves reports whether the pod may be sent requests.
func serves(p *podscaler.Pod) bool {
	return p.Ready && p.Phase == podscaler.Running && !p.Terminating
}

// serving is how many pods there are that may be sent requests.
func serving(pods []podscaler.Pod) (n int) {
	for i := range pods {
		if serves(&pods[i]) {
			n++
		}
	}
	return n
}
