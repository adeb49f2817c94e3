package provider

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// view is the machines as they were last seen, ordered for look-ups. It is never written to.
type view struct {
	groups   []*group
	byID     map[string]*group
	machines map[*group][]*nodescaler.Machine
	// Machines of each pool that are not going, whether their group is listed or not.
	pool   map[string]int
	sound  map[string]int    // those of them that have not failed
	kept   map[string]int    // and its spares, which belong to no group
	at     map[string]*seen  // by the id that they are listed by
	named  map[string]*seen  // by name
	orders map[string]bool   // that machines were made for
	lost   map[string]*group // provider ids that were listed and that no machine will have
	known  bool              // the machines were seen at least once
	state  loop.MachineState
	room   map[*group]int // how many more the hard limit allows; nil without one
}

// seen is a machine with its group.
type seen struct {
	machine *nodescaler.Machine
	group   *group
}

// memory keeps the view, and how fresh it is.
type memory struct {
	machines loop.Machines
	now      func() time.Time
	fresh    time.Duration
	rooms    func(*view) map[*group]int

	// reading is held by the one who reads the machines, so that views follow one another. No one
	// who has a view to answer from waits for it.
	reading sync.Mutex
	mu      sync.Mutex
	pools   []*group // the groups of what the pools make now
	// groups are those that are listed, retired ones among them. They stay as they are from one
	// refresh to the next: clients keep the list, and fall over an id that came or went meanwhile.
	groups []*group
	listed bool // the list was asked for
	view   *view
	read   time.Time
	err    error // of the last reading
}

// look returns the view, read anew if it is older than fresh and no one is reading. If it cannot be
// read, the last one counts: an empty list would have cluster-autoscaler take
// its nodes for gone.
func (m *memory) look(ctx context.Context) *view {
	v, due := m.last()
	if v != nil && (!due || !m.reading.TryLock()) {
		return v
	}
	if v == nil { // the first reading is waited for
		m.reading.Lock()
	}
	defer m.reading.Unlock()
	if v, due = m.last(); v != nil && !due {
		return v
	}
	return m.readAnew(ctx, false)
}

// renew returns the view as it is now. Who changes something goes by nothing older, and renews it
// before they say that it is done.
func (m *memory) renew(ctx context.Context) *view {
	m.reading.Lock()
	defer m.reading.Unlock()
	return m.readAnew(ctx, false)
}

// refresh is renew, and lets groups come and go.
func (m *memory) refresh(ctx context.Context) *view {
	m.reading.Lock()
	defer m.reading.Unlock()
	v := m.readAnew(ctx, true)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listed = true
	return v
}

// listing is look for a client that asks which groups there are.
func (m *memory) listing(ctx context.Context) *view {
	m.mu.Lock()
	listed := m.listed
	m.mu.Unlock()
	if !listed {
		return m.refresh(ctx)
	}
	return m.look(ctx)
}

// last is the last view, and whether it is time for another.
func (m *memory) last() (v *view, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view, m.view == nil || m.now().Sub(m.read) >= m.fresh
}

