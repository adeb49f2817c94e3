package pvesim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// guest clones a machine with an agent and starts it. Its guest boots for twenty seconds.
func (r *rig) guest(id int) {
	r.Helper()
	r.does(fmt.Sprintf("POST /nodes/pve1/qemu/9000/clone newid=%d name=w%d", id, id))
	r.does(fmt.Sprintf("POST /nodes/pve1/qemu/%d/status/start", id))
}

// state is what a machine's state is said to be.
func (r *rig) state(id int) string {
	r.Helper()
	m := r.VMs[id]
	s, _ := r.must(fmt.Sprintf("GET /nodes/%s/qemu/%d/status/current", m.Host.Name, id)).(map[string]any)
	return fmt.Sprint(s["status"], " ", s["qmpstatus"])
}

func TestGuestBootsAndIsToldOf(t *testing.T) {
	r := newRig(t, nil)
	var booted []string
	r.OnBoot(func(b world.Boot) {
		booted = append(booted, fmt.Sprintf("%d %s on %s after %s", b.VMID, b.Name, b.Host, b.At.Sub(r.Began)))
		if b.UUID != vmconf.UUIDOf(r.VMs[b.VMID].Conf) || !strings.Contains(string(b.UserData), "hostname: w100\n") {
			t.Errorf("it is told %s %s", b.UUID, b.UserData)
		}
	})
	r.guest(100) // 8 s, and 1 s in which its boot begins
	r.refused("GET /nodes/pve1/qemu/100/agent/get-osinfo", "500 QEMU guest agent is not running")
	r.Advance(time.Minute)
	r.must("GET /nodes/pve1/qemu/100/agent/get-osinfo")
	r.must("POST /nodes/pve1/qemu/100/status/reset")
	r.Advance(time.Minute)
	r.does("POST /nodes/pve1/qemu/100/status/reboot")
	r.Advance(time.Minute)
	if len(booted) != 3 || booted[0] != "100 w100 on pve1 after 28s" {
		t.Errorf("told %q", booted)
	}
}

// longStop is more than any guest takes that has been asked to stop.
const longStop = 13 * time.Second

func TestShutdownAsksTheGuest(t *testing.T) {
	r := newRig(t, nil)
	r.guest(100)
	r.Advance(time.Minute)
	stop := r.does("POST /nodes/pve1/qemu/100/status/shutdown")
	if took := stop.End.Sub(stop.Start); took < world.GuestStops.Min || took > longStop {
		t.Errorf("it took %s", took)
	}
	if got := r.state(100); got != "stopped stopped" {
		t.Errorf("it is %s", got)
	}
}

// A guest that does not hear keeps the machine's file locked for as long as it is waited for.
func TestShutdownHoldsTheFileLock(t *testing.T) {
	r := newRig(t, func(cfg *world.Config) { cfg.VMs[0].Guest = world.GuestDeaf })
	r.guest(100)
	r.Advance(time.Minute)
	stop := r.start("POST /nodes/pve1/qemu/100/status/shutdown timeout=30")
	began := r.Now()
	r.refused("PUT /nodes/pve1/qemu/100/config cores=2", "500 can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout")
	if waited := r.Now().Sub(began); waited != 10*time.Second {
		t.Errorf("the change waited %s", waited)
	}
	r.ends(stop, "VM quit/powerdown failed - got timeout")
	if took := stop.End.Sub(stop.Start); took != 30*time.Second {
		t.Errorf("it took %s", took)
	}
	r.must("PUT /nodes/pve1/qemu/100/config cores=2")
}

func TestDeafGuestsAreStoppedByForce(t *testing.T) {
	for _, test := range []struct {
		line  string
		takes time.Duration
		log   []string
	}{
		{"shutdown forceStop=1 timeout=5", 6 * time.Second, []string{"VM still running - terminating now with SIGTERM", "TASK OK"}},
		{"shutdown forceStop=1", 61 * time.Second, []string{"VM still running - terminating now with SIGTERM", "TASK OK"}},
		{"stop", time.Second, []string{"TASK OK"}},
	} {
		r := newRig(t, func(cfg *world.Config) { cfg.VMs[0].Guest = world.GuestDeaf })
		r.guest(100)
		r.Advance(time.Minute)
		stop := r.does("POST /nodes/pve1/qemu/100/status/" + test.line)
		if took := stop.End.Sub(stop.Start); took != test.takes {
			t.Errorf("%s took %s, want %s", test.line, took, test.takes)
		}
		if diff := cmp.Diff(test.log, stop.Log); diff != "" {
			t.Errorf("%s: %s", test.line, diff)
		}
	}
}

