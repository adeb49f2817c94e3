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
	// ups and downs are our own changes of replicas that were carried out; pending is the last one
	// decided on, until the replicas are seen to be what it made them. A change that is only
	// recommended, or could not be written, does not count.
	ups, downs       []move
	lastMove         time.Time
	lastUp, lastDown time.Time
	pending          move
	// unknownSince is since when the policy has not been able to say anything; zero if it can, or
	// was not asked.
	unknownSince time.Time
	// traffic is what came in lately, and suspicion what it made us think of the callers. sound is
	// what came in when requests last failed no more than ever, with the fewest that did.
	traffic   []traffic
	sound     traffic
	suspicion suspicion
	// quietSince is since when nothing has called for a workload that may be idle; zero if
	// something does, or may.
	quietSince time.Time
	// scaledToZero says that replicas are 0 because we made them so, switchedOff that they are
	// because another client did while we watched. Of replicas of 0 that were found so neither is
	// known.
	scaledToZero, switchedOff bool
	// lastReplicas is how many there were at the last run.
	lastReplicas int
	// mayZero is when a write of 0 may last have been ours: one of an earlier process, or one that
	// another decision followed before it was seen.
	mayZero time.Time
}

// zeroSeen is how long after it was decided on a write of 0 replicas is seen at the latest.
const zeroSeen = 2 * time.Minute

type wanted struct {
	at       time.Time
	replicas int
}

type move struct {
	at       time.Time
	from, to int
}

// keep adds a move to those of its direction, in the place of the last that is older than all
// periods of that direction's limits. As in the controller, older ones stay where no newer one
// takes their place, and count in the other direction while its periods reach back to them.
func (v move) keep(all []move, r *Rules) []move {
	longest := time.Duration(0)
	for _, p := range r.Policies {
		longest = max(longest, p.Period)
	}
	for i, old := range slices.Backward(all) {
		if v.at.Sub(old.at) > longest {
			all[i] = v
			return all
		}
	}
	return append(all, v)
}

// observe takes in what became of the last decision. The first run also takes the replicas
// that it finds for what was wanted then.
func (m *memory) observe(v *View, b *Behavior) {
	if m.started.IsZero() {
		m.started = v.Now
		m.scaledToZero, m.switchedOff, m.mayZero = v.ScaledToZero, v.SwitchedOff, v.Now
		m.wanted = append(m.wanted, wanted{v.Now, v.Replicas})
	}
	if v.Replicas > 0 {
		m.scaledToZero, m.switchedOff = false, false
	}
	if p := m.pending; !p.at.IsZero() && p.to == v.Replicas {
		if b == nil {
			b = &Behavior{}
		}
		m.lastMove = p.at
		if p.to > p.from {
			m.ups, m.lastUp = p.keep(m.ups, &b.Up), p.at
		} else {
			m.downs, m.lastDown = p.keep(m.downs, &b.Down), p.at
		}
		m.scaledToZero = p.to == 0
		m.pending = move{}
	}
	if m.lastReplicas > 0 && v.Replicas == 0 && !v.Held && !m.scaledToZero && v.Now.Sub(m.mayZero) > zeroSeen {
		m.switchedOff = true
	}
	m.lastReplicas, m.lastRun = v.Replicas, v.Now
}

// zeroed reports whether replicas that are 0 were made so by us, by what is known until it is seen.
func (m *memory) zeroed() bool { return m.scaledToZero || !m.pending.at.IsZero() && m.pending.to == 0 }

// past is the part of the memory that a policy sees.
func (m *memory) past() Past { return Past{Since: m.started, Up: m.lastUp, Down: m.lastDown} }

// heard keeps account of whether the policy can say anything.
func (m *memory) heard(at time.Time, known bool) { m.unknownSince = since(m.unknownSince, at, !known) }

// called keeps account of whether something calls for a workload.
func (m *memory) called(at time.Time, maybe bool) { m.quietSince = since(m.quietSince, at, !maybe) }

// since is since when something has been so; zero while it is not.
func since(was, now time.Time, is bool) time.Time {
	switch {
	case !is:
		return time.Time{}
	case was.IsZero():
		return now
	}
	return was
}

// want keeps a recommendation.
func (m *memory) want(at time.Time, replicas int) { m.wanted = append(m.wanted, wanted{at, replicas}) }

// decided keeps a decision, if it is one to change something.
func (m *memory) decided(at time.Time, from, to int) {
	if from != to {
		m.pending = move{at, from, to}
	}
	if from > 0 && to == 0 {
		m.mayZero = at
	}
}

// moved is by how much our own moves of the last period changed the replicas.
func (m *memory) moved(now time.Time, period time.Duration) int {
	sum := 0
	for _, moves := range [][]move{m.ups, m.downs} {
		for _, v := range moves {
			if now.Sub(v.at) < period {
				sum += v.to - v.from
			}
		}
	}
	return sum
}

// forget drops what lies further back than the behavior looks.
func (m *memory) forget(now time.Time, b *Behavior) {
	wantedFor := b.lookback()
	m.wanted = slices.DeleteFunc(m.wanted, func(w wanted) bool { return now.Sub(w.at) > wantedFor })
}
