package pve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

const awayCluster = "0a4c7a52-91d3-4a5e-8f53-77f1f9d1aa02"

// process is one Plimsoll of several on one Proxmox VE.
type process struct {
	w       *world
	name    string
	cfg     FleetConfig
	intents intents.Store
	fleet   *Fleet
	events  []Event
	orders  int
	wrote   []string // what it changed, by method and path
}

// beside makes another process on the world's cluster, with a configuration that was copied and a
// state of its own.
func (w *world) beside(name, cluster string, way http.RoundTripper) *process {
	w.t.Helper()
	p := &process{w: w, name: name, intents: &intents.Memory{}, cfg: w.cfg}
	p.cfg.Cluster, p.cfg.Rand = cluster, timing.Stream(1, name)
	p.cfg.Nodes = func(context.Context) (all []Node, err error) {
		for _, j := range w.joins {
			if !j.at.After(w.sim.Now()) {
				j.node.JoinedAt = j.at
				all = append(all, j.node)
			}
		}
		return all, nil
	}
	p.cfg.Report = func(e Event) { p.events = append(p.events, e) }
	p.start(way)
	return p
}

func (p *process) start(way http.RoundTripper) {
	p.w.t.Helper()
	if way == nil {
		way = p.w.sim.Transport()
	}
	client, err := pveapi.Connect(pveapi.Connection{
		Endpoints: []string{"https://pve1:8006"}, Insecure: true, Transport: noting{p, way}, Now: p.w.sim.Now,
		Token: func() (string, error) { return p.w.token, nil },
		Wait:  func(_ context.Context, d time.Duration) error { p.w.sim.Advance(d); return nil },
	})
	if err != nil {
		p.w.t.Fatal(err)
	}
	p.cfg.Client, p.cfg.Intents = client, p.intents
	if p.fleet, err = NewFleet(p.cfg); err != nil {
		p.w.t.Fatal(err)
	}
}

// noting notes what a process changes.
type noting struct {
	p   *process
	way http.RoundTripper
}

func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		n.p.wrote = append(n.p.wrote, r.Method+" "+r.URL.Path)
	}
	return n.way.RoundTrip(r)
}

func (p *process) tick() { _ = p.fleet.Tick(context.Background()) }

func (p *process) order() (string, error) {
	p.orders++
	id := fmt.Sprintf("%s-%d", p.name, p.orders)
	pool := &p.cfg.Pools[0]
	return nodescaler.MachineName(pool.Name, id), p.fleet.Create(context.Background(), loop.Order{
		ID: id, At: p.w.sim.Now(), Action: nodescaler.Action{Kind: nodescaler.Buy, Pool: pool.Name, Shape: &pool.Shapes[0]},
	})
}

func (p *process) told(code string) bool {
	return slices.ContainsFunc(p.events, func(e Event) bool { return e.Code == code })
}

func (p *process) machines() []nodescaler.Machine {
	state, err := p.fleet.List(context.Background())
	if err != nil {
		return nil
	}
	return state.Machines
}

// together lets time pass for both.
func together(d time.Duration, all ...*process) {
	w := all[0].w
	step := 2 * time.Second
	if d > 10*time.Minute {
		step = idleGap
	}
	for end := w.sim.Now().Add(d); w.sim.Now().Before(end); w.sim.Advance(step) {
		for _, p := range all {
			p.tick()
		}
	}
}

// made are machines that were made by any Plimsoll, by state.
func (w *world) made() (running, there []pvesim.VMState) {
	for _, v := range w.inRange() {
		if v.Config["lock"] == "clone" {
			continue
		}
		there = append(there, v)
		if v.State == "running" {
			running = append(running, v)
		}
	}
	return running, there
}

func twoWorld(t testing.TB, seed uint64, most int) *world {
	w := newWorld(t, plan{hosts: 2, seed: seed})
	w.pool().Max, w.pool().Cooldown = most, nodescaler.Duration(time.Minute)
	w.cfg.OrphanGrace = nodescaler.Duration(5 * time.Minute)
	return w
}

// established is a process whose two machines have joined.
func (w *world) established() *process {
	w.t.Helper()
	first := w.beside("first", homeCluster, nil)
	together(4*time.Second, first)
	for range 2 {
		must.Get(first.order())(w.t)
	}
	together(5*time.Minute, first)
	return first
}

// returnAll returns all machines of the process.
func (p *process) returnAll() {
	p.w.t.Helper()
	for _, m := range p.machines() {
		must.Do(p.w.t, p.fleet.Delete(p.w.t.Context(), m.Name))
	}
}

