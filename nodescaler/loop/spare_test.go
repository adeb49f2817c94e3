package loop

import (
	"context"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// port is a house whose machines can be kept.
type port struct{ *house }

func (p port) Stash(_ context.Context, m string) error { return p.do("stash " + m) }
func (p port) Wake(_ context.Context, m string) error  { return p.do("wake " + m) }

// spareHouse has a node that is emptied and a spare, whose node is there.
func spareHouse() *house {
	h := newHouse()
	h.state.Nodes = append(h.state.Nodes,
		nodescaler.Node{Name: "worker-b", Machine: "worker-b", Pool: "worker", Ready: true, Cordoned: true, Draining: true},
		nodescaler.Node{Name: "worker-c", Machine: "worker-c", Pool: "worker", Cordoned: true, Draining: true})
	disk := small
	disk.Disk = 100 * pricing.GB
	h.machines.Machines = append(h.machines.Machines,
		nodescaler.Machine{Name: "worker-b", Order: "b", Pool: "worker", Shape: small, Host: "pve1", Phase: nodescaler.Joined, Created: t0, Since: t0},
		nodescaler.Machine{Name: "worker-c", Order: "c", Pool: "worker", Shape: disk, Host: "pve1", Phase: nodescaler.Spare, Created: t0.Add(-2 * time.Hour), Since: t0.Add(-time.Hour)})
	return h
}

var (
	stash = nodescaler.Action{Kind: nodescaler.Stash, Pool: "worker", Machine: "worker-b", Node: "worker-b", Reasons: why}
	wake  = nodescaler.Action{Kind: nodescaler.Wake, Pool: "worker", Machine: "worker-c", Node: "worker-c", Reasons: why}
)

func TestSpareIsStartedAndThenItsNodeIsOpened(t *testing.T) {
	h := spareHouse()
	r := h.runner(replicas(2), actions(stash, wake))
	r.Machines = port{h}
	steps(t, r, 2)
	expect(t, "done", []string{"stash worker-b", "wake worker-c", "draining worker-c false"}, h.done)
}

func TestNodeOfASpareThatIsRefusedStaysClosed(t *testing.T) {
	h := spareHouse()
	h.broken["wake worker-c"] = ErrRefused
	r := h.runner(replicas(2), actions(wake))
	r.Machines = port{h}
	s := steps(t, r, 2)
	expect(t, "done", []string{"wake worker-c"}, h.done)
	if len(s.Outcomes) != 1 || s.Outcomes[0].Error == "" {
		t.Errorf("outcomes %+v", s.Outcomes)
	}
}

func TestSparesAreHeldLikeOrdersAndReturns(t *testing.T) {
	held := map[string]nodescaler.Reason{"worker": why[0]}
	for _, c := range []struct {
		name     string
		up, down map[string]nodescaler.Reason
		done     []string
	}{
		{"up", held, nil, []string{"stash worker-b"}},
		{"down", nil, held, []string{"wake worker-c", "draining worker-c false"}},
	} {
		h := spareHouse()
		r := h.runner(replicas(2), actions(stash, wake))
		r.Machines = port{h}
		holds{up: c.up, down: c.down}.put(r)
		steps(t, r, 2)
		expect(t, c.name, c.done, h.done)
	}
}

func TestMachinesThatCannotBeKeptSaySo(t *testing.T) {
	h := spareHouse()
	s := steps(t, h.runner(replicas(2), actions(stash)), 2)
	if len(h.done) != 0 || len(s.Outcomes) != 1 || s.Outcomes[0].Error != "machines cannot be kept as spares here" {
		t.Errorf("done %v, outcomes %+v", h.done, s.Outcomes)
	}
}

// A spare is charged for its disk from when it is stopped, and for all of it from when it is
// woken; how long it takes to come back is no lead of an order.
func TestSparesAreChargedForTheirDisks(t *testing.T) {
	h := spareHouse()
	r := h.runner(replicas(2), nil)
	once := func(at time.Duration) Step {
		s := must.Get(r.Once(t.Context(), t0.Add(at)))(t)
		expect(t, "problems with the ledger", 0, countOf(codes(s), CodeCostUnknown))
		return s
	}
	once(0)
	spare := &h.machines.Machines[2]
	rate := r.Prices.Rate(small, "pve1", t0)
	disk := r.Prices.SpareRate(spare.Shape)
	if disk <= 0 || rate <= disk {
		t.Fatalf("a disk costs %s/h and a machine %s/h", disk, rate)
	}
	s := once(time.Hour)
	expect(t, "spent in an hour", 2*rate.For(time.Hour)+disk.For(time.Hour), s.Observed.Cost.Spent)
	expect(t, "rate of all", 2*rate+disk, s.Observed.Cost.Ordered)
	spare.Phase, spare.Woken, spare.Since = nodescaler.Booting, t0.Add(time.Hour), t0.Add(time.Hour)
	once(time.Hour)
	spare.Phase, spare.Since = nodescaler.Joined, t0.Add(time.Hour+20*time.Second)
	s = once(2 * time.Hour)
	expect(t, "spent in the next", 5*rate.For(time.Hour)+disk.For(time.Hour), s.Observed.Cost.Spent)
	if len(r.leads.machines) != 0 {
		t.Errorf("machines are taken to need %v", r.leads.machines)
	}
	spare.Phase = nodescaler.Spare
	once(2 * time.Hour)
	spare.Phase = nodescaler.Deleting
	s = once(3 * time.Hour)
	expect(t, "spent while it goes", 7*rate.For(time.Hour)+2*disk.For(time.Hour), s.Observed.Cost.Spent)
	s = once(4 * time.Hour)
	expect(t, "spent while it still goes", 9*rate.For(time.Hour)+3*disk.For(time.Hour), s.Observed.Cost.Spent)
}

// What was a spare when it was first seen ran before it was stopped.
func TestSparesAreChargedForTheTimeBeforeTheyWereSeen(t *testing.T) {
	book := pricing.DefaultBook()
	book.PerDiskGB = 10000
	disk := small
	disk.Disk = 20 * pricing.GB
	machine := nodescaler.Machine{Name: "a", Shape: disk, Host: "pve1", Phase: nodescaler.Spare, Created: t0.Add(-3 * time.Hour), Since: t0.Add(-time.Hour)}
	var a account
	must.Do(t, a.see(book, []nodescaler.Machine{machine}, t0))
	want := book.Rate(disk, "pve1", t0).For(2*time.Hour) + book.SpareRate(disk).For(time.Hour)
	expect(t, "spent", want, a.ledger.Between(t0.Add(-3*time.Hour), t0))
}

func countOf(list []string, what string) (n int) {
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

// A machine costs what its host and its shape cost while it has them.
func TestAMachineThatIsMovedOrResizedIsChargedAsWhatItIs(t *testing.T) {
	book := pricing.DefaultBook()
	half := pricing.Micros(500_000)
	book.Hosts = map[string]pricing.HostPrices{"pve2": {Prices: pricing.Prices{PerVCPU: &half, PerGB: new(pricing.Micros)}}}
	machine := nodescaler.Machine{
		Name: "m", Shape: pricing.Shape{Name: "two", CPU: 2 * pricing.Core}, Host: "pve1", Phase: nodescaler.Joined, Created: t0, Since: t0,
	}
	var a account
	hour := func(n int, change func(*nodescaler.Machine)) {
		change(&machine)
		must.Do(t, a.see(book, []nodescaler.Machine{machine}, t0.Add(time.Duration(n)*time.Hour)))
	}
	hour(0, func(*nodescaler.Machine) {})
	hour(1, func(m *nodescaler.Machine) { m.Host = "pve2" })
	hour(2, func(m *nodescaler.Machine) { m.Shape.CPU = 4 * pricing.Core })
	hour(3, func(m *nodescaler.Machine) { m.Phase = nodescaler.Spare })
	hour(4, func(m *nodescaler.Machine) { m.Host = "pve1" })
	hour(5, func(m *nodescaler.Machine) { m.Phase = nodescaler.Deleting })
	hour(6, func(*nodescaler.Machine) {})
	for n, want := range []pricing.Micros{2_000_000, 1_000_000, 2_000_000, 0, 0, 0} {
		from := t0.Add(time.Duration(n) * time.Hour)
		if got := a.ledger.Between(from, from.Add(time.Hour)); got != want {
			t.Errorf("hour %d costs %s, want %s", n, got, want)
		}
	}
}
