package pvesim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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

var vmEndpoints = slices.Concat(vmsEndpoints, configEndpoints, powerEndpoints, diskEndpoints, snapshotEndpoints, agentEndpoints)

const onVM = "/nodes/{node}/qemu/{vmid}"

var vmsEndpoints = []endpoint{
	{method: "GET", path: "/nodes/{node}/qemu", may: anybody, protected: true, in: "full?:bool", do: vmDo(getVMs)},
	{
		method: "POST", path: "/nodes/{node}/qemu", may: anybody, protected: true, do: vmDo(postVM),
		in: params.QemuConfig + `vmid:vmid archive?:str[..255] bwlimit?:int[0..] force?:bool&archive ha-managed?:bool
			import-working-storage?:storage-id live-restore?:bool pool?:poolid start?:bool storage?:storage-id unique?:bool&archive`,
	},
	{
		method: "GET", path: onVM, may: anybody,
		do: index("subdir", `config cloudinit pending status unlink vncproxy termproxy migrate resize move rrd rrddata monitor agent snapshot
			spiceproxy sendkey firewall mtunnel remote_migrate`),
	},
	{
		method: "DELETE", path: onVM, may: may("/vms/{vmid}", "VM.Allocate"), protected: true, do: vmDo(deleteVM),
		in: "destroy-unreferenced-disks?:bool purge?:bool skiplock?:bool",
	},
	{
		method: "POST", path: onVM + "/clone", protected: true, do: vmDo(postClone),
		may: and(may("/vms/{vmid}", "VM.Clone"), or(may("/vms/{newid}", "VM.Allocate"), may("/pool/{pool}", "VM.Allocate").given("pool"))),
		in: `newid:vmid bwlimit?:int[0..] description?:str format?:enum(raw,qcow2,vmdk) full?:bool name?:dns-name pool?:poolid
			snapname?:configid[..40] storage?:storage-id target?:node`,
	},
	{
		method: "POST", path: onVM + "/template", may: may("/vms/{vmid}", "VM.Allocate"), protected: true, do: vmDo(postTemplate),
		in: "disk?:enum(" + diskNames + ")",
	},
	{method: "GET", path: onVM + "/migrate", may: may("/vms/{vmid}", "VM.Migrate"), protected: true, in: "target?:node", do: vmDo(getMigrate)},
	{
		method: "POST", path: onVM + "/migrate", may: may("/vms/{vmid}", "VM.Migrate"), protected: true, do: vmDo(postMigrate),
		in: `target:node bwlimit?:int[0..] force?:bool migration_network?:CIDR migration_type?:enum(secure,insecure) online?:bool
			targetstorage?:storage-pair-list with-conntrack-state?:bool with-local-disks?:bool`,
	},
	{
		method: "GET", path: onVM + "/feature", may: may("/vms/{vmid}", "VM.Audit"), protected: true, do: vmDo(getFeature),
		in: "feature:enum(snapshot,clone,copy) snapname?:configid[..40]",
	},
	{
		method: "GET", path: onVM + "/rrddata", may: may("/vms/{vmid}", "VM.Audit"), protected: true, local: true, do: vmDo(getHistory),
		in: "timeframe:enum(hour,day,week,month,year) cf?:enum(AVERAGE,MAX)",
	},
	{method: "GET", path: onVM + "/firewall/options", may: may("/vms/{vmid}", "VM.Audit"), do: vmDo(getFirewall)},
	{method: "PUT", path: onVM + "/firewall/options", may: may("/vms/{vmid}", "VM.Config.Network"), protected: true, in: firewallOptions, do: vmDo(putFirewall)},
}

var configRights = mayAny("/vms/{vmid}", "VM.Config.Disk", "VM.Config.CDROM", "VM.Config.CPU", "VM.Config.Memory", "VM.Config.Network",
	"VM.Config.HWType", "VM.Config.Options", "VM.Config.Cloudinit")

const changeConfig = params.QemuConfig + "delete?:configid-list digest?:str[..40] force?:bool&delete revert?:configid-list skiplock?:bool "

var configEndpoints = []endpoint{
	{method: "GET", path: onVM + "/config", may: may("/vms/{vmid}", "VM.Audit"), in: "current?:bool snapshot?:configid[..40]", do: vmDo(getConfig)},
	{method: "PUT", path: onVM + "/config", may: configRights, protected: true, in: changeConfig, do: vmDo(putConfig)},
	{
		method: "POST", path: onVM + "/config", may: configRights, protected: true, do: vmDo(postConfig),
		in: changeConfig + "background_delay?:int[1..30] import-working-storage?:storage-id",
	},
	{method: "GET", path: onVM + "/pending", may: may("/vms/{vmid}", "VM.Audit"), do: vmDo(getPending)},
	{method: "GET", path: onVM + "/cloudinit", may: may("/vms/{vmid}", "VM.Audit"), do: vmDo(getCloudInit)},
	{method: "PUT", path: onVM + "/cloudinit", may: may("/vms/{vmid}", "VM.Config.Cloudinit"), protected: true, do: vmDo(putCloudInit)},
	{method: "GET", path: onVM + "/cloudinit/dump", may: may("/vms/{vmid}", "VM.Audit"), in: "type:enum(user,network,meta)", do: vmDo(getDump)},
}

var powerRights = may("/vms/{vmid}", "VM.PowerMgmt")

