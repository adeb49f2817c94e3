package machines

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// waitFileOfCreate is how long a new configuration is waited for.
const waitFileOfCreate = 5 * time.Second

// qemuRelease is of QEMU that machines are made with.
const qemuRelease = "10.0.13"

// creation is a virtual machine that is to be made.
type creation struct {
	id            int
	conf          map[string]string
	pool, storage string
	start, ha     bool
}

// notCreated are parameters of the call that makes a virtual machine, and no keys of its
// configuration.
var notCreated = []string{
	"node", "vmid", "archive", "bwlimit", "force", "pool", "start", "ha-managed", "storage", "unique", "live-restore", "import-working-storage",
}

func postVM(k *call) (any, error) {
	n := creation{
		id: k.id(), conf: map[string]string{}, pool: k.In["pool"], storage: k.In["storage"], start: k.In.Is("start"), ha: k.In.Is("ha-managed"),
	}
	for key, value := range k.In {
		if !slices.Contains(notCreated, key) {
			n.conf[key] = value
		}
	}
	j := k.Errand()
	if err := vmconf.CheckSSHKeys(n.conf); err != nil {
		return nil, err
	}
	if err := j.Quorate(); err != nil {
		return nil, err
	}
	if err := n.mayCreate(j); err != nil {
		return nil, err
	}
	if archive := k.In["archive"]; archive != "" {
		return nil, failure.New("unable to restore VM %d - volume '%s' does not exist", n.id, archive)
	}
	if err := n.checkCreation(j); err != nil {
		return nil, err
	}
	if err := reserve(j, n.id); err != nil {
		return nil, failure.New("unable to create VM %d - %s", n.id, failure.Text(err))
	}
	return k.Task("qmcreate", k.In["vmid"], func(j *world.Errand) error { return n.create(j) }), nil
}

// mayCreate refuses a virtual machine that the caller may not make.
func (n *creation) mayCreate(j *world.Errand) error {
	if err := poolExists(j, n.pool); err != nil {
		return err
	}
	if n.storage != "" {
		if err := j.All("/storage/"+n.storage, "Datastore.AllocateSpace"); err != nil {
			return err
		}
	}
	if n.ha {
		if err := j.All("/", "Sys.Console"); err != nil {
			return err
		}
	}
	if n.start {
		if err := j.OnVM(n.id, n.pool, "VM.PowerMgmt"); err != nil {
			return err
		}
	}
	if j.OnVM(n.id, n.pool, "VM.Allocate") != nil {
		return &failure.Error{Status: 403, Reason: "Permission check failed"}
	}
	return nil
}

func poolExists(j *world.Errand, name string) error {
	if name != "" && j.World.Access.Pools[name] == nil {
		return failure.Denied("pool '%s' does not exist", name)
	}
	return nil
}

// checkCreation refuses keys that the caller may not set, or that make no sense.
func (n *creation) checkCreation(j *world.Errand) error {
	vmconf.ResolveCDROM(n.conf)
	if err := mayUseStorages(j, n.id, n.conf, n.storage); err != nil {
		return err
	}
	if err := mayChange(j, n.id, n.pool, slices.Collect(maps.Keys(n.conf))); err != nil {
		return err
	}
	if err := mayUseDevices(j, n.id, n.pool, n.conf); err != nil {
		return err
	}
	if err := mayUseBridges(j, n.conf); err != nil {
		return err
	}
	if err := vmconf.CheckDrives(n.conf); err != nil {
		return err
	}
	complete(j.World, n.conf)
	return nil
}

// reserve puts an empty configuration where the virtual machine's will be.
func reserve(j *world.Errand, id int) error {
	return j.Locked(id, waitFileOfCreate, func() error {
		if m := j.World.VMs[id]; m != nil {
			return failure.New("VM %d already exists on node '%s'", id, m.Host.Name)
		}
		newVM(j.World, j.Host, id, map[string]string{"lock": "create"})
		return nil
	})
}

func newVM(c *world.World, h *world.Node, id int, conf map[string]string) *world.Guest {
	m := &world.Guest{Config: vmconf.New(conf), ID: id, Host: h, State: "stopped", Since: c.Clock}
	c.VMs[id] = m
	return m
}

// create makes the virtual machine whose place has been reserved. If it cannot, nothing of it is
// left.
func (n *creation) create(j *world.Errand) error {
	err := j.Locked(n.id, world.WaitFileOfClone, func() error {
		if err := n.build(j); err != nil {
			return world.Because(fmt.Sprintf("unable to create VM %d - ", n.id), err)
		}
		return nil
	})
	if err != nil {
		if m := j.World.VMAt(j.Host, n.id); m != nil && m.Conf["lock"] == "create" {
			delete(j.World.VMs, n.id)
		}
		return err
	}
	if n.ha {
		j.Print("Add as HA resource")
		j.World.HA.Add(n.id, map[bool]string{true: "started", false: "stopped"}[n.start])
	}
	if n.start {
		j.Print("Execute autostart")
		StartTask(j.World, j.Host, j.Who, n.id)
	}
	return nil
}

func (n *creation) build(j *world.Errand) error {
	m, err := j.Config(n.id)
	if err != nil {
		return err
	}
	if err := j.Stage("create"); err != nil {
		return err
	}
	conf := maps.Clone(n.conf)
	conf["meta"] = fmt.Sprintf("creation-qemu=%s,ctime=%d", qemuRelease, j.World.Clock.Unix())
	made, err := drives(j, n.id, conf, n.conf, n.storage)
	if err != nil {
		return err
	}
	maps.Copy(conf, made)
	if err := n.finishConf(j, conf); err != nil {
		for _, key := range world.Sorted(made) {
			if vmconf.ParseDrive(n.conf[key]).File != vmconf.ParseDrive(made[key]).File {
				_ = j.Free(vmconf.ParseDrive(made[key]).File) // the first error is returned
			}
		}
		return err
	}
	m.Conf = conf
	j.World.Access.PutInPool(n.id, n.pool)
	return nil
}

// finishConf draws what has not been given.
func (n *creation) finishConf(j *world.Errand, conf map[string]string) error {
	if conf["boot"] == "" {
		conf["boot"] = vmconf.DefaultBootOrder(conf)
	}
	if conf["smbios1"] == "" {
		conf["smbios1"] = "uuid=" + vmconf.NewUUID(j.World.RNG("uuids"))
	}
	if conf["vmgenid"] == "" {
		conf["vmgenid"] = vmconf.NewUUID(j.World.RNG("uuids"))
	}
	if tags, given := conf["tags"]; given {
		if err := mayTag(j, n.id, "", tags); err != nil {
			return err
		}
		conf["tags"] = normalTags(j.World, tags)
	}
	return j.Write(n.id)
}
