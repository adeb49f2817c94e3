package kube

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/testbed/kubesim"
)

// worldEvent is something that happens in a world: of a kind, by a number of its own.
type worldEvent struct {
	at   time.Duration
	kind string
	n    uint64
}

func (e worldEvent) String() string {
	return fmt.Sprintf("%s %s/%x", e.at.Round(time.Second), e.kind, e.n)
}

// eventsOfWorld draws what happens: of some kinds alone, so that each mix is met.
func eventsOfWorld(seed uint64) (all []worldEvent) {
	rng := rand.New(rand.NewPCG(seed, 1))
	kinds := append(slices.Sorted(maps.Keys(faults)), slices.Sorted(maps.Keys(incidents))...)
	some := slices.DeleteFunc(kinds, func(string) bool { return rng.IntN(3) > 0 })
	for range 4 + rng.IntN(16) {
		if len(some) > 0 {
			all = append(all, worldEvent{time.Duration(rng.Int64N(int64(worldTrouble))), some[rng.IntN(len(some))], rng.Uint64()})
		}
	}
	slices.SortFunc(all, func(a, b worldEvent) int { return int(a.at - b.at) })
	return all
}

// faults are those that processes meet for a while, by kind.
var faults = map[string]func(r *rand.Rand) kubesim.Faults{
	"refused": func(*rand.Rand) kubesim.Faults { return kubesim.Faults{Refused: true} },
	"hangs":   func(*rand.Rand) kubesim.Faults { return kubesim.Faults{Hangs: true} },
	"unready": func(*rand.Rand) kubesim.Faults { return kubesim.Faults{Unready: true} },
	"errors":  func(r *rand.Rand) kubesim.Faults { return kubesim.Faults{Errors: r.Float64()} },
	"busy":    func(r *rand.Rand) kubesim.Faults { return kubesim.Faults{Busy: r.Float64()} },
	"slow": func(r *rand.Rand) kubesim.Faults {
		return kubesim.Faults{Slow: time.Duration(r.IntN(20)+1) * time.Second}
	},
	"lost":    func(r *rand.Rand) kubesim.Faults { return kubesim.Faults{Lost: r.Float64()} },
	"crossed": func(r *rand.Rand) kubesim.Faults { return kubesim.Faults{Crossed: r.Float64()} },
	"gone":    func(r *rand.Rand) kubesim.Faults { return kubesim.Faults{Gone: r.Float64()} },
	"breaks": func(r *rand.Rand) kubesim.Faults {
		return kubesim.Faults{Breaks: time.Duration(r.IntN(60)+1) * time.Second}
	},
	"late": func(r *rand.Rand) kubesim.Faults {
		return kubesim.Faults{Late: time.Duration(r.IntN(maxLate)) * time.Second}
	},
	"mute": func(*rand.Rand) kubesim.Faults { return kubesim.Faults{Mute: true} },
	"forbidden": func(r *rand.Rand) kubesim.Faults {
		return kubesim.Faults{Forbidden: []string{forbidden[r.IntN(len(forbidden))]}}
	},
}

var forbidden = []string{"pods", "nodes", "deployments.apps", "leases.coordination.k8s.io", "poddisruptionbudgets.policy", "storageclasses.storage.k8s.io"}

// maxLate is by how many seconds watches are late at most.
const maxLate = 60

// incidents are what happens at once, by kind.
var incidents = map[string]func(*world, *rand.Rand){
	"compacted":     func(w *world, _ *rand.Rand) { w.server.Compact(); w.someProcess(0).client.Break() },
	"watches break": func(w *world, r *rand.Rand) { w.someProcess(r.Uint64()).client.Break() },
	"backed up":     func(w *world, _ *rand.Rand) { w.backup = w.server.Snapshot() },
	"restored":      func(w *world, r *rand.Rand) { w.restores(r, true) },
	"set back":      func(w *world, r *rand.Rand) { w.restores(r, false) },
	"restarted": func(w *world, r *rand.Rand) {
		p := w.someProcess(r.Uint64())
		p.stop()
		time.Sleep(time.Duration(r.IntN(40)) * time.Second)
		p.meets("freeze", kubesim.Faults{}) // it has the others still
		if err := p.start(); err != nil {
			w.fault("%s does not start again: %v", p.name, err)
		}
	},
	"clock set": func(w *world, r *rand.Rand) {
		w.someProcess(r.Uint64()).client.Ahead(time.Duration(r.IntN(7200)-3600) * time.Second)
	},
}

// restores has the server be restored from its backup, during which it is not there.
func (w *world) restores(r *rand.Rand, marked bool) {
	if w.procs[0].faults["restore"].Refused {
		return // one at a time
	}
	for _, p := range w.procs {
		p.meets("restore", kubesim.Faults{Refused: true})
	}
	snapshot := w.backup
	time.AfterFunc(time.Duration(15+r.IntN(90))*time.Second, func() {
		if w.isCalm() {
			return
		}
		w.server.Restore(snapshot, marked)
		w.note("RESTORED")
		for _, p := range w.procs {
			p.meets("restore", kubesim.Faults{})
		}
	})
}

func (w *world) someProcess(n uint64) *process { return w.procs[n%uint64(len(w.procs))] }

func (w *world) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

// blur notes that for a while pictures may be old without being known to be.
func (w *world) blur(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if until := time.Now().Add(d); until.After(w.blurred) {
		w.blurred = until
	}
}

func (w *world) happens(e worldEvent) {
	r := rand.New(rand.NewPCG(e.n, 4))
	if do := incidents[e.kind]; do != nil {
		w.note("EVENT %s", e)
		do(w, r)
		return
	}
	f, lasts := faults[e.kind](r), time.Duration(r.IntN(300))*time.Second
	of := w.procs
	if r.IntN(2) == 0 { // else the server has the fault, and not one process' network
		of = []*process{w.someProcess(r.Uint64())}
	}
	for _, p := range of {
		w.note("FAULT of %s for %s: %s", p.name, lasts, f)
		p.meets(e.kind, f)
		time.AfterFunc(lasts, func() { p.meets(e.kind, kubesim.Faults{}) })
	}
	if f.Mute || f.Hangs || f.Late > 0 {
		w.blur(lasts + 4*time.Minute + maxLate*time.Second)
	}
}

// meets has a process meet a fault of a kind besides those of other kinds.
func (p *process) meets(kind string, f kubesim.Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults[kind] = f; p.calm {
		p.faults[kind] = kubesim.Faults{}
	}
	var all kubesim.Faults
	for _, f := range p.faults {
		all.Refused, all.Hangs = all.Refused || f.Refused, all.Hangs || f.Hangs
		all.Unready, all.Mute = all.Unready || f.Unready, all.Mute || f.Mute
		all.Errors, all.Busy, all.Lost = max(all.Errors, f.Errors), max(all.Busy, f.Busy), max(all.Lost, f.Lost)
		all.Crossed, all.Gone = max(all.Crossed, f.Crossed), max(all.Gone, f.Gone)
		all.Slow, all.Breaks, all.Late = max(all.Slow, f.Slow), max(all.Breaks, f.Breaks), max(all.Late, f.Late)
		all.Forbidden = append(all.Forbidden, f.Forbidden...)
	}
	p.client.Fail(all)
}

// calmDown ends all faults.
func (w *world) calmDown() {
	w.note("CALM")
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	for _, p := range w.procs {
		for kind := range p.faults {
			p.meets(kind, kubesim.Faults{})
		}
	}
}
