package replay

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
)

// Fuzzy Q-learning (FQL4KE, Jamshidi et al., 2015; Arabnejad et al., 2017, compare it with SARSA)
// has nine rules. They say whether the workload is low, medium or high, and the response, and how
// many pods to add or to take away, two at most. The idea is that an operator has the words and not
// the numbers. What each rule says is learnt: a rule holds as far as its words are true, what is
// done is what the rules say, each by how far it holds, and each takes its part of what came of it.
//
// What is good is a utility of three: what was served, the pods it took, and how far the response
// was off its objective, where twice the objective is as bad as can be. There is no response in
// this world, but there is what makes it long: the work there was for the pods' capacity. It is at
// its objective where it is the excess. Workload is measured by the highest of the days before, and
// the pods by those that serve it.
//
// Three things are not as they were published. The reward was by how much the utility grew, from
// which among the noise of counts little was learnt: it took twice the pods it should and, on one
// recorded day of ten, hundreds. Here it is the utility. All three counted alike; by that a
// pod costs what it serves at the highest load, and under a load that is far too much nothing is
// gained by another, so what is not served counts twice here. And what a try weighs falls as a
// choice is tried more often.
//
// It needs days to play with before, or time: without them it tries and errs on line. It takes more
// pods than the excess asks for, a quarter more on recorded days. It loses by how coarse the words
// are, as nine rules hardly distinguish a load that is a bit too much from one that is right. It
// also loses by the trials, which never end; and by most where a load leaves the days before: above
// them all workload is high, and two pods a minute is all that a rule can say.

func init() {
	register(Kind{
		Name: "fuzzy-rl", Title: "goes by nine fuzzy rules of workload and response that it learns by Q-learning (FQL4KE)",
		Knob: Excess, New: newFuzzy,
	})
}

const (
	fuzzyWords    = 3
	fuzzyRules    = fuzzyWords * fuzzyWords
	fuzzyActions  = 5 // from two pods fewer to two more
	fuzzyNothing  = fuzzyActions / 2
	fuzzyRate     = 0.01 // the least that a try weighs
	fuzzyDiscount = 0.5
	fuzzyEpisodes = 20 // how often the days before are played
	// fuzzyTrials is the part of what is done by chance at first. It is half of it when a day has
	// been learnt from, a third after two, and so on.
	fuzzyTrials = 0.3
	// fuzzyWorst is the response that is as bad as can be, by its objective.
	fuzzyWorst = 2
)

// Where a word is altogether true. Between two of them both are true in part.
var (
	workloadWords = [fuzzyWords]float64{0.2, 0.5, 0.8} // of the highest workload
	responseWords = [fuzzyWords]float64{0.6, 0.9, 1.2} // of the objective
)

// words are how far each of the words is true of x; they add up to 1.
func words(x float64, at [fuzzyWords]float64) (truth [fuzzyWords]float64) {
	switch {
	case x <= at[0]:
		truth[0] = 1
	case x < at[1]:
		truth[1] = (x - at[0]) / (at[1] - at[0])
		truth[0] = 1 - truth[1]
	case x < at[2]:
		truth[2] = (x - at[1]) / (at[2] - at[1])
		truth[1] = 1 - truth[2]
	default:
		truth[2] = 1
	}
	return truth
}

type fuzzy struct {
	setting Setting
	r       *rand.Rand
	top     float64 // the highest workload
	most    float64 // the pods that serve it
	warmed  bool    // these two are known
	values  [fuzzyRules][fuzzyActions]float64
	tries   [fuzzyRules][fuzzyActions]float64 // by how far the rule held
	minutes int                               // that were learnt from
	last    decision
}

// decision is what was done last.
type decision struct {
	made    bool
	holds   [fuzzyRules]float64 // how far each rule held
	choices [fuzzyRules]int     // of those that did
}

func newFuzzy(s Setting) (Scaler, error) {
	return &fuzzy{setting: s, r: rand.New(rand.NewPCG(s.Seed, 2))}, nil
}

