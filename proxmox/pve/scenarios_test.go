package pve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// The scenarios that an autoscaler on Proxmox VE has to come through, each against the emulator
// over HTTPS, with a pinned certificate.
var scenarios = []struct {
	number int
	name   string
	run    func(t *testing.T)
}{
	{21, "crash after the clone was asked for, before the answer", crashAfterClone},
	{22, "crash in the middle of a deletion", crashInDeletion},
	{25, "a foreign process takes the planned VMID first", vmidTakenFirst},
	{26, "name, pool or UUID differ when deletion is due", identityDiffers},
	{27, "eight clones on one storage", eightClones},
	{28, "595, 596, 599 and 502 with no data", statusesWithoutData},
	{29, "the reason phrase is lost on the way", reasonLost},
	{30, "a task ends with warnings, another fails", warningsAndFailures},
	{31, "VM.Audit is revoked", auditRevoked},
	{32, "no quorum", noQuorum},
	{33, "the host of three nodes goes offline", hostOffline},
	{34, "a stop task runs long", stopRunsLong},
	{35, "the template is protected, starts on boot and has tags", templateHasTraits},
	{36, "a machine is stuck with the lock of a clone", stuckClone},
	{37, "somebody puts a machine under high availability", underHA},
	{38, "the storage is full on one host, then on all", storageFull},
	{39, "local templates on two hosts of three", templatesOnTwoHosts},
	{40, "six machines at once on three equal hosts", sixAtOnce},
	{41, "the first endpoint is dead, or shows another certificate", endpointsFail},
	{42, "the token expires", tokenExpires},
	{45, "machines come up and never join", neverJoin},
	{46, "a machine of ours without node and record", orphanMachine},
}

func TestScenarios(t *testing.T) {
	for _, s := range scenarios {
		t.Run(fmt.Sprintf("%d %s", s.number, s.name), s.run)
	}
}

func servedWorld(t *testing.T, hosts int) *world {
	t.Helper()
	return newWorld(t, plan{hosts: hosts, seed: 7}).served()
}

// join orders machines and waits until they are nodes.
func (w *world) join(hosts ...string) []string {
	w.t.Helper()
	var names []string
	for _, h := range hosts {
		names = append(names, w.mustOrder(h))
	}
	w.until("all have joined", 10*time.Minute, func() bool { return w.all(nodescaler.Joined, names...) })
	w.run(10 * time.Second)
	return names
}

func (w *world) all(p nodescaler.Phase, names ...string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return w.phase(n) != p })
}

func (w *world) giveBack(names ...string) {
	w.t.Helper()
	for _, n := range names {
		must.Do(w.t, w.fleet.Delete(context.Background(), n))
	}
}

// there is the machine of a name as it really is, or nil.
func (w *world) there(name string) *pvesim.VMState {
	for _, v := range w.sim.Inventory().VMs {
		if v.Config["name"] == name {
			return &v
		}
	}
	return nil
}

// inRange are the machines with VMIDs of the pool.
func (w *world) inRange() (all []pvesim.VMState) {
	for _, v := range w.sim.Inventory().VMs {
		if w.pool().VMIDs.Holds(v.ID) {
			all = append(all, v)
		}
	}
	return all
}

func (w *world) discs() (all []string) {
	for _, v := range w.sim.Inventory().Volumes {
		if strings.Contains(v.ID, ":iso/plimsoll-") {
			all = append(all, v.ID)
		}
	}
	return all
}

// event returns the first event of a code, and fails without one.
func (w *world) event(code string) Event {
	w.t.Helper()
	for _, e := range w.events {
		if e.Code == code {
			return e
		}
	}
	w.t.Fatalf("there was no event %s\n%s", code, w.story())
	return Event{}
}

func (w *world) mustSay(text string, parts ...string) {
	w.t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			w.t.Errorf("%q does not name %q", text, p)
		}
	}
}

// dying is a file of intents whose process dies: from then on nothing is kept.
type dying struct {
	intents.Store
	dead bool
}

func (d *dying) Put(i intents.Intent) error {
	if d.dead {
		return errors.New("the process is dead")
	}
	return d.Store.Put(i)
}

func (d *dying) Remove(order string) error {
	if d.dead {
		return errors.New("the process is dead")
	}
	return d.Store.Remove(order)
}

// crashAt lets the process die when the server has done a call, before anything of the answer is
// kept.
func (w *world) crashAt(method, path string, do func()) {
	w.t.Helper()
	kept := w.intents
	d := &dying{Store: kept}
	w.intents = d
	w.begin()
	ctx, kill := context.WithCancel(context.Background())
	w.sim.OnCall(func(c pvesim.Call) {
		if c.Method == method && strings.Contains(c.Path, path) && strings.HasPrefix(c.User, "plimsoll@") {
			d.dead = true
			kill()
		}
	})
	if err := w.fleet.Tick(ctx); err == nil {
		do()
	}
	for range 100 {
		if ctx.Err() != nil {
			break
		}
		_ = w.fleet.Tick(ctx)
		w.sim.Advance(w.fleet.Pause())
	}
	w.sim.OnCall(nil)
	if !d.dead {
		w.t.Fatalf("there was no %s %s\n%s", method, path, w.story())
	}
	w.intents = kept
	w.begin()
}

