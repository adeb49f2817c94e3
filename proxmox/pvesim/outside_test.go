package pvesim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// outside runs machines as a computer does, without a computer: they boot at once, shut down when
// their power button is pressed, and answer what they are asked.
type outside struct {
	mu    sync.Mutex
	runs  map[int]*running
	fails error // why no machine starts
	hangs bool  // the agent of each does
	state string
	gone  []int // disks
}

type running struct {
	on    *outside
	spec  *Machine
	over  func()
	ended bool
	err   error
}

func (o *outside) Start(m *Machine, over func()) Running {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := &running{on: o, spec: m, over: over, err: o.fails, ended: o.fails != nil}
	o.runs[m.VMID] = r
	if r.ended {
		go over()
	}
	return r
}

func (o *outside) Discard(disk int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gone = append(o.gone, disk)
}

func (r *running) Up() error { return r.err }

func (r *running) Kill() {
	r.on.mu.Lock()
	defer r.on.mu.Unlock()
	if !r.ended {
		r.ended = true
		go r.over()
	}
}

func (r *running) Monitor(command string, arguments map[string]any) (any, error) {
	r.on.mu.Lock()
	drive := slices.IndexFunc(r.spec.Drives, func(d Drive) bool { return d.Key == arguments["device"] })
	status := map[string]any{"status": r.on.state}
	switch {
	case r.ended:
		r.on.mu.Unlock()
		return nil, errors.New("it has ended")
	case command == "query-status":
		r.on.mu.Unlock()
		return status, nil
	case command == "block_resize" && drive >= 0:
		r.spec.Drives[drive].Size = arguments["size"].(int64)
	case command == "eject" && drive >= 0:
		r.spec.Drives[drive] = Drive{Key: r.spec.Drives[drive].Key, Empty: true}
	case command == "system_powerdown":
		r.on.mu.Unlock()
		r.Kill()
		return nil, nil
	}
	r.on.mu.Unlock()
	return nil, nil
}

func (r *running) Agent(command string, arguments map[string]any) (any, error) {
	r.on.mu.Lock()
	defer r.on.mu.Unlock()
	switch {
	case r.ended:
		return nil, errors.New("it has ended")
	case r.on.hangs:
		return nil, errors.New("no answer")
	case command == "guest-exec":
		return map[string]any{"pid": 7}, nil
	case command == "guest-exec-status":
		return map[string]any{"exited": true, "exitcode": 3, "out-data": "aGVsbG8K"}, nil
	case command == "guest-ping", command == "guest-network-get-interfaces":
		return []any{}, nil
	}
	return nil, fmt.Errorf("the command %s has not been found", command)
}

// drives are what a machine that runs has, and nil is of one that does not.
func (o *outside) drives(id int) []Drive {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r := o.runs[id]; r != nil && !r.ended {
		return slices.Clone(r.spec.Drives)
	}
	return nil
}

// finish waits for a task that a call starts, and returns how it ended.
func (r *rig) finish(line string) (exit string) {
	r.Helper()
	upid, _ := r.must(line).(string)
	r.until(line, func() bool {
		for _, h := range r.Nodes {
			if t := h.Task(upid); t != nil {
				exit = t.Exit
			}
		}
		return exit != ""
	})
	return exit
}

func (r *rig) until(what string, so func() bool) {
	r.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		is := false
		r.With(func() { is = so() })
		if is {
			return
		}
		if time.Now().After(end) {
			r.Fatalf("not after a minute: %s", what)
		}
	}
}

func newOutside(t *testing.T) (*rig, *outside) {
	o := &outside{runs: map[int]*running{}}
	r := newRig(t, func(cfg *world.Config) { cfg.Guests, cfg.Speed = o, 200 })
	if exit := r.finish("POST /nodes/pve1/qemu/9000/clone newid=100"); exit != "OK" {
		t.Fatal(exit)
	}
	return r, o
}

