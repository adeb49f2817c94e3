package pve

import (
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
)

// plannedID is the provider id that a machine's node will have by its pool's scheme; empty while
// nobody says what pool that is.
func (f *Fleet) plannedID(m *tracked) string {
	w := f.workFor(m)
	if w.p == nil {
		return ""
	}
	id, err := w.providerID()
	if err != nil { // a pool that was accepted can form its ids
		return ""
	}
	return id
}

// providerID is the id that the machine's node will have.
func (w *work) providerID() (string, error) { return w.p.Join.ProviderID.Of(w.planned()) }

// renumber gives a machine another VMID. Where that makes another provider id of it, the one that was
// planned is remembered as lost: somebody may have been told of it, and must see it go.
func (f *Fleet) renumber(m *tracked, vmid int) {
	was := m.ProviderID
	m.VMID = vmid
	m.ProviderID = f.plannedID(m)
	if was != "" && was != m.ProviderID {
		m.LostIDs = append(m.LostIDs, was)
	}
}

// compareIDs tells when a node has another provider id than was planned, and goes by the node's from
// then on: it never changes, and whoever looks the machine up has it from there. Only the system UUID proves that
// the node is the machine's.
func (f *Fleet) compareIDs(m *tracked, n Node) {
	ours := nodescaler.SameUUID(n.SystemUUID, machineUUID(f.cfg.Owner, m.Order)) && f.contradicted(m) == nil
	if n.ProviderID == "" || m.ProviderID == n.ProviderID || !ours {
		return
	}
	if m.ProviderID != "" {
		f.say(m, reason(CodeIDMismatch, "%s", firstboot.Mismatch(m.ProviderID, n.ProviderID)), "set the pool's join.providerID to what sets the nodes' ids")
	}
	m.ProviderID = n.ProviderID
}

// lostIDs are the ids that the machine lost and that somebody may still wait for.
func (m *tracked) lostIDs() []string {
	if !m.Step.before(StepJoined) {
		return nil
	}
	return slices.Clone(m.LostIDs)
}
