package testbed

import (
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// shown runs a part of an experiment that is shipped.
func shown(t *testing.T, name string, o Options) *Results {
	t.Helper()
	e := must.Get(Parse(read(t, "experiments/"+name+".yaml")))(t)
	r := must.Get(Run(t.Context(), e, o))(t)
	return r
}

// What a published policy claims for itself, joint keeps to: it is no slower than an HPA, and no
// dearer from where machines come in more than ones and twos; and it beats the policy itself in
// both by far.
func TestJointKeepsAPublishedClaim(t *testing.T) {
	race.Skip(t)
	r := shown(t, "joint-users", Options{Users: []int{10, 40, 80, 120, 200}, Policies: []string{"hpa60", "slocost-a", "slocost-a-wait", "joint"}, Trials: 2})
	for _, l := range r.Levels() {
		hpa, p90 := r.Mean("hpa60", l, "p90Ms"), r.Mean("joint", l, "p90Ms")
		if p90 > max(1.06*hpa, 230) {
			t.Errorf("at %s users the 90th percentile is %.0f ms, the HPA's %.0f", l, p90, hpa)
		}
		cost, dear := r.Mean("joint", l, "costUnits"), r.Mean("hpa60", l, "costUnits")
		if l.Users >= 40 && cost > 1.01*dear {
			t.Errorf("at %s users it costs %.1f, the HPA %.1f", l, cost, dear)
		}
	}
	for _, c := range []struct {
		policy, measure string
		part            float64
	}{
		{"slocost-a", "costUnits", 0.75}, {"slocost-a", "sloViolationMinutes", 0.25},
		{"slocost-a-wait", "costUnits", 1.05}, {"slocost-a-wait", "sloViolationMinutes", 0.35},
	} {
		if ours, theirs := r.Total("joint", c.measure), r.Total(c.policy, c.measure); ours > c.part*theirs {
			t.Errorf("%s: %.1f, and %.1f of %s", c.measure, ours, theirs, c.policy)
		}
	}
}

// The limit holds at every load and through all failures; and what four machines can hold that are
// ordered at the start and kept, joint holds within it: with spares also while a host is lost.
func TestJointMeetsWithinALimitWhatCanBeMet(t *testing.T) {
	race.Skip(t)
	r := shown(t, "joint-budget", Options{Policies: []string{"joint", "joint-spares", "fixed"}, Trials: 1})
	for policy, lost := range map[string]bool{"joint": false, "joint-spares": true} {
		var met []string
		for _, l := range r.Levels() {
			if rate := r.Mean(policy, l, "rateMax"); rate > 40 {
				t.Errorf("%s, %s: the machines cost up to %.1f an hour", policy, l, rate)
			}
			if strings.HasPrefix(l.Scenario, "faults") && !lost || r.Mean("fixed", l, "p90Ms") > 300 {
				continue
			}
			met = append(met, l.Scenario)
			if p90 := r.Mean(policy, l, "p90Ms"); p90 > 300 {
				t.Errorf("%s, %s: the 90th percentile is %.0f ms, where four machines hold %.0f", policy, l, p90, r.Mean("fixed", l, "p90Ms"))
			}
		}
		if len(met) < 3 || slices.Contains(met, "users-200") || lost != slices.Contains(met, "faults-60") {
			t.Errorf("four machines are enough for %v: this tells nothing", met)
		}
	}
}

// Open requests, which come regardless of others' answers, make queues of thousands without
// thousands of users: machines are ordered for what comes.
func TestJointTakesAQueueOfRequestsForNoUsers(t *testing.T) {
	race.Skip(t)
	r := shown(t, "joint-open", Options{Policies: []string{"hpa60", "joint"}, Trials: 1})
	for measure, most := range map[string]float64{"costUnits": 0.92, "sloViolationMinutes": 1.1, "orders": 2} {
		if ours, theirs := r.Total("joint", measure), r.Total("hpa60", measure); ours > most*theirs {
			t.Errorf("%s: %.1f, the HPA's are %.1f", measure, ours, theirs)
		}
	}
}

// Where no number of pods holds the objective it costs what an HPA does, and where some does it is
// held.
func TestJointGivesUpAnObjectiveThatNothingHolds(t *testing.T) {
	race.Skip(t)
	r := shown(t, "joint-unreachable", Options{Trials: 1})
	for _, l := range r.Levels() {
		switch l.Scenario {
		case "takes-200ms", "takes-400ms", "wave-400ms", "waits-2s", "waits-10s":
			// It was three to five times as much.
			if ours, theirs := r.Mean("joint", l, "costUnits"), r.Mean("hpa60", l, "costUnits"); ours > 1.5*theirs {
				t.Errorf("%s: it costs %.0f, and the HPA %.0f", l, ours, theirs)
			}
		default:
			if p90 := r.Mean("joint", l, "p90Ms"); p90 > 340 {
				t.Errorf("%s: the 90th percentile is %.0f ms, where more pods make it shorter", l, p90)
			}
		}
	}
}

// What experiments assert of small services, of slow requests and of requests that wait for a
// database holds in three trials.
func TestJointHoldsWhatItsExperimentsAssert(t *testing.T) {
	race.Skip(t)
	for name, scenarios := range map[string][]string{"joint-small": nil, "joint-slow": nil, "joint-unreachable": {"waits-2s", "waits-10s"}} {
		e := must.Get(Parse(read(t, "experiments/"+name+".yaml")))(t)
		r := must.Get(Run(t.Context(), e, Options{Trials: 3, Scenarios: scenarios}))(t)
		judged := 0
		for _, v := range e.Judge(r) {
			if len(v.Checks) == 0 {
				continue
			}
			if judged++; !v.Held {
				t.Errorf("%s: %s", name, v)
			}
		}
		if judged == 0 {
			t.Errorf("%s: nothing was judged", name)
		}
	}
}

// wrongWorlds plays worlds that are not as joint believes. The trials side by side, which is all
// that may race, are those of every experiment: under the race detector these take minutes.
func wrongWorlds(t *testing.T, policies ...string) *Results {
	t.Helper()
	race.Skip(t)
	return shown(t, "joint-wrong-worlds", Options{Policies: policies, Trials: 2})
}

// In worlds that are not what it believes it misses less than an HPA, over all of them and in those
// where an HPA's fixed target is what is wrong. With spares it does so in each of them, but for
// what two trials come to by chance.
func TestJointInWrongWorldsMissesLessThanAnHPA(t *testing.T) {
	r := wrongWorlds(t, "joint", "joint-4", "hpa60")
	const over = "sloViolationMinutes"
	if ours, theirs := r.Total("joint", over), r.Total("hpa60", over); ours > 0.5*theirs {
		t.Errorf("it misses the objective for %.0f minutes, the HPA for %.0f", ours, theirs)
	}
	for _, l := range r.Levels() {
		if ours, theirs := r.Mean("joint-4", l, over), r.Mean("hpa60", l, over); ours > theirs+1 {
			t.Errorf("%s: with spares it misses the objective for %.0f minutes, the HPA for %.0f", l, ours, theirs)
		}
		switch l.Scenario {
		case "demand-up", "demand-down", "think-3s", "random", "less-capacity", "noisy-neighbour":
			if ours, theirs := r.Mean("joint", l, over), r.Mean("hpa60", l, over); ours > theirs {
				t.Errorf("%s: it misses the objective for %.0f minutes, the HPA for %.0f", l, ours, theirs)
			}
		}
	}
}

// In a world that is another than it believes it says so, in at least such a part of its decisions,
// where that can be seen; and not where nothing is wrong.
func TestJointSaysThatItsModelIsOffWhereItIs(t *testing.T) {
	r := wrongWorlds(t, "joint")
	least := map[string]float64{
		"demand-down": 0.2, "think-none": 0.4, "strange-trace": 0.8,
	}
	for _, l := range r.Levels() {
		off := r.Mean("joint", l, "modelOff")
		if part, wrong := least[l.Scenario]; wrong && off < part {
			t.Errorf("%s: it says in %.0f %% of its decisions that its model is off", l, 100*off)
		}
		if l.Scenario == "as-believed" && off > 0.01 {
			t.Errorf("where nothing is wrong %.0f %% of its decisions say that its model is off", 100*off)
		}
		delete(least, l.Scenario)
	}
	if len(least) > 0 {
		t.Errorf("were not run: %v", least)
	}
	six := shown(t, "six-scenarios", Options{Policies: []string{"joint"}, Trials: 1})
	for _, l := range six.Levels() {
		if off := six.Mean("joint", l, "modelOff"); off > 0.01 {
			t.Errorf("six-scenarios, %s: nothing is wrong, and %.0f %% of its decisions say that its model is off", l, 100*off)
		}
	}
}

// Workloads that share a budget come to more than HPAs that take from it as they ask.
func TestJointMakesMoreOfASharedBudget(t *testing.T) {
	r := shown(t, "joint-share", Options{Policies: []string{"joint", "hpa60"}, Scenarios: []string{"scarce", "short"}, Trials: 1})
	for _, l := range r.Levels() {
		if rate := r.Mean("joint", l, "rateMax"); rate > 60 {
			t.Errorf("%s: the machines cost up to %.1f an hour", l, rate)
		}
		if ours, theirs := r.Mean("joint", l, "goodFraction"), r.Mean("hpa60", l, "goodFraction"); ours < theirs+0.005 {
			t.Errorf("%s: %.1f %% of the requests are answered in time, with HPAs %.1f %%", l, 100*ours, 100*theirs)
		}
	}
}