func crashAfterClone(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := servedWorld(t, 2)
		var name string
		w.crashAt("POST", "/clone", func() { name = w.mustOrder("pve2") })
		if lost {
			w.intents = &intents.Memory{}
			w.begin()
		}
		w.run(time.Second)
		// Without its intent it is another process's, until none has gone on with it for an hour.
		w.until("it has joined", map[bool]time.Duration{false: 5 * time.Minute, true: makeWithin + 5*time.Minute}[lost], func() bool { return w.phase(name) == nodescaler.Joined })
		if n := w.calls("POST", "/clone"); n != 1 || len(w.inRange()) != 1 {
			t.Errorf("%d clones were asked for and there are %d machines, want one each\n%s", n, len(w.inRange()), w.story())
		}
		if lost != w.told(pvecode.Adopted) {
			t.Errorf("intents lost: %t, adopted: %t", lost, w.told(pvecode.Adopted))
		}
	}
}

func crashInDeletion(t *testing.T) {
	for _, at := range []struct{ method, path string }{
		{"POST", "/status/shutdown"}, {"POST", "/status/stop"}, {"DELETE", "/qemu/"}, {"GET", "/cluster/nextid"},
	} {
		t.Run(at.method+" "+strings.Trim(at.path, "/"), func(t *testing.T) {
			w := servedWorld(t, 2).begin()
			w.run(time.Second)
			name := w.join("pve1")[0]
			if at.path == "/status/stop" {
				w.inject("fail shutdown")
			}
			w.crashAt(at.method, at.path, func() { w.giveBack(name) })
			w.run(time.Second)
			if p := w.phase(name); p != nodescaler.Deleting && p != "" {
				t.Fatalf("after the crash it is %s, and was returned", p)
			}
			w.until("it is gone", 5*time.Minute, func() bool { return w.phase(name) == "" })
			w.run(time.Minute)
			if len(w.inRange()) != 0 || len(w.discs()) != 0 || w.calls("DELETE", "/qemu/") != 1 {
				t.Errorf("%d machines and discs %v are left after %d destructions", len(w.inRange()), w.discs(), w.calls("DELETE", "/qemu/"))
			}
		})
	}
}

func vmidTakenFirst(t *testing.T) {
	for _, line := range []string{"steal id times=1", "steal id to=pve2 times=1"} {
		w := servedWorld(t, 2).begin()
		w.run(time.Second)
		w.inject(line)
		name := w.join("pve1")[0]
		var foreigner string
		for _, v := range w.inRange() {
			if strings.HasPrefix(v.Config["name"], "foreign-") {
				foreigner = looksOf(v)
			}
		}
		if foreigner == "" || !w.told(pvecode.VMIDTaken) {
			t.Fatalf("%s: nobody took the VMID\n%s", line, w.story())
		}
		w.giveBack(name)
		w.until("it is gone", 5*time.Minute, func() bool { return w.phase(name) == "" })
		left := w.inRange()
		if len(left) != 1 || looksOf(left[0]) != foreigner {
			t.Errorf("%s: the foreign machine was\n%s, left is\n%v", line, foreigner, left)
		}
	}
}

func identityDiffers(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(w *world, c *pveapi.Client, v *pvesim.VMState) error
		says   string
	}{
		{"name", func(_ *world, c *pveapi.Client, v *pvesim.VMState) error {
			return c.VM(v.Host, v.ID).SetConfig(context.Background(), map[string]string{"name": "precious"}, nil, "")
		}, `its name is "precious"`},
		{"pool", func(w *world, _ *pveapi.Client, v *pvesim.VMState) error {
			return w.asRoot(http.MethodPut, "/pools", map[string]any{"poolid": "plimsoll", "vms": itoa(v.ID), "delete": 1})
		}, "out of pool plimsoll"},
		{"UUID", func(_ *world, c *pveapi.Client, v *pvesim.VMState) error {
			return c.VM(v.Host, v.ID).SetConfig(context.Background(), map[string]string{"smbios1": "uuid=7d9a0d7c-3b7d-4f55-8f0a-1a2b3c4d5e6f"}, nil, "")
		}, "its system UUID is 7d9a0d7c-3b7d-4f55-8f0a-1a2b3c4d5e6f"},
		{"tag", func(_ *world, c *pveapi.Client, v *pvesim.VMState) error {
			return c.VM(v.Host, v.ID).SetConfig(context.Background(), map[string]string{"tags": "keep"}, nil, "")
		}, "it lacks the tag plimsoll_home"},
		{"notes", func(_ *world, c *pveapi.Client, v *pvesim.VMState) error {
			return c.VM(v.Host, v.ID).SetConfig(context.Background(), map[string]string{"description": "precious"}, nil, "")
		}, "its notes do not hold our mark"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := servedWorld(t, 2).begin()
			w.run(time.Second)
			name := w.join("pve1")[0]
			v := w.there(name)
			must.Do(t, c.change(w, w.root(), v))
			w.giveBack(name)
			w.run(10 * time.Minute)
			if len(w.inRange()) != 1 || w.inRange()[0].State != "running" {
				t.Fatalf("it was stopped or destroyed: %v\n%s", w.inRange(), w.story())
			}
			w.mustSay(w.event(pvecode.Quarantined).Text, c.says)
			w.mustSay(w.machine(name).Problem, pvecode.Quarantined, c.says)
			other := w.join("pve2")[0] // scaling goes on
			w.giveBack(other)
			w.until("the other is gone", 5*time.Minute, func() bool { return w.phase(other) == "" })
		})
	}
}

