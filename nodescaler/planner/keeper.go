package planner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Spares are machines that have joined once and are stopped. They cost their disk, and are nodes
// again within half a minute: an insurance against what no forecast sees. The policy keeps the
// k-th spare of a pool as long as what it would have saved within a day is worth its disk for
// that day. Each order that pods waited for, and that found k-1 others on their way, would have
// come sooner by what a machine takes to be made less what it takes to be started. The part of
// the day that was not seen is taken to have held one burst of as many orders as there may be
// spares, so a policy that starts, or starts again, keeps what there is.
//
// A spare is woken wherever a machine of its pool and shape would be ordered. One that was woken
// is expected back, and a machine that is not needed any more goes as soon as what it takes to
// have it back is saved: with spares less is held, and less is ordered.

// Spared is the settings of spares. With neither Most nor BudgetPercent none is kept.
type Spared struct {
	// Most is how many spares each pool may have; 0 with a budget leaves it to that.
	Most int `json:"most"`
	// BudgetPercent is what a pool's spares may cost, in percent of what the most machines cost
	// that the pool had within a day. It allows one spare for each of those at most; 0 is no
	// budget.
	BudgetPercent float64 `json:"budgetPercent"`
	// Worth is what a minute is worth in which pods wait for a machine, in minutes of that
	// machine's price.
	Worth float64 `json:"worth"`
}

// DefaultSpared keeps none: they count against a pool's limit and take its storage, which is for
// its owner to grant.
func DefaultSpared() Spared { return Spared{Worth: 30} }

// autoBudget is the budget that "auto" is short for.
const autoBudget = 5

// Keeps reports whether any spares may be kept.
func (c *Spared) Keeps() bool { return c.Most > 0 || c.BudgetPercent > 0 }

// UnmarshalText reads "auto".
func (c *Spared) UnmarshalText(text []byte) error {
	if string(text) != "auto" {
		return fmt.Errorf(`must be "auto" or a block of settings, was %q`, text)
	}
	c.BudgetPercent = autoBudget
	return nil
}

// UnmarshalJSON reads "auto", or settings over those that there are.
func (c *Spared) UnmarshalJSON(data []byte) error {
	var word string
	if json.Unmarshal(data, &word) == nil {
		return c.UnmarshalText([]byte(word))
	}
	type fields Spared
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode((*fields)(c))
}

const (
	// spareMemory is how far back is looked for what spares would have saved.
	spareMemory = 24 * time.Hour
	// spareStart is how long a spare is taken to need until none was seen to.
	spareStart = 30 * time.Second
	// spareRest is how long one that was to be woken and did not stir is left alone.
	spareRest = 5 * time.Minute
	// sparesMaking is how many are made at once: whoever is ordered meanwhile waits for the same
	// storage.
	sparesMaking = 2
)

// keeper remembers what spares would have been good for. All of it may be forgotten: then as many
// are kept as may be, for a day.
type keeper struct {
	cfg     Spared
	started time.Time
	lead    time.Duration
	starts  nodescaler.Recent
	uses    []use
	sizes   []size
	wanted  map[string]time.Time // orders and wakes that pods wait for, by order, not seen yet
	tried   since                // machines that were to be woken
	gave    since                // spares that made way, until they are gone
	// Of machines that are to become spares: since when their nodes are closed, and since when
	// they are no nodes that are ready.
	closed, dark since
}

// size is the most machines that a pool had within an hour.
type size struct {
	hour     time.Time
	pool     string
	machines int
}

// use is an order that pods waited for.
type use struct {
	at    time.Time
	pool  string
	shape pricing.Shape
	rank  int // 1 for the first of a burst
}

func newKeeper(c Spared) *keeper {
	return &keeper{cfg: c, wanted: map[string]time.Time{}, tried: since{}, gave: since{}, closed: since{}, dark: since{}}
}

