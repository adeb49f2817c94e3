package rke2

import (
	"errors"
	"flag"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// nodes are the names of the nodes there are, without what differs from run to run.
func (w *world) nodes() []string {
	w.t.Helper()
	list := must.Get(w.net.Nodes(w.t.Context()))(w.t)
	var all []string
	for _, n := range list {
		pool, _, _ := strings.Cut(n.Name, "-")
		if n.ProviderID != "rke2://"+n.Name {
			w.t.Errorf("%s has the provider id %q", n.Name, n.ProviderID)
		}
		all = append(all, pool)
	}
	slices.Sort(all)
	return all
}

var whole = []string{"control", "load", "workers", "workers"}

func TestTestBedIsBuiltOnceAndRemovedWithoutTrace(t *testing.T) {
	for name, prepare := range map[string]func(*world){"template": nothing, "image": ofImage} {
		t.Run(name, func(t *testing.T) { builtOnce(t, prepare) })
	}
}

func builtOnce(t *testing.T, prepare func(*world)) {
	w := newWorld(t)
	t.Cleanup(w.sim.Close)
	prepare(w)
	w.wrap = func(next http.RoundTripper) http.RoundTripper { return conform(t, next) }
	if err := w.up(); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(w.lines, "\n"))
	}
	t.Log("\n" + strings.Join(w.lines, "\n"))
	if diff := cmp.Diff(whole, w.nodes()); diff != "" || len(w.net.wrong) > 0 {
		t.Fatalf("%s %v", diff, w.net.wrong)
	}
	before := writes(w)
	must.Do(t, w.up())
	if after := writes(w); after != before {
		t.Errorf("a second up has made %d changes", after-before)
	}
	w.downWithoutTrace()
	if err := w.down(); err != nil {
		t.Error("where there is nothing:", err)
	}
}

// writes is how many calls were made that change something.
func writes(w *world) int {
	n := 0
	for _, c := range w.sim.Calls() {
		if c.Method != http.MethodGet {
			n++
		}
	}
	return n
}

// moments are the calls and writes of a verb that a process could die at.
func moments(t *testing.T, prepare func(*world), verb func(*world) error) []string {
	t.Helper()
	w := newWorld(t)
	prepare(w)
	w.mortal = &mortal{left: -1}
	must.Do(t, verb(w))
	w.sim.Close()
	return w.mortal.steps
}

var everyDeath = flag.Bool("deaths", false, "die at every moment, right before it and right after; else at some of them")

// eachDeath runs a verb as often as there are moments in it, twice: it dies right before, and right
// after.
func eachDeath(t *testing.T, prepare func(*world), verb func(*world) error, then func(*world)) {
	t.Helper()
	all := moments(t, prepare, verb)
	if len(all) < 10 {
		t.Fatalf("there are %d moments to die at: %q", len(all), all)
	}
	stride := 13 // odd, so that both come
	if race.On {
		stride *= 5
	}
	for at := range all {
		for _, after := range []bool{false, true} {
			if !*everyDeath && (2*at+bit(after))%stride != 0 {
				continue
			}
			w := newWorld(t)
			prepare(w)
			w.mortal = &mortal{left: at, after: after}
			if err := verb(w); err == nil && !w.mortal.dead {
				t.Fatalf("it did not die at %d", at)
			}
			w.mortal = nil
			then(w)
			w.sim.Close()
			if t.Failed() {
				t.Fatalf("dead at %d of %d, %s, after: %v\n%s", at, len(all), all[at], after, strings.Join(w.lines, "\n"))
			}
		}
	}
	t.Logf("%d moments", len(all))
}

func bit(on bool) int {
	if on {
		return 1
	}
	return 0
}

func nothing(*world) {}

func (w *world) mustUp() {
	w.t.Helper()
	if err := w.up(); err != nil {
		w.t.Fatalf("%v\n%s", err, strings.Join(w.lines, "\n"))
	}
}

// upAgain goes on with what there is, to the end.
func (w *world) upAgain() {
	w.t.Helper()
	if err := w.up(); err != nil {
		w.t.Error("up again:", err)
	} else if diff := cmp.Diff(whole, w.nodes()); diff != "" || len(w.net.wrong) > 0 {
		w.t.Error(diff, w.net.wrong)
	}
}

func (w *world) downWithoutTrace() {
	w.t.Helper()
	if err := w.down(); err != nil {
		w.t.Errorf("down: %v\n%s", err, strings.Join(w.lines, "\n"))
	}
	if left := w.left(); len(left) > 0 {
		w.t.Errorf("this is left: %q", left)
	}
}

