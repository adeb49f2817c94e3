// Package pve is the machine port, over Proxmox VE: it makes, follows and destroys the virtual
// machines that the loop orders, and touches none that is not proved to be ours.
package pve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
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

// Fleet is the machine port: it makes, follows and destroys virtual machines on Proxmox VE. Create,
// Delete and List answer from memory; Tick does the work, and Run calls it. A machine goes
//
//	ordered → claimed → cloned → sized → seeded → configured → started → joined → tidied
//
// and as a spare, when it is stashed and woken,
//
//	tidied → shut down → stopped → configured, and on from there
//
// when it is rebooted
//
//	tidied → shut down → stopped → started
//
// and from wherever it is, when it is reclaimed or has failed,
//
//	→ shut down → stopped → destroyed → gone → forgotten, when its VMID has cooled down
//
// Four rules prevent harm. What is about to be done is written down first, so that a process that
// starts again after a crash knows what may have been done, and looks. What may have been done is
// only asked for again in a way that cannot do it twice: a clone to the same VMID. Every change of
// a machine follows immediately on the proof that it is ours, and what is not proved is put into
// quarantine. And what is not listed is unknown: a machine is gone when its VMID is free, its host
// is online or has left the cluster for good, and there is a majority to say so.
type Fleet struct {
	cfg FleetConfig
	// ticking is held by the one round of work at a time; mu guards what the parts remember. It is
	// never held during a call to Proxmox VE; while an intent is written that can be read.
	ticking sync.Mutex
	mu      guard

	// The parts, each over those before it.
	watch     *watch
	records   *records
	catalogue *catalogue
	roster    *roster
	view      *view
	members   *members
	ownership *ownership
	holds     *holds
	agenda    *agenda
	intake    *intake
	listing   *listing
	lookout   *lookout
	leftovers *leftovers
	crew      *crew
	settler   *settler
	adoption  *adoption
}

// assemble puts a fleet together of its parts. Nothing is known yet.
func assemble(cfg FleetConfig) *Fleet {
	f := &Fleet{cfg: cfg}
	c, mu, client := &f.cfg, &f.mu, cfg.Client
	f.watch = &watch{cfg: c, mu: mu}
	f.records = &records{
		mu: mu, report: cfg.Report, lead: cfg.Timed,
		store: patient{cfg.Intents, mu}, clock: cfg.Now, chance: cfg.Rand, wake: make(chan struct{}, 1), counts: map[string]int{},
	}
	f.catalogue = &catalogue{cfg: c, watch: f.watch, dropped: map[string]time.Time{}}
	f.roster = &roster{map[string]*tracked{}}
	f.view = &view{
		templates: map[int]placement.TemplateSeen{}, bridges: map[string][]string{},
		known: map[string]bool{}, resting: map[string]time.Time{}, silent: map[string]time.Time{},
	}
	f.members = &members{cfg: c, records: f.records, roster: f.roster}
	on := &ground{client, c, mu, f.watch, f.records, f.catalogue, f.roster, f.view, f.members}
	f.ownership = &ownership{
		ground: on,
		taken:  map[int]time.Time{}, others: map[int]string{}, rivals: map[int]rival{}, fresh: map[int]freshling{},
	}
	f.holds = &holds{cfg: c, watch: f.watch, records: f.records, roster: f.roster, members: f.members, ownership: f.ownership}
	f.agenda = &agenda{
		cfg: c, catalogue: f.catalogue, roster: f.roster, view: f.view, members: f.members, ownership: f.ownership, holds: f.holds,
	}
	f.intake = &intake{
		cfg: c, records: f.records, catalogue: f.catalogue, roster: f.roster, view: f.view, ownership: f.ownership, holds: f.holds, agenda: f.agenda,
	}
	f.listing = &listing{cfg: c, catalogue: f.catalogue, roster: f.roster, view: f.view, members: f.members, holds: f.holds, intake: f.intake}
	f.lookout = &lookout{ground: on, news: make(chan struct{}, 1)}
	f.leftovers = &leftovers{ground: on, ownership: f.ownership, holds: f.holds}
	f.crew = &crew{ground: on, ownership: f.ownership, holds: f.holds, intake: f.intake}
	f.settler = &settler{ground: on, ownership: f.ownership, intake: f.intake, lookout: f.lookout, leftovers: f.leftovers, crew: f.crew}
	f.adoption = &adoption{f.crew, f.settler}
	return f
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
	f := assemble(cfg)
	f.watch.began = cfg.Now()
	f.catalogue.setPools(cfg.Pools)
	f.catalogue.setPrices(cfg.Prices)
	f.view.barred = f.lookout.bars()
	if err := f.load(); err != nil {
		return f, err
	}
	f.mu.Lock()
	defer f.records.unlock()
	return f, f.holds.letAllGo(cfg.Pools)
}

