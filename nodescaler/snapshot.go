package nodescaler

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Snapshot is what one step observed. It is built once, sorted by name throughout, and
// never written to: policies copy what they change.
type Snapshot struct {
	Now time.Time
	// Jumped is when the clock was observed to jump; zero is never. Times before it are wrong.
	Jumped   time.Time `json:",omitzero"`
	Pools    []Pool
	Hosts    []Host
	Machines []Machine
	Nodes    []Node
	Pods     []Pod
	// Unhelped says of pending pods, by name, why no machine is ordered for them for now: a node
	// with room did not help them.
	Unhelped map[string]string `json:",omitempty"`
	// Future are replicas already decided on that do not exist as pods yet.
	Future  []Future
	Budgets []Budget
	// Headroom is room that is to be kept free, by name.
	Headroom []Headroom `json:",omitempty"`
	// Prices is the price book; nil is pricing.DefaultBook.
	Prices *pricing.Book
	// Limit is what all machines together may cost an hour; 0 is no limit.
	Limit pricing.Rate
	// Quotas limit what namespaces may take. Ordered counts the machines ordered for each in the
	// last hour.
	Quotas  []Quota        `json:",omitempty"`
	Ordered map[string]int `json:",omitempty"`
}

// Pool is a set of machines that are made alike, with its limits.
type Pool struct {
	Name   string
	Shapes []pricing.Shape
	// Reserved is what the system and the kubelet take of every node, and Daemons what DaemonSets
	// and static pods take of what is left.
	Reserved pricing.Resources
	Daemons  Daemons `json:",omitzero"`
	// PodSlots is how many pods a node takes, of any size; 0 is Kubernetes' 110.
	PodSlots int
	// Extra is what each machine will have besides CPU and memory: devices, huge pages. Without an
	// entry for ephemeral storage the shape's disk counts. Seen is what nodes were observed to
	// have, by shape, and Allocatable the CPU and memory that their pods may use, where that is
	// less than the shape without Reserved; NewIndex fills them in.
	Extra pricing.Amounts                   `json:",omitempty"`
	Seen  map[pricing.Shape]pricing.Amounts `json:"-"`

	Allocatable map[pricing.Shape]pricing.Resources `json:"-"`

	Min, Max int
	// Closed is why the pool makes no machines for now, such as failures in a row; nil if it does.
	// Its existing machines remain usable, and its spares can be woken.
	Closed *Reason `json:",omitempty"`
	// HeldUp and HeldDown are the reasons why the pool gains or loses no capacity for now, such as
	// a pause. A pool that is held up makes no machines and wakes no spares. One that is held down
	// drains, stops and deletes none. Policies plan around both: pods that waited for such a pool
	// might wait for ever.
	HeldUp, HeldDown *Reason `json:",omitempty"`
	// Resumed is when a person last resumed the pool: what failed before counts no more.
	Resumed time.Time `json:",omitzero"`
	// Refused are the orders that an open pool refuses for now.
	Refused []RefusedOrder `json:",omitempty"`
	// Hosts names the hosts that may carry the pool's machines; empty for all.
	Hosts []string
	// Maintenance names hosts that keep what they have of the pool and get nothing new: no machine
	// is made there, and no spare woken.
	Maintenance []string `json:",omitempty"`
	// Labels are all that the pool's nodes will carry, including the well-known ones, so that
	// selectors can be matched before a node exists.
	Labels map[string]string
	// HostIsZone is set where each node will carry the host of its machine as its zone. NewIndex
	// sets it by what nodes of the pool show.
	HostIsZone bool `json:",omitempty"`
	// ShapeIsType is set where each node will carry the name of its shape as its instance type, and
	// the pool has several shapes. NewIndex clears it where nodes of the pool show another type.
	ShapeIsType bool `json:",omitempty"`
	Taints      []Taint
	// Disruption is what may end machines that work.
	Disruption Disruption `json:",omitzero"`
	// Rolling is what its rollout goes by, and how far it is.
	Rolling Rolling `json:",omitzero"`
}

// Daemons are pods that come with every machine of a pool: what static pods take, and a pod of each
// DaemonSet.
type Daemons struct {
	Static Used   `json:",omitzero"`
	Sets   []*Pod `json:",omitempty"`
}

// RefusedOrder is a kind of order that a pool refuses for now, and why.
type RefusedOrder struct {
	Shape pricing.Shape // of this shape; the zero value is any
	Host  string        // on this host; empty is any
	Why   Reason
}

// All reports whether the pool makes no machine at all.
func (r *RefusedOrder) All() bool { return r.Shape == pricing.Shape{} && r.Host == "" }

// Host is a physical machine, as it is now.
type Host struct {
	pricing.Host
	Online bool
	// Cordoned hosts keep their machines and take no new ones.
	Cordoned bool
}

