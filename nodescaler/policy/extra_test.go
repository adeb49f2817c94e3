package policy

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func gpus(n int64) pricing.Amounts { return pricing.AmountsOf(map[string]int64{"nvidia.com/gpu": n}) }

// withGPUs has the pool's machines, and the nodes that are there, have so many each.
func withGPUs(n int64) func(*sample.World) {
	return func(w *sample.World) {
		w.Pools[0].Extra = gpus(n)
		for i := range w.Nodes {
			w.Nodes[i].Extra = w.Pools[0].Extras(sample.Small)
		}
	}
}

// onGPUs has a pod ask for so many.
func onGPUs(n int64) func(*nodescaler.Pod) { return func(p *nodescaler.Pod) { p.Extra = gpus(n) } }

func TestMachinesForDevices(t *testing.T) {
	storage := func(n int64) func(*nodescaler.Pod) {
		return func(p *nodescaler.Pod) { p.Extra = pricing.Amounts{{Name: pricing.EphemeralStorage, N: n}} }
	}
	disk := func(w *sample.World) {
		w.Pools[0].Shapes = []pricing.Shape{{Name: "small", CPU: sample.Small.CPU, Memory: sample.Small.Memory, Disk: 41 * pricing.GiB}}
	}
	young := func(w *sample.World) {
		w.Nodes[0].Joined = w.Now.Add(-time.Minute)
		w.Nodes[0].Extra = nil
	}
	few := pricing.Amounts{{Name: nodescaler.AttachableVolumes + "few", N: 2}}
	volume := func(p *nodescaler.Pod) { p.Extra = pricing.Amounts{{Name: few[0].Name, N: 1}} }
	shared := func(of string) func(*nodescaler.Pod) {
		return func(p *nodescaler.Pod) { p.Extra = pricing.Amounts{{Name: pricing.Shared(few[0].Name, of), N: 1}} }
	}
	takesTwo := func(w *sample.World) { w.Nodes[0].Extra = few }
	broken := func(w *sample.World) { w.Nodes[0].Extra = nil }
	for _, c := range []struct {
		name string
		w    *sample.World
		buys int
		say  string // of what is not ordered
	}{
		{name: "no pool has any", w: sample.New().Pod("ns/a", "", 100, 100, onGPUs(1)),
			say: "asks for 0.1 CPU and 100 MiB and 1 nvidia.com/gpu; none of 3 offers for its class that are large enough has any nvidia.com/gpu; it asks for nvidia.com/gpu, which no pool's machines have: a pool says by resources what its machines have"},
		{name: "none has as many", w: sample.New().Change(withGPUs(2)).Pod("ns/a", "", 100, 100, onGPUs(3)),
			say: "asks for 0.1 CPU and 100 MiB and 3 nvidia.com/gpu; none of 3 offers for its class that are large enough has more than 2 nvidia.com/gpu"},
		{name: "one each", w: sample.New().Change(withGPUs(1)).Pod("ns/a", "", 100, 100, onGPUs(1)).Pod("ns/b", "", 100, 100, onGPUs(1)).Pod("ns/c", "", 100, 100), buys: 2},
		{name: "a node has one left", w: sample.New().Node("w-1", "pve1").Change(withGPUs(2)).Pod("ns/on", "w-1", 100, 100, onGPUs(1)).Pod("ns/a", "", 100, 100, onGPUs(1))},
		{name: "a node has none left", w: sample.New().Node("w-1", "pve1").Change(withGPUs(2)).Pod("ns/on", "w-1", 100, 100, onGPUs(2)).Pod("ns/a", "", 100, 100, onGPUs(1)), buys: 1},
		{name: "a node's plugin has not started yet", w: sample.New().Node("w-1", "pve1").Change(withGPUs(1)).Change(young).Pod("ns/a", "", 100, 100, onGPUs(1))},
		{name: "a node's plugin has not started yet, and its CPU is taken", buys: 1,
			w: sample.New().Node("w-1", "pve1").Change(withGPUs(1)).Change(young).Pod("ns/on", "w-1", 1500, 100).Pod("ns/a", "", 500, 100, onGPUs(1))},
		{name: "a node's plugin has not started yet, and it has a pod to be apart from", buys: 1,
			w: sample.New().Node("w-1", "pve1").Change(withGPUs(1)).Change(young).Pod("ns/on", "w-1", 100, 100, sample.Lonely).Pod("ns/a", "", 100, 100, onGPUs(1), sample.Lonely)},
		{name: "nodes do not have what their pool says", w: sample.New().Node("w-1", "pve1").Change(withGPUs(1)).Change(broken).Pod("ns/a", "", 100, 100, onGPUs(1)),
			say: "it asks for nvidia.com/gpu, which no pool's machines have"},
		{name: "any storage fits where the disk is not known", w: sample.New().Pod("ns/a", "", 100, 100, storage(1<<40)), buys: 1},
		{name: "as much storage as pods may use", w: sample.New().Change(disk).Pod("ns/a", "", 100, 100, storage(34<<30)), buys: 1},
		{name: "more storage than that", w: sample.New().Change(disk).Pod("ns/a", "", 100, 100, storage(34<<30+1)),
			say: "has more than 34.0 GiB ephemeral-storage"},
		{name: "a node takes another volume", w: sample.New().Node("w-1", "pve1").Change(takesTwo).Pod("ns/on", "w-1", 100, 100, volume).Pod("ns/a", "", 100, 100, volume)},
		{name: "a node takes any number of pods with the volumes that it has", w: sample.New().Node("w-1", "pve1").Change(takesTwo).Pod("ns/on", "w-1", 100, 100, shared("a")).
			Pod("ns/also", "w-1", 100, 100, shared("b")).Pod("ns/too", "w-1", 100, 100, shared("b")).Pod("ns/x", "", 100, 100, shared("a")).Pod("ns/y", "", 100, 100, shared("b"))},
		{name: "a node has other volumes", buys: 1, w: sample.New().Node("w-1", "pve1").Change(takesTwo).Pod("ns/on", "w-1", 100, 100, shared("a")).
			Pod("ns/also", "w-1", 100, 100, shared("b")).Pod("ns/x", "", 100, 100, shared("c"))},
		{name: "machines take two volumes, which all pods share", buys: 1, w: sample.New().Change(func(w *sample.World) { w.Pools[0].Extra = few }).Pod("ns/a", "", 100, 100, shared("a")).
			Pod("ns/b", "", 100, 100, shared("a")).Pod("ns/c", "", 100, 100, shared("a")).Pod("ns/d", "", 100, 100, shared("b"))},
		{name: "machines take two volumes each", buys: 2, w: sample.New().Node("w-1", "pve1").Change(takesTwo).Pod("ns/on", "w-1", 100, 100, volume).
			Pod("ns/a", "", 100, 100, volume).Pod("ns/b", "", 100, 100, volume).Pod("ns/c", "", 100, 100, volume).Pod("ns/d", "", 100, 100, volume)},
		{name: "how many volumes machines take is not known", buys: 1, w: sample.New().Node("w-1", "pve1").Change(takesTwo).
			Change(func(w *sample.World) { w.Nodes[0].Joined = w.Now.Add(-time.Minute) }).Pod("ns/on", "w-1", 100, 100, volume).
			Pod("ns/a", "", 100, 100, volume).Pod("ns/b", "", 100, 100, volume).Pod("ns/c", "", 100, 100, volume).Pod("ns/d", "", 100, 100, volume)},
	} {
		for _, policy := range []string{"joint", "unneeded"} {
			t.Run(c.name+" "+policy, func(t *testing.T) {
				plan := sample.Decide(t, build(t, Spec{Policy: policy}), c.w.At(0))
				if n := buysOf(plan); n != c.buys {
					t.Errorf("%d machines are ordered, want %d:%s", n, c.buys, sample.Reasons(plan))
				}
				if !strings.Contains(sample.Reasons(plan), c.say) {
					t.Errorf("it does not say %q:%s", c.say, sample.Reasons(plan))
				}
			})
		}
	}
}

