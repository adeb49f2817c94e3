package pvesim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// rig is a cluster on which virtual machines are tried out, in time that passes when it is told to.
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
func newRig(t testing.TB, change func(*Config)) *rig {
	c := newCluster(t, func(cfg *Config) {
		cfg.Times = timesOfRig
		cfg.Storages = []Storage{
			{Name: "shared", Type: "nfs", Shared: true, Total: 1 << 40}, {Name: "local", Type: "dir", Total: 1 << 38},
			{Name: "thin", Type: "lvmthin", Total: 1 << 38, Content: []string{"images"}},
		}
		cfg.VMs = []VM{
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
func (r *rig) start(line string) *task {
	r.Helper()
	upid, _ := r.must(line).(string)
	for _, h := range r.hosts {
		if t := h.task(upid); t != nil {
			return t
		}
	}
	r.Fatalf("%s: %q is no task", line, upid)
	return nil
}

// ends lets time pass until a task is over, and wants it to end so.
func (r *rig) ends(t *task, exit string) {
	r.Helper()
	for range 3600 {
		if !t.running() {
			break
		}
		r.Advance(time.Second)
	}
	if t.exit != exit {
		r.Errorf("%s of %s ended %q, want %q\n%s", t.kind, t.id, t.exit, exit, strings.Join(t.log, "\n"))
	}
}

// does starts a task and wants it to succeed.
func (r *rig) does(line string) *task {
	r.Helper()
	t := r.start(line)
	r.ends(t, "OK")
	return t
}

// conf is a machine's configuration as it is told.
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
	for _, h := range c.hosts {
		for _, t := range h.tasks {
			if t.running() {
				idle = false
				var id int
				_, _ = fmt.Sscan(t.id, &id)
				busy[id] = true
			}
		}
	}
	for _, id := range c.vmIDs(nil) {
		c.wrongsOf(c.vms[id], busy[id] || c.vms[id].Conf["lock"] != "", bad)
	}
	pooled := map[int]string{}
	for _, name := range sorted(c.access.Pools) {
		for id := range c.access.Pools[name].Vms {
			if pooled[id] != "" {
				bad("VM %d is in pools %s and %s", id, pooled[id], name)
			}
			if pooled[id] = name; c.vms[id] == nil {
				bad("pool %s has VM %d, which is not there", name, id)
			}
		}
	}
	if idle {
		c.wrongsAtRest(bad)
	}
	return all
}

func (c *Cluster) wrongsOf(m *vm, busy bool, bad func(string, ...any)) {
	for _, volid := range append(vmconf.VolumesOf(m.Conf), discsOf(m.Conf)...) {
		if _, v := c.volume(m.host, volid); v == nil && !busy && !vmconf.ParseDrive(volid).CloudInit() { // which is made anew
			bad("VM %d names volume %s, which is not there", m.id, volid)
		}
	}
	if m.running() != (m.pid != 0) {
		bad("VM %d is %s with process %d", m.id, m.state, m.pid)
	}
	if m.agent && !m.running() {
		bad("the agent of VM %d answers, and it does not run", m.id)
	}
	if m.Template() && m.running() {
		bad("template %d runs", m.id)
	}
	if !m.host.up && m.running() {
		bad("VM %d runs on %s, which is down", m.id, m.host.Name)
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
// that somebody holds.
func (c *Cluster) wrongsAtRest(bad func(string, ...any)) {
	for _, h := range c.hosts {
		for id, l := range h.files {
			if l.Held || l.Shared != 0 {
				bad("%s holds the lock of VM %d", h.Name, id)
			}
		}
	}
	for _, name := range sorted(c.storages) {
		s := c.storages[name]
		for place, l := range s.locks {
			if l.Held {
				bad("the lock of %s at %q is held", name, place)
			}
		}
		for place, all := range s.volumes {
			for _, v := range all {
				c.wrongsOfVolume(s, place, v, bad)
			}
		}
	}
	for _, id := range c.vmIDs(nil) {
		if lock := c.vms[id].Conf["lock"]; lock != "" && lock != "suspended" {
			bad("VM %d is locked (%s), and nobody is at work on it", id, lock)
		}
	}
}

func (c *Cluster) wrongsOfVolume(s *storage, place string, v *volume, bad func(string, ...any)) {
	if v.parent != "" && s.volumes[place][v.parent] == nil {
		bad("%s:%s is a clone of %s, which is not there", s.Name, v.name, v.parent)
	}
	if v.content != "images" {
		return
	}
	m := c.vms[v.vmid]
	if m == nil || place != "" && m.host.Name != place {
		bad("%s:%s at %q belongs to VM %d, which is not there", s.Name, v.name, place, v.vmid)
		return
	}
	named := vmconf.VolumesOf(m.Effective())
	named = append(named, vmconf.VolumesOf(m.Conf)...)
	for _, snap := range m.Snaps {
		named = append(named, vmconf.VolumesOf(snap.Conf)...)
	}
	if !slices.Contains(named, s.volid(v)) {
		bad("%s:%s belongs to VM %d, which does not name it", s.Name, v.name, v.vmid)
	}
}

// lawful wants the cluster to break no law.
func (r *rig) lawful() {
	r.Helper()
	for _, wrong := range r.wrongs() {
		r.Error(wrong)
	}
}
