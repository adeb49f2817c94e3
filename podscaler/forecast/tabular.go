package forecast

import "math/rand/v2"

// world is where a learner acts: it is in one of so many states, and what is done there has a
// reward and leads to a state.
type world interface {
	// begin puts the world where an episode starts, and returns the state.
	begin(r *rand.Rand) (state int)
	// step does something and returns what it was worth and where it led. After the end there is
	// no further step.
	step(action int) (reward float64, state int, end bool)
}

// tabular learns what each action is worth in each state, one number a pair, by trying: what it
// brought at once, and what is known of where it led. It is what QLearning and SARSA share.
type tabular struct {
	actions int
	values  []float64 // by state and action; 0 where nothing was tried
	tries   []uint32  // of a pair, while they weigh more than the rate
	rate    float64   // the least weight of what a try has shown
	// discount is what a reward is worth a step later.
	discount float64
	// onPolicy goes by what will really be done next, trials and all, as SARSA does. Otherwise it
	// is by the best that could be done, as in Q-learning.
	onPolicy bool
}

func newTabular(states, actions int, rate, discount float64, onPolicy bool) tabular {
	return tabular{
		actions: actions, values: make([]float64, states*actions), tries: make([]uint32, states*actions),
		rate: rate, discount: discount, onPolicy: onPolicy,
	}
}

// at returns the value of an action in a state.
func (t *tabular) at(state, action int) float64 { return t.values[state*t.actions+action] }

// best is the action of the highest value, the first of several.
func (t *tabular) best(state int) (action int) {
	row := t.values[state*t.actions:][:t.actions]
	for a, v := range row {
		if v > row[action] {
			action = a
		}
	}
	return action
}

// choose takes the best action, or any in so much of all cases.
func (t *tabular) choose(state int, explore float64, r *rand.Rand) int {
	if r.Float64() < explore {
		return r.IntN(t.actions)
	}
	return t.best(state)
}

// learn takes what an action brought, and the state it led to with what will be done there; at the
// end nothing comes after. The first tries of a pair weigh more, so that what it was worth at
// the outset is soon forgotten; what the later ones weigh does not fall to nothing, so that
// what changes is learnt too.
func (t *tabular) learn(state, action int, reward float64, next, then int, end bool) {
	i := state*t.actions + action
	weight := t.rate
	if first := 1 / float64(t.tries[i]+1); first > weight {
		weight = first
		t.tries[i]++
	}
	ahead := 0.0
	switch {
	case end:
	case t.onPolicy:
		ahead = t.at(next, then)
	default:
		ahead = t.at(next, t.best(next))
	}
	t.values[i] += weight * (reward + t.discount*ahead - t.values[i])
}

// play goes through an episode of so many steps at most, and learns from each.
func (t *tabular) play(w world, steps int, explore float64, r *rand.Rand) {
	state := w.begin(r)
	action := t.choose(state, explore, r)
	for range steps {
		reward, next, end := w.step(action)
		then := t.choose(next, explore, r)
		t.learn(state, action, reward, next, then, end)
		if end {
			return
		}
		state, action = next, then
	}
}

func (t *tabular) size() int { return (len(t.values)+8)*wordBytes + len(t.tries)*4 }
