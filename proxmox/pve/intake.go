package pve

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// refused is an order that was surely not taken, with the reasons.
func refused(reasons ...nodescaler.Reason) error { return refusal(loop.ErrRefused, reasons) }

// poolRefused is one that no machine of the pool is taken for, regardless of its shape and host.
func poolRefused(why nodescaler.Reason) error {
	return refusal(loop.ErrPoolRefused, []nodescaler.Reason{why})
}

func refusal(is error, reasons []nodescaler.Reason) *Refusal {
	var texts []string
	for _, r := range reasons {
		texts = append(texts, r.Code+": "+r.Text)
	}
	return &Refusal{Reasons: reasons, text: strings.Join(texts, "; "), is: is}
}

// Refusal is why an order was not taken. It wraps loop.ErrRefused, or one of those that do.
type Refusal struct {
	Reasons []nodescaler.Reason
	text    string
	is      error
}

// Error returns all reasons.
func (r *Refusal) Error() string { return loop.ErrRefused.Error() + ": " + r.text }

// Unwrap returns what it wraps.
func (r *Refusal) Unwrap() error { return r.is }

// intake takes orders: it finds a machine its place, its VMID and its pool's consent.
type intake struct {
	cfg       *FleetConfig
	records   *records
	catalogue *catalogue
	roster    *roster
	view      *view
	ownership *ownership
	holds     *holds
	agenda    *agenda
}

// accept plans the machine of an order.
func (in *intake) accept(o loop.Order) (*tracked, error) {
	a := o.Action
	p := in.catalogue.pools[a.Pool]
	switch {
	case !orderID.MatchString(o.ID) || len(o.ID) > settings.OrderLen-1:
		return nil, refused(reason(pvecode.BadOrder, "an order is named by at most %d of a-z, 0-9 and -, was %q", settings.OrderLen-1, o.ID))
	case p == nil:
		return nil, poolRefused(reason(pvecode.PoolUnknown, "there is no pool %q", a.Pool))
	case a.Shape == nil || !slices.Contains(p.Shapes, *a.Shape):
		return nil, refused(reason(pvecode.ShapeUnknown, "pool %s has no such shape: %+v", a.Pool, a.Shape))
	}
	now := in.cfg.Now()
	if r := in.view.blind(now); r != nil {
		return nil, refusal(loop.ErrUnseen, []nodescaler.Reason{*r})
	}
	if r := in.view.frozen; r != nil {
		return nil, refusal(loop.ErrUnseen, []nodescaler.Reason{reason(pvecode.Frozen, "%s: %s", r.Code, r.Text)})
	}
	if r := in.ownership.shut[p.Name]; r != nil {
		return nil, poolRefused(*r)
	}
	if g := in.ownership.unsettled(p); g != nil && in.view.nameless(g) {
		return nil, poolRefused(reason(placement.CodeHostOffline, "VM %d is in a pool's range and may be another cluster's: its host %s is offline, and this cluster has no machine in pool %s", g.VMID, g.Host, p.Name))
	}
	if r := in.full(p); r != nil {
		return nil, poolRefused(*r)
	}
	if r := in.health(p, now).closed(p, now); r != nil {
		return nil, poolRefused(*r)
	}
	host, why := in.choose(p, *a.Shape, a.Host)
	if host == "" {
		return nil, refused(why...)
	}
	id := in.freeID(p, nil)
	if id == 0 {
		return nil, poolRefused(in.exhausted(p))
	}
	m := &tracked{Intent: intents.Intent{
		Order: o.ID, Pool: p.Name, Name: nodescaler.MachineName(p.Name, o.ID), Shape: *a.Shape, Host: host, VMID: id,
		Cluster: in.cfg.Cluster, Created: now, Why: brief(because(a.Reasons)), Step: intents.StepOrdered, Since: now, Making: intents.Making{Recipe: in.catalogue.recipe[p.Name], Settings: p.Made(host), Version: p.Join.Install.Version}, Sparing: intents.Sparing{Keep: a.Keep},
	}}
	m.mile = milestone{intents.StepOrdered, now}
	m.ProviderID = in.catalogue.plannedID(m)
	return m, nil
}

