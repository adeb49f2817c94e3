package pvesim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// fault is something that goes wrong, and how far it has come.
type fault struct {
	Fault
	number int // of all that were put in
	put    time.Time
	on     bool      // its time has come
	seen   int       // events of its kind
	struck int       // of these, those that it spoiled
	acts   bool      // on something that is to be left alone again
	loaded time.Time // with its cluster
	undo   func()
	path   *regexp.Regexp // that calls must match
	p      *process
}

// Inject puts a fault into the cluster.
func (c *Cluster) Inject(f Fault) error {
	var err error
	c.with(func() {
		if err = errors.Join(c.knows(f), c.knowsMachine(f)); err == nil {
			c.injected++
			c.inject(&fault{Fault: f, number: c.injected, put: c.now})
		}
	})
	return err
}

// Heal ends all faults: locks are released, links are mended, and hosts that were down start. What they
// have spoiled stays spoiled.
func (c *Cluster) Heal() {
	c.with(func() {
		all := c.faults
		c.faults = nil
		for _, f := range all {
			f.p.kill()
			f.end()
		}
	})
}

// knows wants the hosts and storages that a fault names to be there.
func (c *Cluster) knows(f Fault) error {
	if f.form == nil {
		return errors.New("fault: must be read by ParseFaults")
	}
	var hosts []string
	for _, h := range c.hosts {
		hosts = append(hosts, h.Name)
	}
	var all []error
	among := func(name, list string, known []string) {
		for word := range strings.SplitSeq(list, ",") {
			if word != "" && !slices.Contains(known, word) {
				all = append(all, wrongValue(name, "one of "+strings.Join(known, ", "), word))
			}
		}
	}
	among("host", f.arg["HOST"], hosts)
	among("hosts", f.arg["HOSTS"], hosts)
	among("from", f.arg["FROM"], hosts)
	among("on", f.opt["on"], hosts)
	among("to", f.opt["to"], hosts)
	among("storage", f.arg["STORAGE"], sorted(c.storages))
	return errors.Join(all...)
}

// knowsMachine wants the machine that is locked or dies at once to be there. One that strikes later may be made
// until then, and one whose fault was saved may be gone since.
func (c *Cluster) knowsMachine(f Fault) error {
	vm := f.opt["vm"]
	if f.form == nil || f.form.of != ofState || vm == "" || f.opt["at"] != "" || f.opt["after"] != "" || f.opt["every"] != "" {
		return nil
	}
	if id, _ := strconv.Atoi(vm); c.vms[id] != nil {
		return nil
	}
	return wrongValue("vm", "a virtual machine of the cluster, or at= or after= must say when there is one", vm)
}

func (c *Cluster) inject(f *fault) {
	c.faults = append(c.faults, f)
	c.enliven(f)
}

// enliven lets a fault come when its time has come.
func (c *Cluster) enliven(f *fault) {
	f.path = pathPattern(f.arg["PATH"])
	f.p = c.start(func(p *process) { f.live(c, p) })
}

// live turns a fault on and off as it says.
func (f *fault) live(c *Cluster, p *process) {
	begin := f.put.Add(f.duration("after"))
	if at := c.began.Add(f.duration("at")); at.After(begin) {
		begin = at
	}
	lasts, resumed := f.duration("for"), !f.loaded.IsZero()
	for n := 1; ; n++ {
		end := begin.Add(lasts)
		p.sleep(begin.Sub(c.now))
		past := resumed && (f.on || begin.Before(f.loaded)) // what it does has been done
		resumed = resumed && begin.Before(f.loaded)
		if (lasts == 0 || c.now.Before(end)) && (f.form.of != ofState || f.lucky(c, n)) {
			f.on = true
			if !past || f.acts {
				f.begin(c, p)
			}
			f.acts = f.undo != nil
		}
		if lasts > 0 {
			p.sleep(end.Sub(c.now))
			f.end()
		}
		if f.form.of != ofState || f.opt["every"] == "" || n == f.count("times") {
			return
		}
		begin = begin.Add(f.duration("every"))
	}
}

func (f *fault) end() {
	f.on, f.acts = false, false
	if f.undo != nil {
		undo := f.undo
		f.undo = nil
		undo()
	}
}

// begin does what a state needs besides being on, and leaves how to undo it.
func (f *fault) begin(c *Cluster, p *process) {
	switch f.form.name {
	case "lock":
		f.lockVM(c, p)
	case "storage-lock":
		f.lockStorage(c, p)
	case "crash":
		if m := c.vms[f.count("vm")]; m != nil && m.running() {
			c.switchOff(m)
		}
	case "full storage":
		f.fill(c)
	case "host down":
		h := c.host(f.arg["HOST"])
		c.rewire(func() { c.powerOff(h) })
		f.undo = func() {
			if c.active("host down", "HOST", h.Name) == nil {
				c.rewire(func() { c.powerOn(h) })
			}
		}
	case "cut", "cut from":
		c.rewire(c.cut)
		f.undo = func() { c.rewire(c.cut) }
	}
}

