package policy

import (
	"math"

	"github.com/plimsoll/plimsoll/podscaler"
)

// The SLO-and-cost policy multiplies the replicas by a weighted mean of two ratios: response
// time over its target, and target cost over the present one. Slow answers grow the workload,
// and so does a cluster that costs less than it may.
//
// It needs the SLO's quantile of response times, and what the machines cost.
//
// It loses by its formula. Only where the cost is on target is the SLO a fixed point: at twice
// the cost it settles at 1.5 times the SLO, and below it keeps idle pods up to the budget (Cap
// ends that). It winds up while machines boot, multiplying run after run what is not there yet
// (Wait ends that, and holds for good if a replica never finds a node). Rounding up, it does
// not leave r replicas for k in (1 − 1/r, 1].

// SLOCost is the settings of the SLO-and-cost policy.
type SLOCost struct {
	// RTWeight is the weight of the response time, above 0 and below 1; the cost has the rest.
	// Unset is 0.5.
	RTWeight *float64 `json:"rtWeight,omitempty"`
	// Role is what the cost target is; unset is Cap.
	Role Role `json:"role,omitempty"`
	// Wait does nothing while replicas are not ready yet or machines boot.
	Wait bool `json:"wait,omitempty"`
	// Tolerance leaves the replicas alone while the multiplier is this close to 1.
	Tolerance float64 `json:"tolerance,omitempty"`
}

// Role is what the cost target is to the policy.
type Role string

// The roles of a cost target.
const (
	Cap Role = "Cap" // a cost below the target counts as one on it
	// The formula as it was published: a cost below the target grows the workload.
	Symmetric Role = "Symmetric"
)

func init() {
	register("SLOCost", "weighs the response time against its objective and the cost of the machines against its target.", func(s Spec) (podscaler.Policy, error) {
		if s.SLOCost == nil {
			return newSLOCost(SLOCost{})
		}
		return newSLOCost(*s.SLOCost)
	})
}

type sloCost struct {
	rtWeight, tolerance float64
	symmetric, wait     bool
}

func newSLOCost(c SLOCost) (podscaler.Policy, error) {
	p := &sloCost{rtWeight: 0.5, tolerance: c.Tolerance, symmetric: c.Role == Symmetric, wait: c.Wait}
	if c.RTWeight != nil {
		p.rtWeight = *c.RTWeight
	}
	var f podscaler.Faults
	f.Unless(0 < p.rtWeight && p.rtWeight < 1, "sloCost.rtWeight", "must be above 0 and below 1", p.rtWeight)
	f.Unless(0 <= p.tolerance && p.tolerance < 1, "sloCost.tolerance", "must be at least 0 and below 1", p.tolerance)
	f.Unless(c.Role == "" || c.Role == Cap || c.Role == Symmetric, "sloCost.role", "must be Cap or Symmetric", c.Role)
	return p, f.Err()
}

func (p *sloCost) check(w *podscaler.Workload) error {
	var f podscaler.Faults
	f.Unless(w.SLO.Target > 0, "slo.target", "must be above 0 for policy SLOCost", w.SLO.Target)
	f.Unless(w.Cost.Target > 0, "cost.target", "must be above 0 for policy SLOCost", w.Cost.Target)
	f.Unless(w.Min > 0, "minReplicas", "must be at least 1 for policy SLOCost, which multiplies what is there", w.Min)
	return f.Err()
}

// Desired is the replicas times k, rounded up.
func (p *sloCost) Desired(v *podscaler.View) podscaler.Recommendation {
	w := v.Workload
	if room := v.Room; p.wait && room.PendingReplicas+room.BootingMachines > 0 {
		return podscaler.Recommendation{Replicas: v.Replicas, Known: true, Reasons: []podscaler.Reason{podscaler.Because(podscaler.ReasonWaiting,
			"replicas not ready: %d, machines booting: %d", room.PendingReplicas, room.BootingMachines)}}
	}
	rt, ok := v.Window.Latency.Number()
	switch {
	case !ok && v.Window.Quiet(): // none of no requests is late
		rt = 0
	case !ok:
		return unknown(podscaler.ReasonLatencyUnknown, "the p%.4g of response times over %s could not be measured%s", 100*w.SLO.Quantile, w.SLO.Window, because(v.Window.Latency.Why))
	}
	cost, ok := w.Cost.Current(v.Cost)
	if !ok {
		return unknown(podscaler.ReasonCostUnknown, "the present cost is not known: %s", v.Cost.Why)
	}
	if cost <= 0 {
		return unknown(podscaler.ReasonCostUnknown, "the present cost is %s (%s), which the target cannot be divided by", cost, w.Cost.Basis())
	}
	k, reasons := p.multiplier(w, rt, cost.Units())
	n := ceil(k * float64(v.Replicas))
	if p.tolerance > 0 && math.Abs(k-1) <= p.tolerance+1e-9 {
		n = v.Replicas
		reasons = append(reasons, podscaler.Because(podscaler.ReasonWithinTolerance, "k %.6g is within %.4g of 1: %d replicas stay", k, p.tolerance, n))
	}
	return podscaler.Recommendation{Replicas: n, Known: true, Reasons: reasons}
}

// multiplier returns k, with the terms that it is the sum of.
func (p *sloCost) multiplier(w *podscaler.Workload, rt, cost float64) (float64, []podscaler.Reason) {
	rtRatio := rt / w.SLO.Target.Seconds()
	costRatio := w.Cost.Target.Units() / cost
	counted, costWeight := costRatio, 1-p.rtWeight
	if !p.symmetric {
		counted = min(costRatio, 1)
	}
	k := p.rtWeight*rtRatio + costWeight*counted
	reasons := []podscaler.Reason{podscaler.Because(podscaler.ReasonSLOCostRatio,
		"k %.6g = %.4g × %.6g (response time %.5gms, target %.5gms) + %.4g × %.6g (cost %.5g, target %s; %s)",
		k, p.rtWeight, rtRatio, 1000*rt, 1000*w.SLO.Target.Seconds(), costWeight, counted, cost, w.Cost, w.Cost.Basis())}
	if counted < costRatio {
		reasons = append(reasons, podscaler.Because(podscaler.ReasonCostRatioCapped,
			"cost %.5g is below its target: the ratio %.5g counts as 1, for being cheap is no reason to grow", cost, costRatio))
	}
	return k, reasons
}

// unknown is a recommendation that proposes nothing.
func unknown(code, format string, args ...any) podscaler.Recommendation {
	return podscaler.Recommendation{Reasons: []podscaler.Reason{podscaler.Because(code, format, args...)}}
}
