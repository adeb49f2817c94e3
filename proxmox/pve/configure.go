package pve

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// catalogue is the pools as they are configured, and what machines cost.
type catalogue struct {
	cfg     *FleetConfig
	watch   *watch
	given   []settings.Pool // as they were taken last; what they point at does not change
	pools   map[string]*settings.Pool
	recipe  map[string]string    // digest of a pool's configuration
	made    map[string]string    // and of what of it makes machines, by pool and template
	dropped map[string]time.Time // pools that are not configured any more, and since when
	prices  *pricing.Book
}

// Configure gives the fleet other pools, and other prices; nil is the default book. Calls that are
// under way are ended as they were begun, and what follows goes by what is new. Machines of a pool
// that is there no more are left alone and said to be, until it is there again or a person removes
// them: that a pool was taken out of a configuration is no order to destroy what it made.
//
// A pool that was paused because its machines failed takes orders again when it is another one:
// failures under a recipe say nothing of the next.
//
// It is called at every step, and pools that are as they were are not checked again. What they
// point at must not be changed.
func (f *Fleet) Configure(pools []settings.Pool, prices *pricing.Book) error {
	f.mu.Lock()
	same := f.catalogue.took(pools)
	f.mu.Unlock()
	if !same {
		c := settings.NewFaults()
		s := settings.Site{Owner: f.cfg.Owner, Pools: pools}
		s.CheckPools(c)
		if err := c.Err(); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.records.unlock()
	f.catalogue.setPrices(prices)
	changed := f.catalogue.setPools(pools)
	if err := f.holds.letAllGo(pools); err != nil {
		return err
	}
	if changed {
		f.ownership.others = map[int]string{} // judged by ranges that may be others now
		f.view.barred = f.lookout.bars()      // a look that is under way may find the templates
		f.records.nudge()
	}
	return nil
}

// Unread returns the pools of which it is not known yet where their templates are, with the reason:
// they are new, or have other templates than before. What is ordered there is refused until they
// were looked for, which is at once; News tells when.
func (f *Fleet) Unread() map[string]nodescaler.Reason {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lookout.unread()
}

func (lo *lookout) unread() map[string]nodescaler.Reason {
	unread := map[string]nodescaler.Reason{}
	for name, p := range lo.catalogue.pools {
		for _, id := range p.Template.IDs() {
			if _, read := lo.view.templates[id]; !read {
				unread[name] = reason(placement.CodeTemplateUnread, "template %d has not been looked for yet", id)
			}
		}
	}
	return unread
}

// News is signalled when orders can be taken that could not be taken before: the cluster was seen
// for the first time, or may be changed again, or templates were found.
func (f *Fleet) News() <-chan struct{} { return f.lookout.news }

// bars counts what is in the way of orders.
func (lo *lookout) bars() int {
	n := len(lo.unread())
	if lo.view.seen == nil {
		n++
	}
	if lo.view.frozen != nil {
		n++
	}
	return n
}

// unbar tells of orders that can be taken now.
func (lo *lookout) unbar() {
	was := lo.view.barred
	if lo.view.barred = lo.bars(); lo.view.barred < was {
		ring(lo.news)
	}
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
	c.pools, c.recipe, c.made = map[string]*settings.Pool{}, map[string]string{}, map[string]string{}
	for _, p := range pools {
		p = p.Complete()
		c.pools[p.Name] = &p
		c.recipe[p.Name] = p.Recipe()
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

// paths are those that the fleet's rights hang on.
func (c *catalogue) paths() []string {
	var paths []string
	for _, p := range c.pools {
		paths = append(paths, "/pool/"+p.PVEPool)
		for _, s := range []string{p.Storage, p.ISO.Storage} {
			if s != "" {
				paths = append(paths, "/storage/"+s)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
