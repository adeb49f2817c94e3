package pvesim

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// newCluster is one of three hosts.
func newCluster(t testing.TB, change func(*world.Config)) *Cluster {
	cfg := world.Config{Pools: []string{"workers"}, Storages: []world.Storage{{Name: "shared", Type: "nfs", Shared: true, Total: 1 << 40}}}
	for _, name := range []string{"pve1", "pve2", "pve3"} {
		cfg.Hosts = append(cfg.Hosts, world.Host{Name: name, CPUs: 8, Memory: 64 << 30})
	}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// ask sends a request with a token, and returns the status line and the body.
func ask(t testing.TB, c *Cluster, token, method, path, form string) (status, body string) {
	req, err := http.NewRequest(method, "https://pve1:8006/api2/json"+path, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "PVEAPIToken="+token)
	}
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := c.Transport().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Status, string(got)
}

func TestStatusLinesSayWhatIsWrong(t *testing.T) {
	c := newCluster(t, nil)
	root := c.Token("root@pam", "t1", false)
	for _, test := range []struct{ token, method, path, status, body string }{
		{root, "GET", "/version", "200 OK", `{"data":{"release":"9.2","repoid":"14a22df35955d97d","version":"9.2.11"}}`},
		{"", "GET", "/version", "401 No ticket", ""},
		{"root@pam!t1=x", "GET", "/version", "401 Authentication failed!", ""},
		{root, "GET", "/nope", "501 Method 'GET /nope' not implemented", `{"data":null,"message":"Method 'GET /nope' not implemented"}`},
		{root, "PATCH", "/version", "501 method 'PATCH' not available", ""},
		{root, "GET", "/version?foo=1", "400 Parameter verification failed.",
			`{"data":null,"errors":{"foo":"property is not defined in schema and the schema does not allow additional properties"},"message":"Parameter verification failed.\n"}`},
	} {
		status, body := ask(t, c, test.token, test.method, test.path, "")
		if status != test.status || body != test.body {
			t.Errorf("%s %s: got %s %s, want %s %s", test.method, test.path, status, body, test.status, test.body)
		}
	}
}

func TestRefusalsTakeThreeSeconds(t *testing.T) {
	c := newCluster(t, nil)
	before := c.Now()
	ask(t, c, "", "GET", "/version", "")
	if took := c.Now().Sub(before); took != 3*time.Second {
		t.Errorf("it took %s, want 3s", took)
	}
}

func TestRequestsEndWithTheirContextWhenTimeIsReal(t *testing.T) {
	c := newCluster(t, func(cfg *world.Config) { cfg.Speed = 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "https://pve1:8006/api2/json/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := c.Transport().RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v: who is not known waits three seconds", resp, err)
	}
}

func TestHostsThatAreNotThereCannotBeDialled(t *testing.T) {
	c := newCluster(t, nil)
	c.With(func() { c.Node("pve2").Up = false })
	for name, want := range map[string]string{
		"pve1": "", "10.99.0.3": "", "127.0.0.1": "", "localhost": "",
		"pve2": "dial tcp 10.99.0.2:8006: no route to host", "pve9": "dial tcp: lookup pve9: no such host",
	} {
		req, err := http.NewRequest("GET", "https://"+name+":8006/api2/json/access/domains", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Transport().RoundTrip(req)
		got := ""
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			got = op.Error()
		}
		if got != want || (err == nil) != (want == "") {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	c := newCluster(b, nil)
	token := c.Token("auto@pve", "t1", true)
	c.Grant("/", "PVEAuditor", "auto@pve")
	c.Grant("/", "PVEAuditor", "auto@pve!t1")
	for b.Loop() {
		if status, _ := ask(b, c, token, "GET", "/nodes/pve2/status", ""); status != "200 OK" {
			b.Fatal(status)
		}
	}
}
