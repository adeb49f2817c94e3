package signals

import (
	"context"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestObjectsNameTheServersThatTheAdministratorLists(t *testing.T) {
	a := &Access{
		AllowedHosts: []AllowedHosts{
			{Hosts: []string{"prometheus.monitoring:9090", "mimir.example"}},
			{Hosts: []string{"own.shop", "10.0.0.7:9090", "fd00::7"}, Namespaces: []string{"shop"}, Headers: []string{"X-Scope-OrgID"}},
		},
	}
	must.Do(t, a.Validate())
	header := map[string]string{"x-scope-orgid": "shop"}
	for _, c := range []struct {
		namespace, url string
		headers        map[string]string
		fine           bool
	}{
		{"bank", "http://prometheus.monitoring:9090", nil, true},
		{"bank", "http://Prometheus.Monitoring.:9090/prometheus", nil, true},
		{"bank", "http://prometheus.monitoring", nil, false},
		{"bank", "http://prometheus.monitoring:9091", nil, false},
		{"bank", "https://prometheus.monitoring.evil:9090", nil, false},
		{"bank", "https://mimir.example", nil, true},
		{"bank", "http://mimir.example:1", nil, true},
		{"bank", "http://own.shop", nil, false},
		{"shop", "http://own.shop", nil, true},
		{"shop", "http://own.shop", header, true},
		{"shop", "https://mimir.example", header, false},
		{"shop", "http://own.shop", map[string]string{"Metadata-Flavor": "Google"}, false},
		{"shop", "http://10.0.0.7:9090", nil, true},
		{"shop", "http://[::ffff:10.0.0.7]:9090", nil, true},
		{"shop", "http://[fd00::7]:1/x", nil, true},
		{"bank", "http://[fd00::7]:1/x", nil, false},
		{"shop", "http://169.254.169.254", nil, false},
		{"shop", "http://own.shop@169.254.169.254", nil, false},
		{"shop", "http://2130706433:9090", nil, false},
		{"shop", "http://", nil, false},
		{"shop", "%", nil, false},
	} {
		_, err := a.permit(c.namespace, c.url, c.headers)
		var f *failure
		if (err == nil) != c.fine || err != nil && (!errors.As(err, &f) || f.word != refusedByPolicy) {
			t.Errorf("%s %s %v: %v", c.namespace, c.url, c.headers, err)
		}
	}
	if _, err := (&Access{}).permit("shop", "http://own.shop", nil); err == nil {
		t.Error("with nothing listed something is allowed")
	}
}

func TestNamesLeadToNoAddressOfOurOwn(t *testing.T) {
	a := &Access{
		AllowedHosts: []AllowedHosts{
			{Hosts: []string{"prometheus.shop"}},
			{Hosts: []string{"127.0.0.1:9090", "10.96.0.9:443"}, Namespaces: []string{"lab"}},
		},
		APIServers: []string{"10.96.0.1:443", "10.96.0.9:443", "[fd00::1]:6443", "localhost:6444", "api.nowhere.invalid:443"},
	}
	for _, c := range []struct {
		namespace, address string
		fine               bool
	}{
		{"shop", "10.0.0.5:9090", true},
		{"shop", "192.168.1.5:443", true},
		{"shop", "10.96.0.1:80", true},
		{"shop", "127.0.0.1:9090", false},
		{"shop", "127.8.8.8:9090", false},
		{"shop", "[::1]:9090", false},
		{"shop", "[::ffff:127.0.0.1]:9090", false},
		{"shop", "169.254.169.254:80", false},
		{"shop", "[fe80::1%eth0]:80", false},
		{"shop", "0.0.0.0:9090", false},
		{"shop", "[::]:9090", false},
		{"shop", "224.0.0.1:9090", false},
		{"shop", "255.255.255.255:9090", false},
		{"shop", "10.96.0.1:443", false},
		{"shop", "[::ffff:10.96.0.1]:443", false},
		{"shop", "[fd00::1]:6443", false},
		{"shop", "[fd00::abc]:6443", true},
		{"shop", "0.0.0.7:9090", false},
		{"shop", "240.0.0.1:9090", false},
		{"shop", "[2001:db8::5]:9090", true},
		{"shop", "[64:ff9b::192.168.1.5]:9090", true},
		{"shop", "[64:ff9b::127.0.0.1]:9090", false},
		{"shop", "[64:ff9b::169.254.169.254]:80", false},
		{"shop", "[64:ff9b::10.96.0.1]:443", false},
		{"shop", "[64:ff9b:1::127.0.0.1]:9090", false},
		{"shop", "[64:ff9b:1::192.168.1.5]:9090", true},
		{"shop", "[64:ff9b:1:7f00:0:100::]:9090", false},    // of 48 bits
		{"shop", "[64:ff9b:1:ff7f:0:1::]:9090", false},      // of 56
		{"shop", "[64:ff9b:1:ffff:7f:0:100:0]:9090", false}, // of 64
		{"shop", "[64:ff9b:1::]:9090", false},
		{"shop", "[2002:7f00:1::]:9090", false},
		{"shop", "[2002:808:808::1]:9090", false},
		{"shop", "[2001:0:53aa:64c:0:0:80ff:fffe]:9090", false},
		{"shop", "[::7f00:1]:9090", false},
		{"shop", "[::a9fe:a9fe]:80", false},
		{"shop", "[::ffff:0:7f00:1]:9090", false},
		{"lab", "[64:ff9b::127.0.0.1]:9090", false},
		{"lab", "[::ffff:127.0.0.1]:9090", true},
		{"lab", "127.0.0.1:9090", true},
		{"lab", "127.0.0.1:9091", false},
		{"lab", "127.0.0.2:9090", false},
		{"lab", "10.96.0.9:443", true},
		{"shop", "10.96.0.9:443", false},
	} {
		p := &permit{access: a, namespace: c.namespace}
		if err := p.reaches(t.Context(), c.address); (err == nil) != c.fine {
			t.Errorf("%s to %s: %v", c.namespace, c.address, err)
		}
	}
	if !a.serves(t.Context(), netip.MustParseAddr("127.0.0.1"), 6444) {
		t.Error("the API server's name is not looked up")
	}
}

// A machine's own services are on its own addresses as they are on loopback.
func TestNamesLeadToNoAddressOfThisMachine(t *testing.T) {
	all := must.Get(net.InterfaceAddrs())(t)
	for _, a := range all {
		own, _ := netip.ParsePrefix(a.String())
		at := netip.AddrPortFrom(own.Addr(), 9090).String()
		p := &permit{access: &Access{AllowedHosts: []AllowedHosts{{Hosts: []string{"prometheus.shop"}}}}, namespace: "shop"}
		if err := p.reaches(t.Context(), at); err == nil {
			t.Errorf("%s is reached by a name", at)
		}
		p.access.AllowedHosts[0].Hosts = []string{own.Addr().String()}
		if err := p.reaches(t.Context(), at); err != nil {
			t.Errorf("%s, which is listed: %v", at, err)
		}
	}
}

// A host allowed on all ports is not allowed on those of a cluster's own parts and of Proxmox VE:
// no name leads to them on any address of a control plane.
func TestPortsOfAControlPlaneAreListed(t *testing.T) {
	a := &Access{AllowedHosts: []AllowedHosts{{Hosts: []string{"prometheus.shop", "10.0.0.7", "api.shop:6443", "10.0.0.8:6443"}}}}
	for url, fine := range map[string]bool{
		"http://prometheus.shop": true, "https://prometheus.shop": true, "http://prometheus.shop:9090": true,
		"https://prometheus.shop:6443": false, "https://prometheus.shop:10250": false, "https://10.0.0.7:8006": false, "https://10.0.0.7:2379": false,
		"https://api.shop:6443": true, "https://10.0.0.8:6443": true, "https://10.0.0.8:10250": false,
	} {
		if _, err := a.permit("shop", url, nil); (err == nil) != fine {
			t.Errorf("%s: %v", url, err)
		}
	}
	_, err := a.permit("shop", "https://prometheus.shop:6443", nil)
	var f *failure
	if !errors.As(err, &f) || !strings.Contains(f.detail.Error(), "port 6443 is listed only by a host with that port") {
		t.Error(err)
	}
}

func TestAccessSaysWhatIsWrongWithIt(t *testing.T) {
	a := &Access{
		AllowedHosts: []AllowedHosts{
			{},
			{Hosts: []string{"http://a", "a/b", "localhost", "A", "a:0", "a:70000", "*", ""}, Namespaces: []string{"No"}, Headers: []string{"Authorization", "a b", "host"}},
		},
		FreeQueries: []string{"*", "a*"},
	}
	err := a.Validate()
	var keys []string
	for _, line := range strings.Split(err.Error(), "\n") {
		key, _, _ := strings.Cut(line, ": ")
		keys = append(keys, key)
	}
	want := "allowedHosts[0].hosts allowedHosts[1].hosts[0] allowedHosts[1].hosts[1] allowedHosts[1].hosts[2] allowedHosts[1].hosts[3] allowedHosts[1].hosts[4] " +
		"allowedHosts[1].hosts[5] allowedHosts[1].hosts[6] allowedHosts[1].hosts[7] allowedHosts[1].namespaces[0] allowedHosts[1].headers[0] allowedHosts[1].headers[1] " +
		"allowedHosts[1].headers[2] freeQueries[1]"
	if got := strings.Join(keys, " "); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// For every object: nothing is asked that is not listed, nothing is shown without TLS, and the
// status has one of three words for it.
func TestAnObjectsServerIsAskedOnlyAsThePolicySays(t *testing.T) {
	var asked atomic.Int32
	answer := func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if strings.HasPrefix(r.URL.Path, "/moved") {
			http.Redirect(w, r, "http://"+r.Host+"/api/v1/query", http.StatusFound)
			return
		}
		_, _ = w.Write([]byte(`{"status":"success","data":` + vector(noon, `{} 3`)[1:] + `}`))
	}
	plain, secure := httptest.NewServer(http.HandlerFunc(answer)), httptest.NewTLSServer(http.HandlerFunc(answer))
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	u, _ := url.Parse(plain.URL)
	gone := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	_ = gone.Close()
	creds := Credentials{Token: "s3cret", CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})}
	here := AllowedHosts{Hosts: []string{"127.0.0.1"}}
	inClear := AllowedHosts{Hosts: []string{"127.0.0.1"}, PlaintextCredentials: true}
	byName := AllowedHosts{Hosts: []string{"localhost"}} // which a configuration file may not say
	for _, c := range []struct {
		name, url string
		hosts     []AllowedHosts
		creds     Credentials
		api       []string
		why       string
		requests  int32
	}{
		{"nothing is listed", plain.URL, nil, Credentials{}, nil, refusedByPolicy, 0},
		{"it is listed", plain.URL, []AllowedHosts{here}, Credentials{}, nil, "", 1},
		{"a name that leads to ourselves", "http://localhost:" + u.Port(), []AllowedHosts{byName}, Credentials{}, nil, refusedByPolicy, 0},
		{"and whose address is listed, too", "http://localhost:" + u.Port(), []AllowedHosts{byName, here}, Credentials{}, nil, "", 1},
		{"a secret without TLS", plain.URL, []AllowedHosts{here}, creds, nil, refusedByPolicy, 0},
		{"a secret without TLS where that is allowed", plain.URL, []AllowedHosts{inClear}, creds, nil, "", 1},
		{"authorities are no secret", plain.URL, []AllowedHosts{here}, Credentials{CA: creds.CA}, nil, "", 1},
		{"a secret by TLS", secure.URL, []AllowedHosts{here}, creds, nil, "", 1},
		{"nothing is followed", plain.URL + "/moved", []AllowedHosts{here}, Credentials{}, nil, invalidAnswer, 1},
		{"nothing is there", "http://" + gone.Addr().String(), []AllowedHosts{here}, Credentials{}, nil, unreachable, 0},
		{"another namespace's", plain.URL, []AllowedHosts{{Hosts: here.Hosts, Namespaces: []string{"bank"}}}, Credentials{}, nil, refusedByPolicy, 0},
	} {
		for _, kind := range []string{"prometheus", "registration", "openCost"} {
			t.Run(c.name+", "+kind, func(t *testing.T) {
				asked.Store(0)
				var log logbook
				access := Access{AllowedHosts: c.hosts, FreeQueries: []string{"nobody"}, APIServers: c.api}
				o := Options{
					Access: access, Log: slog.New(&log), NodePrices: func() map[string]float64 { return map[string]float64{"n": 1} },
					Credentials: func(context.Context, string, Prometheus) (Credentials, error) { return c.creds, nil },
				}
				spec, signal := Spec{}, registration
				switch kind {
				case "prometheus":
					spec, signal = Spec{Prometheus: &Prometheus{URL: c.url, SecretName: "own"}, Queries: Queries{Arrivals: "up"}}, arrivals
				case "registration":
					spec = registryAt(c.url)
					spec.Registration.SecretName = "own"
				default:
					if len(c.creds.CA) > 0 {
						t.Skip("OpenCost is shown nothing")
					}
					spec, signal = Spec{OpenCost: &OpenCost{URL: c.url}}, "openCost"
				}
				r := reader(t, nil, source(spec), o)
				r.Prepare(t.Context(), noon) // a second time
				want := "MetricsUnknown: " + signal + ": " + c.why
				got := lines(r.Findings("shop/cart"))
				if c.why == "" && kind == "prometheus" {
					want = ""
				}
				if c.why == "" && kind != "prometheus" { // it answers like a Prometheus
					want = "MetricsUnknown: " + signal + ": " + invalidAnswer
				}
				if got != want {
					t.Errorf("findings %q, want %q", got, want)
				}
				if n := asked.Load(); n != 2*c.requests {
					t.Errorf("asked %d times, want %d", n, 2*c.requests)
				}
				if said := log.all(); (said == "") != (want == "") || strings.Contains(said, "\n") || strings.Contains(said, "s3cret") {
					t.Errorf("the log says %q", said)
				}
			})
		}
	}
}

// The policy does not restrict the administrator's own server.
func TestTheSharedPrometheusIsAlwaysAsked(t *testing.T) {
	f := newFake(t, istio)
	u, _ := url.Parse(f.URL)
	o := Options{
		Prometheus: &Prometheus{URL: f.URL}, Access: Access{APIServers: []string{u.Host}},
		Credentials: func(context.Context, string, Prometheus) (Credentials, error) { return Credentials{Token: "t"}, nil },
	}
	r := New(o)
	must.Do(t, r.Configure(map[string]Source{"shop/cart": source(Spec{Preset: Istio})}))
	r.Prepare(t.Context(), noon)
	if got := read(t, r, "shop/cart", noon).Arrivals; got != podscaler.Known(100) {
		t.Errorf("got %+v", got)
	}
	// An object that names the same address is held to it.
	own := source(Spec{Preset: Istio, Prometheus: &Prometheus{URL: f.URL}})
	must.Do(t, r.Configure(map[string]Source{"shop/cart": own}))
	r.Prepare(t.Context(), noon.Add(time.Second))
	if got := read(t, r, "shop/cart", noon.Add(time.Second)).Arrivals; got.Known || got.Why != refusedByPolicy {
		t.Errorf("got %+v", got)
	}
}
