// Package explain shows why a step of the loop did what it did: from the step's record
// alone, as a tree from the trigger over the inputs, the proposal and its limits to the result.
package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Tree explains a step.
func Tree(s *loop.Step) *Node {
	root := &Node{Text: fmt.Sprintf("Decision %s · %s · %s", s.ID, s.Time.Format("2006-01-02 15:04:05 MST"), Headline(s))}
	cause(root, s)
	for i := range s.Workloads {
		workload(root, s, i)
	}
	machines(root, s)
	if len(s.Problems) > 0 {
		addReasons(root.Add("problems", ""), s.Problems)
	}
	return root
}

// Headline says in a few words what was decided, and what came of it.
func Headline(s *loop.Step) string {
	var parts []string
	for i := range s.Workloads {
		if d := s.Workloads[i].Decision; d != nil && d.To != d.From {
			change := fmt.Sprintf("%s %d → %d replicas", d.Workload, d.From, d.To)
			parts = append(parts, came(s.Rescaled(d.Workload), change, "scale "+change))
		}
	}
	if n := resizes(s); n > 0 {
		parts = append(parts, pricing.Count(n, "pod")+" resized")
	}
	for _, k := range deeds {
		n := map[string]int{}
		for i := range s.Plan.Actions {
			if s.Plan.Actions[i].Kind == k.kind {
				n[came(s.Tried(i), "", k.do)]++
			}
		}
		for _, how := range []string{"", "failed to " + k.do, "would " + k.do} {
			switch what := pricing.Count(n[how], k.what); {
			case n[how] == 0:
			case how == "":
				parts = append(parts, what+" "+k.done)
			default:
				parts = append(parts, how+" "+what)
			}
		}
	}
	if len(parts) == 0 {
		return "nothing changed"
	}
	return strings.Join(parts, ", ")
}

// came says that something was done, failed, or would be done: what is held or only recommended is
// not tried.
func came(o *loop.Outcome, done, do string) string {
	switch {
	case o == nil || o.Held != nil:
		return "would " + do
	case o.Error != "":
		return "failed to " + do
	}
	return done
}

// resizes counts the pods that were resized.
func resizes(s *loop.Step) (n int) {
	for i := range s.Workloads {
		if r := s.Resized(&s.Workloads[i]); r != nil && r.Applied && !r.Evicted {
			n++
		}
	}
	return n
}

// deeds are the kinds of actions, in words.
var deeds = []struct {
	kind           nodescaler.Kind
	what, done, do string
}{
	{nodescaler.Buy, "machine", "ordered", "order"},
	{nodescaler.Cordon, "node", "to be emptied", "empty"},
	{nodescaler.Uncordon, "node", "kept after all", "keep"},
	{nodescaler.Evict, "pod", "moved", "move"},
	{nodescaler.DeletePod, "pod", "deleted", "delete"},
	{nodescaler.Return, "machine", "reclaimed", "reclaim"},
	{nodescaler.Stash, "machine", "kept as a spare", "stop"},
	{nodescaler.Wake, "spare", "woken", "wake"},
	{nodescaler.Reboot, "machine", "rebooted", "reboot"},
}

// cause says why what changed did: by the first reason of each change, which policies put first.
// Of actions alike it names the first.
func cause(root *Node, s *loop.Step) {
	n, due := root.Add("cause", ""), 0
	for i := range s.Workloads {
		d := s.Workloads[i].Decision
		if d == nil {
			continue
		}
		if due++; d.To != d.From && len(d.Reasons) > 0 {
			n.Add(fmt.Sprintf("%s %d → %d", d.Workload, d.From, d.To), d.Reasons[0].Text)
		}
	}
	for _, k := range deeds {
		first := slices.IndexFunc(s.Plan.Actions, func(a nodescaler.Action) bool { return a.Kind == k.kind && len(a.Reasons) > 0 })
		if first >= 0 {
			n.Add(k.do+" "+k.what, s.Plan.Actions[first].Reasons[0].Text)
		}
	}
	if s.Observed.Pending > 0 {
		n.Add("", pricing.Count(s.Observed.Pending, "pod")+" found no node with room")
	}
	if failed := s.Observed.Machines[nodescaler.Failed]; failed > 0 {
		n.Add("", pricing.Count(failed, "machine")+" had failed")
	}
	if len(n.Under) == 0 {
		n.Text = fmt.Sprintf("a regular step with %s due: nothing had to change", pricing.Count(due, "workload"))
	}
}

func workload(root *Node, s *loop.Step, i int) {
	w := &s.Workloads[i]
	n := root.Add(w.Workload, "")
	inputs(n, w)
	defer resize(n, s, w)
	d := w.Decision
	if d == nil {
		n.Add("result", "not due: stays at "+replicas(w.Replicas))
		return
	}
	policy, guards := split(d.Reasons)
	proposal := n.Add("proposal", "none: what it needs to know is unknown")
	if d.Known {
		proposal.Text = replicas(d.Proposed)
	}
	addReasons(proposal, policy)
	if len(guards) > 0 {
		addReasons(n.Add("limits", ""), guards)
	}
	result(n, s, w)
}

