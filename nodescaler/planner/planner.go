// Package planner holds what node policies plan with: where pods have places, which machines to
// order for those without, which nodes to drain, and which machines to keep stopped.
//
//   - A Planner scans by its Rules: it sees which machines come, orders, drains and keeps spares.
//     It may be forgotten at any time, and reclaims nothing at its first scan.
//   - Surplus is which nodes could be done without.
package planner

import (
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
)

// Planner scans: it places pods, orders machines, and empties nodes, by its rules.
type Planner struct {
	rules Rules
	keep  *keeper
	memory
}

// New is one that has seen nothing yet. At its first scan it only looks and orders.
func New(r Rules) *Planner {
	p := &Planner{rules: r, memory: memory{
		clocks:     clocks{emptied: since{}},
		orders:     orders{backoffs: map[string]*backoff{}, compared: map[string]string{}},
		departures: departures{ends: map[string]nodescaler.Reason{}, unended: map[string]time.Time{}, circuits: map[end]*circuit{}, lately: map[string]*emptied{}},
	}}
	if r.Spares != nil {
		p.keep = newKeeper(*r.Spares)
	}
	return p
}

// See takes note of what came of spares, with what a machine is taken to need until it is a node.
func (p *Planner) See(s *nodescaler.Snapshot, lead time.Duration) { p.keep.see(s, lead) }

// Idle is since when nodes are unneeded, by name; nil if the last scan did not trust what it saw.
func (p *Planner) Idle() map[string]time.Time { return p.idle }

// Asked reports whether the last scan asked if the node is needed: its machine was not held.
func (p *Planner) Asked(node string) bool { return !p.unasked[node] }

// Scan plans once.
func (p *Planner) Scan(x *nodescaler.Index) nodescaler.Plan {
	if p.first = p.started.IsZero(); p.first {
		p.started = x.Now
	}
	t := newScan(p, x)
	t.run()
	return t.Plan
}

// scan is one scan.
type scan struct {
	*turn
	watch   *watcher
	grower  *grower
	drainer *drainer
	disrupt *disrupter
	spares  *spares
}

func newScan(p *Planner, x *nodescaler.Index) *scan {
	u := &turn{Draft: draft.New(x), memory: &p.memory, rules: &p.rules, headroom: map[string][]*nodescaler.Pod{}, ending: map[string]nodescaler.Reason{}}
	m := &market{u}
	s := &spares{stocks: &stocks{waking: &waking{market: m, keep: p.keep}, worths: map[string]worth{}}}
	d := &drainer{turn: u, spares: s}
	u.places = newPlaces(x, nodescaler.NewDomains(x), d.open, d.usedOf)
	for name, why := range p.ends { // taken for gone, as when that was decided, but for a price
		if n := x.Node(name); n != nil && n.Draining && why.Code != nodescaler.MachineCostly {
			u.places.domains.Close(n.Node)
		}
	}
	u.Repelled = u.places.domains.Repelled
	a := &arrivals{turn: u, filled: map[string]nodescaler.Used{}}
	g := &grower{market: m, spares: s, arrivals: a, likings: &preferring{market: m}, awaited: map[string]bool{}}
	e := &disrupter{turn: u, grower: g, drainer: d, roller: &roller{u, map[string]int{}, map[string]int{}}, kept: draft.Findings{}, closed: map[string]func(){}, repairs: map[string]*nodescaler.Reason{}, vain: map[end]int{}}
	return &scan{turn: u, watch: &watcher{m}, grower: g, drainer: d, disrupt: e, spares: s}
}

func (t *scan) run() {
	t.watch.lookAtReadiness()
	if !t.watch.healthy() {
		t.idle = nil
		t.ParkAll("nodes that are ready again", t.Plan.Reasons[len(t.Plan.Reasons)-1])
		t.NoteUnplaced(nil, nil)
		return
	}
	t.watch.lookAtRevisions()
	t.watch.lookAtResumes()
	t.watch.lookAtMachines()
	ordered := t.grower.grow()
	if ordered {
		t.grew = t.X.Now
	}
	t.drainer.carryOn()
	t.lookAtEmptied()
	ordered = t.grower.keepRoom() || ordered
	t.grower.remind()
	if t.rules.Cancel != nil && !ordered {
		t.grower.cancel()
	}
	if !ordered && !t.first {
		ordered = t.disrupt.run()
	} else {
		t.noteBroken()
	}
	t.spares.tend(ordered || t.spares.cleared)
	if ordered {
		t.added = t.X.Now
		t.Note(nodescaler.ActivityElsewhere, "no node is reclaimed in a step that orders machines")
		return
	}
	unneeded := t.drainer.judge()
	if t.first {
		t.Note(nodescaler.JustStarted, "no node is reclaimed at the first look")
		return
	}
	t.drainer.startDrains(unneeded)
}
