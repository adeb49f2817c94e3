package pve

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// candidate for adoption: a machine in one of our ranges that no intent knows of.
type foundling struct {
	guest  *guestSeen
	pool   *Pool
	recipe string
	looks  string
}

// adopt looks at machines in our ranges that no intent knows of. Those with all proofs are ours, and
// the intent that was lost is written again; all others are strangers', and not looked at again
// until they look different.
func (f *Fleet) adopt(ctx context.Context) {
	for _, c := range f.foundlings() {
		if ctx.Err() != nil {
			return
		}
		config, err := f.client.Config(ctx, c.guest.host, c.guest.vmid)
		if err != nil {
			continue // looked at again the next time
		}
		m, marked := readMark(config.Description)
		p := c.pool
		if !marked || m.Owner != f.cfg.Owner || m.Pool != p.Name || !orderID.MatchString(m.Order) {
			f.mu.Lock()
			f.others[c.guest.vmid] = c.looks
			f.mu.Unlock()
			continue
		}
		w := &work{Fleet: f, p: p, host: c.guest.host, seen: c.guest, now: f.cfg.Now()}
		w.i = Intent{
			Order: m.Order, Pool: m.Pool, Name: nodescaler.MachineName(m.Pool, m.Order), Shape: shapeOf(p, m.Shape, &config),
			Host: c.guest.host, VMID: c.guest.vmid, VMIDs: p.VMIDs, PVEPool: p.PVEPool, Created: m.Created, Asked: m.Created, Adopted: true, Recipe: c.recipe,
		}
		f.adoptOne(ctx, w, c.looks)
	}
}

// foundlings are the machines that might be ours.
func (f *Fleet) foundlings() []foundling {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.view.frozen != nil {
		return nil
	}
	for id := range f.others {
		if f.view.seen.guests[id] == nil {
			delete(f.others, id)
		}
	}
	mine := map[int]bool{}
	for _, m := range f.machines {
		if m.Gone.IsZero() {
			mine[m.VMID] = true
		}
	}
	var all []foundling
	for _, id := range slices.Sorted(maps.Keys(f.view.seen.guests)) {
		g := f.view.seen.guests[id]
		p := f.poolOfVMID(id)
		if p == nil || mine[id] || g.template || g.container || g.name == "" || !f.view.seen.online(g.host) {
			continue
		}
		looks := strings.Join([]string{g.host, g.name, g.pool, g.lock, strings.Join(g.tags, ";")}, "\n")
		if f.others[id] == looks {
			continue
		}
		if !strings.HasPrefix(g.name, p.Name+"-") {
			f.others[id] = looks
			continue
		}
		all = append(all, foundling{g, p, f.recipe[p.Name], looks})
	}
	return all
}

func (f *Fleet) poolOfVMID(id int) *Pool {
	for _, p := range f.pools {
		if p.VMIDs.Holds(id) {
			return p
		}
	}
	return nil
}

// shapeOf is the shape of a machine that was found.
func shapeOf(p *Pool, name string, c *VMConfig) pricing.Shape {
	if s := p.shape(name); s != nil {
		return *s
	}
	return pricing.Shape{Name: name, CPU: pricing.MilliCPU(c.Cores*c.Sockets) * pricing.Core, Memory: c.Memory}
}

// adoptOne proves that a machine is ours and writes its intent.
func (f *Fleet) adoptOne(ctx context.Context, w *work, looks string) {
	c, v, _, err := w.inspect(ctx)
	if err != nil || v == unproved {
		return
	}
	var status VMStatus
	if v == provedReady {
		if status, err = f.client.Status(ctx, w.host, w.i.VMID); err != nil {
			return
		}
	}
	f.mu.Lock()
	defer f.unlock()
	if f.machines[w.i.Order] != nil || v != provedReady && v != provedCloned {
		f.others[w.i.VMID] = looks // told by Orphans
		return
	}
	m := &tracked{Intent: w.i}
	m.ProviderID = f.plannedID(m)
	w.m = m
	if w.p.needsDisc() {
		m.Disc, m.DiscHost = w.p.ISO.Storage+":iso/"+seedDisc(f.cfg.Owner, m.Name), w.host
	}
	f.ahead(m, StepCloned)
	if v == provedReady {
		f.resumeReady(m, status)
	}
	w.know(c)
	if f.keep(m) != nil {
		return // found again at the next look
	}
	f.machines[m.Order] = m
	f.say(m, reason(CodeAdopted, "it is proved to be ours, and its intent was lost"), "")
}

// resumeReady takes up a machine that was configured. One that runs is let go on. Of one that does
// not it is not known whether it was about to be started or about to be destroyed, and the second
// must not come to life again.
func (f *Fleet) resumeReady(m *tracked, status VMStatus) {
	if status.Status != "running" {
		f.ahead(m, StepConfigured)
		if n, was := f.nodeOf(m); was && strings.EqualFold(n.SystemUUID, machineUUID(f.cfg.Owner, m.Order)) {
			m.Joined = f.cfg.Now() // it was a node, a spare perhaps: that goes with it
		}
		f.fail(m, reason(CodeUnfinished, "it was found stopped, and what was meant with it is lost"), "")
		return
	}
	f.ahead(m, StepStarted)
	f.settleNode(m)
}