var powerEndpoints = []endpoint{
	{
		method: "GET", path: onVM + "/status", may: anybody,
		do: index("subdir", "current start stop reset shutdown suspend reboot"),
	},
	{method: "GET", path: onVM + "/status/current", may: may("/vms/{vmid}", "VM.Audit"), protected: true, do: vmDo(getStatus)},
	{
		method: "POST", path: onVM + "/status/start", may: powerRights, protected: true, do: vmDo(postStart),
		in: `force-cpu?:str machine?:qm-machine migratedfrom?:node migration_network?:CIDR migration_type?:enum(secure,insecure)
			nets-host-mtu?:/net\d+=\d+(,net\d+=\d+)*/ skiplock?:bool stateuri?:str[..128] targetstorage?:storage-pair-list
			timeout?:int[0..] with-conntrack-state?:bool`,
	},
	{
		method: "POST", path: onVM + "/status/stop", may: powerRights, protected: true, do: vmDo(postStop),
		in: "keepActive?:bool migratedfrom?:node overrule-shutdown?:bool skiplock?:bool timeout?:int[0..]",
	},
	{
		method: "POST", path: onVM + "/status/shutdown", may: powerRights, protected: true, do: vmDo(postShutdown),
		in: "forceStop?:bool keepActive?:bool skiplock?:bool timeout?:int[0..]",
	},
	{method: "POST", path: onVM + "/status/reboot", may: powerRights, protected: true, in: "timeout?:int[0..]", do: vmDo(postReboot)},
	{method: "POST", path: onVM + "/status/reset", may: powerRights, protected: true, in: "skiplock?:bool", do: vmDo(postReset)},
	{
		method: "POST", path: onVM + "/status/suspend", may: powerRights, protected: true, do: vmDo(postSuspend),
		in: "skiplock?:bool statestorage?:storage-id&todisk todisk?:bool",
	},
	{method: "POST", path: onVM + "/status/resume", may: powerRights, protected: true, in: "nocheck?:bool skiplock?:bool", do: vmDo(postResume)},
}

var diskRights = may("/vms/{vmid}", "VM.Config.Disk")

var diskEndpoints = []endpoint{
	{
		method: "PUT", path: onVM + "/resize", may: diskRights, protected: true, do: vmDo(putResize),
		in: "disk:enum(" + diskNames + `) size:/\+?\d+(\.\d+)?[KMGT]?/ digest?:str[..40] skiplock?:bool`,
	},
	{
		method: "POST", path: onVM + "/move_disk", may: diskRights, protected: true, do: vmDo(postMove),
		in: "disk:enum(" + movable + ") bwlimit?:int[0..] delete?:bool digest?:str[..40] format?:enum(raw,qcow2,vmdk) storage?:storage-id" +
			" target-digest?:str[..40] target-disk?:enum(" + movable + ") target-vmid?:vmid",
	},
	{method: "PUT", path: onVM + "/unlink", may: diskRights, protected: true, in: "idlist:configid-list force?:bool", do: vmDo(putUnlink)},
}

var snapshotRights = may("/vms/{vmid}", "VM.Snapshot")

var snapshotEndpoints = []endpoint{
	{method: "GET", path: onVM + "/snapshot", may: may("/vms/{vmid}", "VM.Audit"), protected: true, do: vmDo(getSnapshots)},
	{
		method: "POST", path: onVM + "/snapshot", may: snapshotRights, protected: true, do: vmDo(postSnapshot),
		in: "snapname:configid[..40] description?:str vmstate?:bool",
	},
	{method: "GET", path: onVM + "/snapshot/{snapname}", may: anybody, local: true, do: index("cmd", "rollback config")},
	{method: "DELETE", path: onVM + "/snapshot/{snapname}", may: snapshotRights, protected: true, in: "force?:bool", do: vmDo(deleteSnapshot)},
	{
		method: "GET", path: onVM + "/snapshot/{snapname}/config", do: vmDo(getSnapshot),
		may: mayAny("/vms/{vmid}", "VM.Snapshot", "VM.Snapshot.Rollback", "VM.Audit"),
	},
	{method: "PUT", path: onVM + "/snapshot/{snapname}/config", may: snapshotRights, protected: true, in: "description?:str", do: vmDo(putSnapshot)},
	{
		method: "POST", path: onVM + "/snapshot/{snapname}/rollback", protected: true, in: "start?:bool", do: vmDo(postRollback),
		may: mayAny("/vms/{vmid}", "VM.Snapshot", "VM.Snapshot.Rollback"),
	},
}

// id is that of the virtual machine that the call is about.
func (k *vmCall) id() int { return k.in.Int("vmid", 0) }

// vm is the virtual machine that the call is about.
func (k *vmCall) vm() (*world.Guest, error) { return k.job().Config(k.id()) }

func getVMs(k *vmCall) (any, error) {
	all := []any{}
	for _, id := range k.World.VMIDs(k.node) {
		if k.World.Access.May(k.Who, world.VMPath(id), "VM.Audit") {
			all = append(all, statusOf(k.World.VMs[id], k.World, k.in.Is("full")))
		}
	}
	return all, nil
}

// statusOf is what a host tells of a virtual machine; full is with what it must ask QEMU for.
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

func getStatus(k *vmCall) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	s := statusOf(m, k.World, true)
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

func getHistory(k *vmCall) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	step := history[k.in["timeframe"]]
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

// vmCall is a call about virtual machines.
type vmCall struct{ *call }

func vmDo(do func(k *vmCall) (any, error)) func(*call) (any, error) {
	return func(k *call) (any, error) { return do(&vmCall{k}) }
}

// job is a caller at work on virtual machines and their volumes.
type job struct{ *world.Errand }

// job is the call's own work.
func (k *vmCall) job() *job { return &job{k.errand()} }

// task starts a task on the host that answers, and returns its UPID.
func (k *vmCall) task(kind, id string, body func(j *job) error) string {
	return k.call.task(kind, id, atWork(body))
}

func atWork(body func(j *job) error) func(j *world.Errand) error {
	return func(j *world.Errand) error { return body(&job{j}) }
}