func (w *world) upAgainAndDown() {
	w.t.Helper()
	w.upAgain()
	w.downWithoutTrace()
}

func TestUpGoesOnWhereverItDied(t *testing.T) {
	eachDeath(t, nothing, (*world).up, (*world).upAgainAndDown)
}

func TestDownLeavesNothingWhereverUpDied(t *testing.T) {
	eachDeath(t, nothing, (*world).up, (*world).downWithoutTrace)
}

func TestDownGoesOnWhereverItDied(t *testing.T) {
	eachDeath(t, (*world).mustUp, (*world).down, (*world).downWithoutTrace)
}

// The folder with the bench's state may be lost with the machine that it was on.
func TestDownFindsWhatWasBuiltWithoutItsState(t *testing.T) {
	eachDeath(t, nothing, (*world).up, func(w *world) {
		clear(w.store)
		w.downWithoutTrace()
	})
}

// The template is made, used and removed like all else.
func TestTemplateIsMadeOfAnImageWhereverUpDied(t *testing.T) {
	eachDeath(t, ofImage, (*world).up, func(w *world) {
		w.upAgain()
		before := writes(w)
		if err := w.up(); err != nil || writes(w) != before {
			w.t.Errorf("a third up: %v, %d changes", err, writes(w)-before)
		}
		w.downWithoutTrace()
	})
}

func TestDownRemovesTheTemplateWhereverUpDied(t *testing.T) {
	eachDeath(t, ofImage, (*world).up, (*world).downWithoutTrace)
}

// Plimsoll in the cluster makes workers with the token that it is given, and no more than that;
// down removes those too.
func TestPlimsollsTokenMakesWorkersThatDownRemoves(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(w.sim.Close)
	w.mustUp()
	client, inside, shape := w.inside()
	order := loop.Order{ID: "inside-0", Action: nodescaler.Action{Kind: nodescaler.Buy, Pool: "workers", Shape: shape}}
	joined := false
	for range 300 {
		must.Do(t, inside.Tick(t.Context()))
		if err := inside.Create(t.Context(), order); err != nil && !errors.Is(err, loop.ErrRefused) {
			t.Fatal(err)
		}
		seen := must.Get(inside.List(t.Context()))(t)
		if len(seen.Machines) > 3 {
			t.Fatalf("it sees %+v", seen.Machines)
		}
		live, _ := machinesOf(seen.Machines, "workers")
		if joined = len(live) == 3 && !slices.ContainsFunc(live, func(m nodescaler.Machine) bool { return m.Phase != nodescaler.Joined }); joined {
			break
		}
		w.sim.Advance(inside.Pause())
	}
	if !joined {
		t.Fatalf("no worker was made: %v", inside.Counts())
	}
	if _, err := client.VM("pve2", 300).Destroy(t.Context(), true); !pveapi.Is(err, pveapi.Forbidden) {
		t.Error("the token may destroy others' machines:", err)
	}
	w.downWithoutTrace()
}

// inside is Plimsoll in the cluster: its way to Proxmox VE, its fleet, and what workers are.
func (w *world) inside() (*pveapi.Client, *pve.Fleet, *pricing.Shape) {
	w.t.Helper()
	b := must.Get(w.bench())(w.t)
	site := must.Get(b.plan())(w.t)
	connection := b.cfg.Connection
	connection.Token = func() (string, error) { return b.secrets.Proxmox, nil }
	client := must.Get(pveapi.Connect(connection))(w.t)
	fleet := must.Get(pve.NewFleet(pve.FleetConfig{
		Client: client, Owner: site.Owner, Cluster: "the-one-that-is-up", AdoptUnmarked: true, Pools: site.Pools[workers:], Intents: &intents.Memory{},
		Nodes: w.net.Nodes, Now: w.sim.Now, Rand: rand.New(rand.NewPCG(2, 2)), Parallel: 1,
	}))(w.t)
	return client, fleet, &site.Pools[workers].Shapes[0]
}

