package provider

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// shared is the authority of a whole cluster, as cert-manager has one: it signs for whoever asks.
type shared struct {
	t    *testing.T
	root *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newShared(t *testing.T) *shared {
	t.Helper()
	root, key, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "cluster"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return &shared{t, root, key}
}

func (a *shared) pair(template *x509.Certificate) tls.Certificate {
	a.t.Helper()
	cert, key, err := sign(template, a.root, a.key, time.Now(), time.Hour)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// creds are how a client connects that trusts the authority and shows a certificate of it, or none.
func (a *shared) creds(template *x509.Certificate) credentials.TransportCredentials {
	roots := x509.NewCertPool()
	roots.AddCert(a.root)
	cfg := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if template != nil {
		cfg.Certificates = []tls.Certificate{a.pair(template)}
	}
	return credentials.NewTLS(cfg)
}

// lets lets clients in whose certificates are of the authority and bear one of the names.
func (a *shared) lets(warn func(error), clients ...string) *TLS {
	server, key, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "plimsoll"}, DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.root, a.key, time.Now(), time.Hour)
	if err != nil {
		a.t.Fatal(err)
	}
	der := must.Get(x509.MarshalPKCS8PrivateKey(key))(a.t)
	is := func(text []byte) func() ([]byte, error) { return func() ([]byte, error) { return text, nil } }
	return &TLS{
		Certificate: is(pemOf("CERTIFICATE", server.Raw)), Key: is(pemOf("PRIVATE KEY", der)), ClientCA: is(pemOf("CERTIFICATE", a.root.Raw)),
		Clients: clients, Warn: warn,
	}
}

var toClient = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}

// workload is a certificate as a workload of the cluster gets it.
func workload(name string, dns []string, usages []x509.ExtKeyUsage, uris ...string) *x509.Certificate {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: dns, ExtKeyUsage: usages, KeyUsage: x509.KeyUsageDigitalSignature}
	for _, text := range uris {
		u, err := url.Parse(text)
		if err != nil {
			panic(err)
		}
		c.URIs = append(c.URIs, u)
	}
	return c
}

// Whose certificate it is decides, and not who signed it.
func TestOnlyListedNamesOrderMachines(t *testing.T) {
	authority := newShared(t)
	s, _ := made(t, nil)
	address := serve(t, s, Listening{TLS: authority.lets(nil, "cluster-autoscaler", "ca.kube-system.svc", "spiffe://home/ns/kube-system/sa/cluster-autoscaler")})
	both := append([]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, toClient...)
	for _, c := range []struct {
		what  string
		cert  *x509.Certificate
		enter bool
	}{
		{"the common name", workload("cluster-autoscaler", nil, toClient), true},
		{"a DNS name", workload("", []string{"other", "ca.kube-system.svc"}, toClient), true},
		{"a URI", workload("", nil, both, "spiffe://home/ns/kube-system/sa/cluster-autoscaler"), true},
		{"no certificate", nil, false},
		{"another workload's", workload("wordpress.tenant-a.svc", []string{"wordpress.tenant-a.svc"}, both), false},
		{"no name", workload("", nil, toClient), false},
		{"the start of a name", workload("cluster-autoscale", nil, toClient), false},
		{"more than a name", workload("cluster-autoscaler.tenant-a", []string{"x.ca.kube-system.svc"}, toClient), false},
		{"a name in other letters", workload("Cluster-Autoscaler", nil, toClient), false},
		{"a wildcard", workload("", []string{"*.kube-system.svc"}, toClient), false},
		{"another account's URI", workload("", nil, toClient, "spiffe://home/ns/tenant-a/sa/cluster-autoscaler"), false},
		{"the name without a usage", workload("cluster-autoscaler", nil, nil), false},
		{"the name for any usage", workload("cluster-autoscaler", nil, []x509.ExtKeyUsage{x509.ExtKeyUsageAny}), false},
		{"the name for servers", workload("cluster-autoscaler", nil, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}), false},
	} {
		if err := call(t, dial(t, address, authority.creds(c.cert))); (err == nil) != c.enter {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	stranger := newShared(t)
	roots := x509.NewCertPool()
	roots.AddCert(authority.root)
	other := credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{stranger.pair(workload("cluster-autoscaler", nil, toClient))}})
	if err := call(t, dial(t, address, other)); err == nil {
		t.Error("the name by another authority: served")
	}
}

func TestNobodyIsServedWithoutNames(t *testing.T) {
	s, _ := made(t, nil)
	l, _ := listen(t)
	err := s.Serve(t.Context(), l, Listening{TLS: newShared(t).lets(nil)})
	if err == nil || !strings.Contains(err.Error(), "tls.clients: must name whose certificates may order and destroy machines") {
		t.Error(err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the door is open")
	}
}

// An operator finds out why cluster-autoscaler is not let in, and no one fills the log by trying.
func TestRefusedClientsAreNamedOnceAMinute(t *testing.T) {
	authority := newShared(t)
	var mu sync.Mutex
	var refused []error
	s, _ := made(t, nil)
	address := serve(t, s, Listening{TLS: authority.lets(func(err error) { mu.Lock(); defer mu.Unlock(); refused = append(refused, err) }, "ca")})
	for _, name := range []string{"autoscaler", "wordpress", "wordpress"} {
		if err := call(t, dial(t, address, authority.creds(workload(name, nil, toClient)))); err == nil {
			t.Errorf("%s: served", name)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(refused) != 1 || refused[0].Error() != `a client is refused: client certificate: must bear one of the names in tls.clients, which are ["ca"], was of ["autoscaler"]` {
		t.Errorf("%q", errors.Join(refused...))
	}
}

// A client without a certificate, or with another workload's, has nothing that it sends decoded.
func TestStrangersCostNoMemory(t *testing.T) {
	authority := newShared(t)
	s, _ := made(t, nil)
	address := serve(t, s, Listening{TLS: authority.lets(nil, "cluster-autoscaler")})
	nodes := &externalgrpc.NodeGroupDeleteNodesRequest{Id: "x"}
	for range 400_000 {
		nodes.Nodes = append(nodes.Nodes, &externalgrpc.ExternalGrpcNode{})
	}
	ask := func(conn *grpc.ClientConn) {
		if _, err := externalgrpc.NewCloudProviderClient(conn).NodeGroupDeleteNodes(t.Context(), nodes); err == nil {
			t.Error("nodes are deleted")
		}
		if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err == nil {
			t.Error("health is said")
		}
	}
	for _, cert := range []*x509.Certificate{nil, workload("wordpress.tenant-a.svc", nil, toClient)} {
		conn := dial(t, address, authority.creds(cert))
		ask(conn) // the client's own part is made
		before := allocated()
		for range 5 {
			ask(conn)
		}
		if grown := allocated() - before; grown > 4<<20 {
			t.Errorf("%d bytes were taken", grown)
		}
	}
}

// allocated is how many bytes were ever taken.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