// see takes note of what came of what was planned. What is planned and never seen, as where
// nothing is done but looking, counts for nothing.
func (k *keeper) see(s *nodescaler.Snapshot, lead time.Duration) {
	if k.started.IsZero() {
		k.started = s.Now
	}
	k.lead = lead
	k.uses = slices.DeleteFunc(k.uses, func(u use) bool { return s.Now.Sub(u.at) > spareMemory })
	k.measure(s)
	for order, at := range k.wanted {
		if s.Now.Sub(at) > spareRest {
			delete(k.wanted, order)
		}
	}
	for name, at := range k.tried {
		if s.Now.Sub(at) > spareMemory {
			delete(k.tried, name)
		}
	}
	making, there := map[string]bool{}, map[string]bool{}
	for i := range s.Machines {
		m := &s.Machines[i]
		there[m.Name] = true
		making[m.Name] = m.Keep && m.Phase.Live()
		if at, tried := k.tried[m.Name]; tried && m.Phase == nodescaler.Joined && m.Since.After(at) {
			if !m.Woken.IsZero() { // else it became a machine while it was made
				k.starts.Add(m.Since.Sub(m.Woken))
			}
			delete(k.tried, m.Name)
		}
		if at, asked := k.wanted[m.Order]; asked && m.Phase.Live() && !m.Kept() {
			delete(k.wanted, m.Order)
			k.uses = append(k.uses, use{at, m.Pool, m.Shape, k.rank(m.Pool, at)})
		}
	}
	gone := func(name string, _ time.Time) bool { return !making[name] }
	maps.DeleteFunc(k.closed, gone)
	maps.DeleteFunc(k.dark, gone)
	maps.DeleteFunc(k.gave, func(name string, at time.Time) bool { return !there[name] || s.Now.Sub(at) > spareRest })
}

// measure notes how many machines pools have that are not spares.
func (k *keeper) measure(s *nodescaler.Snapshot) {
	k.sizes = slices.DeleteFunc(k.sizes, func(z size) bool { return s.Now.Sub(z.hour) > spareMemory })
	now := map[string]int{}
	for i := range s.Machines {
		if m := &s.Machines[i]; m.Phase.Live() && !m.Kept() {
			now[m.Pool]++
		}
	}
	for i := range k.sizes {
		if z := &k.sizes[i]; z.hour.Equal(s.Now.Truncate(time.Hour)) {
			z.machines = max(z.machines, now[z.pool])
			delete(now, z.pool)
		}
	}
	for _, pool := range slices.Sorted(maps.Keys(now)) {
		k.sizes = append(k.sizes, size{s.Now.Truncate(time.Hour), pool, now[pool]})
	}
}

// peak is the most machines that the pool had within a day.
func (k *keeper) peak(pool string) (n int) {
	for i := range k.sizes {
		if z := &k.sizes[i]; z.pool == pool {
			n = max(n, z.machines)
		}
	}
	return n
}

// most is how many spares the pool may have whose machines cost the rate each, and whose spares
// cost a disk. A burst of load is taken to need no more machines than the pool has had.
func (k *keeper) most(pool string, rate, disk pricing.Rate) int {
	if k.cfg.BudgetPercent <= 0 {
		return k.cfg.Most
	}
	n := max(k.peak(pool), 1)
	if k.cfg.Most > 0 {
		n = min(n, k.cfg.Most)
	}
	if disk > 0 {
		budget := k.cfg.BudgetPercent / 100 * float64(max(k.peak(pool), 1)) * float64(rate)
		n = min(n, int(budget/float64(disk)))
	}
	return n
}

// rank is the place that an order has in its burst: of those made within the time that one takes.
func (k *keeper) rank(pool string, at time.Time) int {
	rank := 1
	for i := range k.uses {
		if u := &k.uses[i]; u.pool == pool && at.Sub(u.at) < k.lead {
			rank++
		}
	}
	return rank
}

// start is how long a spare needs to be a node.
func (k *keeper) start() time.Duration {
	if seen := k.starts.Usual(); seen > 0 {
		return seen
	}
	return spareStart
}

// sooner is by how much a spare comes sooner than an order.
func (k *keeper) sooner() time.Duration { return max(k.lead-k.start(), 0) }

// saved is what the k-th spare would have saved within a day: how often it would have been woken,
// with what is assumed of the time that was not seen.
func (k *keeper) saved(pool string, nth int, now time.Time) (times float64) {
	unseen := spareMemory - k.seen(now)
	return float64(unseen)/float64(spareMemory) + float64(k.waits(pool, nth))
}

// seen is for how much of the last day orders were seen.
func (k *keeper) seen(now time.Time) time.Duration { return min(now.Sub(k.started), spareMemory) }

// waits is how many orders that pods waited for the k-th spare would have been woken for.
func (k *keeper) waits(pool string, nth int) (n int) {
	for i := range k.uses {
		if u := &k.uses[i]; u.pool == pool && u.rank == nth {
			n++
		}
	}
	return n
}
