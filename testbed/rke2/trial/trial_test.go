package trial

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// plain is a test bed of which nothing needs to be said.
func plain(testing.TB, *bed) {}

// made is what an undisturbed run comes to, and what it could have died at.
func made(t *testing.T, prepare func(testing.TB, *bed), experiment func(testing.TB) *testbed.Experiment) (*testbed.Results, []string) {
	t.Helper()
	var r *testbed.Results
	var moments []string
	within(t, func(t *testing.T, b *bed) {
		prepare(t, b)
		r = must.Get(b.run(t.Context(), experiment(t)))(t)
		if left := b.left(t.Context()); len(left) > 0 {
			t.Errorf("this is left: %s", left)
		}
		for _, name := range []string{journalFile, summaryFile, trialFile} {
			if len(b.kept["slocost-b-10-1"][name]) == 0 {
				t.Errorf("%s is not kept", name)
			}
		}
		moments = b.mortal.all
	})
	return r, moments
}

// What is counted is known beforehand: at the step 18 s after k6's start, the workload is to grow
// from one pod to three, which the next step sees. There is a second machine then, at 10 units an
// hour each.
func TestARunIsScoredFromWhatPodsPrint(t *testing.T) {
	r, _ := made(t, plain, experiment)
	if len(r.Runs) != 1 || r.World != "rke2" {
		t.Fatalf("%+v", r)
	}
	got := r.Runs[0]
	want := testbed.Trial{
		Requests: 500, Failed: 1, GoodFraction: 0.9, P50Ms: 90, P90Ms: 200, P99Ms: 300,
		PodMinutes: testbed.Rounded((23*1 + 37*3) / 60.), VMHours: testbed.Rounded((18 + 42*2) / 3600.), CostUnits: testbed.Rounded(10 * (18 + 42*2) / 3600.),
		Decisions: 1,
	}
	have := testbed.Trial{
		Requests: got.Requests, Failed: got.Failed, GoodFraction: got.GoodFraction, P50Ms: got.P50Ms, P90Ms: got.P90Ms, P99Ms: got.P99Ms,
		PodMinutes: got.PodMinutes, VMHours: got.VMHours, CostUnits: got.CostUnits, Decisions: got.Decisions,
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

var everyDeath = flag.Bool("deaths", false, "die at every moment, right before it and right after; else at some of them")

// Wherever the process ends, the next one comes to the same results, and leaves nothing of a run.
func TestRunsGoOnWhereverTheProcessDied(t *testing.T) { dies(t, plain, experiment) }

func dies(t *testing.T, prepare func(testing.TB, *bed), experiment func(testing.TB) *testbed.Experiment) {
	t.Helper()
	want, moments := made(t, prepare, experiment)
	if len(moments) < 30 {
		t.Fatalf("there are %d moments to die at: %q", len(moments), moments)
	}
	for at := range moments {
		for _, after := range []bool{false, true} {
			when := 2 * at
			if after {
				when++
			}
			if !*everyDeath && when%29 != 0 { // odd, so that both come
				continue
			}
			t.Run(strings.ReplaceAll(moments[at], "/", "."), func(t *testing.T) {
				within(t, func(t *testing.T, b *bed) {
					prepare(t, b)
					b.mortal.left, b.mortal.after = at, after
					e := experiment(t)
					if _, err := b.run(t.Context(), e); err == nil && !b.mortal.dead {
						t.Fatal("it did not die")
					}
					b.mortal = &mortal{left: -1}
					got := must.Get(b.run(t.Context(), e))(t)
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("(-undisturbed +after a death)\n%s", diff)
					}
					if left := b.left(t.Context()); len(left) > 0 {
						t.Errorf("this is left: %s", left)
					}
				})
			})
		}
	}
	t.Logf("%d moments", len(moments))
}

func TestFinishedRunsAreNotMadeAgain(t *testing.T) {
	within(t, func(t *testing.T, b *bed) {
		e := must.Get(experiment(t).With(testbed.Options{Trials: 2}))(t)
		first := must.Get(b.run(t.Context(), e))(t)
		delete(b.kept["slocost-b-10-2"], trialFile)
		began := time.Now()
		again := must.Get(b.run(t.Context(), e))(t)
		if diff := cmp.Diff(first, again); diff != "" {
			t.Error(diff)
		}
		if took := time.Since(began); took < time.Minute || took > 3*time.Minute {
			t.Errorf("one run more took %s", took)
		}
	})
}

func TestRunsOfAnotherExperimentAreRefused(t *testing.T) {
	within(t, func(t *testing.T, b *bed) {
		e := experiment(t)
		must.Get(b.run(t.Context(), e))(t)
		w := b.world()
		w.Identity.Options = []string{"--users", "20"}
		err := w.Check(e)
		if want := "the folder has runs of another experiment: options was [] there and is [--users 20] now"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

func TestWhatTheTestBedCannotDoIsRefused(t *testing.T) {
	within(t, func(t *testing.T, b *bed) {
		for want, change := range map[string]func(*testbed.Experiment){
			"": func(*testbed.Experiment) {},
			"workloads: must be one on this test bed, was 2":                                                                                                             func(e *testbed.Experiment) { e.Workloads = slices.Repeat(e.Workloads, 2) },
			"duration: must be whole minutes on this test bed, was 1m30s":                                                                                                func(e *testbed.Experiment) { e.Duration = 90 * time.Second },
			"pools[0].max: must be at most the site's workers.max, 16, on this test bed, was 17":                                                                         func(e *testbed.Experiment) { e.Pools[0].Max = 17 },
			"pools[0].start: must be min, which Plimsoll makes by itself on this test bed, was 2":                                                                        func(e *testbed.Experiment) { e.Pools[0].Start = 2 },
			"pools[0].shapes[0].name: must be that of one of the site's workers.shapes on this test bed, was big":                                                        func(e *testbed.Experiment) { e.Pools[0].Shapes[0].Name = "big" },
			"pools[0].shapes[0]: must be of the site's workers.shapes[0], 2 vCPU and 7629MiB, on this test bed, was 4 vCPU and 8GB":                                      func(e *testbed.Experiment) { e.Pools[0].Shapes[0].CPU = 4000 },
			"workloads[0].demand.tail: must be omitted: the loader's requests are alike on this test bed, was 2":                                                         func(e *testbed.Experiment) { e.Workloads[0].Demand.Tail = 2 },
			"workloads[0]: the loader: calibrate: must be from 2ms to 2s, was 1ms":                                                                                       func(e *testbed.Experiment) { e.Workloads[0].Demand.Mean = time.Millisecond },
			"load.users 5001: k6: users: must be 1 to 5000, was 5001":                                                                                                    func(e *testbed.Experiment) { e.Load.Users = []int{10, 5001} },
			"policies slocost-b nodes.scaledBy: must be Plimsoll, as the site's addons.plimsoll.nodes is not ClusterAutoscaler, on this test bed, was ClusterAutoscaler": func(e *testbed.Experiment) { e.Policies[0].Nodes.ScaledBy = testbed.ScaledByClusterAutoscaler },
			"policies slocost-b: must be without what knows the load to come on this test bed, was clairvoyant":                                                          func(e *testbed.Experiment) { e.Policies[0].Clairvoyant = true },
			"policies slocost-b spares: must be omitted on this test bed, was 1":                                                                                         func(e *testbed.Experiment) { e.Policies[0].Spares = 1 },
		} {
			e := experiment(t)
			change(e)
			got := ""
			if err := b.world().Check(e); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
		}
	})
}