func eightClones(t *testing.T) {
	w := newWorld(t, plan{hosts: 3, seed: 7, shared: true}).served()
	w.pool().Clone = placement.Full
	w.begin()
	w.run(time.Second)
	var names []string
	for range 8 {
		names = append(names, w.mustOrder(""))
	}
	w.inject("storage-lock ceph for=45s")
	most := 0
	w.until("all have joined", 20*time.Minute, func() bool {
		running := 0
		for _, v := range w.inRange() {
			if v.Config["lock"] == "clone" {
				running++
			}
		}
		most = max(most, running)
		return w.all(nodescaler.Joined, names...)
	})
	if most > 2 || most == 0 {
		t.Errorf("%d clones ran at once, want at most 2", most)
	}
	if !w.told(pvecode.TaskFailed) {
		t.Errorf("no clone met the lock\n%s", w.story())
	}
	if w.told(pvecode.MachineFailed) {
		t.Errorf("a machine failed\n%s", w.story())
	}
}

func statusesWithoutData(t *testing.T) {
	w := servedWorld(t, 2).begin()
	w.run(time.Second)
	for _, code := range []int{595, 596, 599, 502} {
		w.inject(fmt.Sprintf("answer %d POST /nodes/pve1/qemu/9001/clone times=1", code))
		upid, err := w.cfg.Client.VM("pve1", 9001).Clone(t.Context(), pveapi.CloneOptions{NewID: 1000 + code, Name: "x", Pool: "plimsoll"})
		if err == nil || upid != "" {
			t.Errorf("%d was taken for success: %s", code, upid)
		}
		if want := map[bool]pveapi.Class{true: pveapi.HostUnreachable, false: pveapi.Unanswered}[code == 595]; pveapi.ClassOf(err) != want {
			t.Errorf("%d is of class %s, want %s", code, pveapi.ClassOf(err), want)
		}
		if code == 595 != pveapi.Retryable(err) {
			t.Errorf("%d: retryable is %t: only what surely was not done may be repeated", code, pveapi.Retryable(err))
		}
		w.inject(fmt.Sprintf("answer %d GET /cluster/resources times=9", code))
		if _, err := w.cfg.Client.Resources(t.Context()); !pveapi.Retryable(err) {
			t.Errorf("%d to a read is not retryable: %v", code, err)
		}
		w.sim.Heal()
	}
	w.inject("answer 595 POST …/status/start times=1", "answer 502 PUT …/config times=1")
	w.run(time.Minute)
	w.join("pve1")
}

func reasonLost(t *testing.T) {
	w := servedWorld(t, 1).begin()
	w.run(time.Second)
	target, err := url.Parse(w.connection.Endpoints[0])
	if err != nil {
		t.Fatal(err)
	}
	// A proxy that speaks HTTP/2 to its clients passes statuses on without their reasons.
	proxy := httputil.NewSingleHostReverseProxy(target)
	insecure := http.DefaultTransport.(*http.Transport).Clone()
	insecure.TLSClientConfig.InsecureSkipVerify = true
	proxy.Transport = insecure
	front := httptest.NewUnstartedServer(proxy)
	front.EnableHTTP2 = true
	front.StartTLS()
	defer front.Close()
	c := must.Get(pveapi.Connect(pveapi.Connection{
		Endpoints: []string{front.URL}, Token: func() (string, error) { return w.token, nil }, Insecure: true, Now: w.sim.Now,
		Transport: front.Client().Transport,
	}))(t)
	_, err = c.VM("pve1", 1234).Config(t.Context())
	var e *pveapi.Error
	if !errors.As(err, &e) || e.Class() != pveapi.Forbidden && e.Class() != pveapi.Absent {
		t.Fatalf("got %v, want a class read from the body", err)
	}
	if strings.Contains(e.Reason, "VM") || !strings.Contains(e.Message, "1234") {
		t.Errorf("reason %q, message %q: the proxy should have dropped the reason", e.Reason, e.Message)
	}
}

