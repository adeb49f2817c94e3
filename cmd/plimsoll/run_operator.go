package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/discovery"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/admission"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/costs"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/intentmap"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/journals"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/notify"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/operator"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/sight"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/statedir"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/steer"
	"github.com/plimsoll/plimsoll/dashboard"
	"github.com/plimsoll/plimsoll/grpc/provider"
	"github.com/plimsoll/plimsoll/grpc/scaler"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
)

// intentMap is the name of the ConfigMap that orders are kept in: one for those that share a lease.
func intentMap(lease string) string { return lease + "-intents" }

// clusterRun is what runs in a cluster.
type clusterRun struct {
	*running
	rest     *rest.Config
	cluster  *seenCluster
	usage    *signals.Usage
	links    *operator.Links
	registry *prometheus.Registry
	state    *statedir.Folder   // nil without a folder
	sender   *notify.Sender     // nil without receivers
	history  *dashboard.History // nil if no page is served
	identity string
	admits   net.Listener // nil without admission
	closers  []func() error
}

// runInCluster runs the parts that are decided on by objects in the cluster, until the context is
// done.
func (s *running) runInCluster(ctx context.Context, file string) (err error) {
	kube.LogTo(s.logger())
	r := &clusterRun{running: s, links: &operator.Links{}, registry: newRegistry(), identity: identity(s.env)}
	defer func() {
		for _, end := range slices.Backward(r.closers) {
			err = errors.Join(err, end())
		}
	}()
	if err := r.connect(); err != nil {
		return err
	}
	cfg, err := r.config(file)
	if err != nil {
		return err
	}
	o, err := operator.New(*cfg)
	if err != nil {
		return cli.Misconfigured(file, err)
	}
	pages, err := s.listen("metrics", s.Metrics)
	if err != nil {
		return err
	}
	if err := r.listenAdmission(); err != nil {
		return err
	}
	fmt.Fprintf(s.env.Stderr, "plimsoll %s: %s in mode %s, metrics on http://%s/metrics\n", s.env.Version, s.partsText(), s.Mode, pages.Addr())
	return r.run(ctx, o, pages)
}

// admission is by what pods get their requests as they are created.
func (r *clusterRun) admission() *admission.Config {
	read := func(name string) func() ([]byte, error) {
		return func() ([]byte, error) { return r.readBeside(name) }
	}
	return &admission.Config{
		Created: r.cluster.Created, Certificate: read(r.Admission.Certificate), Key: read(r.Admission.Key), Log: r.logger(),
	}
}

// listenAdmission listens for the API server, if it is to ask.
func (r *clusterRun) listenAdmission() error {
	if r.Admission == nil {
		return nil
	}
	cfg := r.admission()
	if err := cfg.Check(); err != nil {
		return cli.WithCode(cli.ExitConfig, fmt.Errorf("admission.%w", err))
	}
	var err error
	if r.admits, err = r.listen("admission.listen", r.Admission.Listen); err != nil {
		return err
	}
	fmt.Fprintf(r.env.Stderr, "admission on https://%s%s\n", r.admits.Addr(), admission.Path)
	return nil
}

// servePage serves the dashboard, if there is to be one.
func (r *clusterRun) servePage(ctx context.Context) (serve func() error, err error) {
	if r.history == nil {
		return func() error { return nil }, nil
	}
	l, err := r.listen("dashboard", r.Dashboard)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(r.env.Stderr, "dashboard on http://%s/\n", l.Addr())
	return func() error { return r.history.Serve(ctx, l) }, nil
}

// logLevels are what a file may say of it.
var logLevels = []string{"", "debug", "info", "warn", "error"}

// logLevel is the least that is logged.
func (c *clusterSettings) logLevel() slog.Level {
	var level slog.Level                        // info
	_ = level.UnmarshalText([]byte(c.LogLevel)) // of one that is not said, info
	return level
}

// logger is where what runs in a cluster logs to.
func (s *running) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(s.env.Stderr, &slog.HandlerOptions{Level: s.logLevel()}))
}

