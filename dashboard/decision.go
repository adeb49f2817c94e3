package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// Decision is what one record changed, or meant to.
type Decision struct {
	ID      string    `json:"id"`
	Time    time.Time `json:"time"`
	Changes []Change  `json:"changes"`
}

// Change is one thing that was changed, with its reasons.
type Change struct {
	Kind    string `json:"kind"` // Scale, Resize, or what the plan's actions are called
	Subject string `json:"subject"`
	Detail  string `json:"detail,omitempty"`
	// Failed is what went wrong with it, and Held why it was not tried.
	Failed string              `json:"failed,omitempty"`
	Held   string              `json:"held,omitempty"`
	Rate   float64             `json:"rate,omitempty"` // what it adds to the hourly cost
	Why    []nodescaler.Reason `json:"why,omitempty"`
}

// decisionOf is what a record changed; false if it only looked.
func decisionOf(s *loop.Step) (Decision, bool) {
	d := Decision{ID: s.ID, Time: s.Time.UTC()}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if w.Decision != nil && w.Decision.To != w.Decision.From {
			c := Change{Kind: "Scale", Subject: w.Workload, Detail: fmt.Sprintf("%d → %d", w.Decision.From, w.Decision.To), Why: w.Decision.Reasons}
			if w.Held != nil {
				c.Held = w.Held.Text
			}
			c.came(s.Rescaled(w.Workload))
			d.Changes = append(d.Changes, c)
		}
		if w.Resize != nil {
			kind := "Resize"
			if w.Resize.Evict {
				kind = "Evict"
			}
			c := Change{Kind: kind, Subject: w.Resize.Pod, Detail: w.Workload, Why: w.Resize.Reasons}
			if done := s.Resized(w); done != nil && !done.Applied {
				c.Failed = done.Outcome.Text
			}
			d.Changes = append(d.Changes, c)
		}
	}
	outcomes := make(map[int]*loop.Outcome, len(s.Outcomes))
	for i := range s.Outcomes {
		outcomes[s.Outcomes[i].Action] = &s.Outcomes[i]
	}
	for i := range s.Plan.Actions {
		c := changeOf(&s.Plan.Actions[i])
		c.came(outcomes[i])
		d.Changes = append(d.Changes, c)
	}
	return d, len(d.Changes) > 0
}

// changeOf is a change of machines.
func changeOf(a *nodescaler.Action) Change {
	c := Change{Kind: string(a.Kind), Rate: a.Rate.Units(), Why: a.Reasons}
	for _, name := range []string{a.Pod, a.Machine, a.Node, a.Order} {
		if c.Subject == "" {
			c.Subject = name
		}
	}
	var parts []string
	if a.Shape != nil {
		parts = append(parts, a.Shape.Name)
	}
	if a.Host != "" {
		parts = append(parts, "on "+a.Host)
	}
	if a.Pool != "" {
		parts = append(parts, "of pool "+a.Pool)
	}
	if a.Pod != "" && a.Node != "" {
		parts = append(parts, "off "+a.Node)
	}
	if a.Keep {
		parts = append(parts, "as a spare")
	}
	c.Detail = strings.Join(parts, " ")
	return c
}

// came puts in what came of the change.
func (c *Change) came(o *loop.Outcome) {
	if o == nil {
		return
	}
	c.Failed = o.Error
	if o.Held != nil {
		c.Held = o.Held.Text
	}
}

// of is the decision with its changes of one kind only, or with all for none.
func (d Decision) of(kind string) Decision {
	if kind != "" {
		d.Changes = slices.DeleteFunc(slices.Clone(d.Changes), func(c Change) bool { return c.Kind != kind })
	}
	return d
}

// about reports whether a decision is about something: a text that its names or reasons contain.
func (d *Decision) about(text string) bool {
	text = strings.ToLower(text)
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	for i := range d.Changes {
		c := &d.Changes[i]
		if has(c.Kind) || has(c.Subject) || has(c.Detail) || has(c.Failed) || has(c.Held) {
			return true
		}
		for _, w := range c.Why {
			if has(w.Code) || has(w.Text) {
				return true
			}
		}
	}
	return false
}
