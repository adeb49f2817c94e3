// Package pve is the machine port, over Proxmox VE: it makes, follows and destroys the virtual
// machines that the loop orders, and touches none that is not proved to be ours.
package pve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// FleetConfig is what a fleet is made of.
type FleetConfig struct {
	Client *pveapi.Client
	Owner  string
	// Cluster is the UID of the Kubernetes cluster that the machines are nodes of. It is in the
	// notes of each; those with another one are never touched.
	Cluster string
	// AdoptUnmarked takes machines whose notes name no cluster for this one's. Without it they are
	// kept, and never stopped or destroyed. Nothing is written to them for it.
	AdoptUnmarked bool
	// AnyCluster takes the owner's machines for ours whichever cluster they belong to: for who only
	// looks, or makes the clusters themselves. Without Cluster, what is made names none.
	AnyCluster bool
	// Pools are those to begin with; Configure replaces them.
	Pools []settings.Pool
	// Prices says what hosts and machines cost, until Configure says otherwise; nil is the default
	// book.
	Prices  *pricing.Book
	Intents Intents
	// Nodes lists the cluster's nodes. Without it the fleet cannot know which machines have joined,
	// and none of them fails for not having done so.
	Nodes func(ctx context.Context) ([]Node, error)
	// LastLook asks the API server itself what nodes name a machine and what they hold. It is asked
	// immediately before a machine is shut down, stopped or destroyed. Without it what Nodes listed
	// counts.
	LastLook func(ctx context.Context, id nodescaler.Identity) (nodescaler.Sight, error)
	// RemoveNode removes the node object of a machine that is gone. It is asked again until it
	// returns nil; one that is gone already is no error. Nil leaves node objects to another client.
	RemoveNode func(ctx context.Context, name string) error
	Now        func() time.Time
	// Rand chooses VMIDs and how long is waited before something is tried again.
	Rand *rand.Rand
	// Parallel is how many calls are made at a time. With 1 they are made one after the other on
	// the goroutine of Tick, and the same answers give the same calls; 0 is 4.
	Parallel int
	// Watch looks and changes nothing: orders and returns are refused, machines that are on their
	// way are left where they are, and no call is made but reads.
	Watch bool
	// Report is told what happens, in order. It must not call the fleet; nil drops it.
	Report func(Event)
	// Timed is told how long machines took for the stages of becoming ready nodes. It must not call
	// the fleet; nil drops it.
	Timed func(Lead)

	ClonesPerStorage int                 // see Site
	HA               settings.HAMode     // see Site
	OrphanGrace      nodescaler.Duration // see Site
}

// Node is a node of the cluster, as far as it says which machine it is.
type Node struct {
	Name, ProviderID, SystemUUID string
	Ready                        bool
	JoinedAt                     time.Time
	// ReadySince is when Ready last became true, where that is known.
	ReadySince time.Time
	// Version is its kubelet's; empty if unknown.
	Version string
}

// Fleet is the machine port: it makes, follows and destroys virtual machines on Proxmox VE. Create,
// Delete and List answer from memory; Tick does the work, and Run calls it. A machine goes
//
//	ordered → claimed → cloned → sized → seeded → configured → started → joined → tidied
//
// and as a spare, when it is stashed and woken,
//
//	tidied → shut down → stopped → configured, and on from there
//
// and from wherever it is, when it is reclaimed or has failed,
//
//	→ shut down → stopped → destroyed → gone → forgotten, when its VMID has cooled down
//
// Four rules keep everybody from harm. What is about to be done is written down first, so that who
// starts again after a crash knows what may have been done, and looks. What may have been done is
// only asked for again in a way that cannot do it twice: a clone to the same VMID. Whatever changes
// a machine follows immediately on the proof that it is ours, and what is not proved is put into
// quarantine. And what is not listed is unknown: a machine is gone when its VMID is free, its host
// is online or has left the cluster for good, and there is a majority to say so.
type Fleet struct {
	client *pveapi.Client
	cfg    FleetConfig
	// ticking is held by the one round of work at a time; mu guards everything below. It is never
	// held during a call to Proxmox VE; while an intent is written what is remembered can be read.
	ticking sync.Mutex
	mu      guard
	telling sync.Mutex

	records
	catalogue
	roster
	began   time.Time
	steady  steady
	view    view
	taken   map[int]time.Time             // VMIDs that turned out to be others', and when
	others  map[int]string                // VMs in our ranges that are not ours, and how they looked
	rivals  map[int]rival                 // of these, those that are another cluster's
	fresh   map[int]freshling             // VMs that may be in the making by another process
	shut    map[string]*nodescaler.Reason // pools that are another cluster's
	noticed map[string]time.Time          // orphans, and since when
	free    map[int]time.Time             // VMIDs that were free, and when
	news    chan struct{}
	listed  *loop.MachineState // what List tells; nil since something has changed
}