func TestStopOverrulesShutdown(t *testing.T) {
	r := newRig(t, func(cfg *world.Config) { cfg.VMs[0].Guest = world.GuestDeaf })
	r.guest(100)
	r.Advance(time.Minute)
	slow := r.start("POST /nodes/pve1/qemu/100/status/shutdown timeout=300")
	stop := r.does("POST /nodes/pve1/qemu/100/status/stop overrule-shutdown=1")
	if slow.Exit != "received interrupt" || stop.Log[0] != "overruled qmshutdown tasks: "+slow.UPID {
		t.Errorf("the shutdown ended %q, and the stop says %q", slow.Exit, stop.Log)
	}
	if got := r.state(100); got != "stopped stopped" {
		t.Errorf("it is %s", got)
	}
}

func TestPowerOfMachinesThatAreNotThere(t *testing.T) {
	r := newRig(t, nil)
	missing := "unable to find configuration file for VM 555 on node 'pve1'"
	r.ends(r.start("POST /nodes/pve1/qemu/555/status/start"), "Configuration file 'nodes/pve1/qemu-server/555.conf' does not exist")
	r.ends(r.start("POST /nodes/pve1/qemu/555/status/stop"), missing)
	for _, what := range []string{"reset", "reboot", "suspend", "resume"} {
		r.refused("POST /nodes/pve1/qemu/555/status/"+what, "500 "+missing)
	}
	r.does("POST /nodes/pve1/qemu vmid=100")
	for _, what := range []string{"reset", "reboot", "suspend", "resume"} {
		r.refused("POST /nodes/pve1/qemu/100/status/"+what, "500 VM 100 not running")
	}
	r.does("POST /nodes/pve1/qemu/100/status/stop")
	r.does("POST /nodes/pve1/qemu/100/status/shutdown")
}

func TestMachinesPauseAndSleep(t *testing.T) {
	r := newRig(t, nil)
	r.guest(100)
	r.Advance(time.Minute)
	r.does("POST /nodes/pve1/qemu/100/status/suspend")
	if got := r.state(100); got != "running paused" {
		t.Errorf("it is %s", got)
	}
	r.refused("POST /nodes/pve1/qemu/100/status/shutdown", "500 VM is paused - cannot shutdown")
	r.refused("GET /nodes/pve1/qemu/100/agent/get-osinfo", "500 QEMU guest agent is not running")
	r.does("POST /nodes/pve1/qemu/100/status/resume")
	r.does("POST /nodes/pve1/qemu/100/status/suspend todisk=1")
	conf := r.conf("pve1", 100)
	if conf["lock"] != "suspended" || conf["vmstate"] == nil || r.state(100) != "stopped stopped" {
		t.Errorf("asleep it is %v", conf)
	}
	r.lawful()
	r.does("POST /nodes/pve1/qemu/100/status/start")
	if conf := r.conf("pve1", 100); conf["lock"] != nil || conf["vmstate"] != nil {
		t.Errorf("awake it is %v", conf)
	}
	r.must("GET /nodes/pve1/qemu/100/agent/get-osinfo") // it has not booted, it goes on
	r.lawful()
}

func TestStartsThatFailLeaveTheMachineStopped(t *testing.T) {
	for _, test := range []struct{ change, exit string }{
		{"net0=virtio,bridge%3Dnobr", "bridge 'nobr' does not exist"},
		{"cicustom=user%3Dlocal:snippets/none.yaml", "volume 'local:snippets/none.yaml' does not exist"},
		{"cicustom=user%3Dnostore:snippets/none.yaml", "storage 'nostore' does not exist"},
	} {
		r := newRig(t, nil)
		r.does("POST /nodes/pve1/qemu/9000/clone newid=100")
		r.must("PUT /nodes/pve1/qemu/100/config " + test.change)
		r.ends(r.start("POST /nodes/pve1/qemu/100/status/start"), test.exit)
		if got := r.state(100); got != "stopped stopped" {
			t.Errorf("%s: it is %s", test.change, got)
		}
	}
}

func TestMachinesOfADeadHostStop(t *testing.T) {
	r := newRig(t, nil)
	r.guest(100)
	r.does("POST /nodes/pve1/qemu/9001/clone newid=101")
	r.does("POST /nodes/pve1/qemu/101/status/start")
	clone := r.start("POST /nodes/pve1/qemu/9000/clone newid=102")
	r.Advance(3 * time.Second)
	r.With(func() { r.Rewire(func() { r.PowerOff(r.Node("pve1")) }) })
	if clone.Exit != "unexpected status" || r.VMs[100].Running() || r.VMs[102].Conf["lock"] != "clone" {
		t.Errorf("the clone ended %q, VM 100 is %s, and 102 is locked %q", clone.Exit, r.VMs[100].State, r.VMs[102].Conf["lock"])
	}
	r.Advance(time.Minute)
	r.With(func() { r.Rewire(func() { r.PowerOn(r.Node("pve1")) }) })
	r.Advance(2 * time.Minute)
	if !r.VMs[100].Awake || r.VMs[101].Running() { // its template has onboot
		t.Errorf("VM 100 is %s, and 101 %s", r.VMs[100].State, r.VMs[101].State)
	}
}

