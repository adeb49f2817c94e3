package forecast

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// podLearner makes a forecaster of a learner that sets pods. Its state is the load, in levels, and
// how many pods there are; it adds one, takes one away or leaves them; and what the pods it wants
// for the next period could serve is the load that it expects.
//
// How much a pod serves is not known here, and need not be: it is so much that a number of them
// take the highest load of the training. The reward is a loss: by how many pods they missed
// the load that came. One too few may count for more than one too many. Where both count alike, the
// best that can be done is to expect the median.
type podLearner struct {
	c     QLearning
	table tabular
	early []float64 // values to train on, while there are too few
	pod   float64   // what one serves; 0 before the training
	state int       // of the last value
	pods  int       // in the last period
	next  int       // what is done for the next one
	age   int       // periods since the last value
}

// What can be done. Where nothing is known, it is the first.
const (
	stay = iota
	more
	fewer
	podActions
)

// rethrow is after how many periods of the training the pods are thrown anew. A learner that is
// left to itself keeps them close to the load, and never finds out what to do where they are not.
const rethrow = 30

// believed is the part of the training's values that are taken for load. The others are spikes: by
// one of thirty times the load all of a day would be at a single level.
const believed = 0.999

func (c *QLearning) complete() {
	c.Levels = cmp.Or(c.Levels, 24)
	c.Pods = cmp.Or(c.Pods, 32)
	c.Episodes = cmp.Or(c.Episodes, 60)
	c.Rate = cmp.Or(c.Rate, 0.02)
	c.Discount = cmp.Or(c.Discount, 0.5)
	c.Explore = cmp.Or(c.Explore, 0.3)
	c.Shortage = cmp.Or(c.Shortage, 1)
	c.Warmup = cmp.Or(c.Warmup, dayOfMinutes)
	c.Seed = cmp.Or(c.Seed, 1)
}

// newPodLearner makes one of settings that are in the block that is named.
func newPodLearner(block string, c QLearning, onPolicy bool) (Model, error) {
	c.complete()
	var f faults
	f.unless(c.Levels >= 2 && c.Levels <= 1024, block+".levels", "must be from 2 to 1024", c.Levels)
	f.unless(c.Pods >= 2 && c.Pods <= 1024, block+".pods", "must be from 2 to 1024", c.Pods)
	f.unless(c.Episodes >= 1 && c.Episodes <= 10000, block+".episodes", "must be from 1 to 10000", c.Episodes)
	f.unless(c.Rate > 0 && c.Rate <= 1, block+".rate", "must be above 0 and at most 1", c.Rate)
	f.unless(c.Discount > 0 && c.Discount < 1, block+".discount", "must be above 0 and below 1", c.Discount)
	f.unless(c.Explore > 0 && c.Explore <= 1, block+".explore", "must be above 0 and at most 1", c.Explore)
	f.unless(c.Shortage > 0 && c.Shortage <= 1000, block+".shortage", "must be above 0 and at most 1000", c.Shortage)
	f.unless(c.Warmup >= 2 && c.Warmup <= maxPeriods, block+".warmup", "must be from 2 to 1048576 periods", c.Warmup)
	if f.err() != nil {
		return nil, f.err()
	}
	return &podLearner{c: c, table: tabular{onPolicy: onPolicy}, age: stale}, nil
}

// Train starts anew, and learns from a history that is at least as long as the warm-up. A shorter
// one is its beginning.
func (m *podLearner) Train(history []float64) {
	*m = podLearner{c: m.c, table: tabular{onPolicy: m.table.onPolicy}, age: stale}
	if len(history) >= m.c.Warmup && m.learn(history) {
		return
	}
	for _, v := range history {
		m.Observe(v)
	}
}

// learn plays a history for some episodes, and is at its end afterwards. Where there is no load
// there is nothing to learn.
func (m *podLearner) learn(history []float64) bool {
	top := topOf(history)
	if top < 1/Most {
		return false
	}
	m.pod = top / float64(m.c.Pods)
	m.table = newTabular(m.c.Levels*(m.c.Pods+1), podActions, m.c.Rate, m.c.Discount, m.table.onPolicy)
	r := rand.New(rand.NewPCG(m.c.Seed, 1))
	parts := timeParts(history)
	for e := range m.c.Episodes {
		explore := m.c.Explore * float64(m.c.Episodes-e) / float64(m.c.Episodes)
		for _, part := range parts {
			m.table.play(&replay{m: m, values: part}, len(part)-1, explore, r)
		}
	}
	for _, v := range history[max(len(history)-rethrow, 0):] {
		m.Observe(v)
	}
	return true
}