// Warm plays the days before a number of times, with pods of its own.
func (f *fuzzy) Warm(arrivals []float64) {
	f.measure(highest(arrivals))
	f.warmed = f.top > 0
	for range fuzzyEpisodes {
		line, err := capacity.NewLoss(f.setting.Profile, f.setting.Timeout)
		if err != nil {
			return // nor would the run have begun
		}
		f.last = decision{}
		pods := f.setting.Min
		for _, load := range arrivals {
			if p, err := line.Step(pods, load); err == nil {
				pods = f.Next(p)
			}
		}
	}
	f.last = decision{}
}

// highest is the highest of the loads but for a thousandth of them, which are spikes: by one of
// thirty times the load all workload would be low.
func highest(loads []float64) float64 {
	sorted := slices.Sorted(slices.Values(loads))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(math.Ceil(0.999*float64(len(sorted)-1)))]
}

// measure makes a load the highest.
func (f *fuzzy) measure(load float64) {
	f.top, f.most = load, float64(f.setting.pods(load))
}

// Next learns from the minute that ended, and does what the rules say.
func (f *fuzzy) Next(p capacity.Period) int {
	if !f.warmed && p.Arrived > f.top {
		f.measure(p.Arrived)
	}
	now := decision{made: true, holds: f.holds(p)}
	if f.last.made {
		f.learn(f.utility(p), now.holds)
	}
	by := 0.0
	for rule, hold := range now.holds {
		if hold > 0 {
			now.choices[rule] = f.choose(rule)
			by += hold * float64(now.choices[rule]-fuzzyNothing)
		}
	}
	f.last = now
	return min(max(p.Pods+int(math.Round(by)), f.setting.Min), f.setting.Max)
}

func (f *fuzzy) holds(p capacity.Period) (holds [fuzzyRules]float64) {
	workload, response := words(part(p.Arrived, f.top), workloadWords), words(f.response(p), responseWords)
	for rule := range holds {
		holds[rule] = workload[rule/fuzzyWords] * response[rule%fuzzyWords]
	}
	return holds
}

// response is how long answers took, by the objective: the work there was, by what the pods
// are to do. Of no pods it is the worst.
func (f *fuzzy) response(p capacity.Period) float64 {
	able := f.setting.Profile.Total(float64(p.Pods)) * f.setting.Excess
	if p.InSystem >= fuzzyWorst*able {
		return fuzzyWorst
	}
	return p.InSystem / able
}

// utility is what a minute was worth: nothing is best.
func (f *fuzzy) utility(p capacity.Period) float64 {
	return -2*part(p.InSystem-p.Served, p.InSystem) - part(float64(p.Pods), f.most) - max(f.response(p)-1, 0)
}

// part is how much of a whole something is; 0 of nothing.
func part(x, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return x / whole
}

// choose takes what a rule does best, or anything by chance. Where it knows nothing that is to do
// nothing.
func (f *fuzzy) choose(rule int) int {
	if f.r.Float64()*(1+float64(f.minutes)/MinutesADay) < fuzzyTrials {
		return f.r.IntN(fuzzyActions)
	}
	best := fuzzyNothing
	for action, v := range f.values[rule] {
		if v > f.values[rule][best] {
			best = action
		}
	}
	return best
}

// learn lets each rule that held take its part of what the last decision brought beyond what was
// expected of it.
func (f *fuzzy) learn(reward float64, now [fuzzyRules]float64) {
	expected, ahead := 0.0, 0.0
	for rule, hold := range f.last.holds {
		expected += hold * f.values[rule][f.last.choices[rule]]
		ahead += now[rule] * slices.Max(f.values[rule][:])
	}
	surprise := reward + fuzzyDiscount*ahead - expected
	for rule, hold := range f.last.holds {
		tries := &f.tries[rule][f.last.choices[rule]]
		*tries += hold
		f.values[rule][f.last.choices[rule]] += max(fuzzyRate, 1/(1+*tries)) * hold * surprise
	}
	f.minutes++
}

// Size is two tables and what was done last.
func (f *fuzzy) Size() (bytes int, known bool) {
	return (2*fuzzyRules*fuzzyActions + 2*fuzzyRules + 16) * 8, true
}
