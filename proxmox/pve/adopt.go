package pve

import (
	"context"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// candidate for adoption: a machine in one of our ranges that no intent knows of.
type foundling struct {
	guest  *placement.Guest
	pool   *settings.Pool
	recipe string
	looks  string
}

// adoption makes machines ours again whose intents were lost.
type adoption struct {
	*crew
	settler *settler
}

// adopt looks at machines in our ranges that no intent knows of. Those with all proofs are ours,
// and the intent that was lost is written again; all others are strangers', and not looked at again
// until they look different. Then it is known which pools are another cluster's.
func (ad *adoption) adopt(ctx context.Context) {
	for _, c := range ad.ownership.foundlings() {
		if ctx.Err() != nil {
			return
		}
		config, err := ad.client.VM(c.guest.Host, c.guest.VMID).Config(ctx)
		if err != nil || unfinished(config.Lock) {
			continue // looked at again the next time
		}
		m, marked := readMark(config.Description)
		p := c.pool
		if !marked || m.Owner != ad.cfg.Owner || m.Pool != p.Name || !orderID.MatchString(m.Order) {
			ad.ownership.notOurs(c, nil)
			continue
		}
		if ad.cfg.allegiance().of(m.Cluster) == sideForeign {
			ad.ownership.notOurs(c, &rival{vmid: c.guest.VMID, host: c.guest.Host, pool: p.Name, cluster: m.Cluster, created: m.Created})
			continue
		}
		w := &work{crew: ad.crew, p: p, host: c.guest.Host, seen: c.guest, now: ad.cfg.Now()}
		w.i = intents.Intent{
			Order: m.Order, Pool: m.Pool, Name: nodescaler.MachineName(m.Pool, m.Order), Shape: shapeOf(p, m.Shape, &config), Cluster: m.Cluster,
			Host: c.guest.Host, VMID: c.guest.VMID, Created: m.Created,
			Making: intents.Making{VMIDs: p.VMIDs, PVEPool: p.PVEPool, Asked: m.Created, Adopted: true, Recipe: c.recipe},
		}
		readMade(config.Description, &w.i)
		ad.adoptOne(ctx, w, c.looks)
	}
	ad.mu.Lock()
	defer ad.records.unlock()
	ad.ownership.contest()
}

// appearance is what is listed of a guest, as far as it says whose it may be.
func appearance(g *placement.Guest) string {
	return strings.Join([]string{g.Host, g.Name, g.Pool, g.Lock, strings.Join(g.Tags, ";")}, "\n")
}

// namedFor reports whether a guest may be one of the pool's machines by what is listed of it.
func namedFor(p *settings.Pool, g *placement.Guest) bool {
	return !g.Template && !g.Container && strings.HasPrefix(g.Name, p.Name+"-")
}

// freshling is a machine of ours that does not run, and that no intent knows of: another process
// may be making it, or removing it. Whoever makes a machine gives up within makeWithin, so that
// what looks the same for as long belongs to no process.
type freshling struct {
	since time.Time
	looks string
	// blank is a machine that is not cloned yet, and shows no mark.
	blank bool
}

// unfinished reports whether a lock is that of a machine that is not made yet.
func unfinished(lock string) bool { return lock == "clone" || lock == "create" }

// shapeOf is the shape of a machine that was found.
func shapeOf(p *settings.Pool, name string, c *pveapi.VMConfig) pricing.Shape {
	if s := p.Shape(name); s != nil {
		return *s
	}
	return pricing.Shape{Name: name, CPU: pricing.MilliCPU(c.Cores*c.Sockets) * pricing.Core, Memory: c.Memory}
}

// adoptOne proves that a machine is ours and writes its intent.
func (ad *adoption) adoptOne(ctx context.Context, w *work, looks string) {
	w.finding = true
	c, v, _, err := w.inspect(ctx)
	if err != nil || v == unproved {
		return
	}
	var status pveapi.VMStatus
	if v == provedReady {
		if status, err = w.vm().Status(ctx); err != nil {
			return
		}
	}
	if (v == provedReady || v == provedCloned) && status.Status != "running" && ad.ownership.soon(w.seen) {
		return
	}
	ad.mu.Lock()
	defer ad.records.unlock()
	delete(ad.ownership.fresh, w.i.VMID)
	if ad.roster.machines[w.i.Order] != nil || v != provedReady && v != provedCloned {
		ad.ownership.others[w.i.VMID] = looks // Orphans reports it
		return
	}
	m := &tracked{Intent: w.i}
	m.ProviderID = ad.catalogue.plannedID(m)
	w.m = m
	if w.p.NeedsDisc() {
		m.Disc, m.DiscHost = w.p.ISO.Storage+":iso/"+seedDisc(ad.cfg.Owner, m.Name), w.host
	}
	ad.records.ahead(m, intents.StepCloned)
	if v == provedCloned {
		m.Asked = w.now // it may take as long to be made as any other
	}
	if v == provedReady {
		ad.resumeReady(m, status)
	}
	w.know(c)
	if ad.records.keep(m) != nil {
		return // found again at the next look
	}
	ad.roster.machines[m.Order] = m
	ad.records.say(m, reason(pvecode.Adopted, "it is proved to be ours, and its intent was lost"), "")
	if r := ad.ownership.holding(m); r != nil && r.Code == pvecode.Unmarked {
		ad.records.say(m, *r, adoptAdvice)
	}
}

// resumeReady takes up a machine that was configured. One that runs is let go on. Of one that does
// not it is not known whether it was about to be started or about to be destroyed, and the second
// must not come to life again.
func (ad *adoption) resumeReady(m *tracked, status pveapi.VMStatus) {
	if status.Status != "running" {
		ad.records.ahead(m, intents.StepConfigured)
		if n, was := ad.members.nodeOf(m); was && nodescaler.SameUUID(n.SystemUUID, ad.members.uuidOf(m)) {
			m.Joined = ad.cfg.Now() // it was a node, a spare perhaps: that goes with it
		}
		ad.records.fail(m, reason(pvecode.Unfinished, "it was found stopped, and what was meant with it is lost"), "")
		return
	}
	m.Running = true
	ad.records.ahead(m, intents.StepStarted)
	ad.settler.settleNode(m)
}