// A test cluster with a copied configuration orders nothing beside the machines of the first,
// touches none of them, and says why; the first goes on as if it were alone.
func TestCopiedConfigurationOfAnotherClusterOrdersAndDestroysNothing(t *testing.T) {
	w := twoWorld(t, 1, 4)
	first := w.established()
	second := w.beside("second", awayCluster, nil)
	// Its own cluster has none.
	second.cfg.Nodes = func(context.Context) ([]Node, error) { return nil, nil }
	second.start(nil)
	together(3*time.Hour, first, second)
	_, err := second.order()
	if err == nil || !strings.Contains(err.Error(), pvecode.OtherCluster) {
		t.Fatalf("the newcomer's order: %v", err)
	}
	for _, say := range []string{homeCluster, awayCluster, "VM 1", "in 1000-1099"} {
		if !strings.Contains(err.Error(), say) {
			t.Errorf("%q does not say %s", err, say)
		}
	}
	must.Get(second.fleet.Collect(t.Context(), nil))(t)
	if len(second.wrote) > 0 || len(second.machines()) > 0 || second.fleet.Paused()["web"].Code != pvecode.OtherCluster || !second.told(pvecode.OtherCluster) {
		t.Errorf("the newcomer wrote %v and has %v", second.wrote, second.machines())
	}
	must.Get(first.order())(t)
	together(5*time.Minute, second, first)
	if running, _ := w.made(); len(running) != 3 || first.told(pvecode.OtherCluster) {
		t.Errorf("%d machines run, want 3; %v", len(running), first.events)
	}
	first.returnAll()
	together(10*time.Minute, second, first)
	if _, err := second.order(); err != nil {
		t.Errorf("when the range is empty the newcomer's order: %v", err)
	}
}

