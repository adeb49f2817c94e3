package nodescaler

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/plimsoll/plimsoll/pricing"
)

// DefaultPodSlots is how many pods a node takes by the kubelet's own default.
const DefaultPodSlots = 110

// Slots reads a number of pod slots, in which 0 means Kubernetes' default.
func Slots(n int) int {
	if n == 0 {
		return DefaultPodSlots
	}
	return n
}

// Used is what the pods on a node take of it.
type Used struct {
	Requests pricing.Resources
	Extra    pricing.Amounts `json:",omitempty"`
	Pods     int
}

// With returns u with the pod added.
func (u Used) With(p *Pod) Used {
	return Used{Requests: u.Requests.Plus(p.Requests), Extra: u.Extra.Plus(p.Extra), Pods: u.Pods + 1}
}

// Without returns u with the pod taken away.
func (u Used) Without(p *Pod) Used {
	return Used{Requests: u.Requests.Minus(p.Requests), Extra: u.Extra.Minus(p.Extra), Pods: u.Pods - 1}
}

// Refusal returns the code of the first reason for which the node does not take the pod, or
// "" if it does. It allocates nothing: this is what simulations call a million times. The
// order of the checks is the order in which one would have to change things.
func Refusal(p *Pod, n *Node, used Used) string {
	if code := works(p, n); code != "" {
		return code
	}
	if code := Accepts(p, n); code != "" {
		return code
	}
	return lacks(p, n.Allocatable.Minus(used.Requests), n.Extra, used.Extra, Slots(n.PodSlots)-used.Pods)
}

// works returns the code of the reason why the node takes no pods for now, or "".
func works(p *Pod, n *Node) string {
	switch {
	case !n.Ready && !tolerates(p, notReady):
		return NodeNotReady
	case n.Cordoned && !tolerates(p, unschedulable):
		return NodeCordoned
	}
	return ""
}

// lacks compares the pod's requests with the free CPU, memory and slots, and with other resources
// and their use. A pod that requests nothing of a resource fits even onto a node that is
// overcommitted in it, as in Kubernetes.
func lacks(p *Pod, free pricing.Resources, extra, used pricing.Amounts, slots int) string {
	switch {
	case p.Requests.CPU > 0 && p.Requests.CPU > free.CPU:
		return InsufficientCPU
	case p.Requests.Memory > 0 && p.Requests.Memory > free.Memory:
		return InsufficientMemory
	case extra.Lacks(p.Extra, used) != "":
		return InsufficientResource
	case slots < 1:
		return NoPodSlot
	}
	return ""
}

// Kubernetes keeps pods off nodes that are not ready, or cordoned, by these taints, so that a
// pod which tolerates everything is placed there all the same.
var (
	notReady      = Taint{Key: "node.kubernetes.io/not-ready", Effect: "NoSchedule"}
	unschedulable = Taint{Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule"}
)

// Accepts returns the code of the reason why a node with the name, labels and taints of this one
// does not take the pod, regardless of room, or "" if it does. It allocates nothing.
func Accepts(p *Pod, n *Node) string {
	if !Tolerates(p, n.Taints) {
		return TaintNotTolerated
	}
	if !selects(p, n) {
		return SelectorMismatch
	}
	for _, v := range p.Volumes {
		if !v.Meets(n) {
			return VolumeElsewhere
		}
	}
	return ""
}

// selects reports whether the node is one that the pod's selector and node affinity ask for.
func selects(p *Pod, n *Node) bool {
	for key, want := range p.Selector {
		if got, ok := n.Labels[key]; !ok || got != want {
			return false
		}
	}
	return p.Affinity == nil || p.Affinity.Meets(n)
}

// Tolerates reports whether the pod tolerates all of the taints.
func Tolerates(p *Pod, taints []Taint) bool {
	for i := range taints {
		if !tolerates(p, taints[i]) {
			return false
		}
	}
	return true
}

// tolerates reports whether one of the pod's tolerations matches the taint.
func tolerates(p *Pod, t Taint) bool {
	for i := range p.Tolerations {
		o := &p.Tolerations[i]
		if (o.Effect == "" || o.Effect == t.Effect) &&
			(o.Key == "" || o.Key == t.Key && (o.Value == "" && !o.Exact || o.Value == t.Value)) {
			return true
		}
	}
	return false
}

// SelectNowhere is a label that no node has. A pod with a requirement that Pod has no field for
// selects it, with the requirement as its value. So no machine is ordered for the pod in vain, and
// its node is not drained. The value of SelectHelp is what would help, or "".
const (
	SelectNowhere = "plimsoll.dev/cannot-foresee"
	SelectHelp    = "plimsoll.dev/cannot-foresee-help"
)

// Nowhere reports whether the pod requires what no node is known to have.
func (p *Pod) Nowhere() bool { return p.Selector[SelectNowhere] != "" }

// Mismatch says in words what Accepts found; "" if it found nothing.
func Mismatch(p *Pod, n *Node) string {
	for _, t := range n.Taints {
		if !tolerates(p, t) {
			return fmt.Sprintf("has taint %s=%s:%s, which is not tolerated", t.Key, t.Value, t.Effect)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.Selector)) {
		if got, ok := n.Labels[key]; key == SelectNowhere {
			return "is not known to be " + p.Selector[key]
		} else if !ok {
			return fmt.Sprintf("has no label %s; %s is selected", key, p.Selector[key])
		} else if got != p.Selector[key] {
			return fmt.Sprintf("has label %s=%s; %s is selected", key, got, p.Selector[key])
		}
	}
	if p.Affinity != nil && !p.Affinity.Meets(n) {
		return fmt.Sprintf("does not meet the pod's node affinity, which requires %s", p.Affinity)
	}
	for _, v := range p.Volumes {
		if !v.Meets(n) {
			return fmt.Sprintf("does not reach a volume of the pod, which requires %s", v)
		}
	}
	return ""
}

// Class is all that Accepts and Clash read of a pod, as a string. Pods of one class are accepted by
// the same nodes, beside the same pods. The order and the repetition of tolerations do not matter.
func Class(p *Pod) string {
	if len(p.Selector)+len(p.Tolerations)+len(p.Volumes) == 0 && p.Affinity == nil && !p.Marked() {
		return ""
	}
	// Quoted, so that no label can be written to look like two.
	var b []byte
	for _, key := range slices.Sorted(maps.Keys(p.Selector)) {
		b = append(strconv.AppendQuote(b, key), '=')
		b = append(strconv.AppendQuote(b, p.Selector[key]), ' ')
	}
	if p.Affinity != nil {
		b = p.Affinity.appendClass(b)
	}
	for _, v := range p.Volumes {
		b = v.appendClass(append(b, '@'))
	}
	tolerations := make([]string, len(p.Tolerations))
	for i, t := range p.Tolerations {
		tolerations[i] = "~" + strconv.Quote(t.Key) + "=" + strconv.Quote(t.Value) + ":" + strconv.Quote(t.Effect)
		if t.Exact {
			tolerations[i] += "!"
		}
	}
	slices.Sort(tolerations)
	for _, t := range slices.Compact(tolerations) {
		b = append(append(b, t...), ' ')
	}
	for _, mark := range p.Has {
		b = append(strconv.AppendQuote(append(b, '+'), mark), ' ')
	}
	for _, mark := range p.Repels {
		b = append(strconv.AppendQuote(append(b, '!'), mark), ' ')
	}
	return string(b)
}

// Amount prints resources for people: 1500m CPU and 2.5 GiB.
func Amount(r pricing.Resources) string {
	return fmt.Sprintf("%dm CPU and %s", r.CPU, r.Memory.Rounded())
}
