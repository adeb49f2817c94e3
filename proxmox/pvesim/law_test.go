package pvesim

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// moves are calls that a caller might make at any time. What is in braces is drawn.
var moves = []string{
	"POST /nodes/{host}/qemu vmid={id} name=n{id} scsi0={storage}:{gib}",
	"POST /nodes/{host}/qemu vmid={id} pool=workers ide2={storage}:cloudinit scsi1={storage}:1,format%3Dqcow2",
	"POST /nodes/{host}/qemu/{template}/clone newid={id} pool=workers",
	"POST /nodes/{host}/qemu/{template}/clone newid={id} full=1",
	"POST /nodes/{host}/qemu/{template}/clone newid={id} full=1 storage={storage}",
	"POST /nodes/pve1/qemu/9001/clone newid={id} target={host}",
	"POST /nodes/pve1/qemu/9001/clone newid={id} target={host}",
	"POST /nodes/{host}/qemu/{vm}/clone newid={id}",
	"POST /nodes/{host}/qemu/{vm}/clone newid={id} snapname=s1 full=1",
	"POST /nodes/{host}/qemu/{vm}/template",
	"POST /nodes/{host}/qemu/{vm}/status/start",
	"POST /nodes/{host}/qemu/{vm}/status/start",
	"POST /nodes/{host}/qemu/{vm}/status/stop",
	"POST /nodes/{host}/qemu/{vm}/status/shutdown timeout={seconds}",
	"POST /nodes/{host}/qemu/{vm}/status/shutdown timeout={seconds} forceStop=1",
	"POST /nodes/{host}/qemu/{vm}/status/stop overrule-shutdown=1",
	"POST /nodes/{host}/qemu/{vm}/status/reboot timeout={seconds}",
	"POST /nodes/{host}/qemu/{vm}/status/suspend",
	"POST /nodes/{host}/qemu/{vm}/status/suspend todisk=1",
	"POST /nodes/{host}/qemu/{vm}/status/resume",
	"PUT /nodes/{host}/qemu/{vm}/config cores={gib} name=m{id}",
	"PUT /nodes/{host}/qemu/{vm}/config scsi2={storage}:{gib}",
	"PUT /nodes/{host}/qemu/{vm}/config virtio1={storage}:{gib},format%3Dqcow2",
	"PUT /nodes/{host}/qemu/{vm}/config ide2={storage}:cloudinit",
	"PUT /nodes/{host}/qemu/{vm}/config delete=scsi2,ide2",
	"PUT /nodes/{host}/qemu/{vm}/config delete=virtio1,unused0",
	"PUT /nodes/{host}/qemu/{vm}/unlink idlist=scsi0,scsi2 force=1",
	"POST /nodes/{host}/qemu/{vm}/config scsi3={storage}:{gib} background_delay={seconds}",
	"PUT /nodes/{host}/qemu/{vm}/resize disk=scsi0 size=%2B{gib}G",
	"POST /nodes/{host}/qemu/{vm}/move_disk disk=scsi0 storage={storage}",
	"POST /nodes/{host}/qemu/{vm}/move_disk disk=scsi0 storage={storage} delete=1",
	"POST /nodes/{host}/qemu/{vm}/move_disk disk=scsi2 target-vmid={id}",
	"POST /nodes/{host}/qemu/{vm}/snapshot snapname=s1",
	"POST /nodes/{host}/qemu/{vm}/snapshot snapname=s2 vmstate=1",
	"POST /nodes/{host}/qemu/{vm}/snapshot/s1/rollback start=1",
	"POST /nodes/{host}/qemu/{vm}/snapshot/s2/rollback",
	"DELETE /nodes/{host}/qemu/{vm}/snapshot/s1",
	"POST /nodes/{host}/qemu/{vm}/migrate target={host} online=1 with-local-disks=1",
	"POST /nodes/{host}/qemu/{vm}/migrate target={host}",
	"DELETE /nodes/{host}/qemu/{vm} purge=1",
	"DELETE /nodes/{host}/qemu/{vm}",
	"DELETE /nodes/{host}/qemu/{template}",
	"DELETE /nodes/{host}/tasks/{task}",
}