func (f *Fleet) load() error {
	kept, err := f.records.store.Load()
	if err != nil {
		return err
	}
	f.watch.steady.see(f.cfg.Now())
	for _, i := range kept {
		i.Why = brief(i.Why)
		m := &tracked{Intent: i}
		m.unsure = i.Step == intents.StepClaimed && i.Task == nil
		if m.ProviderID == "" {
			m.ProviderID = f.catalogue.plannedID(m)
		}
		if f.ownership.disown(m) {
			f.roster.machines[i.Order] = m
		}
	}
	f.roster.correct(f.cfg.Now())
	return nil
}

// Counts returns how many events there were of each code since the fleet was made.
func (f *Fleet) Counts() map[string]int {
	f.mu.Lock()
	defer f.records.unlock()
	return maps.Clone(f.records.counts)
}

// Create takes an order, or refuses it and says why. It makes no call: what it takes is done by
// the ticks that follow. An order that is known already changes nothing.
func (f *Fleet) Create(_ context.Context, o loop.Order) error {
	f.mu.Lock()
	defer f.records.unlock()
	if f.roster.machines[o.ID] != nil {
		return nil
	}
	if f.cfg.Watch {
		return refused(watching)
	}
	m, err := f.intake.accept(o)
	if err != nil {
		return err
	}
	if err := f.records.store.Put(m.Intent.Clone()); err != nil {
		// It may have been kept all the same, and would then come to life after a restart.
		return fmt.Errorf("keep order %s: %w", o.ID, errors.Join(err, f.records.store.Remove(o.ID)))
	}
	f.roster.machines[o.ID] = m
	delete(f.leftovers.free, m.VMID)
	f.records.say(m, reason(pvecode.OrderAccepted, "%s on %s", m.Shape.Name, m.Host), "")
	f.records.nudge()
	return nil
}

// watching is why a fleet that only looks does nothing.
var watching = reason(pvecode.Watching, "nothing is changed here, only looked at")

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
	defer f.records.unlock()
	var m *tracked
	for _, o := range f.roster.machines {
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
	case f.ownership.untouchable(m) != nil:
		return f.ownership.untouchable(m)
	}
	i := m.Intent.Clone()
	i.Returned, i.Forced, i.Silent, i.Reboot = f.cfg.Now(), forced, f.holds.silent(m), intents.RebootNone
	if err := f.records.store.Put(i); err != nil {
		return fmt.Errorf("keep return of %s: %w", name, err)
	}
	m.Intent, m.tries, m.rest = i, 0, time.Time{}
	f.records.say(m, reason(pvecode.Returned, "was %s", m.phaseBefore()), "")
	f.records.nudge()
	return nil
}

// List returns the hosts and the machines as they were at the last look. Without a look, or with
// one that is too old, it returns an error: what is not known is not empty. It does not wait for
// intents that are being written.
func (f *Fleet) List(context.Context) (loop.MachineState, error) {
	defer f.mu.read()()
	if f.view.untried() {
		return loop.MachineState{}, fmt.Errorf("%s: Proxmox VE: %w", pvecode.NoInventory, loop.ErrUnread)
	}
	if r := f.view.blind(f.cfg.Now()); r != nil {
		return loop.MachineState{}, fmt.Errorf("%s: %s", r.Code, r.Text)
	}
	if f.records.listed == nil {
		state := f.listing.state()
		f.records.listed = &state
	}
	return loop.MachineState{
		Hosts: slices.Clone(f.records.listed.Hosts), Machines: slices.Clone(f.records.listed.Machines), Refused: f.intake.withExhausted(f.records.listed.Refused),
		Revisions: f.records.listed.Revisions,
	}, nil
}

