package world

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"
)

// Inject puts a fault into the cluster.
func (c *World) Inject(f faults.Fault) error {
	var err error
	c.With(func() {
		if err = errors.Join(c.Knows(f), c.knowsMachine(f)); err == nil {
			c.Enliven(&Fault{Injected: c.Faults.Add(f, c.Clock)})
		}
	})
	return err
}

// Heal ends all faults: locks are released, links are fixed, and hosts that were down start. What
// they have spoiled stays spoiled.
func (c *World) Heal() {
	c.With(func() {
		all := c.Afoot
		c.Afoot, c.Faults.All = nil, nil
		for _, f := range all {
			f.p.Kill()
			f.end()
		}
	})
}

// Knows wants the hosts and storages that a fault names to be there.
func (c *World) Knows(f faults.Fault) error {
	if f.Name() == "" {
		return errors.New("fault: must be read by ParseFaults")
	}
	var hosts []string
	for _, h := range c.Nodes {
		hosts = append(hosts, h.Name)
	}
	var all []error
	among := func(name, list string, known []string) {
		for word := range strings.SplitSeq(list, ",") {
			if word != "" && !slices.Contains(known, word) {
				all = append(all, faults.WrongValue(name, "one of "+strings.Join(known, ", "), word))
			}
		}
	}
	among("host", f.Arg("HOST"), hosts)
	among("hosts", f.Arg("HOSTS"), hosts)
	among("from", f.Arg("FROM"), hosts)
	among("on", f.Opt("on"), hosts)
	among("to", f.Opt("to"), hosts)
	among("storage", f.Arg("STORAGE"), Sorted(c.Storages))
	return errors.Join(all...)
}

// knowsMachine wants the machine that is locked or dies at once to be there. One that strikes later
// may be made until then, and one whose fault was saved may be gone since.
func (c *World) knowsMachine(f faults.Fault) error {
	vm := f.Opt("vm")
	if f.Name() == "" || f.Of() != faults.OfState || vm == "" || f.Opt("at") != "" || f.Opt("after") != "" || f.Opt("every") != "" {
		return nil
	}
	if id, _ := strconv.Atoi(vm); c.VMs[id] != nil {
		return nil
	}
	return faults.WrongValue("vm", "a virtual machine of the cluster, or at= or after= must say when there is one", vm)
}

// Enliven lets a fault come when its time has come.
func (c *World) Enliven(f *Fault) {
	c.Afoot = append(c.Afoot, f)
	f.p = c.Start(func(p *engine.Process) { f.live(c, p) })
}

// live turns a fault on and off as it says.
func (f *Fault) live(c *World, p *engine.Process) {
	begin := f.Since.Add(f.Duration("after"))
	if at := c.Began.Add(f.Duration("at")); at.After(begin) {
		begin = at
	}
	lasts, resumed := f.Duration("for"), !f.Loaded.IsZero()
	for n := 1; ; n++ {
		end := begin.Add(lasts)
		p.Sleep(begin.Sub(c.Clock))
		past := resumed && (f.On || begin.Before(f.Loaded)) // what it does has been done
		resumed = resumed && begin.Before(f.Loaded)
		if (lasts == 0 || c.Clock.Before(end)) && (f.Of() != faults.OfState || f.Lucky(n)) {
			f.On = true
			if !past || f.Acts {
				f.begin(c, p)
			}
			f.Acts = f.undo != nil
		}
		if lasts > 0 {
			p.Sleep(end.Sub(c.Clock))
			f.end()
		}
		if f.Of() != faults.OfState || f.Opt("every") == "" || n == f.Count("times") {
			return
		}
		begin = begin.Add(f.Duration("every"))
	}
}

func (f *Fault) end() {
	f.On, f.Acts = false, false
	if f.undo != nil {
		undo := f.undo
		f.undo = nil
		undo()
	}
}

// begin does what a state needs besides being on, and leaves how to undo it.
func (f *Fault) begin(c *World, p *engine.Process) {
	switch f.Name() {
	case "lock":
		f.lockVM(c, p)
	case "storage-lock":
		f.lockStorage(c, p)
	case "crash":
		if m := c.VMs[f.Count("vm")]; m != nil && m.Running() {
			c.SwitchOff(m)
		}
	case "full storage":
		f.fill(c)
	case "host down":
		h := c.Node(f.Arg("HOST"))
		c.Rewire(func() { c.PowerOff(h) })
		f.undo = func() {
			if c.Faults.Active("host down", "HOST", h.Name) == nil {
				c.Rewire(func() { c.PowerOn(h) })
			}
		}
	case "cut", "cut from":
		c.Rewire(c.Cut)
		f.undo = func() { c.Rewire(c.Cut) }
	}
}

// hold keeps a lock that is free by then.
func (f *Fault) hold(p *engine.Process, l *engine.Flock) {
	if p.Lock(l, cmp.Or(f.Duration("for"), time.Hour)) {
		before := f.undo
		f.undo = func() {
			l.Unlock()
			if before != nil {
				before()
			}
		}
	}
}

