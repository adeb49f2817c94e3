package kube

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/testbed/kubesim"
)

// A world is the adapter in virtual time: two processes, with informers, watches and an election,
// at an API server in memory, whose cluster works and changes. Each world draws from its seed which
// faults the processes meet, for as long as worldTrouble. What must hold at every moment is checked
// all the time, and what must hold without faults at the end.
const (
	worldTrouble = 30 * time.Minute
	worldCalm    = 3 * time.Minute
	// worldEnds is when nothing happens any more.
	worldEnds = worldTrouble + worldCalm - 20*time.Second
	// recovery is how long after the last fault everything may take to be as it should.
	recovery = time.Minute
)

type world struct {
	seed   uint64
	began  time.Time
	server *kubesim.Server
	town   *hamlet
	procs  []*process
	looks  [copies.NumberOfKinds]lookout
	backup kubesim.Snapshot

	mu    sync.Mutex
	log   []string
	wrong []string
	// blurred is until when watches may be late, by how long.
	blurred time.Time
	calm    bool
	did     map[string]int // how often what had which result
}

// process is one that may lead.
type process struct {
	*world
	name    string
	client  *kubesim.Client
	faults  map[string]kubesim.Faults // by the kind of what happened
	rng     *rand.Rand
	cluster atomic.Pointer[Cluster] // another one after a restart
	cancel  context.CancelFunc
	ended   chan struct{}
	acted   time.Time // when it last wrote something with success
}

func ourKinds() []kubesim.Kind {
	g, v := v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version
	return []kubesim.Kind{
		{Group: g, Version: v, Name: v1alpha1.KindWorkloadAutoscaler, Resource: "workloadautoscalers", Status: true, Custom: true},
		{Group: g, Version: v, Name: v1alpha1.KindVMPool, Resource: "vmpools", ClusterWide: true, Status: true, Custom: true},
		{Group: g, Version: v, Name: v1alpha1.KindPriceBook, Resource: "pricebooks", ClusterWide: true, Status: true, Custom: true},
		{Group: g, Version: v, Name: v1alpha1.KindScalingProposal, Resource: "scalingproposals", Status: true, Custom: true},
	}
}

func newWorld(seed uint64) (*world, error) {
	w := &world{seed: seed, began: time.Now(), server: kubesim.New(seed, ourKinds()...), did: map[string]int{}}
	w.town = newHamlet(w.server, rand.New(rand.NewPCG(seed, 2)))
	if err := w.town.settle(); err != nil {
		return nil, err
	}
	w.server.StreamingLists(seed%3 > 0)
	w.backup = w.server.Snapshot()
	for i, name := range []string{"a", "b"} {
		p := &process{world: w, name: name, faults: map[string]kubesim.Faults{}, rng: rand.New(rand.NewPCG(seed, 10+uint64(i)))}
		p.client = w.server.Client(name, p.sends)
		w.procs = append(w.procs, p)
		if err := p.start(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// start begins a process, which knows nothing of those before.
func (p *process) start() error {
	c, err := New(Config{
		REST: p.client.Config(), Mode: Active, Namespace: "plimsoll", Lease: "plimsoll",
		HandOff: HandOff{By: ByPlaceholders, PriorityClass: "placeholder", Image: "pause"},
	})
	if err != nil {
		return err
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	p.ended = make(chan struct{})
	p.cluster.Store(c)
	go func() {
		defer close(p.ended)
		var parts sync.WaitGroup
		parts.Go(func() {
			if err := c.Run(ctx); err != nil {
				p.fault("%s ended: %v", p.name, err)
			}
		})
		for ctx.Err() == nil {
			if err := c.Lead(ctx, p.name, p.work); err != nil {
				p.note("%s: %v", p.name, err)
				time.Sleep(time.Second)
			}
		}
		parts.Wait()
	}()
	return nil
}

func (p *process) port() *Cluster { return p.cluster.Load() }

// stop ends a process, which gives the lead back if the API server lets it.
func (p *process) stop() {
	p.client.Freeze()
	synctest.Wait()
	p.cancel()
	<-p.ended
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf("%8s ", time.Since(w.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (w *world) fault(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	w.note("WRONG: %s", what)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < 5 {
		w.wrong = append(w.wrong, what)
	}
}

func (w *world) isWrong() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.wrong) > 0
}

// pass lets a world pass, with these events.
func (w *world) pass(events []worldEvent) {
	later := []struct {
		at time.Duration
		do func()
	}{{worldTrouble, w.calmDown}, {worldTrouble + recovery, w.recovered}}
	for tick := 1; time.Since(w.began) < worldTrouble+worldCalm && !w.isWrong(); tick++ {
		for len(events) > 0 && events[0].at <= time.Since(w.began) {
			w.happens(events[0])
			events = events[1:]
		}
		for len(later) > 0 && later[0].at <= time.Since(w.began) {
			later[0].do()
			later = later[1:]
		}
		time.Sleep(100 * time.Millisecond)
		w.oneLeads()
		if tick%10 == 0 && time.Since(w.began) < worldEnds {
			if err := w.town.pass(); err != nil {
				w.fault("the town: %v", err)
			}
		}
		if tick%30 == 0 {
			w.upToDate()
		}
	}
	if !w.isWrong() {
		w.inOrder()
	}
	for _, p := range w.procs {
		p.client.Fail(kubesim.Faults{})
		p.stop()
	}
}

// live has a world pass from a seed in a bubble of its own.
func live(t *testing.T, seed uint64, events []worldEvent) (w *world) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if w, err = newWorld(seed); err != nil {
			t.Fatal(err)
		}
		w.pass(events)
	})
	return w
}

// shrinkWorld removes events as long as something goes wrong.
func shrinkWorld(t *testing.T, seed uint64, events []worldEvent, last *world) ([]worldEvent, *world) {
	t.Helper()
	for i, tries := 0, 0; i < len(events) && tries < 40; tries++ {
		fewer := slices.Delete(slices.Clone(events), i, i+1)
		if w := live(t, seed, fewer); w.isWrong() {
			events, last = fewer, w
			continue
		}
		i++
	}
	return events, last
}
