package pvesim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// names are what a list's entries are called by a key.
func names(list any, key string) string {
	var all []string
	for _, e := range list.([]any) {
		all = append(all, fmt.Sprint(e.(map[string]any)[key]))
	}
	return strings.Join(all, " ")
}

func TestBridgesShowThemselvesToThoseWhoMayUseThem(t *testing.T) {
	l := newLab(t, func(cfg *world.Config) { cfg.Hosts[0].Bridges = []string{"vmbr0", "vmbr1"} })
	l.must("POST /access/users userid=auto@pve")
	l.must("PUT /access/acl path=/sdn/zones/localnetwork/vmbr1 roles=PVESDNUser users=auto@pve")
	for _, c := range []struct{ path, root, auto string }{
		{"/nodes/pve1/network", "vmbr0 eno1 vmbr1 eno2", "eno1 vmbr1 eno2"},
		{"/nodes/pve1/network?type=bridge", "vmbr0 vmbr1", "vmbr1"},
		{"/nodes/pve1/network?type=any_bridge", "vmbr0 vmbr1", "vmbr1"},
		{"/nodes/pve1/network?type=eth", "eno1 eno2", "eno1 eno2"},
		{"/nodes/pve2/network?type=bridge", "vmbr0", ""},
	} {
		if got := names(l.must("GET "+c.path), "iface"); got != c.root {
			t.Errorf("%s shows root %s, want %s", c.path, got, c.root)
		}
		root := l.root
		l.root = l.Token("auto@pve", "t1", false)
		if got := names(l.must("GET "+c.path), "iface"); got != c.auto {
			t.Errorf("%s shows a user %s, want %s", c.path, got, c.auto)
		}
		l.root = root
	}
	if one := l.must("GET /nodes/pve1/network/vmbr0").(map[string]any); one["type"] != "bridge" || one["cidr"] != "10.99.0.1/24" || one["iface"] != nil {
		t.Errorf("one alone is %v", one)
	}
	if s := l.tell("GET /nodes/pve1/network/vmbr7"); s.status != "400 Parameter verification failed." {
		t.Errorf("one that is not there: %s", s.status)
	}
}

// Who has no rights is shown next to nothing, and no error.
func TestListsAreSilentAboutWhatMayNotBeSeen(t *testing.T) {
	l := newLab(t, nil)
	l.must("POST /access/users userid=auto@pve")
	l.must("PUT /access/acl path=/vms/201 roles=PVEAuditor users=auto@pve")
	l.root = l.Token("auto@pve", "t1", false)
	if got := names(l.must("GET /cluster/resources"), "id"); got != "qemu/201 node/pve1 node/pve2 node/pve3" {
		t.Errorf("resources are %s", got)
	}
	stub := map[string]any{"id": "node/pve1", "node": "pve1", "type": "node", "status": "online", "level": "", "cgroup-mode": 2.0}
	if diff := cmp.Diff(stub, l.find("GET /cluster/resources", "node/pve1")); diff != "" {
		t.Error(diff)
	}
	if got := names(l.must("GET /nodes/pve1/qemu"), "vmid"); got != "201" {
		t.Errorf("machines are %s", got)
	}
	for _, path := range []string{"/nodes/pve1/storage", "/storage", "/cluster/tasks", "/cluster/log"} {
		if all := l.must("GET " + path).([]any); len(all) != 0 {
			t.Errorf("%s shows %v", path, all)
		}
	}
	if diff := cmp.Diff(map[string]any{"allowed-tags": []any{}}, l.must("GET /cluster/options")); diff != "" {
		t.Error(diff)
	}
	for _, path := range []string{"/cluster/status", "/nodes/pve1/status", "/nodes/pve1/time", "/cluster/ha/status/current"} {
		if s := l.tell("GET " + path); !strings.HasPrefix(s.status, "403 Permission check failed (") {
			t.Errorf("%s: %s", path, s.status)
		}
	}
}

