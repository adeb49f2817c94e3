package pveapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/luthermonson/go-proxmox"
)

// Each test here shows a trap of go-proxmox as it is, and that our client does not fall into it.
// The first half of each fails when the library is fixed; then the second half is all that is
// needed, and perhaps some of our code is not.

const upidClone = "UPID:pve1:0000018A:0002E506:6B00A8B8:qmclone:9000:auto@pve!t1:"

// machine is go-proxmox's machine 310 on pve1, without a call.
func machine(lib *proxmox.Client) *proxmox.VirtualMachine {
	vm := &proxmox.VirtualMachine{}
	vm.New(lib, "pve1", 310)
	return vm
}

// ways are calls of ours of every kind.
var ways = map[string]func(context.Context, *Client) error{
	"set config": func(ctx context.Context, c *Client) error {
		return c.VM("pve1", 310).SetConfig(ctx, map[string]string{"cores": "2"}, nil, "")
	},
	"start":   func(ctx context.Context, c *Client) error { _, err := c.VM("pve1", 310).Start(ctx); return err },
	"destroy": func(ctx context.Context, c *Client) error { _, err := c.VM("pve1", 310).Destroy(ctx, true); return err },
	"upload": func(ctx context.Context, c *Client) error {
		_, err := c.Upload(ctx, "pve1", "local", "a.iso", []byte("x"))
		return err
	},
	"delete volume": func(ctx context.Context, c *Client) error {
		_, err := c.DeleteVolume(ctx, "pve1", "local", "local:iso/a.iso")
		return err
	},
	"config":    func(ctx context.Context, c *Client) error { _, err := c.VM("pve1", 310).Config(ctx); return err },
	"free":      func(ctx context.Context, c *Client) error { _, err := c.VMIDFree(ctx, 310); return err },
	"resources": func(ctx context.Context, c *Client) error { _, err := c.Resources(ctx); return err },
}

// Trap 1: statuses other than 400, 401, 403, 500 and 501 are no errors to go-proxmox.
func TestTrap01OnlySomeStatusesAreErrors(t *testing.T) {
	for _, status := range []int{404, 409, 429, 502, 503, 504, 506, 595, 596, 597, 599} {
		h := newHost(t, func(*http.Request, string) reply {
			return reply{status: status, reason: "Connection timed out", body: `{"data":null}`}
		})
		lib := plain(t, h)
		if err := machine(lib).ConfigSync(t.Context(), proxmox.VirtualMachineOption{Name: "cores", Value: 2}); err != nil {
			t.Errorf("%d: go-proxmox is corrected: %v", status, err)
		}
		if task, err := machine(lib).Start(t.Context()); task != nil || err != nil {
			t.Errorf("%d: go-proxmox is corrected: %v, %v", status, task, err)
		}
		if free, err := (&proxmox.Cluster{}).New(lib).CheckID(t.Context(), 310); !free || err != nil {
			t.Errorf("%d: go-proxmox is corrected: %v, %v", status, free, err)
		}
		c := connected(t, []*host{h})
		for name, way := range ways {
			var e *Error
			if err := way(t.Context(), c); !errors.As(err, &e) || e.Status != status {
				t.Errorf("%d: %s: %v", status, name, err)
			}
		}
	}
}

// Trap 1 again, as the real server does it: 59x without a body and without its length.
func TestTrap01AnUnreachableHostIsAnError(t *testing.T) {
	h, c := one(t, reply{status: 595, reason: "No route to host"})
	lib := plain(t, h)
	if err := machine(lib).ConfigSync(t.Context()); err != nil {
		t.Errorf("go-proxmox is corrected: %v", err)
	}
	if err := ways["set config"](t.Context(), c); !Is(err, HostUnreachable) || !Retryable(err) {
		t.Errorf("ours: %v", err)
	}
}