func (f *Fault) lockVM(c *World, p *engine.Process) {
	m, as := c.VMs[f.Count("vm")], f.Opt("as")
	switch {
	case m == nil:
	case as == "":
		f.hold(p, m.Host.File(m.ID))
	case m.Conf["lock"] == "" || m.Conf["lock"] == as:
		m.Conf["lock"] = as
		f.undo = func() {
			if m.Conf["lock"] == as && c.Faults.Active("lock", "vm", f.Opt("vm"), "as", as) == nil {
				delete(m.Conf, "lock")
			}
		}
	}
}

// places are a storage's names for where it lies, as far as a fault is about them.
func (f *Fault) places(c *World, s *Store) []*Node {
	var all []*Node
	for _, h := range c.Nodes {
		if f.Fits("on", h.Name) && s.On(h) && (!s.Shared || len(all) == 0) {
			all = append(all, h)
		}
	}
	return all
}

func (f *Fault) lockStorage(c *World, p *engine.Process) {
	if s := c.Storages[f.Arg("STORAGE")]; s != nil {
		for _, h := range f.places(c, s) {
			f.hold(p, s.LockOf(h))
		}
	}
}

func (f *Fault) fill(c *World) {
	s := c.Storages[f.Arg("STORAGE")]
	if s == nil {
		return
	}
	for _, h := range f.places(c, s) {
		s.Filled[s.Place(h)]++
	}
	f.undo = func() {
		for _, h := range f.places(c, s) {
			s.Filled[s.Place(h)]--
		}
	}
}

// Cut sets what reaches what by the cuts that are on.
func (w *Wiring) Cut() {
	clear(w.parted)
	for _, h := range w.c.Nodes {
		h.Island = 0
	}
	side := 1
	for _, f := range w.c.Faults.All {
		if !f.On || f.Name() != "cut" && f.Name() != "cut from" {
			continue
		}
		these, those := strings.Split(f.Arg("HOSTS"), ","), strings.Split(f.Arg("FROM"), ",")
		for _, h := range w.c.Nodes {
			switch {
			case !slices.Contains(these, h.Name):
			case f.Name() == "cut":
				h.Island |= side // hosts that all cuts leave on one side have the same number
			default:
				w.part(h, those)
			}
		}
		side <<= 1
	}
}

func (w *Wiring) part(h *Node, others []string) {
	for _, name := range others {
		if other := w.c.Node(name); other != h {
			w.parted[[2]int{h.ID, other.ID}] = true
			w.parted[[2]int{other.ID, h.ID}] = true
		}
	}
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
func (c *World) taskFault(t *Task, stage string) error {
	if stage == "begin" {
		t.faults = c.Faults.Strike(faults.Event{Of: faults.OfTask, Host: t.Host.Name, VM: t.ID, Who: t.By(), Fits: func(f *faults.Injected) bool {
			return f.FitsTask(t.Kind)
		}})
	}
	if stage != cmp.Or(midway[t.Kind], "begin") {
		return nil
	}
	for _, f := range t.faults {
		switch f.Name() {
		case "slow":
			t.p.Wait(f.Delay(), func() bool { return t.interrupted })
			if t.interrupted {
				return ErrInterrupted
			}
		case "kill task":
			panic(engine.Killed{})
		case "fail":
			if log := f.Opt("log"); log != "" {
				t.print("%s", log)
			}
			text := cmp.Or(f.Opt("text"), failures[t.Kind], "command failed: exit code 1")
			return failure.New("%s", strings.ReplaceAll(text, "%s", t.ID))
		}
	}
	return nil
}

// midway is the stage at which tasks of a kind fail, are killed or take longer; without one, it is
// before they have done anything.
var midway = map[string]string{
	"qmclone": "clone", "qmcreate": "create", "qmconfig": "update", "qmstart": "start", "qmstop": "stop", "qmshutdown": "stop",
	"qmreboot": "stop", "qmdestroy": "destroy", "qmtemplate": "template", "qmsnapshot": "snapshot", "qmdelsnapshot": "delsnapshot",
	"qmrollback": "rollback", "qmigrate": "migrate", "resize": "resize",
}

// warned turns a task's success into one with warnings, if it is to have them.
func (t *Task) warned(err error) error {
	for _, f := range t.faults {
		if err == nil && f.Name() == "warn" {
			t.print("WARN: there is something to see to")
			return errors.New("WARNINGS: 1")
		}
	}
	return err
}

// guestFault is how long a guest really takes to boot, and whether it ever does.
func (g *Machines) guestFault(m *Guest, takes time.Duration) (time.Duration, bool) {
	for _, f := range g.c.Faults.Strike(faults.Event{Of: faults.OfBoot, Host: m.Host.Name, VM: strconv.Itoa(m.ID), Fits: func(*faults.Injected) bool { return true }}) {
		if f.Name() == "fail boot" {
			return takes, false
		}
		takes += f.Delay()
	}
	return takes, true
}

// AgentFault is how much longer a guest agent takes to answer.
func (g *Machines) AgentFault(m *Guest) time.Duration {
	if f := g.c.Faults.Active("agent slow", "vm", strconv.Itoa(m.ID)); f != nil {
		return f.Duration("by")
	}
	return 0
}
