package nodescaler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A node is its provider ID, then its system UUID; its name only confirms them. A kubelet reports
// all three itself, so whoever has a node's credentials can claim another machine: what contradicts
// another answer decides nothing, and holds every machine that it names.

// Identity is what a node says about the machine that it runs on.
type Identity struct {
	Name, ProviderID, SystemUUID string
	// Machine is the machine's name, where an adapter knows it by other means; it weighs as much as
	// Name.
	Machine string
}

// Identity is what the node says about its machine.
func (n *Node) Identity() Identity {
	return Identity{n.Name, n.ProviderID, n.SystemUUID, n.Machine}
}

// Identities finds machines by what their nodes say.
type Identities struct {
	byID, byUUID, byName map[string]*Machine
}

// NewIdentities indexes the machines, into which it points.
func NewIdentities(machines []Machine) *Identities {
	ids := &Identities{
		byID: make(map[string]*Machine, len(machines)), byUUID: make(map[string]*Machine, len(machines)),
		byName: make(map[string]*Machine, len(machines)),
	}
	note := func(by map[string]*Machine, key string, m *Machine) {
		// The lower name wins, so that the order of the list does not matter.
		if known := by[key]; key != "" && (known == nil || m.Name < known.Name) {
			by[key] = m
		}
	}
	for i := range machines {
		m := &machines[i]
		ids.byName[m.Name] = m
		note(ids.byID, m.ProviderID, m)
		note(ids.byUUID, uuidKey(m.SystemUUID), m)
	}
	return ids
}

// Machine returns the machine of that name, or nil.
func (ids *Identities) Machine(name string) *Machine { return ids.byName[name] }

// Claim is which machine a node runs on, as far as its words can be believed.
type Claim struct {
	Machine *Machine // nil if it is not ours, or not known to be
	// Named are all machines that the node names in any way, without repeats.
	Named []*Machine
	// Contradiction says how the node's words disagree; nil if they do not.
	Contradiction *Reason
}

// uuidKey is a system UUID without what different tools write differently.
func uuidKey(uuid string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimSpace(uuid), "-", ""))
}

// SameUUID reports whether two system UUIDs are of one machine, however tools write them.
func SameUUID(a, b string) bool {
	a, b = uuidKey(a), uuidKey(b)
	return a != "" && (a == b || swapped(a) == b)
}

// swapped is the UUID as tools read it that take the first three fields for numbers of the other
// byte order, or empty.
func swapped(key string) string {
	if len(key) != 32 {
		return ""
	}
	return key[6:8] + key[4:6] + key[2:4] + key[0:2] + key[10:12] + key[8:10] + key[14:16] + key[12:14] + key[16:]
}

// Of judges what a node says.
func (ids *Identities) Of(n Identity) Claim {
	byID, byUUID := ids.byID[n.ProviderID], cmp.Or(ids.byUUID[uuidKey(n.SystemUUID)], ids.byUUID[swapped(uuidKey(n.SystemUUID))])
	known, byName := ids.byName[n.Machine], ids.byName[n.Name]
	c := Claim{Machine: cmp.Or(byID, byUUID, known, byName)}
	if c.Machine == nil {
		return c
	}
	for _, m := range []*Machine{byID, byUUID, known, byName} {
		if m != nil && !slices.Contains(c.Named, m) {
			c.Named = append(c.Named, m)
		}
	}
	switch m := c.Machine; {
	case len(c.Named) > 1:
		c.Contradiction = reason(NodeContradicts, "node %s names machines %s and %s: delete the Node object that is wrong",
			n.Name, c.Named[0].Name, c.Named[1].Name)
	case byUUID == nil && n.SystemUUID != "" && m.SystemUUID != "":
		c.Contradiction = reason(NodeContradicts, "node %s names machine %s, and runs on another, of system UUID %s",
			n.Name, m.Name, n.SystemUUID)
	case byID == nil && byUUID == nil && n.ProviderID != "" && m.ProviderID != "":
		c.Contradiction = reason(NodeContradicts, "node %s has the name of machine %s and another's provider ID, %s",
			n.Name, m.Name, n.ProviderID)
	}
	if c.Contradiction != nil && byID == nil && byUUID == nil {
		c.Machine = nil // only the name speaks for it, and more speaks against it
	}
	return c
}

func reason(code, format string, args ...any) *Reason {
	return &Reason{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Contradictions says of each machine, by name, why what nodes say of it cannot all be true: one
// node contradicts itself, or two claim the same machine.
func (ids *Identities) Contradictions(nodes []Identity) map[string]Reason {
	claims := make([]Claim, len(nodes))
	for i, n := range nodes {
		claims[i] = ids.Of(n)
	}
	return contradictions(claims, func(i int) string { return nodes[i].Name })
}

func contradictions(claims []Claim, name func(int) string) map[string]Reason {
	held, first := map[string]Reason{}, make(map[*Machine]int, len(claims))
	for i, c := range claims {
		for _, m := range c.Named {
			other, twice := first[m]
			first[m] = i
			switch _, known := held[m.Name]; {
			case known:
			case twice:
				held[m.Name] = *reason(DuplicateNode, "nodes %s and %s both claim machine %s: delete the Node object that is wrong",
					name(other), name(i), m.Name)
			case c.Contradiction != nil:
				held[m.Name] = *c.Contradiction
			}
		}
	}
	return held
}

// Sight is what the API server shows of a machine's nodes at one moment, asked directly: the last
// look before something is stopped or destroyed.
type Sight struct {
	Nodes []SeenNode
}

// SeenNode is a node that names the machine by provider ID, system UUID or name.
type SeenNode struct {
	Identity
	UID   string
	Ready bool
	// Open nodes take pods: they are neither cordoned nor marked by cluster-autoscaler as about to
	// be deleted. One that is not known to be is not.
	Open bool
	// Pods are those that a drain would have to move, as namespace/name: no daemons, no mirrors,
	// none that have finished.
	Pods []string
	// LocalClaims are as in Node.
	LocalClaims []string
}
