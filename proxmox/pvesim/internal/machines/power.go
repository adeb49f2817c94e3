package machines

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// How long power takes, apart from what guests do.
const (
	startTakes = time.Second
	stopTakes  = time.Second
	haTakes    = time.Second // to ask high availability for something
	signalTook = time.Second // for QEMU to end after a signal
)

// ofHA hands a wish over to high availability, if that manages the machine.
func (k *call) ofHA(kind, what string, w world.Wish) (string, bool) {
	id := k.id()
	if !k.World.HA.Manages(id) {
		return "", false
	}
	return k.Task(kind, k.In["vmid"], func(j *world.Errand) error {
		j.Print("Requesting HA %s for VM %d", what, id)
		if err := j.Quorate(); err != nil {
			return err
		}
		j.World.HA.Request(id, w)
		return j.Pause(haTakes)
	}), true
}

func postStart(k *call) (any, error) {
	err := k.rootOnly("stateuri", "skiplock", "migratedfrom", "migration_type", "migration_network", "targetstorage", "force-cpu",
		"with-conntrack-state", "nets-host-mtu")
	if err != nil {
		return nil, err
	}
	if err := k.Errand().Quorate(); err != nil {
		return nil, err
	}
	if upid, is := k.ofHA("hastart", "start", world.Wish{State: "started"}); is {
		return upid, nil
	}
	id, skiplock := k.id(), k.In.Is("skiplock")
	return k.Task("qmstart", k.In["vmid"], func(j *world.Errand) error { return powerOn(j, id, skiplock) }), nil
}

// powerOn starts a machine.
func powerOn(j *world.Errand, id int, skiplock bool) error {
	return j.Locked(id, world.WaitFile, func() error {
		m, err := j.Config(id)
		if err != nil {
			return err
		}
		if m.Template() {
			return failure.New("you can't start a vm if it's a template")
		}
		lock := m.Conf["lock"]
		switch {
		case lock == "backup" && m.Running(): // which has been started for the backup
			m.State = "running"
			return nil
		case lock != "" && lock != "suspended" && !skiplock:
			return m.Unlocked()
		case m.Running():
			return failure.New("VM %d already running", id)
		}
		return launch(j, m)
	})
}

// launch starts QEMU.
func launch(j *world.Errand, m *world.Guest) error {
	if err := j.Stage("start"); err != nil {
		return err
	}
	if len(m.Pending) > 0 {
		if err := apply(j, m); err != nil {
			return err
		}
	}
	if err := makeSeed(j, m); err != nil {
		return err
	}
	if err := devices(j, m); err != nil {
		return err
	}
	resumed := m.Conf["lock"] == "suspended"
	if resumed {
		if err := j.Free(m.Conf["vmstate"]); err != nil {
			return err
		}
		delete(m.Conf, "vmstate")
		delete(m.Conf, "lock")
	}
	j.World.SwitchOn(m)
	if resumed {
		m.WakeUp()
	}
	if err := up(j, m); err != nil {
		return err
	}
	j.Doze(startTakes) // QEMU runs by now, regardless of the task
	return nil
}

// devices refuses to start with volumes and bridges that are not there.
func devices(j *world.Errand, m *world.Guest) error {
	for _, key := range vmconf.DrivesOf(m.Conf) {
		d := vmconf.ParseDrive(m.Conf[key])
		if _, _, stored := vmconf.SplitVolume(d.File); !stored {
			continue
		}
		if err := mustBe(j, d.File); err != nil {
			return err
		}
	}
	for _, key := range world.Sorted(m.Conf) {
		if vmconf.IsNet(key) {
			if err := plugged(j, vmconf.ParseNet(m.Conf[key])); err != nil {
				return err
			}
		}
	}
	return nil
}

// plugged refuses a network card that the host has no bridge or VNet for.
func plugged(j *world.Errand, net params.Values) error {
	name := net["bridge"]
	zone, vnet := j.World.Config.VNet(name)
	switch {
	case name == "" || slices.Contains(j.Host.Bridges, name):
		return nil
	case vnet == nil || !zone.On(j.Host.Name):
		return failure.New("bridge '%s' does not exist", name)
	case !vnet.VLANAware && (net.Has("tag") || net.Has("trunks")):
		return failure.New("vm vlans are not allowed on vnet %s", name)
	}
	return nil
}

func postStop(k *call) (any, error) {
	if err := k.rootOnly("skiplock", "keepActive", "migratedfrom"); err != nil {
		return nil, err
	}
	overrule := k.In.Is("overrule-shutdown")
	if overrule && k.World.HA.Manages(k.id()) {
		return nil, failure.OfParameter("overrule-shutdown", "Not applicable for HA resources.")
	}
	if upid, is := k.ofHA("hastop", "stop", world.Wish{State: "stopped", Limit: -1}); is {
		return upid, nil
	}
	s := stopping{id: k.id(), skiplock: k.In.Is("skiplock"), force: true, limit: k.limit()}
	return k.Task("qmstop", k.In["vmid"], func(j *world.Errand) error {
		if overrule {
			overruleShutdowns(j, s.id)
		}
		return s.powerOff(j)
	}), nil
}

