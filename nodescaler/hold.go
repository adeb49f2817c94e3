package nodescaler

import (
	"fmt"
	"strings"
)

// A machine is held while something speaks against taking it down: its nodes contradict one another
// or themselves, a claim's volume lies on its disk, or whoever makes machines says so. What is held
// is capacity that stays: it carries pods and takes new ones, and is neither emptied, stopped nor
// destroyed.

// Holds says of each machine, by name, why nothing may empty, stop or destroy it.
func Holds(machines []Machine, nodes []Node) map[string]Reason {
	ids := NewIdentities(machines)
	claims := make([]Claim, len(nodes))
	for i := range nodes {
		claims[i] = ids.Of(nodes[i].Identity())
	}
	return holds(machines, func(i int) *Node { return &nodes[i] }, claims)
}

// holds works it out from what each node claims. Contradictions weigh most: until they are solved
// it is not known what else is true.
func holds(machines []Machine, node func(int) *Node, claims []Claim) map[string]Reason {
	held := contradictions(claims, func(i int) string { return node(i).Name })
	note := func(m *Machine, why *Reason) {
		if _, known := held[m.Name]; !known && why != nil {
			held[m.Name] = *why
		}
	}
	for i := range machines {
		note(&machines[i], machines[i].Held)
	}
	for i, c := range claims {
		for _, m := range c.Named {
			note(m, node(i).alive(m))
			note(m, node(i).keeps())
		}
	}
	return held
}

// alive says that a node is ready whose machine is taken to have failed.
func (n *Node) alive(m *Machine) *Reason {
	if m.Phase != Failed || !n.Ready {
		return nil
	}
	return reason(NodeContradicts, "node %s is ready, and its machine %s is taken to have failed: %s", n.Name, m.Name, m.Problem)
}

// keeps says what lies on the node's own disk and goes with it.
func (n *Node) keeps() *Reason {
	const named = 3
	switch claims := n.LocalClaims; {
	case n.ClaimsUnknown:
		return reason(LocalVolume, "it is not known which claims have their volumes on the disk of node %s", n.Name)
	case len(claims) == 0:
		return nil
	default:
		list := strings.Join(claims[:min(len(claims), named)], ", ")
		if more := len(claims) - named; more > 0 {
			list += fmt.Sprintf(" and %d more", more)
		}
		return reason(LocalVolume, "node %s has volumes on its own disk, of %s: they would go with it", n.Name, list)
	}
}

// Hold says why nothing may empty, stop or destroy the machine; nil if nothing speaks against it.
func (x *Index) Hold(m *Machine) *Reason {
	if why, held := x.holds[m.Name]; held {
		return &why
	}
	return nil
}
