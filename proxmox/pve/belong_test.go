package pve

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// orderIn orders a machine in a pool, on a host if one is given.
func (p *process) orderIn(pool, host string) error {
	p.orders++
	at := slices.IndexFunc(p.cfg.Pools, func(p settings.Pool) bool { return p.Name == pool })
	return p.fleet.Create(context.Background(), loop.Order{
		ID: p.name + "-" + itoa(p.orders), At: p.w.sim.Now(), Action: nodescaler.Action{Kind: nodescaler.Buy, Pool: pool, Host: host, Shape: &p.cfg.Pools[at].Shapes[0]},
	})
}

func (p *process) mustOrder(pools ...string) {
	p.w.t.Helper()
	for _, pool := range pools {
		if err := p.orderIn(pool, ""); err != nil {
			p.w.t.Fatalf("%s: %v", p.name, err)
		}
	}
}

// copied is another cluster's process with the configuration of the first.
func (w *world) copied() *process {
	p := w.beside("second", awayCluster, nil)
	p.cfg.Nodes = func(context.Context) ([]Node, error) { return nil, nil }
	p.start(nil)
	return p
}

// Of two clusters that begin at the same time in an empty range one goes on, and keeps the pool
// when its first machine goes. The other one may remove what it has not started.
func TestClusterWithMachinesThatRunKeepsItsPool(t *testing.T) {
	race.Skip(t)
	for seed := range uint64(3) {
		w := twoWorld(t, seed, 4)
		first, second := w.beside("first", homeCluster, nil), w.copied()
		together(4*time.Second, first, second)
		first.mustOrder("web")
		together(2*time.Second, first, second)
		second.mustOrder("web")
		together(time.Minute, first, second)
		if second.fleet.Paused()["web"].Code != pvecode.OtherCluster {
			first, second = second, first
		}
		first.mustOrder("web")
		together(20*time.Second, first, second)
		older := second.machines() // it is older than what the first has in a moment
		must.Do(t, first.fleet.Delete(t.Context(), nodescaler.MachineName("web", first.name+"-1")))
		together(5*time.Minute, first, second)
		first.mustOrder("web")
		together(5*time.Minute, first, second)
		if running, _ := w.made(); len(running) != 2 || first.fleet.Paused()["web"].Code != "" || second.fleet.Paused()["web"].Code != pvecode.OtherCluster {
			t.Errorf("seed %d: %d machines run, want 2; the first says %v", seed, len(running), first.events)
		}
		together(time.Hour, first, second)
		if ms := second.machines(); len(older) != 1 || len(ms) != 1 || ms[0].Phase != nodescaler.Failed {
			t.Fatalf("seed %d: the second has %v, want one that failed", seed, ms)
		}
		if err := second.fleet.Delete(t.Context(), older[0].Name); err != nil {
			t.Error(err)
		}
		together(5*time.Minute, first, second)
		if running, there := w.made(); len(running) != 2 || len(there) != 2 || len(second.machines()) > 0 {
			t.Errorf("seed %d: %d machines run of %d, want 2, and the second has %v", seed, len(running), len(there), second.machines())
		}
	}
}

// A cluster without a machine that meets another one's in one pool begins in none of them.
func TestNewcomerBeginsInNoPoolOfTheFirst(t *testing.T) {
	w := twoWorld(t, 1, 4)
	w.another()
	w.cfg.Pools[1].Max = 4
	other := w.cfg.Pools[1].Name
	first := w.established()
	second := w.copied()
	if err := second.orderIn(other, ""); err == nil { // it has not looked yet, and may wait
		t.Log("the order was taken before it had looked")
	}
	together(10*time.Minute, first, second)
	err := second.orderIn(other, "")
	if err == nil || !strings.Contains(err.Error(), pvecode.OtherCluster) || !strings.Contains(err.Error(), "has no machine in any pool") {
		t.Errorf("the newcomer's order in a pool without machines: %v", err)
	}
	if running, there := w.made(); len(running) != 2 || len(there) != 2 {
		t.Errorf("%d machines run of %d, want 2", len(running), len(there))
	}
	first.mustOrder(other)
	together(5*time.Minute, first, second)
	if len(first.machines()) != 3 || first.told(pvecode.OtherCluster) {
		t.Errorf("the first has %d machines, want 3, and says %v", len(first.machines()), first.events)
	}
}

