package forecast

import (
	"math"
	"math/rand/v2"

	"github.com/plimsoll/plimsoll/podscaler/forecast/internal/lstm"
)

// training teaches a network a series. It goes on a batch at a time, so that it may be done at
// once, or a little each period.
//
// A window of the series is read from nothing, and what the network expects in its second half is
// compared with what came; in the first half it has not read enough to go by. The last fifth of
// the series is the proof: it is not learnt from, and the network that foretells it best is the
// outcome, be it the one that was there before.
type training struct {
	lesson
	c      *LSTM
	random *rand.Rand

	net, best lstm.Network
	least     float64 // the loss of the best on the proof
	worse     int     // rounds in a row that brought no better one
	round     int     // 0 does not train: it proves what there was

	windows  []int // where those start that are learnt from, in this round's order
	proof    []int // where those start that it is proven by
	next     int   // the next window, of both
	loss     float64
	judged   float64 // values in the loss
	gradient []float64
	adam     lstm.Adam
	room     *lstm.Passage
	window   []float64
	dLoss    []float64
}

// lesson is what a network is taught.
type lesson struct {
	series []float64 // NaN for what is not known
	level  level     // that it is seen from
	reader reader
	clock  int // the period of the day that it begins in
}

const (
	// patience is how many rounds may bring nothing.
	patience = 6
	// robust is from where on a miss pulls no harder, in units: one spike may not outweigh a
	// night. Huber's loss.
	robust = 3
	// steepestStep is the length that a gradient is cut to, for one batch may not undo the others.
	steepestStep = 1
)

func newTraining(c *LSTM, of lesson, from lstm.Network, random *rand.Rand) *training {
	inputs := of.reader.inputs()
	t := &training{
		lesson: of, c: c, random: random,
		net: from.Clone(), best: from.Clone(), least: math.Inf(1),
		gradient: make([]float64, len(from.Params)), adam: lstm.NewAdam(len(from.Params)),
		room: lstm.NewPassage(inputs, c.Units, c.Lookback), window: make([]float64, inputs*c.Lookback), dLoss: make([]float64, c.Lookback),
	}
	for i := t.cut() - c.Lookback/2; i+c.Lookback < len(of.series); i += t.stride() {
		t.proof = append(t.proof, i)
	}
	return t
}

// cut is where the proof begins.
func (t *training) cut() int { return len(t.series) * 4 / 5 }

// stride is from one window to the next: each value is in the second half of one.
func (t *training) stride() int { return t.c.Lookback - t.c.Lookback/2 }

func (t *training) done() bool { return t.round > t.c.Rounds || t.worse >= patience }

// step does a batch: of what is learnt from, then of the proof.
func (t *training) step() {
	if k := len(t.windows); t.next < k {
		to := min(t.next+t.c.Batch, k)
		t.learn(t.windows[t.next:to])
		t.next = to
		return
	}
	from := t.next - len(t.windows)
	to := min(from+t.c.Batch, len(t.proof))
	for _, at := range t.proof[from:to] {
		t.judge(at)
	}
	t.next += to - from
	if to == len(t.proof) {
		t.endRound()
	}
}

func (t *training) endRound() {
	if loss := t.loss / max(t.judged, 1); loss < t.least {
		t.least, t.worse = loss, 0
		copy(t.best.Params, t.net.Params)
	} else {
		t.worse++
	}
	t.loss, t.judged, t.next = 0, 0, 0
	t.round++
	t.windows = t.windows[:0]
	for i := t.random.IntN(t.stride()); i+t.c.Lookback < t.cut(); i += t.stride() {
		t.windows = append(t.windows, i)
	}
	t.random.Shuffle(len(t.windows), func(i, j int) { t.windows[i], t.windows[j] = t.windows[j], t.windows[i] })
}

// learn takes a step down the mean gradient of some windows.
func (t *training) learn(windows []int) {
	clear(t.gradient)
	before := t.judged
	for _, at := range windows {
		t.judge(at)
		t.net.Back(t.dLoss, t.room, t.gradient)
	}
	n, squares := max(t.judged-before, 1), 0.0
	for _, g := range t.gradient {
		squares += g / n * g / n
	}
	scale := 1 / n / max(1, math.Sqrt(squares)/steepestStep)
	for i := range t.gradient {
		t.gradient[i] *= scale
	}
	t.loss, t.judged = 0, 0 // the proof alone counts
	t.adam.Step(t.net.Params, t.gradient, t.rate())
}

// rate falls round by round, for at the end there is only noise left to step after.
func (t *training) rate() float64 {
	return t.c.Rate * (1 - 0.95*float64(t.round-1)/float64(t.c.Rounds))
}

// judge reads the window at a place and counts what the network expected in its second half.
func (t *training) judge(at int) {
	k, last := t.reader.inputs(), math.NaN()
	for i := range t.c.Lookback {
		last = t.reader.read(t.window[i*k:(i+1)*k], t.series[at+i], last, t.clock+at+i)
	}
	t.net.Through(t.window, t.room)
	clear(t.dLoss)
	for i := t.c.Lookback / 2; i < t.c.Lookback; i++ {
		came := t.series[at+i+1]
		if math.IsNaN(came) {
			continue
		}
		miss := t.net.Expects(&t.room.Moments[i+1]) - came
		t.dLoss[i] = min(max(miss, -robust), robust)
		t.loss += t.dLoss[i] * (miss - t.dLoss[i]/2)
		t.judged++
	}
}

func (t *training) size() int {
	words := 3*len(t.net.Params) + len(t.series) + cap(t.windows) + cap(t.proof) + len(t.window) + len(t.dLoss) + 40
	return words*wordBytes + t.adam.Size() + t.room.Size()
}
