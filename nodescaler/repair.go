package nodescaler

import (
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Repair is which nodes of a pool are broken, so that their machines are replaced.
type Repair struct {
	// Conditions say so. The first that a node has counts.
	Conditions []Ailment `json:"conditions,omitempty"`
	// MaxUnhealthy is how many of the pool's nodes may be broken or not ready. With more of them
	// none is replaced, for what broke so many would break their replacements. Zero is
	// defaultMaxUnhealthy.
	MaxUnhealthy NodeCount `json:"maxUnhealthy,omitzero"`
	// Reboot has a machine stopped and started once before it is replaced; nil replaces it at once.
	Reboot *RebootRule `json:"reboot,omitempty"`
}

// RebootRule is for how long a node may take to be healthy again once its machine is rebooted.
type RebootRule struct {
	Within Duration `json:"within" strict:"required"`
}

// rebootAgain is how long after a reboot another one may help. A node that is unhealthy again
// before that is not one that a reboot repairs.
const rebootAgain = 24 * time.Hour

// Reboots reports whether a machine with a broken node is rebooted, and not replaced yet.
func (r *Repair) Reboots(m *Machine, now time.Time) bool {
	return r.Reboot != nil && !m.Rebooting && (m.Rebooted.IsZero() || now.Sub(m.Rebooted) >= rebootAgain)
}

// restartWithin is how long a node may take to be healthy whose machine was started again without a
// rule for reboots, since it had stopped by itself.
const restartWithin = Duration(10 * time.Minute)

// Awaits is until when a machine that was rebooted may take to be a healthy node, or zero.
func (r *Repair) Awaits(m *Machine, now time.Time) time.Time {
	if until := r.deadline(m); !m.Rebooted.IsZero() && now.Before(until) {
		return until
	}
	return time.Time{}
}

// deadline is by when a machine that was rebooted should be a healthy node.
func (r *Repair) deadline(m *Machine) time.Time {
	within := restartWithin
	if r.Reboot != nil {
		within = r.Reboot.Within
	}
	return m.Rebooted.Add(time.Duration(within))
}

// Unhelped reports whether a machine's last reboot did not help: what its node is broken by has
// lasted since before the time for it was over, and it is not rebooted again.
func (r *Repair) Unhelped(m *Machine, n *Node, now time.Time) bool {
	if m.Rebooted.IsZero() || r.Reboots(m, now) {
		return false
	}
	_, c := r.ailment(n, now)
	return c != nil && !c.Since.After(r.deadline(m))
}

// defaultMaxUnhealthy is a fifth of a pool's nodes.
var defaultMaxUnhealthy = NodeCount{N: 20, Percent: true}

// Ailment is a condition of a node that has it replaced once it has lasted for some time.
type Ailment struct {
	Type   string   `json:"type" strict:"required"`
	Status string   `json:"status" strict:"required"` // True, False or Unknown
	For    Duration `json:"for" strict:"required"`
}

// Ready is the condition of a node that is not heard, or says that it is not ready;
// networkUnavailable that of one whose network is not set up.
const (
	Ready              = "Ready"
	networkUnavailable = "NetworkUnavailable"
)

// NodeCondition is a condition of a node that says more than that all is well.
type NodeCondition struct {
	Type, Status string
	Since        time.Time
}

// registers is how long after its Node a kubelet may say its first conditions.
const registers = time.Minute

// comesUp reports whether a condition of this type only says that the node does not work yet: it is
// starting, or has not been without the condition since it joined. What keeps it from working keeps
// its replacement from it, too.
func (n *Node) comesUp(condition string, now time.Time) bool {
	if n.Ready || condition != Ready && condition != networkUnavailable {
		return false
	}
	return n.Starting(now, NodeStartup) || slices.ContainsFunc(n.Conditions, func(c NodeCondition) bool {
		return (c.Type == Ready || c.Type == networkUnavailable) && c.Since.Sub(n.Joined) <= registers
	})
}

// Ails is why the node is broken, or nil.
func (r *Repair) Ails(n *Node, now time.Time) *Reason {
	a, c := r.ailment(n, now)
	if c == nil {
		return nil
	}
	return reason(MachineUnhealthy, "node %s has condition %s=%s since %s, for %s or more", n.Name, c.Type, c.Status, c.Since.UTC().Format(time.RFC3339), pricing.Short(time.Duration(a.For)))
}

// ailment is what the node is broken by, and since when it has that, or nil.
func (r *Repair) ailment(n *Node, now time.Time) (*Ailment, *NodeCondition) {
	for i := range r.Conditions {
		a := &r.Conditions[i]
		if n.comesUp(a.Type, now) {
			continue
		}
		for j := range n.Conditions {
			if c := &n.Conditions[j]; c.Type == a.Type && c.Status == a.Status && now.Sub(c.Since) >= time.Duration(a.For) {
				return a, c
			}
		}
	}
	return nil, nil
}

// Halted is why none of the pool's nodes is replaced for being broken, or nil.
func (p *Pool) Halted(nodes []Node, now time.Time) *Reason {
	r := &p.Disruption.Repair
	all, bad := 0, 0
	for i := range nodes {
		n := &nodes[i]
		if n.Pool != p.Name || n.Machine == "" || n.Starting(now, NodeStartup) {
			continue
		}
		if all++; !n.Ready || r.Ails(n, now) != nil {
			bad++
		}
	}
	most := r.MaxUnhealthy
	if most == (NodeCount{}) {
		most = defaultMaxUnhealthy
	}
	if len(r.Conditions) == 0 || bad <= most.Of(all) {
		return nil
	}
	return reason(RepairHalted, "%d of pool %s's %d nodes are unhealthy or not ready, more than its maxUnhealthy of %s: none is replaced for that", bad, p.Name, all, most)
}
