package firstboot

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSmallestProfilesAreValid(t *testing.T) {
	for _, p := range []Profile{rke2(), k3s(), kubeadm(), talos(), custom(), native()} {
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", p.Kind, err)
		}
	}
}

// lines of an error, without the labels that kubelets may set, which are many.
func faultLines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(strings.ReplaceAll(err.Error(), strings.Join(ownLabels, ", "), "..."), "\n")
}

func TestEveryFaultOfAProfileIsToldAtOnce(t *testing.T) {
	p := Profile{
		Kind: K3s, Servers: []string{"http://a"}, ProviderID: ProviderID{Scheme: SchemeRKE2},
		Labels: map[string]string{"a b": ""}, KubeletArgs: []string{"--v=2"}, User: "Root",
	}
	want := []string{
		`labels["a b"]: must be a name of at most 63 letters, digits, -, _ and ., with a DNS prefix and / before it or without, was "a b"`,
		`user: must be the name of a user, in lower case, was "Root"`,
		`kubeletArgs[0]: must be NAME=VALUE, without dashes before the name, was "--v=2"`,
		`providerID.scheme: must not be that of rke2 with kind k3s, was "rke2"`,
		`servers[0]: must be HOST, HOST:PORT or https://HOST:PORT, with an IPv6 address in brackets, was "http://a"`,
		`tokenFile: must be there, for machines join with a token, was absent`,
	}
	err := p.Validate()
	if diff := cmp.Diff(want, faultLines(err)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	var fault *Fault
	if !errors.As(err, &fault) || fault.Path() != `labels["a b"]` {
		t.Errorf("the first fault is at %q", fault.Path())
	}
	_, err = p.UserData(machine())
	if diff := cmp.Diff(want, faultLines(err)); diff != "" {
		t.Errorf("faults of user-data (-want +got):\n%s", diff)
	}
}

func TestFaultsNameKeyRuleAndValue(t *testing.T) {
	script := func(in Install) func(*Profile) { return func(p *Profile) { in.From = "script"; p.Install = in } }
	for _, c := range []struct {
		base func() Profile
		bad  func(*Profile)
		want string
	}{
		{rke2, func(p *Profile) { p.Kind = "rancher" }, `kind: must be one of rke2, k3s, kubeadm, talos, custom, was "rancher"`},
		{rke2, func(p *Profile) { p.Servers = nil }, `servers: must name a server at least, was empty`},
		{rke2, func(p *Profile) { p.Servers = []string{"a:6443"} }, `servers[0]: must not be at 6443, the port of the Kubernetes API, for agents of RKE2 join at 9345, was "a:6443"`},
		{k3s, func(p *Profile) { p.Servers = []string{"a", "a:9345"} }, `servers[1]: must not be at 9345, the port of RKE2, for agents of k3s join at 6443, was "a:9345"`},
		{k3s, func(p *Profile) { p.Servers = []string{"a:99999"} }, `servers[0]: must have a port from 1 to 65535, was "a:99999"`},
		{k3s, func(p *Profile) { p.Servers = []string{"https://a/x"} }, `servers[0]: must be HOST, HOST:PORT or https://HOST:PORT, with an IPv6 address in brackets, was "https://a/x"`},
		{k3s, func(p *Profile) { p.Servers = []string{"fd00::1"} }, `servers[0]: must be HOST, HOST:PORT or https://HOST:PORT, with an IPv6 address in brackets, was "fd00::1"`},
		{k3s, func(p *Profile) { p.Servers = []string{""} }, `servers[0]: must be HOST, HOST:PORT or https://HOST:PORT, with an IPv6 address in brackets, was ""`},
		{custom, func(p *Profile) { p.Servers = []string{"a"} }, `servers[0]: must have a port from 1 to 65535, was "a"`},
		{rke2, func(p *Profile) { p.Token = "a\nb" }, `tokenFile: must hold one line of text without blanks around it, was 3 hidden bytes`},
		{rke2, func(p *Profile) { p.ProviderID.Scheme = "" }, `providerID.scheme: must be one of proxmox, rke2, k3s, talos, uuid, template, was ""`},
		{rke2, func(p *Profile) { p.Labels = map[string]string{"node-role.kubernetes.io/worker": ""} }, `labels["node-role.kubernetes.io/worker"]: must be one that a kubelet may give its own node: below kubernetes.io and k8s.io only ..., and what is in kubelet.kubernetes.io or node.kubernetes.io, was ""`},
		{rke2, func(p *Profile) { p.Labels = map[string]string{"kubernetes.io/hostname": "a"} }, `labels["kubernetes.io/hostname"]: must be left to the kubelet, or be the node's own name, was "a"`},
		{rke2, func(p *Profile) { p.Labels = map[string]string{"a": "b c"} }, `labels.a: must be at most 63 letters, digits, -, _ and ., with a letter or digit at both ends, was "b c"`},
		{rke2, func(p *Profile) { p.TopologyLabels = true; p.Labels = map[string]string{zoneLabel: "z"} }, `labels["topology.kubernetes.io/zone"]: must be absent beside topologyLabels, was "z"`},
		{rke2, func(p *Profile) { p.Taints = []Taint{{"a", "b", "Never"}} }, `taints[0].effect: must be one of NoSchedule, PreferNoSchedule, NoExecute, was "Never"`},
		{rke2, func(p *Profile) { p.Taints = []Taint{{"a", "b", "NoSchedule"}, {"a", "c", "NoSchedule"}} }, `taints[1]: must be the only taint of its key and effect, was "a=c:NoSchedule"`},
		{rke2, func(p *Profile) { p.KubeletArgs = []string{"provider-id=x://y"} }, `kubeletArgs[0]: must not be one of provider-id, node-labels, register-with-taints, hostname-override, which the profile sets, was "provider-id=x://y"`},
		{rke2, func(p *Profile) { p.Config = map[string][]string{"node-name": {"a"}} }, `config.node-name: must not be one of server, token, token-file, node-name, with-node-id, node-label, node-taint, kubelet-arg, config, which the profile sets, was ["a"]`},
		{rke2, func(p *Profile) { p.Config = map[string][]string{"--a": {"a"}} }, `config.--a: must be the name of a flag, without dashes before it, was "--a"`},
		{rke2, func(p *Profile) { p.Config = map[string][]string{"a": {}} }, `config.a: must have a value at least, was empty`},
		{rke2, func(p *Profile) { p.Config = map[string][]string{"a": {"b", ""}} }, `config.a[1]: must be one line of text, was ""`},
		{rke2, func(p *Profile) { p.Packages = []string{"-rf"} }, `packages[0]: must be the name of a package, was "-rf"`},
		{rke2, func(p *Profile) { p.Registries = "\xff" }, `registriesFile: must be UTF-8, was something else`},
		{rke2, func(p *Profile) { p.CloudConfig = "runcmd: []\n" }, `cloudConfigFile: must begin with a line #cloud-config, perhaps after ## template: jinja, #! or #cloud-boothook, was 11 hidden bytes`},
		{rke2, func(p *Profile) { p.CloudConfig = "#cloud-config\n\"merge_how\": x\n" }, `cloudConfigFile: must not say how it is merged, was "merge_how"`},
		{rke2, func(p *Profile) { p.UserDataFile, p.UserDataTemplate = "u", "x" }, `userDataFile: must be a cloudConfigFile, with kind rke2, was given`},
		{rke2, func(p *Profile) { p.Install.From = "image" }, `install.from: must be one of template, script, was "image"`},
		{rke2, func(p *Profile) { p.Install.Version = "v1.34.1+rke2r1" }, `install.from: must be script where there is a script, version, channel or env, was ""`},
		{rke2, script(Install{}), `install: must have either version or channel, was neither`},
		{rke2, script(Install{Version: "v1.34.1+rke2r1", Channel: "stable"}), `install: must have either version or channel, was both`},
		{rke2, script(Install{Version: "v1.34.1+k3s1"}), `install.version: must be a version of rke2 such as v1.34.1+rke2r1, was "v1.34.1+k3s1"`},
		{k3s, script(Install{Version: "1.34"}), `install.version: must be a version of k3s such as v1.34.1+k3s1, was "1.34"`},
		{k3s, script(Install{Channel: "la test"}), `install.channel: must be a channel such as stable or v1.34, was "la test"`},
		{k3s, script(Install{Channel: "stable", Script: "http://a/b"}), `install.script: must be the address of a script that begins with https://, for what it says is run by root, was "http://a/b"`},
		{k3s, script(Install{Channel: "stable", Env: map[string]string{"a;b": "c"}}), `install.env.a;b: must be the name of a variable, in capitals, was "a;b"`},
		{k3s, script(Install{Channel: "stable", Env: map[string]string{"K3S_TOKEN": "c"}}), `install.env.K3S_TOKEN: must not be a variable that the profile sets, was "K3S_TOKEN"`},
		{k3s, script(Install{Channel: "stable", Env: map[string]string{"A": "b\nc"}}), `install.env.A: must be one line of text, was 3 hidden bytes`},
		{rke2, func(p *Profile) { p.SSHKeys = []string{"ssh-rsa " + publicKey[len("ssh-ed25519 "):]} }, `sshKeys[0]: must be a public key as in an authorized_keys file: its type, its base64 and perhaps a comment, on one line, was "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIHsmqjz2QZ1Qe5yY7G5u0YJr4b3mQvZJ5m6l0S1rB2rT ops+night@example"`},
		{rke2, func(p *Profile) { p.SSHKeys = []string{"-----BEGIN PRIVATE KEY-----"} }, `sshKeys[0]: must be a public key as in an authorized_keys file: its type, its base64 and perhaps a comment, on one line, was a private key, it seems`},
		{talos, func(p *Profile) { p.SSHKeys = []string{publicKey} }, `sshKeys: must be absent, for Talos has no SSH, with kind talos, was given`},
		{talos, func(p *Profile) { p.User = "ops" }, `user: must be absent, for Talos has no users, with kind talos, was given`},
		{custom, func(p *Profile) { p.KubeletArgs = []string{"v=2"} }, `kubeletArgs: must be written into the userDataFile, with kind custom, was given`},
		{custom, func(p *Profile) { p.Install.From = "template" }, `install: must be written into the userDataFile, with kind custom, was given`},
		{kubeadm, func(p *Profile) { p.Servers = []string{"a:9345"} }, `servers[0]: must not be at 9345, the port of RKE2, for kubeadm joins at the Kubernetes API, which is 6443, was "a:9345"`},
		{kubeadm, func(p *Profile) { p.Token = "K10c0ffee::server:secret" }, `tokenFile: must hold a bootstrap token, six letters and digits, a dot and sixteen more, as kubeadm token create prints it, was 24 hidden bytes`},
		{kubeadm, func(p *Profile) { p.CACertHashes = nil }, `caCertHashes: must have the hash of the cluster's CA, as kubeadm token create --print-join-command prints it, was empty`},
		{kubeadm, func(p *Profile) { p.CACertHashes[0] = "sha256:ABC" }, `caCertHashes[0]: must be sha256: and 64 hexadecimal digits in lower case, was "sha256:ABC"`},
		{kubeadm, func(p *Profile) { p.Config = map[string][]string{"a": {"b"}} }, `config: must be in the template, or come by a cloudConfigFile, with kind kubeadm, was given`},
		{kubeadm, func(p *Profile) { p.ProviderID.Scheme = SchemeRKE2 }, `providerID.scheme: must not be that of rke2 with kind kubeadm, was "rke2"`},
		{k3s, func(p *Profile) { p.CACertHashes = kubeadm().CACertHashes }, `caCertHashes: must be absent, for only kubeadm joins by them, with kind k3s, was given`},
		{native, func(p *Profile) { p.Labels = map[string]string{"a": "b"} }, `labels: must have a userDataFile to be written to, with kind custom, was given`},
	} {
		p := c.base()
		c.bad(&p)
		if diff := cmp.Diff([]string{c.want}, faultLines(p.Validate())); diff != "" {
			t.Errorf("fault (-want +got):\n%s", diff)
		}
	}
}

func TestTemplatesThatWouldFailLaterAreRefused(t *testing.T) {
	const document = "apiVersion: v1alpha1\nkind: HostnameConfig\n"
	for _, c := range []struct {
		base     func() Profile
		template string
		want     string
	}{
		{custom, "{{.Node}}", `userDataFile: must be a template that can be filled in, was template: user-data:1:2: executing "user-data" at <.Node>: can't evaluate field Node in type firstboot.fields`},
		{custom, "{{.Name", `userDataFile: must be a template that can be filled in, was template: user-data:1: unclosed action`},
		{custom, "{{if .Labels.a}}x{{end}}\n", `userDataFile: must give a text, was a text of 1 bytes`},
		{talos, "", `userDataFile: must be there, for kind talos needs a machine configuration, was absent`},
		{talos, "#cloud-config\nhostname: {{.Name}}\n", `userDataFile: must not begin with #cloud-config, which Talos passes over, was a text of 33 bytes`},
		{talos, "# hostname: {{.Name}}\n", `userDataFile: must set hostname to {{.Name}} at one place, and does at 0, was a text of 21 bytes`},
		{talos, "hostname: {{.Name}}-worker\n", `userDataFile: must set hostname to {{.Name}} at one place, and does at 0, was a text of 26 bytes`},
		{talos, "machine: {network: {hostname: {{.Name}}}}\n---\n" + document + "hostname: {{.Name}}\n", `userDataFile: must set hostname to {{.Name}} at one place, and does at 2, was a text of 106 bytes`},
		{talos, "machine:\n  network:\n    hostname: {{.Name}}\n---\n" + document + "auto: stable\n", `userDataFile: must not have auto: stable beside a hostname, which Talos refuses, was a text of 102 bytes`},
		{talos, "machine:\n  features:\n    stableHostname: true\n---\n" + document + "hostname: {{.Name}}\n", `userDataFile: must not have stableHostname: true beside a HostnameConfig, which Talos refuses, was a text of 111 bytes`},
		{talos, "machine:\n  network: {\"hostname\": \"{{.Name}}\"}\n", ""},
		{talos, "machine:\n  network:\n    hostname: '{{.Name}}' # planned\n", ""},
	} {
		p := c.base()
		p.UserDataTemplate = Secret(c.template)
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		if diff := cmp.Diff(want, faultLines(p.Validate())); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.template, diff)
		}
	}
	// A label that only some machines have is known when there is a machine.
	p := custom()
	p.UserDataTemplate = "x {{.Labels.shape}}"
	if _, err := p.UserData(machine()); err == nil || !strings.Contains(err.Error(), `userDataFile: must be a template that can be filled in, was template: user-data:1:11: executing "user-data" at <.Labels.shape>: map has no entry for key "shape"`) {
		t.Errorf("a label that is not there: %v", err)
	}
	m := machine()
	m.Labels = map[string]string{"shape": "large"}
	if files, err := p.UserData(m); err != nil || string(files[UserData]) != "x large" {
		t.Errorf("%s, %v", files[UserData], err)
	}
}

