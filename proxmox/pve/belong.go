package pve

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// Whose a machine is follows from its mark alone, and not from what is remembered. A configuration,
// a state folder and a kubeconfig can be copied, and the machines that they speak of are still
// those of the cluster that made them.
//
// One pool's range belongs to one cluster. Where it holds machines of two, the cluster with the
// oldest machine that runs goes on, and every other leaves its pool alone: it orders nothing there,
// and stops and destroys nothing but what it made itself and never started. Without any that runs,
// the oldest counts. All decide by the same marks and the same list, so that exactly one goes on,
// even if their clocks differ. A cluster that has no machine of its own anywhere begins nowhere
// while it has lost a pool: the others are that cluster's too, and at zero.

// adoptAdvice says how machines of before clusters were marked become this cluster's.
const adoptAdvice = "adoptUnmarked: true in the configuration adopts those that were made before clusters were marked"

// ownership is whose the machines in our ranges are, ours and others'.
type ownership struct {
	*ground

	taken  map[int]time.Time             // VMIDs that turned out to be others', and when
	others map[int]string                // VMs in our ranges that are not ours, and how they looked
	rivals map[int]rival                 // of these, those that are another cluster's
	fresh  map[int]freshling             // VMs that may be in the making by another process
	shut   map[string]*nodescaler.Reason // pools that are another cluster's
}

// side is whose a machine is.
type side int

const (
	sideForeign  side = iota // another cluster's
	sideUnmarked             // not known: its mark names no cluster
	sideOwn                  // ours
)

// allegiance says whose the machine of a mark is.
type allegiance struct {
	uid   string // of our cluster
	adopt bool   // marks without a cluster count as ours
	any   bool   // all marks do
}

func (a allegiance) of(cluster string) side {
	switch {
	case a.any || cluster != "" && cluster == a.uid || cluster == "" && a.adopt:
		return sideOwn
	case cluster == "":
		return sideUnmarked
	}
	return sideForeign
}

func (c *FleetConfig) allegiance() allegiance {
	return allegiance{uid: c.Cluster, adopt: c.AdoptUnmarked, any: c.AnyCluster}
}

// side is whose a machine is by the mark that it was made or found with.
func (ow *ownership) side(m *tracked) side {
	if m.Step == intents.StepOrdered && m.Cluster == "" {
		return sideOwn // there is no machine yet, and its clone will have our mark
	}
	return ow.cfg.allegiance().of(m.Cluster)
}

// disown puts what was intended with another cluster's machine aside, as it comes with a state that
// was copied. Its task and its disc are that cluster's, and so is an order for which nothing was
// asked yet. It reports whether there is anything left to look at.
func (ow *ownership) disown(m *tracked) bool {
	if ow.side(m) != sideForeign {
		return true
	}
	if !m.Gone.IsZero() || m.Step == intents.StepOrdered {
		return false
	}
	m.Task, m.Disc = nil, ""
	ow.records.hold(m, reason(pvecode.Quarantined, "VM %d belongs to cluster %s, and this is cluster %s", m.VMID, m.Cluster, ow.cfg.Cluster),
		"the state was copied from that cluster: begin with an empty one")
	return true
}

// holding says why a machine that is there must not be stopped or destroyed, whoever wants it; nil
// if it may.
func (ow *ownership) holding(m *tracked) *nodescaler.Reason {
	switch side := ow.side(m); {
	case !m.Gone.IsZero() || m.Step == intents.StepOrdered:
		return nil // there is nothing
	case side == sideForeign:
		return no(pvecode.OtherCluster, "VM %d belongs to cluster %s, and this is cluster %s", m.VMID, m.Cluster, ow.cfg.Cluster)
	case ow.closed(m):
		return ow.shut[m.Pool]
	case side == sideUnmarked:
		return no(pvecode.Unmarked, "the notes of VM %d do not name the cluster that it belongs to, so that it is never stopped or destroyed: %s", m.VMID, adoptAdvice)
	case m.FoundRunning() && m.Joined.IsZero() && !ow.cfg.AnyCluster:
		return no(pvecode.NeverJoined, "VM %d ran when it was found, and was never seen as a node of this cluster: it is kept until it is one or a person destroys it: qm stop %[1]d && qm destroy %[1]d --purge", m.VMID)
	}
	return nil
}

// closed reports whether the machine's pool is another cluster's. That does not keep what this
// process' orders made and never started: it fails when it cannot be started, and may be removed
// then.
func (ow *ownership) closed(m *tracked) bool { return ow.shut[m.Pool] != nil && !ow.unstarted(m) }

// unstarted reports whether a machine was made by an order of this cluster and never ran.
func (ow *ownership) unstarted(m *tracked) bool {
	g := ow.view.guest(m.VMID)
	return ow.side(m) == sideOwn && !m.Adopted && !m.Ran() && !m.admitted && (g == nil || g.Stopped)
}

// overdue reports whether a machine that runs should be a node by now.
func (ow *ownership) overdue(m *tracked, p *settings.Pool) bool {
	return m.Step == intents.StepStarted && ow.members.nodes != nil && ow.view.seen.Online(m.Host) && ow.watch.since(m.Since) > time.Duration(p.JoinTimeout)
}

