package firstboot

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestFaultsOfInterfaces(t *testing.T) {
	const v4 = `must be "dhcp", "none" or an address with its prefix length, such as 10.0.0.5/24`
	const v6 = `must be "dhcp", "auto", "none" or an address with its prefix length, such as fd00::5/64`
	for _, c := range []struct {
		nic  NIC
		want []string
	}{
		{NIC{IPv4: "dhcp"}, nil},
		{NIC{IPv4: "none"}, nil},
		{NIC{IPv4: "10.0.0.5/24", Gateway4: "10.0.0.1", IPv6: "fd00::5/64", Gateway6: "fe80::1"}, nil},
		{NIC{IPv4: "10.0.0.5/32"}, nil},
		{NIC{IPv4: "10.0.0.0/31", Gateway4: "10.0.0.1"}, nil},
		{NIC{}, []string{`machine.nics[0].ipv4: ` + v4 + `, was ""`}},
		{NIC{IPv4: "10.0.0.5"}, []string{`machine.nics[0].ipv4: ` + v4 + `, was "10.0.0.5"`}},
		{NIC{IPv4: "fd00::5/64"}, []string{`machine.nics[0].ipv4: ` + v4 + `, was "fd00::5/64"`}},
		{NIC{IPv4: "auto"}, []string{`machine.nics[0].ipv4: ` + v4 + `, was "auto"`}},
		{NIC{IPv4: "dhcp", IPv6: "10.0.0.5/24"}, []string{`machine.nics[0].ipv6: ` + v6 + `, was "10.0.0.5/24"`}},
		{NIC{IPv4: "dhcp", IPv6: "::ffff:10.0.0.5/120"}, []string{`machine.nics[0].ipv6: ` + v6 + `, was "::ffff:10.0.0.5/120"`}},
		{NIC{IPv4: "10.0.0.5/7"}, []string{`machine.nics[0].ipv4: must have a prefix of at least 8 bits, was "10.0.0.5/7"`}},
		{NIC{IPv4: "10.0.0.0/24"}, []string{`machine.nics[0].ipv4: must be an address of a host, not that of its network, was "10.0.0.0/24"`}},
		{NIC{IPv4: "10.0.0.127/25"}, []string{`machine.nics[0].ipv4: must be an address of a host, not the broadcast address, was "10.0.0.127/25"`}},
		{NIC{IPv4: "10.0.0.5/24", Gateway4: "10.0.1.1"}, []string{`machine.nics[0].gateway4: must be another address of 10.0.0.0/24, was "10.0.1.1"`}},
		{NIC{IPv4: "10.0.0.5/24", Gateway4: "10.0.0.5"}, []string{`machine.nics[0].gateway4: must be another address of 10.0.0.0/24, was "10.0.0.5"`}},
		{NIC{IPv4: "10.0.0.5/24", Gateway4: "fe80::1"}, []string{`machine.nics[0].gateway4: must be another address of 10.0.0.0/24, was "fe80::1"`}},
		{NIC{IPv4: "none", IPv6: "fd00::5/64", Gateway6: "fe80::1%eth0"}, []string{`machine.nics[0].gateway6: must be another address of fd00::/64, was "fe80::1%eth0"`}},
		{NIC{IPv4: "dhcp", Gateway4: "10.0.0.1"}, []string{`machine.nics[0].gateway4: must be absent unless ipv4 is an address, was "10.0.0.1"`}},
		{NIC{IPv4: "dhcp", DNS: []string{"1.1.1.1", "dns.lab"}, Search: []string{"Lab"}}, []string{
			`machine.nics[0].dns[1]: must be an address, was "dns.lab"`,
			`machine.nics[0].search[0]: must be a DNS name in lower case, was "Lab"`,
		}},
	} {
		p, m := rke2(), machine()
		c.nic.MAC = "bc:24:11:00:00:01"
		m.NICs = []NIC{c.nic}
		_, err := p.UserData(m)
		if diff := cmp.Diff(c.want, faultLines(err)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.nic, diff)
		}
	}

	p, m := rke2(), machine()
	m.NICs = []NIC{
		{MAC: "bc:24:11:00:00:0a", IPv4: "10.0.0.5/24", Gateway4: "10.0.0.1"},
		{MAC: "BC:24:11:00:00:0A", IPv4: "10.0.1.5/24", Gateway4: "10.0.1.1"},
		{MAC: "01:00:5e:00:00:01", IPv4: "dhcp"},
	}
	_, err := p.UserData(m)
	want := []string{
		`machine.nics[1].mac: must be no other interface's, was "BC:24:11:00:00:0A"`,
		`machine.nics[1].gateway4: must be the machine's only one, for there is one default route, was "10.0.1.1"`,
		`machine.nics[2].mac: must be a unicast MAC address such as bc:24:11:00:00:01, was "01:00:5e:00:00:01"`,
	}
	if diff := cmp.Diff(want, faultLines(err)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestNativeKeysAreProxmoxOwn(t *testing.T) {
	p, m := native(), machine()
	p.User, p.SSHKeys = "ops", []string{publicKey, publicKey}
	m.NICs = []NIC{
		{MAC: "bc:24:11:00:00:01", IPv4: "10.0.0.5/24", Gateway4: "10.0.0.1", IPv6: "auto", DNS: []string{"10.0.0.2", "fd00::2"}, Search: []string{"lab.local"}},
		{MAC: "bc:24:11:00:00:02", IPv4: "none"},
		{MAC: "bc:24:11:00:00:03", IPv4: "dhcp", IPv6: "fd00::5/64", Gateway6: "fe80::1", DNS: []string{"10.0.0.2"}},
	}
	got := must.Get(p.Native(m))(t)
	const encoded = "ssh-ed25519%20AAAAC3NzaC1lZDI1NTE5AAAAIHsmqjz2QZ1Qe5yY7G5u0YJr4b3mQvZJ5m6l0S1rB2rT%20ops%2Bnight%40example%0A"
	want := map[string]string{
		"citype":       "nocloud",
		"ciuser":       "ops",
		"sshkeys":      encoded + encoded,
		"ipconfig0":    "ip=10.0.0.5/24,gw=10.0.0.1,ip6=auto",
		"ipconfig2":    "ip=dhcp,ip6=fd00::5/64,gw6=fe80::1",
		"nameserver":   "10.0.0.2 fd00::2",
		"searchdomain": "lab.local",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}

	small := native()
	if got, err := small.Native(machine()); err != nil || !cmp.Equal(got, map[string]string{"citype": "nocloud"}) {
		t.Errorf("keys of a machine of which nothing is said: %v, %v", got, err)
	}
	agent := rke2()
	if _, err := agent.Native(machine()); err == nil || err.Error() != `kind: must be custom without a userDataFile where Proxmox VE's own keys are used, was "rke2"` {
		t.Errorf("keys of an agent: %v", err)
	}
}

// For any comments, the keys are of the letters that Proxmox VE takes, and decoded they are what
// they were.
func TestLawSSHKeysSurviveProxmox(t *testing.T) {
	takes := regexp.MustCompile(`^[-%a-zA-Z0-9_.!~*'()]*$`)
	rapid.Check(t, func(t *rapid.T) {
		comment := rapid.String().Draw(t, "comment")
		p := native()
		p.SSHKeys = []string{strings.TrimSuffix(publicKey, "ops+night@example") + comment}
		keys, err := p.Native(machine())
		if err != nil {
			if printable(comment) {
				t.Fatal(err)
			}
			return
		}
		back, err := url.PathUnescape(keys["sshkeys"])
		if err != nil || !takes.MatchString(keys["sshkeys"]) || back != p.SSHKeys[0]+"\n" {
			t.Fatalf("%q came back as %q, %v", p.SSHKeys[0], back, err)
		}
	})
}
