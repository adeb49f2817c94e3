package firstboot

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestProviderIDsOfEveryScheme(t *testing.T) {
	m := machine()
	uuid := strings.ToLower(m.UUID)
	for _, c := range []struct {
		id   ProviderID
		want string
		says Machine
	}{
		{ProviderID{Scheme: SchemeProxmox}, "proxmox://cluster-1/5001", Machine{Region: m.Region, VMID: m.VMID}},
		{ProviderID{Scheme: SchemeUUID}, "proxmox://" + uuid, Machine{UUID: uuid}},
		{ProviderID{Scheme: SchemeRKE2}, "rke2://web-mtim7pc0-0", Machine{Name: m.Name}},
		{ProviderID{Scheme: SchemeK3s}, "k3s://web-mtim7pc0-0", Machine{Name: m.Name}},
		{ProviderID{Scheme: SchemeTalos}, "talos://nocloud/web-mtim7pc0-0", Machine{Name: m.Name}},
		{
			ProviderID{Scheme: SchemeTemplate, Template: "lab://{region}/{host}/{vmid}/{uuid}/{name}"},
			"lab://cluster-1/pve1/5001/" + uuid + "/web-mtim7pc0-0",
			Machine{Name: m.Name, Host: m.Host, Region: m.Region, UUID: uuid, VMID: m.VMID},
		},
	} {
		got, err := c.id.Of(m)
		if err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.id.Scheme, got, err, c.want)
		}
		says, err := c.id.Parse(got)
		if diff := cmp.Diff(c.says, says); err != nil || diff != "" {
			t.Errorf("%s says of its machine: %v (-want +got):\n%s", got, err, diff)
		}
	}
}

func TestProviderIDsThatCannotBeReadAreErrors(t *testing.T) {
	for _, c := range []struct {
		id   ProviderID
		read string
		want string
	}{
		{ProviderID{Scheme: SchemeProxmox}, "proxmox://cluster-1/99", `provider id: must be proxmox://{region}/{vmid}, was "proxmox://cluster-1/99"`},
		{ProviderID{Scheme: SchemeProxmox}, "rke2://web-0", `provider id: must be proxmox://{region}/{vmid}, was "rke2://web-0"`},
		{ProviderID{Scheme: SchemeRKE2}, "", `provider id: must be rke2://{name}, was ""`},
		{ProviderID{Scheme: SchemeTemplate, Template: "a://{name}-{vmid}"}, "a://web-1-500", ""},
		{ProviderID{Scheme: SchemeTemplate, Template: "a://{name}{vmid}"}, "a://web15001", `provider id: must have one reading as a://{name}{vmid}, was "a://web15001" with name "web" or "web1"`},
		{ProviderID{Scheme: SchemeTemplate, Template: "a://{host}-{name}"}, "a://a-b-c", `provider id: must have one reading as a://{host}-{name}, was "a://a-b-c" with host "a" or "a-b"`},
		{ProviderID{Scheme: SchemeTemplate, Template: `a://.\E{name}`}, `a://.\Eb`, ""},
		{ProviderID{Scheme: "x"}, "x://y", `scheme: must be one of proxmox, rke2, k3s, talos, uuid, template, was "x"`},
	} {
		_, err := c.id.Parse(c.read)
		if got := strings.Join(faultLines(err), "\n"); got != c.want {
			t.Errorf("%q: %s, want %s", c.read, got, c.want)
		}
	}
}

