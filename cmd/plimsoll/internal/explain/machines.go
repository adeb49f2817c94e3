package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

// machines explains the node half of a step.
func machines(root *Node, s *loop.Step) {
	n := root.Add("machines", "")
	o := &s.Observed
	switch {
	case s.Says(loop.CodeClusterUnknown):
		n.Add("seen", "nothing; Kubernetes' API server was not read, as the problems say")
	case s.Says(loop.CodeMachinesUnknown):
		n.Add("seen", fmt.Sprintf("%s and %s; Proxmox VE was not read, as the problems say", pricing.Count(o.Nodes, "node"), pricing.Count(o.Pods, "pod")))
	default:
		n.Add("seen", fmt.Sprintf("%s; %s, %s, %d without room", phases(o.Machines), pricing.Count(o.Nodes, "node"), pricing.Count(o.Pods, "pod"), o.Pending))
		if len(o.Hosts) > 0 {
			n.Add("hosts", hosts(o.Hosts))
		}
		n.Add("cost", cost(&o.Cost))
	}
	for i := range s.Plan.Actions {
		action(n, s, i)
	}
	if len(s.Plan.Actions) == 0 {
		n.Add("result", "no action")
	}
	if len(s.Plan.Unplaced) > 0 {
		waiting := n.Add("no place for", "")
		for i := range s.Plan.Unplaced {
			u := &s.Plan.Unplaced[i]
			waiting.Add(u.Who(), fmt.Sprintf("%s: %s", u.Why.Code, u.Text()))
		}
	}
	if len(s.Plan.Reasons) > 0 {
		label := "why no more"
		if len(s.Plan.Actions) == 0 {
			label = "why not"
		}
		addReasons(n.Add(label, ""), s.Plan.Reasons)
	}
	for _, pool := range slices.Sorted(maps.Keys(s.Plan.Advice)) {
		n.Add("advice for pool "+pool, s.Plan.Advice[pool].Text)
	}
	// A policy that is asked at every step wants to be asked at once, which says nothing.
	if wait := s.Plan.LookAgain.Sub(s.Time).Round(time.Second); wait > 0 {
		n.Add("look again", fmt.Sprintf("in %s at the latest", wait))
	}
}

// phases counts the machines by phase, in the order of their lives.
func phases(count map[nodescaler.Phase]int) string {
	var parts []string
	for _, p := range []nodescaler.Phase{nodescaler.Joined, nodescaler.Booting, nodescaler.Ordered, nodescaler.Spare, nodescaler.Deleting, nodescaler.Failed} {
		if n := count[p]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(string(p))))
		}
	}
	if len(parts) == 0 {
		return "no machine"
	}
	return "machines: " + strings.Join(parts, ", ")
}

// hosts says what of each host its machines may use.
func hosts(list []loop.HostLoad) string {
	parts := make([]string, len(list))
	for i := range list {
		h := &list[i]
		var used pricing.MilliCPU
		for j := range h.Machines {
			if h.Machines[j].Phase != nodescaler.Spare { // one that is stopped takes none
				used += h.Machines[j].Shape.CPU
			}
		}
		parts[i] = fmt.Sprintf("%s %s of %s vCPU", h.Name, used.Cores(), h.Room.CPU.Cores())
		if !h.Online {
			parts[i] += " (down)"
		}
	}
	return strings.Join(parts, ", ")
}

func cost(c *loop.Cost) string {
	text := Rate(c.Joined, c.Unit) + " for joined machines"
	if c.Ordered != c.Joined {
		text += ", " + Rate(c.Ordered, c.Unit) + " with machines on order or being deleted"
	}
	return text + "; " + c.Spent.Display(c.Unit) + " spent since the first step"
}

// Rate prints a rate by the hour and by the month.
func Rate(r pricing.Rate, unit string) string {
	return fmt.Sprintf("%s (%s/mo)", r.Display(unit), r.PerMonth().Display(unit))
}

// change prints what an action adds to or takes off the cost.
func change(r pricing.Rate, unit string) string {
	plus := ""
	if r > 0 {
		plus = "+"
	}
	return fmt.Sprintf("%s%s (%s%s/mo)", plus, r.Display(unit), plus, r.PerMonth().Display(unit))
}

// action explains one action of the plan.
func action(under *Node, s *loop.Step, i int) {
	a := &s.Plan.Actions[i]
	text := What(a)
	if a.Rate != 0 {
		text += "  " + change(a.Rate, s.Observed.Cost.Unit)
	}
	n := under.Add(strings.ToLower(string(a.Kind)), text+"  "+outcome(s.Tried(i)))
	addReasons(n, a.Reasons)
}

// What says what an action is done to.
func What(a *nodescaler.Action) string {
	switch a.Kind {
	case nodescaler.Buy:
		text := nodescaler.MachineName(a.Pool, a.Order)
		if a.Shape != nil {
			text += fmt.Sprintf(": %s, %s vCPU and %s", a.Shape.Name, a.Shape.CPU.Cores(), a.Shape.Memory)
		}
		return text + ", on " + a.Host
	case nodescaler.Evict, nodescaler.DeletePod:
		return a.Pod + " off " + a.Node
	case nodescaler.Return, nodescaler.Stash, nodescaler.Wake, nodescaler.Reboot:
		return a.Machine
	case nodescaler.Cordon, nodescaler.Uncordon:
	}
	return a.Node
}
