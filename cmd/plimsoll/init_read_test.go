package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/starter"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// Another owner's template on a host that is offline is no reason to propose nothing.
func TestTemplatesOfHostsThatAreOfflineArePassedOver(t *testing.T) {
	cfg := pvesim.Config{Name: "home", Storages: []pvesim.Storage{{Name: "lvm", Type: "lvmthin", Content: []string{"images"}, Total: 100 << 30}}}
	for i, name := range []string{"pve1", "pve2", "pve3"} {
		cfg.Hosts = append(cfg.Hosts, pvesim.Host{Name: name, CPUs: 8, Memory: 32 << 30})
		cfg.VMs = append(cfg.VMs, pvesim.VM{ID: 9001 + i, Host: name, Template: true, Storage: "lvm", Disk: 8 << 30})
	}
	c, client := administered(t, cfg)
	for _, f := range must.Get(pvesim.ParseFaults("host pve3 down"))(t) {
		must.Do(t, c.Inject(f))
	}
	c.Advance(time.Minute)
	status := must.Get(client.ClusterStatus(t.Context()))(t)
	var seen starter.Seen
	var said strings.Builder
	must.Do(t, readInventory(t.Context(), &said, client, &status, &seen))
	if len(seen.Hosts) != 2 || len(seen.Templates) != 2 || said.String() != "template 9003 is not looked at: its host pve3 is offline\n" {
		t.Errorf("it sees %+v and says %q", seen, said.String())
	}
}

// administered is a cluster, and a client that may everything there.
func administered(t *testing.T, cfg pvesim.Config) (*pvesim.Cluster, *pveapi.Client) {
	c := must.Get(pvesim.New(cfg))(t)
	t.Cleanup(c.Close)
	c.Grant("/", "Administrator", "admin@pve")
	token := c.Token("admin@pve", "init", false)
	return c, must.Get(pveapi.Connect(pveapi.Connection{
		Endpoints: []string{"https://pve1:8006"}, Token: func() (string, error) { return token, nil }, Insecure: true,
		Transport: c.Transport(), Now: c.Now, Wait: func(_ context.Context, d time.Duration) error { c.Advance(d); return nil },
	}))(t)
}

// Machines may be put on a VNet: the line that grants the rights there names its zone.
func TestInitNamesTheZoneOfAVNet(t *testing.T) {
	_, client := administered(t, pvesim.Config{
		Hosts: []pvesim.Host{{Name: "pve1", CPUs: 8, Memory: 32 << 30}},
		Zones: []pvesim.Zone{{Name: "tenants", Type: "vlan", VNets: []pvesim.VNet{{Name: "red"}}}},
	})
	status := must.Get(client.ClusterStatus(t.Context()))(t)
	var seen starter.Seen
	must.Do(t, readInventory(t.Context(), io.Discard, client, &status, &seen))
	if !slices.Equal(seen.Bridges, []string{"red", "vmbr0"}) {
		t.Errorf("it sees %v", seen.Bridges)
	}
	for bridge, want := range map[string]string{"red": " --storage ceph --zone red=tenants\n", "vmbr0": " --storage ceph\n"} {
		var out strings.Builder
		p := &starter.Proposal{Seen: seen, Bridge: bridge, Template: starter.Template{Storage: "ceph"}}
		must.Do(t, (&initQuestion{}).next(&cli.Env{Stdout: &out}, p))
		if !strings.Contains(out.String(), want) {
			t.Errorf("on %s it says %s", bridge, out.String())
		}
	}
}
