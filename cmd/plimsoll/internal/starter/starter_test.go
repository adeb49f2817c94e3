package starter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// first takes the first option of every question.
func first(q Question) (string, error) { return q.Options[0], nil }

func seen(change func(*Seen)) *Proposal {
	p := &Proposal{Owner: "home", Currency: "EUR", PerKWh: "0.3", Watts: "40", Seen: Seen{
		Hosts:     []Host{{"pve1", 8, 32 << 30}, {"pve2", 4, 16 << 30}},
		Storages:  []Storage{{"local", "dir", false, []string{"iso"}, []string{"pve1", "pve2"}}, {"lvm", "lvmthin", false, []string{"images"}, []string{"pve1", "pve2"}}},
		Bridges:   []string{"vmbr0", "vmbr1"},
		Templates: []Template{{VMID: 9001, Name: "k8s", Host: "pve2", Storage: "lvm"}, {VMID: 9000, Name: "k8s", Host: "pve1", Storage: "lvm", Bridge: "vmbr1", VLAN: "30", CPU: "host", Disk: 30 << 30}},
		VMIDs:     []int{100, 5150, 9000, 9001},
		Nodes:     []Node{{Name: "w", Version: "v1.34.1+k3s1"}},
	}}
	change(&p.Seen)
	return p
}

func TestChoicesFollowWhatThereIs(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Seen)
		says   []string
	}{
		{"a template for each host", func(*Seen) {}, []string{
			"  template:\n    byHost: {pve1: 9000, pve2: 9001}\n", "  bridge: \"vmbr1\"\n  vlan: 30 # as the template\n", "  clone: linked\n",
			"    # The CPU type is the template's, host.\n", "    - {name: small, cpu: 2, memory: 4GiB, disk: 30GiB}\n    - {name: medium,",
			"  vmids: {first: 5000, last: 5099}\n", "  iso: {storage: \"local\"}\n", "  max: 6\n",
			"    # The control plane was not seen: write the address of a server or load balancer.",
		}},
		{"one host can clone", func(s *Seen) { s.Templates[0].Name = "other" }, []string{"  placement: {hosts: [pve1]}\n", "# Other templates: 9001 (other).\n"}},
		{"thick LVM", func(s *Seen) { s.Storages[1].Type = "lvm" }, []string{"  # Storage lvm cannot make linked clones.\n  clone: full\n"}},
		{"a small host", func(s *Seen) { s.Hosts[1].CPUs = 2 }, []string{"disk: 30GiB}\n  # As many"}},
		{"VMIDs are taken", func(s *Seen) { s.VMIDs = []int{5000, 5199} }, []string{"  vmids: {first: 5200, last: 5299}\n"}},
		{"kubeadm made the cluster", func(s *Seen) {
			s.Nodes = []Node{{Name: "cp", Version: "v1.34.1", Address: "10.0.0.2", ControlPlane: true}}
			s.Kubeadm = true
		}, []string{
			"  # kube-system has kubeadm-config: kubeadm made the cluster.\n  join:\n    kind: kubeadm\n", "    servers: [\"10.0.0.2:6443\"]\n",
			"    # The hash of the cluster's CA was not seen:", "    caCertHashes: [\"sha256:00", "    providerID: {scheme: uuid}\n",
		}},
		{"a name that steers YAML", func(s *Seen) { s.Templates[1].Name = "k8s\nmode: Active" }, []string{`template: {vmid: 9000} # k8s\nmode: Active`}},
	} {
		p := seen(c.change)
		if err := p.Propose(first); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		files := must.Get(p.Files())(t)
		for _, says := range c.says {
			if !strings.Contains(string(files[1].Text), says) {
				t.Errorf("%s: %q is not in\n%s", c.name, says, files[1].Text)
			}
		}
	}
}