// readAnew reads the machines; the caller holds reading. While no client has asked for the
// groups, they may come and go at any time.
func (m *memory) readAnew(ctx context.Context, regroup bool) *view {
	m.mu.Lock()
	at, groups, pools := m.now(), m.groups, m.pools
	regroup = regroup || !m.listed
	m.mu.Unlock()
	s, err := m.machines.List(context.WithoutCancel(ctx)) // what is read is read for all
	var v *view
	if err == nil {
		if regroup {
			groups = withRetired(pools, s.Machines)
		}
		v = newView(groups, s.Machines)
		v.state = s
		v.room = m.rooms(v)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read, m.err = at, err
	if v != nil {
		m.groups, m.view = groups, v
	}
	if m.view == nil {
		return newView(m.groups, nil).unknown()
	}
	return m.view
}

// healthy is why the machines cannot be read, if they cannot.
func (m *memory) healthy(ctx context.Context) error {
	m.look(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

func (v *view) unknown() *view { v.known = false; return v }

func newView(groups []*group, machines []nodescaler.Machine) *view {
	v := &view{
		groups: groups, byID: make(map[string]*group, len(groups)),
		machines: make(map[*group][]*nodescaler.Machine, len(groups)), pool: map[string]int{}, sound: map[string]int{}, kept: map[string]int{},
		at: make(map[string]*seen, len(machines)), named: make(map[string]*seen, len(machines)),
		orders: make(map[string]bool, len(machines)), lost: map[string]*group{}, known: true,
	}
	for _, g := range groups {
		v.byID[g.id] = g
	}
	for i := range machines {
		m := &machines[i]
		v.orders[m.Order] = true
		// No instance of any group: it is not cluster-autoscaler's to start or to delete.
		if m.Kept() {
			v.kept[m.Pool]++
			continue
		}
		if m.Phase != nodescaler.Deleting {
			v.pool[m.Pool]++
			if m.Phase != nodescaler.Failed {
				v.sound[m.Pool]++
			}
		}
		if g := homeOf(groups, m); g != nil {
			v.machines[g] = append(v.machines[g], m)
			s := &seen{m, g}
			v.at[instanceID(m)], v.named[m.Name] = s, s
			for _, id := range m.LostIDs {
				v.lost[id] = g
			}
		}
	}
	for id := range v.at { // another machine has it by now
		delete(v.lost, id)
	}
	return v
}

// homeOf finds a machine's group. It is nil for machines of pools that are not ours to scale, and
// of groups that are not listed yet.
func homeOf(groups []*group, m *nodescaler.Machine) *group {
	for _, g := range groups {
		if g.made(m) {
			return g
		}
	}
	return nil
}

// withRetired adds groups for the machines of shapes that their pools have no more.
func withRetired(groups []*group, machines []nodescaler.Machine) []*group {
	all := slices.Clone(groups)
	for i := range machines {
		m := &machines[i]
		of := slices.IndexFunc(groups, func(g *group) bool { return g.pool.Name == m.Pool })
		if of >= 0 && !m.Kept() && homeOf(all, m) == nil {
			all = append(all, &group{id: retiredID(m.Pool, m.Shape), pool: groups[of].pool, shape: m.Shape, retired: true})
		}
	}
	sortGroups(all)
	return all
}

// group finds a group by its id.
func (v *view) group(id string) (*group, error) {
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "id: must be a node group, was empty")
	}
	g := v.byID[id]
	if g == nil {
		return nil, status.Errorf(codes.NotFound, "id: must be one of our node groups, was %q", id)
	}
	return g, nil
}

// target is how many machines of a group were ordered and are not going.
func (v *view) target(g *group) int {
	n := 0
	for _, m := range v.machines[g] {
		if m.Phase != nodescaler.Deleting {
			n++
		}
	}
	return n
}

// limits are the least and most machines that a group may have. The pool's are shared: the room
// that its other groups and its spares have taken is not offered twice, and what they hold counts
// for the least. What the pool lacks of its least, the group of its first shape is to make up for
// alone.
func (v *view) limits(g *group) (least, most int) {
	have := v.target(g)
	if g.retired {
		return 0, have
	}
	others := v.pool[g.pool.Name] - have
	least = max(0, g.pool.Min-others)
	if !g.first {
		least = min(least, have)
	}
	return least, max(have, g.pool.Max-others-v.kept[g.pool.Name])
}

// offered are the limits that cluster-autoscaler is shown: no more than the hard limit allows, and
// no minimum beyond that, for it would be asked for in vain.
func (v *view) offered(g *group) (least, most int) {
	least, most = v.limits(g)
	if v.room != nil {
		most = min(most, v.target(g)+v.room[g])
	}
	return min(least, most), most
}

// find returns the machine that a node belongs to. A name counts only while one of the two has no
// provider id: a node with another one is another owner's.
func (v *view) find(providerID, name string) *seen {
	if s := v.at[providerID]; s != nil {
		return s
	}
	if s := v.named[name]; s != nil && (providerID == "" || s.machine.ProviderID == "") {
		return s
	}
	return nil
}

// lostBy returns the group that had and lost a node's id, or nil. Only a placeholder has its id for
// a name; a node that did join with that id is a stranger's.
func (v *view) lostBy(n *externalgrpc.ExternalGrpcNode) *group {
	if id := n.GetProviderID(); id == n.GetName() {
		return v.lost[id]
	}
	return nil
}
