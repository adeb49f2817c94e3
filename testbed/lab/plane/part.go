package plane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/testbed/lab"
)

// Part is the plane as a part of a lab. Its endpoints are "apps", which requests are sent to, and
// "metrics".
type Part struct {
	// Seed is where all chance in the plane comes from.
	Seed uint64
	// Every is how often CPU use is sampled; as metrics-server does, every 15 s, if zero.
	Every time.Duration
	// Gateway keeps each pod's proxy and containers out of /metrics: of a large cluster's pods they
	// would be gigabytes. The metrics of the gateway in front of the workloads are there.
	Gateway bool
	// Address is where requests are taken: on loopback, and at a free port if empty.
	Address string

	resourcesAt string         // as Address, for the metrics API
	anew        chan time.Time // see SampleFrom
}

// SampleFrom samples CPU use at once, then at a time that is to come, and from there on at every
// interval. The plane must be up.
func (pt *Part) SampleFrom(ctx context.Context, first time.Time) error {
	select {
	case pt.anew <- first:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// PartName is the name of the part.
const PartName = "plane"

// Name is the part's name.
func (*Part) Name() string { return PartName }

// Start starts the plane: what runs in the cluster is known when it answers.
func (pt *Part) Start(ctx context.Context, l *lab.Lab) (*lab.Running, error) {
	client, err := kubernetes.NewForConfig(l.REST())
	if err != nil {
		return nil, err
	}
	p := New(pt.Seed)
	p.gateway = pt.Gateway
	s := newServing()
	if err := pt.start(ctx, l, client, p, s); err != nil {
		s.stop()
		return nil, err
	}
	anew := make(chan time.Time)
	pt.anew = anew
	s.goOn(func(ctx context.Context) { p.sampleEvery(ctx, cmp.Or(pt.Every, 15*time.Second), anew) })
	return &lab.Running{
		Endpoints: []lab.Endpoint{{Name: "apps", URL: "http://" + pt.Address}, {Name: "metrics", URL: "http://" + pt.Address + "/metrics"}},
		Ended:     s.failed,
		Stop:      func(context.Context) error { s.stop(); return nil },
	}, nil
}

func (pt *Part) start(ctx context.Context, l *lab.Lab, client kubernetes.Interface, p *Plane, s *services) error {
	if err := p.watch(ctx, client, s); err != nil {
		return err
	}
	proof, err := readFrontProxy(ctx, client)
	if err != nil {
		return err
	}
	apps, err := listen(&pt.Address)
	if err != nil {
		return err
	}
	s.serve(apps, p.Handler())
	resources, err := listen(&pt.resourcesAt)
	if err != nil {
		return err
	}
	api := lab.AggregatedAPI{Group: group.Group, Version: group.Version, Port: resources.Addr().(*net.TCPAddr).Port}
	certificate, bundle, err := selfSigned(api.ServerName())
	if err != nil {
		return errors.Join(err, resources.Close())
	}
	api.CABundle = bundle
	s.serve(proof.listener(resources, certificate), p.resources())
	if err := l.Serve(ctx, api); err != nil {
		return fmt.Errorf("register %s: %w", group, err)
	}
	return l.Scrape(lab.ScrapeJob{Name: pt.Name(), Targets: []string{pt.Address}})
}

// listen listens at an address, and keeps it if it was not known before.
func listen(address *string) (net.Listener, error) {
	if *address == "" {
		var err error
		if *address, err = lab.FreeAddress(); err != nil {
			return nil, err
		}
	}
	return net.Listen("tcp", *address)
}

// sampleEvery samples whenever an interval is over. What comes by anew has it sample at once, and
// lets the interval be over next at that time.
func (p *Plane) sampleEvery(ctx context.Context, every time.Duration, anew <-chan time.Time) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for first := false; ; {
		select {
		case <-ctx.Done():
			return
		case at := <-anew:
			ticks.Reset(max(time.Until(at), 1))
			first = true
		case <-ticks.C:
			if first {
				ticks.Reset(every)
			}
			first = false
		}
		p.Sample()
	}
}

// services are what goes on until the part is stopped.
type services struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	servers []*http.Server
	failed  chan error
}

func newServing() *services {
	ctx, cancel := context.WithCancel(context.Background())
	return &services{ctx: ctx, cancel: cancel, failed: make(chan error, 1)}
}

// goOn lets something run that ends with its context.
func (s *services) goOn(run func(context.Context)) {
	s.running.Go(func() { run(s.ctx) })
}

// serve answers on a listener. If that breaks down, the part has failed.
func (s *services) serve(on net.Listener, handler http.Handler) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	s.servers = append(s.servers, server)
	s.running.Go(func() {
		if err := server.Serve(on); !errors.Is(err, http.ErrServerClosed) {
			select {
			case s.failed <- err:
			default: // one reason is enough
			}
		}
	})
}

// stop ends everything, requests that are being answered too, and returns when nothing is left.
func (s *services) stop() {
	s.cancel()
	for _, server := range s.servers {
		_ = server.Close()
	}
	s.running.Wait()
}
