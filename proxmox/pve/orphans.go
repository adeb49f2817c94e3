package pve

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// OrphanKind is what lacks what.
type OrphanKind string

// The kinds of orphans.
const (
	// A machine that should be a node, and is not.
	MachineWithoutNode OrphanKind = "MachineWithoutNode"
	NodeWithoutMachine OrphanKind = "NodeWithoutMachine" // a node whose machine is gone
	DiscWithoutMachine OrphanKind = "DiscWithoutMachine" // a first-boot disc that is nobody's
	IntentWithout      OrphanKind = "IntentWithout"      // an intent whose machine is not listed
	// A machine with our mark that is not proved to be ours.
	UnprovedMachine OrphanKind = "UnprovedMachine"
	// A VMID of ours that is taken by what cannot be seen.
	UnseenMachine OrphanKind = "UnseenMachine"
)

// Orphan is something that is left over.
type Orphan struct {
	Kind OrphanKind `json:"kind"`
	Name string     `json:"name"` // of the machine, the node, or the disc's volume
	// Pool is whose it was, if that is known.
	Pool string `json:"pool,omitempty"`
	Host string `json:"host,omitempty"`
	VMID int    `json:"vmid,omitempty"`
	Text string `json:"text"`
	// Noticed is when it was first seen to be left over. Due is from when Collect removes it; zero
	// if it never does.
	Noticed time.Time `json:"noticed"`
	Due     time.Time `json:"due,omitzero"`
	held    bool      // it is never removed
}

// Report is what is left over at a time.
type Report struct {
	At      time.Time `json:"at"`
	Orphans []Orphan  `json:"orphans"` // by kind and name
	// Unknown is what could not be looked at.
	Unknown []string `json:"unknown,omitempty"`
}

// leftovers looks for what is left over, and remembers since when it is.
type leftovers struct {
	*ground
	ownership *ownership
	holds     *holds

	noticed map[string]time.Time // orphans, and since when
	free    map[int]time.Time    // VMIDs that were free, and when
}

// notice dates the orphans. One that was not left over the last time begins anew.
func (lf *leftovers) notice(r *Report) {
	noticed := map[string]time.Time{}
	for i := range r.Orphans {
		o := &r.Orphans[i]
		key := string(o.Kind) + " " + o.Host + " " + o.Name
		at, known := lf.noticed[key]
		if !known || at.After(r.At) {
			at = r.At
		}
		noticed[key], o.Noticed = at, at
		switch o.Kind {
		case DiscWithoutMachine:
			if o.Pool != "" && !o.held { // of another installation it is not known what it needs
				o.Due = at.Add(time.Duration(lf.cfg.OrphanGrace))
			}
		case MachineWithoutNode, NodeWithoutMachine:
			if o.held {
				continue
			}
			o.Due = at.Add(time.Duration(lf.cfg.OrphanGrace))
		case IntentWithout, UnprovedMachine, UnseenMachine:
		}
	}
	lf.noticed = noticed
}

// orphanMachines are machines that are no nodes, or are not there, or not proved.
func (lf *leftovers) orphanMachines() []Orphan {
	lf.mu.Lock()
	defer lf.records.unlock()
	var all []Orphan
	for _, m := range lf.roster.sorted() {
		o := Orphan{Name: m.Name, Pool: m.Pool, Host: m.Host, VMID: m.VMID, held: lf.holds.heldBy(m) != nil}
		_, node := lf.members.nodeOf(m)
		node = node || lf.members.contradicted(m) != nil
		there := lf.view.seen.Guests[m.VMID] != nil
		switch {
		case !m.Gone.IsZero() || !m.Returned.IsZero() || m.Step.Before(intents.StepCloned):
			continue
		case !there:
			o.Kind, o.Text = IntentWithout, "its intent says that it is "+string(m.Step)+", and it is not listed"
		case lf.members.nodes == nil || node || !lf.late(m):
			continue
		default:
			o.Kind, o.Text = MachineWithoutNode, "it is "+string(m.Step)+" since "+m.Since.UTC().Format(time.RFC3339)+", and no node"
		}
		all = append(all, o)
	}
	return append(all, lf.unprovedMachines()...)
}

// unprovedMachines are those that look like ours, and what is left of clones that no intent knows
// of.
func (lf *leftovers) unprovedMachines() (all []Orphan) {
	for _, id := range slices.Sorted(maps.Keys(lf.ownership.others)) {
		g, p := lf.view.seen.Guests[id], lf.catalogue.poolOfVMID(id)
		if g == nil || p == nil {
			continue
		}
		o := Orphan{Kind: UnprovedMachine, Name: g.Name, Pool: p.Name, Host: g.Host, VMID: id}
		switch {
		case lf.ownership.fresh[id].blank && lf.ownership.fresh[id].looks == appearance(g):
			text, advice := remains(id, g.Host)
			o.Text = text + "; " + advice
		case slices.Contains(g.Tags, settings.OwnerTag(lf.cfg.Owner)) || strings.HasPrefix(g.Name, p.Name+"-"):
			o.Text = "it looks like one of ours and is not proved to be; it is never touched"
		default:
			continue
		}
		all = append(all, o)
	}
	return all
}