// Paused returns the pools that take no orders because their machines failed or because they are
// another cluster's, with why.
func (f *Fleet) Paused() map[string]nodescaler.Reason {
	f.mu.Lock()
	defer f.records.unlock()
	now, paused := f.cfg.Now(), map[string]nodescaler.Reason{}
	for name, p := range f.catalogue.pools {
		if r := cmp.Or(f.ownership.shut[name], f.intake.health(p, now).closed(p, now)); r != nil {
			paused[name] = *r
		}
	}
	return paused
}

// Resume lets a pool that was paused take orders again, also on hosts that rest, and lets those of
// its machines go that the brake holds now. What it would hold next it holds again.
func (f *Fleet) Resume(pool string) error {
	f.mu.Lock()
	defer f.records.unlock()
	p := f.catalogue.pools[pool]
	if p == nil {
		return fmt.Errorf("pool %q does not exist", pool)
	}
	for _, m := range f.roster.sorted() {
		if m.Pool == pool && m.Failed != nil && !m.Pardoned {
			i := m.Intent.Clone()
			i.Pardoned = true
			if err := f.records.store.Put(i); err != nil {
				return fmt.Errorf("keep pardon of %s: %w", m.Name, err)
			}
			m.Pardoned = true
		}
	}
	p.Resumed = f.cfg.Now()
	f.records.events = append(f.records.events, Event{At: f.cfg.Now(), Code: pvecode.PoolResumed, Text: "its failures do not count any more", Pool: pool})
	return f.holds.letGo(pool, f.cfg.Now())
}

// Clusters are the VMIDs of a pool's machines by the cluster that their mark names, the oldest
// first.
func (f *Fleet) Clusters(pool string) map[string][]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string][]int{}
	for _, m := range f.roster.sorted() {
		if m.Pool == pool && m.Gone.IsZero() {
			all[m.Cluster] = append(all[m.Cluster], m.VMID)
		}
	}
	return all
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

// Rest sets in which pools machines that stop by themselves are not started again: they are paused,
// or only recommended for.
func (f *Fleet) Rest(pools map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.catalogue.resting = pools
}

// Unread returns the pools of which it is not known yet where their templates are, with the reason:
// they are new, or have other templates than before. What is ordered there is refused until they
// were looked for, which is at once; News says when.
func (f *Fleet) Unread() map[string]nodescaler.Reason {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lookout.unread()
}

// News is signalled when orders can be taken that could not be taken before: the cluster was seen
// for the first time, or may be changed again, or templates were found.
func (f *Fleet) News() <-chan struct{} { return f.lookout.news }

// Braked returns the pools of which no machine goes undrained, because too many would have, with
// why.
func (f *Fleet) Braked() map[string]nodescaler.Reason {
	f.mu.Lock()
	defer f.mu.Unlock()
	braked := map[string]nodescaler.Reason{}
	for _, m := range f.roster.machines {
		if _, known := braked[m.Pool]; !known && m.Gone.IsZero() && !m.Frozen.IsZero() {
			braked[m.Pool] = f.roster.braked(m.Pool)
		}
	}
	return braked
}