// Trap 2: 401 and 403 lose their text, and some calls lose them altogether.
func TestTrap02RefusalsAreToldWithTheirText(t *testing.T) {
	h, c := one(t, fault(403, "Permission check failed (/, Sys.Audit)"))
	cluster, err := plain(t, h).Cluster(t.Context())
	if err != nil || cluster == nil || len(cluster.Nodes) != 0 {
		t.Errorf("go-proxmox is corrected: %v", err)
	}
	if _, err := plain(t, h).Node(t.Context(), "pve1"); err != nil {
		t.Errorf("go-proxmox is corrected: %v", err)
	}
	var e *Error
	if _, err := c.ClusterStatus(t.Context()); !errors.As(err, &e) || e.Class() != Forbidden || e.Privilege != "Sys.Audit" || e.ACLPath != "/" {
		t.Errorf("ours: %v", err)
	}

	h, c = one(t, reply{status: 401, reason: "Authentication failed!"})
	if _, err := plain(t, h).Cluster(t.Context()); err != nil {
		t.Errorf("go-proxmox is corrected: %v", err)
	}
	if _, err := c.ClusterStatus(t.Context()); !Is(err, Unauthorized) || !strings.Contains(err.Error(), "Authentication failed!") {
		t.Errorf("ours: %v", err)
	}
}

// Trap 2, of uploads: a refusal is no error, and its task is nil.
func TestTrap02AnUploadThatIsRefusedIsAnError(t *testing.T) {
	h, c := one(t, fault(403, "Permission check failed (/storage/local, Datastore.AllocateTemplate)"))
	var upid proxmox.UPID
	err := plain(t, h).UploadReader("/nodes/pve1/storage/local/upload", nil, "a.iso", strings.NewReader("x"), 1, &upid)
	if err != nil || upid != "" {
		t.Errorf("go-proxmox is corrected: %v", err)
	}
	if err := ways["upload"](t.Context(), c); !Is(err, Forbidden) {
		t.Errorf("ours: %v", err)
	}
}

// Trap 3: a machine that is not there is not found to be so.
func TestTrap03AnAbsentMachineIsAbsent(t *testing.T) {
	h, c := one(t, fault(500, "Configuration file 'nodes/pve1/qemu-server/310.conf' does not exist"))
	if err := machine(plain(t, h)).Ping(t.Context()); err == nil || proxmox.IsNotFound(err) {
		t.Errorf("go-proxmox is corrected: %v", err)
	}
	if _, err := c.VM("pve1", 310).Status(t.Context()); !Is(err, Absent) {
		t.Errorf("ours: %v", err)
	}
}

// Trap 3, behind a proxy that speaks HTTP/2: the reason is lost, and with it all the library reads.
func TestTrap03TheMessageIsReadWhenTheReasonIsLost(t *testing.T) {
	h, c := one(t, reply{status: 500, reason: "Internal Server Error", body: `{"data":null,"message":"unable to create VM 310: config file already exists\n"}`})
	if _, err := machine(plain(t, h)).Start(t.Context()); err == nil || strings.Contains(err.Error(), "exists") {
		t.Errorf("go-proxmox is corrected: %v", err)
	}
	if err := ways["start"](t.Context(), c); !Is(err, Exists) {
		t.Errorf("ours: %v", err)
	}
}

// Trap 4: what the server does not say any more is still there from the last time.
func TestTrap04WhatHasVanishedIsGone(t *testing.T) {
	var done atomic.Bool
	h := newHost(t, func(r *http.Request, _ string) reply {
		if strings.HasSuffix(r.URL.Path, "/config") {
			return data(`{"digest":"1","name":"a"}`)
		}
		if done.Load() {
			return data(`{"status":"stopped","name":"a"}`)
		}
		return data(`{"status":"stopped","name":"VM 310","lock":"clone"}`)
	})
	c := connected(t, []*host{h})
	vm := machine(plain(t, h))
	for range 2 {
		if err := vm.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.VM("pve1", 310).Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		done.Store(true)
	}
	if vm.Lock != "clone" {
		t.Errorf("go-proxmox is corrected: lock %q", vm.Lock)
	}
	if s, err := c.VM("pve1", 310).Status(t.Context()); err != nil || s.Lock != "" {
		t.Errorf("ours: lock %q, %v", s.Lock, err)
	}
}

