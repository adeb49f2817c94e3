package firstboot

import (
	"errors"
	"fmt"
	"maps"
	"mime"
	"mime/multipart"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/plimsoll/plimsoll/testbed/golden"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// A public key, of which there is no private one.
const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHsmqjz2QZ1Qe5yY7G5u0YJr4b3mQvZJ5m6l0S1rB2rT ops+night@example"

const token = "K10c0ffee::server:it's \"quoted\" #and: [odd]"

func machine() Machine {
	return Machine{
		Name: "web-mtim7pc0-0", Host: "pve1", Region: "cluster-1", VMID: 5001,
		UUID: "87F457B7-A7A0-4AA6-9A07-19D06A3596A1",
	}
}

// profiles are one of each kind, as small as can be.
func rke2() Profile {
	return Profile{Kind: RKE2, Servers: []string{"10.0.0.10"}, Token: token, ProviderID: ProviderID{Scheme: SchemeProxmox}}
}

func k3s() Profile {
	return Profile{Kind: K3s, Servers: []string{"k3s.lab.local"}, Token: token, ProviderID: ProviderID{Scheme: SchemeK3s}}
}

func kubeadm() Profile {
	return Profile{
		Kind: Kubeadm, Servers: []string{"10.0.0.10"}, Token: "abcdef.0123456789abcdef", ProviderID: ProviderID{Scheme: SchemeUUID},
		CACertHashes: []string{"sha256:" + strings.Repeat("0123abcd", 8)},
	}
}

func talos() Profile {
	return Profile{
		Kind: Talos, ProviderID: ProviderID{Scheme: SchemeTalos},
		UserDataTemplate: "version: v1alpha1\nmachine:\n  type: worker\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: {{.Name}}\n",
	}
}

func custom() Profile {
	return Profile{Kind: Custom, ProviderID: ProviderID{Scheme: SchemeUUID}, UserDataTemplate: "#cloud-config\nruncmd: [[join, {{yaml .Name}}]]\n"}
}

// native is a profile of a template that joins by itself.
func native() Profile {
	return Profile{Kind: Custom, ProviderID: ProviderID{Scheme: SchemeUUID}}
}

func TestUserDataIsAsWritten(t *testing.T) {
	full := rke2()
	full.Servers = []string{"https://10.0.0.10:9345", "10.0.0.11", "[fd00::12]"}
	full.ProviderID = ProviderID{Scheme: SchemeTemplate, Template: "lab://{region}/{host}/{name}"}
	full.Labels = map[string]string{"example.com/pool": "web", "node.kubernetes.io/instance-type": "4c-16g", "empty": ""}
	full.Taints = []Taint{{"dedicated", "web", "NoSchedule"}, {"spot", "", "PreferNoSchedule"}, {"dedicated", "web", "NoExecute"}}
	full.TopologyLabels = true
	full.KubeletArgs = []string{"max-pods=200", "feature-gates=A=true,B=false"}
	full.Config = map[string][]string{"profile": {"cis"}, "kube-proxy-arg": {"proxy-mode=ipvs", "v=2"}}
	full.Registries = "mirrors:\n  docker.io:\n    endpoint:\n      - \"https://mirror.lab.local\"\n"
	full.Install = Install{From: "script", Version: "v1.34.1+rke2r1", Env: map[string]string{"INSTALL_RKE2_MIRROR": "cn", "HTTPS_PROXY": "http://it's.lab:3128"}}
	full.User, full.SSHKeys, full.Packages = "ops", []string{publicKey}, []string{"qemu-guest-agent", "nfs-common"}
	many := machine()
	many.Labels = map[string]string{"example.com/shape": "large"}
	many.Taints = []Taint{{"dedicated", "web", "NoSchedule"}, {"new", "true", "NoExecute"}}
	many.NICs = []NIC{
		{
			MAC: "BC:24:11:35:37:D9", IPv4: "10.0.0.5/24", Gateway4: "10.0.0.1", IPv6: "fd00::5/64", Gateway6: "fe80::1",
			DNS: []string{"10.0.0.2", "fd00::2"}, Search: []string{"lab.local", "example.com"},
		},
		{MAC: "bc:24:11:35:37:da", IPv4: "dhcp", IPv6: "auto"},
		{MAC: "bc:24:11:35:37:db", IPv4: "none", IPv6: "dhcp"},
	}

	channel := k3s()
	channel.Install = Install{From: "script", Channel: "v1.34", Script: "https://mirror.lab.local/k3s.sh"}

	joined := kubeadm()
	joined.Servers = []string{"[fd00::12]:7443"}
	joined.Labels, joined.Taints, joined.KubeletArgs = full.Labels, full.Taints, full.KubeletArgs
	joined.User, joined.SSHKeys, joined.Packages = "ops", []string{publicKey}, []string{"nfs-common"}
	joined.TopologyLabels = true

	machineConfig := talos()
	machineConfig.Token = "s3cret"
	machineConfig.Labels = map[string]string{"pool": "web"}
	machineConfig.Taints = []Taint{{"dedicated", "web", "NoSchedule"}}
	machineConfig.UserDataTemplate = `version: v1alpha1
machine:
  type: worker
  token: {{yaml .Token}}
  kubelet:
    extraArgs:
      provider-id: {{.ProviderID}}
  nodeLabels:
{{- range $key, $value := .Labels}}
    {{$key}}: {{yaml $value}}
{{- end}}
  nodeTaints:
{{- range .Taints}}
    {{.Key}}: {{.Value}}:{{.Effect}}
{{- end}}
---
apiVersion: v1alpha1
kind: HostnameConfig
hostname: {{.Name}} # not the machine id
`
	byHand := custom()
	byHand.Servers, byHand.Token = []string{"https://10.0.0.10:6443"}, "abcdef.0123456789abcdef"
	byHand.Labels, byHand.SSHKeys = map[string]string{"b": "2", "a": "1"}, []string{publicKey}
	byHand.UserDataTemplate = `#cloud-config
hostname: {{yaml .Name}}
{{if .SSHKeys}}ssh_authorized_keys: [{{range .SSHKeys}}{{yaml .}}, {{end}}]{{end}}
runcmd:
  - kubeadm join {{.Server}} --token {{.Token}} --node-name {{.Name}} # {{.ProviderID}} {{.Region}} {{.Host}} {{.VMID}}
  - echo --node-labels={{join .NodeLabels ","}} > /etc/default/kubelet
`
	for name, c := range map[string]struct {
		p Profile
		m Machine
	}{
		"rke2": {rke2(), machine()}, "rke2-full": {full, many}, "k3s": {k3s(), machine()}, "k3s-channel": {channel, machine()},
		"talos": {machineConfig, many}, "custom": {byHand, machine()},
		"kubeadm": {kubeadm(), machine()}, "kubeadm-full": {joined, many},
	} {
		t.Run(name, func(t *testing.T) {
			files := must.Get(c.p.UserData(c.m))(t)
			kept(t, name, files)
		})
	}
}

// kept compares files with those that are kept.
func kept(t *testing.T, name string, files Files) {
	t.Helper()
	var got txtar.Archive
	for _, file := range slices.Sorted(maps.Keys(files)) {
		got.Files = append(got.Files, txtar.File{Name: file, Data: files[file]})
	}
	golden.Compare(t, filepath.Join("testdata", name+".txtar"), string(txtar.Format(&got)))
}

// What operators add is a part of its own, whose lists come before the profile's and whose other
// values do not count; a script is run as it is.
func TestOperatorsPartsGoBesideTheProfiles(t *testing.T) {
	for text, want := range map[string]string{
		"#cloud-config\nruncmd: [[echo, ünder]]\n":               "text/cloud-config",
		"## template: jinja\n#cloud-config\nbootcmd: [\"ls\"]\n": "text/jinja2",
		"#!/bin/sh\nexit 0\n":                                    "text/x-shellscript",
		"#cloud-boothook\n#!/bin/sh\nexit 0\n":                   "text/cloud-boothook",
	} {
		p := rke2()
		alone := must.Get(p.UserData(machine()))(t)
		p.CloudConfig = Secret(text)
		files := must.Get(p.UserData(machine()))(t)
		got := readParts(t, files[UserData])
		merge := "list(prepend)+dict(no_replace,recurse_list)+str()"
		if strings.Contains(want, "shell") || strings.Contains(want, "boothook") {
			merge = ""
		}
		if diff := cmp.Diff([]part{{"text/cloud-config", "", string(alone[UserData])}, {want, merge, text}}, got); diff != "" {
			t.Errorf("parts (-want +got):\n%s", diff)
		}
	}
}

// cloud-init takes any text with this header in its first bytes for a message of parts.
func TestUserDataThatLooksLikeAMessageIsWrapped(t *testing.T) {
	p := rke2()
	p.SSHKeys = []string{publicKey + " Mime-Version: 1.0"}
	files := must.Get(p.UserData(machine()))(t)
	if got := readParts(t, files[UserData]); len(got) != 1 || !strings.Contains(got[0].Content, "Mime-Version: 1.0") {
		t.Errorf("parts: %v", got)
	}
}

type part struct{ Type, Merge, Content string }

// readParts reads a message of parts with the standard library.
func readParts(t *testing.T, data []byte) []part {
	t.Helper()
	head, body, _ := strings.Cut(string(data), "\n\n")
	_, contentType, _ := strings.Cut(head, "Content-Type: ")
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/mixed" || !strings.HasPrefix(head, "MIME-Version: 1.0\n") {
		t.Fatalf("not a message of parts: %v in\n%s", err, data)
	}
	var parts []part
	for r := multipart.NewReader(strings.NewReader(body), params["boundary"]); ; {
		p, err := r.NextPart()
		if err != nil {
			return parts
		}
		kind, _, err := mime.ParseMediaType(p.Header.Get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part{kind, p.Header.Get("Merge-Type"), decode(t, p)})
	}
}

