package settings

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// anyPool draws pools of which about a third are valid. What two keys say of a node is drawn twice.
func anyPool() *rapid.Generator[Pool] {
	of := func(values ...string) *rapid.Generator[string] { return rapid.SampledFrom(values) }
	labels := rapid.MapOfN(of("disk", "disk", "disk", "tier", "tier", "example.com/a", "example.com/a", "a..b/c", "kubernetes.io/arch", "kubernetes.io/hostname",
		"node-role.kubernetes.io/worker", "node.kubernetes.io/x", labelZone, labelRegion, labelShape, labelPool), of("a", "a", "a", "a", "b", "rack1", "home", "b c"), 0, 1)
	taints := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Taint {
		return Taint{of("team", "team", "a", "b", "c", "a/b/c").Draw(t, "key"), of("x", "x", "x", "y").Draw(t, "value"), of("NoSchedule", "NoExecute").Draw(t, "effect")}
	}), 0, 2)
	return rapid.Custom(func(t *rapid.T) Pool {
		p := aPool()
		p.VMIDs.Last = p.VMIDs.First + rapid.IntRange(4, 300).Draw(t, "more VMIDs")
		if rapid.Bool().Draw(t, "another shape") {
			p.Shapes = append(p.Shapes, pricing.Shape{Name: of("large", "large", "large", "a", "x y").Draw(t, "shape"), CPU: 4000, Memory: 8 * pricing.GiB})
		}
		p.Placement.Hosts = rapid.SliceOfNDistinct(of("pve1", "pve2", "pve3", "pve4", "pve5", "pve6.example"), 0, 2, rapid.ID).Draw(t, "hosts")
		p.Labels, p.Taints = labels.Draw(t, "labels"), taints.Draw(t, "taints")
		p.Region, p.Zone = of("home", "home", "home", "home", "home", "").Draw(t, "region"), of("", "", "rack1", "rack1", "rack1", "a", "r 1").Draw(t, "zone")
		if rapid.IntRange(0, 2).Draw(t, "static") == 2 {
			first := netip.MustParsePrefix(of("10.0.0.0/16", "10.0.0.50/24", "10.0.0.1/16", "10.0.1.0/16", "10.0.254.0/16", "10.0.0.5/7").Draw(t, "first"))
			p.Network = Addressing{First: first, Gateway: netip.MustParseAddr(of("10.0.99.1", "10.0.99.1", "10.0.0.254").Draw(t, "gateway")),
				Search: of("", "", "example.com", "example.com", "Example.com").Draw(t, "search")}
		}
		p.Join = anyJoin(labels, taints).Draw(t, "join")
		if p.NeedsDisc() {
			p.ISO.Storage = "local"
		}
		return p
	})
}

func anyJoin(labels *rapid.Generator[map[string]string], taints *rapid.Generator[[]Taint]) *rapid.Generator[firstboot.Profile] {
	return rapid.Custom(func(t *rapid.T) firstboot.Profile {
		j := firstboot.Profile{ProviderID: firstboot.ProviderID{Scheme: rapid.SampledFrom([]firstboot.Scheme{firstboot.SchemeProxmox, firstboot.SchemeUUID}).Draw(t, "scheme")}}
		switch j.Kind = rapid.SampledFrom([]firstboot.Kind{firstboot.RKE2, firstboot.Custom, "native"}).Draw(t, "kind"); j.Kind {
		case "native":
			j.Kind = firstboot.Custom
			return j
		case firstboot.Custom:
			j.UserDataTemplate = rapid.SampledFrom([]firstboot.Secret{"{{.Name}}", "{{.Name}}", "x {{.Labels.disk}}", "x {{.Missing}}", `{{join .NodeLabels ","}}`}).Draw(t, "template")
		default:
			j.Servers, j.Token = []string{"10.0.0.1"}, "token"
		}
		j.Labels, j.TopologyLabels = labels.Draw(t, "labels"), rapid.Bool().Draw(t, "topologyLabels")
		for _, taint := range taints.Draw(t, "taints") {
			j.Taints = append(j.Taints, firstboot.Taint(taint))
		}
		return j
	})
}

// What a pool's validation lets pass makes every machine's first boot: none is cloned in vain.
func TestValidPoolsMakeFirstBoots(t *testing.T) {
	valid, refused := 0, map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		p := anyPool().Draw(t, "pool")
		if err := p.Validate(); err != nil {
			refused[err.(interface{ Unwrap() []error }).Unwrap()[0].(interface{ Path() string }).Path()]++ //nolint:errorlint // it is never wrapped
			return
		}
		valid++
		m := MachineOf{Name: p.Name + "-mtim7pc0-0", UUID: anyUUID, MAC: "bc:24:11:00:00:01"}
		whole := p.Complete()
		m.Shape = rapid.SampledFrom(p.Shapes).Draw(t, "of shape").Name
		m.VMID = rapid.OneOf(rapid.SampledFrom([]int{p.VMIDs.First, p.VMIDs.Last}), rapid.IntRange(p.VMIDs.First, p.VMIDs.Last)).Draw(t, "VMID")
		m.Host = rapid.SampledFrom(append(slices.Clone(p.Placement.Hosts), "pve1")).Draw(t, "on host")
		if err := makeFirstBoot(&whole, whole.FirstBoot(m)); err != nil {
			t.Fatalf("a valid pool's machine is refused: %v\n%+v", err, p)
		}
	})
	if valid < 5 || len(refused) < 5 {
		t.Errorf("%d valid pools, and refused for %v: that proves little", valid, slices.Sorted(maps.Keys(refused)))
	}
}

// makeFirstBoot makes what a machine is given for its first boot.
func makeFirstBoot(p *Pool, m firstboot.Machine) error {
	if !p.NeedsDisc() {
		_, err := p.Join.Native(m)
		return err
	}
	files, err := p.Join.UserData(m)
	if err == nil {
		_, err = firstboot.Disc(files, time.Unix(1_800_000_000, 0))
	}
	return err
}
