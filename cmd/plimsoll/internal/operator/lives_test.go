package operator

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// A life is the whole product in virtual time: manifests, observation, decision and action, the
// fleet over an emulated Proxmox VE, and a town for a cluster. Each draws from its seed which
// kinds of faults it meets and when people meddle, for as long as troubleFor; calmFor later
// everything must be in order. What must hold at every moment is looked at all the time.
const (
	troubleFor = 40 * time.Minute
	calmFor    = 75 * time.Minute
	pace       = 15 * time.Second // of steps in trouble
	tickPace   = pace / 2         // of the fleet, at least
	calmPace   = 30 * time.Second // and at first when all is calm
	quietAfter = 15 * time.Minute // of calm: then steps and ticks are as far apart as
	quietPace  = 90 * time.Second
	placedIn   = 20 * time.Minute // pods have a place then, from when faults have ended
	onItsWay   = 5 * time.Minute  // a machine is made or removed
	steadyFor  = 15 * time.Minute // at the end, in which nothing is both ordered and returned
)

var (
	livesFrom = flag.Uint64("lives.from", 1, "the first seed of the lives")
	livesMany = flag.Int("lives.n", 40, "how many lives there are")
)

type life struct {
	*town
	seed       uint64
	cfg        Config
	term       *term
	fleet      *pve.Fleet
	person     *pveapi.Client
	processes  []*process
	leads      *process // the one that holds the lease
	separate   bool     // each process has intents of its own
	ctx        context.Context
	end        func()        // of the term
	ahead      time.Duration // of the clock that the process has
	quiet      bool
	errands    []errand        // what a person still has to do
	leftOver   []string        // what events advise, and the search for orphans found
	down       time.Time       // until when there is no process
	theirs     map[int]bool    // machines that people have taken, or made
	named      map[string]bool // those that people have taken, by the names that they had
	stopped    map[int]bool    // machines that people have stopped
	mayNot     time.Time       // when no machine could be ordered for a pod that waited
	most       int             // machines of the pool, by the greatest maximum there was
	ids        map[int]string  // machines' names
	autoscaler *autoscaler     // nil if the product scales the pool itself
	api        *apiServer      // nil if the town is all that there is of Kubernetes
	telling    sync.Mutex      // API servers are asked several things at once
	segments   *segments
	log        []string
	wrong      []string

	// What the journal says: its last record, when machines were bought and returned, the orders,
	// which machines go (an event may say that, too) and which are started again, and the orders of
	// this process by namespace.
	last             loop.Step
	bought, returned time.Time
	orders           map[string]bool
	ends, restarts   map[string]bool
	boughtFor        map[string][]time.Time
}

// event is something that happens in a life: of a kind, by a number of its own, so that it is the
// same any else happens.
type event struct {
	at   time.Duration
	kind string
	n    uint64
}

func (e event) String() string { return fmt.Sprintf("%s %s/%x", e.at, e.kind, e.n) }

// eventsOf draws a life's events: of some kinds alone, so that each mix is met.
func eventsOf(seed uint64) (all []event) {
	rng := rand.New(rand.NewPCG(seed, 1))
	kinds := slices.Sorted(maps.Keys(happenings))
	some := slices.DeleteFunc(slices.Clone(kinds), func(string) bool { return rng.IntN(3) > 0 })
	some = append(some, "load", "load")
	for range 6 + rng.IntN(24) {
		all = append(all, event{time.Duration(rng.Int64N(int64(troubleFor))), some[rng.IntN(len(some))], rng.Uint64()})
	}
	if viaAPI(seed) {
		all = append(all, moreEventsOf(seed, 6, apiHappenings)...)
	}
	if viaProvider(seed) {
		all = append(all, moreEventsOf(seed, 8, providerHappenings)...)
	}
	if rollsOut(seed) {
		all = append(all, moreEventsOf(seed, 10, rolloutHappenings)...)
	}
	if viaLifecycle(seed) {
		all = append(all, moreEventsOf(seed, 12, lifecycleHappenings)...)
	}
	if asksPeople(seed) {
		all = append(all, approveEventsOf(seed)...)
	}
	slices.SortFunc(all, func(a, b event) int { return int(a.at - b.at) })
	return all
}