// Trap 5: template:0 reads as a template.
func TestTrap05ZeroIsNoTemplate(t *testing.T) {
	h, c := one(t, data(`{"status":"running","template":0,"digest":"1"}`))
	vm := machine(plain(t, h))
	if err := vm.Ping(t.Context()); err != nil || !bool(vm.Template) {
		t.Errorf("go-proxmox is corrected: %v, %v", vm.Template, err)
	}
	s, err := c.VM("pve1", 310).Status(t.Context())
	if err != nil || s.Template {
		t.Errorf("ours: %v, %v", s.Template, err)
	}
	v, err := c.VM("pve1", 310).Config(t.Context())
	if err != nil || v.Template {
		t.Errorf("ours: %v, %v", v.Template, err)
	}
}

// task answers every question about a task with one exit text.
func task(exit string) reply {
	return data(fmt.Sprintf(`{"upid":%q,"node":"pve1","type":"qmclone","id":"9000","status":"stopped","exitstatus":%q}`, upidClone, exit))
}

// running is the status of one that has not ended.
var running = data(fmt.Sprintf(`{"upid":%q,"node":"pve1","type":"qmclone","id":"9000","status":"running"}`, upidClone))

// Trap 6: waiting for a task that fails succeeds.
func TestTrap06ATaskThatFailsIsAnError(t *testing.T) {
	h, c := one(t, task("unable to create VM 330: config file already exists"))
	if err := proxmox.NewTask(upidClone, plain(t, h)).Wait(t.Context(), time.Millisecond, time.Second); err != nil {
		t.Errorf("go-proxmox is corrected: %v", err)
	}
	s, err := c.WaitTask(t.Context(), upidClone)
	if !Is(err, Exists) || s.OK || !strings.Contains(err.Error(), "VM 330") {
		t.Errorf("ours: %v", err)
	}
}

// Trap 6: warnings count as failure.
func TestTrap06WarningsAreSuccess(t *testing.T) {
	h, c := one(t, task("WARNINGS: 2"))
	done := proxmox.NewTask(upidClone, plain(t, h))
	if err := done.Ping(t.Context()); err != nil || !done.IsFailed {
		t.Errorf("go-proxmox is corrected: %v", err)
	}
	if s, err := c.WaitTask(t.Context(), upidClone); err != nil || !s.OK || !s.Warnings || s.Exit != "WARNINGS: 2" {
		t.Errorf("ours: %+v, %v", s, err)
	}
}

// Trap 6: one look that fails ends the wait.
func TestTrap06ALookThatFailsIsTriedAgain(t *testing.T) {
	script := func() func(*http.Request, string) reply {
		var n atomic.Int32
		return func(*http.Request, string) reply {
			switch n.Add(1) {
			case 1:
				return running
			case 2:
				return fault(500, "can't lock file '/var/lock/x' - got timeout")
			default:
				return task("OK")
			}
		}
	}
	h := newHost(t, script())
	if err := proxmox.NewTask(upidClone, plain(t, h)).Wait(t.Context(), time.Millisecond, time.Second); err == nil {
		t.Error("go-proxmox is corrected")
	}
	k := newClock()
	c := connected(t, []*host{newHost(t, script())}, func(c *Connection) { c.Wait = k.Wait })
	if s, err := c.WaitTask(t.Context(), upidClone); err != nil || !s.OK {
		t.Errorf("ours: %+v, %v", s, err)
	}
}