// Phase is how far a machine has come.
type Phase string

// The phases of a machine's life, in order; Failed is the other way out, and Spare a way back to
// Booting.
const (
	Ordered  Phase = "Ordered"  // asked for; cloning, or waiting to
	Booting  Phase = "Booting"  // started, not yet a node
	Joined   Phase = "Joined"   // a node of the cluster
	Spare    Phase = "Spare"    // was a node, and is stopped: kept to be started again
	Deleting Phase = "Deleting" // being stopped and destroyed
	Failed   Phase = "Failed"   // will never join; to be returned
)

// Machine is a virtual machine of ours, from the order until it is gone.
type Machine struct {
	Name string
	// ProviderID is what its node carries, or will carry, as spec.providerID. It is known from
	// the order on; empty where nothing has to find a machine by it.
	ProviderID string
	// SystemUUID is what the node's system management BIOS reports; empty if unknown.
	SystemUUID string `json:",omitempty"`
	// Held is why the machine must not be drained, stopped or destroyed; nil if it is not held.
	// See Index.Hold.
	Held *Reason `json:",omitempty"`
	// LostIDs are provider IDs that were reserved for the machine until another VM took their
	// VMIDs. A client that was given one must learn that it is void: no node will ever carry it.
	LostIDs []string
	Order   string // the order it came from; carried by name, tags and notes
	Pool    string
	Shape   pricing.Shape
	Host    string
	Phase   Phase
	// Created is when the order was accepted: machines are paid for from then on.
	Created time.Time
	Since   time.Time // when Phase last changed
	Problem string    // what went wrong, when something did
	// NoRoom is set when that was a lack of room: another host, pool or hour may have some.
	NoRoom bool
	// Removed is set when it was that another client removed the VM.
	Removed bool `json:",omitempty"`
	// Keep marks a machine that was ordered to become a spare: it joins and is stashed. Until it is
	// woken it is no capacity, in any phase.
	Keep bool
	// Woken is when it was last started from being a spare; zero is never.
	Woken time.Time
	// Rebooted is when its last reboot was asked for; zero is never, or not known. Rebooting is set
	// until it was started again.
	Rebooted  time.Time `json:",omitzero"`
	Rebooting bool      `json:",omitempty"`
	// Drifted is how the machine differs from what its pool would make now; empty if it does not,
	// or if that is unknown. A drifted spare must not be woken.
	Drifted string
}

// Kept reports whether the machine is a spare, or on its way to become one. It is no capacity.
func (m *Machine) Kept() bool {
	return m.Phase == Spare || m.Keep && m.Phase.Live()
}

// Waking reports whether the machine was a spare and is starting: its Node exists and is not Ready.
func (m *Machine) Waking() bool { return m.Phase == Booting && !m.Woken.IsZero() }

// Node is a cluster node, on one of our machines or on any other.
type Node struct {
	Name       string
	Machine    string // the machine's name; empty for nodes that are not ours
	ProviderID string `json:",omitempty"`
	SystemUUID string `json:",omitempty"`
	// LocalClaims are claims whose volumes lie on the node's own disk, as namespace/name, but for
	// those that may be lost. They go with the machine, whether or not a pod uses them now.
	LocalClaims []string `json:",omitempty"`
	// ClaimsUnknown is set where the cluster's volumes could not be read.
	ClaimsUnknown bool `json:",omitempty"`
	Pool          string
	Allocatable   pricing.Resources
	// Extra is what is allocatable besides: devices, huge pages, ephemeral storage.
	Extra pricing.Amounts `json:",omitempty"`
	// Devices is how many devices its ResourceSlices list, of any DeviceClass.
	Devices  int `json:",omitempty"`
	PodSlots int // 0 is Kubernetes' 110
	Labels   map[string]string
	Taints   []Taint
	Ready    bool
	// Cordoned nodes take no new pods. Draining ones were cordoned by us, to be emptied and
	// returned; that mark is kept on the node, so that it outlives the process.
	Cordoned bool
	Draining bool
	Joined   time.Time
	// Conditions are those by which it says more than that all is well.
	Conditions []NodeCondition `json:",omitempty"`
	// Attached are the volumes that are attached to it, but for those of its daemons.
	Attached []string `json:",omitempty"`
	// Pinned is why the node's machine is not to go while it works: an annotation of its owner.
	Pinned string `json:",omitempty"`
}

// NodeStartup is how long a new node may be not ready, because its network comes up last.
const NodeStartup = 15 * time.Minute