func warningsAndFailures(t *testing.T) {
	w := servedWorld(t, 2).begin()
	w.run(time.Second)
	w.inject("warn clone times=1", `fail start times=1 text="the door is stuck"`)
	w.join("pve1")
	w.mustSay(w.event(pvecode.TaskWarnings).Text, "WARNINGS: 1")
	w.mustSay(w.event(pvecode.TaskFailed).Text, "start", "the door is stuck")
	if w.told(pvecode.MachineFailed) {
		t.Errorf("one failure of a start is not the end\n%s", w.story())
	}
}

func auditRevoked(t *testing.T) {
	w := servedWorld(t, 2).begin()
	w.run(time.Second)
	names := w.join("pve1", "pve2")
	w.inject("revoke VM.Audit for=5m")
	w.sim.Advance(20 * time.Second)
	before := len(w.sim.Calls())
	w.run(2 * time.Minute)
	if !w.all(nodescaler.Joined, names...) {
		t.Fatalf("machines that are not listed were declared gone\n%s", w.story())
	}
	w.mustSay(w.event(pvecode.PermissionsShrunk).Text, "VM.Audit", "/pool/plimsoll")
	if _, err := w.order(""); !errors.Is(err, loop.ErrRefused) {
		t.Errorf("an order was taken while nothing can be seen: %v", err)
	}
	w.giveBack(names[0])
	w.run(time.Minute)
	for _, c := range w.sim.Calls()[before:] {
		if c.Method != http.MethodGet {
			t.Errorf("%s %s was made while frozen", c.Method, c.Path)
		}
	}
	w.run(3 * time.Minute)
	w.event(pvecode.Thawed)
	w.until("it is gone", 5*time.Minute, func() bool { return w.phase(names[0]) == "" })
	if w.phase(names[1]) != nodescaler.Joined {
		t.Errorf("the other is %s", w.phase(names[1]))
	}
}

func noQuorum(t *testing.T) {
	w := servedWorld(t, 3).begin()
	w.run(time.Second)
	name := w.join("pve1")[0]
	late := w.mustOrder("pve2")
	w.inject("no quorum for=3m")
	before := len(w.sim.Calls())
	w.sim.Advance(20 * time.Second)
	w.run(time.Minute)
	for _, c := range w.sim.Calls()[before:] {
		if c.Method != http.MethodGet {
			t.Errorf("%s %s was made without quorum", c.Method, c.Path)
		}
	}
	w.mustSay(w.machine(name).Problem, pvecode.NoQuorum)
	state, err := w.fleet.List(t.Context())
	if err != nil || len(state.Machines) != 2 || !state.Hosts[0].Cordoned {
		t.Errorf("got %+v and %v, want what was known, and hosts that take nothing", state, err)
	}
	w.until("the late one has joined", 10*time.Minute, func() bool { return w.phase(late) == nodescaler.Joined })
	w.event(pvecode.Thawed)
}

func hostOffline(t *testing.T) {
	w := servedWorld(t, 3).begin()
	w.run(time.Second)
	names := w.join("pve3", "pve3", "pve3")
	w.inject("host pve3 down for=10m")
	w.sim.Advance(30 * time.Second)
	w.run(5 * time.Minute)
	for _, n := range names {
		if m := w.machine(n); m.Phase != nodescaler.Joined || !strings.Contains(m.Problem, placement.CodeHostOffline) {
			t.Errorf("%s is %s (%s), want Joined, and its host offline", n, m.Phase, m.Problem)
		}
	}
	if _, err := w.order("pve3"); !errors.Is(err, loop.ErrRefused) {
		t.Errorf("the host that is down took an order: %v", err)
	}
	w.giveBack(names[0])
	w.run(2 * time.Minute)
	if w.phase(names[0]) != nodescaler.Deleting || w.told(pvecode.Gone) {
		t.Errorf("%s is %s: with its host away nothing is known to be gone", names[0], w.phase(names[0]))
	}
	w.run(15 * time.Minute)
	if w.phase(names[0]) != "" || len(w.inRange()) != 2 || !w.all(nodescaler.Joined, names[1:]...) {
		t.Errorf("after the host's return there are %d machines, want 2\n%s", len(w.inRange()), w.story())
	}
}

func stopRunsLong(t *testing.T) {
	w := servedWorld(t, 2).begin()
	w.run(time.Second)
	name := w.join("pve1")[0]
	w.inject("fail shutdown", "slow stop by=50s nth=2", "fail stop nth=1", "fail destroy times=1")
	w.giveBack(name)
	w.until("it is gone", 10*time.Minute, func() bool { return w.phase(name) == "" })
	if n := w.calls("POST", "/status/stop"); n != 2 || len(w.inRange()) != 0 {
		t.Errorf("%d stops, and %d machines left\n%s", n, len(w.inRange()), w.story())
	}
	stop, destroy := w.last("POST", "/status/stop"), w.first("DELETE", "/qemu/")
	if after := destroy.Sub(stop); after < 50*time.Second {
		t.Errorf("it was to be destroyed %s after the stop that takes 50 s", after)
	}
}