func TestFaultsOfProviderIDs(t *testing.T) {
	for template, want := range map[string]string{
		"":                 `template: must be a name of lower-case letters, :// and a text without blanks, was ""` + "\n" + `template: must have {name}, {vmid} or {uuid}, for no two nodes may share an id, was ""`,
		"{name}":           `template: must be a name of lower-case letters, :// and a text without blanks, was "{name}"`,
		"a://{region}":     `template: must have {name}, {vmid} or {uuid}, for no two nodes may share an id, was "a://{region}"`,
		"a://{name}/{nam}": `template: must have no placeholders but {name}, {vmid}, {region}, {uuid} and {host}, has {nam}, was "a://{name}/{nam}"`,
		"a://{name}/{":     `template: must close every brace that it opens, was "a://{name}/{"`,
		"a://{name}{name}": `template: must have each placeholder once, has more of {name}, was "a://{name}{name}"`,
		"a://{name}":       "",
	} {
		err := ProviderID{Scheme: SchemeTemplate, Template: template}.Validate()
		if got := strings.Join(faultLines(err), "\n"); got != want {
			t.Errorf("%q: %s, want %s", template, got, want)
		}
	}
	err := ProviderID{Scheme: SchemeRKE2, Template: "a://{name}"}.Validate()
	if want := `template: must be absent with scheme rke2, was "a://{name}"`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = ProviderID{Scheme: SchemeTemplate, Template: "a://{host}/{uuid}"}.Of(Machine{Name: "a"})
	want := []string{
		`machine.host: must be known for a provider id with it, was ""`,
		`machine.uuid: must be known for a provider id with it, was ""`,
	}
	if diff := cmp.Diff(want, faultLines(err)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestSchemesAreToldByTheLookOfAnID(t *testing.T) {
	for id, want := range map[string]Scheme{
		"proxmox://cluster-1/123": SchemeProxmox, "proxmox://87f457b7-a7a0-4aa6-9a07-19d06a3596a1": SchemeUUID,
		"rke2://web-0": SchemeRKE2, "k3s://web-0": SchemeK3s, "talos://nocloud/10.0.0.5": SchemeTalos, "talos://nocloud/web-0": SchemeTalos,
		"": "", "aws:///eu/i-1": "", "proxmox://web-0": "", "rke2://": "", "talos://": "",
	} {
		got, known := SchemeOf(id)
		if got != want || known != (want != "") {
			t.Errorf("%q: %q %v, want %q", id, got, known, want)
		}
	}
}

func TestMismatchesAreExplained(t *testing.T) {
	for _, c := range []struct{ planned, actual, want string }{
		{"rke2://a", "rke2://a", ""},
		{"rke2://a", "", "planned as rke2://a, the node has no provider id"},
		{"rke2://a", "rke2://b", "planned as rke2://a, the node is rke2://b"},
		{"lab://a", "other://a", "planned as lab://a, the node is other://a"},
		{
			"proxmox://c/100", "rke2://a",
			"planned as proxmox://c/100, the node is rke2://a: an id of scheme rke2, such as is set by RKE2's own cloud controller, " +
				"which disable-cloud-controller switches off; set the pool's providerID.scheme to rke2, or keep that from setting ids",
		},
	} {
		if got := Mismatch(c.planned, c.actual); got != c.want {
			t.Errorf("%s and %s: %s, want %s", c.planned, c.actual, got, c.want)
		}
	}
}

// What an id says of a machine is so, or the id is said to be read in two ways.
func TestLawProviderIDsAreReadBackOrRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Machine{
			Name:   rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,5}[a-z0-9])?`).Draw(t, "name"),
			Host:   rapid.StringMatching(`[A-Za-z0-9]([-A-Za-z0-9]{0,5}[A-Za-z0-9])?`).Draw(t, "host"),
			Region: rapid.StringMatching(`[A-Za-z0-9]([-A-Za-z0-9_.]{0,5}[A-Za-z0-9])?`).Draw(t, "region"),
			UUID:   rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`).Draw(t, "uuid"),
			VMID:   rapid.IntRange(100, 999_999_999).Draw(t, "vmid"),
		}
		fields := rapid.Permutation([]string{"{name}", "{host}", "{region}", "{uuid}", "{vmid}"}).Draw(t, "fields")
		fields = fields[:rapid.IntRange(1, len(fields)).Draw(t, "n")]
		id := ProviderID{Scheme: SchemeTemplate, Template: "x://" + strings.Join(fields, rapid.SampledFrom([]string{"/", "-", "", ":"}).Draw(t, "between"))}
		if id.Validate() != nil {
			t.Skip("no field that tells machines apart")
		}
		text := must.Get(id.Of(m))(t)
		said, err := id.Parse(text)
		if err != nil {
			if strings.Contains(id.Template, "}/{") || strings.Contains(id.Template, "}:{") || len(fields) == 1 {
				t.Fatalf("%s has one reading: %v", text, err)
			}
			return
		}
		for field, same := range map[string]bool{
			"{name}": said.Name == m.Name, "{host}": said.Host == m.Host, "{region}": said.Region == m.Region,
			"{uuid}": said.UUID == m.UUID, "{vmid}": said.VMID == m.VMID,
		} {
			if strings.Contains(id.Template, field) && !same {
				t.Fatalf("%s of %s is read as %+v", field, text, said)
			}
		}
	})
}