// Plimsoll may give a worker back that up has made, and make another of its VMID, of which the
// bench's folder knows nothing: down removes that one, too.
func TestDownRemovesWhatPlimsollMadeInPlaceOfAWorker(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(w.sim.Close)
	w.site.Workers.Start, w.site.Workers.Max, w.site.VMIDs.Last = 1, 1, w.site.VMIDs.First+2
	w.mustUp()
	_, inside, shape := w.inside()
	const order = "inside-0"
	first, made := "", false
	for range 1000 {
		must.Do(t, inside.Tick(t.Context()))
		seen, err := inside.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		live, _ := machinesOf(seen.Machines, "workers")
		switch {
		case first == "" && len(live) == 1:
			first = live[0].Name
			err = inside.Delete(t.Context(), first)
		case first != "" && len(seen.Machines) == 0:
			err = inside.Create(t.Context(), loop.Order{ID: order, Action: nodescaler.Action{Kind: nodescaler.Buy, Pool: "workers", Shape: shape}})
		case len(live) == 1:
			made = live[0].Name != first && live[0].Phase == nodescaler.Joined
		}
		if err != nil && !errors.Is(err, loop.ErrRefused) {
			t.Fatal(err)
		}
		if made {
			break
		}
		w.sim.Advance(inside.Pause())
	}
	if !made {
		t.Fatalf("no worker was made in place of %s: %v", first, inside.Counts())
	}
	w.downWithoutTrace()
}

// A machine that does not become a node is reported with what is known, and the next up replaces
// it.
func TestMachineThatDoesNotJoinIsReportedAndReplaced(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(w.sim.Close)
	faults, err := pvesim.ParseFaults("fail boot nth=1")
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, w.sim.Inject(faults[0]))
	err = w.up()
	if err == nil || !strings.Contains(err.Error(), "make the control plane: control-") || !strings.Contains(err.Error(), "has failed") {
		t.Fatalf("up says %v", err)
	}
	w.mustUp()
	if diff := cmp.Diff(whole, w.nodes()); diff != "" {
		t.Error(diff)
	}
	w.downWithoutTrace()
}

// What is in the pool and is not proved to be ours is not touched.
func TestDownTouchesNothingThatIsNotProved(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(w.sim.Close)
	w.mustUp()
	must.Do(t, w.sim.Console().Run("pvesh set /pools/bench --vms 300"))
	err := w.down()
	var f *Fault
	if !errors.As(err, &f) || f.Field != "pvePool" || !strings.Contains(f.Text, "300 on pve2 strangers") {
		t.Fatalf("down says %v", err)
	}
	if !slices.ContainsFunc(w.sim.Inventory().VMs, func(m pvesim.VMState) bool { return m.ID == 300 }) {
		t.Fatal("it was destroyed")
	}
	must.Do(t, w.sim.Console().Run("pvesh set /pools/bench --vms 300 --delete 1"))
	w.downWithoutTrace()
}

var troubleSeed = flag.Uint64("troubles", 1, "where the chance of troubles comes from")

// troubles are what goes wrong on the way to Proxmox VE and there, while a test bed is built.
var troubles = []string{
	"lose answer POST … p=0.3", "lose answer PUT … p=0.3", "lose answer ANY … p=0.1", "drop ANY … p=0.1", "answer 596 ANY … p=0.1",
	"fail clone p=0.5 times=3", "fail create times=2", "kill task template times=1", "fail start p=0.5 times=3", "fail upload times=2", "warn clone",
	"no quorum for=1m every=3m times=3", "storage-lock nfs for=1m after=20s", "host pve2 down after=30s for=3m", "freeze resources for=2m after=10s",
	"fail boot p=0.5 times=1",
}

// After any failure, up that is run again and again comes to the whole test bed when it ends, and
// down to nothing; or down does right away.
func TestTroublesEndInAWholeTestBedOrInNothing(t *testing.T) {
	race.Skip(t)
	failed := 0
	for i, line := range troubles {
		for _, giveUp := range []bool{false, true} {
			w := newWorld(t, func(c *pvesim.Config) { c.Seed = *troubleSeed + uint64(i) })
			ofImage(w)
			faults, err := pvesim.ParseFaults(line)
			if err != nil {
				t.Fatal(err)
			}
			must.Do(t, w.sim.Inject(faults[0]))
			tries := 3
			for err = w.up(); err != nil && tries > 0; err = w.up() {
				tries--
				failed++
			}
			w.sim.Heal()
			if !giveUp {
				if err := w.up(); err != nil {
					t.Errorf("%s: up, when nothing is wrong any more: %v", line, err)
				} else if diff := cmp.Diff(whole, w.nodes()); diff != "" {
					t.Errorf("%s: %s", line, diff)
				}
			}
			if err := w.down(); err != nil {
				t.Errorf("%s: down: %v", line, err)
			}
			if left := w.left(); len(left) > 0 {
				t.Errorf("%s: this is left: %q", line, left)
			}
			w.sim.Close()
			if t.Failed() {
				t.Fatal("\n" + strings.Join(w.lines, "\n"))
			}
		}
	}
	if failed == 0 {
		t.Error("nothing went wrong")
	}
	t.Logf("up failed %d times", failed)
}
