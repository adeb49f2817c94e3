package pve

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// crowd is a world's nodes, and pods that each take one of them. Those without one wait.
type crowd struct {
	*world
	pods int
}

func (c crowd) Observe(ctx context.Context) (loop.ClusterState, error) {
	s, err := c.world.Observe(ctx)
	for i := range s.Nodes {
		s.Nodes[i].Allocatable = c.pool().Shapes[0].Resources()
	}
	for i := range c.pods {
		p := nodescaler.Pod{
			Pod: podscaler.Pod{Name: fmt.Sprintf("shop/web-%02d", i), Phase: podscaler.Pending}, Unschedulable: true, Workload: "shop/web",
			Requests: pricing.Resources{CPU: 2 * pricing.Core, Memory: 2 * pricing.GiB}, Created: c.sim.Now(),
		}
		if i < len(s.Nodes) {
			p.Node, p.Unschedulable, p.Phase = s.Nodes[i].Name, false, podscaler.Running
		}
		s.Pods = append(s.Pods, p)
	}
	return s, err
}

// silent does not say what it would refuse.
type silent struct{ loop.Machines }

func (s silent) List(ctx context.Context) (loop.MachineState, error) {
	state, err := s.Machines.List(ctx)
	state.Refused = nil
	return state, err
}

// carry has machines planned for pods for a quarter of an hour, and returns how many nodes there
// are then, and what was refused.
func (w *world) carry(pods int, port loop.Machines) (nodes int, refused []string) {
	w.t.Helper()
	policy := must.Get(nodepolicy.New(nodepolicy.Spec{Policy: "joint"}))(w.t)
	r := &loop.Runner{
		Ports:  loop.Ports{Cluster: crowd{w, pods}, Machines: port},
		Intent: loop.Intent{Prices: pricing.DefaultBook()},
		Memory: loop.Memory{Nodes: policy},
	}
	for i := range w.cfg.Pools {
		r.Pools = append(r.Pools, w.cfg.Pools[i].Words())
	}
	for range 90 {
		step := must.Get(r.Once(w.t.Context(), w.sim.Now()))(w.t)
		for _, o := range step.Outcomes {
			if o.Error != "" {
				refused = append(refused, o.Error)
			}
		}
		w.run(10 * time.Second)
	}
	all, _ := w.nodes(w.t.Context())
	return len(all), refused
}

// another adds a pool of dearer machines.
func (w *world) another() {
	p := w.cfg.Pools[0]
	p.Name, p.VMIDs = "zeb", placement.VMIDs{First: 1100, Last: 1199}
	p.Shapes = []pricing.Shape{{Name: "large", CPU: 4 * pricing.Core, Memory: 8 * pricing.GiB, Disk: 20 * pricing.GiB}}
	w.cfg.Pools = append(w.cfg.Pools, p)
}