func TestAgentAnswers(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100 name=w100")
	r.refused("POST /nodes/pve1/qemu/100/agent/ping", "500 VM 100 is not running")
	r.must("PUT /nodes/pve1/qemu/100/config ipconfig0=ip%3D10.1.1.5/24,gw%3D10.1.1.1")
	r.does("POST /nodes/pve1/qemu/100/status/start")
	began := r.Now()
	r.refused("POST /nodes/pve1/qemu/100/agent/ping", "500 QEMU guest agent is not running")
	if took := r.Now().Sub(began); took != 3*time.Second {
		t.Errorf("to find out that it does not run took %s", took)
	}
	r.Advance(time.Minute)
	nics, _ := r.must("GET /nodes/pve1/qemu/100/agent/network-get-interfaces").(map[string]any)["result"].([]any)
	if len(nics) != 2 {
		t.Fatalf("%v", nics)
	}
	card, _ := nics[1].(map[string]any)
	mac := strings.ToLower(vmconf.ParseNet(r.VMs[100].Conf["net0"])["macaddr"])
	if card["hardware-address"] != mac || fmt.Sprint(card["ip-addresses"]) != "[map[ip-address:10.1.1.5 ip-address-type:ipv4 prefix:24]]" {
		t.Errorf("%v", card)
	}
	run, _ := r.must("POST /nodes/pve1/qemu/100/agent/exec command=true").(map[string]any)
	ended, _ := r.must(fmt.Sprintf("GET /nodes/pve1/qemu/100/agent/exec-status pid=%v", run["pid"])).(map[string]any)
	if ended["exited"] != 1. || ended["exitcode"] != 0. {
		t.Errorf("the program ended %v", ended)
	}
	r.must("POST /nodes/pve1/qemu/100/agent/file-write file=/x content=hello")
	if file, _ := r.must("GET /nodes/pve1/qemu/100/agent/file-read file=/x").(map[string]any); file["content"] != "hello" {
		t.Errorf("the file is %v", file)
	}
	r.must("PUT /nodes/pve1/qemu/9000/config agent=0")
	r.refused("POST /nodes/pve1/qemu/9000/agent/ping", "500 No QEMU guest agent configured")
}

// Every end of a guest that had booted is reported, once, and nothing else is.
func TestHaltsAreTold(t *testing.T) {
	r := newRig(t, nil)
	var told []string
	r.OnBoot(func(b world.Boot) { told = append(told, fmt.Sprint("boot ", b.VMID)) })
	r.OnHalt(func(h world.Halt) {
		told = append(told, fmt.Sprint("halt ", h.VMID))
		if h.UUID == "" || h.Host != "pve1" {
			t.Errorf("%+v", h)
		}
	})
	for _, c := range []struct {
		what string
		do   func()
		want string
	}{
		{"a stop while it boots", func() {
			r.does("POST /nodes/pve1/qemu/9000/clone newid=100")
			r.does("POST /nodes/pve1/qemu/100/status/start")
			r.does("POST /nodes/pve1/qemu/100/status/stop")
		}, ""},
		{"a start", func() { r.does("POST /nodes/pve1/qemu/100/status/start") }, "boot 100"},
		{"a pause", func() {
			r.does("POST /nodes/pve1/qemu/100/status/suspend")
			r.does("POST /nodes/pve1/qemu/100/status/resume")
		}, ""},
		{"a reset", func() { r.must("POST /nodes/pve1/qemu/100/status/reset") }, "halt 100, boot 100"},
		{"a shutdown", func() { r.does("POST /nodes/pve1/qemu/100/status/shutdown") }, "halt 100"},
		{"another start", func() { r.does("POST /nodes/pve1/qemu/100/status/start") }, "boot 100"},
		{"the end of its host", func() { r.With(func() { r.Rewire(func() { r.PowerOff(r.Node("pve1")) }) }) }, "halt 100"},
		{"the host's return", func() { r.With(func() { r.Rewire(func() { r.PowerOn(r.Node("pve1")) }) }) }, "boot 100"},
	} {
		told = nil
		c.do()
		r.Advance(2 * time.Minute)
		if got := strings.Join(told, ", "); got != c.want {
			t.Errorf("%s: told %q, want %q", c.what, got, c.want)
		}
	}
}
