package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/costs"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/operator"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/planner"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

const planLong = `Show what Plimsoll would do in a cluster now, and what that would save. It only reads, with any kubeconfig that may
list nodes and pods. It does not call Proxmox VE.

Replicas follow from the WorkloadAutoscalers, in any mode. Machines are bought from the VMPools or, if there are none,
from the pools of --config and --pools. Machines are returned if their pods fit on the others. The plan assumes that
everything has been as it is now for long, so that no stabilization window holds anything back. Forecasts learn from the
days past, where Prometheus has them, as those of plimsoll run do when it starts.`

func newPlanCommand(env *cli.Env) *cobra.Command {
	var ask planQuestion
	cmd := &cobra.Command{
		Use:     "plan",
		Short:   "Show what Plimsoll would do in a cluster now, and what that would save",
		Long:    planLong,
		Example: "  plimsoll plan\n  plimsoll plan --context home --config site.yaml --prices prices.yaml -o json",
		Args:    cli.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return ask.answer(cmd.Context(), env) },
	}
	ask.kube.Add(cmd)
	cmd.Flags().StringVar(&ask.prices, "prices", "", "a price book, a YAML `file` (default: the cluster's, or a unit per vCPU-hour and per GB-hour)")
	cmd.Flags().StringVarP(&ask.config, "config", "c", "", "the configuration `file` of plimsoll run, for its pools, node policy and, without --kubeconfig, kubeconfig")
	addPools(cmd, &ask.pools)
	cli.AddOutput(cmd, &ask.format)
	return cmd
}

// planQuestion is what the plan verb is asked.
type planQuestion struct {
	kube           connect.Kube
	prices, config string
	pools          string // a file of VMPools
	format         cli.Output
}

func (ask *planQuestion) answer(ctx context.Context, env *cli.Env) error {
	cfg, seen, err := ask.read(env)
	if err != nil {
		return err
	}
	reach, cluster, err := ask.kube.Config(env)
	if err != nil {
		return err
	}
	if err := ask.look(ctx, reach, cfg, seen, env.Now().Truncate(time.Second)); err != nil {
		return err
	}
	out, err := cfg.Foresee(ctx, seen.Seen, env.Now().Truncate(time.Second))
	if err != nil {
		return err
	}
	answer := answerPlan(out, seen, env.Now().Truncate(time.Second))
	answer.Cluster, answer.Limit = cluster, cfg.Limit
	for _, note := range answer.Notes {
		fmt.Fprintln(env.Stderr, "note:", note)
	}
	return ask.format.Print(env.Stdout, answer, answer.table)
}

// planned is the cluster that a plan is made for.
type planned struct {
	*operator.Seen
	notes []string
	from  string // where the prices are from
	site  *siteFile
}

// read reads the files that were named.
func (ask *planQuestion) read(env *cli.Env) (*operator.Config, *planned, error) {
	cfg := &operator.Config{PriceBook: v1alpha1.DefaultPriceBook, Interval: 10 * time.Second, Log: slog.New(slog.DiscardHandler)}
	seen := &planned{Seen: &operator.Seen{}}
	var err error
	if ask.prices != "" {
		if seen.Prices, err = resources.ReadPrices(env, "--prices", ask.prices); err != nil {
			return nil, nil, err
		}
		seen.from = ask.prices
	}
	site := &siteFile{planning: true, offline: true}
	if ask.config != "" {
		if site, err = readFor(env, ask.config, site); err != nil {
			return nil, nil, err
		}
		if err := errors.Join(site.checkPrices()...); err != nil {
			return nil, nil, cli.Misconfigured(ask.config, err)
		}
		cfg.PriceBook = cmp.Or(site.PriceBook, cfg.PriceBook)
		if seen.Prices == nil && site.Prices != nil {
			seen.Prices, seen.from = site.Prices, ask.config
		}
	}
	if seen.site = site; ask.pools != "" {
		if site.Pools, err = poolsBeside(env, site, ask.config, ask.pools); err != nil {
			return nil, nil, err
		}
	}
	for i := range site.Pools {
		seen.Pools = append(seen.Pools, site.Pools[i].Words())
	}
	ask.kube = *site.kubeBeside(ask.kube)
	if cfg.Nodes, err = site.Nodes.spec(); err != nil {
		return nil, nil, cli.Misconfigured(ask.config, err)
	}
	if err := checkPending(&cfg.Nodes, site.Pools); err != nil {
		return nil, nil, cli.Misconfigured(ask.config, err)
	}
	if err := errors.Join(append(checkLimit(site.Limit), site.Quotas.check()...)...); err != nil {
		return nil, nil, cli.Misconfigured(ask.config, err)
	}
	cfg.Limit, cfg.Quotas = site.Limit.Rate(), site.Quotas.quotas()
	return cfg, seen, nil
}