// untouchable is why the machine is not returned or kept as a spare, as an error.
func (ow *ownership) untouchable(m *tracked) error {
	if r := ow.holding(m); r != nil {
		return fmt.Errorf("machine %s is held: %s: %s", m.Name, r.Code, r.Text)
	}
	return nil
}

// rival is a machine in one of our ranges with our owner, one of our pools and another cluster's
// UID.
type rival struct {
	vmid    int
	host    string
	pool    string
	cluster string
	created time.Time
}

// contest decides which pools are another cluster's, by the marks of what was last listed, and says
// what has changed.
func (ow *ownership) contest() {
	was := ow.shut
	ow.shut = map[string]*nodescaler.Reason{}
	var winner *rival
	for _, name := range slices.Sorted(maps.Keys(ow.catalogue.pools)) {
		if r, lost := ow.outranked(ow.catalogue.pools[name]); lost {
			winner = cmp.Or(winner, &r)
			ow.shut[name] = no(pvecode.OtherCluster, "VM %d on %s has the owner %s and the pool %s and belongs to cluster %s; this is cluster %s, and has no machine in %s that comes before it",
				r.vmid, r.host, ow.cfg.Owner, name, r.cluster, ow.cfg.Cluster, ow.catalogue.pools[name].VMIDs)
		}
	}
	newcomer := winner != nil && !ow.established()
	for _, name := range slices.Sorted(maps.Keys(ow.catalogue.pools)) {
		if newcomer && ow.shut[name] == nil {
			ow.shut[name] = no(pvecode.OtherCluster, "VM %d on %s has the owner %s and the pool %s and belongs to cluster %s; this is cluster %s, and has no machine in any pool",
				winner.vmid, winner.host, ow.cfg.Owner, winner.pool, winner.cluster, ow.cfg.Cluster)
		}
		switch is, before := ow.shut[name], was[name]; {
		case is != nil && before == nil:
			ow.records.sayOfPool(name, *is, "give this cluster another owner, or the pool another range of VMIDs")
		case is == nil && before != nil:
			ow.records.sayOfPool(name, reason(pvecode.Thawed, "was %s: %s", before.Code, before.Text), "")
		}
	}
}

// outranked returns the machine by which a pool is another cluster's, if it is.
func (ow *ownership) outranked(p *settings.Pool) (rival, bool) {
	var first *rival
	var most entry
	for id := range ow.rivals {
		r := ow.rivals[id]
		if c := ow.view.weight(id, r.created); r.pool == p.Name && p.VMIDs.Holds(id) && (first == nil || c.before(most)) {
			first, most = &r, c
		}
	}
	if first == nil {
		return rival{}, false
	}
	for _, m := range ow.roster.machines {
		if ow.present(p, m) && ow.view.weight(m.VMID, m.Created).before(most) {
			return rival{}, false
		}
	}
	return *first, true
}

// present reports whether a machine of this cluster is listed in the pool's range. A host that is
// offline lists its guests without names.
func (ow *ownership) present(p *settings.Pool, m *tracked) bool {
	if m.Pool != p.Name || !m.Gone.IsZero() || m.Step.Before(intents.StepCloned) || ow.side(m) != sideOwn || !p.VMIDs.Holds(m.VMID) {
		return false
	}
	g := ow.view.guest(m.VMID)
	return g != nil && (g.Name == m.Name || ow.view.nameless(g))
}

// settled reports whether this cluster has a machine in the pool, so that no other one's may be in
// question.
func (ow *ownership) settled(p *settings.Pool) bool {
	for _, m := range ow.roster.machines {
		if ow.present(p, m) {
			return true
		}
	}
	return false
}

// established reports whether this cluster has a machine in a pool that is not another one's.
func (ow *ownership) established() bool {
	for name, p := range ow.catalogue.pools {
		if ow.shut[name] == nil && ow.settled(p) {
			return true
		}
	}
	return false
}

// unsettled is a machine in a pool's range of which it is not known yet whose it is, if the pool
// has none of this cluster: whether the pool is another cluster's is not known then, and orders
// wait. A cluster that has no machine at all may have lost every pool by a machine in one of them.
func (ow *ownership) unsettled(p *settings.Pool) *placement.Guest {
	if ow.settled(p) {
		return nil
	}
	all := !ow.established()
	known := ow.knownIDs()
	for _, id := range slices.Sorted(maps.Keys(ow.view.seen.Guests)) {
		g := ow.view.seen.Guests[id]
		if g.Template || g.Container || known[id] || ow.stranger(g) || ow.noted(id) {
			continue
		}
		in := p
		if !p.VMIDs.Holds(id) {
			in = ow.catalogue.poolOfVMID(id)
		}
		if in != nil && (all || in == p) && (namedFor(in, g) || g.Unnamed()) {
			return g
		}
	}
	return nil
}

