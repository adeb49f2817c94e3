package provider

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
)

// Listening is how a server is reached.
type Listening struct {
	// TLS asks every client for a certificate; nil is plain text.
	TLS *TLS
	// PlainAnywhere lets plain text be spoken on other than loopback addresses and unix sockets.
	PlainAnywhere bool
	Metrics       prometheus.Registerer // nil keeps none
}

// TLS is the certificate of the server, and the authority that its clients' are signed by. Every client
// needs a certificate but those of the expander and of the health service: cluster-autoscaler has none to
// show to an expander, and what those two tell moves no machine. The texts, in PEM, are asked for at every
// connection, so that rotated files serve without a restart; what cannot be read or does not fit together
// leaves the last good ones in force.
type TLS struct {
	Certificate, Key, ClientCA func() ([]byte, error)
	// Warn is told of texts that are not taken, once.
	Warn func(error)

	mu    sync.Mutex
	texts [3]string
	good  *tls.Config
	told  string
}

// Check is why nobody could be served at an address, or nil. Faults are of the keys listen and tls.
func (how *Listening) Check(at net.Addr) error {
	if how.TLS != nil {
		_, err := how.TLS.config()
		return err
	}
	if !how.PlainAnywhere && !private(at) {
		return fmt.Errorf("listen: must be a loopback address or a unix socket without TLS, was %s", at)
	}
	return nil
}

// Serve serves until the context is done, and then lets calls that are being answered finish. It can be
// called again then.
func (s *Server) Serve(ctx context.Context, l net.Listener, how Listening) error {
	options, err := s.options(l.Addr(), &how)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	server := grpc.NewServer(options...)
	externalgrpc.RegisterCloudProviderServer(server, s)
	externalgrpc.RegisterExpanderServer(server, s)
	alive := health.NewServer()
	healthpb.RegisterHealthServer(server, alive)
	reflection.Register(server)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.tellHealth(ctx, alive)
	go s.keepTellingHealth(ctx, alive)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		alive.Shutdown()
		stop(server)
	}()
	err = server.Serve(l)
	cancel()
	<-ended
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// grace is how long calls may take that are being answered when the server stops.
const grace = 5 * time.Second

func stop(server *grpc.Server) {
	hard := time.AfterFunc(grace, server.Stop)
	defer hard.Stop()
	server.GracefulStop()
}

// tellHealth tells the health service how it goes. The process itself, known by the empty name, is healthy
// while it runs; the provider's service is while the machines can be seen.
func (s *Server) tellHealth(ctx context.Context, alive *health.Server) {
	state := healthpb.HealthCheckResponse_SERVING
	if s.Healthy(ctx) != nil {
		state = healthpb.HealthCheckResponse_NOT_SERVING
	}
	alive.SetServingStatus(externalgrpc.CloudProvider_ServiceDesc.ServiceName, state)
}

func (s *Server) keepTellingHealth(ctx context.Context, alive *health.Server) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.tellHealth(ctx, alive)
		}
	}
}

// largest is how large a question may be, in bytes. Expanders are asked with every pending pod in full, once
// for every group that would take it, which is soon more than the usual 4 MiB.
const largest = 64 << 20

func (s *Server) options(at net.Addr, how *Listening) ([]grpc.ServerOption, error) {
	if err := how.Check(at); err != nil {
		return nil, err
	}
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(largest)}
	var between []grpc.UnaryServerInterceptor
	if how.TLS != nil {
		between = append(between, known)
		options = append(options, grpc.StreamInterceptor(knownStream))
		options = append(options, grpc.Creds(credentials.NewTLS(&tls.Config{
			MinVersion: tls.VersionTLS12,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				return how.TLS.config()
			},
		})))
	}
	if how.Metrics != nil {
		count, err := s.metrics(how.Metrics)
		if err != nil {
			return nil, err
		}
		between = append([]grpc.UnaryServerInterceptor{count}, between...) // refusals are counted too
	}
	return append(options, grpc.ChainUnaryInterceptor(between...)), nil
}

// known refuses calls of clients that have shown no certificate, but for the open services.
func known(ctx context.Context, in any, info *grpc.UnaryServerInfo, do grpc.UnaryHandler) (any, error) {
	if err := checkClient(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return do(ctx, in)
}

func knownStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, do grpc.StreamHandler) error {
	if err := checkClient(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return do(server, stream)
}

func checkClient(ctx context.Context, method string) error {
	switch strings.TrimPrefix(path.Dir(method), "/") {
	case externalgrpc.Expander_ServiceDesc.ServiceName, healthpb.Health_ServiceDesc.ServiceName:
		return nil
	}
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
			return nil
		}
	}
	return status.Error(codes.Unauthenticated, "client certificate: must be shown, none was")
}

