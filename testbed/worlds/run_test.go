package worlds

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func ran(t *testing.T, o Options) *Report {
	t.Helper()
	r := must.Get(Run(t.Context(), o))(t)
	return r
}

func written(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, r.Write(&b))
	return b.String()
}

func TestWorldsComeOutTheSameHoweverManyRunAtATime(t *testing.T) {
	o := Options{From: 33, Count: 3, Policies: []string{"hpa60", "joint"}, Parallel: 1}
	one := written(t, ran(t, o))
	o.Parallel = 3
	if diff := cmp.Diff(one, written(t, ran(t, o))); diff != "" {
		t.Error(diff)
	}
	o.From, o.Count = 35, 1
	alone := ran(t, o).Worlds[0]
	for i, line := range strings.Split(one, "\n") {
		if strings.Contains(line, `"seed":35`) {
			if got := written(t, &Report{Worlds: []World{alone}}); !strings.Contains(got, strings.TrimSuffix(line, ",")) {
				t.Errorf("line %d is not what the world comes to alone:\n%s\n%s", i, line, got)
			}
			return
		}
	}
	t.Errorf("world 35 is not in\n%s", one)
}

func TestAnInterruptedComparisonKeepsWhatIsDone(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	o := Options{From: 33, Count: 40, Policies: []string{"hpa60"}, Parallel: 1, Progress: func(testbed.Progress) { stop() }}
	r, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) || r == nil || len(r.Worlds) == 0 || len(r.Worlds) == 40 {
		t.Errorf("got %+v and %v", r, err)
	}
}

// Three worlds: in the first Joint costs twice what an HPA does that is as late, in the second
// every HPA is later, and in the third the only HPA that is no later is dearer.
func TestPoliciesAreSetAgainstTheCheapestHPAThatIsNoLater(t *testing.T) {
	r := &Report{Worlds: []World{
		{Seed: 1, Runs: []Score{{Policy: "hpa60", CostUnits: 10, LateShare: .01}, {Policy: "hpa80", CostUnits: 8, LateShare: .02}, {Policy: "joint", CostUnits: 16, LateShare: .01, FailedShare: .01}}},
		{Seed: 3, Runs: []Score{{Policy: "hpa60", CostUnits: 10, LateShare: .05}, {Policy: "hpa80", CostUnits: 8, LateShare: .2}, {Policy: "joint", CostUnits: 30, LateShare: .04}}},
		{Seed: 5, Runs: []Score{{Policy: "hpa60", CostUnits: 10, LateShare: .05}, {Policy: "hpa80", CostUnits: 8, LateShare: .2}, {Policy: "joint", CostUnits: 9, LateShare: .05}}},
	}}
	r.sum()
	got := r.line("joint")
	want := Line{
		Policy: "joint", Worlds: 3, Cost: Spread{1.6, 3}, Late: Spread{.04, .05}, Later: Spread{0, 0},
		Failed: testbed.Rounded(.01 / 3), FailedMost: .01, Near: testbed.Rounded(2. / 3), Ahead: testbed.Rounded(1. / 3),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	worst := r.losses((*World).rival)
	if len(worst) != 2 || worst[0].Seed != 1 || worst[0].rival.Policy != "hpa80" || worst[0].times != 2 || worst[1].rival.Policy != "hpa60" {
		t.Errorf("the worst are %+v", worst)
	}
	dearest := r.losses((*World).nearest)
	if len(dearest) != 1 || dearest[0].Seed != 3 || dearest[0].rival.Policy != "hpa60" || dearest[0].times != 3 {
		t.Errorf("the dearest are %+v", dearest)
	}
	if c := r.Commands(); len(c) != 6 || c[1] != "plimsoll testbed run joint-random --from 1 --policies joint --journal world-1.ndjson" {
		t.Errorf("the commands are %q", c)
	}
}