// Trap 6: the wait goes on when the caller has given up, between two looks.
func TestTrap06WaitingEndsWithTheContext(t *testing.T) {
	h, c := one(t, running)
	ctx, cancel := context.WithCancel(t.Context())
	looked := roundTrip(func(req *http.Request) (*http.Response, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		time.AfterFunc(100*time.Millisecond, cancel)
		return inMemory(func(*http.Request, string) reply { return running }).RoundTrip(req)
	})
	began := time.Now()
	lib := plain(t, h, proxmox.WithHTTPClient(&http.Client{Transport: looked}))
	_ = proxmox.NewTask(upidClone, lib).Wait(ctx, 700*time.Millisecond, 10*time.Second)
	if took := time.Since(began); took < 600*time.Millisecond {
		t.Errorf("go-proxmox is corrected: it returned after %s", took)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := c.WaitTask(ctx, upidClone); !errors.Is(err, context.Canceled) || !Is(err, Canceled) {
		t.Errorf("ours: %v", err)
	}
}

// Trap 6: a task's name that is cut short panics.
func TestTrap06ACutNameDoesNotPanic(t *testing.T) {
	const cut = "UPID:pve1:0000018A:0002E506:6B00A8B8:qmclone:9000"
	func() {
		defer func() {
			if recover() == nil {
				t.Error("go-proxmox is corrected")
			}
		}()
		proxmox.NewTask(cut, nil)
	}()
	if u := UPID(cut); u.Valid() || u.Node() != "" || u.ID() != "" {
		t.Errorf("ours: %q", u.Node())
	}
	h, c := one(t, data(`"`+cut+`"`))
	if err := ways["start"](t.Context(), c); !Is(err, Unanswered) {
		t.Errorf("ours: %v", err)
	}
	if _, err := c.WaitTask(t.Context(), cut); !Is(err, Invalid) || len(h.asked()) != 1 {
		t.Errorf("ours: %v, %q", err, h.asked())
	}
}

// Trap 7: large numbers in a query are sent as 1.795205009e+09.
func TestTrap07NumbersAreSentAsTheyAre(t *testing.T) {
	h, c := one(t, data(`[]`))
	var list []any
	since := time.Unix(1795205009, 0)
	if err := plain(t, h).GetWithParams(t.Context(), "/nodes/pve1/tasks", map[string]any{"since": since.Unix()}, &list); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Tasks(t.Context(), "pve1", since); err != nil {
		t.Fatal(err)
	}
	asked := h.asked()
	if !strings.Contains(asked[0], "since=1.795205009e%2B09") {
		t.Errorf("go-proxmox is corrected: %s", asked[0])
	}
	if !strings.Contains(asked[1], "since=1795205009") {
		t.Errorf("ours: %s", asked[1])
	}
}

// Trap 8: with WithRetry a clone whose answer is lost is ordered again.
func TestTrap08AnOrderIsGivenOnce(t *testing.T) {
	drop := func(*http.Request, string) reply { return reply{} }
	h := newHost(t, drop)
	lib := plain(t, h, proxmox.WithRetry(proxmox.WithRetryBackoff(time.Millisecond, time.Millisecond)))
	_, _, _ = machine(lib).Clone(t.Context(), &proxmox.VirtualMachineCloneOptions{NewID: 400})
	if n := len(h.asked()); n < 2 {
		t.Errorf("go-proxmox is corrected: %d orders", n)
	}
	a, b := newHost(t, drop), newHost(t, drop)
	c := connected(t, []*host{a, b})
	for _, way := range []string{"start", "destroy", "upload", "set config", "delete volume"} {
		before := len(a.asked()) + len(b.asked())
		if err := ways[way](t.Context(), c); !Is(err, Unanswered) || Retryable(err) {
			t.Errorf("ours: %s: %v", way, err)
		}
		if n := len(a.asked()) + len(b.asked()) - before; n != 1 {
			t.Errorf("ours: %s was sent %d times", way, n)
		}
	}
}

// Trap 9: a clone without a number takes one that is anybody's, and full=0 cannot be said.
func TestTrap09ACloneHasANumberAndSaysWhetherItIsFull(t *testing.T) {
	h := newHost(t, func(r *http.Request, _ string) reply {
		switch r.URL.Path {
		case apiRoot + "/cluster/status":
			return data(`[]`)
		case apiRoot + "/cluster/nextid":
			return data(`"100"`)
		}
		return data(`"` + upidClone + `"`)
	})
	if id, _, err := machine(plain(t, h)).Clone(t.Context(), &proxmox.VirtualMachineCloneOptions{Full: false}); err != nil || id != 100 {
		t.Errorf("go-proxmox is corrected: %d, %v", id, err)
	}
	if last := h.asked()[2]; strings.Contains(last, "full") {
		t.Errorf("go-proxmox is corrected: %s", last)
	}
	c := connected(t, []*host{h})
	if _, err := c.VM("pve1", 9000).Clone(t.Context(), CloneOptions{}); !Is(err, Invalid) {
		t.Errorf("ours: %v", err)
	}
	for full, want := range map[bool]string{false: `{"full":0,"newid":310}`, true: `{"full":1,"newid":310}`} {
		if _, err := c.VM("pve1", 9000).Clone(t.Context(), CloneOptions{NewID: 310, Full: &full}); err != nil {
			t.Error(err)
		}
		if asked := h.asked(); asked[len(asked)-1] != "POST /nodes/pve1/qemu/9000/clone "+want {
			t.Errorf("ours: %s", asked[len(asked)-1])
		}
	}
	if _, err := c.VM("pve1", 9000).Clone(t.Context(), CloneOptions{NewID: 310}); err != nil || strings.Contains(h.asked()[len(h.asked())-1], "full") {
		t.Errorf("ours: %v", err)
	}
	if slices.ContainsFunc(h.asked()[3:], func(a string) bool { return strings.Contains(a, "nextid") }) {
		t.Errorf("ours: %q", h.asked())
	}
}

// Trap 10: Stop and Shutdown take no options.
func TestTrap10StopAndShutdownSayHow(t *testing.T) {
	h, c := one(t, data(`"UPID:pve1:0000018A:0002E506:6B00A8B8:qmshutdown:310:auto@pve!t1:"`))
	if _, err := machine(plain(t, h)).Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.VM("pve1", 310).Shutdown(t.Context(), 90*time.Second, true); err != nil {
		t.Fatal(err)
	}
	if _, err := c.VM("pve1", 310).Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"POST /nodes/pve1/qemu/310/status/shutdown",
		`POST /nodes/pve1/qemu/310/status/shutdown {"forceStop":1,"timeout":90}`,
		`POST /nodes/pve1/qemu/310/status/stop {"overrule-shutdown":1}`,
	}
	if asked := h.asked(); !slices.Equal(asked, want) {
		t.Errorf("%q", asked)
	}
}

