package pvesim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

var nodeEndpoints = []api.Endpoint{
	{Method: "GET", Path: "/nodes", May: api.Anybody, Do: getNodes},
	{Method: "GET", Path: "/nodes/{node}", May: api.Anybody, Local: true, Do: api.Index("name", `aplinfo apt capabilities ceph certificates
		config disks dns firewall hardware hosts journal lxc migrateall netstat network qemu query-oci-repo-tags query-url-metadata
		replication report rrd rrddata scan sdn services spiceshell startall status stopall storage subscription suspendall syslog
		tasks termproxy time version vncshell vzdump wakeonlan`)},
	{Method: "GET", Path: "/nodes/{node}/status", May: api.May("/nodes/{node}", "Sys.Audit"), Do: getNodeStatus},
	{Method: "POST", Path: "/nodes/{node}/status", May: api.May("/nodes/{node}", "Sys.PowerMgmt"), Protected: true, Do: commandNode,
		In: `command:enum(reboot,shutdown)`},
	{Method: "GET", Path: "/nodes/{node}/version", May: api.Anybody, Do: getVersion},
	{Method: "GET", Path: "/nodes/{node}/network", May: api.Anybody, Do: getNetwork,
		In: `type?:enum(bridge,bond,eth,alias,vlan,fabric,OVSBridge,OVSBond,OVSPort,OVSIntPort,vnet,any_bridge,any_local_bridge,include_sdn)`},
	{Method: "GET", Path: "/nodes/{node}/network/{iface}", May: api.May("/nodes/{node}", "Sys.Audit"), Do: getInterface},
	{Method: "GET", Path: "/nodes/{node}/lxc", May: api.Anybody, Protected: true, Do: emptyList},
	{Method: "GET", Path: "/nodes/{node}/time", May: api.May("/nodes/{node}", "Sys.Audit"), Do: getTime},
	{Method: "PUT", Path: "/nodes/{node}/time", May: api.May("/nodes/{node}", "Sys.Modify"), Protected: true, Do: setTime, In: `timezone:str`},
	{Method: "GET", Path: "/nodes/{node}/capabilities/qemu", May: api.Anybody, Do: api.Index("name", "cpu cpu-flags machines migration")},
	{Method: "GET", Path: "/nodes/{node}/capabilities/qemu/cpu", May: api.Anybody, Local: true, Do: getCPUs, In: `arch?:enum(x86_64,aarch64)`},
	{Method: "GET", Path: "/nodes/{node}/capabilities/qemu/migration", May: api.Anybody, Do: getMigrationAbilities},
	{Method: "GET", Path: "/nodes/{node}/firewall/options", May: api.May("/nodes/{node}", "Sys.Audit"), Do: emptyFirewall},
	{Method: "GET", Path: "/nodes/{node}/certificates/info", May: api.Anybody, Do: getCertificates},
	{Method: "GET", Path: "/nodes/{node}/hardware", May: api.Anybody, Local: true, Do: api.Index("type", "pci usb")},
	{Method: "GET", Path: "/nodes/{node}/hardware/pci", May: api.MayAny("/", "Sys.Audit", "Sys.Modify"), Protected: true, Do: getPCI,
		In: `pci-class-blacklist?:str verbose?:bool`},
	{Method: "GET", Path: "/nodes/{node}/hardware/usb", May: api.May("/", "Sys.Modify"), Protected: true, Do: emptyList},
	{Method: "GET", Path: "/nodes/{node}/services", May: api.May("/nodes/{node}", "Sys.Audit"), Protected: true, Do: getServices},
	{Method: "GET", Path: "/nodes/{node}/services/{service}", May: api.May("/nodes/{node}", "Sys.Audit"), Local: true,
		Do: api.Index("subdir", "reload restart start state stop")},
	{Method: "GET", Path: "/nodes/{node}/services/{service}/state", May: api.May("/nodes/{node}", "Sys.Audit"), Protected: true,
		Do: getService},
	{Method: "POST", Path: "/nodes/{node}/wakeonlan", May: api.May("/nodes/{node}", "Sys.PowerMgmt"), Protected: true, Local: true, Do: wake},
}

// digestOfNothing is that of an empty configuration file.
const digestOfNothing = "da39a3ee5e6b4b0d3255bfef95601890afd80709"

func emptyFirewall(*api.Call) (any, error) { return map[string]any{"digest": digestOfNothing}, nil }

func getCertificates(k *api.Call) (any, error) {
	return []any{map[string]any{"filename": "pve-ssl.pem", "fingerprint": fingerprint(k.World, k.Node)}}, nil
}

