// What proxmox/firstboot writes by hand is read here by what guests read it with: a YAML parser,
// which its own tests may not import, and a shell.
package firstboot_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// cloudConfig is as much of cloud-init's schema as is written.
type cloudConfig struct {
	Hostname string
	Preserve bool   `yaml:"preserve_hostname"`
	Hosts    string `yaml:"manage_etc_hosts"`
	User     struct{ Name string }
	Keys     []string `yaml:"ssh_authorized_keys"`
	Update   bool     `yaml:"package_update"`
	Packages []string
	Files    []struct{ Path, Owner, Permissions, Content string } `yaml:"write_files"`
	Run      [][]string                                           `yaml:"runcmd"`
}

// decode reads a document that holds nothing but what into knows.
func decode(t interface{ Fatalf(string, ...any) }, data []byte, into any) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
}

// line draws a line of text that a profile takes: anything but what ends lines, or is not seen.
func line() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"no", "1e3", "0o17", "~", "null", "2026-11-21", "- a", "a: b", "a #b", `"`, "'", `\n`, "{{a}}", "&a", "*a", "!!x", "%", "@", "`", "|", ">", "é😀"}),
		rapid.StringMatching(`[^\x00-\x20\x7f-\x9f\x{2028}\x{2029}\x{feff}\x{d800}-\x{dfff}]([^\x00-\x1f\x7f-\x9f\x{2028}\x{2029}\x{feff}\x{d800}-\x{dfff}]{0,20}[^\pZ\x00-\x20\x7f-\x9f\x{feff}\x{85}])?`),
	).Filter(func(s string) bool { return strings.TrimSpace(s) == s })
}

const sshKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHsmqjz2QZ1Qe5yY7G5u0YJr4b3mQvZJ5m6l0S1rB2rT"

func drawProfile(t *rapid.T) firstboot.Profile {
	key := rapid.StringMatching(`([a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?\.dev/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,8}[A-Za-z0-9])?`)
	value := rapid.StringMatching(`([A-Za-z0-9]([-A-Za-z0-9_.]{0,8}[A-Za-z0-9])?)?`)
	return firstboot.Profile{
		Kind:       rapid.SampledFrom([]firstboot.Kind{firstboot.RKE2, firstboot.K3s}).Draw(t, "kind"),
		Servers:    []string{"10.0.0.10"},
		Token:      firstboot.Secret(line().Draw(t, "token")),
		ProviderID: firstboot.ProviderID{Scheme: firstboot.SchemeTemplate, Template: `x://a"b'\#{name}`},
		Labels:     rapid.MapOfN(key, value, 0, 3).Draw(t, "labels"),
		Taints: rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) firstboot.Taint {
			effect := rapid.SampledFrom([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"})
			return firstboot.Taint{Key: key.Draw(t, "key"), Value: value.Draw(t, "value"), Effect: effect.Draw(t, "effect")}
		}), 0, 3, func(t firstboot.Taint) string { return t.Key + t.Effect }).Draw(t, "taints"),
		KubeletArgs: rapid.SliceOfN(rapid.Map(line(), func(s string) string { return "v=" + s }), 0, 3).Draw(t, "args"),
		Config:      rapid.MapOfN(rapid.SampledFrom([]string{"y", "no", "on", "profile", "debug"}), rapid.SliceOfN(line(), 1, 3), 0, 3).Draw(t, "config"),
		Registries:  firstboot.Secret(rapid.OneOf(rapid.String(), rapid.StringMatching(`( {0,2}[a-z"':#-]{0,5}\n{0,2}){0,5}`)).Draw(t, "registries")),
		User:        "ops",
		SSHKeys:     []string{sshKey + " " + line().Draw(t, "comment")},
		Packages:    []string{"qemu-guest-agent"},
	}
}