// look reads the cluster, once.
func (ask *planQuestion) look(ctx context.Context, reach *rest.Config, cfg *operator.Config, seen *planned, now time.Time) error {
	how := kube.Config{REST: reach, Buffers: seen.site.CapacityBuffers, Log: slog.New(slog.DiscardHandler)}
	used, err := usage(reach)
	if err != nil {
		return cli.WithCode(cli.ExitConfig, err)
	}
	how.Usage, cfg.Containers = used, used.Containers
	if seen.Picture, err = kube.Look(ctx, how); err != nil {
		return connect.Unread(err)
	}
	client, host, err := secretReader(reach)
	if err != nil {
		return cli.WithCode(cli.ExitConfig, err)
	}
	cfg.Signals = signals.New(seen.site.signalOptions(client, host))
	book := cmp.Or(seen.Prices, pricing.DefaultBook())
	nodes := costs.Machines(seen.Picture, book, false, now)
	seen.notes, seen.Machines = nodes.Notes, nodes.Snapshot.Machines
	seen.State.Nodes = nodes.Snapshot.Nodes
	return nil
}

// planAnswer is what would be done.
type planAnswer struct {
	Cluster  string    `json:"context"`
	At       time.Time `json:"at"`
	Prices   string    `json:"prices"`
	Currency string    `json:"currency"`
	Now      planCost  `json:"now"`
	Then     planCost  `json:"then"`
	// Saved is what is no longer paid once the machines are gone: list price, without bought
	// hardware and the idle power of hosts that stay on.
	Saved pricing.Rate `json:"savedPerHour"`
	// Load is what pods request of all nodes that are priced.
	Load planLoad `json:"load"`
	// Limit is what all machines may cost an hour; 0 is no limit.
	Limit    pricing.Rate   `json:"limitPerHour,omitempty"`
	Workload []planWorkload `json:"workloads"`
	Buy      []planMachine  `json:"buy"`
	// Wake are spares that would be started.
	Wake   []planMachine `json:"wake,omitempty"`
	Return []planMachine `json:"return"`
	Stay   []planMachine `json:"stay"`
	// Unplaced is what waits and has no place in the plan.
	Unplaced []nodescaler.Unplaced `json:"unplaced,omitempty"`
	// Headroom is how much of the room that is to be kept free there would be.
	Headroom []nodescaler.HeadroomState `json:"headroom,omitempty"`
	// Why is what keeps the plan from doing more.
	Why   []nodescaler.Reason `json:"why,omitempty"`
	Notes []string            `json:"notes,omitempty"`
}

// planCost is what all machines cost.
type planCost struct {
	Machines int            `json:"machines"`
	PerHour  pricing.Rate   `json:"costPerHour"`
	PerMonth pricing.Micros `json:"costPerMonth"`
}

type planWorkload struct {
	Name   string `json:"name"`
	Target string `json:"target"`
	Mode   string `json:"mode"`
	// Now and Wanted are replicas; nil where they are not known.
	Now     *int                `json:"now,omitempty"`
	Wanted  *int                `json:"wanted,omitempty"`
	Pending int                 `json:"pending,omitempty"`
	Why     []nodescaler.Reason `json:"why"`
}

type planMachine struct {
	Name    string              `json:"name,omitempty"`
	Pool    string              `json:"pool,omitempty"`
	Shape   string              `json:"shape,omitempty"`
	Host    string              `json:"host,omitempty"`
	PerHour pricing.Rate        `json:"costPerHour"`
	Load    planLoad            `json:"load"`
	PodsTo  []string            `json:"podsFitOn,omitempty"`
	Why     []nodescaler.Reason `json:"why,omitempty"`
}

// planLoad is what pods request of a node, and what it has for them.
type planLoad struct {
	Requested   pricing.Resources `json:"requested"`
	Allocatable pricing.Resources `json:"allocatable"`
}

