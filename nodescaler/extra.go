package nodescaler

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Room is the free capacity of a machine, and the marked pods on it.
type Room struct {
	Free  pricing.Resources
	Extra pricing.Amounts
	Slots int
	Crowd Crowd
}

// Has reports whether machines of the pool have any of a resource.
func (p *Pool) Has(name string) bool {
	return slices.ContainsFunc(p.Shapes, func(s pricing.Shape) bool { return p.Extras(s).Of(name) > 0 })
}

// anyDisk is the ephemeral storage of machines whose disk is unknown.
var anyDisk = pricing.Amounts{{Name: pricing.EphemeralStorage, N: pricing.Boundless}}

// AttachableVolumes begins the name of an amount: how many volumes of a storage driver, whose name
// follows, a node can attach. Once one node has a limit every node has the amount; without a limit
// of its own it is Boundless. What several pods use they ask for as a pricing.Shared unit.
const AttachableVolumes = "attachable-volumes/"

// DeviceClass begins the name of an amount: how many devices of a DeviceClass, whose name follows.
// Kubernetes has the same name for them as an extended resource.
const DeviceClass = "deviceclass.resource.kubernetes.io/"

// WithDevices returns the nodes with as many devices of each class as their pools promise, and as
// their drivers publish. Which of the published ones are of the class is not looked at.
func WithDevices(nodes []Node, pools []Pool) []Node {
	promised := map[string]pricing.Amounts{} // by pool
	for i := range pools {
		var classes pricing.Amounts
		for _, x := range pools[i].Extra {
			if strings.HasPrefix(x.Name, DeviceClass) {
				classes = append(classes, x)
			}
		}
		if len(classes) > 0 {
			promised[pools[i].Name] = classes
		}
	}
	if len(promised) == 0 {
		return nodes
	}
	nodes = slices.Clone(nodes)
	for i := range nodes {
		n := &nodes[i]
		for _, x := range promised[n.Pool] {
			if has := min(x.N, int64(n.Devices)); has > 0 && n.Extra.Of(x.Name) == 0 {
				n.Extra = n.Extra.Plus(pricing.Amounts{{Name: x.Name, N: has}})
			}
		}
	}
	return nodes
}

// Extras is what a new machine of the shape has besides CPU and memory. That is what nodes of the
// shape were observed to have, or what the pool says, with the part of the disk that pods may use.
func (p *Pool) Extras(s pricing.Shape) pricing.Amounts {
	if seen, is := p.Seen[s]; is {
		return seen
	}
	switch {
	case len(p.Extra) == 0 && s.Disk == 0:
		return anyDisk
	case p.Extra.Of(pricing.EphemeralStorage) != 0:
		return p.Extra
	case s.Disk == 0:
		return p.Extra.Plus(anyDisk)
	}
	return p.Extra.Plus(pricing.Amounts{{Name: pricing.EphemeralStorage, N: forPods(s.Disk)}})
}

// forPods is the part of a disk that pods may use. It excludes the operating system, the twentieth
// that a file system reserves, and the tenth below which the kubelet evicts. An estimate that is
// too low orders larger machines than necessary; one that is too high orders machines that do not
// help.
func forPods(disk pricing.Bytes) int64 {
	return max(1, int64(disk-pricing.GiB)/20*17)
}

// see records what nodes of a shape have, once one of them is old enough to report it. If none of
// them has what the pool promises, a further machine would not have it either.
func (p *PoolSize) see(s pricing.Shape, n *Node) {
	if p.Seen == nil {
		p.Seen = map[pricing.Shape]pricing.Amounts{}
	}
	was := p.Seen[s]
	has := map[string]int64{pricing.EphemeralStorage: n.Extra.Of(pricing.EphemeralStorage)}
	for _, x := range p.Extra {
		has[x.Name] = min(x.N, n.Extra.Of(x.Name))
	}
	for _, x := range was {
		// A node without a limit may lack the driver.
		if strings.HasPrefix(x.Name, AttachableVolumes) {
			has[x.Name] = min(has[x.Name], x.N)
		} else {
			has[x.Name] = max(has[x.Name], x.N)
		}
	}
	p.Seen[s] = pricing.AmountsOf(has)
}

// seeExtras records for each pool what its nodes have besides CPU and memory. The Node of a stopped
// spare shows nothing.
func seeExtras(x *Index) {
	promiseVolumes(x)
	for i := range x.loads {
		n := &x.loads[i]
		if n.VM == nil || n.VM.Kept() || !n.Ready || x.Now.Sub(n.Joined) < NodeStartup {
			continue
		}
		if p := x.Pool(n.VM.Pool); p != nil && (len(n.Extra) > 0 || len(p.Extra) > 0) {
			p.see(n.VM.Shape, n.Node)
		}
	}
}

