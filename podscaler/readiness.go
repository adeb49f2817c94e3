package podscaler

import (
	"time"
)

// Readiness says when a pod counts, and when so few do that nothing is decided by them.
type Readiness struct {
	// InitialDelay is how long after its start a change of readiness is still part of starting: a
	// pod that is not ready since then has never been. Unset is 30s.
	InitialDelay *time.Duration
	// CPUInitialization is how long after its start a pod's CPU samples count only if it is ready
	// and was so throughout them. Unset is 5m.
	CPUInitialization *time.Duration
	// MinAvailablePercent is the share of the replicas that must be ready before anything is
	// changed; 0 sets no minimum.
	MinAvailablePercent int
}

// Kubernetes' defaults of --horizontal-pod-autoscaler-initial-readiness-delay and
// --horizontal-pod-autoscaler-cpu-initialization-period.
const (
	initialDelay      = 30 * time.Second
	cpuInitialization = 5 * time.Minute
)

// Starting reports whether a pod's sample, which began at since, may still be that of its start,
// which says nothing of the load. In its first minutes that is so unless it was ready throughout
// the sample, after them only if it has never been ready.
func (r *Readiness) Starting(p *Pod, since, now time.Time) bool {
	delay, initialization := initialDelay, cpuInitialization
	if r.InitialDelay != nil {
		delay = *r.InitialDelay
	}
	if r.CPUInitialization != nil {
		initialization = *r.CPUInitialization
	}
	switch {
	case p.Started.IsZero():
		return true
	case p.Started.Add(initialization).After(now):
		return !p.Ready || since.Before(p.ReadyChanged)
	}
	return !p.Ready && p.Started.Add(delay).After(p.ReadyChanged)
}

func (r *Readiness) validate(f *Faults) {
	if r.InitialDelay != nil {
		f.Unless(*r.InitialDelay >= 0, "readiness.initialDelay", "must be at least 0", *r.InitialDelay)
	}
	if r.CPUInitialization != nil {
		f.Unless(*r.CPUInitialization >= 0, "readiness.cpuInitialization", "must be at least 0", *r.CPUInitialization)
	}
	f.Unless(r.MinAvailablePercent >= 0 && r.MinAvailablePercent <= 100, "readiness.minAvailablePercent", "must be between 0 and 100", r.MinAvailablePercent)
}

// available holds a workload of which too few replicas are ready: what those few measure says
// little, and to shrink or grow a broken workload repairs nothing.
func (s *Scaler) available(v *View, d *Decision) (Reason, bool) {
	percent := s.workload.Readiness.MinAvailablePercent
	ready := 0
	for i := range v.Pods {
		if p := &v.Pods[i]; p.alive() && p.Ready {
			ready++
		}
	}
	if 100*ready >= percent*v.Replicas {
		return Reason{}, false
	}
	return Because(ReasonTooFewAvailable, "%d wanted, but %d of %d replicas are ready, fewer than %d%%", d.To, ready, v.Replicas, percent), true
}

// alive reports whether a pod is there to stay.
func (p *Pod) alive() bool {
	return !p.Terminating && p.Phase != Failed && p.Phase != Succeeded
}
