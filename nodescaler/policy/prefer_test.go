package policy

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestMachinesComeFromThePoolThatPodsPrefer(t *testing.T) {
	spread := sample.Prefers(sample.WantsZone(func(r *nodescaler.Topology) { r.Skew = 1 }))
	apart := sample.Prefers(sample.WantsZone(func(*nodescaler.Topology) {}))
	together := sample.Prefers(sample.WantsZone(func(r *nodescaler.Topology) { r.Together = true }))
	inB := func(w *sample.World) *sample.World {
		return w.Node("n1", "pve1").In("b").Pod("x", "n1", 1800, 100, sample.Prefers())
	}
	large := func(w *sample.World) *sample.World {
		return w.Change(func(w *sample.World) {
			w.Pools[1].Shapes = []pricing.Shape{{Name: "large", CPU: 4000, Memory: 8 * pricing.GiB}}
		})
	}
	for _, c := range []struct {
		name    string
		world   *sample.World
		want    []string
		reasons []string
	}{
		{"no preference", sample.Zoned("a", "b").Waiting(1, sample.Prefers()), []string{"Buy w-a small"}, nil},
		{"a label", sample.Zoned("a", "b").Waiting(1, sample.Prefers(sample.WantsLabel(1, sample.Zone, "b"))), []string{"Buy w-b small"}, []string{nodescaler.PreferencesMet}},
		{"the heavier of two", sample.Zoned("a", "b", "c").Waiting(1, sample.Prefers(sample.WantsLabel(1, sample.Zone, "b"), sample.WantsLabel(2, sample.Zone, "c"))), []string{"Buy w-c small"}, []string{nodescaler.PreferencesMet}},
		{"what no pool has", sample.Zoned("a", "b").Waiting(1, sample.Prefers(sample.WantsLabel(1, sample.Zone, "z"))), []string{"Buy w-a small"}, nil},
		{"a pool that costs more", large(sample.Zoned("a", "b")).Waiting(1, sample.Prefers(sample.WantsLabel(1, sample.Zone, "b"))), []string{"Buy w-a small"}, []string{nodescaler.PreferenceGivenUp}},
		{
			"a pool that is full", sample.Zoned("a", "b").Waiting(1, sample.Prefers(sample.WantsLabel(1, sample.Zone, "b"))).Change(func(w *sample.World) { w.Pools[1].Max = 0 }),
			[]string{"Buy w-a small"}, nil,
		},
		{
			"a pool that refuses the pod", sample.Zoned("a", "b").Waiting(1, sample.Prefers(sample.WantsLabel(1, sample.Zone, "b"))).
				Change(func(w *sample.World) { w.Pools[1].Taints = []nodescaler.Taint{{Key: "gpu", Effect: "NoSchedule"}} }),
			[]string{"Buy w-a small"}, nil,
		},
		{"spread, and one is in b", inB(sample.Zoned("a", "b", "c")).Waiting(1, spread), []string{"Buy w-a small"}, nil},
		{"spread, and both are in a", sample.Zoned("a", "b").Node("n1", "pve1").In("a").Pod("x", "n1", 1800, 100, sample.Prefers()).Waiting(1, spread), []string{"Buy w-b small"}, []string{nodescaler.PreferencesMet}},
		{"apart", sample.Zoned("a", "b").Node("n1", "pve1").In("a").Pod("x", "n1", 1800, 100, sample.Prefers()).Waiting(1, apart), []string{"Buy w-b small"}, []string{nodescaler.PreferencesMet}},
		{"together", inB(sample.Zoned("a", "b")).Waiting(1, together), []string{"Buy w-b small"}, []string{nodescaler.PreferencesMet}},
		{
			"spread over what is ordered at once", sample.Zoned("a", "b").Pod("p", "", 1500, 100, spread).Pod("q", "", 1500, 100, spread),
			[]string{"Buy w-a small", "Buy w-b small"}, []string{nodescaler.PreferencesMet},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got, reasons []string
			plan := sample.Decide(t, build(t, Spec{Policy: "joint"}), &c.world.Snapshot)
			for i := range plan.Actions {
				a := &plan.Actions[i]
				got = append(got, strings.Join([]string{string(a.Kind), a.Pool, a.Shape.Name}, " "))
				for _, r := range a.Reasons {
					if strings.HasPrefix(r.Code, "Preference") {
						reasons = append(reasons, r.Code)
						t.Log(r.Text)
					}
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) || !slices.Equal(reasons, c.reasons) {
				t.Errorf("%v %v, want %v %v", got, reasons, c.want, c.reasons)
			}
		})
	}
}

// With preferences no more machines are ordered than without, for no more money, and as many
// workloads go nowhere. There may be fewer: a machine from the pool that is preferred may be one
// that its minimum asks for.
func TestPreferencesCostNothing(t *testing.T) {
	forEachPolicy(t, func(t *rapid.T, name string) {
		spec, w := anySpec(t, name), anyWorld(t)
		plain := sample.Copy(&w.Snapshot)
		for i := range w.Pods {
			if rapid.Bool().Draw(t, "prefers") {
				sample.Prefers(sample.OneOf(t, "what", sample.WantsLabel(1, "disk", "ssd"), sample.WantsLabel(9, "disk", "hdd"), sample.WantsZone(func(r *nodescaler.Topology) { r.Skew = 1 }), sample.WantsZone(func(*nodescaler.Topology) {})))(&w.Pods[i])
			}
		}
		for i := range w.Pools {
			zone := map[string]string{sample.Zone: sample.OneOf(t, "zone", "a", "b")}
			for key, value := range w.Pools[i].Labels {
				zone[key] = value
			}
			w.Pools[i].Labels, plain.Pools[i].Labels = zone, zone
		}
		with, without := sample.Decide(t, build(t, spec), &w.Snapshot), sample.Decide(t, build(t, spec), plain)
		n, rate := purchases(with)
		m, most := purchases(without)
		if n > m || rate > most || len(with.Unplaced) != len(without.Unplaced) {
			t.Fatalf("%d machines for %s with preferences, %d for %s without: %v, %v", n, rate, m, most, sample.Lines(with), sample.Lines(without))
		}
	})
}

func purchases(p nodescaler.Plan) (n int, sum pricing.Rate) {
	for i := range p.Actions {
		if p.Actions[i].Kind == nodescaler.Buy {
			n, sum = n+1, sum+p.Actions[i].Rate
		}
	}
	return n, sum
}