// result says what came of a change of replicas.
func result(n *Node, s *loop.Step, w *loop.WorkloadStep) {
	d := w.Decision
	if d.To == d.From {
		n.Add("result", "stays at "+replicas(d.To))
		return
	}
	if held := w.Held; held != nil {
		n.Add("result", fmt.Sprintf("%d → %s  %s", d.From, replicas(d.To), left(held)))
		return
	}
	n.Add("result", fmt.Sprintf("%d → %s  %s", d.From, replicas(d.To), outcome(s.Rescaled(d.Workload))))
}

// resize says which pod gets other requests, and why.
func resize(n *Node, s *loop.Step, w *loop.WorkloadStep) {
	r := w.Resize
	if r == nil {
		return
	}
	var of *loop.Outcome
	if at := slices.IndexFunc(s.Outcomes, func(o loop.Outcome) bool { return o.Workload == w.Workload && o.Pod == r.Pod }); at >= 0 {
		of = &s.Outcomes[at]
	}
	addReasons(n.Add(r.Action(), fmt.Sprintf("%s: %s  %s", r.Pod, r.What(), outcome(of))), r.Reasons)
}

func replicas(n int) string { return pricing.Count(n, "replica") }

// outcome says what came of something that was decided.
func outcome(of *loop.Outcome) string {
	switch {
	case of == nil:
		return "· not carried out"
	case of.Held != nil:
		return left(of.Held)
	case of.Error != "":
		return "✗ " + of.Error
	}
	return "✓ done"
}

// left says why something was decided for and left as it is.
func left(why *nodescaler.Reason) string { return fmt.Sprintf("‖ held: %s: %s", why.Code, why.Text) }

// guards are the codes of the reasons that the guards around a policy give. All others are the
// policy's own.
var guards = map[string]bool{
	podscaler.ReasonScalingDisabled:     true,
	podscaler.ReasonTooFewReplicas:      true,
	podscaler.ReasonTooManyReplicas:     true,
	podscaler.ReasonScaleUpLimit:        true,
	podscaler.ReasonScaleDownLimit:      true,
	podscaler.ReasonScaleUpStabilized:   true,
	podscaler.ReasonScaleDownStabilized: true,
	podscaler.ReasonDesiredWithinRange:  true,
	podscaler.ReasonCooldown:            true,
}

// split separates the policy's reasons from those of the guards.
func split(all []podscaler.Reason) (policy, limits []podscaler.Reason) {
	for _, r := range all {
		if guards[r.Code] {
			limits = append(limits, r)
		} else {
			policy = append(policy, r)
		}
	}
	return policy, limits
}

func addReasons(n *Node, list []nodescaler.Reason) {
	for _, r := range list {
		n.Add(r.Code, r.Text)
	}
}

// inputs shows what the decision rested on. What could not be measured is named as unknown, but for
// what few workloads have measured.
func inputs(under *Node, w *loop.WorkloadStep) {
	n := under.Add("inputs", "")
	n.Add("replicas", fmt.Sprintf("%d desired, %d ready, %d pending", w.Replicas, w.Ready, w.Pending))
	in := w.Inputs
	if in == nil {
		return
	}
	latency := n.Add("latency", value(in.LatencyMs, 1, "%.0f ms"))
	if in.TargetMs > 0 {
		latency.Text += fmt.Sprintf(" (objective: at most %.4g ms%s)", in.TargetMs, verdict(in))
		n.Add("good", value(in.Good, 100, "%.2f %% of requests within the objective"))
		if b := in.Budget; b != nil {
			n.Add("budget", fmt.Sprintf("%.4g %% of the error budget of 30 days is left; burn rate %.3g over 1h, %.3g over 6h", 100*b.Left, b.Over(time.Hour), b.Over(6*time.Hour)))
		}
	}
	n.Add("arrivals", value(in.Arrivals, 1, "%.1f requests/s"))
	n.Add("in flight", value(in.InFlight, 1, "%.0f requests"))
	if in.Errors != nil {
		n.Add("failed", value(in.Errors, 100, "%.2f %% of requests"))
	}
	if in.Registered != nil {
		n.Add("registered", value(in.Registered, 1, "%.0f instances"))
	}
}

func verdict(in *loop.Inputs) string {
	switch {
	case in.LatencyMs == nil:
		return ""
	case *in.LatencyMs > in.TargetMs:
		return ", missed !"
	}
	return ", held ✓"
}

func value(v *float64, times float64, format string) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprintf(format, *v*times)
}
