package sample

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// Fatal is what laws and tests have in common.
type Fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Decide asks the policy and holds it to what every policy has to keep.
func Decide(t Fatal, p nodescaler.Policy, s *nodescaler.Snapshot) nodescaler.Plan {
	t.Helper()
	before := Copy(s)
	x := nodescaler.NewIndex(s)
	plan := p.Decide(x)
	if !reflect.DeepEqual(before, s) { // cmp would take most of the time that the laws take
		t.Fatalf("the snapshot was written to: %s", cmp.Diff(before, s))
	}
	fresh := nodescaler.NewIndex(s)
	if !reflect.DeepEqual(lists(fresh), lists(x)) { // what is asked after the policy reads it too
		t.Fatalf("the index was written to")
	}
	if v := nodescaler.Check(fresh, plan); len(v) > 0 {
		t.Fatalf("the plan breaks the rules: %v\n%v", v, Lines(plan))
	}
	if !plan.LookAgain.After(s.Now) {
		t.Fatalf("look again at %v, now is %v", plan.LookAgain, s.Now)
	}
	return plan
}

// lists are all lists of an index.
func lists(x *nodescaler.Index) []any {
	return []any{x.Pools, x.Hosts, x.Machines, x.Spares, x.Nodes, x.Pending}
}

// LookedAt is the policy after its first look, in which it only orders.
func LookedAt(t *testing.T, p nodescaler.Policy, w *World) nodescaler.Policy {
	t.Helper()
	quiet := &World{Snapshot: *Copy(&w.Snapshot)}
	quiet.Pods, quiet.Future = nil, nil
	Decide(t, p, quiet.At(0))
	return p
}

// Expect compares the plan with the actions, and with codes that must be among its reasons.
func Expect(t *testing.T, p nodescaler.Plan, actions []string, reasons ...string) {
	t.Helper()
	if d := cmp.Diff(actions, Lines(p)); d != "" {
		t.Errorf("actions (-want +got):\n%s%s", d, Reasons(p))
	}
	for _, code := range reasons {
		if !slices.Contains(Codes(p), code) {
			t.Errorf("no reason %s in:%s", code, Reasons(p))
		}
	}
	for _, r := range p.Reasons {
		if r.Code == "" || r.Text == "" {
			t.Errorf("a reason says too little: %+v", r)
		}
	}
}

// Lines prints a plan's actions, each as a short line.
func Lines(p nodescaler.Plan) []string {
	var out []string
	for _, a := range p.Actions {
		switch a.Kind {
		case nodescaler.Buy:
			line := fmt.Sprintf("Buy %s %s %s", a.Pool, a.Shape.Name, a.Host)
			if a.Keep {
				line += " to keep"
			}
			out = append(out, line)
		case nodescaler.Evict, nodescaler.DeletePod:
			out = append(out, string(a.Kind)+" "+a.Pod)
		case nodescaler.Return, nodescaler.Stash, nodescaler.Wake, nodescaler.Reboot:
			out = append(out, string(a.Kind)+" "+a.Machine)
		default:
			out = append(out, string(a.Kind)+" "+a.Node)
		}
	}
	return out
}

// Codes is the codes of all of a plan's reasons and its actions', sorted.
func Codes(p nodescaler.Plan) []string {
	var out []string
	for _, r := range p.Reasons {
		out = append(out, r.Code)
	}
	for _, a := range p.Actions {
		for _, r := range a.Reasons {
			out = append(out, r.Code)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Reasons prints all reasons, for failures.
func Reasons(p nodescaler.Plan) string {
	out := ""
	for _, r := range p.Reasons {
		out += "\n  " + r.String()
	}
	for i, a := range p.Actions {
		for _, r := range a.Reasons {
			out += fmt.Sprintf("\n  %s: %s", Lines(nodescaler.Plan{Actions: p.Actions[i : i+1]})[0], r)
		}
	}
	return out
}
