package policy

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
)

// sick is a pool that has machines rebooted, and a node with a condition since long.
func sick(kind, status string) *sample.World {
	w := sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Pod("p", "w-1", 100, 100).Pod("q", "w-2", 1500, 100)
	w.Pools[0].Disruption.Repair = nodescaler.Repair{
		Conditions: []nodescaler.Ailment{{Type: kind, Status: status, For: nodescaler.Duration(15 * time.Minute)}},
		Reboot:     &nodescaler.RebootRule{Within: nodescaler.Duration(10 * time.Minute)},
	}
	w.Nodes[0].Conditions = []nodescaler.NodeCondition{{Type: kind, Status: status, Since: w.Now.Add(-15 * time.Minute)}}
	w.Nodes[0].Ready = kind != nodescaler.Ready
	return w
}

// A node that is not ready has its machine rebooted with what it holds, and then replaced as
// without a reboot if that did not help.
func TestSilentNodesAreRebootedOnce(t *testing.T) {
	for _, policy := range []string{"unneeded", "joint"} {
		w := sick(nodescaler.Ready, "Unknown")
		w.Pools[0].Min = 2 // nothing is lost by a reboot
		p := sample.LookedAt(t, build(t, Spec{Policy: policy}), w)
		plan := sample.Decide(t, p, w.At(15*time.Second))
		sample.Expect(t, plan, []string{"Reboot w-1"}, nodescaler.MachineUnhealthy, nodescaler.RebootFirst)
		w.Machines[0].Rebooted, w.Pools[0].Min = w.Now.Add(15*time.Second), 0
		sample.Expect(t, sample.Decide(t, p, w.At(30*time.Second)), nil, nodescaler.RebootAwaited)
		sample.Expect(t, sample.Decide(t, p, w.At(10*time.Minute)), nil, nodescaler.RebootAwaited)
		sample.Expect(t, sample.Decide(t, p, w.At(10*time.Minute+15*time.Second)), []string{"Cordon w-1"}, nodescaler.MachineUnhealthy)
		sample.Draining(&w.Nodes[0])
		sample.Expect(t, sample.Decide(t, p, w.At(11*time.Minute)), []string{"Return w-1"}, nodescaler.MachineUnhealthy)
	}
}

// A machine that has stopped by itself is started before it is replaced, with a rule for reboots or
// without.
func TestMachinesThatAreStartedAgainAreNotReplaced(t *testing.T) {
	for _, reboot := range []*nodescaler.RebootRule{nil, {Within: nodescaler.Duration(10 * time.Minute)}} {
		w := sick(nodescaler.Ready, "Unknown")
		w.Pools[0].Disruption.Repair.Reboot = reboot
		w.Machines[0].Rebooting = true
		p := sample.LookedAt(t, build(t, Spec{Policy: "unneeded"}), w)
		sample.Expect(t, sample.Decide(t, p, w.At(30*time.Minute)), nil, nodescaler.RebootAwaited)
		w.Machines[0].Rebooting, w.Machines[0].Rebooted = false, w.Now.Add(30*time.Minute)
		sample.Expect(t, sample.Decide(t, p, w.At(39*time.Minute)), nil, nodescaler.RebootAwaited)
		sample.Expect(t, sample.Decide(t, p, w.At(41*time.Minute)), []string{"Cordon w-1"}, nodescaler.MachineUnhealthy)
	}
}

// What a process does not remember it sees of the machine.
func TestRebootIsSeenOfTheMachine(t *testing.T) {
	for _, c := range []struct {
		name     string
		rebooted time.Duration
		want     []string
		reason   string
	}{
		{"just now", time.Minute, nil, nodescaler.RebootAwaited},
		{"in vain", 11 * time.Minute, []string{"Cordon w-1"}, nodescaler.MachineUnhealthy},
		{"yesterday", 25 * time.Hour, []string{"Reboot w-1"}, nodescaler.RebootFirst},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sick(nodescaler.Ready, "Unknown")
			w.Machines[0].Rebooted = w.Now.Add(-c.rebooted)
			p := sample.LookedAt(t, build(t, Spec{Policy: "joint"}), w)
			sample.Expect(t, sample.Decide(t, p, w.At(15*time.Second)), c.want, c.reason)
		})
	}
}