// overruleShutdowns ends the tasks that wait for a machine to shut down.
func overruleShutdowns(j *world.Errand, id int) {
	var ended []string
	for _, t := range j.Host.Tasks {
		if t.Kind == "qmshutdown" && t.ID == strconv.Itoa(id) && t.Running() {
			ended = append(ended, t.UPID)
			j.EndTask(t)
		}
	}
	if len(ended) > 0 {
		j.Print("overruled qmshutdown tasks: %s", strings.Join(ended, ", "))
	}
}

func postShutdown(k *call) (any, error) {
	if err := k.rootOnly("skiplock", "keepActive"); err != nil {
		return nil, err
	}
	s := stopping{id: k.id(), skiplock: k.In.Is("skiplock"), ask: true, force: k.In.Is("forceStop"), limit: k.limit()}
	m := k.World.VMAt(k.Node, s.id)
	if m != nil && m.State == "paused" {
		if !s.force {
			return nil, failure.New("VM is paused - cannot shutdown")
		}
		s.ask = false
	}
	if upid, is := k.ofHA("hastop", "stop", world.Wish{State: "stopped", Limit: max(0, k.limit())}); is {
		return upid, nil
	}
	return k.Task("qmshutdown", k.In["vmid"], func(j *world.Errand) error { return s.powerOff(j) }), nil
}

// stopping is how a machine is to be stopped.
type stopping struct {
	id       int
	skiplock bool
	ask      bool          // its guest, instead of ending QEMU
	force    bool          // end QEMU if it does not stop in time
	limit    time.Duration // negative is the usual one
}

// limit is the time that the call allows.
func (k *call) limit() time.Duration { return time.Duration(k.In.Int("timeout", -1)) * time.Second }

// Start starts a virtual machine in high availability's name, and ShutDown ends it.
func Start(j *world.Errand, id int) error { return powerOn(j, id, false) }

// StartTask starts a virtual machine in a task of its own.
func StartTask(c *world.World, h *world.Node, who *access.Identity, id int) {
	c.Work(h, who, "qmstart", strconv.Itoa(id), func(j *world.Errand) error { return Start(j, id) })
}

// ShutDown has a guest shut down, and stops it if it does not obey in time, or at once if the limit
// is below 0.
func ShutDown(j *world.Errand, id int, limit time.Duration) error {
	s := stopping{id: id, ask: limit >= 0, force: true, limit: limit}
	if limit == 0 {
		s.limit = -1
	}
	return s.powerOff(j)
}

func (s stopping) powerOff(j *world.Errand) error {
	return j.Locked(s.id, world.WaitFile, func() error { return s.halt(j) })
}

// halt stops a machine while its configuration is locked, which is so until it has stopped.
func (s stopping) halt(j *world.Errand) error {
	running, err := j.Running(s.id)
	if err != nil || !running {
		return err
	}
	m, err := j.Config(s.id)
	if err != nil {
		return err
	}
	if !s.skiplock {
		if err := m.Unlocked(); err != nil {
			return err
		}
	}
	if err := j.Stage("stop"); err != nil {
		return err
	}
	if s.ask {
		m.AskToStop(j.World)
	} else if err := quit(j, m); err != nil {
		return err
	}
	stopped := func() bool { return !m.Running() }
	if !j.Await(waitsFor(m, s), stopped) {
		if err := j.Pause(0); err != nil {
			return err
		}
		if !s.force {
			return failure.New("VM quit/powerdown failed - got timeout")
		}
		j.Print("VM still running - terminating now with SIGTERM")
		if err := j.Pause(signalTook); err != nil {
			return err
		}
		j.World.SwitchOff(m)
	}
	if len(m.Pending) > 0 {
		return apply(j, m)
	}
	return nil
}

// quit ends QEMU.
func quit(j *world.Errand, m *world.Guest) error {
	if err := j.Pause(stopTakes); err != nil {
		return err
	}
	j.World.SwitchOff(m)
	return nil
}

// waitsFor is how long a machine may take to stop: as long as the call says, or its configuration.
func waitsFor(m *world.Guest, s stopping) time.Duration {
	if s.limit >= 0 {
		return s.limit
	}
	for part := range strings.SplitSeq(m.Conf["startup"], ",") {
		if down, is := strings.CutPrefix(part, "down="); is && s.ask {
			n, _ := strconv.Atoi(down)
			return time.Duration(n) * time.Second
		}
	}
	return world.WaitShutdown
}

func postReboot(k *call) (any, error) {
	s := stopping{id: k.id(), ask: true, limit: k.limit()}
	if m := k.World.VMAt(k.Node, s.id); m != nil && m.State == "paused" {
		return nil, failure.New("VM is paused - cannot shutdown")
	}
	if err := k.mustRun(); err != nil {
		return nil, err
	}
	return k.Task("qmreboot", k.In["vmid"], func(j *world.Errand) error {
		if err := s.powerOff(j); err != nil {
			return err
		}
		StartTask(j.World, j.Host, &access.Identity{User: access.RootUser}, s.id)
		return nil
	}), nil
}

