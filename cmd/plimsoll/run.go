package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/statedir"
	"github.com/plimsoll/plimsoll/grpc/provider"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

func newRunCommand(env *cli.Env) *cobra.Command {
	var file string
	var parts []string
	cmd := &cobra.Command{
		Use:   "run --components PART,... --config FILE",
		Short: "Run the autoscaler in a cluster, or serve cluster-autoscaler",
		Long: `Run one or several parts of Plimsoll until the process is asked to end.

Part podscaler decides how many replicas workloads have, by their WorkloadAutoscalers. Part nodescaler decides
which virtual machines exist, by VMPools and a PriceBook, and makes them on Proxmox VE. Part provider serves
cluster-autoscaler's external provider, for the pools of the file or for VMPools with scaledBy: ClusterAutoscaler.

In mode Recommend, the default, it writes statuses and events, and changes nothing else. If several processes run,
one leads and the others wait. Each order is recorded before it is sent, so the process may end at any moment and
continues when it is started again.`,
		Example: "  plimsoll run --components podscaler,nodescaler --config plimsoll.yaml\n" +
			"  plimsoll run --components provider --config site.yaml",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.RequireFlags(cmd, "config", "components"); err != nil {
				return err
			}
			if len(parts) == 0 {
				parts = []string{""} // given, and naming none
			}
			for _, p := range parts {
				if !slices.Contains(components, p) {
					return cli.Misused("--components: must be of %s, was %q", strings.Join(components, ", "), p)
				}
			}
			site, err := readRunning(env, file, parts)
			if err != nil {
				return err
			}
			site.warn()
			collectOften()
			if site.inCluster() {
				return site.runInCluster(cmd.Context(), file)
			}
			return site.runProvider(cmd.Context(), file)
		},
	}
	addConfig(cmd, &file)
	cmd.Flags().StringSliceVar(&parts, "components", nil, "what to run: "+strings.Join(components, ", "))
	return cmd
}

// collectOften has garbage collected when it is half of what is in use, unless the environment says
// otherwise. What is known of a large cluster is in use all the time, and little comes and goes
// beside it: at that size it saves a fifth of the memory and costs hardly any CPU.
func collectOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}

// runProvider serves cluster-autoscaler for the pools in the file, until the context is done.
func (s *running) runProvider(ctx context.Context, file string) error {
	state, err := statedir.Open(s.beside(s.State))
	if err != nil {
		return cli.WithCode(cli.ExitConfig, fmt.Errorf("state: %w", err))
	}
	defer state.Close() //nolint:errcheck // the lock ends with the process, even after an error
	registry := newRegistry()
	intents, err := state.Intents()
	if err != nil {
		return err
	}
	// Before anything is waited for: what is wrong with the file is said at once.
	open, err := s.open(state, registry)
	if err != nil {
		return err
	}
	defer open.calls.close() //nolint:errcheck // closed already where it was served
	defer open.pages.Close() //nolint:errcheck // the same
	cfg := pve.FleetConfig{Pools: s.Pools, Prices: s.Prices, Intents: intents}
	if cfg.Cluster, err = s.reachCluster(ctx, file, state, &cfg); err != nil {
		return err
	}
	site, err := s.machines(registry)
	if err != nil {
		return err
	}
	fleet, err := site.fleet(cfg)
	if err != nil {
		return err
	}
	server, err := provider.New(provider.Config{Pools: s.groups(), Machines: fleet.ForAutoscaler(), Prices: s.Prices, Limit: s.Limit.Rate(), Now: s.env.Now})
	if err != nil {
		return cli.Misconfigured(file, err)
	}
	return s.serve(ctx, open, fleet, server, registry)
}

func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	return registry
}

// buildInfo says which program runs.
func buildInfo() prometheus.Collector {
	b := readBuild(debug.ReadBuildInfo())
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "plimsoll_build_info", Help: "1 for the version and commit of the program."}, []string{"version", "commit"})
	info.WithLabelValues(b.Version, b.Commit).Set(1)
	return info
}

// ports are what the parts are reached by.
type ports struct {
	how   provider.Listening
	calls *doors
	pages net.Listener
}

// open opens the ports that the file names.
func (s *running) open(state *statedir.Folder, registry *prometheus.Registry) (*ports, error) {
	how, err := s.listening(state, registry)
	if err != nil {
		return nil, err
	}
	calls, err := s.doors(&how)
	if err != nil {
		return nil, err
	}
	pages, err := s.listen("metrics", s.Metrics)
	if err != nil {
		return nil, errors.Join(err, calls.close())
	}
	return &ports{how, calls, pages}, nil
}

// serve runs the parts side by side. The first that fails ends the others.
func (s *running) serve(ctx context.Context, open *ports, fleet *pve.Fleet, server *provider.Server, registry *prometheus.Registry) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	part := func(name string, do func() error) {
		parts.Go(func() {
			if err := do(); err != nil {
				cancel(fmt.Errorf("%s: %w", name, err))
				return
			}
			cancel(nil)
		})
	}
	part("fleet", func() error { fleet.Run(ctx); return nil })
	part("profiles", func() error { s.rereadProfiles(ctx, fleet.Configure); return nil })
	part("provider", func() error { return open.calls.serve(ctx, server, open.how) })
	part("metrics", func() error { return servePages(ctx, open.pages, registry, server.Healthy) })
	fmt.Fprintf(s.env.Stderr, "plimsoll %s: serving cluster-autoscaler on %s, metrics on http://%s/metrics\n", s.env.Version, open.calls, open.pages.Addr())
	parts.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// listen opens a door: host:port, or unix:PATH.