// run runs the operator and the pages beside each other; with one of them the other ends.
func (r *clusterRun) run(ctx context.Context, o *operator.Operator, pages net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // while the last step is made
	page, err := r.servePage(serving)
	if err != nil {
		stop()
		return err
	}
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := page(); err != nil {
			cancel(fmt.Errorf("dashboard: %w", err))
		}
	})
	parts.Go(func() {
		ready := func(context.Context) error { return o.Ready() }
		if err := servePages(serving, pages, r.registry, ready); err != nil {
			cancel(fmt.Errorf("metrics: %w", err))
		}
	})
	if r.admits != nil {
		parts.Go(func() {
			if err := admission.Serve(serving, provider.Limited(r.admits, 512, 256), r.admission()); err != nil {
				cancel(fmt.Errorf("admission: %w", err))
			}
		})
	}
	if r.sender != nil {
		parts.Go(func() { r.sender.Run(serving) })
	}
	parts.Go(func() { sight.WarnUnseen(serving, r.logger(), r.rest.Host, r.cluster) })
	if client, err := discovery.NewDiscoveryClientForConfig(r.rest); err == nil {
		parts.Go(func() { sight.WarnOldKinds(serving, r.logger(), client) })
	}
	err = o.Run(ctx)
	stop()
	parts.Wait()
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// connect makes the clients. It makes no call.
func (r *clusterRun) connect() error {
	var err error
	if r.rest, err = r.running.rest(); err != nil {
		return err
	}
	mode := kube.Recommend
	if r.Mode == runActive {
		mode = kube.Active
	}
	cfg := kube.Config{
		REST: r.rest, Mode: mode, Namespace: r.Namespace, Lease: r.Lease, HandOff: r.handOff(), Buffers: r.CapacityBuffers,
		Log: r.logger(),
	}
	if r.makesMachines() {
		cfg.Machine = r.links.Machine
	}
	if r.usage, err = usage(r.rest); err != nil {
		return cli.WithCode(cli.ExitConfig, err)
	}
	if r.has(partPodScaler) {
		cfg.Usage = r.usage
	}
	cluster, err := kube.New(cfg)
	if err != nil {
		return cli.WithCode(cli.ExitConfig, err)
	}
	r.cluster = &seenCluster{Cluster: cluster}
	r.usage.Namespaces, r.usage.Sized = r.cluster.scaled, r.cluster.sized
	return nil
}

// config puts the operator together.
func (r *clusterRun) config(file string) (*operator.Config, error) {
	nodes, err := r.Nodes.spec()
	if err != nil {
		return nil, cli.Misconfigured(file, err)
	}
	metrics, err := operator.NewMetrics(r.registry)
	if err != nil {
		return nil, err
	}
	metrics.Runs(string(r.Mode), r.parts, r.Interval)
	exporter := costs.NewExporter()
	if err := r.registry.Register(exporter); err != nil {
		return nil, err
	}
	measured, err := r.signals()
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, err)
	}
	cfg := &operator.Config{
		Cluster: r.cluster, Admission: r.Admission != nil, Identity: r.identity, Active: r.Mode == runActive, PriceBook: r.PriceBook, Interval: r.Interval,
		PodScaler: r.has(partPodScaler), NodeScaler: r.has(partNodeScaler), Provider: r.has(partProvider),
		Nodes: nodes, Limit: r.Limit.Rate(), Quotas: r.Quotas.quotas(), HandOff: r.handOff(), Signals: measured, Containers: r.usage.Containers, Links: r.links, ReadFile: r.readBeside, Metrics: metrics, Costs: exporter, Now: r.env.Now,
		Log: r.logger(), Servers: append(slices.Clone(r.Endpoints), r.rest.Host),
	}
	if err := r.journal(cfg); err != nil {
		return nil, err
	}
	if err := r.record(cfg); err != nil {
		return nil, err
	}
	if r.Dashboard != "" {
		r.history = dashboard.New(dashboard.Small)
		r.history.Doors.Actions = steer.NewDoor(r.rest, r.env.Now)
		if cfg.Journal == nil {
			cfg.Journal = r.history
		} else {
			cfg.Journal = loop.Journals{cfg.Journal, r.history}
		}
	}
	if r.sender, err = r.notifier(); err != nil {
		return nil, err
	}
	if r.sender != nil {
		metrics.Receivers(r.sender.Names())
		r.sender.Done = metrics.Notified
		cfg.Notify = r.sender
	}
	if r.makesMachines() {
		err = r.makeMachines(cfg)
	}
	if r.KEDAScaler != "" {
		r.serveKEDA(cfg)
	}
	return cfg, err
}

