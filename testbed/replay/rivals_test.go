package replay

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestElascaleMovesAPodByTheBounds(t *testing.T) {
	s := Default() // an excess of 0.9 and a tolerance of 0.1: the band is from 0.72 to 0.9
	e := must.Get(newElascale(s))(t)
	for _, c := range []struct {
		use  float64
		pods int
	}{{1, 6}, {0.95, 6}, {0.9, 6}, {0.899, 5}, {0.8, 5}, {0.72, 5}, {0.719, 4}, {0.3, 4}, {0, 4}} {
		if got := e.Next(capacity.Period{Pods: 5, Use: c.use}); got != c.pods {
			t.Errorf("5 pods at a use of %v become %d, should be %d", c.use, got, c.pods)
		}
	}
}

// podsOf plays a trace and returns the pods by minute.
func podsOf(t testing.TB, name string, tr *Trace, train int, s Setting) (pods []int, r Result) {
	t.Helper()
	r = must.Get(Play(tr, train, kind(t, name), s, func(_ int, p capacity.Period, _, _ string) { pods = append(pods, p.Pods) }))(t)
	return pods, r
}

func TestElascaleComesAPodAMinute(t *testing.T) {
	s := tenAPod(t)
	s.Excess, s.Tolerance, s.Min, s.Max = 0.9, 0.1, 2, 5
	got, _ := podsOf(t, "elascale", aSecond(10, 40, 40, 40, 40, 70, 70, 5, 5, 5, 5), 0, s)
	if diff := cmp.Diff([]int{2, 2, 3, 4, 5, 5, 5, 5, 4, 3, 2}, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

func TestRivalsStayWithinBoundsAndAreDeterministic(t *testing.T) {
	for name, step := range map[string]int{"elascale": 1, "fuzzy-rl": 2} {
		rapid.Check(t, func(rt *rapid.T) {
			s := tenAPod(t)
			s.Excess = rapid.Float64Range(0.3, 1).Draw(rt, "excess")
			s.Tolerance = rapid.Float64Range(0, 0.5).Draw(rt, "tolerance")
			s.Min = rapid.IntRange(1, 3).Draw(rt, "min")
			s.Max = s.Min + rapid.IntRange(0, 8).Draw(rt, "more")
			s.Timeout = rapid.IntRange(1, 3).Draw(rt, "timeout")
			s.Seed = rapid.Uint64().Draw(rt, "seed")
			loads := rapid.SliceOfN(rapid.OneOf(rapid.Just(0.), rapid.Float64Range(0, 150)), 2, 60).Draw(rt, "loads")
			train := rapid.IntRange(0, len(loads)-1).Draw(rt, "train")
			pods, first := podsOf(t, name, aSecond(loads...), train, s)
			for i, n := range pods {
				if n < s.Min || n > s.Max {
					rt.Fatalf("%s: %d pods in minute %d, should be %d to %d", name, n, i, s.Min, s.Max)
				}
				if i > 0 && max(n-pods[i-1], pods[i-1]-n) > step {
					rt.Fatalf("%s: %d pods after %d, should be %d more or fewer at most", name, n, pods[i-1], step)
				}
			}
			again, second := podsOf(t, name, aSecond(loads...), train, s)
			if diff := cmp.Diff(pods, again) + cmp.Diff(first, second); diff != "" {
				rt.Fatalf("%s: the same run again (-first +second):\n%s", name, diff)
			}
		})
	}
}

func TestWordsAreTrueInPartAndNeverMoreThanOneInAll(t *testing.T) {
	for x, want := range map[float64][3]float64{
		0: {1, 0, 0}, 0.2: {1, 0, 0}, 0.35: {0.5, 0.5, 0}, 0.5: {0, 1, 0}, 0.65: {0, 0.5, 0.5}, 0.8: {0, 0, 1}, 7: {0, 0, 1},
	} {
		got := words(x, workloadWords)
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-9 {
				t.Errorf("a workload of %v is low, medium and high by %v, should be %v", x, got, want)
				break
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		truth := words(rapid.Float64Range(0, 2).Draw(t, "x"), responseWords)
		if sum := truth[0] + truth[1] + truth[2]; math.Abs(sum-1) > 1e-9 || slices.Min(truth[:]) < 0 {
			t.Fatalf("the words are true by %v, which is %v in all", truth, sum)
		}
	})
}

// Where a single rule holds at a time, fuzzy Q-learning is Q-learning, here by the book.
func TestFuzzyLearningOfPlainWordsIsQLearning(t *testing.T) {
	s := must.Get(newFuzzy(tenAPod(t)))(t)
	f, r := s.(*fuzzy), rand.New(rand.NewPCG(7, 8))
	var q, tries [fuzzyRules][fuzzyActions]float64
	rule := 0
	for range 5000 {
		action, next, reward := r.IntN(fuzzyActions), r.IntN(fuzzyRules), r.NormFloat64()
		f.last = decision{made: true}
		f.last.holds[rule], f.last.choices[rule] = 1, action
		var now [fuzzyRules]float64
		now[next] = 1
		f.learn(reward, now)

		best := math.Inf(-1)
		for _, v := range q[next] {
			best = max(best, v)
		}
		tries[rule][action]++
		q[rule][action] += max(0.01, 1/(1+tries[rule][action])) * (reward + 0.5*best - q[rule][action])
		rule = next
	}
	for i := range q {
		for a := range q[i] {
			if math.Abs(q[i][a]-f.values[i][a]) > 1e-9 {
				t.Fatalf("rule %d, action %d: %v, by the book it is %v", i, a, f.values[i][a], q[i][a])
			}
		}
	}
}

// waves is a load that goes up and down within hours, as counts do with their noise.
func waves(days int, seed uint64) *Trace {
	r, t := rand.New(rand.NewPCG(seed, 3)), &Trace{Name: "waves"}
	for i := range days * MinutesADay {
		mean := 60 - 30*math.Cos(2*math.Pi*float64(i)/360)
		t.Counts = append(t.Counts, 60*max(mean+math.Sqrt(mean)*r.NormFloat64(), 0))
	}
	return t
}

func TestFuzzyRulesThatWereLearntServeALoad(t *testing.T) {
	s := tenAPod(t)
	s.Excess = 0.9
	tr := waves(4, 1)
	for s.Seed = range 3 {
		_, oracle := podsOf(t, "oracle", tr, 3*MinutesADay, s)
		_, learnt := podsOf(t, "fuzzy-rl", tr, 3*MinutesADay, s)
		_, ignorant := podsOf(t, "fuzzy-rl", &Trace{Counts: tr.Counts[3*MinutesADay:]}, 0, s)
		if learnt.LostPart() > 0.03 || float64(learnt.PodMinutes) > 1.15*float64(oracle.PodMinutes) {
			t.Errorf("seed %d: learnt, they lose %.1f %% with %d pod-minutes; should be 3 %% at most, with a few more than the oracle's %d",
				s.Seed, 100*learnt.LostPart(), learnt.PodMinutes, oracle.PodMinutes)
		}
		if ignorant.LostPart() < 2*learnt.LostPart() {
			t.Errorf("seed %d: on its first day ever it loses %.1f %%, and learnt %.1f %%", s.Seed, 100*ignorant.LostPart(), 100*learnt.LostPart())
		}
	}
}

// The rivals on the recorded days, three to learn and one to be judged by, at loads for which the
// oracle takes five pods and twenty. What they lose is compared with what sizing on the last minute
// loses at the excess that takes as many pod-minutes. Print it with -v.
func TestRivalsOnRecordedDays(t *testing.T) {
	part, pods := map[string][]float64{}, map[string][]float64{}
	for _, oracle := range []float64{5, 20} {
		for _, tr := range judgedBy(t, oracle) {
			for key, b := range besideTheLastMinute(t, tr, oracle) {
				part[key], pods[key] = append(part[key], b.lost), append(pods[key], b.pods)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(part)) {
		t.Logf("%s: lost %.2f of what sizing on the last minute would, with %.2f of the oracle's pods, medians of %d",
			key, median(part[key]), median(pods[key]), len(part[key]))
	}
}

// beside is what a scaler lost, of what sizing on the last minute would with as many pods, and how
// many those were, of the oracle's.
type beside struct{ lost, pods float64 }

func besideTheLastMinute(t *testing.T, tr *Trace, pods float64) map[string]beside {
	const train = 3 * MinutesADay
	s, all := Default(), map[string]beside{}
	s.Tolerance = 0.05
	x := must.Get(Scale(tr, train, pods, s))(t)
	var excesses []float64
	for v := 0.3; v < 1.2; v += 0.05 {
		excesses = append(excesses, v)
	}
	naive := must.Get(Sweep(x, train, kind(t, "naive"), s, excesses))(t)
	for _, name := range []string{"hpa", "elascale", "fuzzy-rl"} {
		_, r := podsOf(t, name, x, train, s)
		same, known := LostAt(naive, float64(r.PodMinutes))
		if !known {
			t.Fatalf("%s: %s takes %d pod-minutes, which sizing on the last minute never does", tr.Name, name, r.PodMinutes)
		}
		key := fmt.Sprintf("%2.0f pods, %s", pods, name)
		t.Logf("%-13s %-17s lost %6.3f %% with %5d pod-minutes; by the last minute it were %6.3f %%",
			tr.Name, key, 100*r.LostPart(), r.PodMinutes, 100*same/r.Arrived)
		if same > 0.0005*r.Arrived {
			all[key] = beside{lost: r.Lost / same, pods: r.MeanPods() / pods}
		}
		// On the launch day the load leaves what was learnt.
		learnt := r.LostPart() < 0.1 && r.MeanPods() < 1.7*pods
		if name == "fuzzy-rl" && tr.Name != launch && !learnt {
			t.Errorf("%s: %s lost %.1f %% with %.1f pods: it has learnt nothing", tr.Name, key, 100*r.LostPart(), r.MeanPods())
		}
	}
	return all
}

// launch is the window whose last day is that of a shuttle's launch.
const launch = "nasa_jul95/09"