// buysOf counts the machines that a plan orders.
func buysOf(p nodescaler.Plan) (n int) {
	for _, a := range p.Actions {
		if a.Kind == nodescaler.Buy {
			n++
		}
	}
	return n
}

// devices are nodes with few of them, and pods that ask for nearly nothing else.
func devices(t *rapid.T) (w *sample.World, each int64) {
	each = rapid.Int64Range(1, 4).Draw(t, "each")
	w = sample.New()
	for i := range rapid.IntRange(0, 3).Draw(t, "nodes") {
		w.Node(fmt.Sprint("w-", i), "pve1")
	}
	w.Change(withGPUs(each))
	free := freeGPUs(&w.Snapshot)
	for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
		asks := rapid.Int64Range(1, each).Draw(t, "asks")
		node := ""
		if len(w.Nodes) > 0 {
			if n := sample.OneOf(t, "node", w.Nodes...).Name; free[n] >= asks {
				node = n
				free[n] -= asks
			}
		}
		w.Pod(fmt.Sprint("ns/p-", i), node, 10, 10, onGPUs(asks))
	}
	return w, each
}

func freeGPUs(s *nodescaler.Snapshot) map[string]int64 {
	free := map[string]int64{}
	for i := range s.Nodes {
		free[s.Nodes[i].Name] = s.Nodes[i].Extra.Of("nvidia.com/gpu")
	}
	for i := range s.Pods {
		free[s.Pods[i].Node] -= s.Pods[i].Extra.Of("nvidia.com/gpu")
	}
	delete(free, "")
	return free
}