// Orphans looks for what is left over, in both directions, and changes nothing. It begins as a
// round of work does; while it asks on, which may be hundreds of questions, rounds of work go on.
func (f *Fleet) Orphans(ctx context.Context) (Report, error) {
	if err := f.lookAgain(ctx); err != nil {
		return Report{}, err
	}
	r := Report{At: f.cfg.Now()}
	r.Orphans = append(f.leftovers.orphanMachines(), f.leftovers.orphanNodes(ctx)...)
	discs, unknown := f.leftovers.orphanDiscs(ctx)
	unseen, more := f.leftovers.unseenMachines(ctx)
	r.Orphans, r.Unknown = slices.Concat(r.Orphans, discs, unseen), append(unknown, more...)
	f.mu.Lock()
	defer f.records.unlock()
	if f.members.nodes == nil {
		r.Unknown = append(r.Unknown, "nodes")
	}
	f.leftovers.notice(&r)
	slices.SortFunc(r.Orphans, func(a, b Orphan) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return r, nil
}

// lookAgain looks, whether or not that is due.
func (f *Fleet) lookAgain(ctx context.Context) error {
	f.ticking.Lock()
	defer f.ticking.Unlock()
	f.lookout.readNodes(ctx)
	if err := f.lookout.look(ctx); err != nil {
		return err
	}
	f.settler.settle()
	f.adoption.adopt(ctx)
	return nil
}

// Collect removes what has been left over for longer than the grace. Machines are only reclaimed:
// they go the way of all others, with proof before each call. What spare names is only reported;
// nil spares nothing. It returns what it found.
func (f *Fleet) Collect(ctx context.Context, spare func(Orphan) bool) (Report, error) {
	r, err := f.Orphans(ctx)
	if err != nil {
		return r, err
	}
	f.mu.Lock()
	frozen := f.view.frozen
	f.mu.Unlock()
	if frozen != nil || f.cfg.Watch {
		return r, nil
	}
	var errs []error
	for _, o := range r.Orphans {
		if !o.Due.IsZero() && f.watch.past(o.Noticed, f.cfg.OrphanGrace) && (spare == nil || !spare(o)) && f.leftovers.stands(o) {
			errs = append(errs, f.collect(ctx, o))
		}
	}
	return r, errors.Join(errs...)
}

func (f *Fleet) collect(ctx context.Context, o Orphan) error {
	switch o.Kind {
	case MachineWithoutNode:
		return f.Delete(ctx, o.Name)
	case NodeWithoutMachine:
		if f.cfg.RemoveNode != nil {
			return f.cfg.RemoveNode(ctx, o.Name)
		}
	case DiscWithoutMachine:
		_, err := f.cfg.Client.DeleteVolume(ctx, o.Host, pveapi.ParseVolume(o.Name).Storage, o.Name)
		return err
	case IntentWithout, UnprovedMachine, UnseenMachine:
	}
	return nil
}

// Tick makes one round: it looks, and then moves every machine that can be moved, without waiting
// for a task. It returns an error when the cluster could not be read; nothing is changed then. Two
// ticks at a time are one after the other.
func (f *Fleet) Tick(ctx context.Context) error {
	f.ticking.Lock()
	defer f.ticking.Unlock()
	f.lookout.readNodes(ctx)
	f.settler.settle()
	if f.lookDue() {
		if err := f.lookout.look(ctx); err != nil {
			return err
		}
		f.settler.settle()
		f.adoption.adopt(ctx)
	}
	if !f.cfg.Watch {
		f.moveAll(ctx)
	}
	return ctx.Err()
}

// lookDue reports whether what was seen is too old: when there is something to do, and now and then
// when there is not. Of pools that are new nothing was seen.
func (f *Fleet) lookDue() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.view.seen == nil || f.view.failed != nil || len(f.lookout.unread()) > 0 {
		return true
	}
	age := f.cfg.Now().Sub(f.view.seen.At)
	if age < lookGap && age >= 0 {
		return false
	}
	if age >= idleGap || age < 0 || f.view.frozen != nil {
		return true
	}
	for _, m := range f.roster.machines {
		if !m.settled() && !m.booting() || m.Task != nil {
			return true
		}
	}
	return false
}

// maxMoves is how many moves a machine makes in one round, at most: more are a mistake of ours, and
// must not become a storm of calls.
const maxMoves = 8

// moveAll moves machines until none can be moved without a new look. Orders that arrive meanwhile
// are among them.
func (f *Fleet) moveAll(ctx context.Context) {
	f.mu.Lock()
	for _, m := range f.roster.machines {
		m.moves = 0
	}
	f.mu.Unlock()
	if f.cfg.Parallel == 1 {
		f.moveSome(ctx)
		return
	}
	var workers sync.WaitGroup
	for range f.cfg.Parallel {
		workers.Go(func() { f.moveSome(ctx) })
	}
	workers.Wait()
}

func (f *Fleet) moveSome(ctx context.Context) {
	for ctx.Err() == nil {
		w, mv := f.pick()
		if w == nil {
			return
		}
		w.do(ctx, mv)
		f.mu.Lock()
		w.m.busy = false
		f.mu.Unlock()
	}
}

// pick chooses the next machine to move, the oldest order first.
func (f *Fleet) pick() (*work, move) {
	f.mu.Lock()
	defer f.records.unlock()
	var t *turns
	for _, m := range f.roster.sorted() {
		if m.moves >= maxMoves || m.busy {
			continue
		}
		if m.unsaved && f.records.keep(m) != nil {
			continue
		}
		s := f.agenda.scene(m)
		if m.Step == intents.StepOrdered && m.Gone.IsZero() && !s.frozen {
			if t == nil {
				t = f.agenda.turns()
			}
			s.slot = f.agenda.slot(t, m)
		}
		if mv := m.next(s); mv != moveWait {
			m.busy = true
			m.moves++
			return f.crew.workFor(m), mv
		}
	}
	return nil, moveWait
}