// A state folder that was copied with the configuration makes no machine the copy's.
func TestCopiedStateOfAnotherClusterIsQuarantined(t *testing.T) {
	w := twoWorld(t, 1, 4)
	first := w.established()
	if _, err := first.order(); err != nil { // and one that is just ordered
		t.Fatal(err)
	}
	kept, err := first.intents.Load()
	if err != nil || len(kept) != 3 {
		t.Fatal(kept, err)
	}
	second := w.beside("second", awayCluster, nil)
	for _, i := range kept {
		must.Do(t, second.intents.Put(i))
	}
	second.cfg.Nodes = func(context.Context) ([]Node, error) { return nil, nil }
	second.start(nil)
	together(2*time.Hour, second, first)
	for _, m := range second.machines() {
		if m.Held == nil || !strings.Contains(m.Problem, homeCluster) || !strings.Contains(m.Problem, awayCluster) {
			t.Errorf("%+v", m)
		}
		if err := second.fleet.Delete(t.Context(), m.Name); err == nil {
			t.Errorf("%s is reclaimed", m.Name)
		}
	}
	must.Get(second.fleet.Collect(t.Context(), nil))(t)
	together(time.Hour, second, first)
	if len(second.machines()) == 0 || len(second.wrote) > 0 {
		t.Errorf("the copy has %d machines and wrote %v", len(second.machines()), second.wrote)
	}
	if running, _ := w.made(); len(running) != 3 {
		t.Errorf("%d machines run, want 3", len(running))
	}
	first.returnAll()
	together(10*time.Minute, second, first)
	for _, m := range second.machines() { // there is nothing any more, and the copy may forget them
		if err := second.fleet.Delete(t.Context(), m.Name); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
	together(time.Minute, second)
	if _, err := second.order(); err != nil {
		t.Error(err)
	}
}

// unmark takes the cluster out of the notes of all machines, as those have that were made before
// there was one.
func (w *world) unmark() {
	w.t.Helper()
	c := w.root()
	for _, v := range w.inRange() {
		text := regexp.MustCompile(` cluster=\S*?(`+"`"+`|$)`).ReplaceAllString(v.Config["description"], "$1")
		if text == v.Config["description"] {
			w.t.Fatalf("no cluster in %q", text)
		}
		must.Do(w.t, c.VM(v.Host, v.ID).SetConfig(w.t.Context(), map[string]string{"description": text}, nil, ""))
	}
}

// Machines of before clusters were marked are kept as they are until the configuration adopts them,
// with their intents and without; to adopt them writes nothing to them, and ends when the setting
// goes.
func TestUnmarkedMachinesAreKeptUntilTheyAreAdopted(t *testing.T) {
	race.Skip(t)
	for _, lost := range []bool{false, true} {
		w := twoWorld(t, 1, 3)
		p := w.beside("p", homeCluster, nil)
		together(4*time.Second, p)
		for range 2 {
			must.Get(p.order())(t)
		}
		together(5*time.Minute, p)
		w.unmark()
		kept := must.Get(p.intents.Load())(t)
		p.intents = &intents.Memory{}
		for _, i := range kept {
			if i.Cluster = ""; !lost {
				_ = p.intents.Put(i)
			}
		}
		before := w.inRange()
		p.wrote = nil
		again := func(adopt bool) {
			p.cfg.AdoptUnmarked = adopt
			p.start(nil)
			together(2*time.Hour, p)
			touched := slices.ContainsFunc(p.wrote, func(call string) bool { return strings.Contains(call, "/qemu/") })
			if touched || len(p.machines()) != 2 {
				t.Errorf("lost %t, adopt %t: %d machines, wrote %v", lost, adopt, len(p.machines()), p.wrote)
			}
			for _, m := range p.machines() {
				if (m.Held == nil) != adopt || !adopt && m.Held.Code != pvecode.Unmarked || m.Phase != nodescaler.Joined {
					t.Errorf("lost %t, adopt %t: %+v", lost, adopt, m)
				}
			}
		}
		again(false)
		name := p.machines()[0].Name
		for what, err := range map[string]error{"Delete": p.fleet.Delete(t.Context(), name), "Stash": p.fleet.Stash(t.Context(), name)} {
			if err == nil || !strings.Contains(err.Error(), "adoptUnmarked: true") {
				t.Errorf("%s: %v", what, err)
			}
		}
		again(true)
		again(false)
		again(true)
		for i, v := range w.inRange() {
			if looksOf(v) != looksOf(before[i]) {
				t.Errorf("VM %d was changed", v.ID)
			}
		}
		must.Do(t, p.fleet.Delete(t.Context(), name))
		together(10*time.Minute, p)
		if running, _ := w.made(); len(running) != 1 {
			t.Errorf("%d run, want 1", len(running))
		}
	}
}

// A machine that was being made when clusters were not marked yet is not made until it is adopted,
// and nothing waits for it meanwhile.
func TestAnUnmarkedMachineUnderWayIsWaitedForOnceItIsAdopted(t *testing.T) {
	race.Skip(t)
	w := twoWorld(t, 1, 3)
	p := w.beside("p", homeCluster, nil)
	together(4*time.Second, p)
	must.Get(p.order())(t)
	step := func() intents.Step {
		all, err := p.intents.Load()
		if err != nil || len(all) != 1 {
			t.Fatalf("%v, %v", all, err)
		}
		return all[0].Step
	}
	for i := 0; step() == intents.StepOrdered || step() == intents.StepClaimed; i++ {
		if i > 600 {
			t.Fatal("it is not cloned")
		}
		together(time.Second, p)
	}
	w.unmark()
	kept := must.Get(p.intents.Load())(t)
	kept[0].Cluster = ""
	p.intents = &intents.Memory{}
	_ = p.intents.Put(kept[0])
	for _, adopt := range []bool{false, true} {
		p.cfg.AdoptUnmarked = adopt
		p.start(nil)
		together(20*time.Minute, p)
		want := nodescaler.Failed
		if adopt {
			want = nodescaler.Joined
		}
		if all := p.machines(); len(all) != 1 || all[0].Phase != want || (all[0].Held == nil) != adopt {
			t.Errorf("adopt %t: %+v, want %s", adopt, all, want)
		}
	}
}

// Whichever of several processes works when, dies and begins again, never more machines than the
// maximum run; none touches what another one makes, nor any machine of another cluster; and in the
// end nothing is in the way of any.
func TestMaximumHoldsOnProxmoxWhoeverOrders(t *testing.T) {
	for _, clusters := range [][]string{{homeCluster, homeCluster}, {homeCluster, homeCluster, homeCluster}, {homeCluster, awayCluster}} {
		seeds := uint64(8)
		if race.On {
			seeds = 2 // one process runs at a time: there is little to find
		}
		for seed := range seeds {
			t.Run(fmt.Sprintf("%d processes, %t, seed %d", len(clusters), clusters[0] == clusters[1], seed), func(t *testing.T) {
				compete(t, seed, clusters)
			})
		}
	}
}

// maker notes who made which VMID and holds that no other client changes it before it has run.
type maker struct {
	t    *testing.T
	w    *world
	p    *process
	all  map[int]*process
	ran  map[int]bool
	most int
	die  func() bool
	// meanwhile lets others go on between two of its calls.
	meanwhile func(*process)
}

var changesVM = regexp.MustCompile(`^/api2/json/nodes/\w+/qemu/(\d+)`)

func (m *maker) RoundTrip(r *http.Request) (*http.Response, error) {
	var id int
	if found := changesVM.FindStringSubmatch(r.URL.Path); found != nil {
		id, _ = strconv.Atoi(found[1])
	}
	if r.Method != http.MethodGet && id >= 1000 && id < 2000 {
		by := m.all[id]
		if by != nil && by != m.p && (by.cfg.Cluster != m.p.cfg.Cluster || !m.ran[id]) {
			m.t.Errorf("%s: %s %s, which %s makes", m.p.name, r.Method, r.URL.Path, by.name)
		}
	}
	m.meanwhile(m.p)
	if m.die() && r.Method != http.MethodGet {
		return nil, context.Canceled
	}
	there := map[int]bool{}
	for _, v := range m.w.inRange() {
		there[v.ID] = true
	}
	for id := range m.all { // its VMID may be another's next
		if !there[id] {
			delete(m.all, id)
			delete(m.ran, id)
		}
	}
	answer, err := m.w.sim.Transport().RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusOK && strings.HasSuffix(r.URL.Path, "/clone") {
		for _, v := range m.w.inRange() {
			if m.all[v.ID] == nil {
				m.all[v.ID] = m.p
			}
		}
	}
	running, _ := m.w.made()
	for _, v := range running {
		m.ran[v.ID] = true
	}
	if len(running) > m.most {
		m.t.Errorf("%d machines run after %s's %s %s, of at most %d", len(running), m.p.name, r.Method, r.URL.Path, m.most)
	}
	return answer, err
}

func compete(t *testing.T, seed uint64, clusters []string) {
	rng := rand.New(rand.NewPCG(seed, uint64(len(clusters))))
	most := 1 + rng.IntN(3)
	w := twoWorld(t, seed, most)
	all, ran := map[int]*process{}, map[int]bool{}
	var ps []*process
	atWork := map[*process]bool{}
	tick := func(p *process) {
		if !atWork[p] {
			atWork[p] = true
			p.tick()
			atWork[p] = false
		}
	}
	meanwhile := func(p *process) {
		was := atWork[p]
		atWork[p] = true // from here on it is in the middle of a call
		for rng.IntN(3) == 0 {
			tick(ps[rng.IntN(len(ps))])
		}
		atWork[p] = was
	}
	ways := map[*process]http.RoundTripper{}
	for i, cluster := range clusters {
		p := w.beside(string(rune('a'+i)), cluster, nil)
		deadly := rng.IntN(2) == 0
		ways[p] = &maker{t, w, p, all, ran, most, func() bool { return deadly && rng.IntN(60) == 0 }, meanwhile}
		// Each clock goes as it likes.
		skew := time.Duration(rng.IntN(7200)-3600) * time.Second
		if rng.IntN(2) == 0 {
			p.cfg.Now = func() time.Time { return w.sim.Now().Add(skew) }
		}
		p.start(ways[p])
		ps = append(ps, p)
	}
	for _, p := range ps { // each sees an empty range, and orders all that it may
		p.tick()
	}
	for _, p := range ps {
		for range most {
			_, _ = p.order()
		}
	}
	for range 40 + rng.IntN(300) {
		p := ps[rng.IntN(len(ps))]
		switch n := rng.IntN(20); {
		case n < 3:
			_, _ = p.order()
		case n == 3 && rng.IntN(4) == 0:
			p.start(ways[p])
		case n == 4 && rng.IntN(4) == 0:
			if ms := p.machines(); len(ms) > 0 {
				_ = p.fleet.Delete(t.Context(), ms[rng.IntN(len(ms))].Name)
			}
		case n < 12:
			tick(p)
		default:
			w.sim.Advance(time.Duration(rng.IntN(4000)) * time.Millisecond)
		}
	}
	for _, p := range ps {
		p.start(nil)
	}
	for range 7 {
		for _, p := range ps {
			for _, m := range p.machines() {
				if m.Phase == nodescaler.Failed && m.Held == nil {
					_ = p.fleet.Delete(t.Context(), m.Name)
				}
			}
		}
		together(11*time.Minute, ps...)
	}
	running, there := w.made()
	if len(running) > most {
		t.Errorf("in the end %d run, of at most %d", len(running), most)
	}
	if clusters[0] == clusters[1] && len(there) != len(running) {
		for _, p := range ps {
			for _, m := range p.machines() {
				t.Logf("%s: %s %s %s", p.name, m.Name, m.Phase, m.Problem)
			}
		}
		t.Errorf("in the end %d are there and %d run", len(there), len(running))
	}
}
