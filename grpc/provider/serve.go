package provider

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
)

// Listening is how a server is reached.
type Listening struct {
	// TLS asks every client of the provider for a certificate of a name that is listed; nil is
	// plain text.
	TLS *TLS
	// PlainAnywhere lets plain text be spoken on other than loopback addresses and unix sockets.
	PlainAnywhere bool
	Metrics       prometheus.Registerer // nil keeps none
}

// Check is why no client could be served at an address, or nil. Faults are of the key that says the
// address, and of tls.
func (how *Listening) Check(key string, at net.Addr) error {
	if how.TLS != nil {
		return how.TLS.check()
	}
	if !how.PlainAnywhere && !private(at) {
		return fmt.Errorf("%s: must be a loopback address or a unix socket without TLS, was %s", key, at)
	}
	return nil
}

// Serve serves the provider until the context is done, and then lets calls that are being answered
// finish. It can be called again then.
func (s *Server) Serve(ctx context.Context, l net.Listener, how Listening) error {
	alive := health.NewServer()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.setHealth(ctx, alive)
	go s.keepTellingHealth(ctx, alive)
	defer context.AfterFunc(ctx, alive.Shutdown)()
	return s.serve(ctx, l, &how, providerDoor, func(r registrar) { s.registerProvider(r, alive) })
}

func (s *Server) registerProvider(r registrar, alive *health.Server) {
	externalgrpc.RegisterCloudProviderServer(r, s)
	healthpb.RegisterHealthServer(r, alive)
	reflection.Register(r)
}

// ServeExpander serves the expander, as Serve does the provider. Cluster-autoscaler has no
// certificate to show to an expander, so that whoever reaches it may ask: it is on a port of its
// own, and moves no machine.
func (s *Server) ServeExpander(ctx context.Context, l net.Listener, how Listening) error {
	return s.serve(ctx, l, &how, expanderDoor, s.registerExpander)
}

func (s *Server) registerExpander(r registrar) { externalgrpc.RegisterExpanderServer(r, s) }

// serve serves what is registered at a door.
func (s *Server) serve(ctx context.Context, l net.Listener, how *Listening, d door, register func(registrar)) error {
	options, err := s.options(l.Addr(), how, d)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	server := grpc.NewServer(options...)
	register(registrar{server})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		stop(server)
	}()
	err = server.Serve(newLimited(l, connections, connectionsOf))
	cancel()
	<-ended
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

func (s *Server) options(at net.Addr, how *Listening, d door) ([]grpc.ServerOption, error) {
	if err := how.Check("listen", at); err != nil {
		return nil, err
	}
	options := d.options()
	if how.TLS != nil {
		creds := credentials.NewTLS(&tls.Config{
			MinVersion: tls.VersionTLS12,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				return d.lets(how.TLS)
			},
		})
		if !d.open {
			creds = mutual{creds}
		}
		options = append(options, grpc.Creds(creds))
	}
	if how.Metrics == nil {
		return options, nil
	}
	count, err := s.metrics(how.Metrics)
	return append(options, grpc.UnaryInterceptor(count)), err
}

// grace is how long calls may take that are being answered when the server stops.
const grace = 5 * time.Second

func stop(server *grpc.Server) {
	hard := time.AfterFunc(grace, server.Stop)
	defer hard.Stop()
	server.GracefulStop()
}

// setHealth reports to the health service. The process itself, known by the empty name, is
// healthy while it runs; the provider's service is while the machines can be seen.
func (s *Server) setHealth(ctx context.Context, alive *health.Server) {
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
			s.setHealth(ctx, alive)
		}
	}
}

func private(at net.Addr) bool {
	if tcp, ok := at.(*net.TCPAddr); ok {
		return tcp.IP.IsLoopback()
	}
	return at.Network() == "unix"
}

// metrics are those of all times that the server serves.
func (s *Server) metrics(to prometheus.Registerer) (grpc.UnaryServerInterceptor, error) {
	s.counting.Lock()
	defer s.counting.Unlock()
	if s.counted == to {
		return s.count, nil
	}
	count, err := s.newMetrics(to)
	if err == nil {
		s.counted, s.count = to, count
	}
	return count, err
}

// newMetrics counts and times every call, by name and outcome, and says whether the machines are
// seen.
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
		// From the start, so that a rate has something to start from.
		for _, m := range service.Methods {
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