// notOurs notes a machine that is not ours. With our owner, our pool and another cluster's UID it
// is a rival.
func (ow *ownership) notOurs(c foundling, r *rival) {
	ow.mu.Lock()
	defer ow.mu.Unlock()
	delete(ow.fresh, c.guest.VMID)
	delete(ow.rivals, c.guest.VMID)
	ow.others[c.guest.VMID] = c.looks
	if r != nil {
		ow.rivals[c.guest.VMID] = *r
	}
}

// foundlings are the machines that might be ours.
func (ow *ownership) foundlings() []foundling {
	ow.mu.Lock()
	defer ow.mu.Unlock()
	if ow.view.frozen != nil {
		return nil
	}
	gone := func(id int) bool { return ow.view.seen.Guests[id] == nil }
	maps.DeleteFunc(ow.others, func(id int, _ string) bool { return gone(id) })
	maps.DeleteFunc(ow.rivals, func(id int, _ rival) bool { return gone(id) })
	maps.DeleteFunc(ow.fresh, func(id int, _ freshling) bool { return gone(id) })
	mine := map[int]bool{}
	for _, m := range ow.roster.machines {
		if m.Gone.IsZero() && ow.side(m) != sideForeign {
			mine[m.VMID] = true
		}
	}
	deciding := ow.deciding()
	var all []foundling
	for _, id := range slices.Sorted(maps.Keys(ow.view.seen.Guests)) {
		g := ow.view.seen.Guests[id]
		p := ow.catalogue.poolOfVMID(id)
		if p == nil || mine[id] || g.Template || g.Container || !ow.view.seen.Online(g.Host) {
			continue
		}
		looks := appearance(g)
		if ow.stranger(g) && !deciding[id] || ow.waits(g) {
			continue
		}
		if unfinished(g.Lock) && (namedFor(p, g) || g.Unnamed()) {
			ow.awaitClone(g, looks)
			continue
		}
		if g.Unnamed() {
			continue
		}
		if !namedFor(p, g) {
			ow.others[id] = looks
			continue
		}
		all = append(all, foundling{g, p, ow.catalogue.recipe[p.Name], looks})
	}
	return all
}

// deciding are the machines by whose marks pools are other clusters'. They are read again each
// time.
func (ow *ownership) deciding() map[int]bool {
	all := map[int]bool{}
	for _, p := range ow.catalogue.pools {
		if r, lost := ow.outranked(p); lost {
			all[r.vmid] = true
		}
	}
	return all
}

// stranger reports whether a guest was found not to be ours, and looks as it did then, as far as
// its host lists that.
func (ow *ownership) stranger(g *placement.Guest) bool {
	looks, judged := ow.others[g.VMID]
	return judged && (looks == appearance(g) || ow.view.nameless(g))
}

// awaitClone notes a clone that no intent knows of. Who asked for it gives up within makeWithin:
// one that keeps its lock for longer is what is left of a clone that was killed, and never becomes
// a machine.
func (ow *ownership) awaitClone(g *placement.Guest, looks string) {
	switch r := ow.fresh[g.VMID]; {
	case r.looks != looks:
		ow.fresh[g.VMID] = freshling{ow.cfg.Now(), looks, true}
	case ow.watch.since(r.since) >= makeWithin:
		ow.others[g.VMID] = looks
	}
}

// noted reports whether orders need not wait for a machine that was noted: it is ours, or a clone
// without a mark that has had its lock for long. If another cluster's mark appears there after all,
// the start of ours is refused.
func (ow *ownership) noted(id int) bool {
	r, noted := ow.fresh[id]
	return noted && (!r.blank || ow.watch.since(r.since) > stuckAfter)
}

// waits reports whether it is too soon to adopt a machine that was noted.
func (ow *ownership) waits(g *placement.Guest) bool {
	r, noted := ow.fresh[g.VMID]
	return noted && r.looks == appearance(g) && !g.Running && ow.watch.since(r.since) < makeWithin
}

// soon notes a machine that does not run, and reports whether it is too soon to adopt it. A fleet
// that only watches disturbs no other.
func (ow *ownership) soon(g *placement.Guest) bool {
	if ow.cfg.Watch || ow.cfg.AnyCluster {
		return false
	}
	ow.mu.Lock()
	defer ow.mu.Unlock()
	r := ow.fresh[g.VMID]
	if r.looks != appearance(g) {
		r = freshling{since: ow.cfg.Now(), looks: appearance(g)}
		ow.fresh[g.VMID] = r
	}
	return ow.watch.since(r.since) < makeWithin
}

// unknown counts what may be the pool's machines, if intents were lost: what is in its range and
// is not known yet, and clones of its templates that no intent is of.
func (ow *ownership) unknown(p *settings.Pool) int {
	n, known := 0, ow.knownIDs()
	for id, g := range ow.view.seen.Guests {
		if p.VMIDs.Holds(id) && !ow.stranger(g) && !g.Template && !g.Container && !known[id] {
			n++
		}
	}
	return max(n, ow.view.clones[p.Name])
}

// knownIDs are the VMIDs that machines have or had not long ago.
func (ow *ownership) knownIDs() map[int]bool {
	known := make(map[int]bool, len(ow.roster.machines))
	for _, m := range ow.roster.machines {
		known[m.VMID] = known[m.VMID] || ow.side(m) != sideForeign
	}
	return known
}
