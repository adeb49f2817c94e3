package provider

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Labels by which a node is known again, template nodes among them: those have a random name and no
// provider id. Nodes get them when they join.
const (
	PoolLabel  = "plimsoll.dev/pool"
	ShapeLabel = "node.kubernetes.io/instance-type"
)

// Pool is a pool that cluster-autoscaler may scale.
type Pool struct {
	nodescaler.Pool
	// Options are what cluster-autoscaler is asked to do otherwise than its flags say; nil for
	// nothing.
	Options *Options
}

// group is a node group: the machines of one shape of one pool, for those of a group must be alike.
type group struct {
	id    string
	pool  *Pool
	shape pricing.Shape
	first bool // of its pool, as it is configured
	// retired groups hold machines of a shape that the pool does not have any more. They shrink.
	retired bool
}

// newGroups makes the groups of the pools, in order.
func newGroups(pools []Pool) ([]*group, error) {
	var all []*group
	for i := range pools {
		p := &pools[i]
		for j, s := range p.Shapes {
			all = append(all, &group{id: groupID(p, s), pool: p, shape: s, first: j == 0})
		}
	}
	sortGroups(all)
	return all, checkPools(pools)
}

func sortGroups(all []*group) {
	slices.SortFunc(all, func(a, b *group) int { return cmp.Compare(a.id, b.id) })
}

func checkPools(pools []Pool) error {
	var faults pricing.Faults
	must := faults.Must
	names := map[string]bool{}
	for i := range pools {
		p := &pools[i]
		key := fmt.Sprintf("pools[%d]", i)
		must(p.Name != "" && !names[p.Name], key+".name", "given, and be there once", fmt.Sprintf("%q", p.Name))
		must(len(p.Shapes) > 0, key+".shapes", "at least one", "none")
		must(p.Min >= 0 && p.Min <= p.Max, key+".min", "from 0 to max", p.Min)
		must(p.Max <= math.MaxInt32, key+".max", fmt.Sprintf("%d or less", math.MaxInt32), p.Max)
		names[p.Name] = true
		shapes := map[string]bool{}
		for j, s := range p.Shapes {
			must(s.Name != "" && !shapes[s.Name], fmt.Sprintf("%s.shapes[%d].name", key, j), "given, and be there once", fmt.Sprintf("%q", s.Name))
			shapes[s.Name] = true
		}
		for _, err := range p.Options.faults() {
			faults = append(faults, fmt.Errorf("%s.options.%w", key, err))
		}
	}
	return errors.Join(faults...)
}

// groupID names a group by pool and shape, and by a mark that changes with everything that a node
// of it would show. Cluster-autoscaler remembers for years what a group's node looked like; a new
// id is what makes it look again.
func groupID(p *Pool, s pricing.Shape) string {
	text, err := json.Marshal(struct {
		Shape    pricing.Shape
		Reserved pricing.Resources
		PodSlots int
		Labels   map[string]string
		Taints   []nodescaler.Taint
		Extra    pricing.Amounts
	}{s, p.Reserved, p.PodSlots, p.Labels, p.Taints, p.Extras(s)})
	if err != nil {
		panic(err) // numbers and strings
	}
	h := fnv.New32a()
	h.Write(text)
	return fmt.Sprintf("%s.%s.%08x", p.Name, s.Name, h.Sum32())
}

// retiredID names the group of machines that were made after a shape which their pool has no more.
func retiredID(pool string, s pricing.Shape) string {
	return fmt.Sprintf("%s.%s.retired-%d-%d-%d", pool, s.Name, s.CPU, s.Memory, s.Disk)
}

// made reports whether a machine was made after the group's shape.
func (g *group) made(m *nodescaler.Machine) bool {
	return m.Pool == g.pool.Name && m.Shape == g.shape
}

// labels are those of the group's nodes. What they are known again by is not the pool's to say.
func (g *group) labels() map[string]string {
	all := map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
	maps.Copy(all, g.pool.Labels)
	all[PoolLabel], all[ShapeLabel] = g.pool.Name, g.shape.Name
	return all
}

func (g *group) String() string {
	return fmt.Sprintf("pool %s, shape %s: %s, %s", g.pool.Name, g.shape.Name, g.shape.CPU, g.shape.Memory)
}
