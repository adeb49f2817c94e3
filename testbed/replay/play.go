package replay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
)

// runIn is how many minutes before the test are played without being counted, so that every scaler
// begins it with the replicas it would have had. A tenth of the training is the most.
const runIn = 60

// Lead is who decided for which part of the time. No one has a name of "": that is the first minute
// of a run without any before it.
type Lead struct {
	Name string
	Part float64
}

// Result is what came of a run, in requests.
type Result struct {
	Trace, Kind string
	Knob        Knob
	Value       float64 // what the knob was turned to
	Minutes     int
	Arrived     float64
	Served      float64
	Lost        float64 // expired
	Waiting     float64 // neither served nor expired as the run ended
	PodMinutes  int
	Moves       int // changes of replicas
	Turns       int // changes the other way than the one before
	// Leaders are who decided, by name, of a scaler that has several.
	Leaders []Lead
	// Training is how long it took to learn from the minutes before, if a clock was given.
	Training      time.Duration
	TrainingKnown bool
	// Size is the memory of what was learned, in bytes, if it is known.
	Size      int
	SizeKnown bool
}

// LostPart is the part of what arrived that was lost; none of nothing.
func (r Result) LostPart() float64 {
	if r.Arrived == 0 {
		return 0
	}
	return r.Lost / r.Arrived
}

// MeanPods is the replicas in the mean.
func (r Result) MeanPods() float64 { return float64(r.PodMinutes) / float64(max(r.Minutes, 1)) }

// Hear is called with each minute of the test as it ends, and who set its pods and why, if the
// scaler says.
type Hear func(i int, p capacity.Period, leader, why string)

// Play trains a scaler on the first minutes of a trace, plays it through the rest and returns what
// came of it. Who hears may be nil.
func Play(t *Trace, train int, k Kind, s Setting, hear Hear) (Result, error) {
	if err := errors.Join(t.Validate(), t.splits(train)); err != nil {
		return Result{}, err
	}
	p, err := NewPlayer(k, s, hear)
	if err != nil {
		return Result{}, err
	}
	if err := p.Warm(t.Counts[:train]); err != nil {
		return Result{}, fmt.Errorf("%s: %w", t.Name, err)
	}
	if err := p.Feed(t.Counts[train:]...); err != nil {
		return Result{}, fmt.Errorf("%s: %w", t.Name, err)
	}
	r := p.Result()
	r.Trace = t.Name
	return r, nil
}

// Player is a run under way, for loads that come in pieces.
type Player struct {
	setting Setting
	scaler  Scaler
	hear    Hear
	line    *capacity.Loss
	begun   bool            // whether there was a period, by which the next can be set
	last    capacity.Period // the one that ended
	result  Result
	led     map[string]int
	turn    int // the direction of the last move
}

// NewPlayer returns a run that has not begun, or every fault of the setting.
func NewPlayer(k Kind, s Setting, hear Hear) (*Player, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	scaler, err := k.New(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.Name, err)
	}
	p := &Player{
		setting: s, scaler: scaler, hear: hear, led: map[string]int{},
		result: Result{Kind: k.Name, Knob: k.Knob, Value: k.Knob.Of(s)},
	}
	return p, p.clear()
}

// Warm trains the scaler on the counts of the minutes before the first that is fed. It has to come
// first, and may come once.
func (p *Player) Warm(counts []float64) error { return warm([]*Player{p}, counts) }

// warm trains players on a history and has them run its end, in step.
func warm(players []*Player, counts []float64) error {
	cut := len(counts) - min(runIn, len(counts)/10)
	learned := rates(counts[:cut])
	for _, p := range players {
		if w, ok := p.scaler.(Warmed); ok && cut > 0 {
			p.train(w, learned)
		}
	}
	for _, n := range counts[cut:] {
		for _, p := range players {
			now, err := p.minute(n)
			if err != nil {
				return err
			}
			p.last, p.begun = now, true
		}
	}
	for _, p := range players {
		if err := p.clear(); err != nil {
			return err
		}
	}
	return nil
}

// clear leaves no one waiting: who does as the test begins belongs to minutes that do not count.
func (p *Player) clear() (err error) {
	p.last.InSystem, p.last.Left = p.last.Served, 0
	p.line, err = capacity.NewLoss(p.setting.Profile, p.setting.Timeout)
	return err
}

func (p *Player) train(w Warmed, arrivals []float64) {
	clock := p.setting.Clock
	if clock == nil {
		w.Warm(arrivals)
		return
	}
	start := clock()
	w.Warm(arrivals)
	p.result.Training, p.result.TrainingKnown = clock()-start, true
}

// Feed plays the next minutes, which have so many requests each.
func (p *Player) Feed(counts ...float64) error {
	for _, n := range counts {
		now, err := p.minute(n)
		if err != nil {
			return fmt.Errorf("minute %d: %w", p.result.Minutes, err)
		}
		p.Measured(now)
	}
	return nil
}

// Next is what the scaler sets for a minute that is played elsewhere, as in a cluster. It is asked
// once for each, and Measured is called with what came of it. Only who foresees goes by the
// requests a second that will arrive.
func (p *Player) Next(arriving float64) (pods int) { return p.pods(arriving) }

// Measured counts a minute that was played elsewhere.
func (p *Player) Measured(now capacity.Period) {
	if p.begun {
		p.move(now.Pods - p.last.Pods)
	}
	p.last, p.begun = now, true
	p.count(now)
}

// minute sets the pods by what is known and plays a minute.
func (p *Player) minute(requests float64) (capacity.Period, error) {
	arrived := requests / secondsAMinute
	return p.line.Step(p.pods(arrived), arrived)
}

// pods is what the scaler sets for the next minute. Before the first there is nothing to set it by,
// but for one who knows what comes.
func (p *Player) pods(arrived float64) int {
	seer, sees := p.scaler.(Foresees)
	if sees {
		seer.Foresee(arrived)
	}
	if !p.begun && !sees {
		return p.setting.Min
	}
	return min(max(p.scaler.Next(p.last), p.setting.Min), p.setting.Max)
}

func (p *Player) move(by int) {
	if by == 0 {
		return
	}
	p.result.Moves++
	if by > 0 != (p.turn > 0) && p.turn != 0 {
		p.result.Turns++
	}
	p.turn = by
}

func (p *Player) count(now capacity.Period) {
	r := &p.result
	r.Arrived += now.Arrived * secondsAMinute
	r.Served += now.Served * secondsAMinute
	r.Lost += now.Expired * secondsAMinute
	r.PodMinutes += now.Pods
	leader, why := "", ""
	if e, ok := p.scaler.(Explains); ok {
		leader, why = e.Active()
		p.led[leader]++
	}
	if p.hear != nil {
		p.hear(r.Minutes, now, leader, why)
	}
	r.Minutes++
}

// Result is what came of the minutes that were fed so far.
func (p *Player) Result() Result {
	r := p.result
	r.Waiting = (p.last.InSystem - p.last.Served) * secondsAMinute
	for _, name := range slices.Sorted(maps.Keys(p.led)) {
		r.Leaders = append(r.Leaders, Lead{Name: name, Part: float64(p.led[name]) / float64(r.Minutes)})
	}
	if s, ok := p.scaler.(Sized); ok {
		r.Size, r.SizeKnown = s.Size()
	}
	return r
}
