package pvesim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// tenants is a zone that is on two of the three hosts, and plain is on all.
func tenants(cfg *world.Config) {
	cfg.Zones = []world.Zone{
		{Name: "tenants", Type: "vlan", Hosts: []string{"pve1", "pve2"}, VNets: []world.VNet{{Name: "red", VLANAware: true}, {Name: "blue"}}},
		{Name: "plain", Type: "simple", VNets: []world.VNet{{Name: "lab"}}},
	}
}

// Who may use a VNet sees it on hosts; whose zone it is, only who may look at settings.
func TestZonesAndVNetsShowThemselvesToThoseWhoMaySeeThem(t *testing.T) {
	r := newRig(t, tenants)
	for _, c := range []struct{ call, key, grants, want string }{
		{"/cluster/sdn/zones", "zone", "", ""},
		{"/cluster/sdn/zones", "zone", "SDN.Use@/sdn", ""},
		{"/cluster/sdn/zones", "zone", "SDN.Audit@/sdn/zones/tenants", "tenants"},
		{"/cluster/sdn/zones type=simple", "zone", "SDN.Allocate@/sdn", "plain"},
		{"/cluster/sdn/vnets", "vnet", "SDN.Use@/sdn", ""},
		{"/cluster/sdn/vnets", "vnet", "SDN.Audit@/sdn/zones/tenants/blue", "blue"},
		{"/cluster/sdn/vnets", "zone", "SDN.Audit@/sdn", "tenants tenants plain"},
		{"/nodes/pve1/network type=any_bridge", "iface", "SDN.Use@/sdn", "vmbr0 red blue lab"},
		{"/nodes/pve1/network type=any_bridge", "iface", "SDN.Use@/sdn/zones/tenants/red/5", "red"},
		{"/nodes/pve3/network type=any_bridge", "iface", "SDN.Audit@/sdn/zones", "vmbr0 lab"},
		{"/nodes/pve1/network type=any_local_bridge", "iface", "SDN.Use@/sdn", "vmbr0"},
		{"/nodes/pve1/network type=vnet", "vlanaware", "SDN.Use@/sdn", "1 0 0"},
		{"/nodes/pve1/network", "iface", "SDN.Use@/sdn", "vmbr0 eno1"},
		{"/nodes/pve2/sdn/zones/tenants/content", "vnet", "SDN.Audit@/sdn/zones/tenants", "red blue"},
		{"/nodes/pve3/sdn/zones/tenants/content", "vnet", "SDN.Audit@/sdn/zones/tenants", ""},
		{"/cluster/resources type=sdn", "network", "SDN.Audit@/sdn/zones/tenants", "tenants tenants"},
	} {
		if got := names(r.as(c.grants).must("GET "+c.call), c.key); got != c.want {
			t.Errorf("%s with %q shows %q, want %q", c.call, c.grants, got, c.want)
		}
	}
	r.as("SDN.Use@/sdn").refused("GET /nodes/pve1/sdn/zones/tenants/content", "403 Permission check failed (/sdn/zones/tenants, SDN.Audit)")
}

// Each network card asks for the right on its VNet, or on each VLAN that it may be in.
func TestVNetsAreGuardedByTheirPaths(t *testing.T) {
	r := newRig(t, tenants)
	r.AddRole("use", "SDN.Use")
	const zone = "/sdn/zones/tenants/"
	for _, c := range []struct{ card, paths string }{
		{"bridge%3Dblue", zone + "blue"},
		{"bridge%3Dred,tag%3D5", zone + "red/5"},
		{"bridge%3Dred,trunks%3D7%3B9-10", zone + "red " + zone + "red/7 " + zone + "red/9 " + zone + "red/10"},
		{"bridge%3Dred,tag%3D5,trunks%3D7", zone + "red/5 " + zone + "red/7"},
		{"bridge%3Dvmbr0,tag%3D5", "/sdn/zones/localnetwork/vmbr0/5"},
		{"bridge%3Dnowhere", "/sdn/zones/localnetwork/nowhere"},
	} {
		paths := strings.Fields(c.paths)
		// but is a client that may use all of the paths but one, and nothing below them.
		but := func(left string) *rig {
			they := r.as("VM.Clone@/vms/9001 VM.Allocate@/pool/workers VM.Config.Network@/pool/workers Datastore.AllocateSpace@/storage/shared")
			for _, path := range paths {
				if path != left {
					r.Access.Grant(path, "use", fmt.Sprintf("user%d@pve", r.grants), false)
				}
			}
			return they
		}
		r.must("PUT /nodes/pve1/qemu/9001/config net0=virtio," + c.card)
		clone := "POST /nodes/pve1/qemu/9001/clone newid=200 pool=workers"
		set := "PUT /nodes/pve1/qemu/200/config net0=virtio," + c.card
		for _, path := range paths {
			but(path).refused(clone, "403 Permission check failed ("+path+", SDN.Use)")
		}
		but("").does(clone)
		for _, path := range paths {
			but(path).refused(set, "403 Permission check failed ("+path+", SDN.Use)")
		}
		but("").must(set)
		r.does("DELETE /nodes/pve1/qemu/200")
	}
}

// A host starts no machine on a VNet that it does not have, or in a VLAN of one that knows none.
func TestMachinesStartOnVNetsThatTheHostHas(t *testing.T) {
	r := newRig(t, tenants)
	for _, c := range []struct{ host, card, exit string }{
		{"pve1", "bridge%3Dred,tag%3D5", "OK"},
		{"pve1", "bridge%3Dblue", "OK"},
		{"pve1", "bridge%3Dblue,tag%3D5", "vm vlans are not allowed on vnet blue"},
		{"pve1", "bridge%3Dblue,trunks%3D5", "vm vlans are not allowed on vnet blue"},
		{"pve3", "bridge%3Dblue", "bridge 'blue' does not exist"},
		{"pve3", "bridge%3Dlab", "OK"},
	} {
		r.does("POST /nodes/" + c.host + "/qemu vmid=100 net0=virtio," + c.card)
		r.ends(r.start("POST /nodes/"+c.host+"/qemu/100/status/start"), c.exit)
		if c.exit == "OK" {
			r.does("POST /nodes/" + c.host + "/qemu/100/status/stop")
		}
		r.does("DELETE /nodes/" + c.host + "/qemu/100")
	}
}

func TestZonesThatCannotBeAreRefused(t *testing.T) {
	cfg := world.Config{
		Hosts: []world.Host{{Name: "pve1", CPUs: 1, Memory: 1, Bridges: []string{"vmbr0"}}},
		Zones: []world.Zone{
			{Name: "tenants", Type: "vlan", VNets: []world.VNet{{Name: "red"}, {Name: "red"}, {Name: "vmbr0"}}},
			{Name: "localnetwork", Type: "bond", Hosts: []string{"pve9"}},
		},
	}
	const rule = ".name: must be 2 to 8 small letters and digits, a letter first, and be there once, was "
	want := "zones[0].vnets[1]" + rule + `"red"` + "\nzones[0].vnets[2]" + rule + `"vmbr0"` + "\nzones[1]" + rule + `"localnetwork"` +
		"\nzones[1].type: must be one of [simple vlan qinq vxlan evpn], was \"bond\"\nzones[1].hosts: must be of [pve1], was pve9"
	if err := cfg.Validate(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
