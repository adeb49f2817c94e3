package resources

import (
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// guards reads what is around the policy.
func (f *faults) guards(s *v1alpha1.WorkloadAutoscalerSpec, w *podscaler.Workload) {
	for i := range s.Schedules {
		w.Schedules = append(w.Schedules, f.schedule(fmt.Sprintf("spec.schedules[%d]", i), &s.Schedules[i]))
	}
	if s.Fallback != nil {
		w.Fallback = &podscaler.Fallback{
			After:    f.within("spec.fallback.after", s.Fallback.After, time.Minute, day),
			Behavior: podscaler.FallbackBehavior(s.Fallback.Behavior),
		}
		if s.Fallback.Replicas != nil {
			w.Fallback.Replicas = int(*s.Fallback.Replicas)
		}
	}
	if i := s.Idle; i != nil {
		w.Idle = &podscaler.Idle{Replicas: int(i.Replicas), After: 5 * time.Minute}
		if i.After != "" {
			w.Idle.After = f.within("spec.idle.after", i.After, 0, day)
		}
	}
	if r := s.Readiness; r != nil {
		w.Readiness = podscaler.Readiness{
			InitialDelay:        f.maybe("spec.readiness.initialDelay", r.InitialDelay, time.Hour),
			CPUInitialization:   f.maybe("spec.readiness.cpuInitialization", r.CPUInitialization, time.Hour),
			MinAvailablePercent: int(r.MinAvailablePercent),
		}
	}
	if s.Upstream != nil {
		w.Upstream = f.upstream(s.Upstream)
	}
}

func (f *faults) upstream(u *v1alpha1.Upstream) podscaler.Upstream {
	out := podscaler.Upstream{Off: u.Disabled}
	if u.Drop != nil {
		out.Drop = *f.ratio("spec.upstream.drop", *u.Drop)
	}
	if u.ErrorRise != nil {
		out.ErrorRise = *f.ratio("spec.upstream.errorRise", *u.ErrorRise)
	}
	if within := f.maybe("spec.upstream.within", u.Within, time.Hour); within != nil {
		out.Within = *within
	}
	if hold := f.maybe("spec.upstream.hold", u.Hold, day); hold != nil {
		out.Hold = *hold
	}
	return out
}

func (f *faults) schedule(path string, s *v1alpha1.Schedule) podscaler.Schedule {
	out := podscaler.Schedule{
		Name: s.Name, Min: whole(s.MinReplicas), Max: whole(s.MaxReplicas),
		Start: f.cron(path+".start", s.Start), End: f.cron(path+".end", s.End),
		Ramp: f.within(path+".ramp", s.Ramp, 0, day),
	}
	if s.From != nil {
		out.From = s.From.UTC()
	}
	if s.To != nil {
		out.To = s.To.UTC()
	}
	if s.TimeZone != "" {
		var zone pricing.Zone
		if err := zone.UnmarshalText([]byte(s.TimeZone)); err != nil {
			f.note("", pricing.NewFault(path+".timeZone", err.Error()))
		}
		out.Zone = zone
	}
	return out
}

func (f *faults) cron(path string, c v1alpha1.CronTime) podscaler.Cron {
	if c == "" {
		return podscaler.Cron{}
	}
	read, err := podscaler.ParseCron(string(c))
	if err != nil {
		f.note("", pricing.NewFault(path, err.Error()))
	}
	return read
}

// maybe reads a duration that may be omitted.
func (f *faults) maybe(path string, d *v1alpha1.Duration, most time.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	v := f.within(path, *d, 0, most)
	return &v
}

func whole(n *int32) *int {
	if n == nil {
		return nil
	}
	v := int(*n)
	return &v
}
