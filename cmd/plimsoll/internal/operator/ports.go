package operator

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/notify"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/signals"
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
	About(about client.Object, e kube.Event)
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

// Config is what an operator is made of.
type Config struct {
	Cluster Cluster
	// Admission says that this process sets what pods request as they are created.
	Admission bool
	// Identity names this process among those that may lead.
	Identity string
	// PodScaler, NodeScaler and Provider are what of the product runs.
	PodScaler, NodeScaler, Provider bool
	// Active does what is decided, for objects that say so themselves. Otherwise nothing is written
	// but statuses and events.
	Active bool
	// PriceBook is the name of the book that machines are priced by.
	PriceBook string
	// Interval is the time between two steps, unless something happens.
	Interval time.Duration
	// Nodes is the policy for all pools.
	Nodes nodepolicy.Spec
	// HandOff is how replicas that are expected are made known to whoever orders machines in our
	// place.
	HandOff kube.HandOff
	// Limit is what all machines together may cost an hour, in the price book's currency; 0 is no
	// limit.
	Limit pricing.Rate
	// Quotas are what namespaces may take of the machines.
	Quotas  []nodescaler.Quota
	Signals Signals
	// Containers are what each pod's containers were last measured to use, by namespace/name; nil
	// leaves it unknown.
	Containers func() map[string][]podscaler.ContainerUse
	Journal    loop.Journal // nil keeps none
	// Counted reads the number of the last step from where the journal is kept; nil begins at the
	// first.
	Counted func() (int, error)
	// Recording is given what every step was decided by, so that it can be decided again; nil is
	// not.
	Recording Recording
	// Fleet makes the fleet of one term of leadership. It is given what to call when another leads
	// by now. Nil makes no machines.
	Fleet func(ctx context.Context, fenced func(error)) (Fleet, error)
	// Links learn which machines there are, for readers of nodes.
	Links *Links
	// Servers are the URLs of Proxmox VE and of the API server, whose addresses no machine may get.
	Servers []string
	// ReadFile reads the files that join profiles name.
	ReadFile func(name string) ([]byte, error)
	// Serve runs beside the loop while this process leads, as the provider's server does; nil is
	// nothing.
	Serve func(ctx context.Context, f Fleet) error
	// Offer receives before every step which pools cluster-autoscaler may have, and what machines
	// cost; nil hands out none.
	Offer   func(pools []nodescaler.Pool, prices *pricing.Book) error
	Metrics *Metrics
	// Costs receives what every step saw, or that nothing was seen; nil receives neither.
	Costs Costs
	// Notify notifies people of what happens to the objects; nil does not.
	Notify Notifier
	Now    func() time.Time
	Log    *slog.Logger
}

// Signals measures workloads; signals.Reader does.
type Signals interface {
	loop.Signals
	// Configure says how each workload is measured from now on.
	Configure(sources map[string]signals.Source) error
	// Prepare measures them all.
	Prepare(ctx context.Context, now time.Time)
	// Recall reads what came of requests before now, and hands over each workload's history, or why
	// it has none. A workload of which neither is said is to be asked for again.
	Recall(ctx context.Context, now time.Time, lacks map[string]podscaler.Lack, got func(workload string, h *podscaler.History, err error))
	// Findings are what was amiss with a workload's signals then.
	Findings(workload string) []podscaler.Reason
}

// Recording keeps what steps were decided by; recording.Recorder does.
type Recording interface {
	Forget(kept recording.Remembered, nodes *nodepolicy.Spec)
	Append(o *loop.Observation, in *loop.Intent, s *loop.Step) error
}

// Costs works out what the cluster costs; costs.Exporter does. Snapshots are only to be read.
type Costs interface {
	See(s *nodescaler.Snapshot)
	Unknown()
}

// Notifier notifies people; notify.Sender does. It never waits for a receiver.
type Notifier interface {
	// Known reports whether there is a receiver of that name.
	Known(receiver string) bool
	// Tell notifies the receivers, and those of everything.
	Tell(receivers []string, n notify.Notice)
}