// nodeEntry is a host as lists have it, seen from the host that is asked.
func (k view) nodeEntry(h *world.Node) map[string]any {
	e := map[string]any{"id": "node/" + h.Name, "node": h.Name, "type": "node", "status": "unknown"}
	audit := k.World.Access.May(k.Who, "/nodes/"+h.Name, "Sys.Audit")
	online := k.Entry.Online(h)
	if r := k.World.Last(k.Entry, h); r != nil {
		e["level"] = ""
		if online {
			e["status"] = "online"
		}
		if online && audit {
			e["uptime"], e["cpu"], e["mem"], e["disk"] = r.Node.Uptime, r.Node.CPU, r.Node.Mem, r.Node.Disk
		}
		if audit {
			e["maxcpu"], e["maxmem"], e["maxdisk"] = r.Node.MaxCPU, r.Node.MaxMem, r.Node.MaxDisk
		}
	}
	if !online {
		e["status"] = "offline"
	}
	return e
}

func getNodes(k *api.Call) (any, error) {
	var all []any
	for _, h := range k.World.Nodes {
		e := view{k}.nodeEntry(h)
		e["ssl_fingerprint"] = fingerprint(k.World, h)
		all = append(all, e)
	}
	return all, nil
}

// kernel is what the emulated hosts run.
const (
	kernelRelease = "6.17.2-1-pve"
	kernelVersion = "#1 SMP PREEMPT_DYNAMIC PMX 6.17.2-1"
	cpuModel      = "Intel(R) Xeon(R) Processor"
	cpuFlags      = "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 ss ht syscall nx rdtscp lm vmx"
)

func getNodeStatus(k *api.Call) (any, error) {
	h := k.Node
	n := k.World.NodeNumbers(h, k.World.GuestsOn(h))
	version, _ := getVersion(k)
	about := version.(map[string]any)
	return map[string]any{
		"uptime": n.Uptime, "cpu": n.CPU, "wait": 0, "idle": 0,
		"loadavg": []string{load(n), load(n), load(n)},
		"cpuinfo": map[string]any{
			"cpus": h.CPUs, "cores": h.CPUs, "sockets": 1, "model": cpuModel, "vendor": "GenuineIntel", "family": "6", "mhz": "2600.000",
			"hvm": "1", "flags": cpuFlags, "user_hz": 100,
		},
		"memory":         map[string]any{"total": n.MaxMem, "used": n.Mem, "free": n.MaxMem - n.Mem, "available": n.MaxMem - n.Mem},
		"rootfs":         map[string]any{"total": n.MaxDisk, "used": n.Disk, "free": n.MaxDisk - n.Disk, "avail": n.MaxDisk - n.Disk},
		"swap":           map[string]any{"total": 0, "used": 0, "free": 0},
		"ksm":            map[string]any{"shared": 0},
		"boot-info":      map[string]any{"mode": "legacy-bios"},
		"current-kernel": map[string]any{"sysname": "Linux", "release": kernelRelease, "version": kernelVersion, "machine": "x86_64"},
		"kversion":       "Linux " + kernelRelease + " " + kernelVersion,
		"pveversion":     fmt.Sprintf("pve-manager/%s/%s", about["version"], about["repoid"]),
	}, nil
}

// load is how many processors are busy, as the kernel shows it.
func load(n world.NodeReport) string {
	return fmt.Sprintf("%.2f", n.CPU*float64(n.MaxCPU))
}

// commandNode turns the host off as soon as it has said that it will, and on again if it is to
// reboot.
func commandNode(k *api.Call) (any, error) {
	c, h, again := k.World, k.Node, k.In["command"] == "reboot"
	c.Start(func(*engine.Process) { // which is younger than the call, and so comes after it
		if again {
			c.PowerCycle(h)
			return
		}
		c.Rewire(func() { c.PowerOff(h) })
	})
	return nil, nil
}

// interfacesOf are a host's bridges and the cards that they are over.
func interfacesOf(h *world.Node) []map[string]any {
	var all []map[string]any
	for i, name := range h.Bridges {
		card := fmt.Sprintf("eno%d", i+1)
		bridge := map[string]any{
			"iface": name, "type": "bridge", "active": 1, "autostart": 1, "exists": 1, "families": []string{"inet"}, "method": "manual",
			"method6": "manual", "bridge_ports": card, "bridge_stp": "off", "bridge_fd": "0", "priority": 4 + 2*i,
		}
		if i == 0 {
			bridge["method"], bridge["address"], bridge["netmask"], bridge["cidr"] = "static", h.IP, "24", h.IP+"/24"
			bridge["gateway"] = "10.99.0.254"
		}
		all = append(all, bridge, map[string]any{
			"iface": card, "type": "eth", "active": 1, "exists": 1, "families": []string{"inet"}, "method": "manual", "method6": "manual",
			"priority": 3 + 2*i,
		})
	}
	return all
}

// getNetwork lists a host's interfaces. Bridges that the caller may not use are omitted, without a
// word.
func getNetwork(k *api.Call) (any, error) {
	all := []any{}
	for _, i := range append(interfacesOf(k.Node), vnetsOf(k)...) {
		kind, wanted := i["type"].(string), k.In["type"]
		fits := wanted == kind || wanted == "include_sdn" || wanted == "" && kind != "vnet" ||
			wanted == "any_bridge" && kind != "eth" || wanted == "any_local_bridge" && kind == "bridge"
		if fits && (kind == "eth" || (view{k}).seesNetwork(i["iface"].(string))) {
			all = append(all, i)
		}
	}
	return all, nil
}