// Where one host, or one pool, takes no order, the pods that wait are carried by another.
func TestWhatOneRefusesAnotherCarries(t *testing.T) {
	// A host is less roomy than the other by what a VM of another owner's has.
	other := func(id int, host string, disk int64, memory string) pvesim.VM {
		return pvesim.VM{ID: id, Host: host, Pool: "plimsoll", Storage: "local-lvm", Disk: disk, Config: map[string]string{"name": "db", "memory": memory, "cores": "1"}}
	}
	for _, c := range []struct {
		name   string
		vms    []pvesim.VM
		pools  func(*world)
		before func(*world)
		pods   int
		told   int // orders that are refused, though what would be refused is listed with the hosts
		silent int // and where it is not
	}{
		{name: "the storage of the roomier host is full", pods: 1, silent: 1,
			vms: []pvesim.VM{other(201, "pve1", 480*gib, "1024"), other(200, "pve2", gib, "65536")},
			pools: func(w *world) {
				w.pool().Clone, w.pool().Placement.StorageReserve = placement.Full, 30*pricing.GiB
			}},
		// Two are planned at once.
		{name: "the roomier host has as many as it may", pods: 2, told: 1, silent: 1,
			vms: []pvesim.VM{other(200, "pve2", gib, "65536")}, pools: func(w *world) { w.pool().Placement.MaxPerHost = 1 }},
		{name: "the cheaper pool's template is gone", pods: 1, silent: 2,
			pools: func(w *world) { w.another(); w.pool().Template = placement.Template{VMID: 7777} }},
		{name: "the roomier host has no such bridge", pods: 1, silent: 1,
			vms: []pvesim.VM{other(200, "pve2", gib, "65536")}, before: func(w *world) {
				w.fleet.mu.Lock()
				defer w.fleet.mu.Unlock()
				w.fleet.view.bridges["pve1"] = []string{"vmbr9"}
				for i := range w.fleet.view.seen.Hosts {
					if h := &w.fleet.view.seen.Hosts[i]; h.Name == "pve1" {
						h.Bridges = []string{"vmbr9"}
					}
				}
			}},
		{name: "the cheaper pool's VMIDs cool down", pods: 1, silent: 1,
			pools: func(w *world) {
				w.another()
				w.pool().Max, w.pool().VMIDs = 2, placement.VMIDs{First: 1000, Last: 1001}
			},
			before: func(w *world) {
				for _, name := range []string{w.mustOrder("pve1"), w.mustOrder("pve1")} {
					w.until("it has joined", time.Hour, func() bool { return w.phase(name) == nodescaler.Joined })
					must.Do(w.t, w.fleet.Delete(w.t.Context(), name))
					w.until("it is gone", time.Hour, func() bool { return w.phase(name) == "" })
				}
			}},
		{name: "the cheaper pool's hosts are in maintenance", pods: 1,
			pools: func(w *world) { w.another(); w.pool().Placement.Maintenance = []string{"pve1", "pve2"} }},
	} {
		for _, tells := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, told before: %t", c.name, tells), func(t *testing.T) {
				w := newWorld(t, plan{hosts: 2, seed: 5, vms: c.vms})
				if c.pools != nil {
					c.pools(w)
				}
				w.begin()
				w.run(time.Second)
				if c.before != nil {
					c.before(w)
				}
				var port loop.Machines = w.fleet
				want := c.told
				if !tells {
					port, want = silent{port}, c.silent
				}
				if nodes, refused := w.carry(c.pods, port); nodes != c.pods || len(refused) != want {
					t.Errorf("%d of %d pods have a node, %d orders were refused, want %d:\n%s", nodes, c.pods, len(refused), want, strings.Join(refused, "\n"))
				}
			})
		}
	}
}

// That a pool has as many machines as it has VMIDs is no trouble if it may have no more.
func TestAPoolAtItsMaxLacksNoVMID(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 5})
	w.pool().Max, w.pool().VMIDs = 2, placement.VMIDs{First: 1000, Last: 1001}
	w.begin()
	w.run(time.Second)
	names := []string{w.mustOrder("pve1"), w.mustOrder("pve2")}
	refused := func() []nodescaler.RefusedOrder {
		state := must.Get(w.fleet.List(t.Context()))(t)
		return state.Refused["web"]
	}
	if r := refused(); len(r) > 0 {
		t.Errorf("with two of two machines: %+v", r)
	}
	w.until("one has joined", time.Hour, func() bool { return w.phase(names[0]) == nodescaler.Joined })
	must.Do(t, w.fleet.Delete(t.Context(), names[0]))
	w.until("it is gone", time.Hour, func() bool { return w.phase(names[0]) == "" })
	if r := refused(); len(r) != 1 || !r[0].All() || r[0].Why.Code != pvecode.VMIDsExhausted {
		t.Errorf("while its VMID cools down: %+v", r)
	}
	w.run(61 * time.Minute)
	if r := refused(); len(r) > 0 {
		t.Errorf("once it has cooled down: %+v", r)
	}
}