// Hosts may have names that YAML takes for numbers or booleans.
func TestNamesOfHostsStayText(t *testing.T) {
	for _, host := range []string{"01", "1e3", "on", "No", "y", "null", "1-2", "pve1", "0x1f", "2026-01-01"} {
		for _, alone := range []bool{true, false} {
			p := seen(func(s *Seen) {
				s.Hosts[0].Name, s.Templates[1].Host = host, host
				for i := range s.Storages {
					s.Storages[i].Hosts[0] = host
				}
				if alone {
					s.Templates[0].Name = "other"
				}
			})
			must.Do(t, p.Propose(first))
			var pool struct {
				Spec struct {
					Template  struct{ ByHost map[string]int }
					Placement struct{ Hosts []string }
				}
			}
			text := must.Get(p.Files())(t)[1].Text
			if err := yaml.Unmarshal(text, &pool); err != nil {
				t.Fatalf("%s: %v\n%s", host, err, text)
			}
			if alone && !slices.Equal(pool.Spec.Placement.Hosts, []string{host}) || !alone && pool.Spec.Template.ByHost[host] != 9000 {
				t.Errorf("%s is read as %+v", host, pool.Spec)
			}
		}
	}
}

// Of several generations of one name, every host clones that of the chosen template.
func TestTheChosenTemplateIsCloned(t *testing.T) {
	for chosen, want := range map[string]string{
		"9000": "byHost: {pve1: 9000, pve2: 9001}",
		"9010": "byHost: {pve1: 9010, pve2: 9011}", "9011": "byHost: {pve1: 9010, pve2: 9011}",
	} {
		p := seen(func(s *Seen) {
			for i, host := range []string{"pve1", "pve2"} {
				s.Templates = append(s.Templates, Template{VMID: 9010 + i, Name: "k8s", Host: host, Storage: "lvm", Bridge: "vmbr0"})
			}
		})
		err := p.Propose(func(q Question) (string, error) {
			if q.Key == "template" {
				return chosen, nil
			}
			return first(q)
		})
		if text := must.Get(p.Files())(t)[1].Text; err != nil || !strings.Contains(string(text), want) {
			t.Errorf("--template %s: %v, want %s in\n%s", chosen, err, want, text)
		}
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	for want, change := range map[string]func(*Seen){
		"there is no template":                  func(s *Seen) { s.Templates = nil },
		"there is no bridge":                    func(s *Seen) { s.Bridges = nil },
		"there is no storage with content iso ": func(s *Seen) { s.Storages[0].Hosts = []string{"pve1"} },
	} {
		if err := seen(change).Propose(first); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestOwnersAreNamesThatMachinesMayBear(t *testing.T) {
	for cluster, want := range map[string]string{"Home Lab": "homelab", "": "home", "Ü": "home", strings.Repeat("a", 40): strings.Repeat("a", 32)} {
		if got := Owner(cluster); got != want {
			t.Errorf("%q: %q, want %q", cluster, got, want)
		}
	}
}

// Without a template it is known which one to make, and where.
func TestWithoutATemplateOneIsOffered(t *testing.T) {
	images, on := []string{"images"}, []string{"pve1"}
	for _, c := range []struct {
		seen       Seen
		kind, disk string
	}{
		{Seen{}, "rke2", "STORAGE"},
		{Seen{Nodes: []Node{{Version: "v1.34.1+k3s1"}}, Storages: []Storage{{Name: "a", Content: images, Hosts: on}, {Name: "b", Content: images, Shared: true, Hosts: on}}}, "k3s", "b"},
		{Seen{Storages: []Storage{{Name: "a", Content: images, Hosts: on}, {Name: "disabled", Content: images, Shared: true}}}, "rke2", "a"},
		{Seen{Nodes: []Node{{OS: "Talos (v1.11.2)"}}, Storages: []Storage{{Name: "iso", Content: []string{"iso"}, Shared: true, Hosts: on}, {Name: "a", Content: images, Hosts: on}}}, "talos", "a"},
		{Seen{Nodes: []Node{{Version: "v1.34.1"}}}, "custom", "STORAGE"},
		{Seen{Nodes: []Node{{Version: "v1.34.1"}}, Kubeadm: true}, "kubeadm", "STORAGE"},
	} {
		if kind, disk := c.seen.Runs(), c.seen.DiskStorage(); kind != c.kind || disk != c.disk {
			t.Errorf("%+v: %s on %s, want %s on %s", c.seen, kind, disk, c.kind, c.disk)
		}
		p := Proposal{Seen: c.seen}
		if err := p.Propose(nil); !errors.Is(err, ErrNoTemplate) {
			t.Errorf("it proposes: %v", err)
		}
	}
}