// allocatable is what the kubelet of a machine of the shape leaves to pods.
func (p *Pool) allocatable(s pricing.Shape) pricing.Resources {
	r := s.Resources().Minus(p.Reserved)
	if seen, is := p.Allocatable[s]; is {
		r.CPU, r.Memory = min(r.CPU, seen.CPU), min(r.Memory, seen.Memory)
	}
	return r
}

// seeAllocatable records for each pool what its nodes leave to pods where that is less than the
// pool says: the kernel and the kubelet's thresholds take their part. Otherwise machines would be
// ordered without end for a pod that fits on none of them. The node that joined last counts, since
// the next machine becomes one like it. What was recorded before holds while there is no such node.
func seeAllocatable(x *Index) {
	type kind struct {
		pool  string
		shape pricing.Shape
	}
	newest := map[kind]*NodeLoad{}
	for i := range x.loads {
		n := &x.loads[i]
		if n.VM == nil || n.VM.Kept() || n.VM.Drifted != "" || !n.Ready || n.Allocatable == (pricing.Resources{}) {
			continue
		}
		k := kind{n.VM.Pool, n.VM.Shape}
		if was := newest[k]; was == nil || was.Joined.Before(n.Joined) {
			newest[k] = n
		}
	}
	for k, n := range newest {
		switch p := x.Pool(k.pool); {
		case p == nil:
		case k.shape.Resources().Minus(p.Reserved).Within(n.Allocatable):
			delete(p.Allocatable, k.shape)
		case p.Allocatable == nil:
			p.Allocatable = map[pricing.Shape]pricing.Resources{k.shape: n.Allocatable}
		default:
			p.Allocatable[k.shape] = n.Allocatable
		}
	}
}

// seeZones finds out whether nodes of each pool have hosts as their zones, as a cloud controller
// writes them. After a live migration the zone may be another host. A node that drifted does not
// show that the next one goes without.
func seeZones(x *Index) {
	for pool, n := range newest(x, ZoneLabel) {
		if p := x.Pool(pool); p != nil && p.Labels[ZoneLabel] == "" {
			p.HostIsZone = x.Host(n.Labels[ZoneLabel]) != nil || p.HostIsZone && n.VM.Drifted != ""
		}
	}
}

// seeTypes finds out in which pools nodes do not have their shapes as their instance types: a cloud
// controller may write types of its own. Otherwise machines would be ordered without end for a pod
// that selects a shape.
func seeTypes(x *Index) {
	for pool, n := range newest(x, TypeLabel) {
		if p := x.Pool(pool); p != nil && n.VM.Drifted == "" && n.Labels[TypeLabel] != n.VM.Shape.Name {
			p.ShapeIsType = false
		}
	}
}

// newest are by pool the nodes that joined last, since the next machine becomes one like it. The
// label may come some time after the node.
func newest(x *Index, label string) map[string]*NodeLoad {
	last := map[string]*NodeLoad{}
	for i := range x.loads {
		n := &x.loads[i]
		if n.VM == nil || n.VM.Host == "" || !n.Ready || n.Labels[label] == "" && x.Now.Sub(n.Joined) < NodeStartup {
			continue
		}
		if was := last[n.VM.Pool]; was == nil || was.Joined.Before(n.Joined) {
			last[n.VM.Pool] = n
		}
	}
	return last
}

// promiseVolumes assumes that new machines attach any number of volumes of the drivers that nodes
// have limits on, until a node of the pool shows its limit.
func promiseVolumes(x *Index) {
	limits := map[string]int64{}
	for i := range x.loads {
		for _, a := range x.loads[i].Extra {
			if strings.HasPrefix(a.Name, AttachableVolumes) {
				limits[a.Name] = pricing.Boundless
			}
		}
	}
	if len(limits) == 0 {
		return
	}
	for i := range x.Pools {
		p, has := x.Pools[i].Pool, maps.Clone(limits)
		for _, a := range p.Extra {
			has[a.Name] = a.N
		}
		p.Extra = pricing.AmountsOf(has)
	}
}

// awaited returns a new node as one that is still starting, while it lacks a device that its pool's
// nodes have. The device plugin runs on the node and starts after it. Without this, pods for the
// device would seem to need another machine.
func awaited(n *Node, pools []Pool, now time.Time) *Node {
	if n.Pool == "" || !n.Ready || now.Sub(n.Joined) >= NodeStartup {
		return n
	}
	missing := func(x pricing.NamedAmount) bool {
		return x.Name != pricing.EphemeralStorage && n.Extra.Of(x.Name) == 0
	}
	for i := range pools {
		if p := &pools[i]; p.Name == n.Pool && slices.ContainsFunc(p.Extra, missing) {
			starting := *n
			starting.Ready = false
			return &starting
		}
	}
	return n
}

// Asks prints what a pod asks for.
func Asks(p *Pod) string {
	text := Amount(p.Requests)
	if len(p.Extra) > 0 {
		text += " and " + p.Extra.String()
	}
	return text
}
