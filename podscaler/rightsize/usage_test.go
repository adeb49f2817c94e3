package rightsize

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/pricing"
)

const day = 24 * time.Hour

func after(d time.Duration) time.Time { return noon.Add(d) }

// steady is a usage of one container that used the same for a time, measured every minute.
func steady(t *testing.T, d time.Duration, cpu pricing.MilliCPU, memory pricing.Bytes) *Usage {
	t.Helper()
	u := New(Defaults())
	for at := noon; !at.After(noon.Add(d)); at = at.Add(time.Minute) {
		if !u.AddCPU("p", "web", at, cpu) || !u.AddMemory("p", "web", at, memory) {
			t.Fatalf("the sample of %s does not count", at)
		}
	}
	return u
}

func reasons(all []Reason) string {
	var lines []string
	for _, r := range all {
		lines = append(lines, r.Code+": "+r.Text)
	}
	return strings.Join(lines, "\n")
}

func TestReasonsTellWhatWasMeasuredAndWhichBoundHeld(t *testing.T) {
	for _, c := range []struct {
		name     string
		usage    func(t *testing.T) *Usage
		policies Policies
		want     pricing.Resources
		reasons  string
	}{
		{
			name:  "two days",
			usage: func(t *testing.T) *Usage { return steady(t, 2*day, 480, 900*mi) },
			want:  pricing.Resources{CPU: 587, Memory: 1102117711},
			reasons: `Measured: cpu: the 90th percentile of 2881 samples, worth 2 days, is 511m, and with 15 % on top 587m
Measured: memory: the 90th percentile of 3 peaks, one for each 24h of a pod, is 914Mi, and with 15 % on top 1051Mi`,
		},
		{
			name:     "bounds of the policy",
			usage:    func(t *testing.T) *Usage { return steady(t, 2*day, 480, 900*mi) },
			policies: Policies{{Container: "*", Min: pair(700, 0), Max: pair(0, 512)}},
			want:     pair(700, 512),
			reasons: `Measured: cpu: the 90th percentile of 2881 samples, worth 2 days, is 511m, and with 15 % on top 587m
MinAllowed: cpu: 587m is below the least allowed, 700m
Measured: memory: the 90th percentile of 3 peaks, one for each 24h of a pod, is 914Mi, and with 15 % on top 1051Mi
MaxAllowed: memory: 1051Mi is above the most allowed, 512Mi`,
		},
		{
			name:     "only memory is controlled, and there is little of it",
			usage:    func(t *testing.T) *Usage { return steady(t, 6*time.Hour, 480, 20*mi) },
			policies: Policies{{Container: "web", Controls: []Resource{Memory}}},
			want:     pair(0, 250),
			reasons: `NotControlled: cpu: the policy leaves it alone
Measured: memory: the 90th percentile of 1 peak, one for each 24h of a pod, is 30Mi, and with 15 % on top 35Mi
LittleHistory: memory: 0.25 days is less than a day, so the upper bound is 173Mi
Floor: memory: 250Mi is the least for a pod, and 250Mi for each of its containers, of which there are 1`,
		},
		{
			name: "killed for memory, and never measured",
			usage: func(*testing.T) *Usage {
				u := New(Defaults())
				u.OOM("p", "web", noon, 1024*mi)
				return u
			},
			want: pricing.Resources{Memory: 1555165137},
			reasons: `NotMeasured: cpu: there is no sample yet, so nothing is recommended
Measured: memory: the 90th percentile of 1 peak, one for each 24h of a pod, is 1290Mi, and with 15 % on top 1483Mi
OutOfMemory: memory: 1 kill for lack of it, counted as use of 1.2 times what it had, and at least 100Mi more
LittleHistory: memory: 0 days is less than a day, so there is no upper bound yet`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := c.usage(t).Recommend(c.policies)
			if len(all) != 1 {
				t.Fatalf("there are %d recommendations", len(all))
			}
			if d := cmp.Diff(c.want, all[0].Target); d != "" {
				t.Errorf("target (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.reasons, reasons(all[0].Reasons)); d != "" {
				t.Errorf("reasons (-want +got):\n%s", d)
			}
		})
	}
}

func TestUnknownIsNotRecommended(t *testing.T) {
	u := New(Defaults())
	if got := u.Recommend(nil); got != nil {
		t.Errorf("of nothing, %v is recommended", got)
	}
	u.AddCPU("p", "web", noon, 100)
	got := u.Recommend(nil)[0]
	if got.Has(Memory) || !got.Has(CPU) || got.Target.Memory != 0 || got.Upper.Memory != 0 {
		t.Errorf("of CPU alone, %+v is recommended", got)
	}
}