// roster is the machines, by order.
type roster struct{ machines map[string]*tracked }

// tracked is an intent, and what is remembered of it only while the process lives.
type tracked struct {
	Intent
	unsaved bool // the intent is ahead of what is kept
	busy    bool // a call for it is under way
	moves   int  // made in this round

	uuid    string            // the system UUID that it has or will have
	problem nodescaler.Reason // what is in the way now
	since   time.Time         // of that problem
	tries   int               // failures in a row
	rest    time.Time         // nothing is tried before
	conf    *pveapi.VMConfig  // as it was proved to be ours, while nothing has been changed since
	proved  time.Time         // when that was
	unsure  bool              // the clone may have been asked for in vain, or twice
	doubted time.Time         // since when the server does not show what it should
	hidden  bool              // it exists and is not listed
	heard   time.Time         // when its task was last known to run
	hung    bool              // its task takes longer than it may
	mile    milestone         // on its way to a ready node
	off     bool              // it is a spare, and was seen to be stopped
	unready bool              // it became a node under this process, which has not been ready since
	// admitted says that it was counted before its first start, and that the pool's maximum holds
	// with it.
	admitted bool
}

// NewFleet returns the fleet of a site, with the intents that were kept. It makes no call.
func NewFleet(cfg FleetConfig) (*Fleet, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	site := settings.Site{ClonesPerStorage: cfg.ClonesPerStorage, HA: cfg.HA, OrphanGrace: cfg.OrphanGrace}.Complete()
	cfg.ClonesPerStorage, cfg.HA, cfg.OrphanGrace = site.ClonesPerStorage, site.HA, site.OrphanGrace
	cfg.Parallel = cmp.Or(cfg.Parallel, 4)
	if cfg.Report == nil {
		cfg.Report = func(Event) {}
	}
	if cfg.Timed == nil {
		cfg.Timed = func(Lead) {}
	}
	f := &Fleet{
		client: cfg.Client, cfg: cfg, began: cfg.Now(),
		roster:    roster{map[string]*tracked{}},
		catalogue: catalogue{dropped: map[string]time.Time{}},
		taken:     map[int]time.Time{}, others: map[int]string{}, rivals: map[int]rival{}, fresh: map[int]freshling{},
		news: make(chan struct{}, 1),
	}
	f.records = records{store: patient{cfg.Intents, &f.mu}, clock: cfg.Now, chance: cfg.Rand, wake: make(chan struct{}, 1), counts: map[string]int{}}
	f.view.templates, f.view.bridges = map[int]placement.TemplateSeen{}, map[string][]string{}
	f.view.known, f.view.resting, f.view.silent = map[string]bool{}, map[string]time.Time{}, map[string]time.Time{}
	f.setPools(cfg.Pools)
	f.setPrices(cfg.Prices)
	f.view.barred = f.bars()
	if err := f.load(); err != nil {
		return f, err
	}
	f.mu.Lock()
	defer f.unlock()
	return f, f.letAllGo(cfg.Pools)
}

func (c *FleetConfig) check() error {
	f := settings.NewFaults()
	f.Must(c.Client != nil, "client", "be set", "nil")
	f.Must(c.Intents != nil, "intents", "be set", "nil")
	f.Must(c.Now != nil, "now", "be set", "nil")
	f.Must(c.Rand != nil, "rand", "be set", "nil")
	f.Must(c.Parallel >= 0, "parallel", "be ≥ 0", c.Parallel)
	f.Must(settings.ValidClusterID(c.Cluster) || c.AnyCluster && c.Cluster == "", "cluster", "be the UID of the cluster", c.Cluster)
	s := settings.Site{Owner: c.Owner, Pools: c.Pools, ClonesPerStorage: c.ClonesPerStorage, HA: c.HA, OrphanGrace: c.OrphanGrace}
	s.CheckWork(f)
	return f.Err()
}