// serveKEDA lets the operator serve KEDA's external scaler while it leads, beside what else it
// serves then. It is shown the steps as a journal is.
func (r *clusterRun) serveKEDA(cfg *operator.Config) {
	keda, beside := scaler.New(r.env.Now), cfg.Serve
	if cfg.Journal == nil {
		cfg.Journal = keda
	} else {
		cfg.Journal = loop.Journals{cfg.Journal, keda}
	}
	cfg.Serve = func(ctx context.Context, f operator.Fleet) error {
		l, err := r.listen("kedaScaler", r.KEDAScaler)
		if err != nil {
			return err
		}
		fmt.Fprintf(r.env.Stderr, "KEDA's external scaler on %s\n", l.Addr())
		all, ctx := errgroup.WithContext(ctx)
		all.Go(func() error { return keda.Serve(ctx, provider.Limited(l, 16, 4)) })
		if beside != nil {
			all.Go(func() error { return beside(ctx, f) })
		}
		return all.Wait()
	}
}

// makeMachines lets the operator make machines while it leads.
func (r *clusterRun) makeMachines(cfg *operator.Config) error {
	if err := r.openState(); err != nil {
		return err
	}
	site, err := r.machines(r.registry)
	if err != nil {
		return err
	}
	cfg.Fleet = func(ctx context.Context, fenced func(error)) (operator.Fleet, error) {
		return r.makeFleet(ctx, site, fenced)
	}
	if r.has(partProvider) {
		err = r.provide(cfg)
	}
	return err
}

// provide lets the operator serve cluster-autoscaler while it leads.
func (r *clusterRun) provide(cfg *operator.Config) error {
	if r.state == nil && r.Provider.TLS == nil && r.Provider.Plaintext == plainNever {
		return cli.WithCode(cli.ExitConfig, pricing.NewFault("provider.tls", "must name files where state is kubernetes: no certificates are made there"))
	}
	how, err := r.listening(r.state, r.registry)
	if err != nil {
		return err
	}
	machines := &presentFleet{}
	server, err := provider.New(provider.Config{Machines: machines, Limit: r.Limit.Rate(), Now: r.env.Now})
	if err != nil {
		return err
	}
	cfg.Offer = func(pools []nodescaler.Pool, prices *pricing.Book) error {
		var all []provider.Pool
		for _, p := range pools {
			all = append(all, provider.Pool{Pool: p, Options: r.Provider.Options[p.Name]})
		}
		return server.Configure(all, prices)
	}
	cfg.Serve = func(ctx context.Context, f operator.Fleet) error {
		machines.lead(f.ForAutoscaler())
		defer machines.lead(nil)
		calls, err := r.doors(&how)
		if err != nil {
			return err
		}
		return calls.serve(ctx, server, how)
	}
	return nil
}

// presentFleet is the fleet of the present term of leadership.
type presentFleet struct {
	mu sync.Mutex
	of loop.Machines // nil between two terms
}

func (p *presentFleet) lead(f loop.Machines) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of = f
}

// now is the fleet, or one that knows and does nothing.
func (p *presentFleet) now() loop.Machines {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		return notLeading{}
	}
	return p.of
}

// List, Create and Delete are those of the present fleet.
func (p *presentFleet) List(ctx context.Context) (loop.MachineState, error) { return p.now().List(ctx) }
func (p *presentFleet) Create(ctx context.Context, o loop.Order) error      { return p.now().Create(ctx, o) }
func (p *presentFleet) Delete(ctx context.Context, machine string) error {
	return p.now().Delete(ctx, machine)
}

// notLeading is the machines of a process that does not lead.
type notLeading struct{}

var errNotLeading = errors.New("this process does not lead")

func (notLeading) List(context.Context) (loop.MachineState, error) {
	return loop.MachineState{}, errNotLeading
}
func (notLeading) Create(context.Context, loop.Order) error {
	return fmt.Errorf("%w: %w", loop.ErrRefused, errNotLeading)
}
func (notLeading) Delete(context.Context, string) error { return errNotLeading }

func (s *running) has(part string) bool { return slices.Contains(s.parts, part) }

func (s *running) readBeside(name string) ([]byte, error) { return s.env.ReadFile(s.beside(name)) }

// partsText names the parts in the order of the log's line.
func (s *running) partsText() string {
	text := ""
	for _, p := range components {
		if s.has(p) {
			text += ", " + p
		}
	}
	return text[len(", "):]
}

// openState takes the state folder, if that is where orders are kept.
func (r *clusterRun) openState() error {
	if r.State == stateInCluster {
		return nil
	}
	var err error
	if r.state, err = statedir.Open(r.beside(r.State)); err != nil {
		return cli.WithCode(cli.ExitConfig, fmt.Errorf("state: %w", err))
	}
	r.closers = append(r.closers, r.state.Close)
	return nil
}

