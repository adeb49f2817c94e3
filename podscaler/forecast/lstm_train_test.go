package forecast

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/plimsoll/plimsoll/podscaler/forecast/internal/lstm"
)

// What a training steps down is the gradient of what it judges by, misses that are cut and gaps
// that are omitted included.
func TestATrainingStepsDownTheLossThatItJudgesBy(t *testing.T) {
	for _, by := range []reader{{}, {season: 24}} {
		checkTraining(t, by)
	}
}

func checkTraining(t *testing.T, by reader) {
	c := LSTM{Units: 3, Lookback: 8}
	c.complete()
	r := rand.New(rand.NewPCG(5, 6))
	series := make([]float64, 100)
	for i := range series {
		series[i] = 3 * r.NormFloat64()
	}
	series[5], series[6] = math.NaN(), 20
	n := lstm.NewNetwork(by.inputs(), c.Units, r)
	for i, head := 0, n.Head(n.Params); i < len(head); i++ {
		head[i] = r.NormFloat64()
	}
	tr := newTraining(&c, lesson{series: series, reader: by, clock: 20}, n, r)
	loss := func() float64 {
		tr.loss, tr.judged = 0, 0
		tr.judge(0)
		return tr.loss
	}
	loss()
	if tr.judged != 3 {
		t.Fatalf("%v values were judged, should be the half of 8 without the gap", tr.judged)
	}
	gradient := make([]float64, len(n.Params))
	tr.net.Back(tr.dLoss, tr.room, gradient)
	for i, param := range tr.net.Params {
		const step = 1e-5
		tr.net.Params[i] = param + step
		up := loss()
		tr.net.Params[i] = param - step
		slope := (up - loss()) / (2 * step)
		tr.net.Params[i] = param
		if math.Abs(slope-gradient[i]) > 1e-6*(1+math.Abs(slope)) {
			t.Errorf("%d inputs, parameter %d: the gradient is %v, small changes make %v", by.inputs(), i, gradient[i], slope)
		}
	}
}

// A network that proves worse on what it did not learn from is not taken.
func TestTheBestOnTheProofIsTheOutcome(t *testing.T) {
	c := LSTM{Units: 4, Lookback: 8, Rate: 0.1, Rounds: 30}
	c.complete()
	r := rand.New(rand.NewPCG(7, 8))
	series := make([]float64, 400)
	for i := range series {
		series[i] = r.NormFloat64() // noise: all that is learnt of it is wrong
	}
	tr := newTraining(&c, lesson{series: series}, lstm.NewNetwork(1, c.Units, r), r)
	proof := func(n lstm.Network) float64 {
		tr.net, tr.loss, tr.judged = n, 0, 0
		for _, at := range tr.proof {
			tr.judge(at)
		}
		return tr.loss / tr.judged
	}
	before := proof(tr.net)
	tr.loss, tr.judged = 0, 0
	for !tr.done() {
		tr.step()
	}
	if tr.round > 1+c.Rounds || tr.worse < patience {
		t.Errorf("it went on for %d rounds, the last %d of them for nothing", tr.round-1, tr.worse)
	}
	last, best := proof(tr.net), proof(tr.best)
	if best != tr.least || best > before || best >= last {
		t.Errorf("the outcome's loss is %v (kept as %v), it was %v before, and %v in the end", best, tr.least, before, last)
	}
}
