// Package machines is what the API does with virtual machines: their configuration, disks, power,
// snapshots, clones, migrations and guest agents.
package machines

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// diskNames are the keys that drives may have, and movable those and what is not used.
var (
	diskNames = strings.Join(vmconf.DriveOrder, ",")
	movable   = func() string {
		all := diskNames
		for i := range 256 {
			all += ",unused" + strconv.Itoa(i)
		}
		return all
	}()
)

// Endpoints are the calls on virtual machines.
var Endpoints = slices.Concat(listEndpoints, configEndpoints, powerEndpoints, diskEndpoints, snapshotEndpoints, agentEndpoints)

var listEndpoints = []api.Endpoint{
	{Method: "GET", Path: "/nodes/{node}/qemu", May: api.Anybody, Protected: true, In: "full?:bool", Do: do(getVMs)},
	{
		Method: "POST", Path: "/nodes/{node}/qemu", May: api.Anybody, Protected: true, Do: do(postVM),
		In: params.QemuConfig + `vmid:vmid archive?:str[..255] bwlimit?:int[0..] force?:bool&archive ha-managed?:bool
			import-working-storage?:storage-id live-restore?:bool pool?:poolid start?:bool storage?:storage-id unique?:bool&archive`,
	},
	{
		Method: "GET", Path: onVM, May: api.Anybody,
		Do: api.Index("subdir", `config cloudinit pending status unlink vncproxy termproxy migrate resize move rrd rrddata monitor agent snapshot
			spiceproxy sendkey firewall mtunnel remote_migrate`),
	},
	{
		Method: "DELETE", Path: onVM, May: api.May("/vms/{vmid}", "VM.Allocate"), Protected: true, Do: do(deleteVM),
		In: "destroy-unreferenced-disks?:bool purge?:bool skiplock?:bool",
	},
	{
		Method: "POST", Path: onVM + "/clone", Protected: true, Do: do(postClone),
		May: api.And(api.May("/vms/{vmid}", "VM.Clone"), api.Or(api.May("/vms/{newid}", "VM.Allocate"), api.May("/pool/{pool}", "VM.Allocate").Given("pool"))),
		In: `newid:vmid bwlimit?:int[0..] description?:str format?:enum(raw,qcow2,vmdk) full?:bool name?:dns-name pool?:poolid
			snapname?:configid[..40] storage?:storage-id target?:node`,
	},
	{
		Method: "POST", Path: onVM + "/template", May: api.May("/vms/{vmid}", "VM.Allocate"), Protected: true, Do: do(postTemplate),
		In: "disk?:enum(" + diskNames + ")",
	},
	{Method: "GET", Path: onVM + "/migrate", May: api.May("/vms/{vmid}", "VM.Migrate"), Protected: true, In: "target?:node", Do: do(getMigrate)},
	{
		Method: "POST", Path: onVM + "/migrate", May: api.May("/vms/{vmid}", "VM.Migrate"), Protected: true, Do: do(postMigrate),
		In: `target:node bwlimit?:int[0..] force?:bool migration_network?:CIDR migration_type?:enum(secure,insecure) online?:bool
			targetstorage?:storage-pair-list with-conntrack-state?:bool with-local-disks?:bool`,
	},
	{
		Method: "GET", Path: onVM + "/feature", May: api.May("/vms/{vmid}", "VM.Audit"), Protected: true, Do: do(getFeature),
		In: "feature:enum(snapshot,clone,copy) snapname?:configid[..40]",
	},
	{
		Method: "GET", Path: onVM + "/rrddata", May: api.May("/vms/{vmid}", "VM.Audit"), Protected: true, Local: true, Do: do(getHistory),
		In: "timeframe:enum(hour,day,week,month,year) cf?:enum(AVERAGE,MAX)",
	},
	{Method: "GET", Path: onVM + "/firewall/options", May: api.May("/vms/{vmid}", "VM.Audit"), Do: do(getFirewall)},
	{Method: "PUT", Path: onVM + "/firewall/options", May: api.May("/vms/{vmid}", "VM.Config.Network"), Protected: true, In: firewallOptions, Do: do(putFirewall)},
}

var configRights = api.MayAny("/vms/{vmid}", "VM.Config.Disk", "VM.Config.CDROM", "VM.Config.CPU", "VM.Config.Memory", "VM.Config.Network",
	"VM.Config.HWType", "VM.Config.Options", "VM.Config.Cloudinit")

const changeConfig = params.QemuConfig + "delete?:configid-list digest?:str[..40] force?:bool&delete revert?:configid-list skiplock?:bool "