func getInterface(k *api.Call) (any, error) {
	for _, i := range interfacesOf(k.Node) {
		if i["iface"] == k.In["iface"] {
			delete(i, "iface")
			return i, nil
		}
	}
	return nil, failure.OfParameter("iface", "interface does not exist")
}

// getPCI lists a host's network cards: they are all that it has beside what is hidden by default.
func getPCI(k *api.Call) (any, error) {
	hidden := "05;06;0b"
	if text, given := k.In["pci-class-blacklist"]; given {
		hidden = text
	}
	all := []any{}
	if slices.Contains(params.SplitList(hidden), "02") {
		return all, nil
	}
	for i := range k.Node.Bridges {
		card := map[string]any{"id": fmt.Sprintf("0000:01:00.%d", i), "class": "0x020000", "vendor": "0x8086", "device": "0x1521", "iommugroup": -1}
		if k.In["verbose"] == "" || k.In.Is("verbose") {
			card["vendor_name"], card["device_name"] = "Intel Corporation", "I350 Gigabit Network Connection"
		}
		all = append(all, card)
	}
	return all, nil
}

// services are those of a host that its page shows, with what systemd calls them.
var services = map[string]string{
	"corosync": "Corosync Cluster Engine", "cron": "Regular background program processing daemon", "postfix": "Postfix Mail Transport Agent",
	"pve-cluster": "The Proxmox VE cluster filesystem", "pve-firewall": "Proxmox VE firewall",
	"pve-ha-crm": "PVE Cluster HA Resource Manager Daemon", "pve-ha-lrm": "PVE Local HA Resource Manager Daemon", "pvedaemon": "PVE API Daemon",
	"pveproxy": "PVE API Proxy Server", "pvescheduler": "Proxmox VE scheduler", "pvestatd": "PVE Status Daemon",
	"spiceproxy": "PVE SPICE Proxy Server", "sshd": "OpenBSD Secure Shell server",
}

// service is one as the API shows it. Without a cluster there is no corosync.
func service(k *api.Call, name string) any {
	e := map[string]any{"service": name, "name": name, "desc": services[name], "state": "running", "active-state": "active", "unit-state": "enabled"}
	if name == "corosync" && len(k.World.Nodes) == 1 {
		e["state"], e["active-state"] = "dead", "inactive"
	}
	return e
}

func getServices(k *api.Call) (any, error) {
	var all []any
	for _, name := range world.Sorted(services) {
		all = append(all, service(k, name))
	}
	return all, nil
}

func getService(k *api.Call) (any, error) { return service(k, k.In["service"]), nil }

// wake says why no host is woken: no host's configuration names a card to wake it by.
func wake(k *api.Call) (any, error) {
	name := k.Vars["node"]
	switch {
	case name == "localhost" || name == k.Entry.Name:
		return nil, failure.New("'%s' is local node, cannot wake my self!", name)
	case k.World.Node(name) == nil:
		return nil, failure.New("no such cluster node '%s'", name)
	}
	return nil, failure.New("No wake on LAN MAC address defined for '%s'!", name)
}

func getTime(k *api.Call) (any, error) {
	zone := timezoneOf(k.Node)
	_, offset := k.World.Clock.In(zone).Zone()
	return map[string]any{"time": k.World.Clock.Unix(), "localtime": k.World.Clock.Unix() + int64(offset), "timezone": zone.String()}, nil
}

func setTime(k *api.Call) (any, error) {
	if _, err := time.LoadLocation(k.In["timezone"]); err != nil || k.In["timezone"] == "" {
		return nil, failure.New("timezone '%s' does not exist", k.In["timezone"])
	}
	k.Node.Zone = k.In["timezone"]
	return nil, nil
}

func timezoneOf(h *world.Node) *time.Location {
	if zone, err := time.LoadLocation(h.Zone); err == nil {
		return zone
	}
	return time.UTC
}

func getCPUs(*api.Call) (any, error) {
	var all []any
	for _, name := range params.CPUModels {
		vendor := "default"
		switch {
		case strings.HasPrefix(name, "EPYC") || strings.HasPrefix(name, "Opteron"):
			vendor = "AuthenticAMD"
		case strings.HasSuffix(name, "bridge") || strings.Contains(name, "well") || strings.Contains(name, "lake") || strings.Contains(name, "Rapids"):
			vendor = "GenuineIntel"
		}
		all = append(all, map[string]any{"name": name, "vendor": vendor, "custom": 0})
	}
	return all, nil
}

func getMigrationAbilities(*api.Call) (any, error) {
	return map[string]any{"has-dbus-vmstate": false}, nil
}
