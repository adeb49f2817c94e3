package planner

import (
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
)

// A pool may ask for a reboot before a machine is replaced whose node is unhealthy. A node that is
// ready is emptied first, as if its machine were to go; one that is not ready has nothing that can
// be moved. When the machine was last rebooted is observed of it. So a process that starts knows
// which machines had their reboot, and takes back a drain that it does not know, as any other.

// reboots reports whether a machine whose node is unhealthy is rebooted, and not replaced yet.
func (t *turn) reboots(n *nodescaler.NodeLoad) bool {
	p := t.X.Pool(n.VM.Pool)
	return p != nil && p.Disruption.Repair.Reboots(n.VM, t.X.Now)
}

// rebootsOnceEmpty reports whether the node is emptied for a reboot.
func (t *turn) rebootsOnceEmpty(n *nodescaler.NodeLoad) bool {
	return t.ends[n.Name].Code == nodescaler.MachineUnhealthy && t.reboots(n)
}

// rebooted says until when a node may take to be healthy again after a reboot, or nil.
func (t *turn) rebooted(n *nodescaler.NodeLoad) *nodescaler.Reason {
	p := t.X.Pool(n.VM.Pool)
	if p == nil {
		return nil
	}
	if n.VM.Rebooting { // the fleet itself gives up one that takes too long
		r := draft.Because(nodescaler.RebootAwaited, "its machine is rebooted, or started after it stopped")
		return &r
	}
	until := p.Disruption.Repair.Awaits(n.VM, t.X.Now)
	if until.IsZero() {
		return nil
	}
	r := draft.Because(nodescaler.RebootAwaited, "its machine was rebooted at %s, and its node has until %s to be healthy",
		n.VM.Rebooted.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339))
	return &r
}

// reboot has a machine stopped and started.
func (t *turn) reboot(n *nodescaler.NodeLoad, why nodescaler.Reason) {
	p := t.X.Pool(n.VM.Pool)
	t.Act(nodescaler.Action{
		Kind: nodescaler.Reboot, Machine: n.VM.Name, Node: n.Name, Pool: n.VM.Pool, Host: n.VM.Host,
		Reasons: []nodescaler.Reason{why, draft.Because(nodescaler.RebootFirst, "pool %s has it rebooted first: its node has %s to be healthy, or it is replaced",
			p.Name, pricing.Short(time.Duration(p.Disruption.Repair.Reboot.Within)))},
	})
}

// afterReboot opens a node that was emptied for a reboot once it is healthy, and reports whether it
// is still waited for, or open. Its drain goes on otherwise, and ends with its machine.
func (t *drainer) afterReboot(n *nodescaler.NodeLoad) bool {
	p := t.X.Pool(n.VM.Pool)
	if p == nil || t.ends[n.Name].Code != nodescaler.MachineUnhealthy || n.VM.Rebooted.Before(t.drains[n.Name]) {
		return false
	}
	ails := p.Disruption.Repair.Ails(n.Node, t.X.Now)
	switch waits := t.rebooted(n); {
	case n.Ready && !n.VM.Rebooting && ails == nil:
		t.Uncordon(n, draft.Because(nodescaler.RebootHelped, "%s is healthy since its machine was rebooted", n.Name))
	case waits != nil:
		t.Note(waits.Code, "%s stays closed: %s", n.Name, waits.Text)
	default:
		return false
	}
	return true
}