// mustRun refuses what can only be done to a machine that runs.
func (k *call) mustRun() error {
	running, err := k.Errand().Running(k.id())
	if err == nil && !running {
		err = failure.New("VM %d not running", k.id())
	}
	return err
}

func postReset(k *call) (any, error) {
	if err := k.rootOnly("skiplock"); err != nil {
		return nil, err
	}
	if err := k.mustRun(); err != nil {
		return nil, err
	}
	return k.whenRunning("qmreset", func(j *world.Errand, m *world.Guest) error {
		if err := monitor(j, m, "system_reset", nil); err != nil {
			return err
		}
		m.Since = j.World.Clock
		j.World.Live(m)
		return nil
	}), nil
}

// whenRunning does something to a machine in a task, if it still runs and is not locked.
func (k *call) whenRunning(kind string, do func(j *world.Errand, m *world.Guest) error) string {
	id, skiplock := k.id(), k.In.Is("skiplock")
	return k.Task(kind, k.In["vmid"], func(j *world.Errand) error {
		return j.Locked(id, world.WaitFile, func() error {
			m, err := j.Config(id)
			if err != nil {
				return err
			}
			if lock := m.Conf["lock"]; !skiplock && lock != "backup" {
				if err := m.Unlocked(); err != nil {
					return err
				}
			}
			if !m.Running() {
				return failure.New("VM %d not running", id)
			}
			return do(j, m)
		})
	})
}

func postSuspend(k *call) (any, error) {
	if err := k.rootOnly("skiplock"); err != nil {
		return nil, err
	}
	if err := k.mustRun(); err != nil {
		return nil, err
	}
	if !k.In.Is("todisk") {
		return k.whenRunning("qmpause", func(_ *world.Errand, m *world.Guest) error { m.State = "paused"; return nil }), nil
	}
	if k.World.HA.Manages(k.id()) {
		return nil, failure.New("Cannot suspend HA managed VM to disk")
	}
	storage, err := k.stateStorage()
	if err != nil {
		return nil, err
	}
	return k.whenRunning("qmsuspend", func(j *world.Errand, m *world.Guest) error { return toDisk(j, m, storage) }), nil
}

// stateStorage is where what is in a machine's memory can be saved.
func (k *call) stateStorage() (string, error) {
	j := k.Errand()
	if err := j.OnVM(k.id(), "", "VM.Config.Disk"); err != nil {
		return "", err
	}
	m, err := k.vm()
	if err != nil {
		return "", err
	}
	name := k.In["statestorage"]
	if name == "" {
		name = stateStorageOf(m, k.World)
	}
	return name, j.All("/storage/"+name, "Datastore.AllocateSpace")
}

// stateStorageOf is the storage that a machine's memory is saved on: the one that its configuration
// names, or that of a disk, shared ones first.
func stateStorageOf(m *world.Guest, c *world.World) string {
	if name := m.Conf["vmstatestorage"]; name != "" {
		return name
	}
	found := "local"
	for _, key := range vmconf.DrivesOf(m.Conf) {
		name, _, stored := vmconf.SplitVolume(vmconf.ParseDrive(m.Conf[key]).File)
		if s := c.Storages[name]; stored && s != nil {
			found = name
			if s.Shared {
				break
			}
		}
	}
	return found
}

// saveMemory makes a volume with what is in a machine's memory.
func saveMemory(j *world.Errand, m *world.Guest, storage, name string) (string, error) {
	s, err := j.World.StorageOn(j.Host, storage)
	if err != nil {
		return "", err
	}
	size := (2*vmconf.MemoryOf(m.Conf) + 500) << 20
	v, err := j.Allocate(s, world.Wanted{ID: m.ID, Name: s.NameFor(m.ID, fmt.Sprintf("vm-%d-state-%s", m.ID, name), "raw"), Format: "raw", Size: size})
	if err != nil {
		return "", err
	}
	return s.VolID(v), nil
}

func toDisk(j *world.Errand, m *world.Guest, storage string) error {
	if err := j.Write(m.ID); err != nil {
		return err
	}
	state, err := saveMemory(j, m, storage, fmt.Sprintf("suspend-%d", j.World.Clock.Unix()))
	if err != nil {
		return err
	}
	m.Conf["vmstate"], m.Conf["lock"] = state, "suspended"
	j.World.SwitchOff(m)
	return nil
}

func postResume(k *call) (any, error) {
	if err := k.rootOnly("skiplock", "nocheck"); err != nil {
		return nil, err
	}
	if m := k.World.VMAt(k.Node, k.id()); m != nil && m.Conf["lock"] == "suspended" {
		id, skiplock := k.id(), k.In.Is("skiplock")
		return k.Task("qmresume", k.In["vmid"], func(j *world.Errand) error { return powerOn(j, id, skiplock) }), nil
	}
	if err := k.mustRun(); err != nil {
		return nil, err
	}
	return k.whenRunning("qmresume", func(_ *world.Errand, m *world.Guest) error { m.State = "running"; return nil }), nil
}
