package replay

import "github.com/plimsoll/plimsoll/podscaler/capacity"

func init() {
	register(Kind{
		Name: "hpa", Title: "is Kubernetes' autoscaler as the paper has it: a decision a minute by the pods' use (Eq. 12-14)",
		Knob: Excess, New: newHPA,
	})
}

// hpa goes by what was served, which cannot be above what there was room for.
type hpa struct {
	profile capacity.Profile
	inner   *capacity.Autoscaler
}

func newHPA(s Setting) (Scaler, error) { return hpaOf(s) }

func hpaOf(s Setting) (*hpa, error) {
	h := capacity.HPA{Target: s.Excess, Tolerance: s.Tolerance, Min: s.Min, Max: s.Max, Stabilization: s.Stabilization}
	if err := h.Validate(); err != nil {
		return nil, err
	}
	return &hpa{profile: s.Profile, inner: h.Start()}, nil
}

func (h *hpa) Next(p capacity.Period) int { return h.inner.Next(h.profile, p.Pods, p.Served) }