func (f *Fleet) load() error {
	kept, err := f.store.Load()
	if err != nil {
		return err
	}
	f.steady.see(f.cfg.Now())
	for _, i := range kept {
		i.Why = brief(i.Why)
		m := &tracked{Intent: i}
		m.unsure = i.Step == StepClaimed && i.Task == nil
		if m.ProviderID == "" {
			m.ProviderID = f.plannedID(m)
		}
		if f.disown(m) {
			f.machines[i.Order] = m
		}
	}
	f.correct(f.cfg.Now())
	return nil
}

// sorted returns the machines in the order of their orders' age.
func (ro *roster) sorted() []*tracked {
	all := slices.Collect(maps.Values(ro.machines))
	slices.SortFunc(all, func(a, b *tracked) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Order, b.Order))
	})
	return all
}

// unlock ends a change and tells what happened in it.
func (f *Fleet) unlock() {
	f.listed = nil
	f.telling.Lock()
	events, leads := f.events, f.leads
	f.events, f.leads = nil, nil
	f.mu.Unlock()
	for _, e := range events {
		f.cfg.Report(e)
	}
	for _, l := range leads {
		f.cfg.Timed(l)
	}
	f.telling.Unlock()
}

// Counts returns how many events there were of each code since the fleet was made.
func (f *Fleet) Counts() map[string]int {
	f.mu.Lock()
	defer f.unlock()
	return maps.Clone(f.counts)
}

// refused is an order that was surely not taken, with the reasons.
func refused(reasons ...nodescaler.Reason) error { return refusal(loop.ErrRefused, reasons) }

// poolRefused is one that no machine of the pool is taken for, whatever its shape and host.
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

// Error tells all reasons.
func (r *Refusal) Error() string { return loop.ErrRefused.Error() + ": " + r.text }

// Unwrap returns what it wraps.
func (r *Refusal) Unwrap() error { return r.is }

// Create takes an order, or refuses it and says why. It makes no call: what it takes is done by
// the ticks that follow. An order that is known already changes nothing.
func (f *Fleet) Create(_ context.Context, o loop.Order) error {
	f.mu.Lock()
	defer f.unlock()
	if f.machines[o.ID] != nil {
		return nil
	}
	if f.cfg.Watch {
		return refused(watching)
	}
	m, err := f.accept(o)
	if err != nil {
		return err
	}
	if err := f.store.Put(m.Intent.clone()); err != nil {
		// It may have been kept all the same, and would then come to life after a restart.
		return fmt.Errorf("keep order %s: %w", o.ID, errors.Join(err, f.store.Remove(o.ID)))
	}
	f.machines[o.ID] = m
	delete(f.free, m.VMID)
	f.say(m, reason(CodeOrderAccepted, "%s on %s", m.Shape.Name, m.Host), "")
	f.nudge()
	return nil
}

// watching is why a fleet that only looks does nothing.
var watching = reason(CodeWatching, "nothing is changed here, only looked at")

// accept plans the machine of an order.
func (f *Fleet) accept(o loop.Order) (*tracked, error) {
	a := o.Action
	p := f.pools[a.Pool]
	switch {
	case !orderID.MatchString(o.ID) || len(o.ID) > settings.OrderLen-1:
		return nil, refused(reason(CodeBadOrder, "an order is named by at most %d of a-z, 0-9 and -, was %q", settings.OrderLen-1, o.ID))
	case p == nil:
		return nil, poolRefused(reason(CodePoolUnknown, "there is no pool %q", a.Pool))
	case a.Shape == nil || !slices.Contains(p.Shapes, *a.Shape):
		return nil, refused(reason(CodeShapeUnknown, "pool %s has no such shape: %+v", a.Pool, a.Shape))
	}
	now := f.cfg.Now()
	if r := f.view.blind(now); r != nil {
		return nil, refusal(loop.ErrUnseen, []nodescaler.Reason{*r})
	}
	if r := f.view.frozen; r != nil {
		return nil, refusal(loop.ErrUnseen, []nodescaler.Reason{reason(CodeFrozen, "%s: %s", r.Code, r.Text)})
	}
	if r := f.shut[p.Name]; r != nil {
		return nil, poolRefused(*r)
	}
	if g := f.unsettled(p); g != nil && f.view.nameless(g) {
		return nil, poolRefused(reason(placement.CodeHostOffline, "VM %d is in a pool's range and may be another cluster's: its host %s is offline, and this cluster has no machine in pool %s", g.VMID, g.Host, p.Name))
	}
	if r := f.full(p); r != nil {
		return nil, poolRefused(*r)
	}
	if r := f.health(p, now).closed(p, now); r != nil {
		return nil, poolRefused(*r)
	}
	host, why := f.choose(p, *a.Shape, a.Host)
	if host == "" {
		return nil, refused(why...)
	}
	id := f.freeID(p, nil)
	if id == 0 {
		return nil, poolRefused(exhausted(p))
	}
	m := &tracked{Intent: Intent{
		Order: o.ID, Pool: p.Name, Name: nodescaler.MachineName(p.Name, o.ID), Shape: *a.Shape, Host: host, VMID: id,
		Cluster: f.cfg.Cluster, Created: now, Why: brief(because(a.Reasons)), Step: StepOrdered, Since: now, Making: Making{Recipe: f.recipe[p.Name], Settings: p.Made(host), Version: p.Join.Install.Version}, Sparing: Sparing{Keep: a.Keep},
	}}
	m.mile = milestone{StepOrdered, now}
	m.ProviderID = f.plannedID(m)
	return m, nil
}