// exhausted is why a pool without a VMID takes no order.
func (in *intake) exhausted(p *settings.Pool) nodescaler.Reason {
	used, addresses := in.usedIDs(), 0
	for id := range in.addressed(p) {
		if p.VMIDs.Holds(id) && !used[id] {
			addresses++
		}
	}
	if addresses == 0 {
		return reason(pvecode.VMIDsExhausted, "all of %s are taken or cooling down", p.VMIDs)
	}
	return reason(pvecode.VMIDsExhausted, "all of %s are taken or cooling down, but for %d whose addresses are those of machines that were made in another range", p.VMIDs, addresses)
}

// because puts reasons into a line.
func because(reasons []nodescaler.Reason) string {
	var texts []string
	for _, r := range reasons {
		texts = append(texts, r.Code+": "+r.Text)
	}
	return strings.Join(texts, "; ")
}

// choose returns the host of a machine: the one that was named, if it takes it, or else the best.
func (in *intake) choose(p *settings.Pool, s pricing.Shape, named string) (string, []nodescaler.Reason) {
	g := in.ground()
	at := g.Pools[p.Name]
	if named != "" {
		if r := g.Refuses(at, s, named); r != nil {
			return "", []nodescaler.Reason{*r}
		}
		return named, nil
	}
	host, why := g.Place(at, s)
	if host == "" {
		why = append([]nodescaler.Reason{reason(placement.CodeNoHost, "no host takes a machine of pool %s and shape %s", p.Name, s.Name)}, why...)
	}
	return host, why
}

// ground is what machines are placed on now.
func (in *intake) ground() *placement.Ground {
	g := &placement.Ground{
		Sight: in.view.seen, Now: in.cfg.Now(), Pools: make(map[string]*placement.Pool, len(in.catalogue.pools)), Templates: in.view.templates, Prices: in.catalogue.prices,
	}
	for name, p := range in.catalogue.pools {
		g.Pools[name] = p.Places()
		g.Pools[name].Failing = in.failing(p, g.Now)
	}
	for _, m := range in.roster.machines {
		if m.Gone.IsZero() {
			g.Machines = append(g.Machines, m.Placed())
		}
	}
	return g
}

// full says that the pool has as many machines as it may.
func (in *intake) full(p *settings.Pool) *nodescaler.Reason {
	n, unknown := in.count(p), in.ownership.unknown(p)
	if n+unknown < p.Max {
		return nil
	}
	text := fmt.Sprintf("pool %s has %d machines, of at most %d", p.Name, n, p.Max)
	if unknown > 0 {
		text += fmt.Sprintf(", and there are %d of which it is not known yet whether they are its own", unknown)
	}
	return no(pvecode.PoolAtMax, "%s", text)
}

// count is how many machines the pool has, those that failed included, but not those that will
// never be made, nor those that will be gone. Whoever gives a machine back may order another at
// once; its clone waits until there is a place.
func (in *intake) count(p *settings.Pool) int {
	n := 0
	for _, m := range in.roster.machines {
		if m.Pool == p.Name && m.Gone.IsZero() && (m.Step != intents.StepOrdered || m.Failed == nil) && !in.goes(m) {
			n++
		}
	}
	return n
}

// goes reports whether a machine is on its way out and nothing is known to be in the way.
func (in *intake) goes(m *tracked) bool {
	return !m.Returned.IsZero() && in.holds.heldBy(m) == nil && in.view.seen.Online(m.Host)
}

// strangerRest is how long a VMID that turned out to be another owner's is not looked at again.
const strangerRest = 10 * time.Minute

// freeID picks a VMID that no machine is known to have: at random, so that two who pick at the same
// moment seldom pick the same.
func (in *intake) freeID(p *settings.Pool, not []int) int {
	used, addressed := in.usedIDs(), in.addressed(p)
	for id, at := range in.ownership.taken {
		if used[id] = true; in.cfg.Now().Sub(at) >= strangerRest {
			delete(in.ownership.taken, id) // the next pick may try it again
		}
	}
	return in.view.firstFree(p, in.records.chance.IntN(p.VMIDs.Len()), func(id int) bool { return used[id] || addressed[id] || slices.Contains(not, id) })
}

