package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Seen is a cluster as it was seen once.
type Seen struct {
	*kube.Picture
	// Machines are those of the nodes.
	Machines []nodescaler.Machine
	// Pools are those to go by where the cluster has no VMPools.
	Pools []nodescaler.Pool
	// Prices are those to go by in place of the cluster's; nil are the cluster's.
	Prices *pricing.Book
}

// Outlook is what would be done in a cluster as it is now.
type Outlook struct {
	Step      *loop.Step
	Workloads []Foreseen
	Pools     []nodescaler.Pool
	Prices    *pricing.Book
	// Spares is whether any may be kept. How many pay is learned over a day, and not known here.
	Spares bool
	// Blind is why the prices are not those that were asked for; empty if they are.
	Blind string
	// Paused are the pools that are paused, each with how. The outlook is what would be done else.
	Paused map[string]string
}

// Foreseen is one workload in an outlook.
type Foreseen struct {
	Name, Target string
	Mode         string
	// Step is what was decided for it; nil where Refused says why there is nothing.
	Step    *loop.WorkloadStep
	Refused *nodescaler.Reason
	Pause   string
	// Unlearnt is why its policy has no load before now; empty if it has, or needs none.
	Unlearnt string
}

// settled is how long everything is taken to have been as it is: longer than any window or
// cool-down that could be configured, so that none of them speaks of an unseen past.
const settled = 25 * time.Hour

// Foresee says what would be done in a cluster as it was seen, if everything were to stay so: what
// only waits for time to pass is taken to have passed. It writes nothing and asks nothing but the
// signals, for the load before now, too. Machines are those that are behind the nodes; hosts have
// room for all that the pools allow.
func (c Config) Foresee(ctx context.Context, p *Seen, now time.Time) (*Outlook, error) {
	c.Active, c.NodeScaler, c.PodScaler, c.Provider = false, true, true, true
	d := c.lay(objects{autoscalers: p.Autoscalers, pools: p.Picture.Pools, books: p.PriceBooks, targets: p.Targets, requests: new(asks).see(p.State.Pods, p.Autoscalers)}, now)
	t := &term{Config: c}
	if err := t.begin(); err != nil {
		return nil, err
	}
	out := &Outlook{Prices: cmp.Or(p.Prices, d.prices, pricing.DefaultBook()), Spares: c.Nodes.Joint != nil && c.Nodes.Joint.Spares.Keeps()}
	if p.Prices == nil {
		out.Blind = d.blind
	}
	if err := t.Signals.Configure(d.sources()); err != nil {
		return nil, err
	}
	t.Signals.Prepare(ctx, now)
	in := c.intent(d)
	out.Paused = map[string]string{}
	for _, p := range d.pools {
		if p.pause.on {
			out.Paused[p.object.Name] = p.pause.text
		}
	}
	in.Prices, in.Consent = out.Prices, approval.Consent{}
	for i := range in.Workloads { // this is what would be done without a hold
		in.Workloads[i].Held = nil
	}
	beside := d.onlyObserved()
	for i := range in.Pools {
		in.Pools[i].HeldUp, in.Pools[i].HeldDown = beside[in.Pools[i].Name], beside[in.Pools[i].Name]
	}
	if len(p.Picture.Pools) == 0 {
		in.Pools = p.Pools
	}
	out.Pools = in.Pools
	o := loop.Observation{Cluster: p.State, Machines: loop.MachineState{Hosts: roomy(in.Pools), Machines: aged(p.Machines, now)}}
	ports := loop.Ports{Signals: asMeasured{t.Signals}, Uses: c.Containers, Histories: t.past}
	// The first step looks, the second is the policies' first, and what they say at the third they
	// say knowing how it has been for long, and what those learnt that lacked the load before.
	for _, at := range []time.Duration{-settled - time.Hour, -settled, 0} {
		o.Time = now.Add(at)
		ports.Measure(ctx, &o, &in, &t.memory)
		if at == -settled { // for the third: at an earlier time it would be of the future
			t.past.read(ctx, t, now)
			t.beside.Wait()
		}
		s := loop.Decide(&o, &in, &t.memory)
		out.Step = &s
	}
	d.foreseen(out)
	for i := range out.Workloads {
		out.Workloads[i].Unlearnt = t.past.said(out.Workloads[i].Name)
	}
	return out, nil
}

// onlyObserved are the pools in mode Recommend beside others that act, with why nothing is planned
// for them.
func (d *desk) onlyObserved() map[string]*nodescaler.Reason {
	pools := map[string]*nodescaler.Reason{}
	others := false
	for _, p := range d.pools {
		if p.object.Spec.Mode != v1alpha1.ModePoolActive && !p.asks() {
			pools[p.object.Name] = because(v1alpha1.ReasonRecommending, besideActive)
		} else {
			others = others || p.ours()
		}
	}
	if !others {
		return nil
	}
	return pools
}

// asMeasured has what was measured count as if it had been measured for long.
type asMeasured struct{ loop.Signals }

func (a asMeasured) Read(ctx context.Context, w *podscaler.Workload, now time.Time) (podscaler.Window, error) {
	window, err := a.Signals.Read(ctx, w, now)
	window.Since = time.Time{}
	return window, err
}

// aged are machines that have been there for as long as anything is taken to have been.
func aged(machines []nodescaler.Machine, now time.Time) []nodescaler.Machine {
	all := slices.Clone(machines)
	for i := range all {
		if at := now.Add(-settled - 2*time.Hour); all[i].Created.After(at) {
			all[i].Created = at
		}
	}
	return all
}

// roomy are hosts that take all that the pools allow: which room there is on Proxmox VE is not
// known.
func roomy(pools []nodescaler.Pool) []nodescaler.Host {
	names := []string{}
	for i := range pools {
		names = append(names, pools[i].Hosts...)
		if len(pools[i].Hosts) == 0 {
			names = append(names, AnyHost)
		}
	}
	slices.Sort(names)
	var hosts []nodescaler.Host
	for _, name := range slices.Compact(names) {
		room := pricing.Resources{CPU: 1 << 40, Memory: 1 << 60}
		hosts = append(hosts, nodescaler.Host{Host: pricing.Host{Name: name, Room: room}, Online: true})
	}
	return hosts
}

// AnyHost is where an outlook puts machines whose pool names no hosts.
const AnyHost = "any host"

// foreseen adds each workload to the outlook.
func (d *desk) foreseen(out *Outlook) {
	for _, w := range d.workloads {
		ref := w.object.Spec.ScaleTargetRef
		f := Foreseen{Name: w.name, Target: fmt.Sprintf("%s/%s", ref.Kind, ref.Name), Mode: string(w.object.Spec.Mode), Pause: w.pause.text}
		switch {
		case w.invalid != nil:
			f.Refused = because(v1alpha1.ReasonInvalidSpec, "%s", oneLine(w.invalid))
		case len(w.target.Findings) > 0:
			f.Refused = because(w.target.Findings[0].Code, "%s", w.target.Findings[0].Text)
		default:
			f.Step = workloadStep(out.Step, w.name)
		}
		out.Workloads = append(out.Workloads, f)
	}
}