// columns are its CPU and its memory. Of a machine that is not there yet nothing is requested.
func (l *planLoad) columns(there bool) (cpu, memory string) {
	part := func(of func(int64) string, used, all int64) string {
		if !there {
			return of(all)
		}
		return strings.TrimSuffix(of(used), "GiB") + "/" + of(all) + cli.InPercent(used, all)
	}
	return part(cli.Cores, int64(l.Requested.CPU), int64(l.Allocatable.CPU)), part(cli.GiB, int64(l.Requested.Memory), int64(l.Allocatable.Memory))
}

// answerPlan puts an outlook into words.
func answerPlan(out *operator.Outlook, seen *planned, now time.Time) *planAnswer {
	a := &planAnswer{
		At: now, Prices: cmp.Or(seen.from, "PriceBook "+v1alpha1.DefaultPriceBook), Currency: out.Prices.Unit, Notes: seen.notes,
		Workload: []planWorkload{}, Buy: []planMachine{}, Return: []planMachine{}, Stay: []planMachine{},
	}
	if seen.from == "" && len(seen.PriceBooks) == 0 {
		a.Prices = costs.UnitPrices
	}
	for _, w := range out.Workloads {
		a.Workload = append(a.Workload, foreseenWorkload(w))
	}
	a.machines(out, now)
	a.note(out, seen)
	return a
}

func foreseenWorkload(w operator.Foreseen) planWorkload {
	p := planWorkload{Name: w.Name, Target: w.Target, Mode: w.Mode}
	if w.Pause != "" {
		p.Mode += ", " + w.Pause
	}
	switch {
	case w.Refused != nil:
		p.Why = []nodescaler.Reason{*w.Refused}
	case w.Step != nil:
		p.Now, p.Pending = &w.Step.Replicas, w.Step.Pending
		if d := w.Step.Decision; d != nil {
			p.Why = d.Reasons
			if d.Known || d.To != d.From {
				p.Wanted = &d.To
			}
		}
	}
	return p
}

// machines says which are bought or woken, which could go and which stay. None goes while some
// come.
func (a *planAnswer) machines(out *operator.Outlook, now time.Time) {
	s := *out.Step.Snapshot
	s.Pods = withComing(&s)
	var are []pricing.Placed
	for i := range s.Machines {
		are = append(are, pricing.Placed{
			Shape: s.Machines[i].Shape, Host: s.Machines[i].Host, Stopped: s.Machines[i].Phase == nodescaler.Spare,
		})
	}
	gone := map[string]bool{}
	woken, will := a.grown(out, &s, now)
	x := nodescaler.NewIndex(&s)
	spares := planner.NewSurplus(x, func(n *nodescaler.NodeLoad) bool { return !costs.ControlPlane(n.Labels) })
	for _, spare := range spares.List() {
		m := machineOf(&s, spare.Node)
		if m == nil {
			continue
		}
		p := planMachine{Name: spare.Node, Pool: m.Pool, Shape: m.Shape.Name, Host: m.Host, PerHour: out.Prices.Rate(m.Shape, m.Host, now), PodsTo: spare.To}
		if n := x.Node(spare.Node); n != nil {
			p.Load = planLoad{n.Used.Requests, n.Allocatable}
			a.Load = planLoad{a.Load.Requested.Plus(p.Load.Requested), a.Load.Allocatable.Plus(p.Load.Allocatable)}
		}
		if spare.Kept == nil {
			spare.Kept = staysAnyway(out, x, m)
		}
		if spare.Kept == nil && m.Pool == "" {
			spare.Kept = ofNoPool(spare.To)
		}
		if spare.Kept != nil {
			p.Why = []nodescaler.Reason{*spare.Kept}
		}
		if spare.Kept != nil || len(a.Buy)+len(a.Wake) > 0 {
			a.Stay = append(a.Stay, p)
			continue
		}
		a.Return = append(a.Return, p)
		gone[m.Name] = true
	}
	for i := range s.Machines {
		if !gone[s.Machines[i].Name] {
			p := are[i]
			p.Stopped = p.Stopped && !woken[s.Machines[i].Name]
			will = append(will, p)
		}
	}
	a.Now, a.Then = costOfAll(out.Prices, are, now), costOfAll(out.Prices, will, now)
	a.Saved = saved(out.Prices, s.Machines, gone, now)
	a.Unplaced, a.Headroom = out.Step.Plan.Unplaced, out.Step.Plan.Headroom
	for _, r := range out.Step.Plan.Reasons {
		ofNode := r.Code == nodescaler.PoolUnknown && strings.HasSuffix(r.Text, "left alone")
		if !ofNode && !slices.Contains(ofReturns, r.Code) && r.Code != nodescaler.SparesPay {
			a.Why = append(a.Why, r)
		}
	}
}