// Trap 11: other clients that wait for the agent give up on any text but one. Ours distinguishes
// the texts, and its caller decides how long to wait for which.
func TestTrap11AnAgentThatIsNotUpYetIsDistinguishedFromOneThatNeverWillBe(t *testing.T) {
	for text, want := range map[string]Class{
		"VM 310 is not running":           NotRunning,
		"QEMU guest agent is not running": AgentSilent,
		"No QEMU guest agent configured":  NoAgent,
	} {
		h, c := one(t, fault(500, text))
		if want == NotRunning {
			if err := machine(plain(t, h)).WaitForAgent(t.Context(), 1); err == nil || errors.Is(err, proxmox.ErrTimeout) {
				t.Errorf("go-proxmox is corrected: %v", err)
			}
		}
		if _, err := c.VM("pve1", 310).AgentInterfaces(t.Context()); !Is(err, want) || Retryable(err) != (want == AgentSilent) {
			t.Errorf("ours: %v", err)
		}
	}
}

// Trap 12: tags are read, changed and written back over what others have written meanwhile.
func TestTrap12WhatOthersWroteIsNotOverwritten(t *testing.T) {
	h := newHost(t, func(r *http.Request, body string) reply {
		switch {
		case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/config"):
			return data(`{"digest":"83d8b4df65f233c8abe283d45a0610c9afbf5a52","name":"a"}`)
		case r.Method == http.MethodGet:
			return data(`{"status":"stopped"}`)
		case strings.Contains(body, "digest"):
			return fault(500, "checksum mismatch (file change by other user?)")
		}
		return data(`"UPID:pve1:0000018A:0002E506:6B00A8B8:qmconfig:310:auto@pve!t1:"`)
	})
	vm := machine(plain(t, h))
	if err := vm.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := vm.AddTag(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if last := h.asked()[len(h.asked())-1]; last != `POST /nodes/pve1/qemu/310/config {"tags":";b"}` {
		t.Errorf("go-proxmox is corrected: %s", last)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("go-proxmox is corrected")
			}
		}()
		_, _ = machine(plain(t, h)).AddTag(t.Context(), "b")
	}()

	c := connected(t, []*host{h})
	v, err := c.VM("pve1", 310).Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = c.VM("pve1", 310).SetConfig(t.Context(), map[string]string{"tags": "b"}, nil, v.Digest)
	if !Is(err, Changed) || Retryable(err) {
		t.Errorf("ours: %v", err)
	}
}

