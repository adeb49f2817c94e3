package machines

import (
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// migrateSpeed is how many bytes go from host to host in a second.
const migrateSpeed = 1 << 30

// migrateTakes is how long moving a machine takes besides what is copied.
const migrateTakes = 2 * time.Second

// migrateStamp is how the log of a migration writes the time.
const migrateStamp = time.DateTime

// missing are the storages that a configuration needs and a host has not.
func missing(c *world.World, conf map[string]string, h *world.Node) []string {
	var all []string
	for _, key := range vmconf.DrivesOf(conf) {
		name, _, stored := vmconf.SplitVolume(vmconf.ParseDrive(conf[key]).File)
		if s := c.Storages[name]; stored && (s == nil || !s.On(h)) {
			all = append(all, name)
		}
	}
	return all
}

// localVolumes are a configuration's volumes that lie with its host, by the keys of their drives.
func localVolumes(c *world.World, conf map[string]string) map[string]string {
	local := map[string]string{}
	for key, value := range conf {
		name, _, stored := vmconf.SplitVolume(vmconf.ParseDrive(value).File)
		if (vmconf.IsDrive(key) || vmconf.IsUnused(key) || key == "vmstate") && stored && c.Storages[name] != nil && !c.Storages[name].Shared {
			local[key] = vmconf.ParseDrive(value).File
		}
	}
	return local
}

// allLocal are the volumes that lie with a machine's host, those that wait for its next start and
// those of its snapshots among them. Each has one key.
func allLocal(c *world.World, m *world.Guest) map[string]string {
	all, seen := map[string]string{}, map[string]bool{}
	add := func(in string, conf map[string]string) {
		local := localVolumes(c, conf)
		for _, key := range world.Sorted(local) {
			if volid := local[key]; !seen[volid] {
				seen[volid], all[in+key] = true, volid
			}
		}
	}
	add("", m.Conf)
	add("pending/", m.Effective())
	for _, s := range m.Snaps {
		add(s.Name+"/", s.Conf)
	}
	return all
}

func getMigrate(k *call) (any, error) {
	if err := k.Errand().Quorate(); err != nil {
		return nil, err
	}
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	if err := m.Unlocked(); err != nil {
		return nil, err
	}
	allowed, barred := []any{}, map[string]any{}
	for _, h := range k.World.Nodes {
		if h == k.Node {
			continue
		}
		why := map[string]any{}
		if missing := missing(k.World, m.Conf, h); len(missing) > 0 {
			why["unavailable_storages"] = missing
		} else {
			allowed = append(allowed, h.Name)
		}
		barred[h.Name] = why
	}
	answer := map[string]any{
		"allowed_nodes": allowed, "not_allowed_nodes": barred, "running": world.Number(m.Running()), "has-dbus-vmstate": 1, "local_disks": localDisks(m, k.World),
		"local_resources": localResources(m.Conf), "mapped-resources": []any{}, "mapped-resource-info": map[string]any{},
	}
	if k.World.HA.Manages(m.ID) {
		answer["dependent-ha-resources"] = []any{}
	}
	return answer, nil
}

// localResources are the host's own devices that a machine uses.
func localResources(conf map[string]string) []any {
	all := []any{}
	for _, key := range world.Sorted(conf) {
		stem := strings.TrimRight(key, "0123456789")
		device := stem == "hostpci" || stem == "usb" && !strings.EqualFold(conf[key], "spice") || stem == "serial" && conf[key] != "socket"
		if device && !strings.Contains(conf[key], "mapping=") {
			all = append(all, key)
		}
	}
	return all
}

func localDisks(m *world.Guest, c *world.World) []any {
	all := []any{}
	local := localVolumes(c, m.Conf)
	for _, key := range world.Sorted(local) {
		_, v := c.Volume(m.Host, local[key])
		d := vmconf.ParseDrive(m.Conf[key])
		disk := map[string]any{
			"volid": local[key], "drivename": key, "cdrom": world.Number(d.CDROM()), "is_cloudinit": world.Number(d.CloudInit()), "shared": 0,
			"is_attached": world.Number(!vmconf.IsUnused(key)), "is_unused": world.Number(vmconf.IsUnused(key)), "is_vmstate": 0, "is_tpmstate": world.Number(key == "tpmstate0"),
			"replicate": 1, "size": 0,
		}
		if v != nil {
			disk["size"] = v.Size
		}
		all = append(all, disk)
	}
	return all
}

// migration is a machine that is to move.
type migration struct {
	id      int
	target  *world.Node
	online  bool
	disks   bool // local ones move too, even while the machine runs
	started time.Time
}

func postMigrate(k *call) (any, error) {
	if k.In["target"] == k.Node.Name {
		return nil, failure.OfParameter("target", "target is local node.")
	}
	j := k.Errand()
	if err := j.Quorate(); err != nil {
		return nil, err
	}
	n := migration{id: k.id(), target: k.World.Node(k.In["target"]), online: k.In.Is("online"), disks: k.In.Is("with-local-disks")}
	if n.target == nil {
		return nil, failure.New("no such cluster node '%s'", k.In["target"])
	}
	if err := k.rootOnly("force", "migration_type", "migration_network"); err != nil {
		return nil, err
	}
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	if err := m.Unlocked(); err != nil {
		return nil, err
	}
	if m.Running() && !n.online {
		return nil, failure.New("can't migrate running VM without --online")
	}
	n.online = m.Running()
	if missing := missing(k.World, m.Conf, n.target); len(missing) > 0 {
		return nil, failure.New("storage '%s' is not available on node '%s'", missing[0], n.target.Name)
	}
	if k.World.HA.Manages(n.id) {
		return k.Task("hamigrate", k.In["vmid"], func(j *world.Errand) error {
			j.Print("Requesting HA migration for VM %d to node %s", n.id, n.target.Name)
			j.World.HA.Request(n.id, world.Wish{Target: n.target.Name})
			return j.Pause(haTakes)
		}), nil
	}
	return migrateTask(k.World, k.Node, k.Who, &n).UPID, nil
}

// migrateTask moves a machine in a task of its own.
func migrateTask(c *world.World, h *world.Node, who *access.Identity, n *migration) *world.Task {
	return c.Work(h, who, "qmigrate", strconv.Itoa(n.id), func(j *world.Errand) error {
		return j.Locked(n.id, world.WaitFile, func() error {
			n.started = j.World.Clock
			if err := n.migrate(j); err != nil {
				n.print(j, "ERROR: migration aborted (duration %s): %s", n.lasted(j), failure.Text(err))
				if world.WasPut(err) {
					return err
				}
				return failure.New("migration aborted")
			}
			n.print(j, "migration finished successfully (duration %s)", n.lasted(j))
			return nil
		})
	})
}

// Migrate moves a machine in high availability's name.
func Migrate(c *world.World, m *world.Guest, target *world.Node) *world.Task {
	n := &migration{id: m.ID, target: target, online: m.Running(), disks: true}
	return migrateTask(c, m.Host, &access.Identity{User: access.RootUser}, n)
}

func (n *migration) print(j *world.Errand, format string, args ...any) {
	j.Print(j.World.Clock.UTC().Format(migrateStamp)+" "+format, args...)
}

func (n *migration) lasted(j *world.Errand) string {
	return time.Time{}.Add(j.World.Clock.Sub(n.started)).Format(time.TimeOnly)
}

// migrate moves a machine. Nothing has moved if it fails.
func (n *migration) migrate(j *world.Errand) error {
	n.print(j, "starting migration of VM %d to node '%s' (%s)", n.id, n.target.Name, n.target.IP)
	m, err := j.Config(n.id)
	if err != nil {
		return err
	}
	if err := m.Unlocked(); err != nil {
		return err
	}
	if m.Running() != n.online {
		return failure.New("VM state has changed while the migration waited")
	}
	if !j.World.Connects(j.Host, n.target) {
		return failure.New("Can't connect to destination address using public key")
	}
	if err := j.Write(n.id); err != nil {
		return err
	}
	m.Conf["lock"] = "migrate"
	unlock := func() { delete(m.Conf, "lock") }
	if err := n.carry(j, m); err != nil {
		unlock()
		return err
	}
	unlock()
	m.Host = n.target
	if n.online {
		m.Host.PIDs++
		m.PID = 1000 + m.Host.PIDs
	}
	return nil
}

// carry copies what must be copied, and then lets the local volumes be where they are to be.
func (n *migration) carry(j *world.Errand, m *world.Guest) error {
	local := allLocal(j.World, m)
	var bytes int64
	for _, key := range world.Sorted(local) {
		s, v := j.World.Volume(j.Host, local[key])
		d := vmconf.ParseDrive(m.Conf[key])
		switch {
		case v == nil:
			return failure.New("volume '%s' does not exist", local[key])
		case n.online && !n.disks && !d.CloudInit():
			return failure.New("can't live migrate attached local disks without with-local-disks option")
		case v.Parent != "" || s.LinkedTo(j.Host, v):
			return failure.New("can't migrate '%s' as it's a clone of another volume, or one is made of it", local[key])
		case v.Size > s.Room(n.target):
			return s.Full(v)
		}
		n.print(j, "copying local disk image: '%s'", local[key])
		bytes += v.Size
	}
	if n.online {
		n.print(j, "starting VM %d on remote node '%s'", n.id, n.target.Name)
		bytes += vmconf.MemoryOf(m.Conf) << 20
	}
	if err := j.Stage("migrate"); err != nil {
		return err
	}
	if err := j.Pause(migrateTakes + time.Duration(float64(bytes)/migrateSpeed*float64(time.Second))); err != nil {
		return err
	}
	if !j.World.Connects(j.Host, n.target) {
		return failure.New("online migrate failure - aborting")
	}
	for _, volid := range local {
		if s, v := j.World.Volume(j.Host, volid); v != nil {
			delete(s.At(j.Host), v.Name)
			s.At(n.target)[v.Name] = v
		}
	}
	return nil
}