// topOf returns the highest value that is load and no spike, or 0.
func topOf(history []float64) float64 {
	var values []float64
	for _, v := range history {
		if !gap(v) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	last := len(values) - 1
	if top := values[int(math.Ceil(believed*float64(last)))]; top > 0 {
		return top
	}
	return values[last]
}

// timeParts cuts a history at its gaps, and into parts that begin where the one before ended.
func timeParts(history []float64) (parts [][]float64) {
	for i := 0; i < len(history)-1; {
		n := 0
		for i+n < len(history) && n <= rethrow && !gap(history[i+n]) {
			n++
		}
		if n > 1 {
			parts = append(parts, history[i:i+n])
		}
		i += max(n-1, 1)
	}
	return parts
}

// replay is the world of the training: a part of the history, with any number of pods at first.
// Its load comes regardless of the pods.
type replay struct {
	m      *podLearner
	values []float64
	pods   int
}

func (w *replay) begin(r *rand.Rand) int {
	w.pods = r.IntN(w.m.c.Pods + 1)
	return w.m.stateOf(w.values[0], w.pods)
}

func (w *replay) step(action int) (reward float64, state int, end bool) {
	w.pods, w.values = w.m.moved(w.pods, action), w.values[1:]
	return w.m.reward(w.pods, w.values[0]), w.m.stateOf(w.values[0], w.pods), false
}

// need is how many pods a load takes, and no more than there can be.
func (m *podLearner) need(v float64) float64 { return min(v/m.pod, float64(m.c.Pods)) }

func (m *podLearner) stateOf(v float64, pods int) int {
	level := int(m.need(v) / float64(m.c.Pods) * float64(m.c.Levels))
	return min(level, m.c.Levels-1)*(m.c.Pods+1) + pods
}

// moved is how many pods there are after an action.
func (m *podLearner) moved(pods, action int) int {
	switch action {
	case more:
		pods++
	case fewer:
		pods--
	}
	return min(max(pods, 0), m.c.Pods)
}

func (m *podLearner) reward(pods int, v float64) float64 {
	missing := m.need(v) - float64(pods)
	if missing > 0 {
		return -missing * m.c.Shortage
	}
	return missing
}

// Observe lets the pods be as they were wanted, and learns what that was worth. On line it tries
// nothing for the sake of trying.
func (m *podLearner) Observe(v float64) {
	switch {
	case m.pod == 0:
		m.warmUp(v)
	case gap(v):
		// The pods that were wanted are there, and no one knows what for.
		m.pods, m.next = m.moved(m.pods, m.next), stay
		m.age = min(m.age+1, stale)
	default:
		m.follow(v)
	}
}

func (m *podLearner) warmUp(v float64) {
	m.early = append(m.early, v)
	if len(m.early) == m.c.Warmup {
		m.learn(m.early)
		m.early = nil
	}
}

func (m *podLearner) follow(v float64) {
	m.pods = m.moved(m.pods, m.next)
	if m.age >= stale {
		// There were none, or they have served no one knows what.
		m.pods = int(math.Round(m.need(v)))
	}
	state := m.stateOf(v, m.pods)
	if m.age == 0 {
		m.table.learn(m.state, m.next, m.reward(m.pods, v), state, m.table.best(state), false)
	}
	m.state, m.next, m.age = state, m.table.best(state), 0
}

// Predict is the same for every horizon: nothing was learnt but what to do for the next period.
func (m *podLearner) Predict(int) (float64, bool) {
	if m.pod == 0 || m.age >= stale {
		return 0, false
	}
	return count(float64(m.moved(m.pods, m.next)) * m.pod)
}

func (m *podLearner) Size() int { return m.table.size() + (cap(m.early)+20)*wordBytes }