// first and last are when a call of the fleet's was made.
func (w *world) first(method, path string) time.Time { return w.times(method, path)[0] }
func (w *world) last(method, path string) time.Time {
	all := w.times(method, path)
	return all[len(all)-1]
}

func (w *world) times(method, path string) (all []time.Time) {
	w.t.Helper()
	for _, c := range w.sim.Calls() {
		if strings.HasPrefix(c.User, "plimsoll@") && c.Method == method && strings.Contains(c.Path, path) {
			all = append(all, c.At)
		}
	}
	if len(all) == 0 {
		w.t.Fatalf("there was no %s %s", method, path)
	}
	return all
}

func templateHasTraits(t *testing.T) {
	w := servedWorld(t, 2).begin()
	w.run(time.Second)
	name := w.join("pve1")[0]
	v := w.there(name)
	for key, want := range map[string]string{"protection": "0", "onboot": "0", "tags": "plimsoll_home", "cores": "2", "memory": "4096", "balloon": "4096"} {
		if got := v.Config[key]; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if strings.Contains(v.Config["description"], "golden") {
		t.Errorf("it has the template's notes: %s", v.Config["description"])
	}
	w.giveBack(name)
	w.until("it is gone", 5*time.Minute, func() bool { return w.phase(name) == "" })
	// So does one that is reclaimed before it was ever configured.
	name = w.mustOrder("pve2")
	w.until("it is cloned", time.Minute, func() bool { return w.there(name) != nil })
	w.giveBack(name)
	w.until("it is gone too", 5*time.Minute, func() bool { return w.phase(name) == "" })
	if len(w.inRange()) != 0 {
		t.Errorf("left is %v", w.inRange())
	}
}

func stuckClone(t *testing.T) {
	w := servedWorld(t, 2).begin()
	w.run(time.Second)
	w.inject("kill task clone times=1")
	name := w.mustOrder("pve1")
	w.until("it is quarantined", 10*time.Minute, func() bool { return w.told(pvecode.Quarantined) })
	w.mustSay(w.event(pvecode.Quarantined).Advice, "qm unlock", "qm destroy")
	w.mustSay(w.machine(name).Problem, pvecode.Quarantined)
	if w.phase(name) != nodescaler.Failed {
		t.Errorf("it is %s: pods would wait for it", w.phase(name))
	}
	w.giveBack(name)
	w.join("pve1", "pve2")
	if w.phase(name) != nodescaler.Deleting || w.calls("DELETE", "/qemu/") != 0 {
		t.Errorf("it is %s after %d destructions; it counts and is not touched", w.phase(name), w.calls("DELETE", "/qemu/"))
	}
	// A person follows the advice.
	for _, v := range w.inRange() {
		if v.Config["lock"] == "clone" {
			w.destroyByHand(v)
		}
	}
	w.until("it is gone", 5*time.Minute, func() bool { return w.phase(name) == "" })
}

// destroyByHand is what a person does at the host's shell: qm unlock, qm set and qm destroy.
func (w *world) destroyByHand(v pvesim.VMState) {
	w.t.Helper()
	c, ctx := w.root(), context.Background()
	must.Do(w.t, w.sim.Unlock(v.ID))
	must.Do(w.t, c.VM(v.Host, v.ID).SetConfig(ctx, map[string]string{"protection": "0"}, nil, ""))
	must.Get(c.VM(v.Host, v.ID).Destroy(ctx, true))(w.t)
	w.sim.Advance(10 * time.Second)
}

func underHA(t *testing.T) {
	for _, mode := range []settings.HAMode{settings.HAWait, settings.HAPurge} {
		t.Run(string(mode), func(t *testing.T) {
			w := servedWorld(t, 2)
			w.cfg.HA = mode
			w.begin()
			w.run(time.Second)
			name := w.join("pve1")[0]
			v := w.there(name)
			must.Do(t, w.asRoot(http.MethodPost, "/cluster/ha/resources", map[string]any{"sid": "vm:" + itoa(v.ID), "state": "started"}))
			w.sim.Advance(30 * time.Second)
			w.giveBack(name)
			if mode == settings.HAWait {
				w.run(5 * time.Minute)
				if w.there(name) == nil || w.phase(name) != nodescaler.Deleting {
					t.Fatalf("it did not wait for the machine to be taken out of HA\n%s", w.story())
				}
				w.mustSay(w.machine(name).Problem, pvecode.HAManaged)
				must.Do(t, w.asRoot(http.MethodDelete, "/cluster/ha/resources/vm:"+itoa(v.ID), nil))
			}
			w.until("it is gone", 10*time.Minute, func() bool { return w.phase(name) == "" })
			if len(w.inRange()) != 0 {
				t.Errorf("left is %v", w.inRange())
			}
		})
	}
}

// A guest under high availability has as long to shut down as any other, and is cut off then.
func TestHighAvailabilityLetsAGuestShutDown(t *testing.T) {
	w, names := honest(t, 1)
	w.cfg.HA, w.pool().ShutdownGrace = settings.HAPurge, nodescaler.Duration(3*time.Minute)
	w.begin()
	w.run(time.Second)
	v := w.there(names[0])
	must.Do(t, w.asRoot(http.MethodPost, "/cluster/ha/resources", map[string]any{"sid": "vm:" + itoa(v.ID), "state": "started"}))
	w.inject("fail boot")
	// It obeys no more.
	must.Do(t, w.asRoot(http.MethodPost, fmt.Sprintf("/nodes/%s/qemu/%d/status/reset", v.Host, v.ID), nil))
	w.sim.Advance(30 * time.Second)
	at := w.sim.Now()
	w.giveBack(names[0])
	w.until("it is stopped", 10*time.Minute, func() bool { return !w.runs(names[0]) })
	if took := w.sim.Now().Sub(at); took < 3*time.Minute || took > 4*time.Minute || w.calls("POST", "/status/stop") != 0 {
		t.Errorf("a guest that does not obey was stopped after %s, by %d stops\n%s", took, w.calls("POST", "/status/stop"), w.story())
	}
	w.until("it is gone", 10*time.Minute, func() bool { return w.phase(names[0]) == "" })
}

func storageFull(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 7, disk: 100 * gib}).served()
	w.pool().Clone, w.pool().Storage = placement.Full, "local-lvm"
	w.begin()
	w.inject("full storage local-lvm on=pve1")
	w.sim.Advance(20 * time.Second)
	w.run(time.Second)
	name := w.mustOrder("")
	if m := w.machine(name); m.Host != "pve2" {
		t.Errorf("it goes to %s, where there is no room", m.Host)
	}
	var r *Refusal
	if _, err := w.order("pve1"); !errors.As(err, &r) || r.Reasons[0].Code != placement.CodeStorageFull {
		t.Errorf("got %v, want %s", err, placement.CodeStorageFull)
	}
	w.inject("full storage local-lvm on=pve2")
	w.sim.Advance(20 * time.Second)
	w.run(time.Second)
	clones := w.calls("POST", "/clone")
	_, err := w.order("")
	if !errors.As(err, &r) || !errors.Is(err, loop.ErrRefused) || r.Reasons[0].Code != placement.CodeNoHost || len(r.Reasons) != 3 {
		t.Errorf("got %v, want %s with a reason for each host", err, placement.CodeNoHost)
	}
	w.run(time.Minute)
	if n := w.calls("POST", "/clone"); n != clones {
		t.Errorf("%d clones were tried all the same", n-clones)
	}
}

