package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
)

// volumeIn has a volume in a zone.
func volumeIn(zone string) func(*nodescaler.Pod) {
	return func(p *nodescaler.Pod) {
		p.Volumes = []nodescaler.Affinity{{{{Key: sample.Zone, Operator: nodescaler.In, Values: []string{zone}}}}}
	}
}

// Where a pool's nodes have their hosts as zones, machines come on the host that their pods ask
// for.
func TestMachinesComeOnTheHostThatIsTheZoneOfTheirPods(t *testing.T) {
	const full = 1800 // of a machine
	notIn := func(p *nodescaler.Pod) {
		p.Affinity = nodescaler.Affinity{{{Key: sample.Zone, Operator: nodescaler.NotIn, Values: []string{"pve1", "pve2"}}}}
	}
	away := func(host string) func(*sample.World) {
		return func(w *sample.World) {
			for i := range w.Hosts {
				w.Hosts[i].Cordoned = w.Hosts[i].Cordoned || w.Hosts[i].Name == host
			}
		}
	}
	for _, c := range []struct {
		name    string
		world   *sample.World
		want    []string
		reasons []string
	}{
		{name: "a selected zone", world: sample.ZonedByHost().Waiting(1, selects(sample.Zone, "pve3")), want: []string{"Buy w small pve3"}},
		{name: "a node affinity", world: sample.ZonedByHost().Waiting(1, notIn), want: []string{"Buy w small pve3"}},
		{name: "the zone of a volume", world: sample.ZonedByHost().Waiting(1, volumeIn("pve2")), want: []string{"Buy w small pve2"}},
		{
			name: "the roomiest host for a pod that asks for none", world: sample.ZonedByHost().Node("n1", "pve1").OnHost().Pod("x", "n1", full, 100).
				Node("n2", "pve2").OnHost().Pod("y", "n2", full, 100).Waiting(1, func(*nodescaler.Pod) {}),
			want: []string{"Buy w small pve3"},
		},
		{name: "spread over hosts", world: sample.ZonedByHost().Waiting(3, sample.SpreadBy(sample.Zone, 1)), want: []string{"Buy w small pve1", "Buy w small pve2", "Buy w small pve3"}},
		{
			name: "apart from one that runs", world: sample.ZonedByHost().Node("n1", "pve1").OnHost().Pod("x", "n1", 100, 100, sample.SpreadBy(sample.Zone, 0)).
				Waiting(2, sample.SpreadBy(sample.Zone, 0)), want: []string{"Buy w small pve2", "Buy w small pve3"},
		},
		{
			name: "apart, and more than there are hosts", world: sample.ZonedByHost().Waiting(4, sample.SpreadBy(sample.Zone, 0)),
			want: []string{"Buy w small pve1", "Buy w small pve2", "Buy w small pve3"}, reasons: []string{nodescaler.NoDomain},
		},
		{
			name: "a machine that is on its way to the zone", world: sample.ZonedByHost().Machine("w-1", "pve2", nodescaler.Ordered, func(m *nodescaler.Machine) {
				m.Created, m.Since = sample.Noon, sample.Noon
			}).Waiting(1, selects(sample.Zone, "pve2")), reasons: []string{nodescaler.PodsFitExisting},
		},
		{
			name: "one that is on its way to another", world: sample.ZonedByHost().Machine("w-1", "pve2", nodescaler.Ordered, func(m *nodescaler.Machine) {
				m.Created, m.Since = sample.Noon, sample.Noon
			}).Waiting(1, selects(sample.Zone, "pve3")), want: []string{"Buy w small pve3"},
		},
		{
			name: "a zone whose host takes none", world: sample.ZonedByHost().Waiting(1, volumeIn("pve2")).Change(away("pve2")),
			reasons: []string{"Refused"},
		},
		{
			name: "what nodes show", world: sample.New().Node("n1", "pve1").OnHost().Pod("x", "n1", full, 100).Waiting(1, volumeIn("pve2")),
			want: []string{"Buy w small pve2"},
		},
		{
			name: "nodes that have another zone", world: sample.New().Node("n1", "pve1").In("rack").Pod("x", "n1", full, 100).
				Waiting(1, volumeIn("pve2")).Change(func(w *sample.World) { w.Machines[0].Pool = "w" }), reasons: []string{"Refused"},
		},
	} {
		for _, policy := range []string{"unneeded", "joint"} {
			t.Run(c.name+", "+policy, func(t *testing.T) {
				plan := sample.Decide(t, build(t, Spec{Policy: policy}), &c.world.Snapshot)
				sample.Expect(t, plan, c.want, c.reasons...)
			})
		}
	}
}

