package nodescaler

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/pricing"
)

// node4 is a ready node of 4 CPU and 8 GiB.
func node4() Node {
	return Node{
		Name: "n", Ready: true, Allocatable: pricing.Resources{CPU: 4000, Memory: 8 * pricing.GiB},
		Labels: map[string]string{"disk": "ssd", "zone": "a", "empty": ""},
	}
}

func pod1() Pod { return Pod{Requests: pricing.Resources{CPU: 1000, Memory: pricing.GiB}} }

func gpus(n int64) pricing.Amounts { return pricing.Amounts{{Name: "nvidia.com/gpu", N: n}} }

func TestWhyANodeRefusesAPod(t *testing.T) {
	gpu := Taint{"gpu", "yes", "NoSchedule"}
	tests := []struct {
		name string
		pod  func(*Pod)
		node func(*Node)
		used Used
		code string
		text string
	}{
		{name: "room"},
		{name: "exactly the last room", used: Used{Requests: pricing.Resources{CPU: 3000, Memory: 7 * pricing.GiB}, Pods: 109}},
		{name: "not ready", node: func(n *Node) { n.Ready = false }, code: NodeNotReady},
		{name: "cordoned", node: func(n *Node) { n.Cordoned = true }, code: NodeCordoned},
		{name: "cordoned, but everything is tolerated", pod: func(p *Pod) { p.Tolerations = []Toleration{{}} },
			node: func(n *Node) { n.Cordoned = true }},
		{name: "not ready, and tolerated as a daemon does", node: func(n *Node) { n.Ready = false },
			pod: func(p *Pod) { p.Tolerations = []Toleration{{Key: "node.kubernetes.io/not-ready"}} }},
		{name: "not ready, tolerated only for eviction", node: func(n *Node) { n.Ready = false },
			pod:  func(p *Pod) { p.Tolerations = []Toleration{{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"}} },
			code: NodeNotReady},
		{name: "taint", node: func(n *Node) { n.Taints = []Taint{gpu} },
			code: TaintNotTolerated, text: "has taint gpu=yes:NoSchedule, which is not tolerated"},
		{name: "taint tolerated exactly", node: func(n *Node) { n.Taints = []Taint{gpu} },
			pod: func(p *Pod) { p.Tolerations = []Toleration{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}} }},
		{name: "taint tolerated by key", node: func(n *Node) { n.Taints = []Taint{gpu} },
			pod: func(p *Pod) { p.Tolerations = []Toleration{{Key: "gpu"}} }},
		{name: "taint tolerated by effect", node: func(n *Node) { n.Taints = []Taint{gpu} },
			pod: func(p *Pod) { p.Tolerations = []Toleration{{Effect: "NoSchedule"}} }},
		{name: "another value tolerated", node: func(n *Node) { n.Taints = []Taint{gpu} },
			pod: func(p *Pod) { p.Tolerations = []Toleration{{Key: "gpu", Value: "no", Effect: ""}} }, code: TaintNotTolerated},
		{name: "another effect tolerated", node: func(n *Node) { n.Taints = []Taint{gpu} },
			pod: func(p *Pod) { p.Tolerations = []Toleration{{Key: "gpu", Value: "yes", Effect: "NoExecute"}} }, code: TaintNotTolerated},
		{name: "one taint of two tolerated", node: func(n *Node) { n.Taints = []Taint{gpu, {"db", "", "NoExecute"}} },
			pod:  func(p *Pod) { p.Tolerations = []Toleration{{Key: "gpu"}} },
			code: TaintNotTolerated, text: "has taint db=:NoExecute, which is not tolerated"},
		{name: "selected", pod: func(p *Pod) { p.Selector = map[string]string{"disk": "ssd", "empty": ""} }},
		{name: "another value selected", pod: func(p *Pod) { p.Selector = map[string]string{"disk": "hdd", "zone": "b"} },
			code: SelectorMismatch, text: "has label disk=ssd; hdd is selected"},
		{name: "what no node is known to have", pod: func(p *Pod) { p.Selector = map[string]string{SelectNowhere: "a node with devices"} },
			code: SelectorMismatch, text: "is not known to be a node with devices"},
		{name: "an absent label is not an empty one", pod: func(p *Pod) { p.Selector = map[string]string{"none": ""} },
			code: SelectorMismatch, text: "has no label none;  is selected"},
		{name: "affinity", pod: func(p *Pod) {
			p.Affinity = Affinity{{{"disk", NotIn, []string{"ssd", "hdd"}}, {"none", Exists, nil}}, {{"gen", Gt, []string{"3"}}}}
		},
			code: SelectorMismatch, text: "does not meet the pod's node affinity, which requires disk not in (ssd, hdd) and none exists, or gen > 3"},
		{name: "affinity met by its second term", pod: func(p *Pod) {
			p.Affinity = Affinity{{{"disk", In, []string{"hdd"}}}, {{"disk", In, []string{"ssd"}}, {NameField, In, []string{"n"}}}}
		}},
		{name: "affinity without terms", pod: func(p *Pod) { p.Affinity = Affinity{} },
			code: SelectorMismatch, text: "does not meet the pod's node affinity, which requires what no node can meet"},
		{name: "one volume of two", pod: func(p *Pod) {
			p.Volumes = []Affinity{{{{"disk", Exists, nil}}}, {{{"zone", In, []string{"b"}}}}}
		}, code: VolumeElsewhere, text: "does not reach a volume of the pod, which requires zone=b"},
		{name: "CPU", used: Used{Requests: pricing.Resources{CPU: 3001}},
			code: InsufficientCPU},
		{name: "memory", used: Used{Requests: pricing.Resources{Memory: 7*pricing.GiB + pricing.MiB}},
			code: InsufficientMemory},
		{name: "devices", node: func(n *Node) { n.Extra = gpus(4) }, pod: func(p *Pod) { p.Extra = gpus(2) }, used: Used{Extra: gpus(2)}},
		{name: "too few devices", node: func(n *Node) { n.Extra = gpus(4) }, pod: func(p *Pod) { p.Extra = gpus(2) }, used: Used{Extra: gpus(3)},
			code: InsufficientResource},
		{name: "no device", pod: func(p *Pod) { p.Extra = gpus(1) },
			code: InsufficientResource},
		{name: "storage", node: func(n *Node) { n.Extra = pricing.Amounts{{Name: pricing.EphemeralStorage, N: 20 << 30}} },
			pod: func(p *Pod) { p.Extra = pricing.Amounts{{Name: pricing.EphemeralStorage, N: 5 << 30}} }, used: Used{Extra: pricing.Amounts{{Name: pricing.EphemeralStorage, N: 16 << 30}}},
			code: InsufficientResource},
		{name: "no device asked for of what is overcommitted", node: func(n *Node) { n.Extra = gpus(1) }, used: Used{Extra: gpus(2)}},
		{name: "slots by default", used: Used{Pods: 110}, code: NoPodSlot},
		{name: "slots of its own", node: func(n *Node) { n.PodSlots = 3 }, used: Used{Pods: 3}, code: NoPodSlot},
		{name: "nothing asked for of what is overcommitted", pod: func(p *Pod) { p.Requests.CPU = 0 },
			used: Used{Requests: pricing.Resources{CPU: 5000}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, n := pod1(), node4()
			if tt.pod != nil {
				tt.pod(&p)
			}
			if tt.node != nil {
				tt.node(&n)
			}
			if code := Refusal(&p, &n, tt.used); code != tt.code {
				t.Fatalf("%q, want %q", code, tt.code)
			}
			if got := Mismatch(&p, &n); tt.text != "" && got != tt.text {
				t.Errorf("%q, want %q", got, tt.text)
			}
		})
	}
}

func TestRefusalAllocatesNothing(t *testing.T) {
	p, n := pod1(), node4()
	p.Selector = map[string]string{"disk": "ssd"}
	p.Tolerations = []Toleration{{Key: "gpu"}}
	n.Taints = []Taint{{"gpu", "yes", "NoSchedule"}}
	p.Extra, n.Extra = gpus(1), gpus(4)
	for _, used := range []Used{{}, {Pods: 110}, {Extra: gpus(4)}} {
		if got := testing.AllocsPerRun(100, func() { Refusal(&p, &n, used) }); got != 0 {
			t.Errorf("%v allocations with %d pods", got, used.Pods)
		}
	}
}

var (
	someWord  = rapid.SampledFrom([]string{"", "a", "b", `a"=`, "a b"})
	someToler = rapid.Custom(func(t *rapid.T) Toleration {
		return Toleration{someWord.Draw(t, "key"), someWord.Draw(t, "value"), rapid.SampledFrom([]string{"", "NoSchedule", "NoExecute"}).Draw(t, "effect"), rapid.Bool().Draw(t, "exact")}
	})
	someRequirement = rapid.Custom(func(t *rapid.T) Requirement {
		operator := rapid.SampledFrom([]Operator{In, NotIn, Exists, DoesNotExist, Gt, Lt}).Draw(t, "operator")
		return Requirement{someWord.Draw(t, "key"), operator, rapid.SliceOfN(someWord, 0, 2).Draw(t, "values")}
	})
	someAffinity = rapid.Custom(func(t *rapid.T) Affinity {
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Term { return rapid.SliceOfN(someRequirement, 0, 2).Draw(t, "term") }), 0, 2).Draw(t, "affinity")
	})
	somePod = rapid.Custom(func(t *rapid.T) *Pod {
		p := &Pod{
			Selector:    rapid.MapOfN(someWord, someWord, 0, 2).Draw(t, "selector"),
			Tolerations: rapid.SliceOfN(someToler, 0, 3).Draw(t, "tolerations"),
			Volumes:     rapid.SliceOfN(someAffinity, 0, 1).Draw(t, "volumes"),
		}
		if rapid.Bool().Draw(t, "requires") {
			p.Affinity = someAffinity.Draw(t, "of its node")
		}
		return p
	})
)

