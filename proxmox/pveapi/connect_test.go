package pveapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestConnectionsAreRefusedBeforeAnyCall(t *testing.T) {
	good := func() Connection {
		return Connection{
			Endpoints: []string{"https://pve1.example:8006", "https://192.0.2.1:8006/", "https://[2001:db8::1]:8006"},
			Token:     func() (string, error) { return testToken, nil },
		}
	}
	pin := strings.Repeat("AB:", 31) + "AB"
	for _, c := range []struct {
		change func(*Connection)
		want   string // empty: it is taken
	}{
		{func(*Connection) {}, ""},
		{func(c *Connection) { c.Fingerprint = pin }, ""},
		{func(c *Connection) { c.Fingerprint = strings.ToLower(strings.ReplaceAll(pin, ":", "")) + ", " + pin }, ""},
		{func(c *Connection) { c.Insecure = true }, ""},
		{func(c *Connection) { c.Endpoints = nil }, "endpoints: must name one host at least, was empty"},
		{func(c *Connection) { c.Endpoints = []string{""} }, `endpoints[0]: must begin with https://, was ""`},
		{func(c *Connection) { c.Endpoints = []string{"pve1:8006"} }, `endpoints[0]: must begin with https://, was "pve1:8006"`},
		{func(c *Connection) { c.Endpoints[1] = "http://pve1:8006" }, `endpoints[1]: must begin with https://, was "http://pve1:8006"`},
		{func(c *Connection) { c.Endpoints[1] = "https://:8006" }, `endpoints[1]: must name a host, was "https://:8006"`},
		{func(c *Connection) { c.Endpoints[1] = "https://pve_1:8006" }, `endpoints[1]: must name a host, was "https://pve_1:8006"`},
		{func(c *Connection) { c.Endpoints[1] = "https://pve1" }, `endpoints[1]: must end in a port, :8006 unless a proxy listens on another, was "https://pve1"`},
		{func(c *Connection) { c.Endpoints[1] = "https://pve1:0" }, `endpoints[1]: must end in a port, :8006 unless a proxy listens on another, was "https://pve1:0"`},
		{func(c *Connection) { c.Endpoints[1] = "https://pve1:80066" }, `endpoints[1]: must end in a port, :8006 unless a proxy listens on another, was "https://pve1:80066"`},
		{func(c *Connection) { c.Endpoints[1] = "https://pve1:8006/api2/json" }, `endpoints[1]: must end after the port, was "https://pve1:8006/api2/json"`},
		{func(c *Connection) { c.Endpoints[1] = "https://pve1:8006?x=1" }, `endpoints[1]: must end after the port, was "https://pve1:8006?x=1"`},
		{func(c *Connection) { c.Endpoints[1] = "https://root:SECRET@pve1:8006" }, "endpoints[1]: must be https://HOST:8006 and nothing else; what was given is not repeated here"},
		{func(c *Connection) { c.Endpoints[1] = "root:SECRET@pve1:8006" }, "endpoints[1]: must be https://HOST:8006 and nothing else; what was given is not repeated here"},
		{func(c *Connection) { c.Endpoints[1] = "https:root:SECRET@pve1:8006" }, "endpoints[1]: must be https://HOST:8006 and nothing else; what was given is not repeated here"},
		{func(c *Connection) { c.Endpoints[1] = "https://pve1:8006/?token=root@pam!t1=SECRET" }, "endpoints[1]: must be https://HOST:8006 and nothing else; what was given is not repeated here"},
		{func(c *Connection) { c.Endpoints[1] = "https://pve1:port" }, "endpoints[1]: must be https://HOST:8006 and nothing else; what was given is not repeated here"},
		{func(c *Connection) { c.Endpoints[1] = "https://PVE1.example:8006/" }, `endpoints[1]: must be named once, was "https://PVE1.example:8006/" again`},
		{func(c *Connection) { c.Token = nil }, "token: must be set"},
		{func(c *Connection) {
			c.Token = func() (string, error) { return "", errors.New("open token: no such file") }
		}, "token: open token: no such file"},
		{func(c *Connection) { c.Token = func() (string, error) { return "root@pam=SECRET", nil } }, "token: must be user@realm!id=secret, and what was given (15 characters, not repeated here) has no ! before the token's id"},
		{func(c *Connection) { c.CA = []byte("not PEM") }, "ca: must be a certificate in PEM, and none was found in 7 bytes"},
		{func(c *Connection) { c.Fingerprint = "AB:CD" }, `fingerprint: must be the SHA-256 of a certificate, 64 hexadecimal digits with or without colons, was "AB:CD"`},
		{func(c *Connection) { c.Fingerprint = pin + "," }, `fingerprint: must be the SHA-256 of a certificate, 64 hexadecimal digits with or without colons, was ""`},
		{func(c *Connection) { c.Fingerprint = strings.Repeat("zz", 32) }, `fingerprint: must be the SHA-256 of a certificate, 64 hexadecimal digits with or without colons, was "` + strings.Repeat("zz", 32) + `"`},
		{func(c *Connection) { c.Fingerprint, c.Insecure = pin, true }, "insecure: must not be set beside ca or fingerprint, which it would leave unchecked; was true"},
		{func(c *Connection) { c.Timeout = -time.Second }, "timeout: must not be negative, was -1s"},
	} {
		connection := good()
		c.change(&connection)
		err := connection.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%v\nwant %s", err, c.want)
		}
		if _, failed := Connect(connection); (failed == nil) != (err == nil) {
			t.Errorf("connect: %v, validate: %v", failed, err)
		}
	}
}

func TestEveryFaultIsToldAtOnce(t *testing.T) {
	_, certificate := selfSigned(t)
	c := Connection{Endpoints: []string{"pve1", "ftp://x"}, CA: certificate, Fingerprint: "x", Insecure: true, Timeout: -1}
	err := c.Validate()
	for _, key := range []string{"endpoints[0]", "endpoints[1]", "token", "ca", "fingerprint", "insecure", "timeout"} {
		if err == nil || !strings.Contains(err.Error(), key+": ") {
			t.Errorf("%s is not in %v", key, err)
		}
	}
}

func TestAConnectionIsPrintedWithoutItsSecrets(t *testing.T) {
	c := Connection{Endpoints: []string{"https://pve1:8006"}, Token: func() (string, error) { return testToken, nil }, Insecure: true}
	warned := ""
	c.Warn = func(text string) { warned = text }
	client, err := Connect(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("%v|%+v|%#v|%s", c, c, c, c), fmt.Sprintf("%v|%+v|%#v|%s", client, client, client, client)} {
		if want := strings.Repeat("proxmox https://pve1:8006|", 4); text+"|" != want {
			t.Errorf("%s", text)
		}
	}
	if !strings.HasPrefix(warned, "insecure: ") || !strings.Contains(warned, "https://pve1:8006") || !strings.HasSuffix(warned, "set caFile or fingerprints") {
		t.Errorf("warned %q", warned)
	}
}
