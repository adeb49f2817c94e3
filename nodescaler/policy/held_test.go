package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// beside adds a pool x, and a node of it that is empty.
func beside(w *world) {
	x := w.Pools[0]
	x.Name, x.HeldUp, x.HeldDown, x.Closed, x.Min = "x", nil, nil, nil, 0
	x.Shapes = []pricing.Shape{{Name: "x-small", CPU: small.CPU, Memory: 2 * small.Memory}} // dearer
	w.Pools = append(w.Pools, x)
	w.node("x-1", "pve3", func(n *nodescaler.Node) { n.Pool = "x" })
	w.Machines[len(w.Machines)-1].Pool = "x"
}

// acted is all that is done in half an hour of steps in which nothing changes but what is done, from a time on.
func acted(t *testing.T, p nodescaler.Policy, w *world, from time.Duration) (all []string) {
	t.Helper()
	for at := from; at <= from+30*time.Minute; at += 10 * time.Second {
		plan := decide(t, p, w.at(at))
		w.obey(plan)
		all = append(all, lines(plan)...)
	}
	return all
}

// emptied reports whether the node of pool x is on its way.
func emptied(done []string) bool { return len(done) > 0 && done[0] == "Cordon x-1" }

// What waits for a pool that is held waits for as long as it is, and nothing else may wait for that.
func TestPoolsThatAreHeldAreInNobodysWay(t *testing.T) {
	failed := func(w *world) { w.machine("w-9", "pve1", nodescaler.Failed) }
	short := func(w *world) { w.Pools[0].Min = 2 }
	half := func(w *world) { w.Nodes[0].Cordoned, w.Nodes[0].Draining = true, true }
	for _, policy := range []string{"joint", "unneeded"} {
		for _, c := range []struct {
			name  string
			world *world
		}{
			{"up, below its minimum", aWorld().node("w-1", "pve1").change(heldUp).change(short)},
			{"both, below its minimum", aWorld().node("w-1", "pve1").change(heldUp).change(heldDown).change(short)},
			{"down, with a machine that is not needed", aWorld().node("w-1", "pve1").change(heldDown)},
			{"down, with one that failed", aWorld().change(failed).change(heldDown)},
			{"down, with one that a policy before was emptying", aWorld().node("w-1", "pve1").change(half).change(heldDown)},
			{"up, with one that a policy before was emptying", aWorld().node("w-1", "pve1").pod("a", "w-1", 10, 1, pinned).change(half).change(heldUp)},
		} {
			t.Run(policy+" "+c.name, func(t *testing.T) {
				u := DefaultUnneeded()
				u.EnforceNodeGroupMinSize = true
				w := c.world.change(beside)
				if done := acted(t, build(t, Spec{Policy: policy, Unneeded: &u}), w, 0); !emptied(done) {
					t.Errorf("done in half an hour: %q", done)
				}
			})
		}
	}
}

// A pool is held while one of its nodes is being emptied: what has been begun is left as it is, whatever becomes of it.
func TestDrainsOfAPoolThatIsHeldAreLeftAlone(t *testing.T) {
	for name, hold := range map[string]func(*world){"down": heldDown, "up": heldUp} {
		t.Run(name, func(t *testing.T) {
			p, w := withUnneeded(t, nil), aWorld().node("w-1", "pve1")
			closed, _ := watch(t, p, w, 0, time.Hour)
			draining(&w.Nodes[0])
			w.pod("late", "w-1", 10, 1, pinned).change(hold).change(beside)
			if done := acted(t, p, w, closed+10*time.Second); !emptied(done) {
				t.Errorf("done while it is held: %q", done)
			}
			w.Pools[0].HeldUp, w.Pools[0].HeldDown = nil, nil
			expect(t, decide(t, p, w.at(closed+time.Hour)), []string{"Uncordon w-1", "Return x-1"})
		})
	}
}

// oneBusy is a world whose one node is full.
func oneBusy() *world { return aWorld().node("w-1", "pve1").pods(3, "a", "w-1", 600, 100) }

// making adds a machine that is to become a spare, and its node.
func making(phase nodescaler.Phase) func(w *world) {
	return func(w *world) {
		w.machine("w-2", "pve1", phase, func(m *nodescaler.Machine) { m.Keep = true })
		w.Nodes = with(w.Nodes, nodescaler.Node{Name: "w-2", Machine: "w-2", Pool: "w", Ready: true, Allocatable: small.Resources()}, nil)
	}
}

