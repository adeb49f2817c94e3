package pvesim

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// busy is a cluster with something of everything in it.
func busy(t testing.TB) (*Cluster, []string) {
	c := newCluster(t, func(cfg *world.Config) {
		cfg.Storages = append(cfg.Storages, world.Storage{Name: "local", Type: "dir", Total: 1 << 40, Content: []string{"images", "iso", "snippets"}})
		cfg.VMs = []world.VM{
			{ID: 100, Host: "pve1", Template: true, Storage: "shared", Disk: 1 << 30, Pool: "workers"},
			{ID: 101, Host: "pve1", Running: true, Storage: "local", Disk: 1 << 30},
			{ID: 102, Host: "pve2", Storage: "shared", Disk: 1 << 30, Config: map[string]string{"agent": "1"}},
		}
	})
	c.SetPassword("root@pam", "correct horse")
	ticket, csrf := logIn(t, c, "root@pam", "correct horse")
	root, auto := c.Token("root@pam", "t1", false), c.Token("auto@pve", "t1", true)
	c.Grant("/", "PVEVMAdmin", "auto@pve")
	c.Grant("/vms", "PVEVMAdmin", "auto@pve!t1")
	return c, []string{
		"Authorization: PVEAPIToken=" + root, "Authorization: PVEAPIToken=" + root, "Authorization: PVEAPIToken=" + auto,
		"Cookie: PVEAuthCookie=" + ticket + "\r\nCSRFPreventionToken: " + csrf, "Cookie: x",
	}
}

// likely are values that parameters may have, of which some fit many.
var likely = []string{
	"", "0", "1", "2", "100", "101", "102", "103", "999999999", "-1", "x", "pve1", "pve2", "nosuch", "localhost", "shared", "local",
	"workers", "a/b", "auto@pve", "root@pam", "t1", "PVEAuditor", "iso", "images", "raw", "qcow2", "scsi0", "virtio0", "net0", "+1G", "5G",
	"local:iso/x.iso", "shared:1", "virtio,bridge=vmbr0", "vm:101", "started", "hour", "vm", "user", "s1", "current", "true", "a,b;c", "ü\x00\n%",
}

// drawn is a request for one of the calls that there are, with parameters that fit now and then.
func drawn(t *rapid.T, all []*api.Endpoint) *http.Request {
	e := rapid.SampledFrom(all).Draw(t, "endpoint")
	value := func(p *params.Param) string {
		if p != nil && len(p.Enum) > 0 && rapid.Bool().Draw(t, "fits") {
			return rapid.SampledFrom(p.Enum).Draw(t, "value")
		}
		return rapid.SampledFrom(likely).Draw(t, "value")
	}
	path := api.TemplateVariable.ReplaceAllStringFunc(e.Path, func(v string) string { return url.PathEscape(value(e.Schema.LookUp(v[1 : len(v)-1]))) })
	form := url.Values{}
	for _, name := range e.Schema.Order {
		p := e.Schema.LookUp(name)
		if strings.Contains(e.Path, "{"+name+"}") || p != nil && p.Optional && rapid.IntRange(0, 5).Draw(t, "leave") > 0 {
			continue
		}
		form.Add(name+rapid.SampledFrom([]string{"", "", "", "0"}).Draw(t, "number"), value(p))
	}
	req, err := http.NewRequest(e.Method, "https://pve1:8006/api2/"+rapid.SampledFrom([]string{"json", "json", "extjs"}).Draw(t, "form")+path, nil)
	if err != nil {
		t.Skip(err)
	}
	text, kind := form.Encode(), "application/x-www-form-urlencoded"
	if rapid.Bool().Draw(t, "JSON") {
		sent := map[string]any{}
		for name := range form {
			sent[name] = form.Get(name)
		}
		body, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		text, kind = string(body), "application/json"
	}
	if e.Method == "GET" || e.Method == "DELETE" {
		req.URL.RawQuery = form.Encode()
		return req
	}
	req.Body, req.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	req.Header.Set("Content-Type", kind)
	return req
}

// Every request is answered: in bounded time, with a status that the server has, and in JSON.
func TestEveryRequestIsAnswered(t *testing.T) {
	all := slices.DeleteFunc(declaredEndpoints(), func(e *api.Endpoint) bool {
		return e.Path == "/nodes/{node}/status" && e.Method == "POST" // after which no one answers
	})
	rapid.Check(t, func(rt *rapid.T) {
		c, credentials := busy(t)
		defer c.Close()
		for range 10 {
			req := drawn(rt, all)
			for _, line := range strings.Split(rapid.SampledFrom(credentials).Draw(rt, "credentials"), "\r\n") {
				name, value, _ := strings.Cut(line, ": ")
				req.Header.Set(name, value)
			}
			began := c.Now()
			resp, err := c.Transport().RoundTrip(req)
			if err != nil && strings.HasSuffix(req.URL.Path, "/upload") {
				continue // it carries no file: the server hangs up
			}
			if err != nil {
				rt.Fatalf("%s %s: %v", req.Method, req.URL, err)
			}
			body, err := io.ReadAll(resp.Body)
			if took := c.Now().Sub(began); err != nil || took > 2*time.Minute {
				rt.Fatalf("%s %s: %s after %s, %v", req.Method, req.URL, resp.Status, took, err)
			}
			switch resp.StatusCode {
			case 200, 400, 401, 403, 500, 501, 506, 595, 596:
			default:
				rt.Fatalf("%s %s: %s", req.Method, req.URL, resp.Status)
			}
			if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") && !json.Valid(body) {
				rt.Fatalf("%s %s: %q", req.Method, req.URL, body)
			}
			c.Advance(time.Duration(rapid.IntRange(0, 20).Draw(rt, "seconds")) * time.Second)
		}
	})
}

// For any bytes that come over a connection, the server neither panics nor keeps it, and what it
// answers is HTTP.
func FuzzConnection(f *testing.F) {
	c, credentials := busy(f)
	for _, head := range credentials {
		for _, line := range []string{"GET /api2/json/version", "POST /api2/json/pools", "PUT /api2/extjs/nodes/pve1/qemu/101/config", "DELETE /api2/json/pools/x"} {
			f.Add([]byte(line + " HTTP/1.1\r\nHost: a\r\n" + head + "\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"poolid\":\"x\"}"))
		}
	}
	f.Add([]byte("POST /api2/json/nodes/pve1/storage/local/upload HTTP/1.1\r\n" + credentials[0] +
		"\r\nContent-Type: multipart/form-data; boundary=B\r\nContent-Length: 140\r\n\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\niso\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"a.iso\"\r\n\r\nx\r\n--B--\r\n"))
	f.Add([]byte("\r\n\r\nGET / HTTP/1.0\r\n folded\r\nA : b\r\n c\r\n\r\nhello"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		client, server := net.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() { _ = server.Close() }()
			c.converse(patient{server}, c.Nodes[0])
		}()
		answered := make(chan string)
		go func() {
			got, _ := io.ReadAll(client)
			answered <- string(got)
		}()
		_, _ = client.Write(sent) // the server may have hung up
		_ = client.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if got := <-answered; got != "" && !strings.HasPrefix(got, "HTTP/1.") {
			t.Errorf("%q", got)
		}
		_ = client.Close()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Fatal("the connection is kept")
		}
	})
}