// What a host has that is offline is listed without a name, and belongs to its cluster as before.
func TestMachinesOfAnOfflineHostKeepTheirPool(t *testing.T) {
	w := newWorld(t, plan{hosts: 3, seed: 1}) // two of three are a majority
	w.pool().Max = 4
	first := w.beside("first", homeCluster, nil)
	together(4*time.Second, first)
	for range 2 {
		must.Do(t, first.orderIn("web", "pve2"))
	}
	together(5*time.Minute, first)
	w.inject("host pve2 down for=30m")
	second := w.copied()
	together(10*time.Minute, first, second)
	err := second.orderIn("web", "")
	if err == nil || !strings.Contains(err.Error(), "its host pve2 is offline") {
		t.Errorf("the newcomer's order beside machines that it cannot read: %v", err)
	}
	together(40*time.Minute, first, second)
	if running, there := w.made(); len(there) != 2 || first.told(pvecode.OtherCluster) || second.fleet.Paused()["web"].Code != pvecode.OtherCluster {
		t.Errorf("%d machines run of %d; the first says %v", len(running), len(there), first.events)
	}
}

// What is held, and for what, by whose a machine is and how it was found.
func TestMachinesThatNothingStops(t *testing.T) {
	found := intents.Intent{Step: intents.StepStarted, Pool: "web", Cluster: homeCluster, Making: intents.Making{Adopted: true, Running: true}}
	but := func(change func(*intents.Intent)) intents.Intent { i := found; change(&i); return i }
	for _, c := range []struct {
		name string
		is   intents.Intent
		any  bool
		shut bool
		want string
	}{
		{name: "it ran when it was found, and never joined", is: found, want: pvecode.NeverJoined},
		{name: "which is nothing to who takes any cluster's", is: found, any: true},
		{name: "it has joined", is: but(func(i *intents.Intent) { i.Joined = time.Unix(1, 0) })},
		{name: "it was ordered here", is: but(func(i *intents.Intent) { i.Adopted = false })},
		{name: "another cluster's", is: but(func(i *intents.Intent) { i.Cluster = awayCluster }), want: pvecode.OtherCluster},
		{name: "that is gone", is: but(func(i *intents.Intent) { i.Cluster, i.Gone = awayCluster, time.Unix(1, 0) })},
		{name: "of none", is: but(func(i *intents.Intent) { i.Cluster = "" }), want: pvecode.Unmarked},
		{name: "only ordered", is: but(func(i *intents.Intent) { i.Step = intents.StepOrdered })},
		{name: "in another cluster's pool", is: found, shut: true, want: pvecode.OtherCluster},
		{name: "made there and never started", is: but(func(i *intents.Intent) { i.Adopted, i.Step = false, intents.StepConfigured }), shut: true},
		{name: "found there and never started", is: but(func(i *intents.Intent) { i.Step = intents.StepCloned }), shut: true, want: pvecode.OtherCluster},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := assemble(FleetConfig{Cluster: homeCluster, AnyCluster: c.any})
			f.ownership.shut = map[string]*nodescaler.Reason{}
			if c.shut {
				f.ownership.shut["web"] = no(pvecode.OtherCluster, "it is")
			}
			got := ""
			if r := f.ownership.holding(&tracked{Intent: c.is}); r != nil {
				got = r.Code
			}
			if got != c.want {
				t.Errorf("held for %q, want %q", got, c.want)
			}
		})
	}
}

// belonging is a fleet of two pools on an online host and an offline one.
func belonging(guests ...placement.Guest) *Fleet {
	f := assemble(FleetConfig{Cluster: homeCluster, Now: func() time.Time { return time.Unix(1e9, 0) }})
	f.ownership.shut = map[string]*nodescaler.Reason{}
	f.catalogue.pools = map[string]*settings.Pool{
		"web": {Name: "web", VMIDs: placement.VMIDs{First: 100, Last: 199}}, "db": {Name: "db", VMIDs: placement.VMIDs{First: 200, Last: 299}},
	}
	f.view.seen = &placement.Sight{Hosts: []placement.Host{{Name: "off"}, {Name: "on", Online: true}}, Guests: map[int]*placement.Guest{}}
	for _, g := range guests {
		f.view.seen.Guests[g.VMID] = &g
	}
	return f
}