// fit reports whether so many are had by all, found by trying everything.
func fit(asks, free []int64) bool {
	if len(asks) == 0 {
		return true
	}
	for i := range free {
		if free[i] >= asks[0] {
			free[i] -= asks[0]
			if fits := fit(asks[1:], free); fits {
				free[i] += asks[0]
				return true
			}
			free[i] += asks[0]
		}
	}
	return false
}

func TestAsManyMachinesAreOrderedAsDevicesTake(t *testing.T) {
	for _, name := range []string{"joint", "unneeded"} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			w, each := devices(t)
			free := freeGPUs(&w.Snapshot)
			var asks, left []int64
			for _, n := range w.Nodes {
				left = append(left, free[n.Name])
			}
			for _, p := range w.Pods {
				if p.Node == "" {
					asks = append(asks, p.Extra.Of("nvidia.com/gpu"))
				}
			}
			want := 0
			for ; !fit(asks, left); want++ {
				left = append(left, each)
			}
			if plan := sample.Decide(t, build(t, Spec{Policy: name}), w.At(0)); buysOf(plan) != want {
				t.Fatalf("%d machines are ordered, want %d:%s", buysOf(plan), want, sample.Reasons(plan))
			}
		}))
	}
}

func TestNoDrainNeedsMoreDevicesThanThereAre(t *testing.T) {
	drained := 0
	for _, name := range []string{"joint", "unneeded"} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			w, _ := devices(t)
			w.Pods = slices.DeleteFunc(w.Pods, func(p nodescaler.Pod) bool { return p.Node == "" })
			p := build(t, Spec{Policy: name})
			for at := time.Duration(0); at < time.Hour; at += 5 * time.Minute {
				plan := sample.Decide(t, p, w.At(at))
				gone := map[string]bool{}
				for _, a := range plan.Actions {
					if a.Kind == nodescaler.Cordon {
						gone[a.Node] = true
					}
				}
				if len(gone) == 0 {
					continue
				}
				var asks, left []int64
				for _, p := range w.Pods {
					if gone[p.Node] {
						asks = append(asks, p.Extra.Of("nvidia.com/gpu"))
					}
				}
				for node, free := range freeGPUs(&w.Snapshot) {
					if !gone[node] {
						left = append(left, free)
					}
				}
				if drained += len(asks); !fit(asks, left) {
					t.Fatalf("pods that ask for %v are to go where %v are free:%s", asks, left, sample.Reasons(plan))
				}
				return
			}
		}))
	}
	// Few have none.
	if checks := flag.Lookup("rapid.checks").Value.String(); drained == 0 && len(checks) > 2 {
		t.Error("no pod with a device was to move")
	}
}

// What nodes and pools have besides CPU and memory changes no plan as long as no pod asks for it.
func TestWhatNoPodAsksForChangesNoPlan(t *testing.T) {
	forEachPolicy(t, func(t *rapid.T, name string) {
		spec, w := anySpec(t, name), anyWorld(t)
		for i := range w.Pods {
			w.Pods[i].Extra = nil
		}
		plain, rich := w.At(0), w.At(0)
		for i := range plain.Pools {
			plain.Pools[i].Extra, rich.Pools[i].Extra = nil, gpus(2)
		}
		for i := range plain.Nodes {
			plain.Nodes[i].Extra, rich.Nodes[i].Extra = nil, pricing.Amounts{
				{Name: nodescaler.AttachableVolumes + "few", N: 2}, {Name: pricing.EphemeralStorage, N: 1 << 34}, {Name: "nvidia.com/gpu", N: 2},
			}
		}
		a, b := build(t, spec), build(t, spec)
		for range 3 {
			x, y := sample.Decide(t, a, plain), sample.Decide(t, b, rich)
			xs := must.Get(json.Marshal(x))(t)
			ys := must.Get(json.Marshal(y))(t)
			if string(xs) != string(ys) {
				t.Fatalf("%s\nbecame\n%s", xs, ys)
			}
			plain.Now, rich.Now = plain.Now.Add(11*time.Minute), rich.Now.Add(11*time.Minute)
		}
	})
}