// A spare is woken on the host that is the zone of the pod; one on another is of no use to it.
func TestSparesAreWokenWhereTheHostIsTheZone(t *testing.T) {
	world := func() *sample.World {
		return sample.ZonedByHost().Spare("w-2", "pve1").OnHost().Spare("w-3", "pve3").OnHost()
	}
	closed := func(w *sample.World) { w.Pools[0].Closed = &nodescaler.Reason{Code: "Broken", Text: "machines fail"} }
	for _, c := range []struct {
		name  string
		world *sample.World
		want  []string
	}{
		{"any", world().Waiting(1, func(*nodescaler.Pod) {}), []string{"Wake w-2"}},
		{"that of the zone", world().Waiting(1, volumeIn("pve3")), []string{"Wake w-3"}},
		{"none is there", world().Waiting(1, volumeIn("pve2")), []string{"Buy w small pve2"}},
		{"none is made, and one is there", world().Change(closed).Waiting(1, volumeIn("pve3")), []string{"Wake w-3"}},
		{"none is made or there", world().Change(closed).Waiting(1, volumeIn("pve2")), nil},
		{"the pool is full, so one makes way", world().Change(func(w *sample.World) { w.Pools[0].Max = 2 }).Waiting(1, volumeIn("pve2")), []string{"Return w-3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := withSpares(t, 2)
			// the first scan returns nothing
			sample.Decide(t, p, sample.Copy(&sample.ZonedByHost().Snapshot))
			sample.Expect(t, sample.Decide(t, p, c.world.At(1)), c.want)
		})
	}
}

// Of hosts that cost the same, a machine comes on the one that its pods prefer.
func TestMachinesComeOnTheHostThatTheirPodsPrefer(t *testing.T) {
	spread := sample.Prefers(sample.WantsZone(func(r *nodescaler.Topology) { r.Skew = 1 }))
	for _, c := range []struct {
		name  string
		world *sample.World
		want  []string
		why   string
	}{
		{"a zone", sample.ZonedByHost().Waiting(1, sample.Prefers(sample.WantsLabel(1, sample.Zone, "pve2"))), []string{"pve2"}, "w on pve2 rather than w on pve1"},
		{"spread over what is ordered at once", sample.ZonedByHost().Pod("p", "", 1500, 100, spread).Pod("q", "", 1500, 100, spread).Pod("r", "", 1500, 100, spread), []string{"pve1", "pve2", "pve3"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := sample.Decide(t, build(t, Spec{Policy: "joint"}), &c.world.Snapshot)
			var hosts []string
			said := ""
			for i := range plan.Actions {
				hosts = append(hosts, plan.Actions[i].Host)
				for _, r := range plan.Actions[i].Reasons {
					said += r.Text + " "
				}
			}
			slices.Sort(hosts)
			if !slices.Equal(hosts, c.want) || !strings.Contains(said, c.why) {
				t.Errorf("on %v: %s", hosts, said)
			}
		})
	}
}

// A pod that asks for a zone waits for the host that it is, and is said to.
func TestPodsWithoutAPlaceSayWhyTheirHostTakesNone(t *testing.T) {
	for _, c := range []struct {
		name, zone string
		change     func(*sample.World)
		code, text string
	}{
		{"no host of this name", "pve9", func(*sample.World) {}, nodescaler.SelectorMismatch, "no label " + sample.Zone + "=pve9"},
		{"it has no room", "pve2", func(w *sample.World) { w.Hosts[1].Room.CPU = 0 }, nodescaler.NoHostRoom, "no host has room for its small of 2000m CPU and 4.0 GiB; pve2 has most left"},
		{"it is cordoned", "pve2", func(w *sample.World) { w.Hosts[1].Cordoned = true }, nodescaler.NoHostRoom, "none of its hosts takes new machines"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sample.ZonedByHost().Waiting(1, selects(sample.Zone, c.zone)).Change(c.change)
			plan := sample.Decide(t, build(t, Spec{Policy: "unneeded"}), &w.Snapshot)
			if len(plan.Unplaced) != 1 || plan.Unplaced[0].Why.Code != c.code || !strings.Contains(plan.Unplaced[0].Why.Text, c.text) {
				t.Errorf("got %+v", plan.Unplaced)
			}
		})
	}
}
