package nodescaler

import (
	"fmt"
	"strings"
)

// A machine is held while a fact forbids to reclaim it: its nodes contradict each other or
// themselves, the volume of a claim is on its disk, or the machine port says so. A held machine
// remains capacity: it carries pods and takes new ones, and is not drained, stopped or destroyed.

// Holds returns for each held machine, by name, why it must not be drained, stopped or destroyed.
func Holds(machines []Machine, nodes []Node) map[string]Reason {
	ids := NewIdentities(machines)
	claims := make([]Claim, len(nodes))
	for i := range nodes {
		claims[i] = ids.Of(nodes[i].Identity())
	}
	return holds(machines, func(i int) *Node { return &nodes[i] }, claims)
}

// holds computes it from the claims of each node. Contradictions come first: until they are
// resolved, nothing else about the machine is certain.
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

// alive reports a ready node whose machine counts as failed.
func (n *Node) alive(m *Machine) *Reason {
	if m.Phase != Failed || !n.Ready {
		return nil
	}
	return reason(NodeContradicts, "node %s is ready, and its machine %s is taken to have failed: %s", n.Name, m.Name, m.Problem)
}

// keeps reports a volume on the node's own disk, which would be lost with it.
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

// Hold is why the machine must not be drained, stopped or destroyed; nil if it is not held.
func (x *Index) Hold(m *Machine) *Reason {
	if why, held := x.holds[m.Name]; held {
		return &why
	}
	return nil
}