func private(at net.Addr) bool {
	if tcp, ok := at.(*net.TCPAddr); ok {
		return tcp.IP.IsLoopback()
	}
	return at.Network() == "unix"
}

// config is the configuration by the texts as they are now.
func (t *TLS) config() (*tls.Config, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fresh, texts, err := t.read()
	switch {
	case err == nil:
		t.good, t.texts, t.told = fresh, texts, ""
	case t.good == nil:
		return nil, err
	case t.Warn != nil && t.told != err.Error():
		t.told = err.Error()
		t.Warn(fmt.Errorf("the last certificates stay in force: %w", err))
	}
	return t.good, nil
}

// read makes a configuration of the texts, if they are others than before.
func (t *TLS) read() (*tls.Config, [3]string, error) {
	var texts [3]string
	keys := [3]string{"tls.certificate", "tls.key", "tls.clientCA"}
	for i, from := range []func() ([]byte, error){t.Certificate, t.Key, t.ClientCA} {
		text, err := from()
		if err != nil {
			return nil, texts, fmt.Errorf("%s: must be a file that can be read: %w", keys[i], err)
		}
		texts[i] = string(text)
	}
	if texts == t.texts && t.good != nil {
		return t.good, texts, nil
	}
	if _, err := certificatesOf(texts[0]); err != nil {
		return nil, texts, fmt.Errorf("%s: %w", keys[0], err)
	}
	pair, err := tls.X509KeyPair([]byte(texts[0]), []byte(texts[1]))
	if err != nil {
		return nil, texts, fmt.Errorf("%s: must be the private key of %s in PEM, was not: %w", keys[1], keys[0], err)
	}
	authorities, err := certificatesOf(texts[2])
	if err != nil {
		return nil, texts, fmt.Errorf("%s: %w", keys[2], err)
	}
	clients := x509.NewCertPool()
	for _, c := range authorities {
		clients.AddCert(c)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients,
		// A resumed session would go on with a client whose certificate has expired since.
		SessionTicketsDisabled: true,
	}, texts, nil
}

// certificatesOf reads a text that holds certificates and nothing else. What a write has left half is
// refused, though its first part could be used.
func certificatesOf(text string) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	block, rest := pem.Decode([]byte(text))
	for ; block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("must hold certificates in PEM and nothing else, held a %s", strings.ToLower(block.Type))
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("must hold certificates in PEM, number %d was none: %w", len(all)+1, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 || bytes.Contains(rest, []byte("-----BEGIN")) {
		return nil, fmt.Errorf("must hold certificates in PEM, after %d of them %d bytes were none", len(all), len(rest))
	}
	return all, nil
}

// metrics are those of all times that the server serves.
func (s *Server) metrics(to prometheus.Registerer) (grpc.UnaryServerInterceptor, error) {
	if s.counted == to {
		return s.count, nil
	}
	count, err := s.newMetrics(to)
	if err == nil {
		s.counted, s.count = to, count
	}
	return count, err
}

// newMetrics counts and times every call, by name and outcome, and tells whether the machines are seen.
func (s *Server) newMetrics(to prometheus.Registerer) (grpc.UnaryServerInterceptor, error) {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "plimsoll_provider_calls_total", Help: "Calls answered to cluster-autoscaler, by outcome.",
	}, []string{"method", "code"})
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "plimsoll_provider_call_seconds", Help: "How long calls of cluster-autoscaler took to answer.",
		Buckets: []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5},
	}, []string{"method"})
	sight := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plimsoll_provider_machines_seen", Help: "1 while the machines can be seen, 0 while answers are as of the last time.",
	}, func() float64 {
		if s.Healthy(context.Background()) != nil {
			return 0
		}
		return 1
	})
	for _, c := range []prometheus.Collector{calls, took, sight} {
		if err := to.Register(c); err != nil {
			return nil, err
		}
	}
	for _, service := range []grpc.ServiceDesc{externalgrpc.CloudProvider_ServiceDesc, externalgrpc.Expander_ServiceDesc} {
		for _, m := range service.Methods { // from the start, so that a rate has something to start from
			calls.WithLabelValues(m.MethodName, "OK")
			took.WithLabelValues(m.MethodName)
		}
	}
	return func(ctx context.Context, in any, info *grpc.UnaryServerInfo, do grpc.UnaryHandler) (any, error) {
		start := time.Now()
		out, err := do(ctx, in)
		method := path.Base(info.FullMethod)
		calls.WithLabelValues(method, status.Code(err).String()).Inc()
		took.WithLabelValues(method).Observe(time.Since(start).Seconds())
		return out, err
	}, nil
}
