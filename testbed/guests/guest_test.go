//go:build guest

package guests

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var accel = flag.String("accel", "", "kvm or tcg; without it, KVM is tried")

const gib = int64(1) << 30

// A machine that the fleet orders boots, with the disc that the fleet has uploaded, and does in
// earnest what the emulator's API says it does.
func TestAMachineOfTheFleetBoots(t *testing.T) {
	image := tiny(t)
	t.Log("this takes about a minute by emulation, and less with KVM")
	w := newWorld(t, Config{Image: image}, pool())
	name, id := w.order()
	w.looksInside(name, id)
	w.isReached(name, id)
	w.keepsItsDisk(id)
	w.diesByItself(id)
	w.returns(name, id)
}

// world is an emulated cluster whose machines are real, and a fleet that uses it.
type world struct {
	*testing.T
	began, last time.Time
	machines    *Machines
	sim         *pvesim.Cluster
	client      *pveapi.Client
	shell       *Shell
	fleet       *pve.Fleet
	pool        settings.Pool
	patience    time.Duration // with guests
	ahead       atomic.Int64  // nanoseconds by which the fleet's clock is
	deaf        bool          // machines that boot do not become nodes
	mu          sync.Mutex
	nodes       []pve.Node
	events      []pve.Event
}

func newWorld(t *testing.T, cfg Config, pool settings.Pool) *world {
	t.Helper()
	w := &world{T: t, began: time.Now(), last: time.Now(), pool: pool, patience: 3 * time.Minute}
	cfg.Accel, cfg.Say = *accel, func(line string) { t.Log(line) }
	w.machines = must.Get(New(t.Context(), cfg))(t)
	t.Cleanup(w.machines.Close)
	*accel = w.machines.cfg.Accel // for the next world
	w.step("machines are run by %s", w.machines.cfg.Accel)
	second := timing.Range{Max: time.Second}
	w.sim = must.Get(pvesim.New(pvesim.Config{
		Seed: 1, Name: "home", Speed: 1, Start: time.Now(), Guests: w.machines, Pools: []string{"plimsoll"}, Times: timing.Machine{Clone: second, Delete: second},
		Hosts:    []pvesim.Host{{Name: "pve1", CPUs: 8, Memory: 16 * gib}},
		Storages: []pvesim.Storage{{Name: "nfs", Type: "nfs", Shared: true, Content: []string{"images", "iso"}, Total: 100 * gib}},
		VMs: []pvesim.VM{{
			ID: 9000, Host: "pve1", Template: true, Storage: "nfs", Disk: max(gib, w.machines.size),
			Config: map[string]string{"name": "tiny", "agent": "1", "net0": "virtio,bridge=vmbr0"},
		}},
	}))(t)
	t.Cleanup(w.sim.Close)
	token := w.sim.Token("root@pam", "fleet", false)
	w.sim.OnBoot(func(b pvesim.Boot) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.deaf {
			return
		}
		w.nodes = []pve.Node{{Name: b.Name, ProviderID: fmt.Sprintf("proxmox://home/%d", b.VMID), SystemUUID: b.UUID, Ready: true, JoinedAt: b.At}}
	})
	w.shell = NewShell(w.sim)
	w.client = must.Get(pveapi.Connect(pveapi.Connection{
		Endpoints: []string{"https://pve1:8006"}, Insecure: true, Transport: w.sim.Transport(), Token: func() (string, error) { return token, nil },
	}))(t)
	w.fleet = must.Get(pve.NewFleet(pve.FleetConfig{
		Client: w.client, Owner: "home", Cluster: "6f1d1b9e-6a0b-4c55-9c55-0d3a3a1f0c01", Intents: &intents.Memory{}, Now: w.now,
		Rand: rand.New(rand.NewPCG(1, 2)), Pools: []settings.Pool{pool}, RemoveNode: func(context.Context, string) error { return nil },
		Nodes: func(context.Context) ([]pve.Node, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.nodes, nil
		},
		Report: func(e pve.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
			t.Log(e)
		},
	}))(t)
	return w
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

