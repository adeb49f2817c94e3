package recording

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// Comparison is how steps that were decided again compare with those that were recorded. Each is
// decided on what there was when it was recorded: what it would have led to is not followed.
type Comparison struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Terms int       `json:"terms"`
	Steps int       `json:"steps"`
	Same  int       `json:"same"`
	// First is the first step that is decided otherwise; nil if all are the same.
	First     *Difference       `json:"firstDifference,omitempty"`
	Workloads []WorkloadCompare `json:"workloads,omitempty"`
	Machines  []ActionCompare   `json:"machines,omitempty"`
}

// Difference is a step that is decided otherwise.
type Difference struct {
	ID       string    `json:"id"`
	Time     time.Time `json:"time"`
	Recorded []string  `json:"recorded"`
	Decided  []string  `json:"decided"`
}

// WorkloadCompare is how many replicas a workload was to have, on the mean of its decisions.
type WorkloadCompare struct {
	Workload  string  `json:"workload"`
	Decisions int     `json:"decisions"`
	Recorded  float64 `json:"recorded"`
	Decided   float64 `json:"decided"`
}

// ActionCompare is in how many steps there was an action of a kind.
type ActionCompare struct {
	Action   nodescaler.Kind `json:"action"`
	Recorded int             `json:"recordedSteps"`
	Decided  int             `json:"decidedSteps"`
}

// Add takes in a step: as it was recorded, and as it is decided now.
func (c *Comparison) Add(m *Moment, now *loop.Step, same bool) {
	if c.Steps++; c.Steps == 1 {
		c.From = m.Observation.Time
	}
	c.To = m.Observation.Time
	if m.Memory == Nothing || c.Steps == 1 {
		c.Terms++
	}
	if same {
		c.Same++
	} else if c.First == nil {
		c.First = difference(m, now)
	}
	c.addWorkloads(&m.Step, now)
	c.addActions(&m.Step, now)
}

// difference is what of two steps is not in both.
func difference(m *Moment, now *loop.Step) *Difference {
	was, is := lines(&m.Step), lines(now)
	without := func(all, others []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(l string) bool { return slices.Contains(others, l) })
	}
	return &Difference{m.Step.ID, m.Observation.Time, without(was, is), without(is, was)}
}

// lines are what a step decides, a line each.
func lines(s *loop.Step) (all []string) {
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if d := w.Decision; d != nil {
			why := ""
			if len(d.Reasons) > 0 {
				why = ": " + d.Reasons[0].Text
			}
			all = append(all, fmt.Sprintf("%s: %d → %d replicas%s", d.Workload, d.From, d.To, why))
		}
		if w.Resize != nil {
			all = append(all, w.Workload+": "+w.Resize.Action()+" pod "+w.Resize.Pod)
		}
	}
	for i := range s.Plan.Actions {
		a := &s.Plan.Actions[i]
		text := fmt.Sprintf("%s %s", a.Kind, cmp.Or(a.Pod, a.Machine, a.Node, a.Order))
		if a.Shape != nil {
			text = fmt.Sprintf("%s a %s of pool %s on %s", a.Kind, a.Shape.Name, a.Pool, cmp.Or(a.Host, "any host"))
		}
		if len(a.Reasons) > 0 {
			text += ": " + a.Reasons[0].Text
		}
		all = append(all, text)
	}
	for _, e := range s.Expected {
		all = append(all, fmt.Sprintf("%s: %d more expected", e.Workload, e.More))
	}
	for _, p := range s.Problems {
		all = append(all, p.Code+": "+p.Text)
	}
	return all
}

func (c *Comparison) addWorkloads(was, now *loop.Step) {
	for i := range was.Workloads {
		w := &was.Workloads[i]
		j := slices.IndexFunc(now.Workloads, func(n loop.WorkloadStep) bool { return n.Workload == w.Workload })
		if w.Decision == nil || j < 0 || now.Workloads[j].Decision == nil {
			continue
		}
		at, there := slices.BinarySearchFunc(c.Workloads, w.Workload, func(x WorkloadCompare, name string) int { return cmp.Compare(x.Workload, name) })
		if !there {
			c.Workloads = slices.Insert(c.Workloads, at, WorkloadCompare{Workload: w.Workload})
		}
		x := &c.Workloads[at]
		x.Decisions++
		x.Recorded += (float64(w.Decision.To) - x.Recorded) / float64(x.Decisions)
		x.Decided += (float64(now.Workloads[j].Decision.To) - x.Decided) / float64(x.Decisions)
	}
}

func (c *Comparison) addActions(was, now *loop.Step) {
	for kind := range kinds(was) {
		c.action(kind).Recorded++
	}
	for kind := range kinds(now) {
		c.action(kind).Decided++
	}
}

// kinds are those of a step's actions.
func kinds(s *loop.Step) map[nodescaler.Kind]bool {
	all := map[nodescaler.Kind]bool{}
	for i := range s.Plan.Actions {
		all[s.Plan.Actions[i].Kind] = true
	}
	return all
}

// action is the count of a kind.
func (c *Comparison) action(k nodescaler.Kind) *ActionCompare {
	at, there := slices.BinarySearchFunc(c.Machines, k, func(x ActionCompare, k nodescaler.Kind) int { return cmp.Compare(x.Action, k) })
	if !there {
		c.Machines = slices.Insert(c.Machines, at, ActionCompare{Action: k})
	}
	return &c.Machines[at]
}