func templatesOnTwoHosts(t *testing.T) {
	w := servedWorld(t, 3)
	delete(w.pool().Template.ByHost, "pve2")
	w.begin()
	w.run(time.Second)
	for range 6 {
		if m := w.machine(w.mustOrder("")); m.Host == "pve2" {
			t.Errorf("pve2 was chosen, which has no template")
		}
	}
	var r *Refusal
	if _, err := w.order("pve2"); !errors.As(err, &r) || r.Reasons[0].Code != placement.CodeHostNotInPool {
		t.Errorf("got %v, want %s", err, placement.CodeHostNotInPool)
	}
	if hosts := w.pool().Words().Hosts; !slices.Equal(hosts, []string{"pve1", "pve3"}) {
		t.Errorf("the loop is told of hosts %v", hosts)
	}
	// One template on local storage is no other host's either.
	w = servedWorld(t, 3)
	w.pool().Template = placement.Template{VMID: 9003}
	w.begin()
	w.run(time.Second)
	if m := w.machine(w.mustOrder("")); m.Host != "pve3" {
		t.Errorf("%s was chosen", m.Host)
	}
	if _, err := w.order("pve1"); !errors.As(err, &r) || r.Reasons[0].Code != placement.CodeTemplateMissing {
		t.Errorf("got %v, want %s", err, placement.CodeTemplateMissing)
	}
}

func sixAtOnce(t *testing.T) {
	w := servedWorld(t, 3)
	// Two machines of 4 GiB fit into what is left of a host of 128 GiB, and no third.
	w.pool().Placement.MemoryReserve = 118 << 30
	w.begin()
	w.run(time.Second)
	on := map[string]int{}
	for range 6 {
		on[w.machine(w.mustOrder("")).Host]++
	}
	if on["pve1"] != 2 || on["pve2"] != 2 || on["pve3"] != 2 {
		t.Errorf("spread is %v, want two on each host", on)
	}
	_, err := w.order("")
	w.mustSay(fmt.Sprint(err), placement.CodeNoHost, placement.CodeNoMemory)
	w.pool().Placement.MemoryRatio = 1.5 // 15 GiB are promised of every 10
	w.begin()
	w.run(time.Second)
	for range 3 {
		w.mustOrder("")
	}
	if _, err := w.order(""); !errors.Is(err, loop.ErrRefused) {
		t.Errorf("beyond what may be promised an order was taken: %v", err)
	}
}

