package loop

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestNamespacesShareTheirMachines(t *testing.T) {
	shape := pricing.Shape{Name: "m", CPU: 4000, Memory: 8e9}
	for _, c := range []struct {
		name    string
		tenants []tenant
		want    []NamespaceLoad
	}{
		{name: "no pods"},
		{"half of it", []tenant{{"shop", pricing.Resources{CPU: 2000}}}, []NamespaceLoad{{"shop", 500, 500}}},
		{"CPU and memory", []tenant{{"db", pricing.Resources{Memory: 4e9}}, {"shop", pricing.Resources{CPU: 2000}}}, []NamespaceLoad{{"db", 250, 250}, {"shop", 250, 250}}},
		{"one to three", []tenant{{"db", pricing.Resources{CPU: 500}}, {"shop", pricing.Resources{CPU: 1500}}}, []NamespaceLoad{{"db", 125, 125}, {"shop", 375, 375}}},
		{"more than all", []tenant{{"shop", pricing.Resources{CPU: 9000}}}, []NamespaceLoad{{"shop", 1000, 0}}},
		{"nothing requested", []tenant{{"db", pricing.Resources{}}, {"shop", pricing.Resources{}}}, []NamespaceLoad{{"db", 0, 500}, {"shop", 0, 500}}},
	} {
		if diff := cmp.Diff(c.want, divide(nil, c.tenants, shape, 1000)); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

// What the namespaces pay is what their machines cost, however many share them.
func TestLawNamespacesPayForTheirMachines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := sample.New().Node("a", "pve1").Node("b", "pve1").Node("c", "pve1")
		used := map[string]bool{}
		for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
			node := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "node")
			namespace := rapid.SampledFrom([]string{"db", "lab", "shop"}).Draw(t, "namespace")
			w.Pod(namespace+"/"+string(rune('a'+i)), node, pricing.MilliCPU(rapid.IntRange(0, 900).Draw(t, "cpu")), pricing.Bytes(rapid.IntRange(0, 900).Draw(t, "memory")))
			used[node] = true
		}
		x := w.At(0)
		var want, got pricing.Rate
		rates := map[pricing.Placed]pricing.Rate{}
		for i := range x.Machines {
			if m := &x.Machines[i]; used[m.Name] && m.Phase == nodescaler.Joined {
				want += rateOf(x, m, rates)
			}
		}
		for _, n := range namespaces(x) {
			got += n.Allocated + n.Idle
		}
		if off := got - want; off > 20 || off < -20 { // of rounding, in thousandths of a micro
			t.Fatalf("they pay %d, and the machines cost %d", got, want)
		}
	})
}