// grown says which machines are bought or woken. It returns which are woken, and what is bought.
func (a *planAnswer) grown(out *operator.Outlook, s *nodescaler.Snapshot, now time.Time) (woken map[string]bool, bought []pricing.Placed) {
	woken = map[string]bool{}
	for _, act := range out.Step.Plan.Actions {
		switch {
		case act.Keep: // which spares pay is not known
		case act.Kind == nodescaler.Buy && act.Shape != nil:
			a.Buy = append(a.Buy, planMachine{Pool: act.Pool, Shape: act.Shape.Name, Host: act.Host, PerHour: act.Rate, Load: planLoad{Allocatable: act.Shape.Resources()}, Why: act.Reasons})
			bought = append(bought, pricing.Placed{Shape: *act.Shape, Host: act.Host})
		case act.Kind == nodescaler.Wake:
			woken[act.Machine] = true
			if m := machineOf(s, act.Machine); m != nil {
				a.Wake = append(a.Wake, planMachine{Name: m.Name, Pool: m.Pool, Shape: m.Shape.Name, Host: m.Host, PerHour: out.Prices.Rate(m.Shape, m.Host, now), Load: planLoad{Allocatable: m.Shape.Resources()}, Why: act.Reasons})
			}
		}
	}
	return woken, bought
}

// staysAnyway is why a node stays that could go, or nil: nothing is planned for its pool, or it may
// become a spare.
func staysAnyway(out *operator.Outlook, x *nodescaler.Index, m *nodescaler.Machine) *nodescaler.Reason {
	if p := x.Pool(m.Pool); p != nil && p.HeldDown != nil {
		return p.HeldDown
	}
	if n := x.AnyNodeOf(m.Name); out.Spares && m.Pool != "" && n != nil && n.Draining {
		return &nodescaler.Reason{Code: nodescaler.NodeDraining, Text: "it is being emptied: whether its machine goes or becomes a spare is not known here"}
	}
	return nil
}

// ofNoPool is why a node stays that could go: whoever made its machine has to remove it.
func ofNoPool(to []string) *nodescaler.Reason {
	text := "it could go, but is of no VMPool: Plimsoll leaves its machine alone"
	if len(to) > 0 {
		text += "; its pods fit on " + strings.Join(to, ", ")
	}
	return &nodescaler.Reason{Code: nodescaler.PoolUnknown, Text: text}
}

// saved is what is no longer paid for machines that are gone. What a host draws and costs besides
// is saved with the last machine on it alone.
func saved(book *pricing.Book, machines []nodescaler.Machine, gone map[string]bool, now time.Time) pricing.Rate {
	var total pricing.Rate
	left, with := map[string]bool{}, map[string]pricing.Rate{}
	for i := range machines {
		m := &machines[i]
		if !gone[m.Name] {
			left[m.Host] = true
			continue
		}
		saving := book.Saving(m.Shape, m.Host, now)
		total += saving.Alone
		if _, first := with[m.Host]; !first {
			with[m.Host] += book.HostRate(m.Host, now)
		}
		with[m.Host] += saving.WithHost
	}
	for host, rate := range with {
		if !left[host] && host != "" {
			total += rate
		}
	}
	return total
}

// ofReturns are reasons of why nodes are not reclaimed. Here each node has its own.
var ofReturns = []string{
	nodescaler.ActivityElsewhere, nodescaler.JustStarted, nodescaler.CoolingDown, nodescaler.NodeUnneeded, nodescaler.NodeBusy, nodescaler.NodeTakesPods,
	nodescaler.NoPlaceElsewhere, nodescaler.PodPinned, nodescaler.MachineHeld, nodescaler.BudgetExhausted, nodescaler.PoolAtMin, nodescaler.NodeDraining, nodescaler.NodeCordoned,
}

