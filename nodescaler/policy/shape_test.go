package policy

import (
	"testing"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
)

// Where a pool has several shapes, each node has its own as its instance type: machines are of the
// shape that their pods ask for.
func TestMachinesAreOfTheShapeThatTheirPodsSelect(t *testing.T) {
	twin := pricing.Shape{Name: "twin", CPU: sample.Small.CPU, Memory: sample.Small.Memory}
	shaped := func() *sample.World {
		return sample.New().Change(func(w *sample.World) {
			w.Pools[0].ShapeIsType, w.Pools[0].Shapes = true, []pricing.Shape{sample.Small, sample.Large, twin}
			for i := range w.Hosts {
				w.Hosts[i].Room = sample.Large.Resources().Times(4)
			}
		})
	}
	typed := func(is string) func(*nodescaler.Node) {
		return func(n *nodescaler.Node) { n.Labels = map[string]string{nodescaler.TypeLabel: is} }
	}
	affinity := func(operator nodescaler.Operator, values ...string) nodescaler.Affinity {
		return nodescaler.Affinity{{{Key: nodescaler.TypeLabel, Operator: operator, Values: values}}}
	}
	requires := func(operator nodescaler.Operator, values ...string) func(*nodescaler.Pod) {
		return func(p *nodescaler.Pod) { p.Affinity = affinity(operator, values...) }
	}
	prefers := func(p *nodescaler.Pod) {
		p.Prefers = []nodescaler.Preference{{Weight: 1, Affinity: affinity(nodescaler.In, "twin")}}
	}
	coming := func(m *nodescaler.Machine) { m.Created, m.Since = sample.Noon, sample.Noon }
	large := func(pod *nodescaler.Pod) { selects(nodescaler.TypeLabel, "large")(pod) }
	for _, c := range []struct {
		name    string
		world   *sample.World
		want    []string
		reasons []string
	}{
		{name: "a selected shape", world: shaped().Waiting(1, large), want: []string{"Buy w large pve1"}},
		{name: "one for each shape", world: shaped().Waiting(1, large).Pod("q", "", 100, 100, selects(nodescaler.TypeLabel, "small")), want: []string{"Buy w large pve2", "Buy w small pve1"}},
		{name: "a node affinity", world: shaped().Waiting(1, requires(nodescaler.In, "huge", "large")), want: []string{"Buy w large pve1"}},
		{name: "one that excludes shapes", world: shaped().Waiting(1, requires(nodescaler.NotIn, "small", "twin")), want: []string{"Buy w large pve1"}},
		{name: "a shape that there is not", world: shaped().Waiting(1, selects(nodescaler.TypeLabel, "huge")), reasons: []string{"Refused"}},
		{name: "one that is too small", world: shaped().Pod("p", "", 3000, 100, selects(nodescaler.TypeLabel, "small")), reasons: []string{"TooBig"}},
		{name: "a machine of another shape is on its way", world: shaped().Machine("w-1", "pve1", nodescaler.Ordered, coming).Waiting(1, large), want: []string{"Buy w large pve2"}},
		{name: "a machine of the shape is", world: shaped().Machine("w-1", "pve1", nodescaler.Ordered, coming).Waiting(1, selects(nodescaler.TypeLabel, "small")), reasons: []string{nodescaler.PodsFitExisting}},
		{name: "spread by type", world: shaped().Waiting(2, sample.SpreadBy(nodescaler.TypeLabel, 1)), want: []string{"Buy w small pve2", "Buy w twin pve1"}},
		{name: "nodes show their shapes", world: shaped().Node("n1", "pve1", typed("small")).Waiting(1, large), want: []string{"Buy w large pve2"}},
		{name: "nodes have types of another", world: shaped().Node("n1", "pve1", typed("k3s")).Waiting(1, large), reasons: []string{"Refused"}},
		{name: "a shape that is preferred", world: shaped().Waiting(1, prefers), want: []string{"Buy w twin pve1"}, reasons: []string{nodescaler.PreferencesMet}},
	} {
		for _, policy := range []string{"unneeded", "joint"} {
			t.Run(c.name+", "+policy, func(t *testing.T) {
				sample.Expect(t, sample.Decide(t, build(t, Spec{Policy: policy}), &c.world.Snapshot), c.want, c.reasons...)
			})
		}
	}
}