// What the API does to a machine happens to the one that runs outside, and the other way round.
func TestMachinesRunOutside(t *testing.T) {
	r, o := newOutside(t)
	must := func(line string) {
		t.Helper()
		if exit := r.finish(line); exit != "OK" {
			t.Errorf("%s: %s", line, exit)
		}
	}
	state := func(want string) func() bool { return func() bool { return r.VMs[100].State == want } }
	must("POST /nodes/pve1/qemu/100/status/start")
	r.until("the guest answers", func() bool { return r.VMs[100].Agent })
	disk := Drive{Key: "scsi0", Disk: 1, Size: 8 << 30, System: true}
	got := o.drives(100)
	if len(got) != 2 || got[0].Seed["user-data"] == nil {
		t.Fatalf("drives %+v", got)
	}
	if diff := cmp.Diff(disk, got[1]); diff != "" {
		t.Errorf("its disk (-want +got):\n%s", diff)
	}
	answer := r.must("POST /nodes/pve1/qemu/100/agent/exec command=true")
	if diff := cmp.Diff(map[string]any{"pid": 7.0}, answer); diff != "" {
		t.Errorf("exec (-want +got):\n%s", diff)
	}
	answer = r.must("GET /nodes/pve1/qemu/100/agent/exec-status pid=7")
	if diff := cmp.Diff(map[string]any{"exited": 1.0, "exitcode": 3.0, "out-data": "hello\n"}, answer); diff != "" {
		t.Errorf("exec-status (-want +got):\n%s", diff)
	}
	must("PUT /nodes/pve1/qemu/100/resize disk=scsi0 size=9G")
	r.must("PUT /nodes/pve1/qemu/100/config ide2=none,media=cdrom")
	disk.Size = 9 << 30
	if diff := cmp.Diff([]Drive{{Key: "ide2", Empty: true}, disk}, o.drives(100)); diff != "" {
		t.Errorf("drives (-want +got):\n%s", diff)
	}
	r.refused("POST /nodes/pve1/qemu/100/snapshot snapname=before", "501 not emulated for guests that are real")
	must("POST /nodes/pve1/qemu/100/status/shutdown")
	r.until("it has shut down", state("stopped"))

	must("POST /nodes/pve1/qemu/100/status/start")
	o.runs[100].Kill() // by itself
	r.until("its end is seen", state("stopped"))
	must("POST /nodes/pve1/qemu/100/status/start")
	must("POST /nodes/pve1/qemu/100/status/stop")
	if got := o.drives(100); got != nil {
		t.Errorf("it runs on: %+v", got)
	}
	if exit := r.finish("POST /nodes/pve1/qemu/100/clone newid=101 full=1"); !strings.Contains(exit, "cannot be copied") {
		t.Errorf("a clone of a disk that was run from: %s", exit)
	}
	must("DELETE /nodes/pve1/qemu/100")
	if diff := cmp.Diff([]int{1}, o.gone); diff != "" {
		t.Errorf("disks removed (-want +got):\n%s", diff)
	}
}

// An agent that hangs is one that does not run, and what QEMU says of a machine is shown.
func TestMachinesOutsideAreAsTheirAgentAndQEMUSay(t *testing.T) {
	r, o := newOutside(t)
	if exit := r.finish("POST /nodes/pve1/qemu/100/status/start"); exit != "OK" {
		t.Fatal(exit)
	}
	r.until("the guest answers", func() bool { return r.VMs[100].Agent })
	o.mu.Lock()
	o.hangs, o.state = true, "io-error"
	o.mu.Unlock()
	r.refused("GET /nodes/pve1/qemu/100/agent/network-get-interfaces", "500 QEMU guest agent is not running")
	if s := r.must("GET /nodes/pve1/qemu/100/status/current").(map[string]any); s["status"] != "running" || s["qmpstatus"] != "io-error" {
		t.Errorf("it is %v", s)
	}
	if exit := r.finish("POST /nodes/pve1/qemu/100/status/shutdown"); exit != "OK" {
		t.Errorf("to shut down, by its power button: %s", exit)
	}
}

// A machine whose process does not begin is stopped, and its task says why.
func TestMachinesThatDoNotStartOutsideAreStopped(t *testing.T) {
	r, o := newOutside(t)
	o.fails = errors.New("no memory")
	if exit := r.finish("POST /nodes/pve1/qemu/100/status/start"); exit != "start failed: QEMU exited with code 1" {
		t.Errorf("it ended %q", exit)
	}
	r.until("it is stopped", func() bool { return !r.VMs[100].Running() })
}