// A node that is ready is emptied first, and opened again once it is healthy.
func TestSickNodesAreEmptiedRebootedAndOpened(t *testing.T) {
	for _, policy := range []string{"unneeded", "joint"} {
		for _, helps := range []bool{true, false} {
			w := sick("KernelDeadlock", "True")
			w.Pools[0].Min = 2
			p := sample.LookedAt(t, build(t, Spec{Policy: policy}), w)
			sample.Expect(t, sample.Decide(t, p, w.At(15*time.Second)), []string{"Cordon w-1", "Evict p"}, nodescaler.MachineUnhealthy)
			sample.Draining(&w.Nodes[0])
			w.Pods = w.Pods[1:]
			sample.Expect(t, sample.Decide(t, p, w.At(45*time.Second)), []string{"Reboot w-1"}, nodescaler.RebootFirst)
			w.Machines[0].Rebooted, w.Machines[0].Rebooting = w.Now.Add(45*time.Second), true
			sample.Expect(t, sample.Decide(t, p, w.At(time.Minute)), nil, nodescaler.RebootAwaited)
			w.Machines[0].Rebooting = false
			sample.Expect(t, sample.Decide(t, p, w.At(2*time.Minute)), nil, nodescaler.RebootAwaited)
			if helps {
				w.Nodes[0].Conditions = nil
				sample.Expect(t, sample.Decide(t, p, w.At(3*time.Minute)), []string{"Uncordon w-1"}, nodescaler.RebootHelped)
				continue
			}
			w.Pools[0].Min = 0
			sample.Expect(t, sample.Decide(t, p, w.At(11*time.Minute)), []string{"Return w-1"}, nodescaler.MachineUnhealthy)
		}
	}
}

// A node whose pods have no place elsewhere is replaced at once: a machine is ordered for them
// anyhow.
func TestSickNodeWithoutPlacesForItsPodsIsReplaced(t *testing.T) {
	w := sick("KernelDeadlock", "True")
	w.Pods[0].Requests.CPU = 1000
	p := sample.LookedAt(t, build(t, Spec{Policy: "joint"}), w)
	plan := sample.Decide(t, p, w.At(15*time.Second))
	sample.Expect(t, plan, []string{"Buy w small pve3"}, nodescaler.ReplacementOrdered)
}

// No plan reboots what its pool does not have rebooted, a node that is ready and not empty, nor
// what is held.
func TestRebootsThatMustNotBe(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*sample.World)
		want   []string
	}{
		{"a silent node", func(*sample.World) {}, nil},
		{"a pool without", func(w *sample.World) { w.Pools[0].Disruption.Repair.Reboot = nil }, []string{nodescaler.RebootNotAsked}},
		{"a second one", func(w *sample.World) { w.Machines[0].Rebooted = w.Now }, []string{nodescaler.RebootNotAsked}},
		{"a ready node", func(w *sample.World) { w.Nodes[0].Ready = true }, []string{nodescaler.NodeNotCordoned, nodescaler.NodeHoldsPods}},
		{"a held machine", func(w *sample.World) { w.Machines[0].Held = &nodescaler.Reason{Code: "Held", Text: "by ann"} }, []string{nodescaler.HeldMachine}},
		{"no node", func(w *sample.World) { w.Machines[0].Phase = nodescaler.Spare }, []string{nodescaler.NotJoined}},
		{"a pool that is paused", func(w *sample.World) {
			w.Pools[0].HeldDown = &nodescaler.Reason{Code: "Paused", Text: "by ann"}
		}, []string{nodescaler.PoolHeld}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sick(nodescaler.Ready, "Unknown")
			w.Change(c.change)
			plan := nodescaler.Plan{Actions: []nodescaler.Action{{
				Kind: nodescaler.Reboot, Machine: "w-1", Node: "w-1", Pool: "w", Reasons: []nodescaler.Reason{{Code: "C", Text: "t"}},
			}}}
			var got []string
			for _, v := range nodescaler.Check(nodescaler.NewIndex(w.At(0)), plan) {
				got = append(got, v.Code)
			}
			if len(got) != len(c.want) {
				t.Fatalf("found %v, want %v", got, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("found %v, want %v", got, c.want)
				}
			}
		})
	}
}
