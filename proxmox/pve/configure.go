package pve

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// catalogue is the pools as they are configured, and what machines cost.
type catalogue struct {
	cfg     *FleetConfig
	watch   *watch
	given   []settings.Pool // as they were taken last; what they point at does not change
	pools   map[string]*settings.Pool
	recipe  map[string]string    // digest of a pool's configuration
	revises map[string]string    // its revision
	made    map[string]string    // and of what of it makes machines, by pool and template
	dropped map[string]time.Time // pools that are not configured any more, and since when
	prices  *pricing.Book
	resting map[string]bool // pools in which nothing is to be done
}

// took reports whether these pools were taken last.
func (c *catalogue) took(pools []settings.Pool) bool {
	return c.pools != nil && reflect.DeepEqual(c.given, pools)
}

// setPools takes pools in the place of those there are, and reports whether any is another. Maps
// are replaced and not written to: who works by the old ones goes on by them.
func (c *catalogue) setPools(pools []settings.Pool) bool {
	if c.took(pools) {
		return false
	}
	was := c.recipe
	c.given = slices.Clone(pools)
	c.pools, c.recipe, c.revises, c.made = map[string]*settings.Pool{}, map[string]string{}, map[string]string{}, map[string]string{}
	for _, p := range pools {
		p = p.Complete()
		c.pools[p.Name] = &p
		c.recipe[p.Name], c.revises[p.Name] = p.Recipe(), p.Revision()
		delete(c.dropped, p.Name)
	}
	for name := range was {
		if c.pools[name] == nil {
			c.dropped[name] = c.cfg.Now()
		}
	}
	return !maps.Equal(was, c.recipe)
}

// unknownSince is when a pool that is not known was last, or the fleet began.
func (c *catalogue) unknownSince(pool string) time.Time {
	if at, was := c.dropped[pool]; was {
		return at
	}
	return c.watch.began
}

// mayBeKnown reports whether the pool of a machine that is gone, which is not known, may be known
// again.
func (c *catalogue) mayBeKnown(m *tracked) bool {
	now, wait := c.cfg.Now(), unknownFor
	if now.Sub(m.Gone) >= longGone {
		wait = unknownAgain
	}
	return now.Sub(c.unknownSince(m.Pool)) < wait
}

func (c *catalogue) setPrices(prices *pricing.Book) {
	if c.prices = prices; prices == nil {
		c.prices = pricing.DefaultBook()
	}
}

func (c *catalogue) poolOfVMID(id int) *settings.Pool {
	for _, p := range c.pools {
		if p.VMIDs.Holds(id) {
			return p
		}
	}
	return nil
}

// poolOfName is the pool whose machines have names like this: of web and web-db, the longer.
func (c *catalogue) poolOfName(name string) *settings.Pool {
	var best *settings.Pool
	for _, p := range c.pools {
		if strings.HasPrefix(name, p.Name+"-") && (best == nil || len(p.Name) > len(best.Name)) {
			best = p
		}
	}
	return best
}

// settingsOf is the pool's settings on a host. Every machine is held against them at every look.
func (c *catalogue) settingsOf(p *settings.Pool, host string) string {
	key := p.Name + " " + itoa(p.Template.On(host))
	digest, known := c.made[key]
	if !known {
		digest = p.Made(host)
		c.made[key] = digest
	}
	return digest
}

// planned is a machine of a pool as its first boot is configured with it.
func (c *catalogue) planned(p *settings.Pool, i *intents.Intent) firstboot.Machine {
	return p.FirstBoot(settings.MachineOf{
		Name: i.Name, Host: i.Host, UUID: machineUUID(c.cfg.Owner, i.Order), MAC: i.MAC, Shape: i.Shape.Name, VMID: i.VMID, VMIDs: i.VMIDs,
	})
}

// plannedID is the provider id that a machine's node will have by its pool's scheme; empty while
// the pool is not configured. A pool that was accepted can form its ids.
func (c *catalogue) plannedID(m *tracked) string {
	p := c.pools[m.Pool]
	if p == nil {
		return ""
	}
	id, err := p.Join.ProviderID.Of(c.planned(p, &m.Intent))
	if err != nil {
		return ""
	}
	return id
}

// renumber gives a machine another VMID. Where that makes another provider id of it, the one that
// was planned is remembered as lost: a client may have been given it, and must see it go.
func (c *catalogue) renumber(m *tracked, vmid int) {
	was := m.ProviderID
	m.VMID = vmid
	m.ProviderID = c.plannedID(m)
	if was != "" && was != m.ProviderID {
		m.LostIDs = append(m.LostIDs, was)
	}
}