// hold keeps a lock that is free by then.
func (f *fault) hold(p *process, l *flock) {
	if p.lock(l, cmp.Or(f.duration("for"), time.Hour)) {
		before := f.undo
		f.undo = func() {
			l.unlock()
			if before != nil {
				before()
			}
		}
	}
}

func (f *fault) lockVM(c *Cluster, p *process) {
	m, as := c.vms[f.count("vm")], f.opt["as"]
	switch {
	case m == nil:
	case as == "":
		f.hold(p, m.host.file(m.id))
	case m.conf["lock"] == "" || m.conf["lock"] == as:
		m.conf["lock"] = as
		f.undo = func() {
			if m.conf["lock"] == as && c.active("lock", "vm", f.opt["vm"], "as", as) == nil {
				delete(m.conf, "lock")
			}
		}
	}
}

// places are a storage's names for where it lies, as far as a fault is about them.
func (f *fault) places(c *Cluster, s *storage) []*host {
	var all []*host
	for _, h := range c.hosts {
		if f.fits("on", h.Name) && s.on(h) && (!s.Shared || len(all) == 0) {
			all = append(all, h)
		}
	}
	return all
}

func (f *fault) lockStorage(c *Cluster, p *process) {
	if s := c.storages[f.arg["STORAGE"]]; s != nil {
		for _, h := range f.places(c, s) {
			f.hold(p, s.lockOf(h))
		}
	}
}

func (f *fault) fill(c *Cluster) {
	s := c.storages[f.arg["STORAGE"]]
	if s == nil {
		return
	}
	for _, h := range f.places(c, s) {
		s.filled[s.place(h)]++
	}
	f.undo = func() {
		for _, h := range f.places(c, s) {
			s.filled[s.place(h)]--
		}
	}
}

// cut sets what reaches what by the cuts that are on.
func (c *Cluster) cut() {
	clear(c.parted)
	for _, h := range c.hosts {
		h.island = 0
	}
	side := 1
	for _, f := range c.faults {
		if !f.on || f.form.name != "cut" && f.form.name != "cut from" {
			continue
		}
		these, those := strings.Split(f.arg["HOSTS"], ","), strings.Split(f.arg["FROM"], ",")
		for _, h := range c.hosts {
			switch {
			case !slices.Contains(these, h.Name):
			case f.form.name == "cut":
				h.island |= side // hosts that all cuts leave on one side have the same number
			default:
				c.part(h, those)
			}
		}
		side <<= 1
	}
}

func (c *Cluster) part(h *host, others []string) {
	for _, name := range others {
		if other := c.host(name); other != h {
			c.parted[[2]int{h.id, other.id}] = true
			c.parted[[2]int{other.id, h.id}] = true
		}
	}
}

// fits reports whether a fault is about a value, or does not care.
func (f *fault) fits(key, value string) bool {
	have := cmp.Or(f.arg[key], f.opt[key])
	return have == "" || have == value
}

// active is the first fault of a name that is on and about these values; nil if there is none.
func (c *Cluster) active(name string, about ...string) *fault {
	for _, f := range c.faults {
		if !f.on || f.form.name != name {
			continue
		}
		fits := true
		for i := 0; i+1 < len(about); i += 2 {
			fits = fits && f.fits(about[i], about[i+1])
		}
		if fits {
			return f
		}
	}
	return nil
}

// draw is the stream of chance for a fault's nth event. It does not depend on what else is drawn.
func (f *fault) draw(c *Cluster, n int) *rand.Rand {
	return timing.Stream(c.cfg.Seed, fmt.Sprintf("fault %d, event %d", f.number, n))
}

func (f *fault) lucky(c *Cluster, n int) bool {
	p, err := strconv.ParseFloat(f.opt["p"], 64)
	return err != nil || f.draw(c, n).Float64() < p
}

// delay is how long a fault that makes things slow takes at its last event.
func (f *fault) delay(c *Cluster) time.Duration {
	if by := f.duration("by"); by > 0 {
		return by
	}
	p50, p99 := f.duration("p50"), f.duration("p99")
	if p99 == 0 {
		return p50
	}
	const atP99 = 2.3263 // standard deviations above the middle
	rng := f.draw(c, f.seen)
	rng.Float64() // which was for p
	sigma := math.Log(float64(p99)/float64(p50)) / atP99
	return time.Duration(float64(p50) * math.Exp(sigma*rng.NormFloat64()))
}

