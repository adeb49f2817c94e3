package pricing_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

func TestAmounts(t *testing.T) {
	node := pricing.Amounts{{"ephemeral-storage", 20 << 30}, {"nvidia.com/gpu", 2}}
	for _, c := range []struct {
		name       string
		need, used pricing.Amounts
		lacks      string
		times      int
	}{
		{name: "nothing", times: 9},
		{name: "nothing, of an overcommitted node", used: pricing.Amounts{{"nvidia.com/gpu", 5}}, times: 9},
		{name: "all devices", need: pricing.Amounts{{"nvidia.com/gpu", 2}}, times: 1},
		{name: "half", need: pricing.Amounts{{"nvidia.com/gpu", 1}}, times: 2},
		{name: "one too many", need: pricing.Amounts{{"nvidia.com/gpu", 3}}, lacks: "nvidia.com/gpu"},
		{name: "none is left", need: pricing.Amounts{{"nvidia.com/gpu", 1}}, used: pricing.Amounts{{"nvidia.com/gpu", 2}}, lacks: "nvidia.com/gpu", times: 2},
		{name: "absent", need: pricing.Amounts{{"example.com/fpga", 1}}, lacks: "example.com/fpga"},
		{name: "the first that lacks", need: pricing.Amounts{{"ephemeral-storage", 21 << 30}, {"nvidia.com/gpu", 3}}, lacks: "ephemeral-storage"},
		{name: "asked for 0", need: pricing.Amounts{{"example.com/fpga", 0}}, times: 9},
	} {
		if got := node.Lacks(c.need, c.used); got != c.lacks {
			t.Errorf("%s: lacks %q, want %q", c.name, got, c.lacks)
		}
		if got := node.Times(c.need, 9); got != c.times {
			t.Errorf("%s: %d times, want %d", c.name, got, c.times)
		}
		if n := testing.AllocsPerRun(10, func() { node.Lacks(c.need, c.used) }); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
	if got, want := node.String(), "20.0 GiB ephemeral-storage and 2 nvidia.com/gpu"; got != want {
		t.Errorf("printed as %q, want %q", got, want)
	}
	if got, want := (pricing.Amounts{{"hugepages-2Mi", 64 << 20}}).String(), "64 MiB hugepages-2Mi"; got != want {
		t.Errorf("printed as %q, want %q", got, want)
	}
}

// What several share is taken once, and free again with the last of them.
func TestSharedUnitsAreTakenOnce(t *testing.T) {
	unit := func(names ...string) (a pricing.Amounts) {
		for _, name := range names {
			a = a.Plus(pricing.Amounts{{pricing.Shared("volumes", name), 1}})
		}
		return a
	}
	two := pricing.Amounts{{"volumes", 2}}
	for _, c := range []struct {
		name       string
		need, used pricing.Amounts
		lacks      bool
		times      int // beside what is used
	}{
		{name: "the first", need: unit("a"), times: 9},
		{name: "what is there", need: unit("a"), used: unit("a", "b"), times: 9},
		{name: "another", need: unit("c"), used: unit("a", "b"), lacks: true},
		{name: "what many have", need: unit("b"), used: unit("a", "a", "a", "a"), times: 9},
		{name: "two of which one is there", need: unit("a", "b"), used: unit("a"), times: 9},
		{name: "three", need: unit("a", "b", "c"), lacks: true},
		{name: "a shared and one of its own", need: unit("a").Plus(pricing.Amounts{{"volumes", 1}}), times: 1},
		{name: "the same, where it is there", need: unit("a").Plus(pricing.Amounts{{"volumes", 1}}), used: unit("a"), times: 1},
		{name: "the same, where no other fits", need: unit("a").Plus(pricing.Amounts{{"volumes", 1}}), used: unit("a", "b"), lacks: true},
		{name: "one of its own beside them", need: pricing.Amounts{{"volumes", 1}}, used: unit("a", "a"), times: 1},
	} {
		want := ""
		if c.lacks {
			want = "volumes"
		}
		free := two.Minus(c.used)
		if got, also := two.Lacks(c.need, c.used), free.Lacks(c.need, nil); got != want || also != want {
			t.Errorf("%s: lacks %q and %q, want %q", c.name, got, also, want)
		}
		if got := free.Times(c.need, 9); got != c.times {
			t.Errorf("%s: %d times, want %d", c.name, got, c.times)
		}
		if n := testing.AllocsPerRun(10, func() { two.Lacks(c.need, c.used) }); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
	if free := two.Minus(unit("a", "a")).Plus(unit("a")); free.Left("volumes") != 1 || free.Plus(unit("a")).Left("volumes") != 2 {
		t.Errorf("left: %v", free)
	}
}

func TestAmountsAreAddedByName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) map[string]int64 {
			return rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.Int64Range(-3, 3)).Draw(t, name)
		}
		x, y := draw("x"), draw("y")
		sum, less := map[string]int64{}, map[string]int64{}
		for name, n := range x {
			sum[name], less[name] = n, n
		}
		for name, n := range y {
			sum[name], less[name] = sum[name]+n, less[name]-n
		}
		a, b := pricing.AmountsOf(x), pricing.AmountsOf(y)
		if d := cmp.Diff(pricing.AmountsOf(sum), a.Plus(b)); d != "" {
			t.Fatalf("plus: %s", d)
		}
		if d := cmp.Diff(pricing.AmountsOf(less), a.Minus(b)); d != "" {
			t.Fatalf("minus: %s", d)
		}
		most := pricing.AmountsOf(x).Most(b)
		for _, name := range []string{"a", "b", "c", "d"} {
			if most.Of(name) != max(x[name], y[name], 0) {
				t.Fatalf("most of %s: %d", name, most.Of(name))
			}
		}
		text := must.Get(json.Marshal(a))(t)
		var back pricing.Amounts
		must.Do(t, json.Unmarshal(text, &back))
		if d := cmp.Diff(a, back); d != "" {
			t.Fatalf("%s: %s", text, d)
		}
	})
}