// Every machine gets the same server each time, and all servers are asked to some.
func TestMachinesAreSharedOutAmongServers(t *testing.T) {
	p := rke2()
	p.Servers = []string{"a.lab", "b.lab", "c.lab"}
	given := map[string]int{}
	for i := range 300 {
		name := fmt.Sprintf("web-%d", i)
		first := p.server(name)
		if again := p.server(name); again != first {
			t.Fatalf("%s is given %s, and then %s", name, first, again)
		}
		given[first]++
	}
	for _, s := range []string{"https://a.lab:9345", "https://b.lab:9345", "https://c.lab:9345"} {
		if given[s] < 60 {
			t.Errorf("%s is given to %d machines of 300", s, given[s])
		}
	}
}

func TestFilesOfAProfileAreRead(t *testing.T) {
	files := map[string]string{"t": "s3cret\n", "r": "mirrors: {}\n", "c": "#!/bin/sh\n", "u": "hostname: {{.Name}}\n"}
	read := func(path string) ([]byte, error) {
		if s, ok := files[path]; ok {
			return []byte(s), nil
		}
		return nil, errors.New("no such file")
	}
	p := Profile{TokenFile: "t", RegistriesFile: "r", CloudConfigFile: "c", UserDataFile: "u"}
	must.Do(t, p.Read(read))
	got := []string{string(p.Token), string(p.Registries), string(p.CloudConfig), string(p.UserDataTemplate)}
	if diff := cmp.Diff([]string{"s3cret", files["r"], files["c"], files["u"]}, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	files["t"] = "\ufeffs3cret \r\n"
	if err := p.Read(read); err != nil || p.Token != "s3cret " {
		t.Errorf("a token with the mark and the line's end of Windows is read as %q, %v", string(p.Token), err)
	}
	p.RegistriesFile, files["t"] = "elsewhere", "\n"
	want := "tokenFile: must be a file with something in it, was \"t\"\nregistriesFile: no such file"
	if err := p.Read(read); err == nil || err.Error() != want {
		t.Errorf("files that are not there, or empty: %v, want %s", err, want)
	}
	if p.Token != "s3cret " || p.Registries != "mirrors: {}\n" {
		t.Errorf("what was read before is %q and %q now", string(p.Token), string(p.Registries))
	}
}

// A configuration can be looked at before its files are there; no disc can be made without them.
func TestFilesAreReadBeforeTheyAreUsed(t *testing.T) {
	agent, worker := rke2(), talos()
	agent.Token, agent.TokenFile, agent.RegistriesFile, agent.CloudConfigFile = "", "/t", "/r", "/c"
	worker.UserDataTemplate, worker.UserDataFile = "", "/u"
	for p, want := range map[*Profile][]string{
		&agent: {
			`tokenFile: must have been read, was "/t"`,
			`registriesFile: must have been read, was "/r"`,
			`cloudConfigFile: must have been read, was "/c"`,
		},
		&worker: {`userDataFile: must have been read, was "/u"`},
	} {
		if err := p.Validate(); err != nil {
			t.Errorf("before: %v", err)
		}
		_, err := p.UserData(machine())
		if diff := cmp.Diff(want, faultLines(err)); diff != "" {
			t.Errorf("faults (-want +got):\n%s", diff)
		}
	}
}

func TestAZoneOfTheMachinesOwnGoesBeforeItsHost(t *testing.T) {
	p, m := rke2(), machine()
	p.TopologyLabels = true
	for _, c := range []struct {
		own  map[string]string
		want string
	}{{nil, m.Host}, {map[string]string{zoneLabel: "rack1"}, "rack1"}} {
		m.Labels = c.own
		files := must.Get(p.UserData(m))(t)
		if want := zoneLabel + "=" + c.want; !strings.Contains(string(files[UserData]), want) {
			t.Errorf("%s is not in\n%s", want, files[UserData])
		}
	}
}