func TestSparesOfAPoolThatIsHeldStayAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		name  string
		world *world
		most  int
		want  []string
	}{
		{"up: none is woken", oneBusy().spare("w-2", "pve1").pod("b", "", 600, 100).change(heldUp), 1, nil},
		{"up: not for the minimum either", oneBusy().spare("w-2", "pve1").change(func(w *world) { w.Pools[0].Min = 2 }).change(heldUp), 1, nil},
		{"up: none is ordered", oneBusy().change(heldUp), 2, nil},
		{"up: one that pods have come to is no machine yet", oneBusy().change(making(nodescaler.Joined)).pod("b", "w-2", 600, 100).change(heldUp), 1, nil},
		{"up: one that drifted goes", oneBusy().spare("w-2", "pve1", drifted).change(heldUp), 1, []string{"Return w-2"}},
		{"down: one that drifted stays", oneBusy().spare("w-2", "pve1", drifted).change(heldDown), 1, nil},
		{"down: one too many stays", oneBusy().spare("w-2", "pve1").spare("w-3", "pve1").change(heldDown), 1, nil},
		{"down: one that has joined is not stopped", oneBusy().change(making(nodescaler.Joined)).change(heldDown), 1, nil},
		{"down: one is woken", oneBusy().spare("w-2", "pve1").pod("b", "", 600, 100).change(heldDown), 1, []string{"Wake w-2"}},
		{"down: none makes way", oneBusy().spare("w-2", "pve1").pod("b", "", 3000, 100).change(func(w *world) {
			w.Pools[0].Max, w.Pools[0].Shapes = 2, append(w.Pools[0].Shapes, large)
		}).change(heldDown), 1, nil},
		{"none are kept, and it is held down", oneBusy().spare("w-2", "pve1").change(heldDown), 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := lookedAt(t, withSpares(t, c.most), oneBusy())
			expect(t, decide(t, p, c.world.at(10*time.Second)), c.want)
		})
	}
}

// also adds a node that says what w-1's does, but for its name.
func also(name string, change ...func(*nodescaler.Node)) func(*world) {
	return func(w *world) {
		n := w.Nodes[0]
		n.Name = name
		w.Nodes = with(w.Nodes, n, change)
	}
}

