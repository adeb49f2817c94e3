package policy

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// prefers are pods that would rather have something, and are noted where others would by them.
func prefers(all ...nodescaler.Preference) func(*nodescaler.Pod) {
	return func(p *nodescaler.Pod) { p.Prefers, p.Noted = all, []string{"app=web"} }
}

func wantsLabel(weight int, key, value string) nodescaler.Preference {
	return nodescaler.Preference{Weight: weight, Affinity: nodescaler.Affinity{{{Key: key, Operator: nodescaler.In, Values: []string{value}}}}}
}

func wantsZone(change func(*nodescaler.Topology)) nodescaler.Preference {
	w := nodescaler.Preference{Weight: 100, Rule: nodescaler.Topology{Key: zoneLabel, Mark: "app=web"}}
	change(&w.Rule)
	return w
}

func TestMachinesComeFromThePoolThatPodsPrefer(t *testing.T) {
	spread := prefers(wantsZone(func(r *nodescaler.Topology) { r.Skew = 1 }))
	apart := prefers(wantsZone(func(*nodescaler.Topology) {}))
	together := prefers(wantsZone(func(r *nodescaler.Topology) { r.Together = true }))
	inB := func(w *world) *world { return w.node("n1", "pve1").in("b").pod("x", "n1", 1800, 100, prefers()) }
	large := func(w *world) *world {
		return w.change(func(w *world) {
			w.Pools[1].Shapes = []pricing.Shape{{Name: "large", CPU: 4000, Memory: 8 * pricing.GiB}}
		})
	}
	for _, c := range []struct {
		name    string
		world   *world
		want    []string
		reasons []string
	}{
		{"no preference", zoned("a", "b").waiting(1, prefers()), []string{"Buy w-a small"}, nil},
		{"a label", zoned("a", "b").waiting(1, prefers(wantsLabel(1, zoneLabel, "b"))), []string{"Buy w-b small"}, []string{nodescaler.PreferencesMet}},
		{"the heavier of two", zoned("a", "b", "c").waiting(1, prefers(wantsLabel(1, zoneLabel, "b"), wantsLabel(2, zoneLabel, "c"))), []string{"Buy w-c small"}, []string{nodescaler.PreferencesMet}},
		{"what no pool has", zoned("a", "b").waiting(1, prefers(wantsLabel(1, zoneLabel, "z"))), []string{"Buy w-a small"}, nil},
		{"a pool that costs more", large(zoned("a", "b")).waiting(1, prefers(wantsLabel(1, zoneLabel, "b"))), []string{"Buy w-a small"}, []string{nodescaler.PreferenceGivenUp}},
		{
			"a pool that is full", zoned("a", "b").waiting(1, prefers(wantsLabel(1, zoneLabel, "b"))).change(func(w *world) { w.Pools[1].Max = 0 }),
			[]string{"Buy w-a small"}, nil,
		},
		{
			"a pool that refuses the pod", zoned("a", "b").waiting(1, prefers(wantsLabel(1, zoneLabel, "b"))).
				change(func(w *world) { w.Pools[1].Taints = []nodescaler.Taint{{Key: "gpu", Effect: "NoSchedule"}} }),
			[]string{"Buy w-a small"}, nil,
		},
		{"spread, and one is in b", inB(zoned("a", "b", "c")).waiting(1, spread), []string{"Buy w-a small"}, nil},
		{"spread, and both are in a", zoned("a", "b").node("n1", "pve1").in("a").pod("x", "n1", 1800, 100, prefers()).waiting(1, spread), []string{"Buy w-b small"}, []string{nodescaler.PreferencesMet}},
		{"apart", zoned("a", "b").node("n1", "pve1").in("a").pod("x", "n1", 1800, 100, prefers()).waiting(1, apart), []string{"Buy w-b small"}, []string{nodescaler.PreferencesMet}},
		{"together", inB(zoned("a", "b")).waiting(1, together), []string{"Buy w-b small"}, []string{nodescaler.PreferencesMet}},
		{
			"spread over what is ordered at once", zoned("a", "b").pod("p", "", 1500, 100, spread).pod("q", "", 1500, 100, spread),
			[]string{"Buy w-a small", "Buy w-b small"}, []string{nodescaler.PreferencesMet},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got, reasons []string
			plan := decide(t, build(t, Spec{Policy: "joint"}), &c.world.Snapshot)
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

// With preferences no more machines are ordered than without, for no more money, and as many workloads go nowhere. There may be
// fewer: a machine from the pool that is preferred may be one that its minimum asks for.
func TestPreferencesCostNothing(t *testing.T) {
	forEachPolicy(t, func(t *rapid.T, name string) {
		spec, w := anySpec(t, name), anyWorld(t)
		plain := copied(&w.Snapshot)
		for i := range w.Pods {
			if rapid.Bool().Draw(t, "prefers") {
				prefers(oneOf(t, "what", wantsLabel(1, "disk", "ssd"), wantsLabel(9, "disk", "hdd"), wantsZone(func(r *nodescaler.Topology) { r.Skew = 1 }), wantsZone(func(*nodescaler.Topology) {})))(&w.Pods[i])
			}
		}
		for i := range w.Pools {
			zone := map[string]string{zoneLabel: oneOf(t, "zone", "a", "b")}
			for key, value := range w.Pools[i].Labels {
				zone[key] = value
			}
			w.Pools[i].Labels, plain.Pools[i].Labels = zone, zone
		}
		with, without := decide(t, build(t, spec), &w.Snapshot), decide(t, build(t, spec), plain)
		n, rate := purchases(with)
		m, most := purchases(without)
		if n > m || rate > most || len(with.Unplaced) != len(without.Unplaced) {
			t.Fatalf("%d machines for %s with preferences, %d for %s without: %v, %v", n, rate, m, most, lines(with), lines(without))
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
