package provider

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// serve serves the provider until the test ends, and returns the address.
func serve(t *testing.T, s *Server, how Listening) string {
	t.Helper()
	return serveBy(t, s.Serve, how)
}

func serveBy(t *testing.T, by func(context.Context, net.Listener, Listening) error, how Listening) string {
	t.Helper()
	l, address := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- by(ctx, l, how) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return address
}

func listen(t testing.TB) (net.Listener, string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	return l, l.Addr().String()
}

func dial(t testing.TB, address string, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	conn := must.Get(grpc.NewClient(address, grpc.WithTransportCredentials(creds)))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func certificates(t *testing.T, now time.Time, lasts time.Duration) *Certificates {
	t.Helper()
	return must.Get(SelfMade([]string{"127.0.0.1", "plimsoll.plimsoll.svc"}, now, lasts))(t)
}

// client is how cluster-autoscaler connects: it trusts ca, and shows the client's certificate of
// by.
func client(t *testing.T, ca, by *Certificates) credentials.TransportCredentials {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.CA)
	cfg := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if by != nil {
		pair := must.Get(tls.X509KeyPair(by.Client, by.ClientKey))(t)
		cfg.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(cfg)
}

// lets lets clients in that have the set's certificate and one of these names; without names, that
// of the set.
func lets(c *Certificates, clients ...string) *TLS {
	if clients == nil {
		clients = []string{SelfMadeClient}
	}
	return &TLS{
		Certificate: func() ([]byte, error) { return c.Server, nil },
		Key:         func() ([]byte, error) { return c.ServerKey, nil },
		ClientCA:    func() ([]byte, error) { return c.CA, nil },
		Clients:     clients,
	}
}

func mustPair(t *testing.T, c *Certificates) tls.Certificate {
	t.Helper()
	return must.Get(tls.X509KeyPair(c.Server, c.ServerKey))(t)
}

func call(t *testing.T, conn *grpc.ClientConn) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := externalgrpc.NewCloudProviderClient(conn).NodeGroups(ctx, &externalgrpc.NodeGroupsRequest{})
	return err
}

func TestOnlyClientsWithOurCertificateAreServed(t *testing.T) {
	ours := certificates(t, time.Now(), time.Hour)
	s, _ := made(t, nil)
	address := serve(t, s, Listening{TLS: lets(ours)})
	if err := call(t, dial(t, address, client(t, ours, ours))); err != nil {
		t.Errorf("our own client: %v", err)
	}
	expired := certificates(t, time.Now().Add(-2*time.Hour), time.Hour)
	for name, creds := range map[string]credentials.TransportCredentials{
		"no certificate":                 client(t, ours, nil),
		"a certificate of another CA":    client(t, ours, certificates(t, time.Now(), time.Hour)),
		"an expired one of another time": client(t, ours, expired),
		"plain text":                     insecure.NewCredentials(),
	} {
		conn := dial(t, address, creds)
		if err := call(t, conn); err == nil {
			t.Errorf("%s: served", name)
		}
		stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		if err == nil {
			_, err = stream.Recv()
		}
		if err == nil {
			t.Errorf("%s: told what the server serves", name)
		}
	}
}

// Cluster-autoscaler shows no certificate to an expander, which is all that there is at its port.
func TestExpanderIsOpenToClientsWithoutACertificateAtAPortOfItsOwn(t *testing.T) {
	ours := certificates(t, time.Now(), time.Hour)
	s, _ := made(t, nil)
	how := Listening{TLS: lets(ours)}
	conn := dial(t, serveBy(t, s.ServeExpander, how), client(t, ours, nil))
	id := groupOf(t, s, "workers.small")
	ask := func(conn *grpc.ClientConn) (*externalgrpc.BestOptionsResponse, error) {
		return externalgrpc.NewExpanderClient(conn).BestOptions(t.Context(), &externalgrpc.BestOptionsRequest{Options: []*externalgrpc.Option{{NodeGroupId: id, NodeCount: 1}}})
	}
	if answer, err := ask(conn); err != nil || answer.Options[0].NodeGroupId != id {
		t.Errorf("%v, %v", answer, err)
	}
	if err := call(t, conn); status.Code(err) != codes.Unimplemented {
		t.Errorf("the provider at the expander's port: %v", err)
	}
	provider := serve(t, s, how)
	if _, err := ask(dial(t, provider, client(t, ours, ours))); status.Code(err) != codes.Unimplemented {
		t.Errorf("the expander at the provider's port: %v", err)
	}
}