// Of a machine that pods run on there may be a second Node object, or one of another name. Whatever the policy, the
// machine is neither emptied nor given back in two hours; a node beside it that is empty goes.
func TestMachinesThatAreHeldStay(t *testing.T) {
	busy := func() *world {
		return aWorld().node("w-1", "pve1", func(n *nodescaler.Node) { n.ProviderID, n.SystemUUID = "proxmox://r/1", "uuid-1" }).
			change(func(w *world) { w.Machines[0].ProviderID, w.Machines[0].SystemUUID = "proxmox://r/1", "uuid-1" }).
			pods(3, "a", "w-1", 300, 100)
	}
	empty := func(w *world) { w.Pods = nil }
	for _, c := range []struct {
		name   string
		world  *world
		reason string // that is given for keeping it
	}{
		{"a second node, ready and empty", busy().change(also("zz-dup")), nodescaler.MachineHeld},
		{"a second node that comes first", busy().change(also("aa-dup")), nodescaler.MachineHeld},
		{"what a rename left over", busy().change(also("zz-old", notReady)), nodescaler.MachineHeld},
		{"what a rename left over, nothing runs", busy().change(also("zz-old", notReady)).change(empty), nodescaler.MachineHeld},
		{"renamed", busy().change(func(w *world) {
			w.Nodes[0].Name = "w-1.example.org"
			for i := range w.Pods {
				w.Pods[i].Node = w.Nodes[0].Name
			}
		}), ""},
		{"renamed and not known by a label", busy().change(func(w *world) {
			w.Nodes[0].Name, w.Nodes[0].Machine = "w-1.example.org", ""
			for i := range w.Pods {
				w.Pods[i].Node = w.Nodes[0].Name
			}
		}), ""},
		{"failed, and its node is ready", busy().change(func(w *world) { w.Machines[0].Phase = nodescaler.Failed }), ""},
		{"a claim's volume, and no pod", busy().change(empty).change(func(w *world) { w.Nodes[0].LocalClaims = []string{"ns/data-0"} }), nodescaler.MachineHeld},
		{"a disk that a person attached", busy().change(empty).change(func(w *world) {
			w.Machines[0].Held = &nodescaler.Reason{Code: "ForeignDisk", Text: "scsi1 is not of its order"}
		}), nodescaler.MachineHeld},
	} {
		for _, policy := range Names() {
			t.Run(policy+" "+c.name, func(t *testing.T) {
				w := &world{*copied(&c.world.Snapshot)}
				w.node("w-2", "pve2")
				p, reasons, gone := build(t, Spec{Policy: policy}), []string{}, false
				for at := time.Duration(0); at <= 2*time.Hour; at += 10 * time.Second {
					plan := decide(t, p, w.at(at))
					w.obey(plan)
					reasons = append(reasons, codes(plan)...)
					for _, a := range plan.Actions {
						if gone = gone || a.Machine == "w-2" && a.Kind == nodescaler.Return; a.Machine == "w-2" || a.Kind == nodescaler.Uncordon {
							continue
						}
						if a.Machine == "w-1" || c.world.Nodes[0].Name == a.Node {
							t.Fatalf("at %v: %v%s", at, lines(plan), tell(plan))
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

// A drain that is under way when something begins to hold the machine is taken back, with the reason.
func TestDrainsOfWhatIsHeldAreTakenBack(t *testing.T) {
	for _, policy := range Names() {
		t.Run(policy, func(t *testing.T) {
			w := aWorld().node("w-1", "pve1", draining).node("w-2", "pve2").pod("a", "w-1", 100, 100)
			p := build(t, Spec{Policy: policy})
			decide(t, p, w.at(0)) // it has only just begun to look
			w.Nodes[0].LocalClaims = []string{"ns/data-0"}
			expect(t, decide(t, p, w.at(time.Minute)), []string{"Uncordon w-1"}, nodescaler.MachineHeld)
		})
	}
}

func TestDrainOfOnesOwnIsTakenBackOnceItIsHeld(t *testing.T) {
	p, w := withUnneeded(t, nil), aWorld().node("w-1", "pve1")
	closed, _ := watch(t, p, w, 0, time.Hour)
	draining(&w.Nodes[0])
	w.pod("late", "w-1", 10, 1).change(also("zz-dup"))
	expect(t, decide(t, p, w.at(closed+10*time.Second)), []string{"Uncordon w-1", "Uncordon zz-dup"}, nodescaler.MachineHeld)
}

// What was to become a spare and is held can neither be stopped nor go: it is capacity.
func TestSparesThatAreHeld(t *testing.T) {
	person := func(w *world) {
		w.Machines[len(w.Machines)-1].Held = &nodescaler.Reason{Code: "ForeignDisk", Text: "scsi1 is not of its order"}
	}
	for _, c := range []struct {
		name  string
		world *world
		most  int
		want  []string
	}{
		{"one that has joined is let be a machine", oneBusy().change(making(nodescaler.Joined)).change(person), 1, []string{"Wake w-2"}},
		{"one that boots is waited for", oneBusy().change(making(nodescaler.Booting)).change(person), 1, nil},
		{"one that drifted stays, and another is made", oneBusy().spare("w-2", "pve1", drifted).change(person), 1, []string{"Buy w small pve2 to keep"}},
		{"one too many stays", oneBusy().spare("w-3", "pve1").change(person).spare("w-2", "pve1").change(person), 1, nil},
		{"one is woken", oneBusy().spare("w-2", "pve1").pod("b", "", 600, 100).change(person), 1, []string{"Wake w-2"}},
		{"none makes way", oneBusy().spare("w-2", "pve1").change(person).pod("b", "", 3000, 100).change(func(w *world) {
			w.Pools[0].Max, w.Pools[0].Shapes = 2, append(w.Pools[0].Shapes, large)
		}), 1, nil},
		{"none are kept", oneBusy().spare("w-2", "pve1").change(person), 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := lookedAt(t, withSpares(t, c.most), oneBusy())
			expect(t, decide(t, p, c.world.at(10*time.Second)), c.want)
		})
	}
}

// A pod that others are preempted for has its place: no machine is ordered for it, and its node stays.
func TestPodsThatOthersArePreemptedForHaveTheirPlace(t *testing.T) {
	for _, name := range Names() {
		w := aWorld().node("w-1", "pve1").pod("a", "w-1", 1500, 100).node("w-2", "pve2").pod("b", "w-2", 300, 100, leaving)
		w.pod("c", "", 1800, 100, func(p *nodescaler.Pod) {
			p.Nominated, p.Pinned, p.Priority = "w-2", "the scheduler makes room for it there", 100
		})
		p := build(t, Spec{Policy: name})
		for at := time.Duration(0); at < time.Hour; at += 10 * time.Minute {
			if plan := decide(t, p, w.at(at)); len(plan.Actions)+len(plan.Unplaced) > 0 {
				t.Errorf("%s: %v, and has no place for %+v", name, lines(plan), plan.Unplaced)
			}
		}
		w.Nodes[1].Ready = false // its room is not there any more
		if plan := decide(t, p, w.at(70*time.Minute)); !slices.ContainsFunc(lines(plan), func(l string) bool { return strings.HasPrefix(l, "Buy ") }) {
			t.Errorf("%s: %v", name, lines(plan))
		}
	}
}