var configEndpoints = []api.Endpoint{
	{Method: "GET", Path: onVM + "/config", May: api.May("/vms/{vmid}", "VM.Audit"), In: "current?:bool snapshot?:configid[..40]", Do: do(getConfig)},
	{Method: "PUT", Path: onVM + "/config", May: configRights, Protected: true, In: changeConfig, Do: do(putConfig)},
	{
		Method: "POST", Path: onVM + "/config", May: configRights, Protected: true, Do: do(postConfig),
		In: changeConfig + "background_delay?:int[1..30] import-working-storage?:storage-id",
	},
	{Method: "GET", Path: onVM + "/pending", May: api.May("/vms/{vmid}", "VM.Audit"), Do: do(getPending)},
	{Method: "GET", Path: onVM + "/cloudinit", May: api.May("/vms/{vmid}", "VM.Audit"), Do: do(getCloudInit)},
	{Method: "PUT", Path: onVM + "/cloudinit", May: api.May("/vms/{vmid}", "VM.Config.Cloudinit"), Protected: true, Do: do(putCloudInit)},
	{Method: "GET", Path: onVM + "/cloudinit/dump", May: api.May("/vms/{vmid}", "VM.Audit"), In: "type:enum(user,network,meta)", Do: do(getDump)},
}

var powerRights = api.May("/vms/{vmid}", "VM.PowerMgmt")

var powerEndpoints = []api.Endpoint{
	{
		Method: "GET", Path: onVM + "/status", May: api.Anybody,
		Do: api.Index("subdir", "current start stop reset shutdown suspend reboot"),
	},
	{Method: "GET", Path: onVM + "/status/current", May: api.May("/vms/{vmid}", "VM.Audit"), Protected: true, Do: do(getStatus)},
	{
		Method: "POST", Path: onVM + "/status/start", May: powerRights, Protected: true, Do: do(postStart),
		In: `force-cpu?:str machine?:qm-machine migratedfrom?:node migration_network?:CIDR migration_type?:enum(secure,insecure)
			nets-host-mtu?:/net\d+=\d+(,net\d+=\d+)*/ skiplock?:bool stateuri?:str[..128] targetstorage?:storage-pair-list
			timeout?:int[0..] with-conntrack-state?:bool`,
	},
	{
		Method: "POST", Path: onVM + "/status/stop", May: powerRights, Protected: true, Do: do(postStop),
		In: "keepActive?:bool migratedfrom?:node overrule-shutdown?:bool skiplock?:bool timeout?:int[0..]",
	},
	{
		Method: "POST", Path: onVM + "/status/shutdown", May: powerRights, Protected: true, Do: do(postShutdown),
		In: "forceStop?:bool keepActive?:bool skiplock?:bool timeout?:int[0..]",
	},
	{Method: "POST", Path: onVM + "/status/reboot", May: powerRights, Protected: true, In: "timeout?:int[0..]", Do: do(postReboot)},
	{Method: "POST", Path: onVM + "/status/reset", May: powerRights, Protected: true, In: "skiplock?:bool", Do: do(postReset)},
	{
		Method: "POST", Path: onVM + "/status/suspend", May: powerRights, Protected: true, Do: do(postSuspend),
		In: "skiplock?:bool statestorage?:storage-id&todisk todisk?:bool",
	},
	{Method: "POST", Path: onVM + "/status/resume", May: powerRights, Protected: true, In: "nocheck?:bool skiplock?:bool", Do: do(postResume)},
}

var diskRights = api.May("/vms/{vmid}", "VM.Config.Disk")

var diskEndpoints = []api.Endpoint{
	{
		Method: "PUT", Path: onVM + "/resize", May: diskRights, Protected: true, Do: do(putResize),
		In: "disk:enum(" + diskNames + `) size:/\+?\d+(\.\d+)?[KMGT]?/ digest?:str[..40] skiplock?:bool`,
	},
	{
		Method: "POST", Path: onVM + "/move_disk", May: diskRights, Protected: true, Do: do(postMove),
		In: "disk:enum(" + movable + ") bwlimit?:int[0..] delete?:bool digest?:str[..40] format?:enum(raw,qcow2,vmdk) storage?:storage-id" +
			" target-digest?:str[..40] target-disk?:enum(" + movable + ") target-vmid?:vmid",
	},
	{Method: "PUT", Path: onVM + "/unlink", May: diskRights, Protected: true, In: "idlist:configid-list force?:bool", Do: do(putUnlink)},
}

var snapshotRights = api.May("/vms/{vmid}", "VM.Snapshot")

