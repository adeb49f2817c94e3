package pve

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/race"
)

var (
	leakSeed = flag.Uint64("seed", 0, "the only seed that TestNothingLeaksNothingForeignDies runs, and tells the story of")
	leakRuns = flag.Int("runs", 0, "how many seeds it runs; 0 is 500, and 40 with the race detector; make conformance does 2,000")
)

// TestNothingLeaksNothingForeignDies runs a fleet through random troubles: orders and returns,
// people who make, change, move and destroy machines by hand, crashes of our own process between
// any two calls, with the intents kept, torn or lost, and any mix of faults. Then the faults end
// and time passes, and everything that was ordered must be there or reported, everything that was
// returned gone, and no other client's machine touched.
//
//	go test -run NothingLeaks ./proxmox/pve -seed N
//
// replays one run exactly.
func TestNothingLeaksNothingForeignDies(t *testing.T) {
	if *leakSeed != 0 {
		t.Log("\n" + strings.Join(oneLife(t, *leakSeed, true).story, "\n"))
		return
	}
	runs := *leakRuns
	switch {
	case runs > 0:
	case race.On:
		runs = 40
	default:
		runs = 500
	}
	defer debug.SetGCPercent(debug.SetGCPercent(2000)) // worlds are small, and short
	var next, calls, crashes atomic.Uint64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				seed := next.Add(1)
				if seed > uint64(runs) || t.Failed() {
					return
				}
				l := oneLife(t, seed, false)
				calls.Add(uint64(l.calls))
				crashes.Add(uint64(l.crashes))
			}
		})
	}
	workers.Wait()
	t.Logf("%d runs, seeds 1 to %d: %d calls, %d crashes", runs, runs, calls.Load(), crashes.Load())
}

// A seed that fails is worth something only if it fails again.
func TestLivesRepeatExactly(t *testing.T) {
	race.Skip(t)
	for seed := range uint64(8) {
		a, b := oneLife(t, seed+1, true).story, oneLife(t, seed+1, true).story
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("seed %d went another way the second time:\n%s", seed+1, diff)
		}
	}
}

// life is one run.
type life struct {
	*world
	seed    uint64
	rng     *rand.Rand
	mortal  *mortal
	calls   int
	crashes int
	wrong   []string
	story   []string
	tell    bool

	file     []byte               // the intents as they are kept
	accepted map[string]time.Time // orders that were taken, by machine
	returned map[string]time.Time
	lost     time.Time       // the intents were lost; what was ordered before may be forgotten
	foreign  map[int]foreign // machines that people made
	meddled  map[string]bool // machines of ours that people laid hands on
	perhaps  map[string]bool // and those of which it is not known whether they did
	made     map[int]string  // names of machines that our clones were to make, by VMID
	held     map[string]bool // machines that were reported as quarantined
	kept     map[string]keeping

	once    map[string]bool // machines whose node was ready once, as the fleet was shown
	revoked map[string]bool // machines that were to go and were said to stay
	disks   map[int]bool    // machines that a person has put a disk into
	// When machines were first shut down or stopped, since they were to go.
	leaving map[string]time.Time
	// When machines were that had been nodes and were none, since a person resumed the pool.
	silent []time.Time
}

// keeping is whether a machine is to be a spare, as far as was accepted.
type keeping string

const (
	asSpare   keeping = "as a spare"
	asNode    keeping = "as a node"
	asMayBe   keeping = "as either" // the process died while it was decided
	unchanged keeping = ""
)

// foreign is a machine of another client, as it was when it was last changed by another client.
type foreign struct{ looks string }

// mortal is the way to the cluster and the file of intents of a process that dies at a moment.
type mortal struct {
	l     *life
	base  http.RoundTripper
	left  int // events until it dies; negative is never
	after bool
	dead  bool
}

var errDead = errors.New("the process is dead")

// die counts down, and says whether the process dies now.
func (m *mortal) die() bool {
	if m.left < 0 {
		return false
	}
	m.left--
	return m.left < 0
}