// ofUnplaced are reasons of why pods have no place. In the table each has its own line.
var ofUnplaced = []string{
	string(packing.NoOffer), string(packing.Refused), string(packing.TooBig), string(packing.PoolFull), string(packing.NoRoom), string(packing.NoResource),
	nodescaler.NoDomain, nodescaler.PodTooBig, nodescaler.PodExpendable, nodescaler.PodsNotHelped,
}

// costOfAll is what machines cost together, with the fixed parts of their hosts.
func costOfAll(book *pricing.Book, machines []pricing.Placed, at time.Time) planCost {
	rate := book.Total(machines, at)
	return planCost{Machines: len(machines), PerHour: rate, PerMonth: rate.PerMonth()}
}

// withComing are the pods with those that are decided on, as far as there could be room for them.
func withComing(s *nodescaler.Snapshot) []nodescaler.Pod {
	all, x := slices.Clone(s.Pods), nodescaler.NewIndex(s)
	counts, most := make([]int, len(s.Future)), 0
	for i := range s.Future {
		f := &s.Future[i]
		room := x.Most(&f.Like)
		counts[i], most = min(f.Count, room), max(most, room)
	}
	for i, count := range nodescaler.Few(counts, most) {
		for n := range count {
			p := s.Future[i].Like
			p.Name, p.Unschedulable = fmt.Sprintf("%s+%d", p.Workload, n+1), true
			all = append(all, p)
		}
	}
	return all
}

func machineOf(s *nodescaler.Snapshot, node string) *nodescaler.Machine {
	for i := range s.Machines {
		if s.Machines[i].Name == node {
			return &s.Machines[i]
		}
	}
	return nil
}

// note prints what the plan does not know.
func (a *planAnswer) note(out *operator.Outlook, seen *planned) {
	if out.Blind != "" {
		a.Notes = append(a.Notes, "prices are a unit per vCPU-hour and per GB-hour: "+out.Blind)
	}
	if out.Spares {
		a.Notes = append(a.Notes, "how often pods waited is not known here: spares stay as they are, and none is ordered")
	}
	if seen.Picture != nil { // which spares would have paid is learned over hours
		a.Notes = append(a.Notes, sparesAdvised(seen.Picture.Pools)...)
	}
	sizes := map[pricing.Resources]bool{}
	for i := range out.Pools {
		for _, s := range out.Pools[i].Shapes {
			sizes[s.Resources()] = true
		}
	}
	if len(sizes) > 1 && out.Prices.PerMachine == 0 {
		a.Notes = append(a.Notes, "the prices have no pricePerMachineHour: many small machines are as good as few large ones (half to one and a half of a vCPU's price is usual)")
	}
	for _, pool := range slices.Sorted(maps.Keys(out.Paused)) {
		a.Notes = append(a.Notes, fmt.Sprintf("VMPool %s is %s; what that rules out of this plan is not done (plimsoll resume --pool %s)", pool, out.Paused[pool], pool))
	}
	switch {
	case len(out.Pools) == 0:
		a.Notes = append(a.Notes, "there are no pools, so that it is not known which machines could be bought: give --config with a site's")
	default:
		a.Notes = append(a.Notes, "Proxmox VE was not asked: whether its hosts have room is not known")
	}
	for _, w := range out.Workloads {
		if w.Unlearnt != "" {
			a.Notes = append(a.Notes, w.Name+" is forecast without the load before now: "+w.Unlearnt)
		}
	}
	if len(seen.Autoscalers) == 0 {
		a.Notes = append(a.Notes, "there is no WorkloadAutoscaler: replicas stay as they are (plimsoll convert makes them of other autoscalers)")
	}
}

func sparesAdvised(pools []*v1alpha1.VMPool) []string {
	var notes []string
	for _, p := range pools {
		if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionSparesAdvised); c != nil && c.Status == metav1.ConditionTrue {
			notes = append(notes, fmt.Sprintf("spares would have paid in VMPool %s: %s", p.Name, c.Message))
		}
	}
	return notes
}