// Clients that describe a whole cluster read lists of what no emulated one has. Anyone may.
func TestWhatNoClusterHasIsListedAsEmpty(t *testing.T) {
	l := newLab(t, nil)
	l.must("POST /access/users userid=auto@pve")
	l.root = l.Token("auto@pve", "t1", false)
	for line, want := range map[string]string{
		"GET /cluster/mapping":                     "[map[name:dir] map[name:pci] map[name:usb]]",
		"GET /cluster/mapping/dir":                 "[]",
		"GET /cluster/mapping/pci?check-node=pve2": "[]",
		"GET /cluster/mapping/usb":                 "[]",
		"GET /cluster/sdn/zones?type=vlan":         "[]",
		"GET /cluster/sdn/vnets?pending=1":         "[]",
		"GET /nodes/pve2/certificates/info":        fmt.Sprintf("[map[filename:pve-ssl.pem fingerprint:%s]]", l.find("GET /nodes", "node/pve2")["ssl_fingerprint"]),
	} {
		if got := fmt.Sprint(l.must(line)); got != want {
			t.Errorf("%s shows %s, want %s", line, got, want)
		}
	}
	if s := l.tell("GET /cluster/sdn/zones?type=bond"); s.status != "400 Parameter verification failed." {
		t.Errorf("a type that there is not: %s", s.status)
	}
}

// What is asked of hosts and of the cluster by clients that describe them whole.
func TestHostsShowHardwareServicesAndHowToJoin(t *testing.T) {
	l := newLab(t, func(cfg *world.Config) { cfg.Hosts[1].Bridges = []string{"vmbr0", "vmbr1"} })
	for line, want := range map[string]string{
		"GET /nodes/pve2/hardware":                                    "[map[type:pci] map[type:usb]]",
		"GET /nodes/pve2/hardware/usb":                                "[]",
		"GET /nodes/pve2/hardware/pci?pci-class-blacklist=02":         "[]",
		"GET /nodes/pve2/services/pveproxy":                           "[map[subdir:reload] map[subdir:restart] map[subdir:start] map[subdir:state] map[subdir:stop]]",
		"GET /cluster/config":                                         "[map[name:nodes] map[name:totem] map[name:join] map[name:qdevice] map[name:apiversion]]",
		"GET /nodes/pve1/hardware/pci?pci-class-blacklist=&verbose=0": "[map[class:0x020000 device:0x1521 id:0000:01:00.0 iommugroup:-1 vendor:0x8086]]",
	} {
		if got := fmt.Sprint(l.must(line)); got != want {
			t.Errorf("%s shows %s, want %s", line, got, want)
		}
	}
	if got := names(l.must("GET /nodes/pve2/hardware/pci"), "id"); got != "0000:01:00.0 0000:01:00.1" {
		t.Errorf("its cards are %s", got)
	}
	if got := names(l.must("GET /nodes/pve2/services"), "service"); !strings.HasPrefix(got, "corosync cron postfix pve-cluster") {
		t.Errorf("its services are %s", got)
	}
	running := map[string]any{
		"service": "pvedaemon", "name": "pvedaemon", "desc": "PVE API Daemon", "state": "running", "active-state": "active", "unit-state": "enabled",
	}
	if diff := cmp.Diff(running, l.must("GET /nodes/pve2/services/pvedaemon/state")); diff != "" {
		t.Error(diff)
	}
	join := l.must("GET /cluster/config/join?node=pve2").(map[string]any)
	second := map[string]any{
		"name": "pve2", "nodeid": "2", "quorum_votes": "1", "ring0_addr": "10.99.0.2", "pve_addr": "10.99.0.2",
		"pve_fp": l.find("GET /nodes", "node/pve2")["ssl_fingerprint"],
	}
	if diff := cmp.Diff(second, join["nodelist"].([]any)[1]); diff != "" || join["preferred_node"] != "pve2" || len(join["config_digest"].(string)) != 40 {
		t.Errorf("to join: %v\n%s", join, diff)
	}
	for line, want := range map[string]string{
		"GET /nodes/pve2/services/nginx/state": "400 Parameter verification failed.",
		"GET /cluster/config/join?node=pve9":   "500 unknown node 'pve9'",
		"POST /nodes/pve1/wakeonlan":           "500 'pve1' is local node, cannot wake my self!",
		"POST /nodes/pve2/wakeonlan":           "500 No wake on LAN MAC address defined for 'pve2'!",
		"POST /nodes/pve9/wakeonlan":           "500 no such cluster node 'pve9'",
	} {
		if s := l.tell(line); s.status != want {
			t.Errorf("%s: %s, want %s", line, s.status, want)
		}
	}
}

// A host without a cluster has nothing to join and no corosync that runs.
func TestHostsAloneHaveNothingToJoin(t *testing.T) {
	l := newLab(t, func(cfg *world.Config) { cfg.Hosts, cfg.VMs = cfg.Hosts[:1], nil })
	if s := l.tell("GET /cluster/config/join"); s.status != "424 node is not in a cluster, no join info available!" {
		t.Errorf("to join: %s", s.status)
	}
	if got := l.must("GET /nodes/pve1/services/corosync/state").(map[string]any); got["state"] != "dead" {
		t.Errorf("corosync is %v", got)
	}
}

