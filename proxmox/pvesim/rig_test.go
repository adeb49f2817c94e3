package pvesim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// rig is a cluster on which virtual machines are tried out, in time that passes only by calls.
type rig struct {
	testing.TB
	*Cluster
	token  string
	grants int // of as
}

// timesOfRig are even, so that tests can say when things happen.
var timesOfRig = timing.Machine{
	Clone: timing.Range{Min: 8 * time.Second, Max: 8 * time.Second}, Boot: timing.Range{Min: 20 * time.Second, Max: 20 * time.Second},
	Delete: timing.Range{Min: 4 * time.Second, Max: 4 * time.Second},
}

// newRig is a cluster of three hosts with a template on shared storage and one on each host's own.
func newRig(t testing.TB, change func(*world.Config)) *rig {
	c := newCluster(t, func(cfg *world.Config) {
		cfg.Times = timesOfRig
		cfg.Storages = []world.Storage{
			{Name: "shared", Type: "nfs", Shared: true, Total: 1 << 40}, {Name: "local", Type: "dir", Total: 1 << 38},
			{Name: "thin", Type: "lvmthin", Total: 1 << 38, Content: []string{"images"}},
		}
		cfg.VMs = []world.VM{
			{ID: 9000, Host: "pve1", Template: true, Storage: "local", Disk: 8 << 30, Config: map[string]string{
				"name": "tmpl", "agent": "1", "ide2": "local:cloudinit", "tags": "base", "onboot": "1",
			}},
			{ID: 9001, Host: "pve1", Template: true, Storage: "shared", Disk: 8 << 30, Config: map[string]string{"name": "stmpl", "agent": "1"}},
			{ID: 9002, Host: "pve2", Template: true, Storage: "thin", Disk: 8 << 30, Config: map[string]string{"name": "ttmpl"}},
		}
		if change != nil {
			change(cfg)
		}
	})
	return &rig{TB: t, Cluster: c, token: c.Token("root@pam", "t1", false)}
}

// call makes a call, such as "POST /nodes/pve1/qemu/9000/clone newid=100", and returns the status
// line, the data and the errors.
func (r *rig) call(line string) (status string, data any, wrong map[string]string) {
	r.Helper()
	method, rest, _ := strings.Cut(line, " ")
	path, form, _ := strings.Cut(rest, " ")
	if (method == "GET" || method == "DELETE") && form != "" {
		path, form = path+"?"+form, ""
	}
	status, body := ask(r, r.Cluster, r.token, method, path, strings.ReplaceAll(form, " ", "&"))
	var answer struct {
		Data   any
		Errors map[string]string
	}
	if body != "" {
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			r.Fatalf("%s: %v in %s", line, err, body)
		}
	}
	return status, answer.Data, answer.Errors
}

// must is a call that succeeds.
func (r *rig) must(line string) any {
	r.Helper()
	status, data, wrong := r.call(line)
	if status != "200 OK" {
		r.Fatalf("%s: %s %v", line, status, wrong)
	}
	return data
}

// refused is a call that is refused with that status line.
func (r *rig) refused(line, status string) {
	r.Helper()
	if got, _, wrong := r.call(line); got != status {
		r.Errorf("%s: got %q %v, want %q", line, got, wrong, status)
	}
}

// start is a call that starts a task.
func (r *rig) start(line string) *world.Task {
	r.Helper()
	upid, _ := r.must(line).(string)
	for _, h := range r.Nodes {
		if t := h.Task(upid); t != nil {
			return t
		}
	}
	r.Fatalf("%s: %q is no task", line, upid)
	return nil
}

// ends lets time pass until a task is over, and wants it to end so.
func (r *rig) ends(t *world.Task, exit string) {
	r.Helper()
	for range 3600 {
		if !t.Running() {
			break
		}
		r.Advance(time.Second)
	}
	if t.Exit != exit {
		r.Errorf("%s of %s ended %q, want %q\n%s", t.Kind, t.ID, t.Exit, exit, strings.Join(t.Log, "\n"))
	}
}

// does starts a task and wants it to succeed.
func (r *rig) does(line string) *world.Task {
	r.Helper()
	t := r.start(line)
	r.ends(t, "OK")
	return t
}

// conf is a machine's configuration as the API shows it.
func (r *rig) conf(host string, id int) map[string]any {
	r.Helper()
	conf, _ := r.must(fmt.Sprintf("GET /nodes/%s/qemu/%d/config", host, id)).(map[string]any)
	return conf
}