// exhausted is why a pool without a VMID takes no order.
func exhausted(p *settings.Pool) nodescaler.Reason {
	return reason(CodeVMIDsExhausted, "all of %s are taken or cooling down", p.VMIDs)
}

// because puts reasons into a line.
func because(reasons []nodescaler.Reason) string {
	var texts []string
	for _, r := range reasons {
		texts = append(texts, r.Code+": "+r.Text)
	}
	return strings.Join(texts, "; ")
}

// maxWhy is how much of the reasons for an order is kept with it. All intents have to fit where
// they are kept, and a policy that explains itself well takes more room than all else that is known
// of a machine.
const maxWhy = 200

// brief is the beginning of a text that is too long to be kept.
func brief(text string) string {
	if len(text) <= maxWhy {
		return text
	}
	const more = "…"
	end := maxWhy - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// choose returns the host of a machine: the one that was named, if it takes it, or else the best.
func (f *Fleet) choose(p *settings.Pool, s pricing.Shape, named string) (string, []nodescaler.Reason) {
	g, at := f.ground(), p.Places()
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
func (f *Fleet) ground() *placement.Ground {
	g := &placement.Ground{
		Sight: f.view.seen, Now: f.cfg.Now(), Pools: make(map[string]*placement.Pool, len(f.pools)), Templates: f.view.templates, Prices: f.prices,
	}
	for name, p := range f.pools {
		g.Pools[name] = p.Places()
	}
	for _, m := range f.machines {
		if m.Gone.IsZero() {
			g.Machines = append(g.Machines, m.placed())
		}
	}
	return g
}

// placed is the machine as far as it takes room.
func (i *Intent) placed() placement.Machine {
	return placement.Machine{
		VMID: i.VMID, Name: i.Name, Pool: i.Pool, Host: i.Host, Shape: i.Shape,
		Cloned: !i.Step.before(StepCloned), Filling: i.Step.before(StepStarted) && i.Woken.IsZero(), Stopped: !i.Stashed.IsZero(),
	}
}

// full says that the pool has as many machines as it may.
func (f *Fleet) full(p *settings.Pool) *nodescaler.Reason {
	n, unknown := f.count(p), f.unknown(p)
	if n+unknown < p.Max {
		return nil
	}
	text := fmt.Sprintf("pool %s has %d machines, of at most %d", p.Name, n, p.Max)
	if unknown > 0 {
		text += fmt.Sprintf(", and there are %d of which it is not known yet whether they are its own", unknown)
	}
	return no(CodePoolAtMax, "%s", text)
}

// count is how many machines the pool has, those that failed included, but not those that will
// never be made, nor those that will be gone. Whoever gives a machine back may order another at
// once; its clone waits until there is a place.
func (f *Fleet) count(p *settings.Pool) int {
	n := 0
	for _, m := range f.machines {
		if m.Pool == p.Name && m.Gone.IsZero() && (m.Step != StepOrdered || m.Failed == nil) && !f.goes(m) {
			n++
		}
	}
	return n
}

// goes reports whether a machine is on its way out and nothing is known to be in the way.
func (f *Fleet) goes(m *tracked) bool {
	return !m.Returned.IsZero() && f.heldBy(m) == nil && f.view.seen.Online(m.Host)
}

// unknown counts what may be the pool's machines, if intents were lost: what is in its range and
// cannot be told yet, and clones of its templates that nobody remembers.
func (f *Fleet) unknown(p *settings.Pool) int {
	n, known := 0, f.knownIDs()
	for id, g := range f.view.seen.Guests {
		if p.VMIDs.Holds(id) && !f.stranger(g) && !g.Template && !g.Container && !known[id] {
			n++
		}
	}
	return max(n, f.view.clones[p.Name])
}

// knownIDs are the VMIDs that machines have or had not long ago.
func (f *Fleet) knownIDs() map[int]bool {
	known := make(map[int]bool, len(f.machines))
	for _, m := range f.machines {
		known[m.VMID] = known[m.VMID] || f.side(m) != sideForeign
	}
	return known
}

// strangerRest is how long a VMID that turned out to be another owner's is not looked at again.
const strangerRest = 10 * time.Minute

// freeID picks a VMID that nobody is known to have: at random, so that two who pick at the same
// moment seldom pick the same.
func (f *Fleet) freeID(p *settings.Pool, not []int) int {
	used := f.usedIDs()
	for id, at := range f.taken {
		if used[id] = true; f.cfg.Now().Sub(at) >= strangerRest {
			delete(f.taken, id) // the next pick may try it again
		}
	}
	return f.view.firstFree(p, f.chance.IntN(p.VMIDs.Len()), func(id int) bool { return used[id] || slices.Contains(not, id) })
}

// usedIDs are the VMIDs that machines have or had not long ago, ours and strangers'.
func (f *Fleet) usedIDs() map[int]bool {
	used := make(map[int]bool, len(f.machines))
	for _, m := range f.machines {
		used[m.VMID] = used[m.VMID] || !f.vacated(m)
	}
	for id, at := range f.taken {
		used[id] = used[id] || f.cfg.Now().Sub(at) < strangerRest
	}
	return used
}

// firstFree is the first of the pool's VMIDs that is neither listed nor used, from one place in the
// range on and around; 0 without one.
func (v *view) firstFree(p *settings.Pool, from int, used func(id int) bool) int {
	return p.VMIDs.Free(from, func(id int) bool {
		_, listed := v.seen.Guests[id]
		return listed || used(id)
	})
}

// vacated reports whether a machine's VMID may be used again, though its failure is still to be
// remembered, or its pool not known: how long that was so begins anew with each process, and how
// long the machine is gone does not.
func (f *Fleet) vacated(m *tracked) bool {
	if m.Gone.IsZero() {
		return false
	}
	s := f.scene(m)
	s.blamed, s.counted, s.unknown = false, false, s.unknown && s.now.Sub(m.Gone) < unknownFor
	return m.afterwards(s) == moveForget
}

// Delete gives a machine back. It makes no call; that the machine is gone is seen when List does
// not show it any more. A machine that is on its way out already stays so. One whose node is ready
// and holds pods is not stopped, and is a machine as before when they stay.
func (f *Fleet) Delete(_ context.Context, name string) error { return f.giveBack(name, false) }

// ForAutoscaler is the fleet as cluster-autoscaler has it, which evicts pods itself, for as long as
// it likes, and then wants the machine gone: one that it gives back goes with what it holds, and is
// counted by the brake.
func (f *Fleet) ForAutoscaler() loop.Machines { return autoscaled{f} }

type autoscaled struct{ *Fleet }

// Delete gives a machine back.
func (a autoscaled) Delete(_ context.Context, name string) error { return a.giveBack(name, true) }

func (f *Fleet) giveBack(name string, forced bool) error {
	f.mu.Lock()
	defer f.unlock()
	var m *tracked
	for _, o := range f.machines {
		if o.Name == name {
			m = o
		}
	}
	switch {
	case m == nil:
		return fmt.Errorf("machine %s does not exist", name)
	case !m.Returned.IsZero() || !m.Gone.IsZero():
		return nil
	case f.cfg.Watch:
		return fmt.Errorf("machine %s: %s", name, watching.Text)
	case f.untouchable(m) != nil:
		return f.untouchable(m)
	}
	i := m.Intent.clone()
	i.Returned, i.Forced, i.Silent = f.cfg.Now(), forced, f.silent(m)
	if err := f.store.Put(i); err != nil {
		return fmt.Errorf("keep return of %s: %w", name, err)
	}
	m.Returned, m.Forced, m.Silent, m.tries, m.rest = i.Returned, i.Forced, i.Silent, 0, time.Time{}
	f.say(m, reason(CodeReturned, "was %s", m.phaseBefore()), "")
	f.nudge()
	return nil
}

// phaseBefore is the phase that the machine was returned in.
func (m *tracked) phaseBefore() nodescaler.Phase {
	i := m.Intent
	i.Returned = time.Time{}
	return i.phase()
}

// named returns the machine of that name that is not gone, or nil.
func (ro *roster) named(name string) *tracked {
	for _, m := range ro.machines {
		if m.Name == name && m.Gone.IsZero() {
			return m
		}
	}
	return nil
}

// ring rings a bell that nobody need hear yet.
func ring(bell chan<- struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// maxAge is how old what was seen may be for List and Create to go by it.
const maxAge = 2 * time.Minute

// List returns the hosts and the machines as they were at the last look. While there is none, or it
// is too old, it is an error: what is not known is not empty. It waits for nobody who writes
// intents.
func (f *Fleet) List(context.Context) (loop.MachineState, error) {
	defer f.mu.read()()
	if r := f.view.blind(f.cfg.Now()); r != nil {
		return loop.MachineState{}, fmt.Errorf("%s: %s", r.Code, r.Text)
	}
	if f.listed == nil {
		state := f.state()
		f.listed = &state
	}
	return loop.MachineState{
		Hosts: slices.Clone(f.listed.Hosts), Machines: slices.Clone(f.listed.Machines), Refused: f.withExhausted(f.listed.Refused),
	}, nil
}

// state is the hosts and the machines in the loop's words.
func (f *Fleet) state() loop.MachineState {
	there := make([]*tracked, 0, len(f.machines))
	for _, m := range f.machines {
		if m.Gone.IsZero() {
			there = append(there, m)
		}
	}
	slices.SortFunc(there, func(a, b *tracked) int { return cmp.Compare(a.Name, b.Name) })
	g := f.ground()
	state := loop.MachineState{Hosts: f.hosts(g), Machines: make([]nodescaler.Machine, len(there)), Refused: f.refusals(g)}
	for i, m := range there {
		state.Machines[i] = f.word(m)
	}
	return state
}

// word is a machine in the loop's words.
func (f *Fleet) word(m *tracked) nodescaler.Machine {
	w := nodescaler.Machine{
		Name: m.Name, ProviderID: m.ProviderID, SystemUUID: f.uuidOf(m), Held: f.heldBy(m),
		LostIDs: m.lostIDs(), Order: m.Order, Pool: m.Pool, Shape: m.Shape, Host: m.Host,
		Phase: m.shown(), Created: m.Asked, Since: m.Since, Problem: f.trouble(m), NoRoom: m.noRoom(),
		Keep: m.Keep, Woken: m.Woken, Drifted: f.drift(m),
	}
	if m.problem.Code == CodeNeverJoined && w.Phase == nodescaler.Booting || m.Held != nil && w.Phase == nodescaler.Ordered {
		w.Phase = nodescaler.Failed // no policy waits for it to take pods any more
	}
	switch w.Phase {
	case nodescaler.Ordered:
		w.Since = m.Created // it is one phase, of many steps
	case nodescaler.Deleting:
		w.Since = m.Returned
	case nodescaler.Joined:
		w.Since = m.Joined
		if m.Rejoined.After(m.Joined) {
			w.Since = m.Rejoined
		}
	case nodescaler.Spare:
		w.Since = m.Stashed
	case nodescaler.Failed:
		w.Since = cmp.Or(m.FailedAt, m.since)
	case nodescaler.Booting:
	}
	return w
}

// trouble is what is wrong with a machine, the worst first.
func (f *Fleet) trouble(m *tracked) string {
	tell := func(r nodescaler.Reason) string { return r.Code + ": " + r.Text }
	host := f.view.seen.Host(m.Host)
	node, _ := f.nodeOf(m)
	switch {
	case m.Held != nil:
		return tell(*m.Held)
	case f.heldBy(m) != nil:
		return tell(*f.heldBy(m))
	case m.Failed != nil:
		return strings.Join(append([]string{tell(*m.Failed)}, m.Hints...), "; ")
	case f.pools[m.Pool] == nil:
		return tell(reason(CodePoolUnknown, "pool %s is not configured any more, and nothing says how its machines are proved", m.Pool))
	case host == nil && node.Ready:
		return tell(reason(placement.CodeHostUnknown, "host %s is no host of the cluster any more, and the machine runs there on: its node is ready", m.Host))
	case host == nil:
		return tell(reason(placement.CodeHostUnknown, "host %s is no host of the cluster any more", m.Host))
	case !host.Online:
		return tell(reason(placement.CodeHostOffline, "host %s is offline; this is what was last known", m.Host))
	case f.view.frozen != nil:
		return tell(*f.view.frozen)
	case m.hung && m.Task != nil:
		return tell(m.hanging(true))
	case !f.view.silent[m.Host].IsZero() && !m.settled():
		return tell(reason(CodeHostSilent, "host %s is online and does not answer; it is asked again every minute", m.Host))
	case m.problem.Code != "":
		return tell(m.problem)
	case f.view.stopped(m):
		return tell(reason(CodeStopped, "VM %d does not run", m.VMID))
	case m.Step == StepStarted && f.cfg.Nodes == nil:
		return tell(reason(CodeNodesUnknown, "whether it has joined cannot be seen"))
	}
	return ""
}

// stopped reports whether a machine that should run does not. The list is some seconds late.
func (v *view) stopped(m *tracked) bool {
	g := v.seen.Guests[m.VMID]
	late := v.seen.At.Sub(m.Since) > 2*idleGap
	return g != nil && !g.Running && g.Name == m.Name && late && m.Returned.IsZero() && m.Stashed.IsZero() && !m.Step.before(StepStarted)
}

// hosts are the hosts in the loop's words. A host's room does not depend on who asks, so where
// pools see it differently the least counts: a policy that goes by it orders nothing that is
// refused. While nothing may be changed no host takes anything.
func (f *Fleet) hosts(g *placement.Ground) []nodescaler.Host {
	var all []nodescaler.Host
	for i := range g.Hosts {
		h := &g.Hosts[i]
		w := nodescaler.Host{
			Host:   pricing.Host{Name: h.Name},
			Online: h.Online, Cordoned: h.Maintenance || f.view.frozen != nil,
		}
		first := true
		for _, name := range slices.Sorted(maps.Keys(g.Pools)) {
			p := g.Pools[name]
			if len(p.Hosts) > 0 && !slices.Contains(p.Hosts, h.Name) {
				continue
			}
			room := g.Room(p, h)
			if first {
				w.Room, first = room, false
			}
			w.Room.CPU, w.Room.Memory = min(w.Room.CPU, room.CPU), min(w.Room.Memory, room.Memory)
		}
		all = append(all, w)
	}
	return all
}

// Paused returns the pools that take no orders because their machines failed or because they are
// another cluster's, with why.
func (f *Fleet) Paused() map[string]nodescaler.Reason {
	f.mu.Lock()
	defer f.unlock()
	now, paused := f.cfg.Now(), map[string]nodescaler.Reason{}
	for name, p := range f.pools {
		if r := cmp.Or(f.shut[name], f.health(p, now).closed(p, now)); r != nil {
			paused[name] = *r
		}
	}
	return paused
}

// Resume lets a pool that was paused take orders again, and lets those of its machines go that the
// brake holds now. What it would hold next it holds again.
func (f *Fleet) Resume(pool string) error {
	f.mu.Lock()
	defer f.unlock()
	p := f.pools[pool]
	if p == nil {
		return fmt.Errorf("pool %q does not exist", pool)
	}
	for _, m := range f.sorted() {
		if m.Pool == pool && m.Failed != nil && !m.Pardoned {
			i := m.Intent.clone()
			i.Pardoned = true
			if err := f.store.Put(i); err != nil {
				return fmt.Errorf("keep pardon of %s: %w", m.Name, err)
			}
			m.Pardoned = true
		}
	}
	f.events = append(f.events, Event{At: f.cfg.Now(), Code: CodePoolResumed, Text: "its failures do not count any more", Pool: pool})
	return f.letGo(pool, f.cfg.Now())
}
