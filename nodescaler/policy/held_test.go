package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
)

// beside adds a pool x, and a node of it that is empty.
func beside(w *sample.World) {
	x := w.Pools[0]
	x.Name, x.HeldUp, x.HeldDown, x.Closed, x.Min = "x", nil, nil, nil, 0
	// Dearer.
	x.Shapes = []pricing.Shape{{Name: "x-small", CPU: sample.Small.CPU, Memory: 2 * sample.Small.Memory}}
	w.Pools = append(w.Pools, x)
	w.Node("x-1", "pve3", func(n *nodescaler.Node) { n.Pool = "x" })
	w.Machines[len(w.Machines)-1].Pool = "x"
}

// acted is all that is done in half an hour of steps in which nothing changes but what is done,
// from a time on.
func acted(t *testing.T, p nodescaler.Policy, w *sample.World, from time.Duration) (all []string) {
	t.Helper()
	for at := from; at <= from+30*time.Minute; at += 10 * time.Second {
		plan := sample.Decide(t, p, w.At(at))
		obey(w, plan)
		all = append(all, sample.Lines(plan)...)
	}
	return all
}

// emptied reports whether the node of pool x is on its way.
func emptied(done []string) bool { return len(done) > 0 && done[0] == "Cordon x-1" }

// What waits for a pool that is held waits for as long as it is, and nothing else may wait for
// that.
func TestPoolsThatAreHeldAreInNobodysWay(t *testing.T) {
	failed := func(w *sample.World) { w.Machine("w-9", "pve1", nodescaler.Failed) }
	short := func(w *sample.World) { w.Pools[0].Min = 2 }
	half := func(w *sample.World) { w.Nodes[0].Cordoned, w.Nodes[0].Draining = true, true }
	for _, policy := range []string{"joint", "unneeded"} {
		for _, c := range []struct {
			name  string
			world *sample.World
		}{
			{"up, below its minimum", sample.New().Node("w-1", "pve1").Change(sample.HeldUp).Change(short)},
			{"both, below its minimum", sample.New().Node("w-1", "pve1").Change(sample.HeldUp).Change(sample.HeldDown).Change(short)},
			{"down, with a machine that is not needed", sample.New().Node("w-1", "pve1").Change(sample.HeldDown)},
			{"down, with one that failed", sample.New().Change(failed).Change(sample.HeldDown)},
			{"down, with one that a policy before was emptying", sample.New().Node("w-1", "pve1").Change(half).Change(sample.HeldDown)},
			{"up, with one that a policy before was emptying", sample.New().Node("w-1", "pve1").Pod("a", "w-1", 10, 1, pinned).Change(half).Change(sample.HeldUp)},
		} {
			t.Run(policy+" "+c.name, func(t *testing.T) {
				u := DefaultUnneeded()
				u.EnforceNodeGroupMinSize = true
				w := c.world.Change(beside)
				if done := acted(t, build(t, Spec{Policy: policy, Unneeded: &u}), w, 0); !emptied(done) {
					t.Errorf("done in half an hour: %q", done)
				}
			})
		}
	}
}

// A pool is held while one of its nodes is being emptied: what has been begun is left as it is.
func TestDrainsOfAPoolThatIsHeldAreLeftAlone(t *testing.T) {
	for name, hold := range map[string]func(*sample.World){"down": sample.HeldDown, "up": sample.HeldUp} {
		t.Run(name, func(t *testing.T) {
			p, w := withUnneeded(t, nil), sample.New().Node("w-1", "pve1")
			closed, _ := watch(t, p, w, 0, time.Hour)
			sample.Draining(&w.Nodes[0])
			w.Pod("late", "w-1", 10, 1, pinned).Change(hold).Change(beside)
			if done := acted(t, p, w, closed+10*time.Second); !emptied(done) {
				t.Errorf("done while it is held: %q", done)
			}
			w.Pools[0].HeldUp, w.Pools[0].HeldDown = nil, nil
			sample.Expect(t, sample.Decide(t, p, w.At(closed+time.Hour)), []string{"Uncordon w-1", "Return x-1"})
		})
	}
}