// now is the time by the process' clock.
func (l *life) now() time.Time { return l.sim.Now().Add(l.ahead) }

func (l *life) note(format string, args ...any) { l.noteAt(l.sim.Now(), format, args...) }

func (l *life) noteAt(at time.Time, format string, args ...any) {
	l.telling.Lock()
	defer l.telling.Unlock()
	l.log = append(l.log, fmt.Sprintf("%8s ", at.Sub(t0).Round(time.Second))+fmt.Sprintf(format, args...))
}

func (l *life) fault(format string, args ...any) { l.faultAt(l.sim.Now(), format, args...) }

func (l *life) faultAt(at time.Time, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	l.noteAt(at, "WRONG: %s", what)
	l.telling.Lock()
	defer l.telling.Unlock()
	if len(l.wrong) < 5 {
		l.wrong = append(l.wrong, what)
	}
}

// live lets a life pass, with these events, and returns what was wrong.
func (l *life) live(events []event) []string {
	defer l.close()
	calm := false
	for at := time.Duration(0); at < troubleFor+calmFor && !l.isWrong(); {
		l.take()
		for len(events) > 0 && events[0].at <= at {
			l.note("EVENT %s", events[0])
			l.begins(events[0].kind, t0.Add(at+recently))
			l.happens(events[0])
			events = events[1:]
		}
		if at >= troubleFor && !calm {
			calm = true
			l.calm()
		}
		l.quiet = at >= troubleFor+quietAfter
		if at >= troubleFor {
			l.heed()
			l.runErrands()
		}
		l.pass()
		l.show()
		l.always()
		if l.works() {
			l.catchUp()
			if err := l.term.step(l.ctx, l.now().Round(0)); err != nil && at > troubleFor+calmFor/2 {
				l.fault("a step in calm times fails: %v", err)
			}
			l.term.beside.Wait()
		}
		if l.autoscaler != nil {
			if err := l.autoscaler.scan(); err != nil && at > troubleFor+calmFor/2 {
				l.fault("cluster-autoscaler fails in calm times: %v", err)
			}
		}
		l.take()
		l.passOn()
		at += l.pace(calm)
		l.rest(t0.Add(at))
	}
	if !l.isWrong() {
		l.inOrder()
		l.decideAgain()
	}
	return l.wrong
}

// pace is how long it is until the next step. Pods that move do not wait for a quiet one, for a
// kubelet takes seconds.
func (l *life) pace(calm bool) time.Duration {
	switch {
	case !calm || l.moving():
		return pace
	case !l.quiet:
		return calmPace
	}
	return quietPace
}

// rest lets the fleet work until a time.
func (l *life) rest(until time.Time) {
	for l.sim.Now().Before(until) {
		pause := until.Sub(l.sim.Now())
		if l.passOn(); l.works() {
			_ = l.fleet.Tick(l.ctx)
			l.passOn()
			pause = max(l.fleet.Pause(), tickPace)
			if l.quiet {
				pause = max(pause, quietPace/2)
			}
			pause = min(pause, until.Sub(l.sim.Now()))
		}
		l.advance(max(time.Millisecond, pause))
	}
}

// works reports whether there is a process that leads.
func (l *life) works() bool { return l.ctx.Err() == nil && !l.sim.Now().Before(l.down) }

func (l *life) isWrong() bool {
	l.telling.Lock()
	defer l.telling.Unlock()
	return len(l.wrong) > 0
}

// close ends a life.
func (l *life) close() {
	if l.api != nil {
		l.api.calm()
		for _, s := range l.api.seats {
			s.stop()
		}
	}
	l.sim.Close()
}

// calm ends all faults, and people want what they wanted at first.
func (l *life) calm() {
	l.note("CALM")
	l.sim.Heal()
	if l.api != nil {
		l.api.calm()
	}
	if l.autoscaler != nil {
		l.autoscaler.calm()
	}
	l.pods = slices.DeleteFunc(l.pods, func(p *townPod) bool { return p.odd != nil })
	l.stale, l.blind, l.refuses, l.stuck, l.down, l.leads.left = 0, false, false, false, time.Time{}, 0
	for _, a := range l.autoscalers {
		a.Annotations, a.Spec.Mode = nil, v1alpha1.ModeActive
	}
	for _, p := range l.pools {
		l.resume(p)
		p.Spec.Mode = v1alpha1.ModePoolActive
		l.calmRollout(p)
	}
	for _, n := range l.nodes {
		n.Cordoned = n.Draining || n.marked
		if soon := l.sim.Now().Add(30 * time.Second); n.ready.After(soon) { // its kubelet hangs
			n.ready = soon
		}
	}
	spare, _ := l.spares()
	for _, v := range l.machines() {
		if (l.stopped[v.ID] || l.died(v)) && v.State == "stopped" && v.Config["lock"] == "" && !spare[v.Config["name"]] {
			l.errands = append(l.errands, errand{"qm start", v})
		}
	}
}

