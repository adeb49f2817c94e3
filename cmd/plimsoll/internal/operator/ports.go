package operator

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// Cluster is what is needed of the Kubernetes side; kube.Cluster is it.
type Cluster interface {
	loop.Cluster
	loop.Chooser
	loop.Resizer
	// Run keeps the picture of the cluster up to date, Synced waits for it, Fresh says whether it
	// is old.
	Run(ctx context.Context) error
	Synced(ctx context.Context) error
	Fresh() error
	// Wake and Changed are signalled when a step should not be waited for.
	Wake() <-chan struct{}
	Changed() <-chan struct{}

	Autoscalers() ([]*v1alpha1.WorkloadAutoscaler, error)
	Pools() ([]*v1alpha1.VMPool, error)
	PriceBooks() ([]*v1alpha1.PriceBook, error)
	Targets(ctx context.Context) ([]kube.Target, error)

	// Expect makes known that a workload is expected to want so many replicas more than its scale
	// asks for.
	Expect(ctx context.Context, workload string, more int) error

	// Approvals is where people are asked.
	Approvals() loop.Approvals
	SetStatus(ctx context.Context, o client.Object) error
	Tell(about client.Object, e kube.Event)
	// AboutPod and AboutNode send an event unless the same was sent lately, of a pod that is on
	// the node, or waits where none is named. They report whether they did.
	AboutPod(name, node string, e kube.Event) bool
	AboutNode(name string, e kube.Event) bool
	Lead(ctx context.Context, identity string, work func(context.Context)) error
}

// Fleet is what is needed of the machine side; pve.Fleet is it.
type Fleet interface {
	loop.Machines
	loop.Keeper
	loop.Rebooter
	Run(ctx context.Context)
	Configure(pools []settings.Pool, prices *pricing.Book) error
	// Rest sets in which pools nothing is to be done, so that no machine is started again either.
	Rest(pools map[string]bool)
	Paused() map[string]nodescaler.Reason
	// Braked are the pools of which no machine goes undrained, because too many would have.
	Braked() map[string]nodescaler.Reason
	// Unread are the pools that take no orders yet, for a moment, and News is signalled when that
	// is over.
	Unread() map[string]nodescaler.Reason
	News() <-chan struct{}
	Collect(ctx context.Context, spare func(pve.Orphan) bool) (pve.Report, error)
	// ForAutoscaler is the fleet as cluster-autoscaler has it.
	ForAutoscaler() loop.Machines
}

// counted is the machines as they were listed for a step.
type counted struct {
	state loop.MachineState
	err   error
	// machines that nothing takes down, by what is seen of their nodes
	held  map[string]nodescaler.Reason
	nodes []nodescaler.Node
}

// linked is a fleet that shows what it lists to whoever reads nodes.
type linked struct {
	Fleet
	links *Links
}

func (l linked) List(ctx context.Context) (loop.MachineState, error) {
	state, err := l.Fleet.List(ctx)
	if err == nil && l.links != nil {
		l.links.learn(state.Machines)
	}
	return state, err
}

// nodesAsMachines is the machine port of who makes no machines. Nothing can be ordered or returned.
type nodesAsMachines struct{}

// List lists none: which there are follows from the nodes.
func (nodesAsMachines) List(context.Context) (state loop.MachineState, err error) { return state, nil }

// of has every node that is no control plane be a machine, which has joined, at the price of what
// pods can use of it.
func (nodesAsMachines) of(nodes []nodescaler.Node) (state loop.MachineState) {
	for i := range nodes {
		node := &nodes[i]
		if _, master := node.Labels["node-role.kubernetes.io/control-plane"]; master {
			continue
		}
		name := node.Labels[corev1.LabelInstanceTypeStable]
		state.Machines = append(state.Machines, nodescaler.Machine{
			Name: node.Name, Order: node.Name, Pool: node.Pool, Phase: nodescaler.Joined, Created: node.Joined, Since: node.Joined,
			Shape: pricing.Shape{Name: name, CPU: node.Allocatable.CPU, Memory: node.Allocatable.Memory},
		})
	}
	return state
}

func (nodesAsMachines) Create(_ context.Context, o loop.Order) error {
	return fmt.Errorf("%w: no machine of pool %s can be made here", loop.ErrRefused, o.Action.Pool)
}

func (nodesAsMachines) Delete(_ context.Context, machine string) error {
	return fmt.Errorf("machine %s cannot be deleted here", machine)
}

// Links says which machine is behind a node, as of the last step. The zero Links knows of none.
type Links struct {
	at atomic.Pointer[links]
}

type links struct {
	machines []nodescaler.Machine
	ids      *nodescaler.Identities
}

// Machine is the machine and the pool behind a node: that of its provider ID, then of its system
// UUID, then of its name.
func (l *Links) Machine(n *corev1.Node) (machine, pool string) {
	known := l.at.Load()
	if known == nil {
		return "", ""
	}
	m := known.ids.Of(nodescaler.Identity{Name: n.Name, ProviderID: n.Spec.ProviderID, SystemUUID: n.Status.NodeInfo.SystemUUID}).Machine
	if m == nil {
		return "", ""
	}
	return m.Name, m.Pool
}

// Machines are those that were last listed, in no order.
func (l *Links) Machines() []*nodescaler.Machine {
	known := l.at.Load()
	if known == nil {
		return nil
	}
	all := make([]*nodescaler.Machine, len(known.machines))
	for i := range known.machines {
		all[i] = &known.machines[i]
	}
	return all
}

// learn takes over what was listed.
func (l *Links) learn(machines []nodescaler.Machine) {
	l.at.Store(&links{machines, nodescaler.NewIdentities(machines)})
}