// event is something that faults may spoil.
type event struct {
	of   string
	host *host
	vm   string
	who  string // user, or user!token
	fits func(f *fault) bool
}

// strike counts an event, and returns the faults that spoil it.
func (c *Cluster) strike(e event) []*fault {
	var all []*fault
	for _, f := range c.faults {
		if !f.on || f.form.of != e.of || !f.fits("on", e.host.Name) || !f.fits("vm", e.vm) || !isWho(f.opt["user"], e.who) || !e.fits(f) {
			continue
		}
		f.seen++
		nth, every, times := f.count("nth"), f.count("every"), f.count("times")
		if nth > 0 && f.seen != nth || every > 0 && f.seen%every != 0 || times > 0 && f.struck >= times || !f.lucky(c, f.seen) {
			continue
		}
		f.struck++
		all = append(all, f)
	}
	return all
}

// isWho reports whether somebody is meant: a user means all of their tokens.
func isWho(meant, who string) bool {
	user, _, _ := strings.Cut(who, "!")
	return meant == "" || meant == who || meant == user
}

// failures are what tasks that fail usually say; %s is the virtual machine.
var failures = map[string]string{
	"qmclone":    "clone failed: unable to create image: qemu-img: exit code 1",
	"qmstart":    "start failed: QEMU exited with code 1",
	"qmstop":     "can't lock file '/var/lock/qemu-server/lock-%s.conf' - got timeout",
	"qmdestroy":  "can't lock file '/var/lock/qemu-server/lock-%s.conf' - got timeout",
	"qmconfig":   "can't lock file '/var/lock/qemu-server/lock-%s.conf' - got timeout",
	"qmshutdown": "VM quit/powerdown failed - got timeout",
	"qmigrate":   "migration aborted",
	"imgcopy":    "import failed: exit code 1",
	"download":   "download failed: exit code 4",
}

// taskFault lets a task meet what is to go wrong at one of its stages: "begin" before it has done
// anything, then those that its kind names. It may wait, and returns what the task ends with.
func (c *Cluster) taskFault(t *task, stage string) error {
	if stage == "begin" {
		t.faults = c.strike(event{of: ofTask, host: t.host, vm: t.id, who: t.by(), fits: func(f *fault) bool {
			kind, isTask := faultTasks[f.arg["TASK"]]
			return isTask && (kind == "" || kind == t.kind)
		}})
	}
	if stage != cmp.Or(midway[t.kind], "begin") {
		return nil
	}
	for _, f := range t.faults {
		switch f.form.name {
		case "slow":
			t.p.wait(f.delay(c), func() bool { return t.interrupted })
			if t.interrupted {
				return errInterrupted
			}
		case "kill task":
			panic(killed{})
		case "fail":
			text := cmp.Or(f.opt["text"], failures[t.kind], "command failed: exit code 1")
			return failure.New("%s", strings.ReplaceAll(text, "%s", t.id))
		}
	}
	return nil
}

// midway is the stage at which tasks of a kind fail, are killed or take longer; without one, it is before
// they have done anything.
var midway = map[string]string{
	"qmclone": "clone", "qmcreate": "create", "qmconfig": "update", "qmstart": "start", "qmstop": "stop", "qmshutdown": "stop",
	"qmreboot": "stop", "qmdestroy": "destroy", "qmtemplate": "template", "qmsnapshot": "snapshot", "qmdelsnapshot": "delsnapshot",
	"qmrollback": "rollback", "qmigrate": "migrate", "resize": "resize",
}

// warned turns a task's success into one with warnings, if it is to have them.
func (t *task) warned(err error) error {
	for _, f := range t.faults {
		if err == nil && f.form.name == "warn" {
			t.print("WARN: there is something to see to")
			return errors.New("WARNINGS: 1")
		}
	}
	return err
}

// by is who asked for a task.
func (t *task) by() string {
	if t.token == "" {
		return t.user
	}
	return t.user + "!" + t.token
}

// beforeAnswering may answer a request instead of everything else, before anything is checked.
func (k *call) beforeAnswering(r *request, path string) *response {
	k.asked = k.c.now
	k.faults = k.c.strike(event{of: ofCall, host: k.entry, who: claimed(r), fits: func(f *fault) bool {
		method := f.arg["METHOD"]
		return f.form.name == "unauthorized" || (method == "ANY" || method == r.method) && f.path.MatchString(path)
	}})
	for _, f := range k.faults {
		switch f.form.name {
		case "drop":
			return &response{lost: &net.OpError{Op: "write", Net: "tcp", Addr: k.entry.addr(), Err: syscall.ECONNRESET}}
		case "unauthorized":
			return k.instead(401, "Authentication failed!")
		case "answer":
			if code := f.arg["CODE"]; code != "596" {
				status, _ := strconv.Atoi(code)
				return k.instead(status, cmp.Or(f.opt["text"], usualReason(status)))
			}
		}
	}
	return nil
}