// died reports whether a machine is a node that was not emptied, as after its host went down.
// Only a person starts it again.
func (l *life) died(v pvesim.VMState) bool {
	i := slices.IndexFunc(l.nodes, func(n *townNode) bool { return n.vmid == v.ID })
	return i >= 0 && !l.nodes[i].Draining
}

// TestLives has many lives pass. Of one that goes wrong it prints its story, with as few events as
// still go wrong.
func TestLives(t *testing.T) {
	t.Parallel()
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // a life is mostly garbage
	many := *livesMany
	if race.On {
		many = min(many, 6)
	}
	met, said := map[meeting]int{}, map[string]int{}
	var mu sync.Mutex
	var group sync.WaitGroup
	seeds := make(chan uint64)
	for range 2 {
		group.Go(func() {
			for seed := range seeds {
				events := eventsOf(seed)
				l, wrong := relive(t, seed, events)
				mu.Lock()
				for m, n := range l.met {
					met[m] += n
				}
				for what, n := range l.said {
					said[what] += n
				}
				mu.Unlock()
				if len(wrong) > 0 {
					events, l = shrink(t, seed, events, l)
					t.Errorf("seed %d, %s: %s\nevents: %v\n%s", seed, l.cfg.Nodes.Policy, strings.Join(wrong, "\n"), events, strings.Join(l.log, "\n"))
				}
			}
		})
	}
	for i := range many {
		seeds <- *livesFrom + uint64(i)
	}
	close(seeds)
	group.Wait()
	if many >= 150 {
		for _, what := range everything() {
			if said[what] == 0 {
				t.Errorf("in no life was there %s", what)
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(said)) {
		t.Logf("%8d %s", said[what], what)
	}
	t.Logf("%d lives from seed %d; how often what met which call:\n%s", many, *livesFrom, matrix(met))
}

// Pods that no machine holds are there from the beginning, and every host is away for a while.
func TestALifeOfOddPodsAndHostsThatAreAway(t *testing.T) {
	t.Parallel()
	l, err := newLife(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, odd := range oddities {
		l.oddPod(odd)
	}
	var events []event
	for i := range 8 {
		events = append(events, event{time.Duration(4*i+4) * time.Minute, "host away", uint64(i)})
	}
	if wrong := l.live(events); len(wrong) > 0 {
		t.Errorf("%s\n%s", strings.Join(wrong, "\n"), strings.Join(l.log, "\n"))
	}
}

// relive has a life pass, in a bubble of its own if it has an API server.
func relive(t *testing.T, seed uint64, events []event) (l *life, wrong []string) {
	if !viaAPI(seed) {
		return relived(seed, events)
	}
	synctest.Test(t, func(*testing.T) {
		time.Sleep(time.Until(t0))
		l, wrong = relived(seed, events)
	})
	return l, wrong
}

func relived(seed uint64, events []event) (*life, []string) {
	l, err := newLife(seed)
	if err != nil {
		return &life{town: &town{}, wrong: []string{err.Error()}}, []string{err.Error()}
	}
	return l, l.live(events)
}

// shrink removes events as long as something goes wrong, for a while. Goroutines of a life with an
// API server may take turns otherwise the next time: then it stays as it was.
func shrink(t *testing.T, seed uint64, events []event, last *life) ([]event, *life) {
	end := time.Now().Add(30 * time.Second)
	for i := 0; i < len(events) && time.Now().Before(end); {
		fewer := slices.Delete(slices.Clone(events), i, i+1)
		if l, still := relive(t, seed, fewer); len(still) > 0 {
			events, last = fewer, l
			continue
		}
		i++
	}
	return events, last
}