func endpointsFail(t *testing.T) {
	t.Run("dead", func(t *testing.T) {
		w := servedWorld(t, 2)
		_ = w.listeners[0].Close()
		w.begin()
		w.run(time.Second)
		w.join("pve1")
	})
	t.Run("certificate", func(t *testing.T) {
		w := servedWorld(t, 2)
		prints := strings.Split(w.connection.Fingerprint, ",")
		w.connection.Fingerprint = prints[1]
		w.begin()
		w.run(time.Second)
		w.join("pve1")
		for _, c := range w.sim.Calls() {
			if c.Host == "pve1" && strings.HasPrefix(c.User, "plimsoll@") {
				t.Fatalf("%s %s was asked of a host that is not trusted", c.Method, c.Path)
			}
		}
	})
	t.Run("unknown outcome", func(t *testing.T) {
		w := servedWorld(t, 2).begin()
		w.run(time.Second)
		w.inject("lose answer POST …/clone times=1", "drop POST …/clone nth=3")
		names := w.join("pve1", "pve2")
		w.event(pvecode.AnswerLost)
		if n := w.calls("POST", "/clone"); n > 3 || len(w.inRange()) != len(names) {
			t.Errorf("%d clones were asked for, and there are %d machines\n%s", n, len(w.inRange()), w.story())
		}
	})
}

func tokenExpires(t *testing.T) {
	w := servedWorld(t, 2).begin()
	w.run(time.Second)
	name := w.join("pve1")[0]
	w.sim.Expire(w.token)
	before := len(w.sim.Calls())
	w.run(10 * time.Minute)
	if n := len(w.sim.Calls()) - before; n > 60 {
		t.Errorf("%d calls in ten minutes with a token that is not accepted", n)
	}
	alerts := 0
	for _, e := range w.events {
		if e.Code == pvecode.LookFailed {
			alerts++
		}
	}
	if alerts != 1 {
		t.Errorf("%d alerts, want one\n%s", alerts, w.story())
	}
	if _, err := w.fleet.List(t.Context()); err == nil {
		t.Error("after ten minutes without sight the list is not an error")
	}
	w.token = w.sim.Token("plimsoll@pve", "fleet2", false)
	w.until("the new token is used", 2*time.Minute, func() bool { _, err := w.fleet.List(context.Background()); return err == nil })
	if w.phase(name) != nodescaler.Joined {
		t.Errorf("it is %s", w.phase(name))
	}
	w.giveBack(name)
	w.until("it is gone", 5*time.Minute, func() bool { return w.phase(name) == "" })
}

func neverJoin(t *testing.T) {
	w := servedWorld(t, 2)
	w.pool().JoinTimeout = nodescaler.Duration(5 * time.Minute)
	w.begin()
	w.run(time.Second)
	w.deaf = true
	for i := range 3 {
		name := w.mustOrder("")
		w.until("it has failed", 10*time.Minute, func() bool { return w.phase(name) == nodescaler.Failed })
		w.run(10 * time.Second)
		w.mustSay(w.machine(name).Problem, pvecode.JoinTimeout, "last task", "agent: interfaces")
		w.giveBack(name) // as every policy does
		w.until("it is removed", 5*time.Minute, func() bool { return w.phase(name) == "" })
		_, err := w.order("")
		want := pvecode.PoolBackingOff
		if i == 2 {
			want = pvecode.PoolPaused
		}
		if !errors.Is(err, loop.ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Fatalf("after %d failures: %v, want %s", i+1, err, want)
		}
		w.run(time.Minute << i)
	}
	w.run(2 * time.Hour)
	w.begin() // the pause outlives the process
	w.run(time.Second)
	if _, err := w.order(""); err == nil || !strings.Contains(err.Error(), pvecode.PoolPaused) {
		t.Fatalf("after two hours and a restart: %v, want %s", err, pvecode.PoolPaused)
	}
	must.Do(t, w.fleet.Resume("web"))
	w.deaf = false
	w.join("")
	if len(w.fleet.Paused()) != 0 {
		t.Errorf("paused is %v", w.fleet.Paused())
	}
}