// makeFleet makes the fleet of a term of leadership. In mode Recommend it only watches, and by what
// was kept of orders knows which machines are ours.
func (r *clusterRun) makeFleet(ctx context.Context, site *machineSite, fenced func(error)) (operator.Fleet, error) {
	intents, err := r.intents(ctx, fenced)
	if err != nil {
		return nil, err
	}
	live, err := kube.NewNodes(r.rest)
	if err != nil {
		return nil, err
	}
	uid, err := r.clusterUID(ctx, r.rest)
	if err != nil {
		return nil, err
	}
	cfg := pve.FleetConfig{Cluster: uid, Intents: intents, Nodes: r.listNodes, LastLook: live.Sight, Watch: r.Mode != runActive, Report: r.reportMachine}
	if !cfg.Watch {
		cfg.RemoveNode = r.cluster.RemoveNode
	}
	fleet, err := site.fleet(cfg)
	timed := timedFleet{fleet, site.leads}
	if r.Limit != nil && r.has(partNodeScaler) && r.has(partProvider) {
		return &limitedFleet{timedFleet: timed, limit: r.Limit.Rate(), now: r.env.Now}, err
	}
	return timed, err
}

// reportMachine reports what happens to a pool's machines as events of its VMPool.
func (r *clusterRun) reportMachine(e pve.Event) {
	if e.Pool == "" || e.Code == pvecode.Retry {
		return
	}
	pools, err := r.cluster.Pools()
	if err != nil {
		return // it is in the log
	}
	for _, p := range pools {
		if p.Name == e.Pool {
			r.cluster.About(p, machineEvent(e))
		}
	}
}

// machineEvent is an event of a machine in Kubernetes' words.
func machineEvent(e pve.Event) kube.Event {
	note := strings.TrimSpace(e.Machine + " " + e.Text)
	if e.Advice != "" {
		note += "; " + e.Advice
	}
	return kube.Event{About: e.Code, Key: note, Warning: e.Advice != "", Reason: e.Code, Note: note}
}

func (r *clusterRun) listNodes(ctx context.Context) ([]pve.Node, error) {
	all, err := r.cluster.Nodes(ctx)
	return nodeWords(all), err
}

// intents are the orders that were kept: to be written to, or, where nothing is written, as they
// are.
func (r *clusterRun) intents(ctx context.Context, fenced func(error)) (intents.Store, error) {
	if r.state == nil {
		cfg := rest.CopyConfig(r.rest)
		cfg.QPS = -1 // the fleet waits for each write, and makes few
		client, err := typedv1.NewForConfig(cfg)
		if err != nil {
			return nil, fmt.Errorf("state: %w", err)
		}
		where := intentmap.Config{Maps: client.ConfigMaps(r.Namespace), Name: intentMap(r.Lease), Holder: r.identity, Fenced: fenced}
		if r.Mode == runActive {
			return intentmap.Claim(ctx, where)
		}
		return intentmap.Look(ctx, where)
	}
	kept, err := r.state.Intents()
	if err != nil {
		return nil, err
	}
	if r.Mode == runActive {
		return kept, nil
	}
	return inMemory(kept)
}

// inMemory is a copy of intents that nothing is written to.
func inMemory(kept intents.Store) (intents.Store, error) {
	all, err := kept.Load()
	if err != nil {
		return nil, err
	}
	memory := &intents.Memory{}
	for _, i := range all {
		if err := memory.Put(i); err != nil {
			return nil, err
		}
	}
	return memory, nil
}

// journal has the operator keep a journal, if one is to be kept, and count on from it.
func (r *clusterRun) journal(cfg *operator.Config) error {
	if r.Journal == nil {
		return nil
	}
	if r.Journal.File == standardOutput {
		cfg.Journal = loop.NewNDJSON(r.env.Stdout)
		return nil
	}
	j, err := journals.OpenRotating(r.journalFile(), int64(r.Journal.RotateSize), r.Journal.Keep)
	if err != nil {
		return cli.WithCode(cli.ExitConfig, fmt.Errorf("journal.file: %w", err))
	}
	cfg.Journal, cfg.Counted = j, j.Last
	r.closers = append(r.closers, j.Close)
	return nil
}

// record has the operator record what its steps are decided by, if that is to be kept.
func (r *clusterRun) record(cfg *operator.Config) error {
	if r.Recording == nil {
		return nil
	}
	folder, err := journals.OpenRecording(filepath.Clean(r.beside(r.Recording.Folder)), int64(r.Recording.Limit))
	if err != nil {
		return cli.WithCode(cli.ExitConfig, fmt.Errorf("recording.folder: %w", err))
	}
	recorder := &recording.Recorder{Open: folder.Open}
	cfg.Recording = recorder
	r.closers = append(r.closers, recorder.Close)
	return nil
}