func TestQuantities(t *testing.T) {
	for text, want := range map[string]pricing.Quantity{"0": 0, "2": 2, "20Gi": 20 << 30, "20GB": 20e9} {
		var q pricing.Quantity
		if err := q.UnmarshalText([]byte(text)); err != nil || q != want {
			t.Errorf("%s is %d (%v), want %d", text, q, err, want)
		}
		back, err := json.Marshal(map[string]pricing.Quantity{"a": q})
		var all map[string]pricing.Quantity
		if err != nil || json.Unmarshal(back, &all) != nil || all["a"] != q {
			t.Errorf("%s is %v again (%v)", back, all, err)
		}
	}
	for text, want := range map[string]string{
		"-1":                  "must be from 0 to 4611686018427387903, was \"-1\"",
		"1.5":                 "must be a whole number such as 2, or a size such as 20Gi, was \"1.5\"",
		"":                    "must be a whole number such as 2, or a size such as 20Gi, was \"\"",
		"9223372036854775807": "must be from 0 to 4611686018427387903, was \"9223372036854775807\"",
	} {
		var q pricing.Quantity
		if err := q.UnmarshalText([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Sums and differences of resources end at the largest and the smallest number.
func TestResourcesDoNotWrapRound(t *testing.T) {
	const most = math.MaxInt64
	all, huge := pricing.Resources{CPU: most, Memory: most}, pricing.Resources{CPU: 5 << 60, Memory: 5 << 60}
	for _, c := range []struct {
		name      string
		got, want pricing.Resources
	}{
		{"two that are huge", huge.Plus(huge), all},
		{"two that are huge, taken away", pricing.Resources{CPU: -1}.Minus(huge).Minus(huge), pricing.Resources{CPU: math.MinInt64, Memory: math.MinInt64}},
		{"the least, taken away", pricing.Resources{CPU: 1}.Minus(pricing.Resources{CPU: math.MinInt64}), pricing.Resources{CPU: most}},
		{"some", pricing.Resources{CPU: 3, Memory: 4}.Plus(pricing.Resources{CPU: 1, Memory: 1}).Minus(pricing.Resources{CPU: 5, Memory: 2}), pricing.Resources{CPU: -1, Memory: 3}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, c.got, c.want)
		}
	}
}