func pool() settings.Pool {
	return settings.Pool{
		Name: "web", Shapes: []pricing.Shape{{Name: "small", CPU: pricing.Core, Memory: pricing.GiB / 2, Disk: 2 * pricing.GiB}}, Max: 2,
		Template: placement.Template{VMID: 9000}, PVEPool: "plimsoll", VMIDs: placement.VMIDs{First: 1000, Last: 1009},
		Guest: settings.Guest{Agent: true}, ShutdownGrace: nodescaler.Duration(20 * time.Second), ISO: settings.ISO{Storage: "nfs"},
		Join: firstboot.Profile{
			Kind: firstboot.Custom, ProviderID: firstboot.ProviderID{Scheme: firstboot.SchemeProxmox},
			UserDataFile: "user-data", UserDataTemplate: "#cloud-config\nhostname: {{.Name}}\n# id {{.ProviderID}} token s3cret\n",
		},
		Region: "home",
	}
}

// step says what has come about, and how long it took.
func (w *world) step(format string, args ...any) {
	now := time.Now()
	w.Logf("%5.1f s, after %4.1f s: %s", now.Sub(w.began).Seconds(), now.Sub(w.last).Seconds(), fmt.Sprintf(format, args...))
	w.last = now
}

// until lets the fleet work until something is so.
func (w *world) until(what string, so func() bool) {
	w.Helper()
	for end := time.Now().Add(w.patience); !so(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			text, _ := os.ReadFile(w.machines.Console(w.pool.VMIDs.First))
			w.Fatalf("not so after %s: %s\nconsole:\n%s", w.patience, what, text[max(0, len(text)-4000):])
		}
		_ = w.fleet.Tick(w.Context())
	}
	w.step("%s", what)
}

func (w *world) machine(name string) *nodescaler.Machine {
	state := must.Get(w.fleet.List(w.Context()))(w)
	for i := range state.Machines {
		if state.Machines[i].Name == name {
			return &state.Machines[i]
		}
	}
	return nil
}

// order orders a machine, and waits until its guest has become a node.
func (w *world) order() (name string, id int) {
	w.Helper()
	name, id = w.begins()
	w.until("the machine is Joined", func() bool { m := w.machine(name); return m != nil && m.Phase == nodescaler.Joined })
	return name, id
}

// begins orders a machine, and waits until it runs.
func (w *world) begins() (name string, id int) {
	w.Helper()
	shape := w.pool.Shapes[0]
	w.until("the fleet has looked around", func() bool {
		return w.fleet.Create(w.Context(), loop.Order{ID: "1", At: w.now(), Action: nodescaler.Action{Kind: nodescaler.Buy, Pool: "web", Shape: &shape}}) == nil
	})
	name = nodescaler.MachineName("web", "1")
	w.until("the machine is Booting", func() bool { m := w.machine(name); return m != nil && m.Phase == nodescaler.Booting })
	for _, v := range w.sim.Inventory().VMs {
		if v.Config["name"] == name {
			return name, v.ID
		}
	}
	w.Fatalf("no machine %s", name)
	return "", 0
}

// looksInside compares what is seen from inside with what was ordered.
func (w *world) looksInside(name string, id int) {
	cards := must.Get(w.client.VM("pve1", id).AgentInterfaces(w.Context()))(w)
	if text, want := fmt.Sprint(cards), fmt.Sprintf("[10.%d.%d.15]", id>>8, id&255); !strings.Contains(text, want) {
		w.Errorf("the agent shows %s, want %s", text, want)
	}
	if got := w.runs(id, "/bin/busybox", "hostname"); got != name+"\n" {
		w.Errorf("the machine's name is %q", got)
	}
	if got := w.runs(id, "/bin/busybox", "cat", "/seed/user-data"); !strings.Contains(got, "s3cret") {
		w.Errorf("the disc says %q", got)
	}
	if got := w.runs(id, "/bin/busybox", "cat", "/sys/block/sda/size"); got != fmt.Sprintln(2*gib/512) {
		w.Errorf("the disk has %q sectors", got)
	}
	w.step("its name, address, disc and disk are seen from inside")
	w.until("the disc is taken out, for it has joined", func() bool {
		return w.runs(id, "/bin/busybox", "sh", "-c", "/bin/busybox dd if=/dev/sr0 of=/dev/null count=1 2> /dev/null || echo empty") == "empty\n"
	})
}