func (m *mortal) RoundTrip(req *http.Request) (*http.Response, error) {
	if m.dead {
		return nil, errDead
	}
	dies := m.die()
	if dies && !m.after {
		m.dead = true
		return nil, errDead
	}
	m.l.watch(req)
	res, err := m.base.RoundTrip(req)
	if req.Method != http.MethodGet {
		m.l.counted()
	}
	if dies {
		m.dead = true
		return nil, errDead
	}
	return res, err
}

// dyingFile is the file of intents, which a dying process writes in part.
type dyingFile struct{ l *life }

func (d dyingFile) Read() ([]byte, error) { return d.l.file, nil }

func (d dyingFile) Append(data []byte) error {
	m := d.l.mortal
	if m.dead {
		return errDead
	}
	if !m.die() {
		d.l.file = append(d.l.file, data...)
		return nil
	}
	m.dead = true
	d.l.file = append(d.l.file, data[:d.l.rng.IntN(len(data)+1)]...)
	return errDead
}

func (d dyingFile) Replace(data []byte) error {
	m := d.l.mortal
	if m.dead {
		return errDead
	}
	if m.die() {
		m.dead = true
		if d.l.rng.IntN(2) == 0 {
			return errDead
		}
	}
	d.l.file = data
	return nil
}

var machinePath = regexp.MustCompile(`^/api2/json/nodes/[^/]+/qemu/(\d+)(/.*)?$`)

// watch looks at every call before it is made: which machine it would change.
func (l *life) watch(req *http.Request) {
	l.calls++
	if l.tell {
		l.note("    %s %s %s", req.Method, strings.TrimPrefix(req.URL.Path, "/api2/json"), req.URL.RawQuery)
	}
	found := machinePath.FindStringSubmatch(req.URL.Path)
	if req.Method == http.MethodGet || found == nil {
		return
	}
	id, _ := strconv.Atoi(found[1])
	if found[2] == "/clone" {
		l.watchClone(req)
		return
	}
	for _, v := range l.sim.Inventory().VMs {
		switch {
		case v.ID != id:
		case !l.mine(v):
			l.fail("%s %s would change VM %d (%s), which is not ours", req.Method, req.URL.Path, id, v.Config["name"])
		case l.meddled[l.made[id]] && found[2] == "/config" && l.guarded(req):
		case l.meddled[l.made[id]]:
			l.fail("%s %s would change VM %d (%s), which somebody took over", req.Method, req.URL.Path, id, v.Config["name"])
		case strings.Contains(v.Config["description"], "stage=ready") && v.Config["protection"] == "1" && req.Method != http.MethodPut &&
			!strings.HasSuffix(found[2], "/start"):
			l.fail("%s %s would stop or destroy VM %d (%s), which somebody protected", req.Method, req.URL.Path, id, v.Config["name"])
		case req.Method == http.MethodDelete || strings.HasSuffix(found[2], "/stop") || strings.HasSuffix(found[2], "/shutdown"):
			l.watchEnd(v)
		}
	}
}

// guarded reports whether a change carries the digest of the configuration that it is meant for:
// the server refuses it when another client has changed that meanwhile.
func (l *life) guarded(req *http.Request) bool {
	return bytes.Contains(l.body(req), []byte(`"digest":"`))
}

// body reads a request's body and leaves it as it was.
func (l *life) body(req *http.Request) []byte {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		l.fail("%v", err)
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	return body
}

func (l *life) watchClone(req *http.Request) {
	body := l.body(req)
	id, name := regexp.MustCompile(`"newid":(\d+)`).FindSubmatch(body), regexp.MustCompile(`"name":"([^"]+)"`).FindSubmatch(body)
	n, _ := strconv.Atoi(string(id[1]))
	l.made[n] = string(name[1])
	if l.tell {
		l.note("      newid %d name %s", n, name[1])
	}
}