func TestFaultsOfMachines(t *testing.T) {
	plain := func(*Profile) {}
	for _, c := range []struct {
		profile func(*Profile)
		bad     func(*Machine)
		want    []string
	}{
		{plain, func(m *Machine) { m.Name = "Web_1" }, []string{`machine.name: must be of lower-case letters, digits and -, with a letter or digit at both ends, was "Web_1"`}},
		{plain, func(m *Machine) { m.Host, m.Region, m.UUID = "a_b", "a/b", "x" }, []string{
			`machine.host: must be the name of a Proxmox VE node, was "a_b"`,
			`machine.region: must be at most 63 letters, digits, -, _ and ., with a letter or digit at both ends, was "a/b"`,
			`machine.uuid: must be a UUID, was "x"`,
		}},
		{plain, func(m *Machine) { m.VMID, m.Region = 0, "" }, []string{
			`machine.region: must be known for a provider id with it, was ""`,
			`machine.vmid: must be from 100 to 999999999 for a provider id with it, was 0`,
		}},
		{func(p *Profile) { p.TopologyLabels = true }, func(m *Machine) { m.Host, m.Region = "", "" }, []string{
			`machine.region: must be known for topologyLabels, was ""`, `machine.host: must be known for topologyLabels, was ""`,
			`machine.region: must be known for a provider id with it, was ""`,
		}},
		{func(p *Profile) { p.Labels = map[string]string{"a": "b"} }, func(m *Machine) { m.Labels = map[string]string{"a": "c"} }, []string{`machine.labels.a: must be as the profile has it, "b", was "c"`}},
		{func(p *Profile) { p.Taints = []Taint{{"a", "b", "NoExecute"}} }, func(m *Machine) { m.Taints = []Taint{{"a", "c", "NoExecute"}} }, []string{`machine.taints[0]: must be as the profile has it, a=b:NoExecute, was "a=c:NoExecute"`}},
		{plain, func(m *Machine) { m.Labels = map[string]string{hostnameLabel: m.Name} }, nil},
	} {
		p, m := rke2(), machine()
		c.profile(&p)
		c.bad(&m)
		_, err := p.UserData(m)
		if diff := cmp.Diff(c.want, faultLines(err)); diff != "" {
			t.Errorf("faults (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(c.want, faultLines(p.CheckMachine(m))); diff != "" {
			t.Errorf("faults without user-data (-want +got):\n%s", diff)
		}
	}
	p := native()
	if _, err := p.UserData(machine()); err == nil || err.Error() != "userDataFile: must be there, for a profile without it has no user-data, was absent" {
		t.Errorf("user-data of a profile without any: %v", err)
	}
}

func TestNamesAreDNSLabels(t *testing.T) {
	for name, good := range map[string]bool{
		"web-mtim7pc0-0": true, "a": true, "0": true, strings.Repeat("a", 63): true,
		"": false, "-a": false, "a-": false, "a.b": false, "a_b": false, "A": false, "ä": false, "a\n": false, strings.Repeat("a", 64): false,
	} {
		var f faults
		if f.name("pool", name); (len(f) == 0) != good {
			t.Errorf("%q: %v", name, f)
		}
	}
	var f faults
	f.name("name", strings.Repeat("a", 64))
	if err, want := f.join(), `name: must have at most 63 characters, has 64, was "`+strings.Repeat("a", 64)+`"`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// The table is what kubelets of Kubernetes 1.16 and later say when they are given labels.
func TestKubeletsMayNotGiveThemselvesEveryLabel(t *testing.T) {
	for key, may := range map[string]bool{
		"pool": true, "example.com/pool": true, "mykubernetes.io/a": true, "plimsoll.dev/pool": true,
		"topology.kubernetes.io/zone": true, "topology.kubernetes.io/region": true, "topology.kubernetes.io/rack": false,
		"kubernetes.io/arch": true, "kubernetes.io/os": true, "kubernetes.io/hostname": true, "kubernetes.io/role": false,
		"beta.kubernetes.io/arch": true, "beta.kubernetes.io/instance-type": true, "beta.kubernetes.io/other": false,
		"failure-domain.beta.kubernetes.io/zone": true, "failure-domain.kubernetes.io/zone": false,
		"node.kubernetes.io/instance-type": true, "node.kubernetes.io/anything": true, "sub.node.kubernetes.io/a": true,
		"kubelet.kubernetes.io/a": true, "sub.kubelet.kubernetes.io/a": true, "mynode.kubernetes.io/a": false,
		"node-role.kubernetes.io/worker": false, "node-role.kubernetes.io/control-plane": false,
		"node-restriction.kubernetes.io/a": false, "sub.node-restriction.kubernetes.io/a": false,
		"k8s.io/a": false, "cluster.x-k8s.io/a": true, "app.k8s.io/a": false, "kubernetes.io/a": false,
	} {
		if got := mayLabelItself(key); got != may {
			t.Errorf("%s: %v, want %v", key, got, may)
		}
	}
}