// StartupTaint reports whether a taint of this key means that a node is not working yet, or not any
// more. It is removed once the node works. A node with one is not ready: it is waited for. Taken
// like other taints, it would have machines ordered for pods that only wait until it goes, or none
// from a pool whose nodes register with it.
func StartupTaint(key string) bool {
	prefix, name, _ := strings.Cut(key, "/")
	switch prefix {
	case "startup-taint.cluster-autoscaler.kubernetes.io", "ignore-taint.cluster-autoscaler.kubernetes.io", "readiness.k8s.io":
		return true
	case "node.kubernetes.io":
		return slices.Contains([]string{"not-ready", "unreachable", "network-unavailable"}, name)
	case "node.cloudprovider.kubernetes.io":
		return slices.Contains([]string{"uninitialized", "shutdown"}, name)
	}
	return name == "agent-not-ready" || name == "not-ready" // of Cilium, Istio and storage drivers
}

// Starting reports whether the node is not ready and younger than a time.
func (n *Node) Starting(now time.Time, within time.Duration) bool {
	return !n.Ready && now.Sub(n.Joined) < within
}

// Pod is a pod as the scheduler sees it, with what its workload sees in it.
type Pod struct {
	podscaler.Pod
	Workload string // owner, as namespace/name; empty for a bare pod
	Node     string // empty until it is bound
	// Nominated is the node on which the scheduler makes room for the pod: those that it preempts
	// are leaving.
	Nominated string `json:",omitempty"`
	Requests  pricing.Resources
	Extra     pricing.Amounts `json:",omitempty"` // what it asks for besides
	Priority  int
	// DeletionCost is what its annotation controller.kubernetes.io/pod-deletion-cost says.
	DeletionCost int32 `json:",omitempty"`
	// Unschedulable is set once the scheduler has tried and found no node.
	Unschedulable bool
	Created       time.Time
	Selector      map[string]string
	// Affinity is its required node affinity, or nil. Volumes is that of its volumes and of the
	// devices that it was allocated.
	Affinity    Affinity   `json:",omitzero"`
	Volumes     []Affinity `json:",omitempty"`
	Tolerations []Toleration
	// Another is what the claims of another replica would ask for; nil if that is the same.
	Another *Claims `json:",omitempty"`
	// Has are the marks by which other pods may refuse to share a node with it, and Repels those
	// that it refuses to share one with: labels, by anti-affinity, and ports of the node. Both are
	// sorted.
	Has    []string `json:",omitempty"`
	Repels []string `json:",omitempty"`
	// Topology are the rules by which it is to be spread, or kept apart, over nodes and zones.
	Topology []Topology `json:",omitempty"`
	// Prefers are its preferences, and Noted the marks by which others prefer its node or avoid it.
	Prefers []Preference `json:",omitempty"`
	Noted   []string     `json:",omitempty"`
	// Daemon pods come with every node, and leave with it; they hold no node back. Foreign ones are
	// daemons by their own word alone, so quotas count them.
	Daemon  bool
	Foreign bool `json:",omitempty"`
	// Pinned pods must not be evicted: bare, with local storage, or marked by their owner.
	// The text is why.
	Pinned string
	// Unbudgeted pods are evicted regardless of what their disruption budget has left, and take
	// nothing of it: they do not serve yet, or no more, and the budget lets such pods go.
	Unbudgeted bool `json:",omitempty"`
	// Grace is how long its processes have to end; 0 is DefaultGrace.
	Grace time.Duration `json:",omitempty"`
}

// DefaultGrace is how long the processes of a pod have to end that says nothing else.
const DefaultGrace = 30 * time.Second

// Counts reports whether quotas count the pod.
func (p *Pod) Counts() bool { return !p.Daemon || p.Foreign }

// GracePeriod is how long the pod's processes have to end.
func (p *Pod) GracePeriod() time.Duration { return cmp.Or(p.Grace, DefaultGrace) }

// Claims is what the claims of a pod ask of its node: what their volumes and devices require, and
// how much besides CPU and memory the pod asks for with them. Selector has SelectNowhere where no
// node has what they ask for.
type Claims struct {
	Volumes  []Affinity        `json:",omitempty"`
	Extra    pricing.Amounts   `json:",omitempty"`
	Selector map[string]string `json:",omitempty"`
}

// Future is a number of like pods that are decided on and do not exist yet, and how many more are
// expected to be wanted once a machine that is ordered now could carry them.
type Future struct {
	Like         Pod
	Count, Ahead int
}

// Budget is how many pods of a workload may be away at once.
type Budget struct {
	Workload string
	// Allowed is how many more pods may be evicted now.
	Allowed int
}

// Taint keeps pods away that do not tolerate it. Effect is NoSchedule or NoExecute;
// PreferNoSchedule makes no node infeasible and is omitted.
type Taint struct {
	Key, Value, Effect string
}

// Toleration lets a pod onto nodes with a taint. An empty Key tolerates every taint, an empty
// Value every value (Exists), an empty Effect every effect.
type Toleration struct {
	Key, Value, Effect string
	// Exact has an empty Value tolerate that value only.
	Exact bool `json:",omitempty"`
}
