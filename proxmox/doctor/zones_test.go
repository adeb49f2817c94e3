package doctor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/plimsoll/plimsoll/proxmox/doctor"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
	"pgregory.net/rapid"
)

// onVNets gives a cluster zones with VNets, and its template these network cards.
func onVNets(cards ...string) func(*pvesim.Config) {
	return func(cfg *pvesim.Config) {
		cfg.Zones = []pvesim.Zone{
			{Name: "tenants", Type: "vlan", VNets: []pvesim.VNet{{Name: "red", VLANAware: true}, {Name: "blue"}}},
			{Name: "plain", Type: "simple", VNets: []pvesim.VNet{{Name: "lab"}}},
		}
		for i, card := range cards {
			cfg.VMs[0].Config[fmt.Sprint("net", i)] = "virtio=BC:24:11:00:00:0" + fmt.Sprint(i) + "," + card
		}
	}
}

// needsOf are what an administrator would read of the cluster, and what the site needs there.
func needsOf(t tester, c *pvesim.Cluster, site *settings.Site) []doctor.Need {
	root := connect(t, c, c.Token("root@pam", "eyes", false))
	config := must.Get(root.VM("pve1", 9000).Config(t.Context()))(t)
	zones := must.Get(root.Zones(t.Context()))(t)
	return doctor.Needs(site, doctor.Release9, map[int]pveapi.Parts{9000: config.Parts()}, zones)
}

// onNetworks are the paths of networks among the needs.
func onNetworks(needs []doctor.Need) []string {
	var all []string
	for _, n := range needs {
		if n.Role == pveapi.RoleNetwork {
			all = append(all, n.Path)
		}
	}
	slices.Sort(all)
	return all
}

// A life on VNets takes the rights that setup gives, and each of them.
func TestEveryRightOnAVNetIsNeededAndNoMore(t *testing.T) {
	const zone = "/sdn/zones/tenants/"
	for _, test := range []struct {
		name   string
		bridge string
		vlan   int
		cards  []string
		want   []string
	}{
		{"a VNet", "blue", 0, []string{"bridge=blue"}, []string{zone + "blue"}},
		{"a VNet for machines, and a bridge for the template", "lab", 0, []string{"bridge=vmbr0,tag=4"}, []string{"/sdn/zones/localnetwork/vmbr0/4", "/sdn/zones/plain/lab"}},
		{"a tag", "red", 6, []string{"bridge=red,tag=5"}, []string{zone + "red/5", zone + "red/6"}},
		{"trunks", "red", 0, []string{"bridge=red,trunks=7;9-10"}, []string{zone + "red", zone + "red/10", zone + "red/7", zone + "red/9"}},
		{"trunks that follow to another network", "red", 6, []string{"bridge=vmbr0,trunks=7"}, []string{"/sdn/zones/localnetwork/vmbr0", "/sdn/zones/localnetwork/vmbr0/7", zone + "red/6", zone + "red/7"}},
		{"two cards", "vmbr1", 0, []string{"bridge=lab", "bridge=red,tag=3"}, []string{"/sdn/zones/localnetwork/vmbr1", "/sdn/zones/plain/lab", zone + "red/3"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			site := household()
			site.Pools[0].Bridge, site.Pools[0].VLAN = test.bridge, test.vlan
			needs := needsOf(t, furnished(t, "9.2.11", onVNets(test.cards...)), site)
			if diff := cmp.Diff(test.want, onNetworks(needs)); diff != "" {
				t.Fatal(diff)
			}
			for _, left := range append(test.want, "") {
				c := furnished(t, "9.2.11", onVNets(test.cards...))
				token := setUpFor(t, c.Console(), site, needs, func(line string) bool {
					return left != "" && strings.HasPrefix(line, "pveum acl modify "+left+" ")
				})
				err := lives(t, c, site, token)
				if (err == nil) != (left == "") {
					t.Errorf("without %q: %v", left, err)
				}
				if left == "" {
					noneForbidden(t, c)
				} else if got := lacking(t, c, needs, token); !slices.Equal(got, []string{left + " SDN.Use"}) {
					t.Errorf("without %q it is said to lack %q", left, got)
				}
			}
		})
	}
}

// The rights on VNets suffice to know their zones, although they do not show them.
func TestDoctorKnowsTheZonesThatRightsWereGivenOn(t *testing.T) {
	k := newClinic(t, onVNets("bridge=red,tag=5,trunks=7", "bridge=blue"))
	k.site.Pools[0].Bridge, k.site.Pools[0].VLAN = "red", 6
	setUpFor(t, k.shell, k.site, needsOf(t, k.c, k.site), nil)
	if diff := cmp.Diff("", k.complaints(k.examine(), doctor.Warn, doctor.Fail, doctor.Skipped)); diff != "" {
		t.Error(diff)
	}
}

// For all cards and networks of pools, the server asks for the rights on networks that
// setup gives: clone and configuration are refused without any of them, and for no other.
func TestRightsOnNetworksAreThoseThatTheServerAsksFor(t *testing.T) {
	vlan := func(t *rapid.T, label string) string {
		return rapid.SampledFrom([]string{"", ",tag=2", ",trunks=3", ",trunks=3;5-6", ",tag=2,trunks=2-4"}).Draw(t, label)
	}
	rapid.Check(t, func(t *rapid.T) {
		networks := rapid.SampledFrom([]string{"vmbr0", "red", "blue", "lab"})
		var cards []string
		for i := range rapid.IntRange(1, 3).Draw(t, "cards") {
			cards = append(cards, "bridge="+networks.Draw(t, fmt.Sprint("net", i))+vlan(t, fmt.Sprint("vlans", i)))
		}
		site := household()
		site.Pools[0].Bridge, site.Pools[0].VLAN = networks.Draw(t, "bridge"), rapid.IntRange(0, 2).Draw(t, "vlan")
		c := furnished(t, "9.2.11", onVNets(cards...))
		needs := needsOf(t, c, site)
		left := rapid.SampledFrom(append(onNetworks(needs), "")).Draw(t, "left")
		token := setUpFor(t, c.Console(), site, needs, func(line string) bool {
			return left != "" && strings.HasPrefix(line, "pveum acl modify "+left+" ")
		})
		if err := cloned(t, c, site, token); (err == nil) != (left == "") || err != nil && !strings.Contains(err.Error(), "("+left+", SDN.Use)") {
			t.Fatalf("without %q: %v", left, err)
		}
	})
}

// cloned makes a machine of the template, and puts it on the pool's network.
func cloned(t tester, c *pvesim.Cluster, site *settings.Site, token string) error {
	ctx := t.Context()
	client, p := connect(t, c, token), &site.Pools[0]
	template := must.Get(client.VM("pve1", 9000).Config(ctx))(t)
	upid, err := client.VM("pve1", 9000).Clone(ctx, pveapi.CloneOptions{NewID: 5000, Pool: p.PVEPool})
	if err != nil {
		return err
	}
	if _, err := client.WaitTask(ctx, upid); err != nil {
		return err
	}
	card := "virtio,bridge=" + p.Bridge
	if p.VLAN != 0 {
		card += fmt.Sprint(",tag=", p.VLAN)
	}
	if trunks := template.Parts().Trunks; trunks != "" {
		card += ",trunks=" + trunks
	}
	return client.VM("pve1", 5000).SetConfig(ctx, map[string]string{"net0": card}, nil, "")
}