func TestMachinesArePresentWhereTheyAreListed(t *testing.T) {
	listed := placement.Guest{VMID: 101, Name: "web-1", Host: "on", Stopped: true}
	whole := intents.Intent{Name: "web-1", VMID: 101, Pool: "web", Cluster: homeCluster, Step: intents.StepStarted}
	for _, c := range []struct {
		name  string
		m     func(*intents.Intent)
		g     func(*placement.Guest)
		there bool
	}{
		{"it is there", func(*intents.Intent) {}, func(*placement.Guest) {}, true},
		{"another pool's", func(i *intents.Intent) { i.Pool = "db" }, func(*placement.Guest) {}, false},
		{"gone", func(i *intents.Intent) { i.Gone = time.Unix(1, 0) }, func(*placement.Guest) {}, false},
		{"not cloned yet", func(i *intents.Intent) { i.Step = intents.StepOrdered }, func(*placement.Guest) {}, false},
		{"another cluster's", func(i *intents.Intent) { i.Cluster = awayCluster }, func(*placement.Guest) {}, false},
		{"out of the range", func(i *intents.Intent) { i.VMID = 301 }, func(g *placement.Guest) { g.VMID = 301 }, false},
		{"not listed", func(i *intents.Intent) { i.VMID = 102 }, func(*placement.Guest) {}, false},
		{"of another name", func(*intents.Intent) {}, func(g *placement.Guest) { g.Name = "web-2" }, false},
		{"without a name, as an offline host lists it", func(*intents.Intent) {}, func(g *placement.Guest) { g.Name, g.Host = "", "off" }, true},
		{"without a name on an online host", func(*intents.Intent) {}, func(g *placement.Guest) { g.Name = "" }, false},
		{"without a name, as a host lists it that reports nothing", func(*intents.Intent) {}, func(g *placement.Guest) { g.Name, g.Stopped = "", false }, true},
		{"without a name while it is cloned", func(*intents.Intent) {}, func(g *placement.Guest) { g.Name, g.Stopped, g.Lock = "", false, "clone" }, false},
		{"of another name on an offline host", func(*intents.Intent) {}, func(g *placement.Guest) { g.Name, g.Host = "web-2", "off" }, false},
	} {
		i, g := whole, listed
		c.m(&i)
		c.g(&g)
		f := belonging(g)
		f.roster.machines["m"] = &tracked{Intent: i}
		if got := f.ownership.present(f.catalogue.pools["web"], f.roster.machines["m"]); got != c.there {
			t.Errorf("%s: %v", c.name, got)
		}
		if f.ownership.settled(f.catalogue.pools["web"]) != c.there || f.ownership.established() != c.there && i.Pool == "web" {
			t.Errorf("%s: settled %v, established %v", c.name, f.ownership.settled(f.catalogue.pools["web"]), f.ownership.established())
		}
		if f.ownership.shut["web"] = no(pvecode.OtherCluster, "it is"); f.ownership.established() && i.Pool == "web" {
			t.Errorf("%s: established by a pool that is another cluster's", c.name)
		}
	}
}