func orphanMachine(t *testing.T) {
	w := servedWorld(t, 2)
	w.cfg.OrphanGrace = nodescaler.Duration(10 * time.Minute)
	w.begin()
	w.run(time.Second)
	w.deaf = true
	name := w.mustOrder("pve1")
	w.until("it is started", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Booting })
	stranger := w.strangerLike(name)
	w.intents = &intents.Memory{} // the record is lost, and there is no node
	w.begin()
	r := must.Get(w.fleet.Orphans(t.Context()))(t)
	kinds := map[OrphanKind]string{}
	for _, o := range r.Orphans {
		kinds[o.Kind] = o.Name
	}
	if kinds[MachineWithoutNode] != name || kinds[UnprovedMachine] == "" {
		data, _ := json.MarshalIndent(r, "", " ")
		t.Fatalf("it is not reported at once: %s", data)
	}
	if w.there(name).State != "running" {
		t.Fatal("a report changed something")
	}
	// It ran when it was found, so that it may carry what runs: it is never given up for being no
	// node.
	for range 12 {
		must.Get(w.fleet.Collect(t.Context(), nil))(t)
		w.run(10 * time.Minute)
	}
	m := w.machine(name)
	if w.there(name).State != "running" || m.Phase != nodescaler.Failed || m.Held == nil || m.Held.Code != pvecode.NeverJoined || !w.told(pvecode.NeverJoined) {
		t.Fatalf("after two hours it is %+v\n%s", m, w.story())
	}
	if err := w.fleet.Delete(t.Context(), name); err == nil {
		t.Fatal("it is reclaimed")
	}
	if len(w.inRange()) != 2 {
		t.Errorf("left is %v, want it and the stranger %d", w.inRange(), stranger)
	}
	v := w.there(name) // a person destroys it
	w.mustDestroy(v.Host, v.ID)
	w.until("it has failed", 5*time.Minute, func() bool { return w.machine(name).Held == nil })
	must.Do(t, w.fleet.Delete(t.Context(), name))
	w.until("it is gone", 5*time.Minute, func() bool { return w.phase(name) == "" })
}

// strangerLike copies a machine, name, notes and all.
func (w *world) strangerLike(name string) int {
	w.t.Helper()
	v := w.there(name)
	full := true
	id := w.pool().VMIDs.Last
	must.Get(w.root().VM(v.Host, v.ID).Clone(context.Background(), pveapi.CloneOptions{NewID: id, Name: name, Pool: "plimsoll", Full: &full}))(w.t)
	w.sim.Advance(2 * time.Minute)
	return id
}

// What came before a success is forgotten with it, and not brought up again once the machine that
// was one is reclaimed: a failure a week makes no row of them.
func TestFailuresWeeksApartDoNotPauseAPool(t *testing.T) {
	race.Skip(t)
	w := servedWorld(t, 2)
	w.pool().JoinTimeout = nodescaler.Duration(5 * time.Minute)
	w.begin()
	w.run(time.Second)
	for week := range 4 {
		w.deaf = true
		n := w.mustOrder("")
		w.until("it has failed", 10*time.Minute, func() bool { return w.phase(n) == nodescaler.Failed })
		w.giveBack(n)
		w.run(40 * time.Minute)
		w.deaf = false
		w.giveBack(w.join("", "", "")...)
		w.run(2 * time.Hour)
		if kept, err := w.intents.Load(); err != nil || len(kept) > 0 {
			t.Fatalf("in week %d there is still kept %+v, %v", week, kept, err)
		}
		w.sim.Advance(7 * 24 * time.Hour)
		w.begin()
		w.run(time.Minute)
	}
}

// A failure is remembered for what it says of its pool, and its VMID is free all the same once it
// has cooled down.
func TestVMIDsOfFailuresAreUsedAgain(t *testing.T) {
	w := servedWorld(t, 2)
	p := w.pool()
	p.JoinTimeout, p.MaxFailures, p.Max, p.VMIDs = nodescaler.Duration(5*time.Minute), 1000, 4, placement.VMIDs{First: 1000, Last: 1003}
	w.begin()
	w.run(time.Second)
	w.deaf = true
	gone := map[int]time.Time{}
	for range 10 {
		n := w.mustOrder("")
		id := w.fleet.roster.named(n).VMID
		if now := w.sim.Now(); now.Sub(gone[id]) < time.Hour {
			t.Fatalf("VMID %d is used again %s after its machine was gone", id, now.Sub(gone[id]))
		}
		w.until("it has failed", 10*time.Minute, func() bool { return w.phase(n) == nodescaler.Failed })
		w.giveBack(n)
		w.until("it is removed", 5*time.Minute, func() bool { return w.phase(n) == "" })
		gone[id] = w.sim.Now()
		w.run(31 * time.Minute)
	}
	if h := w.fleet.intake.health(w.fleet.catalogue.pools["web"], w.sim.Now()); h.failures != 10 {
		t.Errorf("%d failures are remembered, want 10", h.failures)
	}
}

// mustDestroy is a person who stops a machine and destroys it.
func (w *world) mustDestroy(host string, id int) {
	w.t.Helper()
	c := w.root()
	_, err := c.VM(host, id).Stop(w.t.Context(), true)
	w.sim.Advance(5 * time.Second)
	if err == nil {
		_, err = c.VM(host, id).Destroy(w.t.Context(), true)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.sim.Advance(10 * time.Second)
}