// oneBusy is a world whose one node is full.
func oneBusy() *sample.World {
	return sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100)
}

// making adds a machine that is to become a spare, and its node.
func making(phase nodescaler.Phase) func(w *sample.World) {
	return func(w *sample.World) {
		w.Machine("w-2", "pve1", phase, func(m *nodescaler.Machine) { m.Keep = true })
		w.Nodes = sample.With(w.Nodes, nodescaler.Node{Name: "w-2", Machine: "w-2", Pool: "w", Ready: true, Allocatable: sample.Small.Resources()}, nil)
	}
}

func TestSparesOfAPoolThatIsHeldStayAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		name  string
		world *sample.World
		most  int
		want  []string
	}{
		{"up: none is woken", oneBusy().Spare("w-2", "pve1").Pod("b", "", 600, 100).Change(sample.HeldUp), 1, nil},
		{"up: not for the minimum either", oneBusy().Spare("w-2", "pve1").Change(func(w *sample.World) { w.Pools[0].Min = 2 }).Change(sample.HeldUp), 1, nil},
		{"up: none is ordered", oneBusy().Change(sample.HeldUp), 2, nil},
		{"up: one that pods have come to is no machine yet", oneBusy().Change(making(nodescaler.Joined)).Pod("b", "w-2", 600, 100).Change(sample.HeldUp), 1, nil},
		{"up: one that drifted stays, for none is made in its place", oneBusy().Spare("w-2", "pve1", sample.Drifted).Change(replaces()).Change(sample.HeldUp), 1, nil},
		{"down: one that drifted stays", oneBusy().Spare("w-2", "pve1", sample.Drifted).Spare("w-3", "pve1").Change(replaces()).Change(sample.HeldDown), 1, nil},
		{"down: one too many stays", oneBusy().Spare("w-2", "pve1").Spare("w-3", "pve1").Change(sample.HeldDown), 1, nil},
		{"down: one that has joined is not stopped", oneBusy().Change(making(nodescaler.Joined)).Change(sample.HeldDown), 1, nil},
		{"down: one is woken", oneBusy().Spare("w-2", "pve1").Pod("b", "", 600, 100).Change(sample.HeldDown), 1, []string{"Wake w-2"}},
		{"down: none makes way", oneBusy().Spare("w-2", "pve1").Pod("b", "", 3000, 100).Change(func(w *sample.World) {
			w.Pools[0].Max, w.Pools[0].Shapes = 2, append(w.Pools[0].Shapes, sample.Large)
		}).Change(sample.HeldDown), 1, nil},
		{"none are kept, and it is held down", oneBusy().Spare("w-2", "pve1").Change(sample.HeldDown), 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sample.LookedAt(t, withSpares(t, c.most), oneBusy())
			sample.Expect(t, sample.Decide(t, p, c.world.At(10*time.Second)), c.want)
		})
	}
}

// also adds a node that says what w-1's does, but for its name.
func also(name string, change ...func(*nodescaler.Node)) func(*sample.World) {
	return func(w *sample.World) {
		n := w.Nodes[0]
		n.Name = name
		w.Nodes = sample.With(w.Nodes, n, change)
	}
}