// wrongs are what is wrong with the cluster: the laws that it breaks. Those in which a task that is
// at work may leave a machine are only asked when none is.
func (c *Cluster) wrongs() []string {
	var all []string
	bad := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	busy := map[int]bool{}
	idle := true
	for _, h := range c.Nodes {
		for _, t := range h.Tasks {
			if t.Running() {
				idle = false
				var id int
				_, _ = fmt.Sscan(t.ID, &id)
				busy[id] = true
			}
		}
	}
	for _, id := range c.VMIDs(nil) {
		c.wrongsOf(c.VMs[id], busy[id] || c.VMs[id].Conf["lock"] != "", bad)
	}
	pooled := map[int]string{}
	for _, name := range world.Sorted(c.Access.Pools) {
		for id := range c.Access.Pools[name].Vms {
			if pooled[id] != "" {
				bad("VM %d is in pools %s and %s", id, pooled[id], name)
			}
			if pooled[id] = name; c.VMs[id] == nil {
				bad("pool %s has VM %d, which is not there", name, id)
			}
		}
	}
	if idle {
		c.wrongsAtRest(bad)
	}
	return all
}

func (c *Cluster) wrongsOf(m *world.Guest, busy bool, bad func(string, ...any)) {
	for _, volid := range append(vmconf.VolumesOf(m.Conf), discsOf(m.Conf)...) {
		// Which is made anew.
		if _, v := c.Volume(m.Host, volid); v == nil && !busy && !vmconf.ParseDrive(volid).CloudInit() {
			bad("VM %d names volume %s, which is not there", m.ID, volid)
		}
	}
	if m.Running() != (m.PID != 0) {
		bad("VM %d is %s with process %d", m.ID, m.State, m.PID)
	}
	if m.Agent && !m.Running() {
		bad("the agent of VM %d answers, and it does not run", m.ID)
	}
	if m.Template() && m.Running() {
		bad("template %d runs", m.ID)
	}
	if !m.Host.Up && m.Running() {
		bad("VM %d runs on %s, which is down", m.ID, m.Host.Name)
	}
}

func discsOf(conf map[string]string) []string {
	var all []string
	for _, key := range vmconf.DrivesOf(conf) {
		if d := vmconf.ParseDrive(conf[key]); d.Disc() && strings.Contains(d.File, ":") {
			all = append(all, d.File)
		}
	}
	return all
}

// wrongsAtRest are what must not be when no task is at work: volumes that no one owns, and locks
// that a task or call holds.
func (c *Cluster) wrongsAtRest(bad func(string, ...any)) {
	for _, h := range c.Nodes {
		for id, l := range h.Files {
			if l.Held || l.Shared != 0 {
				bad("%s holds the lock of VM %d", h.Name, id)
			}
		}
	}
	for _, name := range world.Sorted(c.Storages) {
		s := c.Storages[name]
		for place, l := range s.Locks {
			if l.Held {
				bad("the lock of %s at %q is held", name, place)
			}
		}
		for place, all := range s.Volumes {
			for _, v := range all {
				c.wrongsOfVolume(s, place, v, bad)
			}
		}
	}
	for _, id := range c.VMIDs(nil) {
		if lock := c.VMs[id].Conf["lock"]; lock != "" && lock != "suspended" {
			bad("VM %d is locked (%s), and nobody is at work on it", id, lock)
		}
	}
}

func (c *Cluster) wrongsOfVolume(s *world.Store, place string, v *world.Volume, bad func(string, ...any)) {
	if v.Parent != "" && s.Volumes[place][v.Parent] == nil {
		bad("%s:%s is a clone of %s, which is not there", s.Name, v.Name, v.Parent)
	}
	if v.Content != "images" {
		return
	}
	m := c.VMs[v.VMID]
	if m == nil || place != "" && m.Host.Name != place {
		bad("%s:%s at %q belongs to VM %d, which is not there", s.Name, v.Name, place, v.VMID)
		return
	}
	named := vmconf.VolumesOf(m.Effective())
	named = append(named, vmconf.VolumesOf(m.Conf)...)
	for _, snap := range m.Snaps {
		named = append(named, vmconf.VolumesOf(snap.Conf)...)
	}
	if !slices.Contains(named, s.VolID(v)) {
		bad("%s:%s belongs to VM %d, which does not name it", s.Name, v.Name, v.VMID)
	}
}

// lawful wants the cluster to break no law.
func (r *rig) lawful() {
	r.Helper()
	for _, wrong := range r.wrongs() {
		r.Error(wrong)
	}
}