func TestHostsKeepTheirTimeZones(t *testing.T) {
	l := newLab(t, func(cfg *world.Config) { cfg.Start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) })
	l.must("PUT /nodes/pve2/time timezone=Europe/Vienna")
	for host, want := range map[string]float64{"pve1": 0, "pve2": 7200} {
		at := l.must("GET /nodes/" + host + "/time").(map[string]any)
		if off := at["localtime"].(float64) - at["time"].(float64); off != want || at["time"] != 1782907200.0 {
			t.Errorf("%s says %v", host, at)
		}
	}
	if s := l.tell("PUT /nodes/pve2/time timezone=Moon/Tycho"); s.status != "500 timezone 'Moon/Tycho' does not exist" {
		t.Errorf("a zone that is not there: %s", s.status)
	}
}

func TestOlderReleasesTellLessInLists(t *testing.T) {
	l := newLab(t, func(cfg *world.Config) { cfg.Release = "8.4.1" })
	if e := l.find("GET /cluster/resources", "qemu/201"); e["mem"] == nil || e["memhost"] != nil {
		t.Errorf("a machine is listed as %v", e)
	}
	if e := l.find("GET /cluster/resources?type=sdn", "sdn/pve1/localnetwork"); e["type"] != "sdn" || e["status"] != "ok" {
		t.Errorf("a zone is listed as %v", e)
	}
	if e := l.find("GET /cluster/ha/status/current", "fencing"); e != nil {
		t.Errorf("fencing is told of as %v", e)
	}
}

func TestStatusOfAHostCountsItsMachines(t *testing.T) {
	l := newLab(t, nil)
	used := func() float64 {
		return l.must("GET /nodes/pve1/status").(map[string]any)["memory"].(map[string]any)["used"].(float64)
	}
	before := used()
	l.ended("POST /nodes/pve1/qemu/201/status/stop")
	if freed := before - used(); freed != 128<<20 {
		t.Errorf("a machine with 512 MiB that is idle gave %.0f bytes back", freed)
	}
}

func TestTheLogTellsOfTasks(t *testing.T) {
	l := newLab(t, nil)
	l.inject("fail stop")
	l.ended(clone + "400")
	l.ended("POST /nodes/pve1/qemu/201/status/stop")
	all := l.must("GET /cluster/log?max=2").([]any)
	if len(all) != 2 {
		t.Fatalf("it has %d lines", len(all))
	}
	last, first := all[0].(map[string]any), all[1].(map[string]any)
	if msg := last["msg"].(string); !strings.HasPrefix(msg, "end task UPID:pve1:") || !strings.HasSuffix(msg, "lock-201.conf' - got timeout") || last["pri"] != 3.0 {
		t.Errorf("the last line is %v", last)
	}
	if msg := first["msg"].(string); !strings.HasPrefix(msg, "starting task UPID:pve1:") || first["pri"] != 6.0 || first["user"] != "root@pam!t1" {
		t.Errorf("the line before is %v", first)
	}
}

func TestTagsThatMayBeGivenFollowFromTheOptions(t *testing.T) {
	l := newLab(t, nil)
	l.must("POST /access/users userid=auto@pve")
	l.must("PUT /access/acl path=/vms roles=PVEAuditor users=auto@pve")
	l.must("PUT /nodes/pve1/qemu/201/config tags=blue;red")
	l.must("PUT /cluster/options registered-tags=red;gold")
	root, auto := l.root, l.Token("auto@pve", "t1", false)
	for access, want := range map[string][2]string{
		"user-allow=free":                             {"[blue gold red]", "[blue]"},
		"user-allow=existing,user-allow-list=x;y":     {"[blue gold red x y]", "[blue x y]"},
		"user-allow=list,user-allow-list=x;gold":      {"[blue gold red x]", "[x]"},
		"user-allow=none,user-allow-list=x":           {"[blue gold red x]", "[]"},
		"user-allow=existing,user-allow-list=red;red": {"[blue gold red]", "[blue]"},
	} {
		l.root = root
		l.must("PUT /cluster/options user-tag-access=" + access)
		for i, who := range []string{root, auto} {
			l.root = who
			got := l.must("GET /cluster/options").(map[string]any)["allowed-tags"]
			if fmt.Sprint(got) != want[i] {
				t.Errorf("%s: %s may give %v, want %s", access, strings.SplitN(who, "!", 2)[0], got, want[i])
			}
		}
	}
}