// A kill counts as use of more than was requested, and more than was used, but not more than what
// was made up for an earlier kill: recommendations would run away from one that cannot be helped.
func TestOOMBumps(t *testing.T) {
	for _, c := range []struct {
		name            string
		used, requested pricing.Bytes
		kills           int
		want            pricing.Bytes
	}{
		{"by a fifth", 0, 1000 * mi, 1, 1200 * mi},
		{"by 100 MiB at least", 0, 100 * mi, 1, 200 * mi},
		{"of what was used, if that is more than was requested", 2000 * mi, 1000 * mi, 1, 2400 * mi},
		{"once, however often it is killed in a day", 2000 * mi, 1000 * mi, 5, 2400 * mi},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, want := New(Defaults()), newHistogram(&memoryScale, day)
			if c.used > 0 {
				u.AddMemory("p", "web", noon, c.used)
			}
			for i := range c.kills {
				if !u.OOM("p", "web", after(time.Duration(i)*time.Minute), c.requested) {
					t.Fatal("the kill does not count")
				}
			}
			want.add(float64(c.want), 1, after(day))
			if d := cmp.Diff(want.weights, u.containers["web"].memory.weights); d != "" {
				t.Errorf("peaks (-want +got):\n%s", d)
			}
		})
	}
}

func TestSamplesThatCannotCountDoNot(t *testing.T) {
	seen := func() *Usage {
		u := New(Defaults())
		u.AddCPU("p", "web", after(day), 100)
		u.AddMemory("p", "web", after(2*day), mi)
		return u
	}
	u := seen()
	for name, counts := range map[string]bool{
		"the same sample of CPU":  u.AddCPU("p", "web", after(day), 100),
		"an older one":            u.AddCPU("p", "web", noon, 100),
		"less than none":          u.AddCPU("p", "web", after(3*day), -1),
		"of no time":              u.AddCPU("q", "web", time.Time{}, 1),
		"too much":                u.AddMemory("p", "web", after(3*day), most+1),
		"older memory":            u.AddMemory("p", "web", after(day), 1),
		"a kill of another day":   u.OOM("p", "web", noon, mi),
		"a kill of less than no":  u.OOM("p", "web", after(3*day), -mi),
		"memory of less than no":  u.AddMemory("p", "web", after(3*day), -mi),
		"a kill at no known time": u.OOM("p", "web", time.Time{}, mi),
	} {
		if counts {
			t.Errorf("%s counts", name)
		}
	}
	if d := cmp.Diff(seen(), u, cmp.Exporter(func(reflect.Type) bool { return true })); d != "" {
		t.Errorf("what does not count changed (-before +after):\n%s", d)
	}
}

func TestWhatIsOldWeighsLess(t *testing.T) {
	u := New(Defaults())
	for i := range 10 {
		u.AddCPU(fmt.Sprint("old", i), "web", noon, 1000)
		u.AddCPU(fmt.Sprint("new", i), "web", after(3*day), 100)
	}
	// 10 of 1000m, three half-lives old, are 1.25 beside 10 of 100m: 11 %, so the 90th percentile
	// is theirs, and is no more when they are a half-life older.
	if got := u.Recommend(nil)[0].Target.CPU; got < 1000 {
		t.Errorf("the target is %s, want more than 1", got)
	}
	u = New(Defaults())
	for i := range 10 {
		u.AddCPU(fmt.Sprint("old", i), "web", noon, 1000)
		u.AddCPU(fmt.Sprint("new", i), "web", after(4*day), 100)
	}
	if got := u.Recommend(nil)[0].Target.CPU; got > 200 {
		t.Errorf("the target is %s, want less than 200m", got)
	}
}

func TestWhatIsNotSeenForEightIntervalsIsForgotten(t *testing.T) {
	u := New(Defaults())
	u.AddCPU("p", "web", noon, 100)
	u.AddCPU("p", "retired", noon, 100)
	u.AddCPU("p", "web", after(day), 100)
	u.AddCPU("gone", "web", after(day), 100)
	u.Gone("gone")
	u.Forget(after(8*day - 1))
	if got := len(u.containers); got != 2 {
		t.Errorf("there are %d containers a moment before, want 2", got)
	}
	u.Forget(after(8 * day))
	if d := cmp.Diff([]string{"web"}, u.names()); d != "" {
		t.Errorf("after eight days (-want +got):\n%s", d)
	}
	if got := len(u.instances); got != 1 {
		t.Errorf("%d containers of pods are known, want 1", got)
	}
	u.Forget(after(9 * day))
	if len(u.containers)+len(u.instances) != 0 {
		t.Errorf("after nine days there are %d containers and %d of pods", len(u.containers), len(u.instances))
	}
}