// Trap 13: deleting a machine with a certain tag reads storages and deletes what it finds there.
func TestTrap13DeletingAMachineDeletesAMachine(t *testing.T) {
	h := newHost(t, func(r *http.Request, _ string) reply {
		switch {
		case r.Method == http.MethodDelete:
			return data(`"UPID:pve1:0000018A:0002E506:6B00A8B8:qmdestroy:310:auto@pve!t1:"`)
		case strings.HasSuffix(r.URL.Path, "/storage"):
			return data(`[]`)
		}
		return data(`{"status":"stopped","digest":"1","tags":"go-proxmox+cloud-init"}`)
	})
	vm := machine(plain(t, h))
	if err := vm.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := len(h.asked())
	if _, err := vm.Delete(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if n := len(h.asked()) - before; n < 2 {
		t.Errorf("go-proxmox is corrected: %q", h.asked()[before:])
	}
	before = len(h.asked())
	if err := ways["destroy"](t.Context(), connected(t, []*host{h})); err != nil {
		t.Fatal(err)
	}
	if asked := h.asked()[before:]; !slices.Equal(asked, []string{"DELETE /nodes/pve1/qemu/310?purge=1"}) {
		t.Errorf("ours: %q", asked)
	}
}

// Trap 14: Version keeps its answer in the client: the next one changes the last.
func TestTrap14AnAnswerBelongsToItsCaller(t *testing.T) {
	var n atomic.Int32
	h := newHost(t, func(*http.Request, string) reply {
		return data(fmt.Sprintf(`{"version":"9.2.%d","release":"9.2"}`, n.Add(1)))
	})
	lib := plain(t, h)
	if _, err := lib.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, _ := lib.Version(t.Context())
	was := first.Version
	if _, err := lib.Version(t.Context()); err != nil || first.Version == was {
		t.Errorf("go-proxmox is corrected: %s, %v", first.Version, err)
	}

	c := connected(t, []*host{h})
	seen := map[string]bool{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			v, err := c.Version(t.Context())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			seen[v.Version] = true
		})
	}
	all.Wait()
	if len(seen) != 8 {
		t.Errorf("ours: %d answers of 8", len(seen))
	}
}