// Pause is how long the next tick may be waited for: not at all when there is something to do now,
// a moment while machines are on their way, longer when all is quiet. After a look that failed it
// grows with each failure in a row.
func (f *Fleet) Pause() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.view.failed != nil {
		return min(lookGap<<min(f.view.failures, 5), longPause)
	}
	gap := idleGap
	for _, m := range f.roster.machines {
		if !m.settled() {
			gap = lookGap
		}
	}
	return gap
}

// Run ticks until the context ends: at once when an order arrives, soon while machines are on their
// way, and seldom otherwise. What goes wrong becomes events, and does not end it.
func (f *Fleet) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.records.wake:
		case <-timer.C:
		}
		_ = f.Tick(ctx) // the look makes an event of it
		timer.Reset(f.Pause())
	}
}

// Stash keeps a machine as a spare: it is shut down, and stays. It makes no call.
func (f *Fleet) Stash(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.records.unlock()
	m := f.roster.named(name)
	switch {
	case m == nil:
		return fmt.Errorf("machine %s does not exist", name)
	case m.Phase() == nodescaler.Spare:
		return nil
	case f.cfg.Watch:
		return fmt.Errorf("machine %s: %s", name, watching.Text)
	case f.ownership.untouchable(m) != nil:
		return f.ownership.untouchable(m)
	case m.rebooting():
		return fmt.Errorf("machine %s cannot be kept as a spare: it is being rebooted", name)
	case m.Phase() != nodescaler.Joined || m.Held != nil:
		return fmt.Errorf("machine %s cannot be kept as a spare: it is %s, and must be %s", name, m.Phase(), nodescaler.Joined)
	}
	i := m.Intent.Clone()
	i.Stashed, i.Keep, i.Exit = f.cfg.Now(), false, intents.ExitNone
	if err := f.records.commit(m, i); err != nil {
		return fmt.Errorf("keep %s as a spare: %w", name, err)
	}
	m.off = false
	f.records.say(m, reason(pvecode.Stashed, "it is shut down, and kept"), "")
	return nil
}

// Wake starts a spare, if its host takes it, or lets one in the making be a machine like any other.
// It makes no call. An error that wraps loop.ErrRefused says that it stays as it was.
func (f *Fleet) Wake(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.records.unlock()
	m := f.roster.named(name)
	switch {
	case m == nil:
		return fmt.Errorf("machine %s does not exist", name)
	case f.cfg.Watch:
		return refused(watching)
	case m.Phase() != nodescaler.Spare && !m.Keep:
		return nil
	}
	i := m.Intent.Clone()
	i.Keep = false
	if m.Phase() == nodescaler.Spare {
		if r := f.sleeps(m); r != nil {
			return refused(*r)
		}
		i.Stashed, i.Woken, i.Exit, i.Frozen = time.Time{}, f.cfg.Now(), intents.ExitNone, time.Time{}
		i.Step, i.Since = intents.StepConfigured, i.Woken
	}
	if err := f.records.commit(m, i); err != nil {
		return fmt.Errorf("keep waking of %s: %w", name, err)
	}
	m.conf, m.mile, m.off = nil, milestone{}, false
	f.records.say(m, reason(pvecode.Woken, "it is no spare any more"), "")
	return nil
}

// sleeps says why a spare cannot be started now.
func (f *Fleet) sleeps(m *tracked) *nodescaler.Reason {
	if r := cmp.Or(f.view.blind(f.cfg.Now()), f.ownership.holding(m)); r != nil {
		return r
	}
	if r := f.view.frozen; r != nil {
		return no(pvecode.Frozen, "%s: %s", r.Code, r.Text)
	}
	p, h := f.catalogue.pools[m.Pool], f.view.seen.Host(m.Host)
	switch {
	case p == nil:
		return no(pvecode.PoolUnknown, "there is no pool %q", m.Pool)
	case h == nil:
		return no(placement.CodeHostUnknown, "%s is no host of the cluster", m.Host)
	case !h.Online:
		return no(placement.CodeHostOffline, "%s is offline", m.Host)
	case h.Maintenance || slices.Contains(p.Placement.Maintenance, m.Host):
		return no(placement.CodeHostInMaintenance, "%s is in maintenance", m.Host)
	}
	return f.intake.ground().NoRoom(p.Places(), m.Shape, h)
}