// isReached asks a server in the guest from outside.
func (w *world) isReached(name string, id int) {
	w.runs(id, "/bin/busybox", "sh", "-c", "/bin/busybox mkdir /served; /bin/busybox hostname > /served/index.html; /bin/busybox httpd -h /served -p 8080 > /dev/null 2>&1")
	answer := must.Get(http.Get("http://" + must.Get(w.machines.Forward(id, 8080))(w) + "/index.html"))(w)
	text := must.Get(io.ReadAll(answer.Body))(w)
	_ = answer.Body.Close()
	if string(text) != name+"\n" {
		w.Errorf("its server says %s %q", answer.Status, text)
	}
	w.step("a server in it is reached")
}

// keepsItsDisk writes to the disk, shuts the machine down, enlarges its disk and starts it again.
func (w *world) keepsItsDisk(id int) {
	w.runs(id, "/bin/busybox", "sh", "-c", "echo kept > /dev/sda; /bin/busybox sync")
	w.task(w.client.VM("pve1", id).Shutdown(w.Context(), time.Minute, false))
	if got := must.Get(w.client.VM("pve1", id).Status(w.Context()))(w); got.Status != "stopped" {
		w.Errorf("the machine is %+v", got)
	}
	w.step("it has shut down when it was asked")
	w.task(w.client.VM("pve1", id).Resize(w.Context(), "scsi0", 3*pricing.GiB))
	w.task(w.client.VM("pve1", id).Start(w.Context()))
	w.answers(id)
	if got := w.runs(id, "/bin/busybox", "head", "-n", "1", "/dev/sda"); got != "kept\n" {
		w.Errorf("its disk has %q", got)
	}
	if got := w.runs(id, "/bin/busybox", "cat", "/sys/block/sda/size"); got != fmt.Sprintln(3*gib/512) {
		w.Errorf("the disk has %q sectors", got)
	}
	w.step("it has started again, with its disk, which is larger")
	boot := w.runs(id, "/bin/busybox", "cat", "/proc/sys/kernel/random/boot_id")
	if err := w.shell.Call(w.Context(), http.MethodPost, id, "status/reset", nil, nil); err != nil {
		w.Fatal(err)
	}
	w.until("it has booted again, for it was reset", func() bool {
		_, err := w.client.VM("pve1", id).AgentInterfaces(w.Context())
		return err == nil && w.runs(id, "/bin/busybox", "cat", "/proc/sys/kernel/random/boot_id") != boot
	})
}

// diesByItself kills the machine's process behind the emulator's back.
func (w *world) diesByItself(id int) {
	w.machines.mu.Lock()
	w.machines.running[id].cancel()
	w.machines.mu.Unlock()
	w.until("it is stopped, for its process died", func() bool { return must.Get(w.client.VM("pve1", id).Status(w.Context()))(w).Status == "stopped" })
	w.task(w.client.VM("pve1", id).Start(w.Context()))
	w.answers(id)
	w.step("it was started once more")
}

// returns gives the machine back.
func (w *world) returns(name string, id int) {
	if err := w.fleet.Delete(w.Context(), name); err != nil {
		w.Fatal(err)
	}
	w.until("the fleet has destroyed it", func() bool { return w.machine(name) == nil })
	if left := must.Get(os.ReadDir(w.machines.folder))(w); len(left) != 1 { // what it printed
		w.Errorf("left over: %v", left)
	}
	<-w.machines.running[id].gone
}

// task waits for a task's good end.
func (w *world) task(upid pveapi.UPID, err error) {
	w.Helper()
	if err == nil {
		_, err = w.client.WaitTask(w.Context(), upid)
	}
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) answers(id int) {
	w.Helper()
	w.until("its agent answers", func() bool { _, err := w.client.VM("pve1", id).AgentInterfaces(w.Context()); return err == nil })
}

// runs runs a program in the guest, and returns what it printed.
func (w *world) runs(id int, command ...string) string {
	w.Helper()
	out, code, err := w.shell.Run(w.Context(), id, command...)
	if err != nil || code != 0 {
		w.Fatalf("%v: %d, %v: %s", command, code, err, out)
	}
	return out
}
