package pve

import (
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
)

// A node is found by what it says of its machine, its provider ID and its system UUID first: a name
// may be the host's full one, or may have been changed. A kubelet says all of it itself, so that
// what contradicts another answer proves nothing, and holds the machines that it names.

// match is which nodes the machines have.
type match struct {
	ids  *nodescaler.Identities       // of machines not gone; nil: match anew
	of   []nodescaler.Machine         // these machines, as far as nodes are held against them
	all  map[string]bool              // their names
	node map[string]Node              // by the machine's name
	held map[string]nodescaler.Reason // machines of which what nodes say cannot all be true
}

// members are the cluster's nodes, and which machines they are.
type members struct {
	cfg     *FleetConfig
	records *records
	roster  *roster

	nodes map[string]Node // by name; nil while they cannot be seen
	match match           // and whose they are
}

// identity is what the node says of its machine.
func (n *Node) identity() nodescaler.Identity {
	return nodescaler.Identity{Name: n.Name, ProviderID: n.ProviderID, SystemUUID: n.SystemUUID}
}

// self is what a machine's node has to say to be taken for it.
func (ms *members) self(m *tracked) nodescaler.Machine {
	return nodescaler.Machine{Name: m.Name, ProviderID: m.ProviderID, SystemUUID: ms.uuidOf(m)}
}

// uuidOf is the machine's system UUID. It is a hash, and asked for at every look.
func (ms *members) uuidOf(m *tracked) string {
	if m.uuid == "" {
		m.uuid = machineUUID(ms.cfg.Owner, m.Order)
	}
	return m.uuid
}

func sameSelf(a, b nodescaler.Machine) bool {
	return a.Name == b.Name && a.ProviderID == b.ProviderID && a.SystemUUID == b.SystemUUID
}

// selves are those of the machines that are gone, or of those that are not.
func (ms *members) selves(gone bool) []nodescaler.Machine {
	var all []nodescaler.Machine
	for _, m := range ms.roster.sorted() {
		if m.Gone.IsZero() != gone {
			all = append(all, ms.self(m))
		}
	}
	return all
}

// matchNodes finds the machines' nodes, and reports contradictions that are new. While nodes cannot
// be seen those that there were last: that nothing is known settles nothing.
func (ms *members) matchNodes() {
	was := ms.match.held
	selves := ms.selves(false)
	if ms.match.ids != nil && slices.EqualFunc(selves, ms.match.of, sameSelf) {
		return
	}
	now := match{ids: nodescaler.NewIdentities(selves), of: selves, all: make(map[string]bool, len(selves)), node: map[string]Node{}, held: was}
	for i := range selves {
		now.all[selves[i].Name] = true
	}
	ms.match = now
	if ms.nodes == nil {
		return
	}
	var said []nodescaler.Identity
	for _, name := range slices.Sorted(maps.Keys(ms.nodes)) {
		n := ms.nodes[name]
		said = append(said, n.identity())
		if c := now.ids.Of(n.identity()); c.Machine != nil && c.Contradiction == nil {
			if other, twice := now.node[c.Machine.Name]; !twice || n.Ready && !other.Ready {
				now.node[c.Machine.Name] = n
			}
		}
	}
	ms.match.held = now.ids.Contradictions(said)
	for _, m := range ms.roster.sorted() {
		if r, held := ms.match.held[m.Name]; held && m.Gone.IsZero() && was[m.Name].Code != r.Code {
			ms.records.say(m, r, "nothing stops or destroys it until that is settled")
		}
	}
}

// nodeOf is the machine's node, if one says so and does not contradict itself. Of two it is the one
// that is ready. One that was found since the others were matched is looked for by itself.
func (ms *members) nodeOf(m *tracked) (Node, bool) {
	if n, there := ms.match.node[m.Name]; there {
		return n, true
	}
	if ms.match.all[m.Name] || !m.Gone.IsZero() {
		return Node{}, false
	}
	ids := nodescaler.NewIdentities([]nodescaler.Machine{ms.self(m)})
	for _, name := range slices.Sorted(maps.Keys(ms.nodes)) {
		n := ms.nodes[name]
		if c := ids.Of(n.identity()); c.Machine != nil && c.Contradiction == nil {
			return n, true
		}
	}
	return Node{}, false
}

// contradicted is why what nodes say of a machine cannot all be true, or nil.
func (ms *members) contradicted(m *tracked) *nodescaler.Reason {
	if r, held := ms.match.held[m.Name]; held {
		return &r
	}
	return nil
}

// nodesOfGone are the names of the nodes of a machine that is gone. One that says that it is
// another's is not.
func (ms *members) nodesOfGone(m *tracked) []string {
	ids := nodescaler.NewIdentities([]nodescaler.Machine{ms.self(m)})
	var names []string
	for _, name := range slices.Sorted(maps.Keys(ms.nodes)) {
		n := ms.nodes[name]
		c := ids.Of(n.identity())
		// Its VMID may be another machine's by now.
		uuid := nodescaler.SameUUID(n.SystemUUID, ms.uuidOf(m))
		others := slices.ContainsFunc(ms.match.ids.Of(n.identity()).Named, func(o *nodescaler.Machine) bool { return o.Name != m.Name })
		if c.Machine != nil && c.Contradiction == nil && (uuid || !others) {
			names = append(names, name)
		}
	}
	if _, seen := ms.nodes[m.Name]; !seen { // it may be there, and not have been seen yet
		names = append(names, m.Name)
	}
	return names
}

// compareIDs reports when a node has another provider id than was planned, and goes by the node's
// from then on: it never changes, and whoever looks the machine up has it from there. Only the
// system UUID proves that the node is the machine's.
func (ms *members) compareIDs(m *tracked, n Node) {
	ours := nodescaler.SameUUID(n.SystemUUID, ms.uuidOf(m)) && ms.contradicted(m) == nil
	if n.ProviderID == "" || m.ProviderID == n.ProviderID || !ours {
		return
	}
	if m.ProviderID != "" {
		ms.records.say(m, reason(pvecode.IDMismatch, "%s", firstboot.Mismatch(m.ProviderID, n.ProviderID)), "set the pool's join.providerID to what sets the nodes' ids")
	}
	m.ProviderID = n.ProviderID
}