// Trap 15: no time-out, connections that are kept for longer than the server keeps them, and logs
// with passwords in them.
func TestTrap15TheDefaultsAreCareful(t *testing.T) {
	if http.DefaultClient.Timeout != 0 || http.DefaultTransport.(*http.Transport).IdleConnTimeout <= 5*time.Second {
		t.Error("net/http's defaults are mended")
	}
	c := connected(t, []*host{newHost(t, nil)}, func(c *Connection) { c.Timeout = 0 })
	reads, writes := c.wire.reads.(*http.Transport), c.wire.writes.(*http.Transport)
	if reads.IdleConnTimeout <= 0 || reads.IdleConnTimeout > 4*time.Second || !writes.DisableKeepAlives {
		t.Errorf("ours: idle %s, writes share connections: %v", reads.IdleConnTimeout, !writes.DisableKeepAlives)
	}
	if c.wire.timeout < 30*time.Second || c.wire.timeout > time.Minute {
		t.Errorf("ours: %s for a request", c.wire.timeout)
	}
	for _, tr := range []*http.Transport{reads, writes} {
		if tr.ForceAttemptHTTP2 || tr.TLSNextProto == nil || !slices.Equal(tr.TLSClientConfig.NextProtos, []string{"http/1.1"}) || tr.Proxy != nil {
			t.Error("ours: HTTP/2 or a proxy of the environment")
		}
	}
}

func TestTrap15AHostThatIsSilentIsNotWaitedForForever(t *testing.T) {
	h := newHost(t, func(*http.Request, string) reply { return reply{stall: true} })
	c := connected(t, []*host{h}, func(c *Connection) { c.Timeout = 200 * time.Millisecond })
	if err := ways["start"](t.Context(), c); !Is(err, Unanswered) || !strings.Contains(err.Error(), "no answer within 200ms") {
		t.Errorf("ours: %v", err)
	}
}

// printed is a logger that keeps what is printed.
type printed struct {
	mu   sync.Mutex
	text strings.Builder
}

func (p *printed) Debugf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(&p.text, format+"\n", args...)
}
func (p *printed) Errorf(format string, args ...any) { p.Debugf(format, args...) }
func (p *printed) Infof(format string, args ...any)  { p.Debugf(format, args...) }
func (p *printed) Warnf(format string, args ...any)  { p.Debugf(format, args...) }

func TestTrap15PasswordsAreNotPrinted(t *testing.T) {
	h := newHost(t, func(*http.Request, string) reply {
		return reply{status: 400, reason: "Parameter verification failed.", body: `{"data":null,"message":"Parameter verification failed.\n",` +
			`"errors":{"cipassword":"value 'hunter2' is too short","x":"` + testSecret + `"}}`}
	})
	log := &printed{}
	lib := plain(t, h, proxmox.WithLogger(log))
	_ = machine(lib).ConfigSync(t.Context(), proxmox.VirtualMachineOption{Name: "cipassword", Value: "hunter2"})
	if !strings.Contains(log.text.String(), "hunter2") {
		t.Error("go-proxmox is corrected")
	}

	var said []string
	c := connected(t, []*host{h}, func(c *Connection) {
		c.Warn = func(text string) { said = append(said, text) }
		c.Observer = func(call Call) { said = append(said, fmt.Sprintf("%+v", call)) }
	})
	err := c.VM("pve1", 310).SetConfig(t.Context(), map[string]string{"cipassword": "hunter2"}, nil, "")
	var e *Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	said = append(said, err.Error(), fmt.Sprintf("%+v", *e), fmt.Sprintf("%v %+v %#v", c, c, c), e.Advice())
	for _, text := range said {
		if strings.Contains(text, "hunter2") || strings.Contains(text, testSecret) {
			t.Errorf("ours: %s", text)
		}
	}
}

// Trap 15: an upload cannot be given up.
func TestTrap15AnUploadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := newHost(t, func(*http.Request, string) reply {
		cancel() // once it has all of it, and does not answer
		return reply{stall: true}
	})
	c := connected(t, []*host{h})
	if err := ways["upload"](ctx, c); !Is(err, Unanswered) || !errors.Is(err, context.Canceled) {
		t.Errorf("ours: %v", err)
	}
}