// addressed are the VMIDs whose addresses machines of the pool have, which may have been made when
// it had another range.
func (in *intake) addressed(p *settings.Pool) map[int]bool {
	if !p.Network.Static() {
		return nil
	}
	ids := map[int]bool{}
	for _, m := range in.roster.machines {
		if m.Pool == p.Name && m.Step != intents.StepOrdered && m.VMIDs.Holds(m.VMID) && !in.vacated(m) {
			ids[p.VMIDs.First+m.VMID-m.VMIDs.First] = true
		}
	}
	return ids
}

// usedIDs are the VMIDs that machines have or had not long ago, ours and strangers'.
func (in *intake) usedIDs() map[int]bool {
	used := make(map[int]bool, len(in.roster.machines))
	for _, m := range in.roster.machines {
		used[m.VMID] = used[m.VMID] || !in.vacated(m)
	}
	for id, at := range in.ownership.taken {
		used[id] = used[id] || in.cfg.Now().Sub(at) < strangerRest
	}
	return used
}

// vacated reports whether a machine's VMID may be used again, though its failure is still to be
// remembered, or its pool not known. How long that was so begins anew with each process; how long
// the machine is gone does not.
func (in *intake) vacated(m *tracked) bool {
	if m.Gone.IsZero() {
		return false
	}
	s := in.agenda.scene(m)
	s.blamed, s.counted, s.unknown = false, false, s.unknown && s.now.Sub(m.Gone) < unknownFor
	return m.afterwards(s) == moveForget
}

// poolHealth is how a pool's machines have fared of late.
type poolHealth struct {
	failures int       // since the last success
	cramped  int       // of these, those for lack of room, which passes by itself
	last     time.Time // the last of them
	why      nodescaler.Reason
	hosts    map[string]bool // that they failed on, but for lack of room
	other    bool            // if that was one, another host makes machines too
}

// The pause after a failure doubles with each in a row.
const (
	firstPause = time.Minute
	maxPause   = 30 * time.Minute
	// A host rests for longer than its pool pauses: else it would have fewest of its machines, and
	// get the next one.
	firstRest = 5 * time.Minute
)

// health is read off the intents, so that it outlives the process without being kept.
func (in *intake) health(p *settings.Pool, now time.Time) poolHealth {
	success := in.roster.successes()[p.Name]
	h := poolHealth{hosts: map[string]bool{}}
	for _, m := range in.roster.machines {
		if m.Pool != p.Name || !m.Blamed(in.catalogue.recipe[p.Name], now) || !m.FailedAt.After(success) {
			continue
		}
		h.failures++
		if m.Cramped() {
			h.cramped++
		} else {
			h.hosts[m.Host] = true
		}
		if m.FailedAt.After(h.last) {
			h.last, h.why = m.FailedAt, *m.Failed
		}
	}
	h.other = len(h.hosts) == 1 && in.elsewhere(p, h.hosts)
	return h
}

// elsewhere reports whether a host takes machines of the pool that is not one of these.
func (in *intake) elsewhere(p *settings.Pool, hosts map[string]bool) bool {
	if in.view.seen == nil {
		return false
	}
	g := in.ground()
	return slices.ContainsFunc(g.Hosts, func(h placement.Host) bool {
		return !hosts[h.Name] && slices.ContainsFunc(p.Shapes, func(s pricing.Shape) bool { return g.Refuses(g.Pools[p.Name], s, h.Name) == nil })
	})
}