// mine reports whether a machine was made by a clone of ours.
func (l *life) mine(v pvesim.VMState) bool {
	_, others := l.foreign[v.ID]
	return !others && !strings.HasPrefix(v.Config["name"], "foreign-") && v.Config["template"] == "" && l.made[v.ID] != ""
}

// counted holds after every call that changes something, and after every tick, that there are never
// more machines than there may be.
func (l *life) counted() {
	n := 0
	for _, v := range l.sim.Inventory().VMs {
		// What a person took over is theirs, and what is left of a clone whose intent was lost
		// cannot be seen.
		name := l.made[v.ID]
		if l.mine(v) && !l.meddled[name] && (v.Config["lock"] != "clone" || l.accepted[name].After(l.lost)) {
			n++
		}
	}
	if n > l.pool().Max {
		l.fail("there are %d machines of at most %d", n, l.pool().Max)
	}
}

func (l *life) fail(format string, args ...any) {
	l.note("WRONG: "+format, args...)
	if len(l.wrong) > 5 {
		return
	}
	l.wrong = append(l.wrong, l.sim.Now().Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
}

func (l *life) note(format string, args ...any) {
	if l.tell {
		l.story = append(l.story, l.sim.Now().Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
	}
}

// oneLife is one run.
func oneLife(t *testing.T, seed uint64, tell bool) *life {
	l := newLife(t, seed, tell)
	defer l.sim.Close()
	l.trouble()
	l.peace()
	l.end()
	if len(l.wrong) > 0 {
		t.Errorf("seed %d:\n%s\n(go test -run NothingLeaks ./proxmox/pve -seed %d)", seed, strings.Join(l.wrong, "\n"), seed)
	}
	return l
}

func newLife(t *testing.T, seed uint64, tell bool) *life {
	rng := timing.Stream(seed, "life")
	p := plan{hosts: 1 + rng.IntN(3), seed: seed, shared: rng.IntN(3) == 0, brief: true}
	l := &life{
		seed: seed, rng: rng, tell: tell,
		accepted: map[string]time.Time{}, returned: map[string]time.Time{}, foreign: map[int]foreign{},
		meddled: map[string]bool{}, perhaps: map[string]bool{}, made: map[int]string{}, held: map[string]bool{}, kept: map[string]keeping{},
		once: map[string]bool{}, revoked: map[string]bool{}, disks: map[int]bool{}, leaving: map[string]time.Time{},
	}
	for range rng.IntN(3) {
		id := 1000 + rng.IntN(12)
		if !slices.ContainsFunc(p.vms, func(v pvesim.VM) bool { return v.ID == id }) {
			p.vms = append(p.vms, pvesim.VM{ID: id, Host: "pve1", Pool: "plimsoll", Running: rng.IntN(2) == 0, Storage: "local-lvm", Disk: gib,
				Config: map[string]string{"name": fmt.Sprintf("db-%d", id)}})
		}
	}
	l.world = newWorld(t, p)
	pool := l.pool()
	pool.Max = 2 + rng.IntN(4)
	pool.VMIDs = placement.VMIDs{First: 1000, Last: 1011}
	pool.Cooldown = nodescaler.Duration(time.Duration(1+rng.IntN(5)) * time.Minute)
	pool.JoinTimeout = nodescaler.Duration(time.Duration(2+rng.IntN(3)) * time.Minute)
	pool.ShutdownGrace = nodescaler.Duration(20 * time.Second)
	pool.MaxFailures = 1000
	if rng.IntN(2) == 0 {
		pool.Clone = placement.Full
	}
	l.cfg.ClonesPerStorage = 1 + rng.IntN(2)
	l.cfg.OrphanGrace = nodescaler.Duration(5 * time.Minute)
	if rng.IntN(2) == 0 {
		l.cfg.HA = settings.HAPurge
	}
	l.cfg.Report = func(e Event) {
		l.note("%s", e)
		switch e.Code {
		case pvecode.Quarantined:
			l.held[e.Machine] = true
		case pvecode.Returned:
			if l.returned[e.Machine].IsZero() { // by a sweep
				l.returned[e.Machine] = l.sim.Now()
			}
		case pvecode.Revoked:
			l.revoked[e.Machine] = true
			delete(l.leaving, e.Machine)
		}
	}
	l.pods, l.claims = map[string][]string{}, map[string][]string{}
	if rng.IntN(4) > 0 {
		l.cfg.LastLook = l.lastLook
	}
	l.honest = rng.IntN(4) > 0
	if rng.IntN(3) == 0 {
		l.named = func(machine string) string { return machine + ".example.org" }
	}
	for _, v := range l.sim.Inventory().VMs {
		if !strings.HasPrefix(v.Config["name"], "template") {
			l.foreign[v.ID] = foreign{looksOf(v)}
		}
	}
	l.wrap = func(base http.RoundTripper) http.RoundTripper {
		l.mortal.base = base
		return l.mortal
	}
	l.restart()
	return l
}

// looksOf is all of a machine that others must not change.
func looksOf(v pvesim.VMState) string {
	var b strings.Builder
	fmt.Fprintln(&b, v.Host, v.Pool) // faults stop machines too; calls that would are watched
	for _, key := range slices.Sorted(maps.Keys(v.Config)) {
		if key != "lock" {
			fmt.Fprintln(&b, key, v.Config[key])
		}
	}
	return b.String()
}

// restart lets the process begin, or begin again.
func (l *life) restart() {
	l.mortal = &mortal{l: l, left: -1}
	if l.rng.IntN(3) > 0 {
		l.mortal.left, l.mortal.after = int(l.rng.ExpFloat64()*60), l.rng.IntN(2) == 0
	}
	if l.crashes > 0 && l.rng.IntN(6) == 0 {
		l.note("THE INTENTS ARE LOST")
		l.file = nil
		l.lost = l.sim.Now()
	}
	log, err := intents.OpenLog(dyingFile{l})
	if err != nil {
		l.t.Fatalf("seed %d: %v", l.seed, err)
	}
	l.intents = log
	l.cfg.Rand = timing.Stream(l.seed, fmt.Sprint("fleet ", l.crashes))
	l.begin()
}

// live ticks for a while, and begins again when the process has died.
func (l *life) live(d time.Duration) {
	until := l.sim.Now().Add(d)
	for l.sim.Now().Before(until) {
		_ = l.fleet.Tick(context.Background())
		if l.mortal.dead {
			l.crashes++
			l.note("CRASH")
			l.sim.Advance(time.Duration(l.rng.IntN(90)) * time.Second)
			l.restart()
			continue
		}
		l.distinct()
		l.counted()
		l.seen()
		l.sim.Advance(l.fleet.Pause())
	}
}

// distinct holds that no two machines have a VMID.
func (l *life) distinct() {
	seen := map[int]string{}
	for _, m := range l.fleet.roster.machines {
		if other := seen[m.VMID]; other != "" && m.Gone.IsZero() {
			l.fail("VMID %d is used by %s and %s", m.VMID, other, m.Name)
		}
		if m.Gone.IsZero() {
			seen[m.VMID] = m.Name
		}
	}
}

// trouble is the time of faults, orders, returns and people.
func (l *life) trouble() {
	rounds, often := 3+l.rng.IntN(6), 13
	if l.rng.IntN(3) == 0 { // a life in which machines are stopped and started again and again
		rounds, often = rounds+12, 24
	}
	for range rounds {
		if l.rng.IntN(4) == 0 {
			l.deceive()
		}
		switch n := l.rng.IntN(often); {
		case n < 4:
			for range 1 + l.rng.IntN(3) {
				l.orderOne()
			}
		case n < 6:
			l.returnOne()
		case n < 8:
			l.meddle()
		case n >= 10:
			l.keepOne()
		default:
			l.disturb()
		}
		l.asTheLoopDoes()
		l.live(time.Duration(5+l.rng.IntN(60)) * time.Second)
	}
}

func (l *life) orderOne() {
	host := ""
	if l.rng.IntN(2) == 0 {
		host = fmt.Sprintf("pve%d", 1+l.rng.IntN(3))
	}
	name, err := l.order(host)
	l.note("ORDER %s on %s: %v", name, host, err)
	if err == nil {
		l.accepted[name] = l.sim.Now()
		return
	}
	if !errors.Is(err, loop.ErrRefused) && !l.mortal.dead {
		l.fail("an order was neither taken nor refused: %v", err)
	}
}

func (l *life) names() []string {
	state, err := l.fleet.List(context.Background())
	if err != nil {
		return nil
	}
	var names []string
	for _, m := range state.Machines {
		names = append(names, m.Name)
	}
	return names
}

func (l *life) returnOne() {
	names := l.names()
	if len(names) == 0 {
		return
	}
	l.giveBack(names[l.rng.IntN(len(names))])
}

func (l *life) giveBack(name string) {
	err := l.fleet.Delete(context.Background(), name)
	l.note("RETURN %s: %v", name, err)
	if err == nil {
		if l.returned[name].IsZero() {
			l.returned[name] = l.sim.Now()
		}
	} else if !l.mortal.dead && !strings.Contains(err.Error(), " is held: ") {
		// Which no policy asks for.
		l.fail("%s is listed and cannot be returned: %v", name, err)
	}
}

// keepOne stops a machine to be kept, or starts one that is.
func (l *life) keepOne() {
	state, err := l.fleet.List(context.Background())
	if err != nil {
		return
	}
	may := slices.DeleteFunc(state.Machines, func(m nodescaler.Machine) bool {
		return m.Phase != nodescaler.Joined && m.Phase != nodescaler.Spare || l.held[m.Name] || m.Held != nil
	})
	if len(may) == 0 {
		return
	}
	m := may[l.rng.IntN(len(may))]
	to, do := asSpare, l.fleet.Stash
	if m.Phase == nodescaler.Spare {
		to, do = asNode, l.fleet.Wake
	}
	err = do(context.Background(), m.Name)
	l.note("KEEP %s %s: %v", m.Name, to, err)
	switch {
	case err == nil:
		l.kept[m.Name] = to
	case l.mortal.dead:
		l.kept[m.Name] = asMayBe
	case !errors.Is(err, loop.ErrRefused):
		l.fail("%s is %s and cannot be kept %s: %v", m.Name, m.Phase, to, err)
	}
}

// spared reports whether a machine may be a spare in the end: one that was ordered to be, or that
// was called back and could not be started for a fault. A machine that was a spare is stopped, and
// one that is a spare does not run.
func (l *life) spared(m *nodescaler.Machine) bool {
	if m.Phase != nodescaler.Spare {
		return false
	}
	if l.runs(m.Name) && !l.excused(m.Name) {
		l.fail("%s is a spare and runs", m.Name)
	}
	return l.kept[m.Name] != unchanged
}

// asTheLoopDoes gives machines back that have failed.
func (l *life) asTheLoopDoes() {
	state, err := l.fleet.List(context.Background())
	if err != nil {
		return
	}
	for _, m := range state.Machines {
		if m.Phase == nodescaler.Failed && m.Held == nil {
			l.giveBack(m.Name)
		}
	}
}

// failures reports whether there is a machine for the loop to give back.
func (l *life) failures() bool {
	state, err := l.fleet.List(context.Background())
	return err != nil || slices.ContainsFunc(state.Machines, func(m nodescaler.Machine) bool { return m.Phase == nodescaler.Failed && m.Held == nil })
}

// troubles are faults, with N for a host and T for a time.
var troubles = []string{
	"fail clone p=0.4 for=T", "kill task clone p=0.3 for=T", "slow clone by=40s for=T", "warn clone for=T",
	"fail start p=0.5 for=T", "slow start by=30s for=T", "fail boot p=0.5 for=T", "slow boot by=60s for=T",
	"fail destroy p=0.5 for=T", "kill task destroy p=0.4 for=T", "fail stop p=0.5 for=T", "fail shutdown for=T", "fail resize p=0.5 for=T",
	"fail upload p=0.5 for=T", "kill task any p=0.1 for=T", "steal id times=2 for=T", "steal id to=N times=1 for=T",
	"lose answer POST …/clone p=0.6 for=T", "lose answer ANY … p=0.2 for=T", "drop ANY … p=0.2 for=T", "lose answer PUT … p=0.4 for=T",
	"lose answer DELETE … p=0.5 for=T", "lose answer POST … p=0.5 for=T", "answer 596 POST …/clone p=0.5 for=T", "answer 596 ANY … p=0.1 for=T",
	"answer 595 ANY … p=0.2 for=T", "answer 500 ANY … p=0.2 for=T text=\"got timeout\"", "answer 503 ANY … p=0.2 for=T", "slow ANY … by=3s p=0.2 for=T",
	"unauthorized for=T", "revoke VM.Audit for=T", "revoke VM.Allocate for=T", "revoke SDN.Use for=T", "revoke Datastore.AllocateSpace for=T",
	"storage-lock local-lvm for=T", "full storage local-lvm for=T", "full storage STORE for=T",
	"freeze resources for=T", "no quorum for=T", "host N down for=T", "host N maintenance for=T", "cut N for=T",
}

// disturb lets something go wrong.
func (l *life) disturb() {
	line := troubles[l.rng.IntN(len(troubles))]
	hosts := len(l.pool().Template.ByHost)
	if l.pool().Template.VMID != 0 {
		hosts = 1 // the others have no template; which they are does not matter here
	}
	line = strings.ReplaceAll(line, "STORE", l.pool().ISO.Storage)
	line = strings.ReplaceAll(line, "=N", fmt.Sprintf("=pve%d", 1+l.rng.IntN(hosts)))
	line = strings.ReplaceAll(line, " N ", fmt.Sprintf(" pve%d ", 1+l.rng.IntN(hosts)))
	line = strings.ReplaceAll(line, "=T", fmt.Sprintf("=%ds", 10+l.rng.IntN(180)))
	l.note("FAULT %s", line)
	l.inject(line)
}

// peace ends the faults, and lets time pass.
func (l *life) peace() {
	l.note("PEACE")
	l.sim.Heal()
	l.unprotect()
	l.undeceive()
	l.mortal.left = -1
	for range 150 { // what does not run when it is found is waited for, for an hour
		l.asTheLoopDoes()
		l.live(time.Minute)
		if l.fleet.Pause() == idleGap && !l.failures() && !l.waits() && !l.judges() {
			break
		}
	}
	state, err := l.fleet.List(context.Background())
	if err != nil {
		l.fail("in peace the machines cannot be listed: %v", err)
		return
	}
	listed := map[string]nodescaler.Machine{}
	for _, m := range state.Machines {
		listed[m.Name] = m
	}
	for _, name := range slices.Sorted(maps.Keys(l.accepted)) {
		l.checkOrder(name, listed)
	}
	l.checkStrangers()
}

// judges reports whether the fleet waits before it says whose a machine is.
func (l *life) judges() bool {
	for id := range l.fleet.ownership.fresh {
		if _, judged := l.fleet.ownership.others[id]; !judged {
			return true
		}
	}
	return false
}

// checkOrder holds that what was ordered is there or reported, and what was returned is gone.
func (l *life) checkOrder(name string, listed map[string]nodescaler.Machine) {
	m, there := listed[name]
	at, back := l.returned[name]
	switch {
	case there && l.spared(&m) && !back:
	case there && m.Phase == nodescaler.Joined && l.kept[name] == asSpare && l.accepted[name].After(l.lost) && !back && !l.revoked[name]:
		l.fail("%s was to be a spare and is %s (%s)", name, m.Phase, m.Problem)
	case there && m.Phase == nodescaler.Joined && (m.Problem == "" || strings.HasPrefix(m.Problem, pvecode.Stopped)) && !back:
	case there && m.Problem != "" && l.excused(name):
	case l.revoked[name] && (!there || m.Phase == nodescaler.Joined || m.Phase == nodescaler.Deleting || m.Phase == nodescaler.Spare):
	case there && back && !at.After(l.lost):
	case there && back:
		l.fail("%s was returned at %s and is %s (%s)", name, at.Format(time.TimeOnly), m.Phase, m.Problem)
	case there && (m.Phase != nodescaler.Joined || m.Problem != ""):
		l.fail("%s was ordered and is %s (%s)", name, m.Phase, m.Problem)
	case !there && !back && l.accepted[name].After(l.lost):
		l.fail("%s was ordered and is not listed", name)
	}
}

// excused reports whether a machine may be left alone, as long as that is said: it is in
// quarantine, or a person has laid hands on it.
func (l *life) excused(name string) bool {
	return l.held[name] || l.meddled[name] || l.perhaps[name] || l.foundRunning(name)
}

// foundRunning reports whether a machine is kept because it ran when it was found, its intent was
// lost, and it was never seen as a node.
func (l *life) foundRunning(name string) bool {
	h := l.machine(name).Held
	return h != nil && h.Code == pvecode.NeverJoined && !l.accepted[name].After(l.lost)
}

func (l *life) checkStrangers() {
	there := map[int]pvesim.VMState{}
	for _, v := range l.sim.Inventory().VMs {
		there[v.ID] = v
	}
	for _, id := range slices.Sorted(maps.Keys(l.foreign)) {
		v, still := there[id]
		if !still {
			l.fail("foreign VM %d is gone", id)
		} else if looks := looksOf(v); looks != l.foreign[id].looks {
			l.fail("foreign VM %d was changed: it was\n%sand is\n%s", id, l.foreign[id].looks, looks)
		}
	}
}

// end gives everything back, and holds that nothing is left.
func (l *life) end() {
	l.note("END")
	for range 60 {
		for _, name := range l.names() {
			_ = l.fleet.Delete(context.Background(), name)
		}
		l.live(20 * time.Second)
		if l.fleet.Pause() == idleGap && !l.waits() {
			break
		}
	}
	for range 2 { // noticed first, and collected after the grace
		r, err := l.fleet.Collect(context.Background(), nil)
		l.note("COLLECT %+v: %v", r.Orphans, err)
		l.live(6 * time.Minute)
	}
	l.live(20 * time.Second)
	left := map[string]bool{}
	for _, name := range l.names() {
		left[name] = true
		if !l.excused(name) {
			l.fail("at the end %s is still there: %+v", name, l.machine(name))
		}
	}
	inventory := l.sim.Inventory()
	for _, v := range inventory.VMs {
		name := l.made[v.ID]
		if l.mine(v) && !left[name] && !l.meddled[name] && !l.perhaps[name] && !(v.Config["lock"] == "clone" && l.unseen(v.ID)) {
			l.fail("at the end VM %d (%s) is left, and nobody knows of it: %v", v.ID, v.Config["name"], looksOf(v))
		}
	}
	for _, v := range inventory.Volumes {
		name, disc := strings.CutPrefix(v.ID[strings.Index(v.ID, ":")+1:], "iso/plimsoll-home--")
		if name = strings.TrimSuffix(name, ".iso"); disc && !left[name] && !l.meddled[name] && !l.perhaps[name] {
			l.fail("at the end the disc %s is left on %s", v.ID, v.Host)
		}
	}
	l.checkStrangers()
}

// unseen reports whether a VMID is reported to be taken by what cannot be seen.
func (l *life) unseen(id int) bool {
	r, err := l.fleet.Orphans(context.Background())
	return err == nil && slices.ContainsFunc(r.Orphans, func(o Orphan) bool { return o.Kind == UnseenMachine && o.VMID == id })
}
