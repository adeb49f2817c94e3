package whatif

import (
	"fmt"
	"slices"
)

// Row is one number of an answer as people read it. A dash is unknown.
type Row struct {
	Name       string `json:"name"`
	Recorded   string `json:"recorded"`
	Baseline   string `json:"baseline"`
	Changed    string `json:"changed"`
	Difference string `json:"difference"`
}

// rows are the answer side by side. The difference is that between the two that were played.
func (a *Answer) rows() []Row {
	all := []Row{
		row("cost, "+a.Unit, known(a.Recorded.Cost), known(a.Baseline.Cost), known(a.Changed.Cost), "%.4f", relative),
		row("machines, mean", known(a.Recorded.Machines), known(a.Baseline.Machines), known(a.Changed.Machines), "%.2f", relative),
	}
	for i := range a.Baseline.Workloads {
		name := a.Baseline.Workloads[i].Workload
		was, base, now := a.Recorded.of(name), a.Baseline.of(name), a.Changed.of(name)
		all = append(all,
			row(name+" replicas, mean", was.replicas(), base.replicas(), now.replicas(), "%.2f", relative),
			row(name+" late, %", was.late(), base.late(), now.late(), "%.2f", points),
			row(name+" minutes over", was.over(), base.over(), now.over(), "%.0f", plain))
	}
	return all
}

// of is what came of a workload; nil if it was not there.
func (o *Outcome) of(name string) *Service {
	i := slices.IndexFunc(o.Workloads, func(s Service) bool { return s.Workload == name })
	if i < 0 {
		return nil
	}
	return &o.Workloads[i]
}

func known(v float64) *float64 { return &v }

func (s *Service) replicas() *float64 {
	if s == nil {
		return nil
	}
	return &s.Replicas
}

func (s *Service) late() *float64 {
	if s == nil || s.Late == nil {
		return nil
	}
	return known(100 * *s.Late)
}

func (s *Service) over() *float64 {
	if s == nil || s.Over == nil {
		return nil
	}
	return known(float64(*s.Over))
}

func relative(was, is float64) string {
	if was == 0 {
		return "–"
	}
	return fmt.Sprintf("%+.1f %%", 100*(is/was-1))
}

func points(was, is float64) string { return fmt.Sprintf("%+.2f", is-was) }
func plain(was, is float64) string  { return fmt.Sprintf("%+.0f", is-was) }

func row(name string, recorded, baseline, changed *float64, format string, difference func(was, is float64) string) Row {
	text := func(v *float64) string {
		if v == nil {
			return "–"
		}
		return fmt.Sprintf(format, *v)
	}
	r := Row{Name: name, Recorded: text(recorded), Baseline: text(baseline), Changed: text(changed), Difference: "–"}
	if baseline != nil && changed != nil {
		r.Difference = difference(*baseline, *changed)
	}
	return r
}