var snapshotEndpoints = []api.Endpoint{
	{Method: "GET", Path: onVM + "/snapshot", May: api.May("/vms/{vmid}", "VM.Audit"), Protected: true, Do: do(getSnapshots)},
	{
		Method: "POST", Path: onVM + "/snapshot", May: snapshotRights, Protected: true, Do: do(postSnapshot),
		In: "snapname:configid[..40] description?:str vmstate?:bool",
	},
	{Method: "GET", Path: onVM + "/snapshot/{snapname}", May: api.Anybody, Local: true, Do: api.Index("cmd", "rollback config")},
	{Method: "DELETE", Path: onVM + "/snapshot/{snapname}", May: snapshotRights, Protected: true, In: "force?:bool", Do: do(deleteSnapshot)},
	{
		Method: "GET", Path: onVM + "/snapshot/{snapname}/config", Do: do(getSnapshot),
		May: api.MayAny("/vms/{vmid}", "VM.Snapshot", "VM.Snapshot.Rollback", "VM.Audit"),
	},
	{Method: "PUT", Path: onVM + "/snapshot/{snapname}/config", May: snapshotRights, Protected: true, In: "description?:str", Do: do(putSnapshot)},
	{
		Method: "POST", Path: onVM + "/snapshot/{snapname}/rollback", Protected: true, In: "start?:bool", Do: do(postRollback),
		May: api.MayAny("/vms/{vmid}", "VM.Snapshot", "VM.Snapshot.Rollback"),
	},
}

func getVMs(k *call) (any, error) {
	all := []any{}
	for _, id := range k.World.VMIDs(k.Node) {
		if k.World.Access.May(k.Who, world.VMPath(id), "VM.Audit") {
			all = append(all, statusOf(k.World.VMs[id], k.World, k.In.Is("full")))
		}
	}
	return all, nil
}

// statusOf is what a host shows of a virtual machine; full is with what it must ask QEMU for.
func statusOf(m *world.Guest, c *world.World, full bool) map[string]any {
	s := map[string]any{
		"vmid": m.ID, "name": m.Name(), "status": "stopped", "cpus": vmconf.CPUsOf(m.Conf), "maxmem": vmconf.MemoryOf(m.Conf) << 20,
		"maxdisk": vmconf.ParseDrive(m.Conf[vmconf.BootDrive(m.Conf)]).Size(), "disk": 0, "cpu": 0, "mem": 0, "memhost": 0, "netin": 0,
		"netout": 0, "uptime": 0,
	}
	for _, key := range []string{"lock", "tags"} {
		if m.Conf[key] != "" {
			s[key] = m.Conf[key]
		}
	}
	if m.Template() {
		s["template"] = 1
	}
	if m.Running() {
		activity(m, c, s, full)
	}
	if full {
		s["qmpstatus"] = m.State
	}
	return s
}

// activity is what runs only in a virtual machine that does.
func activity(m *world.Guest, c *world.World, s map[string]any, full bool) {
	s["status"], s["pid"], s["uptime"] = "running", m.PID, int64(c.Clock.Sub(m.Since).Seconds())
	s["cpu"], s["mem"] = m.Usage()
	s["memhost"] = s["mem"]
	for _, of := range []string{"cpu", "io", "memory"} {
		s["pressure"+of+"some"], s["pressure"+of+"full"] = 0, 0
	}
	nics := map[string]any{}
	for _, key := range world.Sorted(m.Conf) {
		if vmconf.IsNet(key) {
			nics[fmt.Sprintf("tap%di%s", m.ID, key[len("net"):])] = map[string]any{"netin": 110, "netout": 0}
		}
	}
	s["netin"] = 110 * len(nics)
	if full && len(nics) > 0 {
		s["nics"] = nics
	}
}

func getStatus(k *call) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	s := statusOf(m, k.World, true)
	if m.Outside != nil {
		s["qmpstatus"] = k.runState(m)
	}
	s["ha"] = k.World.HA.Status(m.ID)
	if vmconf.AgentEnabled(m.Conf) {
		s["agent"] = 1
	}
	if vga := params.PropertyString("qm-vga", m.Conf["vga"]); vga.Has("clipboard") {
		s["clipboard"] = vga["clipboard"]
	}
	return s, nil
}

// history are the steps and lengths of what is remembered of a virtual machine's activity.
var history = map[string]time.Duration{
	"hour": time.Minute, "day": 30 * time.Minute, "week": 3 * time.Hour, "month": 12 * time.Hour, "year": 7 * 24 * time.Hour,
}

const historyPoints = 70

func getHistory(k *call) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	step := history[k.In["timeframe"]]
	s, points := statusOf(m, k.World, false), []any{}
	for i := range historyPoints {
		at := k.World.Clock.Truncate(step).Add(-time.Duration(historyPoints-1-i) * step)
		point := map[string]any{"time": at.Unix()}
		if m.Running() && !at.Before(m.Since) {
			for _, key := range []string{"cpu", "mem", "maxmem", "maxdisk", "disk", "netin", "netout"} {
				point[key] = s[key]
			}
			point["maxcpu"] = s["cpus"]
		}
		points = append(points, point)
	}
	return points, nil
}