// instead is an answer that comes when the server would give it, and looks like its own.
func (k *call) instead(status int, reason string) *response {
	switch status {
	case 401:
		k.p.sleep(waitUnauthorized)
	case 595, 596:
		k.p.sleep(waitProxy)
	}
	return k.format("json", nil, &failure.Error{Status: status, Reason: reason, Bare: status == 401 || status >= 590})
}

// usualReason is what usually stands beside a status.
func usualReason(status int) string {
	switch status {
	case 400:
		return "Parameter verification failed."
	case 401:
		return "Authentication failed!"
	case 403:
		return "Permission check failed"
	case 595, 596:
		return "Connection timed out"
	}
	return cmp.Or(http.StatusText(status), "got timeout")
}

// afterCode may lose the answer of a call that has been made, or change it.
func (k *call) afterCode(answer *response) {
	for _, f := range k.faults {
		switch f.form.name {
		case "slow":
			k.p.sleep(f.delay(k.c))
		case "lose answer":
			answer.lost = &net.OpError{Op: "read", Net: "tcp", Addr: k.entry.addr(), Err: syscall.ECONNRESET}
		case "answer":
			k.p.sleep(k.asked.Add(waitProxy).Sub(k.c.now))
			*answer = *bare(&failure.Error{Status: 596, Reason: cmp.Or(f.opt["text"], "Connection timed out")})
		}
	}
}

// pathPattern matches paths in which a star stands for one part, and three dots for anything.
func pathPattern(path string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(strings.ReplaceAll(path, "...", "…"))
	return regexp.MustCompile("^" + strings.NewReplacer("…", ".*", `\*`, "[^/]*").Replace(pattern) + "$")
}

// claimed is who a request says it is from.
func claimed(r *request) string {
	if value, given := credential(r.header.Get("Authorization"), "PVEAPIToken"); given {
		who, _, _ := strings.Cut(value, "=")
		return who
	}
	if _, ticket, given := strings.Cut(r.header.Get("Cookie"), "PVEAuthCookie=PVE:"); given {
		who, _, _ := strings.Cut(ticket, ":")
		return who
	}
	return ""
}

// beforeCode lets somebody else be quicker than a clone.
func (k *call) beforeCode(e *endpoint) {
	if !strings.HasSuffix(e.path, "/qemu/{vmid}/clone") {
		return
	}
	struck := k.c.strike(event{of: ofTask, host: k.node, vm: k.in["vmid"], who: k.who.String(), fits: func(f *fault) bool { return f.form.name == "steal id" }})
	id, _ := strconv.Atoi(k.in["newid"])
	if len(struck) == 0 || k.c.vms[id] != nil {
		return
	}
	h := k.c.host(cmp.Or(struck[0].opt["to"], k.node.Name))
	k.c.vms[id] = &vm{
		id: id, host: h, state: "stopped", since: k.c.now, pending: map[string]*string{},
		conf: map[string]string{"name": fmt.Sprintf("foreign-%d", id), "memory": "1024", "smbios1": "uuid=" + k.c.access.Uuid(fmt.Sprintf("foreign %d", id))},
	}
}

// guestFault is how long a guest really takes to boot, and whether it ever does.
func (c *Cluster) guestFault(m *vm, takes time.Duration) (time.Duration, bool) {
	for _, f := range c.strike(event{of: ofBoot, host: m.host, vm: strconv.Itoa(m.id), fits: func(*fault) bool { return true }}) {
		if f.form.name == "fail boot" {
			return takes, false
		}
		takes += f.delay(c)
	}
	return takes, true
}

// agentFault is how much longer a guest agent takes to answer.
func (c *Cluster) agentFault(m *vm) time.Duration {
	if f := c.active("agent slow", "vm", strconv.Itoa(m.id)); f != nil {
		return f.duration("by")
	}
	return 0
}

// expired reports whether a token has expired before its time.
func (c *Cluster) expired(who *access.Identity) bool {
	return c.active("expire token", "WHO", who.String()) != nil
}

// revoked are the privileges that have been taken from somebody. The administrator loses one only by
// name.
func (c *Cluster) revoked(who *access.Identity, path string) access.Privileges {
	var all access.Privileges
	for _, f := range c.faults {
		from, below := f.opt["from"], f.opt["path"]
		if f.on && f.form.name == "revoke" && isWho(from, who.String()) && (from != "" || who.User != access.RootUser) &&
			(below == "" || path == below || strings.HasPrefix(path, strings.TrimSuffix(below, "/")+"/")) {
			all |= access.PrivilegeBits[f.arg["PRIVILEGE"]]
		}
	}
	return all
}