func TestMachinesAreUnstartedIfNothingSaysThatTheyRan(t *testing.T) {
	made := intents.Intent{Name: "web-1", VMID: 101, Pool: "web", Cluster: homeCluster, Step: intents.StepConfigured}
	for _, c := range []struct {
		name string
		m    func(*tracked)
		g    []placement.Guest
		want bool
	}{
		{"not listed", func(*tracked) {}, nil, true},
		{"stopped", func(*tracked) {}, []placement.Guest{{VMID: 101, Host: "on", Stopped: true}}, true},
		{"running", func(*tracked) {}, []placement.Guest{{VMID: 101, Host: "on", Running: true}}, false},
		{"not known to be stopped", func(*tracked) {}, []placement.Guest{{VMID: 101, Host: "on"}}, false},
		{"stopped, as a host that is offline has it", func(*tracked) {}, []placement.Guest{{VMID: 101, Host: "off"}}, false},
		{"found", func(m *tracked) { m.Adopted = true }, nil, false},
		{"another cluster's", func(m *tracked) { m.Cluster = awayCluster }, nil, false},
		{"started", func(m *tracked) { m.Step = intents.StepStarted }, nil, false},
		{"about to be", func(m *tracked) { m.admitted = true }, nil, false},
	} {
		m := &tracked{Intent: made}
		c.m(m)
		if got := belonging(c.g...).ownership.unstarted(m); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestGuestsInTheRangeWhoseTheyAreNotKnown(t *testing.T) {
	settle := func(pool string, id int) func(*Fleet) {
		return func(f *Fleet) {
			g := &placement.Guest{VMID: id, Name: pool + "-own", Host: "on"}
			f.view.seen.Guests[id] = g
			f.roster.machines[g.Name] = &tracked{Intent: intents.Intent{Name: g.Name, VMID: id, Pool: pool, Cluster: homeCluster, Step: intents.StepStarted}}
		}
	}
	looks := func(g placement.Guest) string { return appearance(&g) }
	for _, c := range []struct {
		name string
		g    placement.Guest
		with func(*Fleet)
		want bool
	}{
		{"of the pool's name", placement.Guest{VMID: 101, Name: "web-1", Host: "on"}, func(*Fleet) {}, true},
		{"without a name", placement.Guest{VMID: 101, Host: "on"}, func(*Fleet) {}, true},
		{"of another name", placement.Guest{VMID: 101, Name: "mail", Host: "on"}, func(*Fleet) {}, false},
		{"the pool has machines of ours", placement.Guest{VMID: 101, Name: "web-1", Host: "on"}, settle("web", 150), false},
		{"a template", placement.Guest{VMID: 101, Host: "on", Template: true}, func(*Fleet) {}, false},
		{"a container", placement.Guest{VMID: 101, Host: "on", Container: true}, func(*Fleet) {}, false},
		{"known", placement.Guest{VMID: 101, Name: "web-1", Host: "on"}, func(f *Fleet) {
			f.roster.machines["web-1"] = &tracked{Intent: intents.Intent{Name: "web-9", VMID: 101, Pool: "web", Cluster: homeCluster, Step: intents.StepStarted}}
		}, false},
		{"a stranger", placement.Guest{VMID: 101, Name: "web-1", Host: "on"}, func(f *Fleet) {
			f.ownership.others = map[int]string{101: looks(placement.Guest{VMID: 101, Name: "web-1", Host: "on"})}
		}, false},
		{"being made by another process", placement.Guest{VMID: 101, Name: "web-1", Host: "on"}, func(f *Fleet) { f.ownership.fresh = map[int]freshling{101: {looks: "web-1"}} }, false},
		{"in another pool, which may be lost too", placement.Guest{VMID: 201, Name: "db-1", Host: "on"}, func(*Fleet) {}, true},
		{"in another pool, and of no pool's name there", placement.Guest{VMID: 201, Name: "web-1", Host: "on"}, func(*Fleet) {}, false},
		{"in no pool", placement.Guest{VMID: 301, Name: "web-1", Host: "on"}, func(*Fleet) {}, false},
		{"in another pool, and a third is ours", placement.Guest{VMID: 201, Name: "web-1", Host: "on"}, func(f *Fleet) {
			f.catalogue.pools["mail"] = &settings.Pool{Name: "mail", VMIDs: placement.VMIDs{First: 400, Last: 499}}
			settle("mail", 450)(f)
		}, false},
		{"in the pool, and another is ours", placement.Guest{VMID: 101, Name: "web-1", Host: "on"}, settle("db", 250), true},
	} {
		f := belonging(c.g)
		c.with(f)
		if got := f.ownership.unsettled(f.catalogue.pools["web"]); (got != nil) != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