func (s *running) listen(key, at string) (net.Listener, error) {
	network, address := "tcp", at
	if path, unix := strings.CutPrefix(at, "unix:"); unix {
		network, address = "unix", s.beside(path)
	}
	if network == "unix" {
		sweep(address)
	}
	l, err := net.Listen(network, address)
	if err == nil && network == "unix" {
		err = os.Chmod(address, 0o660) // whoever may write to it may order machines
	}
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("%s: %w", key, err))
	}
	return l, nil
}

// sweep removes a socket that a process left behind when it was killed: no process listens on it.
func sweep(socket string) {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err == nil {
		_ = conn.Close()
		return
	}
	info, there := os.Lstat(socket)
	if there == nil && info.Mode()&fs.ModeSocket != 0 && errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(socket) // if it cannot be, listening says so
	}
}

// servePages serves metrics, and whether the process lives and sees its machines.
func servePages(ctx context.Context, l net.Listener, registry *prometheus.Registry, ready func(context.Context) error) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	pages := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = pages.Close() })
	defer stopped()
	if err := pages.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// machineSite is the site with a client that is connected to it.
type machineSite struct {
	*running
	client *pveapi.Client
	events *prometheus.CounterVec
	leads  *leadTimes
}

// machines connects to the site.
func (s *running) machines(registry prometheus.Registerer) (*machineSite, error) {
	connection := s.access.Connection()
	calls, err := countCalls(registry)
	if err != nil {
		return nil, err
	}
	connection.Observer = calls
	client, err := pveapi.Connect(connection)
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, err)
	}
	events := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "plimsoll_machine_events_total", Help: "What happened to machines and to the Proxmox VE cluster, by code.",
	}, []string{"code"})
	leads := newLeadTimes()
	return &machineSite{s, client, events, leads}, errors.Join(registry.Register(events), registry.Register(leads.stages))
}

// leadTimes is how long machines take from their order until their nodes are ready, by pool and
// stage.
type leadTimes struct{ stages *prometheus.HistogramVec }

func newLeadTimes() *leadTimes {
	return &leadTimes{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "plimsoll_machine_lead_seconds", Help: "How long machines took from their order until their node was ready, by stage; all is the whole.",
		Buckets: []float64{1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200},
	}, []string{"pool", "stage"})}
}

// know makes the series of pools: a rate over one that appears with its first machine misses that.
func (l *leadTimes) know(pools []settings.Pool) {
	for i := range pools {
		for _, stage := range pve.Stages {
			l.stages.WithLabelValues(pools[i].Name, string(stage))
		}
	}
}

func (l *leadTimes) took(t pve.Lead) {
	l.stages.WithLabelValues(t.Pool, string(t.Stage)).Observe(t.Took.Seconds())
}

// timedFleet lets it be known which pools there are.
type timedFleet struct {
	*pve.Fleet
	leads *leadTimes
}

// Configure takes pools and prices.
func (f timedFleet) Configure(pools []settings.Pool, prices *pricing.Book) error {
	f.leads.know(pools)
	return f.Fleet.Configure(pools, prices)
}

// fleet is the machine port over the site, with what the configuration leaves to the site filled
// in.
func (m *machineSite) fleet(cfg pve.FleetConfig) (*pve.Fleet, error) {
	cfg.Client, cfg.Owner, cfg.Now, cfg.Rand = m.client, m.Owner, m.env.Now, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	cfg.AdoptUnmarked = m.AdoptUnmarked
	cfg.ClonesPerStorage, cfg.HA, cfg.OrphanGrace = m.ClonesPerStorage, m.HA, m.OrphanGrace
	m.leads.know(cfg.Pools)
	report := cfg.Report
	cfg.Timed = m.leads.took
	cfg.Report = func(e pve.Event) {
		m.events.WithLabelValues(e.Code).Inc()
		fmt.Fprintln(m.env.Stderr, e)
		if report != nil {
			report(e)
		}
	}
	return pve.NewFleet(cfg)
}

// countCalls counts and times what is asked of Proxmox VE.
func countCalls(registry prometheus.Registerer) (func(pveapi.Call), error) {
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "plimsoll_pve_call_seconds", Help: "How long Proxmox VE took to answer, by method and status; 0 is no answer.",
		Buckets: []float64{.01, .05, .1, .5, 1, 3, 10, 30},
	}, []string{"method", "status"})
	if err := registry.Register(took); err != nil {
		return nil, err
	}
	return func(c pveapi.Call) {
		took.WithLabelValues(c.Method, strconv.Itoa(c.Status)).Observe(c.Duration.Seconds())
	}, nil
}

// clusterNodes are the cluster's nodes in the fleet's words.
type clusterNodes struct{ nodes *kube.Nodes }

func (c clusterNodes) list(ctx context.Context) ([]pve.Node, error) {
	all, err := c.nodes.List(ctx)
	if err != nil {
		return nil, err
	}
	return nodeWords(all), nil
}

// nodeWords are nodes in the fleet's words.
func nodeWords(all []kube.Node) []pve.Node {
	words := make([]pve.Node, len(all))
	for i, n := range all {
		words[i] = pve.Node{Name: n.Name, ProviderID: n.ProviderID, SystemUUID: n.SystemUUID, Ready: n.Ready, JoinedAt: n.Joined, ReadySince: n.ReadySince, Version: n.Version}
	}
	return words
}