// A guest reads of any profile what was meant.
func TestLawGuestsReadWhatProfilesHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProfile(t)
		m := firstboot.Machine{Name: rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?`).Draw(t, "name")}
		files, err := p.UserData(m)
		if err != nil {
			t.Fatalf("%v", err)
		}
		var meta map[string]string
		decode(t, files[firstboot.MetaData], &meta)
		if diff := cmp.Diff(map[string]string{"instance-id": m.Name, "local-hostname": m.Name}, meta); diff != "" {
			t.Fatalf("meta-data (-want +got):\n%s", diff)
		}
		var user cloudConfig
		decode(t, files[firstboot.UserData], &user)
		dir := "/etc/rancher/" + string(p.Kind)
		if user.Hostname != m.Name || user.User.Name != p.User || !slices.Equal(user.Keys, p.SSHKeys) || !slices.Equal(user.Packages, p.Packages) ||
			!user.Update || user.Files[0].Path != dir+"/config.yaml" || user.Files[0].Permissions != "0600" {
			t.Fatalf("user-data is read as %+v", user)
		}
		if p.Registries != "" && (user.Files[1].Path != dir+"/registries.yaml" || user.Files[1].Content != string(p.Registries)) {
			t.Fatalf("registries.yaml is read as %+q", user.Files[1])
		}
		checkConfig(t, &p, m.Name, []byte(user.Files[0].Content))
	})
}

// checkConfig reads an agent's config.yaml as the agent does: a value is a text or a list of them.
func checkConfig(t *rapid.T, p *firstboot.Profile, name string, data []byte) {
	var got map[string]any
	decode(t, data, &got)
	port := map[firstboot.Kind]string{firstboot.RKE2: "9345", firstboot.K3s: "6443"}[p.Kind]
	want := map[string]any{
		"server": "https://10.0.0.10:" + port, "token": string(p.Token), "node-name": name,
		"kubelet-arg": anys(append([]string{`provider-id=x://a"b'\#` + name}, p.KubeletArgs...)),
	}
	var labels, taints []string
	for key, value := range p.Labels {
		labels = append(labels, key+"="+value)
	}
	for _, taint := range p.Taints {
		taints = append(taints, taint.String())
	}
	for key, values := range p.Config {
		want[key] = anys(values)
		if len(values) == 1 {
			want[key] = values[0]
		}
	}
	for key, values := range map[string][]string{"node-label": labels, "node-taint": taints} {
		if slices.Sort(values); values != nil {
			want[key] = anys(values)
			read, _ := got[key].([]any)
			slices.SortFunc(read, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("config.yaml (-want +got):\n%s", diff)
	}
}

func anys(values []string) []any {
	var all []any
	for _, v := range values {
		all = append(all, v)
	}
	return all
}

func TestNetworkConfigIsRead(t *testing.T) {
	p := firstboot.Profile{Kind: firstboot.K3s, Servers: []string{"a"}, Token: "t", ProviderID: firstboot.ProviderID{Scheme: firstboot.SchemeK3s}}
	files := must.Get(p.UserData(firstboot.Machine{Name: "web-0", NICs: []firstboot.NIC{
		{MAC: "BC:24:11:00:00:01", IPv4: "10.0.0.5/24", Gateway4: "10.0.0.1", IPv6: "fd00::5/64", Gateway6: "fe80::1", DNS: []string{"fd00::2"}, Search: []string{"no", "1.2"}},
		{MAC: "52:54:00:12:34:56", IPv4: "dhcp", IPv6: "auto"},
	}}))(t)
	type ethernet struct {
		Match        struct{ Macaddress string }
		DHCP4, DHCP6 bool
		Identifier   string `yaml:"dhcp-identifier"`
		RA           bool   `yaml:"accept-ra"`
		Addresses    []string
		Gateway4     string
		Gateway6     string
		Nameservers  struct{ Addresses, Search []string }
	}
	var got struct {
		Version   int
		Ethernets map[string]ethernet
	}
	decode(t, files[firstboot.NetworkConfig], &got)
	static := ethernet{Addresses: []string{"10.0.0.5/24", "fd00::5/64"}, Gateway4: "10.0.0.1", Gateway6: "fe80::1"}
	static.Match.Macaddress = "bc:24:11:00:00:01"
	static.Nameservers.Addresses, static.Nameservers.Search = []string{"fd00::2"}, []string{"no", "1.2"}
	dynamic := ethernet{DHCP4: true, Identifier: "mac", RA: true}
	dynamic.Match.Macaddress = "52:54:00:12:34:56" // which is a number to base 60 to some parsers
	if diff := cmp.Diff(map[string]ethernet{"eth0": static, "eth1": dynamic}, got.Ethernets); diff != "" || got.Version != 2 {
		t.Errorf("version %d (-want +got):\n%s", got.Version, diff)
	}
}

// The script that installs an agent hands its variables over as they are, starts the agent when
// it is there, and does not when it is not.
func TestInstallScriptRuns(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skipf("NOT TRIED, for there is no shell: %v", err)
	}
	odd := "it's $HOME `x` \"y\" \\ * #"
	p := firstboot.Profile{
		Kind: firstboot.RKE2, Servers: []string{"a"}, Token: "t", ProviderID: firstboot.ProviderID{Scheme: firstboot.SchemeRKE2},
		Install: firstboot.Install{From: "script", Version: "v1.34.1+rke2r1", Script: "https://mirror.lab/it's.sh", Env: map[string]string{"ODD": odd}},
	}
	files := must.Get(p.UserData(firstboot.Machine{Name: "web-0"}))(t)
	var user cloudConfig
	decode(t, files[firstboot.UserData], &user)
	script := user.Files[len(user.Files)-1]
	if diff := cmp.Diff([][]string{{"sh", script.Path}}, user.Run); diff != "" {
		t.Errorf("runcmd (-want +got):\n%s", diff)
	}
	for _, c := range []struct{ curl, want string }{
		{
			// -o FILE are the arguments before the address, which is the last.
			`while [ $# -gt 2 ]; do shift; done; echo "fetches $2" >&2; echo 'echo "$INSTALL_RKE2_TYPE $INSTALL_RKE2_VERSION $ODD"' > "$1"`,
			"fetches https://mirror.lab/it's.sh\nagent v1.34.1+rke2r1 " + odd + "\nsystemctl enable --now --no-block rke2-agent.service\n",
		},
		{"exit 22", ""},
		{`while [ $# -gt 2 ]; do shift; done; echo 'exit 1' > "$1"`, ""},
	} {
		bin := t.TempDir()
		program(t, bin, "curl", c.curl)
		program(t, bin, "systemctl", `echo "systemctl $*"`)
		join := filepath.Join(t.TempDir(), "join.sh")
		must.Do(t, os.WriteFile(join, []byte(script.Content), 0o600))
		run := exec.Command(shell, join)
		run.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "TMPDIR=" + bin}
		out, err := run.CombinedOutput()
		if string(out) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("prints %q, %v, want %q", out, err, c.want)
		}
	}
}

// program puts a program of sh into a folder.
func program(t *testing.T, dir, name, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700))
}