// Packing judges a class by one pod of it, so pods of a class must be accepted alike.
func TestPodsOfOneClassAreAcceptedAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := somePod.Draw(t, "a"), somePod.Draw(t, "b")
		labels := rapid.MapOfN(someWord, someWord, 0, 3).Draw(t, "labels")
		taints := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Taint {
			return Taint{someWord.Draw(t, "key"), someWord.Draw(t, "value"), "NoSchedule"}
		}), 0, 2).Draw(t, "taints")
		n := &Node{Name: someWord.Draw(t, "name"), Labels: labels, Taints: taints}
		if Class(a) == Class(b) && Accepts(a, n) != Accepts(b, n) {
			t.Fatalf("one class %q, two answers", Class(a))
		}
		if (Accepts(a, n) == "") != (Mismatch(a, n) == "") {
			t.Fatalf("Accepts says %q, Mismatch %q", Accepts(a, n), Mismatch(a, n))
		}
	})
}

func TestClassIsBlindToOrderAndRepetition(t *testing.T) {
	a := &Pod{Selector: map[string]string{"x": "1", "y": "2"}, Tolerations: []Toleration{{Key: "k", Value: "v"}, {Key: "l"}}}
	b := &Pod{Selector: map[string]string{"y": "2", "x": "1"}, Tolerations: []Toleration{{Key: "l"}, {Key: "k", Value: "v"}, {Key: "l"}}}
	if Class(a) != Class(b) {
		t.Errorf("%s\n%s", Class(a), Class(b))
	}
	c := &Pod{Selector: map[string]string{`x"="1" "y`: "2"}, Tolerations: a.Tolerations}
	if Class(a) == Class(c) {
		t.Errorf("a label written to look like two is the same class: %s", Class(c))
	}
	if Class(&Pod{}) != "" || !strings.Contains(Class(a), `"x"="1"`) {
		t.Errorf("class %q", Class(a))
	}
}