// Of a machine that pods run on there may be a second Node object, or one of another name. With any
// policy, the machine is neither emptied nor reclaimed in two hours; a node beside it that is empty
// goes.
func TestMachinesThatAreHeldStay(t *testing.T) {
	busy := func() *sample.World {
		return sample.New().Node("w-1", "pve1", func(n *nodescaler.Node) { n.ProviderID, n.SystemUUID = "proxmox://r/1", "uuid-1" }).
			Change(func(w *sample.World) { w.Machines[0].ProviderID, w.Machines[0].SystemUUID = "proxmox://r/1", "uuid-1" }).
			Several(3, "a", "w-1", 300, 100)
	}
	empty := func(w *sample.World) { w.Pods = nil }
	for _, c := range []struct {
		name   string
		world  *sample.World
		reason string // that is given for keeping it
	}{
		{"a second node, ready and empty", busy().Change(also("zz-dup")), nodescaler.MachineHeld},
		{"a second node that comes first", busy().Change(also("aa-dup")), nodescaler.MachineHeld},
		{"what a rename left over", busy().Change(also("zz-old", sample.NotReady)), nodescaler.MachineHeld},
		{"what a rename left over, nothing runs", busy().Change(also("zz-old", sample.NotReady)).Change(empty), nodescaler.MachineHeld},
		{"renamed", busy().Change(func(w *sample.World) {
			w.Nodes[0].Name = "w-1.example.org"
			for i := range w.Pods {
				w.Pods[i].Node = w.Nodes[0].Name
			}
		}), ""},
		{"renamed and not known by a label", busy().Change(func(w *sample.World) {
			w.Nodes[0].Name, w.Nodes[0].Machine = "w-1.example.org", ""
			for i := range w.Pods {
				w.Pods[i].Node = w.Nodes[0].Name
			}
		}), ""},
		{"failed, and its node is ready", busy().Change(func(w *sample.World) { w.Machines[0].Phase = nodescaler.Failed }), ""},
		{"a claim's volume, and no pod", busy().Change(empty).Change(func(w *sample.World) { w.Nodes[0].LocalClaims = []string{"ns/data-0"} }), nodescaler.MachineHeld},
		{"a disk that a person attached", busy().Change(empty).Change(func(w *sample.World) {
			w.Machines[0].Held = &nodescaler.Reason{Code: "ForeignDisk", Text: "scsi1 is not of its order"}
		}), nodescaler.MachineHeld},
	} {
		for _, policy := range Names() {
			t.Run(policy+" "+c.name, func(t *testing.T) {
				w := &sample.World{Snapshot: *sample.Copy(&c.world.Snapshot)}
				w.Node("w-2", "pve2")
				p, reasons, gone := build(t, Spec{Policy: policy}), []string{}, false
				for at := time.Duration(0); at <= 2*time.Hour; at += 10 * time.Second {
					plan := sample.Decide(t, p, w.At(at))
					obey(w, plan)
					reasons = append(reasons, sample.Codes(plan)...)
					for _, a := range plan.Actions {
						if gone = gone || a.Machine == "w-2" && a.Kind == nodescaler.Return; a.Machine == "w-2" || a.Kind == nodescaler.Uncordon {
							continue
						}
						if a.Machine == "w-1" || c.world.Nodes[0].Name == a.Node {
							t.Fatalf("at %v: %v%s", at, sample.Lines(plan), sample.Reasons(plan))
						}
					}
					if gone {
						w.Nodes, w.Machines = slices.DeleteFunc(w.Nodes, func(n nodescaler.Node) bool { return n.Name == "w-2" }),
							slices.DeleteFunc(w.Machines, func(m nodescaler.Machine) bool { return m.Name == "w-2" })
					}
				}
				if c.reason != "" && !slices.Contains(reasons, c.reason) && policy != "pending" {
					t.Errorf("no reason %s", c.reason)
				}
				if !gone && policy != "pending" {
					t.Error("the other machine stays, too")
				}
			})
		}
	}
}

// A drain that is under way when something begins to hold the machine is taken back, with the
// reason.
func TestDrainsOfWhatIsHeldAreTakenBack(t *testing.T) {
	for _, policy := range Names() {
		t.Run(policy, func(t *testing.T) {
			w := sample.New().Node("w-1", "pve1", sample.Draining).Node("w-2", "pve2").Pod("a", "w-1", 100, 100)
			p := build(t, Spec{Policy: policy})
			sample.Decide(t, p, w.At(0)) // it has only just begun to look
			w.Nodes[0].LocalClaims = []string{"ns/data-0"}
			sample.Expect(t, sample.Decide(t, p, w.At(time.Minute)), []string{"Uncordon w-1"}, nodescaler.MachineHeld)
		})
	}
}