// failing are the hosts that rest since the pool's last machines on them failed.
func (in *intake) failing(p *settings.Pool, now time.Time) map[string]nodescaler.Reason {
	joined, failures := map[string]time.Time{}, map[string][]*tracked{}
	for _, m := range in.roster.machines {
		if m.Pool != p.Name {
			continue
		}
		if m.Joined.After(joined[m.Host]) {
			joined[m.Host] = m.Joined
		}
		if m.BlamesHost(in.catalogue.recipe[p.Name], now) {
			failures[m.Host] = append(failures[m.Host], m)
		}
	}
	rest := map[string]nodescaler.Reason{}
	for host, all := range failures {
		last := slices.MaxFunc(all, func(a, b *tracked) int { return cmp.Or(a.FailedAt.Compare(b.FailedAt), cmp.Compare(a.Order, b.Order)) })
		n := 0 // by the last one, so that a rest ends when it was said to
		for _, m := range all {
			if m.FailedAt.After(joined[host]) && m.FailedAt.After(p.Resumed) && last.FailedAt.Sub(m.FailedAt) < intents.HostFails {
				n++
			}
		}
		if until := last.FailedAt.Add(min(firstRest<<min(max(n, 1)-1, 10), intents.HostRest)); n > 0 && now.Before(until) {
			rest[host] = reason(placement.CodeHostFailing, "%s gets no machine of pool %s until %s UTC if another host takes it: %s there, the last because %s: %s",
				host, p.Name, until.UTC().Format(time.TimeOnly), failed(n), last.Failed.Code, last.Failed.Text)
		}
	}
	return rest
}

// orElsewhere says what else ends a pause for the failures of one host.
func (h poolHealth) orElsewhere() string {
	if len(h.hosts) != 1 {
		return ""
	}
	return ", or another host takes its machines"
}

// closed says why the pool takes no orders now, or nil.
func (h poolHealth) closed(p *settings.Pool, now time.Time) *nodescaler.Reason {
	if h.failures == 0 {
		return nil
	}
	// Failures on one host say nothing of the others, unless the first failure is one too many.
	one := h.other && p.MaxFailures > 1
	if broken := h.failures - h.cramped; broken >= p.MaxFailures && !one {
		return no(pvecode.PoolPaused, "pool %s makes no more: %s in a row, the last because %s: %s; it takes orders again once its configuration is another one, be it only in maxFailures%s",
			p.Name, failed(broken), h.why.Code, h.why.Text, h.orElsewhere())
	}
	until := h.last.Add(min(firstPause<<min(h.failures-1, 10), maxPause))
	if now.Before(until) {
		return no(pvecode.PoolBackingOff, "pool %s waits until %s UTC: %s in a row, the last because %s: %s", p.Name, until.UTC().Format(time.TimeOnly),
			failed(h.failures), h.why.Code, h.why.Text)
	}
	return nil
}

// failed says how many machines have.
func failed(n int) string {
	if n == 1 {
		return "1 machine failed"
	}
	return fmt.Sprintf("%d machines failed", n)
}

// failedFor is the code of a machine that could not be made for an error, however often it was
// tried.
func failedFor(err error) string {
	switch pveapi.ClassOf(err) {
	case pveapi.StorageFull:
		return placement.CodeStorageFull
	case pveapi.MemoryFull:
		return placement.CodeNoMemory
	default:
		return pvecode.MachineFailed
	}
}

// What orders would be refused is listed with the hosts, so that no one plans what cannot be had.
// It need not be all: what is not listed is refused when it is ordered.

// refusals are what orders would be refused on this ground regardless of the room that hosts have,
// by pool.
func (in *intake) refusals(g *placement.Ground) map[string][]nodescaler.RefusedOrder {
	all := map[string][]nodescaler.RefusedOrder{}
	for name, p := range in.catalogue.pools {
		if refused := g.Refusals(g.Pools[name], p.Shapes); len(refused) > 0 {
			all[name] = refused
		}
	}
	return all
}

// withExhausted adds the pools that might have more machines and have no VMID left. That ends by
// itself when one has cooled down, so it is true at this moment only.
func (in *intake) withExhausted(all map[string][]nodescaler.RefusedOrder) map[string][]nodescaler.RefusedOrder {
	used := in.usedIDs()
	all = maps.Clone(all)
	for name, p := range in.catalogue.pools {
		addressed := in.addressed(p)
		if in.view.firstFree(p, 0, func(id int) bool { return used[id] || addressed[id] }) == 0 && in.count(p) < p.Max {
			all[name] = []nodescaler.RefusedOrder{{Why: in.exhausted(p)}}
		}
	}
	return all
}
