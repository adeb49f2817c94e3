package nodescaler

import (
	"fmt"
	"slices"
)

// Clash reports whether two pods cannot share a node: one repels a mark that the other has.
// Replicas with an anti-affinity to each other clash too.
func Clash(a, b *Pod) bool { return overlap(a.Repels, b.Has) || overlap(b.Repels, a.Has) }

// overlap reports whether two sorted lists have an element in common.
func overlap(a, b []string) bool {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			return true
		case a[0] < b[0]:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return false
}

// Marked reports whether the pod can clash with another one.
func (p *Pod) Marked() bool { return len(p.Has) > 0 || len(p.Repels) > 0 || len(p.Topology) > 0 }

// Crowd is the marked pods of a node, which others may clash with.
type Crowd []*Pod

// With is the crowd with the pod added. The crowd itself stays as it is.
func (c Crowd) With(p *Pod) Crowd {
	if !p.Marked() {
		return c
	}
	return append(slices.Clip(c), p)
}

// Without is the crowd with the pod taken away.
func (c Crowd) Without(p *Pod) Crowd {
	if i := slices.Index(c, p); i >= 0 {
		return slices.Delete(slices.Clone(c), i, i+1)
	}
	return c
}

// Clash is the first of the crowd that the pod cannot share a node with, or nil.
func (c Crowd) Clash(p *Pod) *Pod {
	if !p.Marked() {
		return nil
	}
	for _, other := range c {
		if Clash(p, other) {
			return other
		}
	}
	return nil
}

// Clashing says which pod of a node keeps another from it, and by what.
func Clashing(p, other *Pod) string {
	for _, pair := range [][2]*Pod{{p, other}, {other, p}} {
		for _, mark := range pair[0].Repels {
			if slices.Contains(pair[1].Has, mark) {
				return fmt.Sprintf("holds %s, and %s shares no node with pods that have %s", other.Name, pair[0].Name, mark)
			}
		}
	}
	return ""
}

// Topology is a rule of a pod over domains, which are the values of a label. The numbers of pods
// with a mark may differ by at most the skew between domains. With a skew of 0 no other pod with
// the mark may be in the pod's domain.
type Topology struct {
	Key, Mark string
	Skew      int
	// Together requires a pod with the mark in the domain. The first pod that has the mark itself
	// may go anywhere.
	Together bool `json:",omitempty"`
	// MinDomains is the least number of domains. With fewer, the smallest count is taken as 0.
	MinDomains int `json:",omitempty"`
	// AnyNode also counts nodes that the pod does not select. Tolerated only counts nodes whose
	// taints it tolerates.
	AnyNode, Tolerated bool `json:",omitempty"`
}

// Preference is a preferred affinity or a preferred rule of topology. It makes no node infeasible.
type Preference struct {
	Weight   int
	Affinity Affinity `json:",omitempty"`
	Rule     Topology `json:",omitzero"`
}

func (p *Preference) String() string {
	switch r := &p.Rule; {
	case r.Key == "":
		return p.Affinity.String()
	case r.Together:
		return fmt.Sprintf("a %s with %s", r.Key, r.Mark)
	case r.apart():
		return fmt.Sprintf("a %s without %s", r.Key, r.Mark)
	default:
		return fmt.Sprintf("to be spread by %s", r.Key)
	}
}

// HostLabel is the label that has another value on each node.
const HostLabel = "kubernetes.io/hostname"

// ZoneLabel is the label of a node's zone, for which Proxmox' cloud controllers take its host.
const ZoneLabel = "topology.kubernetes.io/zone"

// TypeLabel is the label of a node's instance type, which is the name of its machine's shape.
const TypeLabel = "node.kubernetes.io/instance-type"

// apart reports whether the rule is that no pod with the mark is in the pod's domain.
func (t *Topology) apart() bool { return t.Skew == 0 && !t.Together }

// Counts reports whether the node is in one of the domains of the pod's rule. For affinity and
// anti-affinity it does not matter which nodes the pod selects.
func (t *Topology) Counts(p *Pod, n *Node) bool {
	if n.domain(t.Key) == "" {
		return false
	}
	if t.Skew == 0 {
		return true
	}
	for i := range p.Topology {
		if other := &p.Topology[i]; other.Skew > 0 && n.domain(other.Key) == "" {
			return false
		}
	}
	return (t.AnyNode || selects(p, n)) && (!t.Tolerated || Tolerates(p, n.Taints) && works(p, n) == "")
}

// domain is the node's domain for the label, or "". For the host name each node is its own domain.
func (n *Node) domain(key string) string {
	if value := n.Labels[key]; value != "" || key != HostLabel {
		return value
	}
	return n.Name
}