// anyMove draws a call. Mostly it is about a machine that is there.
func (r *rig) anyMove(rt *rapid.T) string {
	ids := r.VMIDs(nil)
	if len(ids) == 0 { // calls have destroyed them all
		return "POST /nodes/pve1/qemu vmid=100 scsi0=shared:1"
	}
	m := r.VMs[rapid.SampledFrom(ids).Draw(rt, "vm")]
	host, template := m.Host.Name, rapid.SampledFrom([]string{"9000", "9001", "9002"}).Draw(rt, "template")
	move := rapid.SampledFrom(moves).Draw(rt, "move")
	switch {
	case strings.Contains(move, "qemu/{template}"):
		host = map[string]string{"9002": "pve2"}[template]
		if host == "" {
			host = "pve1"
		}
	case !strings.Contains(move, "{vm}"):
		host = rapid.SampledFrom([]string{"pve1", "pve2", "pve3"}).Draw(rt, "host")
	}
	task := "UPID:pve1:00000001:00000001:00000001:qmstart:1:root@pam:"
	if tasks := r.Node(host).Tasks; len(tasks) > 0 {
		task = tasks[rapid.IntRange(0, len(tasks)-1).Draw(rt, "task")].UPID
	}
	first := strings.Replace(move, "{host}", host, 1) // a second one is where to
	return strings.NewReplacer(
		"{host}", rapid.SampledFrom([]string{"pve1", "pve2", "pve3"}).Draw(rt, "to"), "{vm}", fmt.Sprint(m.ID), "{template}", template,
		"{id}", fmt.Sprint(rapid.IntRange(100, 106).Draw(rt, "id")), "{task}", task,
		"{storage}", rapid.SampledFrom([]string{"shared", "local", "thin"}).Draw(rt, "storage"),
		"{gib}", fmt.Sprint(rapid.IntRange(1, 4).Draw(rt, "gib")), "{seconds}", fmt.Sprint(rapid.IntRange(1, 20).Draw(rt, "seconds")),
	).Replace(first)
}

// leftOver is what tasks say of volumes that they could not remove, and so leave to no one.
var leftOver = regexp.MustCompile(`^(?:Could not remove disk|base volume .* is still in use by linked clones|can't lock file '.*pve-storage|cfs-lock|received interrupt)`)

// leaks reports whether a task has said that it leaves something, or could not even say so.
func (c *Cluster) leaks() bool {
	for _, h := range c.Nodes {
		for _, t := range h.Tasks {
			if t.Exit == "unexpected status" || slices.ContainsFunc(t.Log, leftOver.MatchString) {
				return true
			}
		}
	}
	return false
}

// After any calls at any time: no volume is without its machine, none that a machine names is
// missing, and no lock is held when no one is at work.
func TestNoCallsBreakTheLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var made []string
		r := newRig(t, func(cfg *world.Config) {
			cfg.Seed = rapid.Uint64().Draw(rt, "seed")
			second := func(least, most int) timing.Range {
				return timing.Range{Min: time.Duration(least) * time.Second, Max: time.Duration(most) * time.Second}
			}
			cfg.Times = timing.Machine{Clone: second(1, 20), Boot: second(1, 20), Delete: second(0, 4)}
			cfg.VMs[1].Guest = world.GuestDeaf
		})
		defer r.Close()
		broken := func() {
			for _, wrong := range r.wrongs() {
				if !r.leaks() {
					rt.Errorf("%s", wrong)
				}
			}
			if rt.Failed() {
				rt.Fatalf("after\n%s", strings.Join(made, "\n"))
			}
		}
		for range rapid.IntRange(1, 40).Draw(rt, "calls") {
			line := r.anyMove(rt)
			status, data, wrong := r.call(line)
			made = append(made, fmt.Sprintf("%s %s: %s %v %v", r.Now().Format(time.TimeOnly), line, status, data, wrong))
			if strings.HasPrefix(status, "501") {
				rt.Fatalf("%s: %s", line, status)
			}
			broken()
			r.Advance(time.Duration(rapid.IntRange(0, 8000).Draw(rt, "pause")) * time.Millisecond)
		}
		r.Advance(20 * time.Minute)
		for _, h := range r.Nodes {
			for _, task := range h.Tasks {
				if task.Running() {
					rt.Errorf("%s %s still runs: %q", task.Kind, task.ID, task.Log)
				}
				made = append(made, fmt.Sprintf("%s %s %s: %s", task.Start.Format(time.TimeOnly), task.Kind, task.ID, task.Exit))
			}
		}
		broken()
	})
}