func TestExpiredClientOfOurOwnIsRefused(t *testing.T) {
	old := certificates(t, time.Now().Add(-2*time.Hour), time.Hour)
	fresh := certificates(t, time.Now(), time.Hour)
	s, _ := made(t, nil)
	address := serve(t, s, Listening{TLS: &TLS{
		Certificate: func() ([]byte, error) { return fresh.Server, nil },
		Key:         func() ([]byte, error) { return fresh.ServerKey, nil },
		ClientCA:    func() ([]byte, error) { return append(append([]byte{}, fresh.CA...), old.CA...), nil },
		Clients:     []string{SelfMadeClient},
	}})
	if err := call(t, dial(t, address, client(t, fresh, fresh))); err != nil {
		t.Errorf("a client in time: %v", err)
	}
	if err := call(t, dial(t, address, client(t, fresh, old))); err == nil {
		t.Error("a client whose time is over was served")
	}
}

func TestRotatedCertificateServesWithoutARestart(t *testing.T) {
	first, second := certificates(t, time.Now(), time.Hour), certificates(t, time.Now(), time.Hour)
	var now atomic.Pointer[Certificates]
	now.Store(first)
	var broken atomic.Bool
	warned := make(chan error, 100)
	s, _ := made(t, nil)
	text := func(of func(*Certificates) []byte) func() ([]byte, error) {
		return func() ([]byte, error) {
			if broken.Load() {
				return []byte("half a file"), nil
			}
			return of(now.Load()), nil
		}
	}
	address := serve(t, s, Listening{TLS: &TLS{
		Certificate: text(func(c *Certificates) []byte { return c.Server }),
		Key:         text(func(c *Certificates) []byte { return c.ServerKey }),
		ClientCA:    text(func(c *Certificates) []byte { return c.CA }),
		Clients:     []string{SelfMadeClient},
		Warn:        func(err error) { warned <- err },
	}})
	must.Do(t, call(t, dial(t, address, client(t, first, first))))
	now.Store(second)
	if err := call(t, dial(t, address, client(t, second, second))); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
	broken.Store(true)
	if err := call(t, dial(t, address, client(t, second, second))); err != nil {
		t.Errorf("while the files are being written: %v", err)
	}
	if err := <-warned; !strings.Contains(err.Error(), "stay in force") {
		t.Error(err)
	}
}

func TestPlainTextStaysOnThisMachine(t *testing.T) {
	s, _ := made(t, nil)
	far := &net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 8086}
	if err := (&Listening{}).Check("listen", far); err == nil || !strings.Contains(err.Error(), "192.0.2.1:8086") {
		t.Errorf("a far address: %v", err)
	}
	if err := (&Listening{PlainAnywhere: true}).Check("listen", far); err != nil {
		t.Errorf("a far address, told to: %v", err)
	}
	folder, err := os.MkdirTemp("", "p") // socket names are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket := filepath.Join(folder, "s")
	l := must.Get(net.Listen("unix", socket))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l, Listening{}) }()
	if err := call(t, dial(t, "unix:"+socket, insecure.NewCredentials())); err != nil {
		t.Errorf("over a socket: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestHealthAndMetricsTellHowItGoes(t *testing.T) {
	s, p := made(t, nil)
	p.down = errDown
	registry := prometheus.NewRegistry()
	conn := dial(t, serve(t, s, Listening{Metrics: registry}), insecure.NewCredentials())
	state := func(service string) healthpb.HealthCheckResponse_ServingStatus {
		answer := must.Get(healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service}))(t)
		return answer.Status
	}
	if got := state(""); got != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("the process is %s", got)
	}
	if got := state(externalgrpc.CloudProvider_ServiceDesc.ServiceName); got != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("the provider is %s while its machines cannot be seen", got)
	}
	must.Do(t, call(t, conn))
	families := must.Get(registry.Gather())(t)
	counts := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "plimsoll_provider_calls_total" {
				counts[m.Label[1].GetValue()] += m.Counter.GetValue()
			}
		}
	}
	if counts["NodeGroups"] != 1 {
		t.Errorf("calls: %v", counts)
	}
	if _, there := counts["NodeGroupIncreaseSize"]; !there || len(counts) < 16 {
		t.Errorf("series that are not there from the start: %v", counts)
	}
}
