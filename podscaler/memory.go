package podscaler

import (
	"slices"
	"time"
)

// memory is what a scaler knows of its past. Losing it makes the scaler slower to shrink,
// never faster: what is older than started is taken to forbid it.
type memory struct {
	started time.Time // the first run
	lastRun time.Time
	// wanted are the policy's recommendations as they came, before anything limited them.
	wanted []wanted
	// moves are our own changes of replicas that were carried out; pending is the last one
	// decided on, until the replicas are seen to be what it made them. A change that is only
	// recommended, or could not be written, is none.
	moves            []move
	lastMove         time.Time
	lastUp, lastDown time.Time
	pending          move
	// unknownSince is since when the policy has not been able to say anything; zero if it can.
	unknownSince time.Time
	// traffic is what came in lately, and suspicion what it made us think of the callers.
	traffic   []traffic
	suspicion suspicion
	// scaledToZero says that replicas are 0 because we made them so.
	scaledToZero bool
}

type wanted struct {
	at       time.Time
	replicas int
}

type move struct {
	at       time.Time
	from, to int
}

// observe takes in what became of the last decision. The first run also takes the replicas
// that it finds for what was wanted then.
func (m *memory) observe(v *View) {
	if m.started.IsZero() {
		m.started = v.Now
		m.scaledToZero = v.ScaledToZero
		m.wanted = append(m.wanted, wanted{v.Now, v.Replicas})
	}
	if v.Replicas > 0 {
		m.scaledToZero = false
	}
	if p := m.pending; !p.at.IsZero() && p.to == v.Replicas {
		m.moves = append(m.moves, p)
		m.lastMove = p.at
		if p.to > p.from {
			m.lastUp = p.at
		} else {
			m.lastDown = p.at
		}
		m.scaledToZero = p.to == 0
		m.pending = move{}
	}
	m.lastRun = v.Now
}

// past is what a policy is told of it.
func (m *memory) past() Past { return Past{Since: m.started, Up: m.lastUp, Down: m.lastDown} }

// heard keeps account of whether the policy can say anything.
func (m *memory) heard(at time.Time, known bool) {
	switch {
	case known:
		m.unknownSince = time.Time{}
	case m.unknownSince.IsZero():
		m.unknownSince = at
	}
}

// want keeps a recommendation.
func (m *memory) want(at time.Time, replicas int) { m.wanted = append(m.wanted, wanted{at, replicas}) }

// decided keeps a decision, if it is one to change something.
func (m *memory) decided(at time.Time, from, to int) {
	if from != to {
		m.pending = move{at, from, to}
	}
}

// moved is by how much our own moves of the last period changed the replicas.
func (m *memory) moved(now time.Time, period time.Duration) int {
	sum := 0
	for _, v := range m.moves {
		if now.Sub(v.at) < period {
			sum += v.to - v.from
		}
	}
	return sum
}

// forget drops what lies further back than the behavior looks.
func (m *memory) forget(now time.Time, b *Behavior) {
	wantedFor, movesFor := b.lookback()
	m.wanted = slices.DeleteFunc(m.wanted, func(w wanted) bool { return now.Sub(w.at) > wantedFor })
	m.moves = slices.DeleteFunc(m.moves, func(v move) bool { return now.Sub(v.at) >= movesFor })
}
