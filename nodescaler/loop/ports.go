package loop

import (
	"context"
	"errors"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
)

// Ports are what a step sees through and acts through.
type Ports struct {
	Cluster  Cluster
	Machines Machines
	Signals  Signals
	// Approvals is where people are asked; nil asks no one, and so does nothing that asks first.
	Approvals Approvals
	// Histories is where what came before is read; nil is nowhere.
	Histories Histories
	// Uses is what containers were last measured to use, by pod; nil knows of none.
	Uses func() map[string][]podscaler.ContainerUse
}

// Observation is what the ports answered at one moment.
type Observation struct {
	Time     time.Time
	Cluster  ClusterState
	Machines MachineState
	// ClusterErr and MachinesErr are why the one or the other is not known.
	ClusterErr, MachinesErr error
	// Windows are what was measured of the workloads whose turn it is (Memory.Due), by name.
	Windows map[string]Measured
	// Histories are what came before of workloads whose policies lack it, by name.
	Histories map[string]*podscaler.History
	// Sizes are what the pods request whose sizes are looked at, and Uses what containers use, by
	// pod: of those namespaces where either sizes or a policy goes by it.
	Sizes map[string]rightsize.Pod
	Uses  map[string][]podscaler.ContainerUse
}

// Measured is what was measured of a workload, or why that is not known.
type Measured struct {
	podscaler.Window
	Err error
}

// Cluster is the Kubernetes side: what runs, and the four things that are done to it.
type Cluster interface {
	// Observe returns the cluster as it is now, sorted by name.
	Observe(ctx context.Context) (ClusterState, error)
	// SetReplicas writes the scale subresource of a workload.
	SetReplicas(ctx context.Context, workload string, replicas int) error
	// SetDraining cordons a node and marks it as being emptied by us, or takes both back.
	SetDraining(ctx context.Context, node string, draining bool) error
	// Evict asks for a pod to be moved, through the disruption budgets; ErrBudget when they
	// do not allow it now.
	Evict(ctx context.Context, pod string) error
}

// Chooser is a Cluster that marks which pods of a workload are to go first when it shrinks,
// as far as nothing weighs more with Kubernetes. An earlier choice is forgotten. Workloads whose
// pods go in an order of their own are left alone.
type Chooser interface {
	Choose(ctx context.Context, workload string, pods []string) error
}

// Parallel is a Cluster in which the replicas of several workloads are written at once. A write
// may take a tenth of a second, and orders of machines come after them all.
type Parallel interface {
	AtOnce() int
}

// PodDeleter is a Cluster that deletes pods past their disruption budgets, for drains that have an
// end.
type PodDeleter interface {
	// DeletePod has a pod end within a time.
	DeletePod(ctx context.Context, pod string, grace time.Duration) error
}

// ClusterState is the cluster at one moment.
type ClusterState struct {
	Nodes    []nodescaler.Node
	Pods     []nodescaler.Pod
	Replicas map[string]int // what each workload's scale subresource asks for
	// Rollouts are the changes of workloads' pods that are under way; a cluster need not know them.
	Rollouts map[string]podscaler.Rollout
	// Failing says of workloads why their controller cannot create the pods that are asked for. A
	// cluster need not know.
	Failing map[string]string
	// Ordered are the workloads whose controller makes a pod once all before it are ready. A
	// cluster need not know.
	Ordered map[string]bool `json:",omitempty"`
	Budgets []nodescaler.Budget
	// Proposals are what people are asked and have answered, by namespace and name.
	Proposals []approval.Proposal `json:",omitempty"`
	// Headroom is room that is to be kept free, by name.
	Headroom []nodescaler.Headroom
	// Placed is how many placeholders of each workload are on a node. Placeholders keep the places
	// of replicas that are expected; they are no pods, and what they take is free.
	Placed map[string]int
	// Daemons is what DaemonSets and static pods take of a new node of the pool; nil is nothing.
	Daemons func(p *nodescaler.Pool) nodescaler.Daemons `json:"-"`
}

// ErrUnread is what Machines.List wraps until it was first tried to read them: that they are not
// known yet is no fault.
var ErrUnread = errors.New("not read yet, as in the first step after a start")

// Machines is the virtualisation side. No call waits for the machine: an order is accepted or
// refused, and how far it has come is seen in the next List.
type Machines interface {
	List(ctx context.Context) (MachineState, error)
	// Create orders a machine. A second call with the same order is no second machine. An error
	// that wraps ErrRefused says that there surely is no machine; after any other there may be.
	Create(ctx context.Context, o Order) error
	// Delete gives a machine back, and its node object with it.
	Delete(ctx context.Context, machine string) error
}

// Keeper is Machines that can be kept as spares: stopped, and started again. Like the others these
// calls wait for nothing: what has come of them is seen in List.
type Keeper interface {
	// Stash shuts a machine down and keeps it. From then on it is a spare.
	Stash(ctx context.Context, machine string) error
	// Wake starts a spare. Of a machine that was ordered to become a spare and is not yet, it only
	// takes that back. Either of them called twice does no more than once.
	Wake(ctx context.Context, machine string) error
}

// Rebooter is Machines that can be stopped and started again. Like the others the call waits for
// nothing: what has come of it is seen in List.
type Rebooter interface {
	Reboot(ctx context.Context, machine string) error
}

// MachineState is the hosts and our machines at one moment, sorted by name.
type MachineState struct {
	Hosts    []nodescaler.Host
	Machines []nodescaler.Machine
	// Refused is what orders would be refused now with any room of the hosts, by pool, as far as
	// that is known.
	Refused map[string][]nodescaler.RefusedOrder
	// Revisions are those of the pools that machines were compared with, to say which drifted.
	Revisions map[string]string
	// Soon are the pools that can be ordered from in a moment, and why they cannot now.
	Soon map[string]nodescaler.Reason
}

// Order is a machine to be made.
type Order struct {
	ID     string // also the end of the machine's name: never used twice
	Action nodescaler.Action
	At     time.Time
}

// Signals reads what was measured of a workload.
type Signals interface {
	Read(ctx context.Context, w *podscaler.Workload, now time.Time) (podscaler.Window, error)
}

// Histories reads what came before a policy was made. Like the signals it is not waited for.
type Histories interface {
	// History hands over what a workload's policy lacks, once. Nil is not there yet: it is read
	// until a later step.
	History(w *Workload, lack podscaler.Lack) *podscaler.History
}

// Approvals is where people are asked.
type Approvals interface {
	// Propose makes a proposal.
	Propose(ctx context.Context, c *approval.Change) error
	// Claim notes that an approval is followed, and fails if the proposal is not as it was
	// observed.
	Claim(ctx context.Context, p *approval.ProposalRef, by string) error
	// Close notes that nothing is done by a proposal. One that has changed is left as it is.
	Close(ctx context.Context, c *approval.Closed) error
	// Remove deletes a proposal.
	Remove(ctx context.Context, p *approval.ProposalRef) error
}