// late reports whether a machine should be a node by now.
func (lf *leftovers) late(m *tracked) bool {
	p := lf.catalogue.pools[m.Pool]
	switch {
	case p == nil || !lf.view.seen.Online(m.Host) || !m.Stashed.IsZero():
		return false
	case lf.ownership.holding(m) != nil:
		return lf.ownership.holding(m).Code == pvecode.NeverJoined
	case m.Adopted && m.Joined.IsZero():
		return true // it was not ordered, as far as is known
	case m.Step == intents.StepStarted || m.Failed != nil:
		return lf.watch.since(m.Since) > time.Duration(p.JoinTimeout)
	}
	return m.Step == intents.StepJoined || m.Step == intents.StepTidied
}

// orphanNodes are nodes whose machines are proved to be gone.
func (lf *leftovers) orphanNodes(ctx context.Context) []Orphan {
	var all []Orphan
	for _, o := range lf.suspectNodes() {
		if o.VMID != 0 {
			if free, err := lf.client.VMIDGone(ctx, o.VMID); err != nil || !free {
				continue
			}
		}
		all = append(all, o)
	}
	return all
}

// suspectNodes are nodes of our machines' names without a machine. The VMID is set where it is
// still to be asked whether it is free.
func (lf *leftovers) suspectNodes() []Orphan {
	lf.mu.Lock()
	defer lf.mu.Unlock()
	if lf.view.frozen != nil {
		return nil
	}
	gone, there := nodescaler.NewIdentities(lf.members.selves(true)), map[string]bool{}
	for _, g := range lf.view.seen.Guests {
		there[g.Name] = true
	}
	var all []Orphan
	for _, name := range slices.Sorted(maps.Keys(lf.members.nodes)) {
		n := lf.members.nodes[name]
		if n.Ready {
			continue // its kubelet reports: it runs somewhere, under any name
		}
		was := gone.Of(n.identity())
		if len(lf.members.match.ids.Of(n.identity()).Named) > 0 || was.Contradiction != nil {
			continue
		}
		o := Orphan{Kind: NodeWithoutMachine, Name: name, Text: "its machine is gone"}
		if p := lf.catalogue.poolOfName(name); p != nil {
			o.Pool, o.VMID = p.Name, vmidOf(p, n)
		}
		switch {
		case was.Machine != nil:
			o.VMID = 0
			all = append(all, o)
		case !there[name] && o.VMID != 0:
			all = append(all, o)
		}
	}
	return all
}

// vmidOf reads a node's VMID from its provider ID, 0 if it does not say or is not of the pool. A
// VMID says whose a machine is in our range and our region only: another Proxmox VE cluster counts
// its own.
func vmidOf(p *settings.Pool, n Node) int {
	m, err := p.Join.ProviderID.Parse(n.ProviderID)
	if err != nil || !p.VMIDs.Holds(m.VMID) || m.Region != "" && m.Region != p.Region {
		return 0
	}
	return m.VMID
}

// orphanDiscs are first-boot discs of ours that no machine needs any more.
func (lf *leftovers) orphanDiscs(ctx context.Context) (all []Orphan, unknown []string) {
	for _, s := range lf.discStores() {
		volumes, err := lf.client.Volumes(ctx, s.Host, s.Name, "iso", 0)
		if err != nil {
			unknown = append(unknown, s.Name+" on "+s.Host+": "+err.Error())
			continue
		}
		for _, o := range lf.suspectDiscs(s, volumes) {
			if o.VMID != 0 {
				if free, err := lf.client.VMIDGone(ctx, o.VMID); err != nil || !free {
					continue
				}
			}
			all = append(all, o)
		}
	}
	return all, unknown
}

// suspectDiscs are the discs of a storage that no machine seems to need any more. The VMID is set
// where it is still to be asked whether it is free.
func (lf *leftovers) suspectDiscs(s placement.Store, volumes []pveapi.Volume) []Orphan {
	lf.mu.Lock()
	defer lf.mu.Unlock()
	var all []Orphan
	for _, v := range volumes {
		name, ours := lf.discOf(v.Name)
		if !ours || lf.needed(name) {
			continue
		}
		o := Orphan{Kind: DiscWithoutMachine, Name: v.ID, Host: s.Host, Text: "no machine needs it any more"}
		m, p := lf.roster.machineNamed(name), lf.catalogue.poolOfName(name)
		switch {
		case m != nil && lf.catalogue.pools[m.Pool] == nil:
			o.Pool, o.Text = m.Pool, "its machine is gone, and its pool "+m.Pool+" is not configured any more"
			if m.Gone.IsZero() {
				o.VMID = m.VMID
			}
		case p != nil:
			o.Pool = p.Name
		default:
			o.Text = "neither its machine nor its pool is known here; unless another installation has owner " + lf.cfg.Owner + ", no machine needs it"
		}
		all = append(all, o)
	}
	return all
}

// discOf is the machine that a volume is the first-boot disc of.
func (lf *leftovers) discOf(volume string) (machine string, ours bool) {
	name, ours := strings.CutPrefix(volume, "iso/"+discPrefix(lf.cfg.Owner))
	return strings.TrimSuffix(name, ".iso"), ours
}

