package life

import (
	"math"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
)

// script is a policy that does what is written, by minute.
type script map[int][]nodescaler.Action

func (s script) Decide(x *nodescaler.Index) nodescaler.Plan {
	return nodescaler.Plan{Actions: s[int(x.Now.Sub(sample.Noon).Minutes())], LookAgain: x.Now.Add(1)}
}

// Two machines are ordered at the start and one more at six in the evening, and each is paid for
// from its order on, but for the first hour of the week.
func TestAWeekIsPaidByTheMinute(t *testing.T) {
	w := NewWeek("")
	large, huge := w.Pools[0].Shapes[1], w.Pools[0].Shapes[2]
	why := []nodescaler.Reason{{Code: "Script", Text: "it is written"}}
	w.Days(t, script{
		0: {
			{Kind: nodescaler.Buy, Order: "1", Pool: "w", Shape: &large, Host: "pve1", Reasons: why},
			{Kind: nodescaler.Buy, Order: "2", Pool: "w", Shape: &large, Host: "pve2", Reasons: why},
		},
		360: {{Kind: nodescaler.Buy, Order: "3", Pool: "w", Shape: &huge, Host: "pve3", Reasons: why}},
	}, 1)
	minutes := func(from int) float64 { return float64(24*60 - max(from, 61)) }
	rate := func(i int) float64 { return float64(w.Prices.Rate(w.Pools[0].Shapes[i], "", sample.Noon)) }
	if want := (2*rate(1)*minutes(0) + rate(2)*minutes(360)) / 60; math.Abs(w.Paid-want) > 1e-6*want {
		t.Errorf("they cost %.0f, want %.0f", w.Paid, want)
	}
	if w.Moves != 0 || w.Waited == 0 {
		t.Errorf("%d pods moved and pods waited for %d minutes; none moves, and two machines do not hold all", w.Moves, w.Waited)
	}
}

// Below the bound there is no fleet: one pod takes the smallest machine, however little it asks
// for, and pods that fill a machine but for what it keeps and its daemon take one.
func TestTheBoundIsAFleetThatHoldsThePods(t *testing.T) {
	w := NewWeek("")
	rate := func(i int) float64 { return float64(w.Prices.Rate(w.Pools[0].Shapes[i], "", sample.Noon)) }
	w.Pod("a", "", 300, 200)
	if got := w.least(); got != rate(0) {
		t.Errorf("for one pod it is %.0f, want %.0f", got, rate(0))
	}
	w.Pod("b", "", 1500, 200).Pod("leaving", "", 1500, 200, sample.Leaving)
	if got := w.least(); got != rate(0) {
		t.Errorf("for two pods that fit together it is %.0f, want %.0f", got, rate(0))
	}
	w.Pod("c", "", 100, 200)
	if got := w.least(); got <= rate(0) {
		t.Errorf("for more than one machine holds it is %.0f, want more than %.0f", got, rate(0))
	}
}

// A pod moves if an action evicts or deletes it, or if its machine goes while it is there.
func TestMovesAreOfPodsThatRan(t *testing.T) {
	w := NewWeek("")
	w.Node("n", "pve1").Pod("daemon/n", "n", 100, 256, sample.Daemon).Several(3, "p", "n", 300, 200).Pod("q", "n", 300, 200, sample.Leaving)
	w.Node("other", "pve1").Several(2, "r", "other", 300, 200).Pod("waits", "", 300, 200)
	for _, c := range []struct {
		nodescaler.Action
		want int
	}{
		{nodescaler.Action{Kind: nodescaler.Evict, Node: "n", Pod: "p-00"}, 1},
		{nodescaler.Action{Kind: nodescaler.DeletePod, Node: "n", Pod: "p-00", Grace: nodescaler.Duration(time.Second)}, 1},
		{nodescaler.Action{Kind: nodescaler.Return, Node: "n", Machine: "n"}, 3},
		{nodescaler.Action{Kind: nodescaler.Return, Machine: "never joined"}, 0},
		{nodescaler.Action{Kind: nodescaler.Cordon, Node: "n"}, 0},
		{nodescaler.Action{Kind: nodescaler.Uncordon, Node: "n"}, 0},
		{nodescaler.Action{Kind: nodescaler.Buy, Order: "1"}, 0},
	} {
		if got := w.moves(&c.Action); got != c.want {
			t.Errorf("%s moves %d pods, want %d", c.Kind, got, c.want)
		}
	}
}
