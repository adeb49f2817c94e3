package forecast

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// maze is a world whose every state and action has one outcome.
type maze struct {
	actions int
	rewards []float64 // by state and action, as are the next states
	next    []int
	state   int
}

func (m *maze) begin(r *rand.Rand) int {
	m.state = r.IntN(len(m.next) / m.actions)
	return m.state
}

func (m *maze) step(action int) (float64, int, bool) {
	i := m.state*m.actions + action
	m.state = m.next[i]
	return m.rewards[i], m.state, false
}

// The optimum by value iteration: what every pair is worth, worked out from the model of the world
// that the learner does not have.
func iterate(states, actions int, discount float64, outcome func(state, action int) (reward float64, next map[int]float64)) []float64 {
	values := make([]float64, states*actions)
	for range 400 {
		for s := range states {
			for a := range actions {
				reward, next := outcome(s, a)
				for n := range states {
					best := math.Inf(-1)
					for b := range actions {
						best = max(best, values[n*actions+b])
					}
					reward += discount * next[n] * best
				}
				values[s*actions+a] = reward
			}
		}
	}
	return values
}

func TestQLearningFindsTheOptimumOfAnyMaze(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		states, actions := rapid.IntRange(2, 5).Draw(t, "states"), rapid.IntRange(2, 3).Draw(t, "actions")
		discount := rapid.Float64Range(0.1, 0.7).Draw(t, "discount")
		m := &maze{
			actions: actions,
			rewards: rapid.SliceOfN(rapid.Float64Range(-1, 1), states*actions, states*actions).Draw(t, "rewards"),
			next:    rapid.SliceOfN(rapid.IntRange(0, states-1), states*actions, states*actions).Draw(t, "next"),
		}
		want := iterate(states, actions, discount, func(s, a int) (float64, map[int]float64) {
			return m.rewards[s*actions+a], map[int]float64{m.next[s*actions+a]: 1}
		})
		learner := newTabular(states, actions, 0.5, discount, false)
		r := rand.New(rand.NewPCG(1, 2))
		// Many short episodes: a state that no other leads to is only tried where one begins.
		for range 3000 {
			learner.play(m, 4, 1, r)
		}
		for i, v := range learner.values {
			if math.Abs(v-want[i]) > 1e-4 {
				t.Fatalf("action %d in state %d is worth %v, learnt was %v", i%actions, i/actions, want[i], v)
			}
		}
	})
}

// A load that goes up and down between three levels by chance: what is learnt from its history
// must be what is best by its odds, foresight and all, wherever the pods are.
func TestLearntPodsAreThoseOfTheOptimum(t *testing.T) {
	odds := [3][3]float64{{0.8, 0.2, 0}, {0.3, 0.3, 0.4}, {0, 0.5, 0.5}}
	loads := [3]float64{2, 5, 8}
	r := rand.New(rand.NewPCG(3, 4))
	history, at := []float64{8}, 2
	for range 20000 {
		at = pick(odds[at], r.Float64())
		history = append(history, loads[at])
	}
	for name, onPolicy := range map[string]bool{"Q-learning": false, "SARSA": true} {
		learnt := must.Get(newPodLearner("test", QLearning{Levels: 3, Pods: 8, Episodes: 20, Rate: 0.002, Discount: 0.8, Shortage: 3}, onPolicy))(t)
		m := learnt.(*podLearner)
		m.Train(history)
		want := iterate(3*9, podActions, 0.8, func(s, a int) (reward float64, next map[int]float64) {
			next = map[int]float64{}
			pods := m.moved(s%9, a)
			for to, p := range odds[s/9] {
				reward += p * m.reward(pods, loads[to])
				next[to*9+pods] = p
			}
			return reward, next
		})
		for s := range 27 {
			did := m.table.best(s)
			for a := range podActions {
				if lost := want[s*podActions+a] - want[s*podActions+did]; lost > 0.25 {
					t.Errorf("%s: with %d pods at a load of %v it does %d, which is worth %.2f less than %d", name, s%9, loads[s/9], did, lost, a)
				}
			}
		}
	}
}

// pick returns the place that x falls to.
func pick(odds [3]float64, x float64) int {
	for i, p := range odds {
		if x -= p; x < 0 {
			return i
		}
	}
	return len(odds) - 1
}

// cliff is the walk along a cliff: from the lower left corner of a grid to the lower right one,
// each step for -1. Between the two is the cliff. Who falls has lost 100 and starts again.
type cliff struct{ row, column int }

const (
	rows    = 4
	columns = 12
)

func (c *cliff) begin(*rand.Rand) int {
	*c = cliff{row: rows - 1}
	return c.state()
}

func (c *cliff) state() int { return c.row*columns + c.column }

func (c *cliff) step(action int) (reward float64, state int, end bool) {
	move := [4]cliff{{row: -1}, {row: 1}, {column: -1}, {column: 1}}[action]
	c.row = min(max(c.row+move.row, 0), rows-1)
	c.column = min(max(c.column+move.column, 0), columns-1)
	if c.row < rows-1 || c.column == 0 {
		return -1, c.state(), false
	}
	if c.column == columns-1 {
		return -1, c.state(), true
	}
	return -100, c.begin(nil), false
}

// walk takes what is best at every step, and returns the lowest row it came to above the cliff.
func (t *tabular) walk(c *cliff) (steps, nearest int) {
	state, end := c.begin(nil), false
	for steps = 0; !end && steps < 100; steps++ {
		_, state, end = c.step(t.best(state))
		if !end && c.column > 0 && c.column < columns-1 {
			nearest = max(nearest, c.row)
		}
	}
	return steps, nearest
}

// Q-learning must find the shortest way, along the edge, though its trials throw it down. SARSA
// reckons with them, and must keep away from the edge; so it falls less on the way.
func TestQLearningWalksTheEdgeAndSARSAKeepsAway(t *testing.T) {
	learn := func(onPolicy bool) (t tabular, fallen int) {
		t = newTabular(rows*columns, 4, 0.1, 1, onPolicy)
		r := rand.New(rand.NewPCG(5, 6))
		for range 3000 {
			w := &falls{cliff: &cliff{}}
			t.play(w, 1000, 0.1, r)
			fallen += w.n
		}
		return t, fallen
	}
	q, qFallen := learn(false)
	if steps, nearest := q.walk(&cliff{}); steps != columns+1 || nearest != rows-2 {
		t.Errorf("Q-learning takes %d steps, by row %d at most; should be %d steps along the edge, row %d", steps, nearest, columns+1, rows-2)
	}
	s, sFallen := learn(true)
	if steps, nearest := s.walk(&cliff{}); steps <= columns+1 || steps > columns+6 || nearest >= rows-2 {
		t.Errorf("SARSA takes %d steps, by row %d at most; should go round, above row %d", steps, nearest, rows-2)
	}
	if 2*sFallen > qFallen {
		t.Errorf("SARSA fell %d times and Q-learning %d, should be less than half as often", sFallen, qFallen)
	}
}

// falls counts those of a cliff.
type falls struct {
	*cliff
	n int
}

func (f *falls) step(action int) (float64, int, bool) {
	reward, state, end := f.cliff.step(action)
	if reward == -100 {
		f.n++
	}
	return reward, state, end
}