func (a *planAnswer) table(w io.Writer) {
	fmt.Fprintf(w, "context %s, read only: nothing is changed\nprices: %s\n", a.Cluster, a.Prices)
	if len(a.Workload) > 0 {
		fmt.Fprintf(w, "\nWORKLOAD\tTARGET\tMODE\tNOW\tWANTED\tWHY\n")
	}
	for _, p := range a.Workload {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, p.Target, p.Mode, number(p.Now), number(p.Wanted), first(p.Why))
	}
	if len(a.Buy)+len(a.Wake)+len(a.Return)+len(a.Stay) > 0 {
		fmt.Fprintf(w, "\nMACHINE\tPOOL\tSHAPE\tHOST\tCPU\tMEMORY\tCOST\tVERDICT\n")
	}
	for _, m := range a.Buy {
		a.line(w, m, "+", "buy", first(m.Why))
	}
	for _, m := range a.Wake {
		a.line(w, m, "+", "wake", first(m.Why))
	}
	coming := "machines are to be bought"
	if len(a.Buy) == 0 {
		coming = "spares are to be woken"
	}
	for _, m := range a.Return {
		why := "it is empty, or its pods fit elsewhere"
		if len(m.PodsTo) > 0 {
			why = "its pods fit on " + strings.Join(m.PodsTo, ", ")
		}
		a.line(w, m, "-", "return", why)
	}
	for _, m := range a.Stay {
		a.line(w, m, "", "keep", cmp.Or(first(m.Why), coming))
	}
	if len(a.Return)+len(a.Stay) > 1 {
		cpu, memory := a.Load.columns(true)
		fmt.Fprintf(w, "*\t\t\t\t%s\t%s\t%s\trequested of all %s\n", cpu, memory, a.Now.PerHour.Display(a.Currency), pricing.Count(len(a.Return)+len(a.Stay), "node"))
	}
	if len(a.Unplaced) > 0 {
		fmt.Fprintf(w, "\nNO PLACE FOR\tREASON\tWHY\n")
	}
	for i := range a.Unplaced {
		u := &a.Unplaced[i]
		fmt.Fprintf(w, "%s\t%s\t%s\n", u.Who(), u.Why.Code, u.Text())
	}
	if len(a.Headroom) > 0 {
		fmt.Fprintf(w, "\nHEADROOM\tPODS\tREADY\tTO COME\tCOST\tWHY\n")
	}
	for i := range a.Headroom {
		h := &a.Headroom[i]
		why := ""
		if h.Why != nil {
			why = h.Why.Text
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", h.Name, h.Wanted, h.Ready, h.Coming, h.Rate.Display(a.Currency), why)
	}
	fmt.Fprintln(w)
	for _, r := range a.Why {
		if len(a.Unplaced) == 0 || !slices.Contains(ofUnplaced, r.Code) {
			fmt.Fprintln(w, r)
		}
	}
	if a.Limit > 0 {
		fmt.Fprintf(w, "all machines may cost %s\n", a.Limit.Display(a.Currency))
	}
	rate := func(c planCost) string {
		return fmt.Sprintf("%s (%s/mo)", c.PerHour.Display(a.Currency), c.PerMonth.Display(a.Currency))
	}
	fmt.Fprintf(w, "now %s for %s, then %d for %s: %s\n", pricing.Count(a.Now.Machines, "machine"), rate(a.Now), a.Then.Machines, rate(a.Then), a.change())
}

// change says what the plan comes to.
func (a *planAnswer) change() string {
	by := a.Then.PerHour - a.Now.PerHour
	month := by.PerMonth()
	switch {
	case by < 0 && len(a.Buy) == 0 && a.Saved < -by:
		return fmt.Sprintf("%s/mo less by list price, of which %s/mo is saved: bought hardware, and hosts that stay on, are paid for all the same",
			(-month).Display(a.Currency), a.Saved.PerMonth().Display(a.Currency))
	case by < 0:
		return fmt.Sprintf("%s/mo less", (-month).Display(a.Currency))
	case by > 0:
		return fmt.Sprintf("%s/mo more", month.Display(a.Currency))
	}
	return "no change"
}

func (a *planAnswer) line(w io.Writer, m planMachine, sign, verdict, why string) {
	cpu, memory := m.Load.columns(m.Name != "")
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s%s\t%s: %s\n", cmp.Or(m.Name, "(new)"), cmp.Or(m.Pool, "-"), cmp.Or(m.Shape, "-"), cmp.Or(m.Host, "-"),
		cpu, memory, sign, m.PerHour.Display(a.Currency), verdict, why)
}

func number(n *int) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}

func first(why []nodescaler.Reason) string {
	if len(why) == 0 {
		return ""
	}
	return why[0].Text
}
