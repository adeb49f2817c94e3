package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Config is what a session is made of.
type Config struct {
	Seed   uint64
	Length time.Duration // how much is to be simulated
	// Journal gets every record of the loop; nil for none.
	Journal loop.Journal
}

// Session is a day that is being lived through. It is not safe for concurrent use.
type Session struct {
	cfg    Config
	world  *sim.World
	runner *loop.Runner
	static *static
	book   *pricing.Book
	dear   bool
	peak   float64 // requests a second, to all workloads

	watch     watch
	last      loop.Step
	decisions int
	decided   []loop.Step // the latest records that decided something
	events    []Event
}

// New starts a session, at six in the morning.
func New(cfg Config) (*Session, error) {
	if cfg.Length <= 0 {
		return nil, fmt.Errorf("length: must be greater than 0, was %s", cfg.Length)
	}
	s := &Session{cfg: cfg, book: prices(1)}
	rates := rates(cfg.Seed, cfg.Length)
	s.peak = sum(rates[0], rates[1:]...).Max()
	if err := s.wire(rates); err != nil {
		return nil, err
	}
	fleet, err := newStatic(cfg.Seed, rates, cfg.Length, s.book)
	if err != nil {
		return nil, fmt.Errorf("the fleet to compare with: %w", err)
	}
	s.static = fleet
	// The loop's first step only looks; with it there is something to be shown.
	return s, s.world.Run(context.Background(), 0)
}

// wire puts the loop into the world.
func (s *Session) wire(rates []sim.Curve) error {
	var scaled []loop.Workload
	cfg := world(s.cfg.Seed)
	for i, service := range services() {
		cfg.Workloads = append(cfg.Workloads, service.simulated(rates[i]))
		policy, err := podpolicy.New(podpolicy.Spec{Policy: "joint"})
		if err == nil {
			err = podpolicy.Check(&service.Workload, policy)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", service.Name, err)
		}
		scaled = append(scaled, loop.Scaled(service.Workload, policy))
	}
	nodes, err := nodepolicy.New(nodepolicy.Spec{Policy: "joint"})
	if err != nil {
		return err
	}
	s.runner = &loop.Runner{
		Intent:  loop.Intent{Pools: pools(), Prices: s.book, Workloads: scaled},
		Memory:  loop.Memory{Nodes: nodes},
		Journal: recorder{s},
	}
	s.world, err = sim.New(cfg, func(ctx context.Context, now time.Time) error {
		_, err := s.runner.Once(ctx, now)
		return err
	})
	s.runner.Cluster, s.runner.Machines, s.runner.Signals = s.world, s.world, s.world
	return err
}

// recorder is the loop's journal: a session learns from it what its loop did.
type recorder struct{ *Session }

// Append takes a record in, and passes it on.
func (s recorder) Append(step *loop.Step) error {
	s.last = *step
	if step.Decided() {
		s.decisions++
		s.decided = append(s.decided[max(0, len(s.decided)+1-remembered):], *step)
	}
	s.note(s.watch.step(step)...)
	if s.cfg.Journal == nil {
		return nil
	}
	return s.cfg.Journal.Append(step)
}

// remembered is how many of the records that decided something are kept to be explained.
const remembered = 200

// Decided returns the latest records that decided something, the last one last.
func (s *Session) Decided() []loop.Step { return slices.Clone(s.decided) }

// statusEvery is the time between two status events.
const statusEvery = 30 * time.Minute

// Advance moves the time on, to the end of the session at most, and returns what happened. How
// the time is cut into pieces changes nothing.
func (s *Session) Advance(ctx context.Context, by time.Duration) ([]Event, error) {
	until := min(s.world.Now()+by, s.cfg.Length)
	for s.world.Now() < until {
		if err := ctx.Err(); err != nil {
			return s.drain(), err
		}
		if err := s.world.Run(ctx, s.stop(until)); err != nil {
			return s.drain(), err
		}
		if err := s.reached(); err != nil {
			return s.drain(), err
		}
	}
	return s.drain(), nil
}

// stop is the next time at which the session itself has something to do, or until.
func (s *Session) stop(until time.Duration) time.Duration {
	now := s.world.Now()
	next := now.Truncate(statusEvery) + statusEvery
	if now < clumsy {
		next = min(next, clumsy)
	}
	return min(next, until)
}

// reached does what the session has to do now.
func (s *Session) reached() error {
	now := s.world.Now()
	if now%statusEvery == 0 {
		s.note(Event{At: s.Now(), Kind: Status, State: s.State()})
	}
	if now == clumsy {
		return s.Inject(sim.CloneFails)
	}
	return nil
}

// Elapsed is how much has been simulated.
func (s *Session) Elapsed() time.Duration { return s.world.Now() }

// Done reports whether the session has come to its end.
func (s *Session) Done() bool { return s.world.Now() >= s.cfg.Length }

// Now is the time of day in the session.
func (s *Session) Now() time.Time { return start.Add(s.world.Now()) }

func (s *Session) note(events ...Event) { s.events = append(s.events, events...) }

func (s *Session) drain() []Event {
	events := s.events
	s.events = nil
	return events
}

// DoublePrices makes everything cost twice as much from now on, or what it did at first. What
// was spent before stays spent at the price it had.
func (s *Session) DoublePrices(on bool) error {
	if on == s.dear {
		return nil
	}
	times, text := pricing.Micros(1), "prices are back to what they were"
	if on {
		times, text = 2, "everything costs twice as much from now on"
	}
	book, now := prices(times), s.Now()
	err := errors.Join(s.world.Reprice(book), s.runner.Reprice(book, now), s.static.ledger.Reprice(book, now))
	if err != nil {
		return err
	}
	s.book, s.dear = book, on
	s.note(Event{At: now, Kind: Price, Text: text})
	return nil
}