// needed reports whether a machine's disc may still be used or will be removed by the machine's own
// moves. A machine whose pool is not configured makes none.
func (lf *leftovers) needed(name string) bool {
	m := lf.roster.machineNamed(name)
	switch {
	case m != nil && lf.catalogue.pools[m.Pool] == nil:
		return m.Gone.IsZero() && (m.Step.Before(intents.StepSized) || lf.view.seen.Guests[m.VMID] != nil)
	case m != nil:
		return m.Gone.IsZero() && m.Step.Before(intents.StepTidied) || m.Disc != ""
	}
	listed := slices.ContainsFunc(slices.Collect(maps.Values(lf.view.seen.Guests)), func(g *placement.Guest) bool { return g.Name == name })
	p := lf.catalogue.poolOfName(name)
	// Another installation's, whose name continues ours.
	continues := p == nil && strings.Contains(name, "--")
	return continues || listed || p != nil && lf.ownership.shut[p.Name] != nil
}

// maxUnseen is how many VMIDs are asked about for one report.
const maxUnseen = 256

// freeFor is how long a VMID that was free is not asked about again. What is found in this way is
// only reported, and a range has hundreds of them.
const freeFor = time.Hour

// unseenMachines asks about the VMIDs of our ranges that no machine is known to have. A clone that
// was killed half way is in no pool, and a token that may see the pool only does not see it.
func (lf *leftovers) unseenMachines(ctx context.Context) (all []Orphan, unknown []string) {
	lf.mu.Lock()
	var ids []int
	known, now := lf.ownership.knownIDs(), lf.cfg.Now()
	maps.DeleteFunc(lf.free, func(id int, at time.Time) bool { return known[id] || now.Sub(at).Abs() >= freeFor })
	for _, name := range slices.Sorted(maps.Keys(lf.catalogue.pools)) {
		for id := lf.catalogue.pools[name].VMIDs.First; id <= lf.catalogue.pools[name].VMIDs.Last && len(ids) <= maxUnseen; id++ {
			if _, free := lf.free[id]; !free && lf.view.seen.Guests[id] == nil && !known[id] {
				ids = append(ids, id)
			}
		}
	}
	lf.mu.Unlock()
	if len(ids) > maxUnseen {
		ids, unknown = ids[:maxUnseen], []string{fmt.Sprintf("VMIDs after %d", ids[maxUnseen-1])}
	}
	for _, id := range ids {
		free, err := lf.client.VMIDFree(ctx, id)
		if err != nil {
			return all, append(unknown, fmt.Sprintf("VMIDs from %d: %v", id, err))
		}
		if free {
			lf.noteFree(id, now)
		} else if !lf.sees(id) {
			all = append(all, Orphan{Kind: UnseenMachine, Name: itoa(id), VMID: id, Text: "the VMID is taken by what the token may not see: a foreign VM, or what is left of a clone"})
		}
	}
	return all, unknown
}

// noteFree notes that a VMID is free.
func (lf *leftovers) noteFree(id int, now time.Time) {
	lf.mu.Lock()
	defer lf.mu.Unlock()
	if lf.free == nil {
		lf.free = map[int]time.Time{}
	}
	lf.free[id] = now
}

// sees reports whether it is known by now who has a VMID: a clone of ours may have begun since it
// was asked about.
func (lf *leftovers) sees(id int) bool {
	lf.mu.Lock()
	defer lf.mu.Unlock()
	return lf.view.seen.Guests[id] != nil || lf.ownership.knownIDs()[id]
}

// discStores are where discs of ours may lie: each storage on each host, and a shared one once.
// Those of pools that are configured no more are known from what was uploaded there.
func (lf *leftovers) discStores() []placement.Store {
	lf.mu.Lock()
	defer lf.mu.Unlock()
	used := map[string]bool{}
	for _, p := range lf.catalogue.pools {
		used[p.ISO.Storage] = true
	}
	for _, m := range lf.roster.machines {
		used[pveapi.ParseVolume(m.Disc).Storage] = true
	}
	var all []placement.Store
	for _, s := range lf.view.seen.Stores {
		wanted := used[s.Name]
		again := s.Shared && slices.ContainsFunc(all, func(o placement.Store) bool { return o.Name == s.Name })
		if wanted && !again && s.Active && lf.view.seen.Online(s.Host) {
			all = append(all, s)
		}
	}
	return all
}

// stands reports whether what was found is left over still: machines went on while the rest was
// looked for.
func (lf *leftovers) stands(o Orphan) bool {
	switch o.Kind {
	case MachineWithoutNode:
		return slices.ContainsFunc(lf.orphanMachines(), func(now Orphan) bool { return now.Kind == o.Kind && now.Name == o.Name })
	case DiscWithoutMachine:
		lf.mu.Lock()
		defer lf.mu.Unlock()
		name, ours := lf.discOf(pveapi.ParseVolume(o.Name).Name)
		return ours && !lf.needed(name)
	case NodeWithoutMachine, IntentWithout, UnprovedMachine, UnseenMachine:
	}
	return true
}
