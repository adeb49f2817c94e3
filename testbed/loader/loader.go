// Package loader is a service to be scaled: every request costs it a known amount of CPU, and
// memory if that is asked for, and may call on to other loaders, so that they make a chain. It is
// what the Loader of the microservice benchmarks is, measured instead of guessed: it finds out what
// takes the CPU that is asked for on the machine it is on.
package loader

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/plimsoll/plimsoll/pricing"
)

// Config is what a loader does.
type Config struct {
	Work
	// Calibrate is what a request is to take of a core, in place of Digits.
	Calibrate time.Duration
	// Spread is how far from that a request's demand goes either way, as a part of it: all from
	// less to more are as likely.
	Spread float64
	// AtOnce is how many requests are worked on at a time; others wait.
	AtOnce int
	// Calls are the addresses that every request is passed on to when its own work is done.
	Calls []string
	// Parallel makes the calls all at once, and not one after the other.
	Parallel bool
	// CallTimeout is how long a call may take.
	CallTimeout time.Duration
	// Linger is how long requests are still taken after the end was asked for: a balancer hears of
	// it later than the pod.
	Linger time.Duration
	// Grace is how long requests may then take to be finished.
	Grace time.Duration
}

// mostMemory is what a request may hold.
const mostMemory = 4 * pricing.GB

// Validate says everything that is wrong with the configuration, by the names of the flags.
func (c *Config) Validate() error {
	var faults pricing.Faults
	must := faults.Must
	if c.Calibrate != 0 {
		must(c.Digits == 0, "digits", "omitted with calibrate", c.Digits)
		must(c.Calibrate >= leastDemand && c.Calibrate <= mostDemand, "calibrate", fmt.Sprintf("from %s to %s", leastDemand, mostDemand), c.Calibrate)
	} else {
		must(c.Digits >= 1 && c.Digits <= mostDigits, "digits", fmt.Sprintf("1 to %d", mostDigits), c.Digits)
	}
	must(c.Memory >= 0 && c.Memory <= mostMemory, "memory", fmt.Sprintf("at most %s", mostMemory), c.Memory)
	must(c.Spread >= 0 && c.Spread < 1, "spread", "from 0% to below 100%", strconv.FormatFloat(100*c.Spread, 'f', -1, 64)+"%")
	must(c.AtOnce >= 1, "at-once", "1 or more", c.AtOnce)
	for _, call := range c.Calls {
		u, err := url.Parse(call)
		must(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "", "call", "an address such as http://next:8080", fmt.Sprintf("%q", call))
	}
	must(c.CallTimeout > 0, "call-timeout", "greater than 0", c.CallTimeout)
	must(c.Linger >= 0, "linger", "0 or more", c.Linger)
	must(c.Grace >= 0, "grace", "0 or more", c.Grace)
	return errors.Join(faults...)
}

// Service answers requests.
type Service struct {
	config Config
	work   atomic.Pointer[Calibration] // nil until it is known
	ending atomic.Bool
	slots  chan struct{}
	client *http.Client
	meters *meters
	pages  http.Handler
}

// New makes a service. It answers that it lives, and takes requests once Run has found its work.
func New(c Config) (*Service, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Service{config: c, slots: make(chan struct{}, c.AtOnce), meters: newMeters(c.Calls)}
	// Every call has a connection of its own: a Service of Kubernetes spreads connections and not
	// requests, and one that is kept never reaches the pods that were added since.
	s.client = &http.Client{Timeout: c.CallTimeout, Transport: &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: false}}
	registry := prometheus.NewRegistry()
	if err := s.meters.register(registry); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("/", s.serve)
	s.pages = mux
	return s, nil
}

// ServeHTTP makes the service an http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.pages.ServeHTTP(w, r) }

// errNotReady is why requests are refused while the work is looked for.
var errNotReady = errors.New("it is not known yet how much work takes the time that was asked for")

func (s *Service) readyz(w http.ResponseWriter, _ *http.Request) {
	switch {
	case s.work.Load() == nil:
		http.Error(w, errNotReady.Error(), http.StatusServiceUnavailable)
	case s.ending.Load():
		http.Error(w, "ending", http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ok")
	}
}

// prepare finds the work, if it was not given.
func (s *Service) prepare(ctx context.Context) (Calibration, error) {
	c := Calibration{Work: s.config.Work}
	if s.config.Calibrate != 0 {
		var err error
		if c, err = Calibrate(ctx, s.config.Calibrate, s.config.Memory); err != nil {
			return c, err
		}
	}
	s.meters.digits.Set(float64(c.Digits))
	s.meters.demand.Set(c.Demand.Seconds())
	s.work.Store(&c)
	return c, nil
}

// ErrUnfinished says that requests were cut off in the end.
var ErrUnfinished = errors.New("requests were cut off, for they were not finished in time")

// Run serves until the context is done, and then finishes what it has: it goes on for the linger
// time, not ready any more, takes nothing new, and waits for what is left for the grace time. It
// passes ready what the work is when requests are taken.
func (s *Service) Run(ctx context.Context, l net.Listener, ready func(Calibration) error) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	defer func() { _ = server.Close() }()
	c, err := s.prepare(ctx)
	if err == nil {
		err = ready(c)
	}
	if ctx.Err() == nil {
		if err != nil {
			return err
		}
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
		}
	}
	return s.end(server)
}

// end waits for what is being worked on.
func (s *Service) end(server *http.Server) error {
	s.ending.Store(true)
	server.SetKeepAlivesEnabled(false) // who has a connection looks for another pod
	time.Sleep(s.config.Linger)
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Grace)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("%w: %d of them, after %s", ErrUnfinished, s.meters.underWay.Load(), s.config.Grace)
	}
	return nil
}