func TestDrainOfOnesOwnIsTakenBackOnceItIsHeld(t *testing.T) {
	p, w := withUnneeded(t, nil), sample.New().Node("w-1", "pve1")
	closed, _ := watch(t, p, w, 0, time.Hour)
	sample.Draining(&w.Nodes[0])
	w.Pod("late", "w-1", 10, 1).Change(also("zz-dup"))
	sample.Expect(t, sample.Decide(t, p, w.At(closed+10*time.Second)), []string{"Uncordon w-1", "Uncordon zz-dup"}, nodescaler.MachineHeld)
}

// What was to become a spare and is held can neither be stopped nor go: it is capacity.
func TestSparesThatAreHeld(t *testing.T) {
	person := func(w *sample.World) {
		w.Machines[len(w.Machines)-1].Held = &nodescaler.Reason{Code: "ForeignDisk", Text: "scsi1 is not of its order"}
	}
	for _, c := range []struct {
		name  string
		world *sample.World
		most  int
		want  []string
	}{
		{"one that has joined is let be a machine", oneBusy().Change(making(nodescaler.Joined)).Change(person), 1, []string{"Wake w-2"}},
		{"one that boots is waited for", oneBusy().Change(making(nodescaler.Booting)).Change(person), 1, nil},
		{"one that drifted stays, and another is made", oneBusy().Spare("w-2", "pve1", sample.Drifted).Change(replaces()).Change(person), 1, []string{"Buy w small pve2 to keep"}},
		{"one too many stays", oneBusy().Spare("w-3", "pve1").Change(person).Spare("w-2", "pve1").Change(person), 1, nil},
		{"one is woken", oneBusy().Spare("w-2", "pve1").Pod("b", "", 600, 100).Change(person), 1, []string{"Wake w-2"}},
		{"none makes way", oneBusy().Spare("w-2", "pve1").Change(person).Pod("b", "", 3000, 100).Change(func(w *sample.World) {
			w.Pools[0].Max, w.Pools[0].Shapes = 2, append(w.Pools[0].Shapes, sample.Large)
		}), 1, nil},
		{"none are kept", oneBusy().Spare("w-2", "pve1").Change(person), 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sample.LookedAt(t, withSpares(t, c.most), oneBusy())
			sample.Expect(t, sample.Decide(t, p, c.world.At(10*time.Second)), c.want)
		})
	}
}

// A pod that others are preempted for has its place: no machine is ordered for it, and its node
// stays.
func TestPodsThatOthersArePreemptedForHaveTheirPlace(t *testing.T) {
	for _, name := range Names() {
		w := sample.New().Node("w-1", "pve1").Pod("a", "w-1", 1500, 100).Node("w-2", "pve2").Pod("b", "w-2", 300, 100, sample.Leaving)
		w.Pod("c", "", 1800, 100, func(p *nodescaler.Pod) {
			p.Nominated, p.Pinned, p.Priority = "w-2", "the scheduler makes room for it there", 100
		})
		p := build(t, Spec{Policy: name})
		for at := time.Duration(0); at < time.Hour; at += 10 * time.Minute {
			if plan := sample.Decide(t, p, w.At(at)); len(plan.Actions)+len(plan.Unplaced) > 0 {
				t.Errorf("%s: %v, and has no place for %+v", name, sample.Lines(plan), plan.Unplaced)
			}
		}
		w.Nodes[1].Ready = false // its room is not there any more
		if plan := sample.Decide(t, p, w.At(70*time.Minute)); !slices.ContainsFunc(sample.Lines(plan), func(l string) bool { return strings.HasPrefix(l, "Buy ") }) {
			t.Errorf("%s: %v", name, sample.Lines(plan))
		}
	}
}