// drawBursts draws samples of a few pods and containers over hours or months.
func drawBursts(t *rapid.T) []burst {
	span := rapid.SampledFrom([]int64{3600, 3 * 86400, 150 * 86400}).Draw(t, "span")
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) burst {
		return burst{
			Kind: rapid.SampledFrom([]string{"cpu", "memory", "oom"}).Draw(t, "kind"),
			Pod:  rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pod"), Container: rapid.SampledFrom([]string{"web", "side"}).Draw(t, "container"),
			From: rapid.Int64Range(0, span).Draw(t, "from"), Every: rapid.Int64Range(1, 100_000).Draw(t, "every"),
			N: rapid.Int64Range(1, 20).Draw(t, "n"), First: rapid.Int64Range(0, 1<<33).Draw(t, "first"),
			Step: rapid.Int64Range(0, 1<<30).Draw(t, "step"), Mod: rapid.Int64Range(1, 1<<33).Draw(t, "mod"),
		}
	}), 1, 12).Draw(t, "bursts")
}

func TestBoundsAlwaysHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := New(Defaults())
		for _, b := range drawBursts(t) {
			b.feed(u)
		}
		low := pair(rapid.Int64Range(0, 3000).Draw(t, "least cpu"), rapid.Int64Range(0, 3000).Draw(t, "least memory"))
		policies := Policies{{Container: "*", Min: low, Max: low.Plus(pair(rapid.Int64Range(1, 3000).Draw(t, "cpu"), rapid.Int64Range(1, 3000).Draw(t, "memory")))}}
		if err := policies.Validate(); err != nil {
			t.Fatal(err)
		}
		for _, rec := range u.Recommend(policies) {
			for _, r := range rec.Resources {
				lower, target, upper := r.of(rec.Lower), r.of(rec.Target), r.of(rec.Upper)
				if lower > target || target > upper || lower < r.of(low) || upper > r.of(policies[0].Max) || r.of(rec.Uncapped) == 0 {
					t.Errorf("%s of %s: %d, %d, %d within %d and %d, uncapped %d", r, rec.Container,
						lower, target, upper, r.of(low), r.of(policies[0].Max), r.of(rec.Uncapped))
				}
			}
		}
	})
}

func TestSettingsThatMeanNothingAreRefused(t *testing.T) {
	d := Defaults()
	if err := d.Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	s := Settings{Lower: math.NaN(), Target: 2, Upper: 0.5, Margin: -1, OOMRatio: 0.5, OOMStep: -1, HalfLife: 200 * year}
	want := `lower: must be greater than 0 and at most 1, was NaN
target: must be at least lower and at most 1, was 2
upper: must be at least target and at most 1, was 0.5
margin: must be between 0 and 10, was -1
halfLife: must be between 1s and a year, was 1752000h0m0s
peakInterval: must be between 1s and a year, was 0s
peakIntervals: must be between 1 and 100, was 0
oomRatio: must be between 1 and 100, was 0.5
oomStep: must be ≥ 0 and at most 1e14, was -1`
	if err := s.Validate(); err == nil || err.Error() != want {
		t.Errorf("refused with\n%v\nwant\n%s", err, want)
	}
}

func TestPoliciesThatMeanNothingAreRefused(t *testing.T) {
	p := Policies{{}, {Container: "web", Min: pair(500, -1), Max: pair(200, 0)}, {Container: "web", Controls: []Resource{"disk"}}}
	want := `containers[0].name: must be a container's name or *, was ""
containers[web].max.cpu: must be at least min, 500m, was 200m
containers[web].min.memory: must be ≥ 0, was -1048576
containers[web]: must be there once, was twice
containers[web].controls: must be cpu or memory, was "disk"`
	if err := p.Validate(); err == nil || err.Error() != want {
		t.Errorf("refused with\n%v\nwant\n%s", err, want)
	}
}

func TestAPercentileIsReachedAtItsVeryWeight(t *testing.T) {
	h := newHistogram(&cpuScale, day)
	h.add(0.1, 1, noon)
	h.add(5, 1, noon)
	if got, _ := h.percentile(0.5); got > 0.2 {
		t.Errorf("half of the weight is at %g, want the first of two samples", got)
	}
	if got, _ := h.percentile(0.51); got < 5 {
		t.Errorf("more than half of the weight is at %g, want the second of two samples", got)
	}
}

// Weights double every day, and after three years would be more than a floating-point number holds.
func TestYearsDoNotOverflow(t *testing.T) {
	u := New(Defaults())
	for years := range 30 {
		u.AddCPU("p", "web", after(time.Duration(years)*year), 100)
		u.AddMemory("p", "web", after(time.Duration(years)*year), 300*mi)
	}
	u.AddCPU("p", "web", after(30*year), 5000)
	u.AddMemory("p", "web", after(30*year), 2000*mi)
	got := u.Recommend(nil)[0]
	if got.Target.CPU < 5000 || got.Target.CPU > 6500 || got.Target.Memory < 2000*mi || got.Target.Memory > 2600*mi {
		t.Errorf("after 30 years, %+v is recommended", got.Target)
	}
}
