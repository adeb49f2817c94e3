package operator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// lay puts the objects on the desk. It changes nothing, and the same objects at the same time make
// the same desk.
func (c *Config) lay(o objects, now time.Time) *desk {
	d := &desk{now: now, limit: c.Limit}
	o.readings = cmp.Or(o.readings, &readings{})
	c.layBooks(d, o.books, o.readings)
	if c.NodeScaler || c.Provider {
		c.layPools(d, o.pools, o.readings)
	}
	if c.PodScaler {
		c.layWorkloads(d, &o)
	}
	return d
}

func (c *Config) layBooks(d *desk, books []*v1alpha1.PriceBook, earlier *readings) {
	for _, object := range books {
		b := &book{object: object, chosen: object.Name == c.PriceBook}
		b.prices, b.invalid = earlier.book(object)
		d.books = append(d.books, b)
		switch {
		case !b.chosen:
		case b.invalid != nil:
			d.blind = fmt.Sprintf("PriceBook %s: %s", object.Name, oneLine(b.invalid))
		default:
			d.prices = b.prices
		}
	}
	if d.prices == nil && d.blind == "" && c.PriceBook != v1alpha1.DefaultPriceBook {
		d.blind = fmt.Sprintf("there is no PriceBook %s, which the configuration names", c.PriceBook)
	}
}

// layPools reads the pools, the oldest first: of two that would take one another's VMIDs or
// addresses, the one that was there before stays. Those of a part that does not run here are
// another owner's to work on.
func (c *Config) layPools(d *desk, objects []*v1alpha1.VMPool, earlier *readings) {
	objects = slices.SortedFunc(slices.Values(objects), func(a, b *v1alpha1.VMPool) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	var valid []settings.Pool
	for _, object := range objects {
		p := &pool{object: object, pause: pauseOf(object, d.now)}
		p.pve, p.invalid = earlier.pool(object, c.ReadFile)
		p.pve.Resumed = resumedAt(object, d.now)
		if p.invalid == nil {
			_, p.invalid = p.rules()
		}
		if p.invalid == nil {
			c.layRollout(p, earlier, d.now)
			valid = append(valid, p.pve)
		}
		d.pools = append(d.pools, p)
	}
	bad := settings.Conflicts(valid, c.Servers...)
	for _, p := range d.pools {
		if p.invalid == nil {
			p.conflict = bad[p.object.Name]
			p.words = p.pve.Words()
			if p.rolling != nil {
				p.words.Rolling = *p.rolling
			}
		}
		p.held = c.holdPool(p, d)
		if !p.ours() && p.usable() {
			p.offered = p.held == nil && !p.pause.on // it knows no pause of one direction
		}
		if p.offered {
			p.held = because(v1alpha1.ReasonScaledByClusterAutoscaler, "upstream's cluster-autoscaler orders the machines of pool %s", p.object.Name)
		}
	}
	d.besideOthers()
	d.pools = slices.DeleteFunc(d.pools, func(p *pool) bool {
		if p.object.Spec.ScaledBy == v1alpha1.ScaledByClusterAutoscaler {
			return !c.Provider
		}
		return !c.NodeScaler
	})
	slices.SortFunc(d.pools, func(a, b *pool) int { return strings.Compare(a.object.Name, b.object.Name) })
}

// besideOthers has pools that are only observed say so where others act: what would be done is not
// decided there.
func (d *desk) besideOthers() {
	if !slices.ContainsFunc(d.pools, func(p *pool) bool { return p.ours() && p.held == nil }) {
		return
	}
	for _, p := range d.pools {
		if p.ours() && p.held != nil && p.held.Code == v1alpha1.ReasonRecommending {
			p.held = because(v1alpha1.ReasonRecommending, besideActive)
		}
	}
}

// besideActive is why nothing is planned for a pool.
const besideActive = "mode Recommend beside pools that are Active; machines are planned without it"

// holdPool says why nothing is done to a pool's machines, or nil.
func (c *Config) holdPool(p *pool, d *desk) *nodescaler.Reason {
	switch {
	case p.invalid != nil:
		return because(v1alpha1.ReasonInvalidSpec, "%s", oneLine(p.invalid))
	case p.conflict != nil:
		return because(v1alpha1.ReasonPoolsConflict, "%s", oneLine(p.conflict))
	case p.pause.full():
		return because(v1alpha1.ReasonPaused, "%s", p.pause.text)
	case p.object.Spec.Mode != v1alpha1.ModePoolActive && !p.asks():
		return because(v1alpha1.ReasonRecommending, "mode Recommend: this is what would be done")
	case !c.Active:
		return because(v1alpha1.ReasonRecommending, "%s", lid)
	case d.blind != "":
		return because(v1alpha1.ReasonPricesUnknown, "%s", d.blind)
	}
	return nil
}

// lid is why a mode of Active is not obeyed.
const lid = "plimsoll run is in mode Recommend, which holds for all objects regardless of their own mode: this is what would be done"

func (c *Config) layWorkloads(d *desk, o *objects) {
	targets := map[string]kube.Target{}
	for _, t := range o.targets {
		targets[t.Workload] = t
	}
	for _, object := range o.autoscalers {
		w := &workload{object: object, name: object.Namespace + "/" + object.Name, pause: pauseOfWorkload(object, d.now)}
		var there bool
		if w.target, there = targets[w.name]; !there {
			continue // it was deleted after the autoscalers were read
		}
		if c.HandOff.Used() {
			w.handOff = c.HandOff.By
		}
		read := o.readings.workload(object)
		w.words, w.policy, w.signals, w.invalid = read.words, read.policy, read.signals, read.invalid
		w.sizes = read.sizes
		w.words.Pod = o.requests[w.name]
		w.held = c.holdWorkload(w, d)
		if read.fresh != nil {
			w.warnings = podpolicy.Warnings(&w.words, read.fresh)
		}
		d.workloads = append(d.workloads, w)
	}
	slices.SortFunc(d.workloads, func(a, b *workload) int { return strings.Compare(a.name, b.name) })
}

// holdWorkload says why nothing is done to a workload, or nil. Another client that scales the
// target is no reason where nothing would be done without it.
func (c *Config) holdWorkload(w *workload, d *desk) *nodescaler.Reason {
	fault := slices.IndexFunc(w.target.Findings, func(f kube.Finding) bool { return !conflicts(f) })
	rival := slices.IndexFunc(w.target.Findings, conflicts)
	switch {
	case w.invalid != nil:
		return because(v1alpha1.ReasonInvalidSpec, "%s", oneLine(w.invalid))
	case fault >= 0:
		return because(w.target.Findings[fault].Code, "%s", w.target.Findings[fault].Text)
	case w.object.Spec.Mode == v1alpha1.ModePaused:
		return because(v1alpha1.ReasonPaused, "mode Paused")
	case w.pause.full():
		return because(v1alpha1.ReasonPaused, "%s", w.pause.text)
	case w.object.Spec.Mode != v1alpha1.ModeActive && !w.asks():
		return because(v1alpha1.ReasonRecommending, "mode Recommend: this is what would be done")
	case !c.Active:
		return because(v1alpha1.ReasonRecommending, "%s", lid)
	case rival >= 0:
		return because(w.target.Findings[rival].Code, "%s", w.target.Findings[rival].Text)
	case d.blind != "" && w.words.Cost.Target > 0:
		return because(v1alpha1.ReasonPricesUnknown, "%s", d.blind)
	}
	return nil
}

// intent is what the loop is to work by.
func (c *Config) intent(d *desk) loop.Intent {
	in := loop.Intent{
		Offered: d.others(), HandedOff: c.HandOff.Used(), Prices: d.prices, Limit: d.limit, Quotas: c.Quotas, DryRun: !c.Active, Consent: d.consent(),
		Others: map[string]nodescaler.Reason{},
	}
	if in.Prices == nil {
		in.Prices = pricing.DefaultBook()
	}
	for _, p := range d.pools {
		if !p.ours() {
			in.Others[p.object.Name] = *cmp.Or(p.held, because(v1alpha1.ReasonPaused, "%s", p.pause.text))
			continue
		}
		words := p.words
		words.Resumed, words.HeldUp, words.HeldDown = p.pve.Resumed, p.held, p.held
		if why := because(v1alpha1.ReasonPaused, "%s", p.pause.text); p.held == nil && p.pause.on {
			switch p.pause.direction {
			case v1alpha1.PauseUp:
				words.HeldUp = why
			case v1alpha1.PauseDown:
				words.HeldDown = why
			}
		}
		in.Pools = append(in.Pools, words)
	}
	for _, w := range d.workloads {
		wants := loop.Workload{
			Workload: w.words, Held: w.held, Paused: w.held != nil && w.held.Code == v1alpha1.ReasonPaused,
			Missed: missedSince(w.object), ByContainer: resources.ByContainer(&w.object.Spec.PolicySpec),
			ScaledToZero: isTrue(w.object.Status.Conditions, v1alpha1.ConditionScaledToZero), SwitchedOff: switchedOff(w.object.Status.Conditions),
			Sizes: w.wants(c.Admission),
		}
		if w.invalid != nil {
			wants.Workload = podscaler.Workload{Name: w.name}
		} else {
			wants.Policy = w.policy
		}
		if w.pause.on && !w.pause.full() {
			wants.Pause = w.pause.guard()
		}
		in.Workloads = append(in.Workloads, wants)
	}
	return in
}

// offered are the pools that cluster-autoscaler may have machines of.
func (d *desk) offered() []nodescaler.Pool {
	var all []nodescaler.Pool
	for _, p := range d.pools {
		if p.offered {
			all = append(all, p.words)
		}
	}
	return all
}

// others are the pools that cluster-autoscaler could have machines of, in any mode.
func (d *desk) others() []nodescaler.Pool {
	var all []nodescaler.Pool
	for _, p := range d.pools {
		if p.usable() && !p.ours() && !p.pause.on && p.object.Spec.Mode == v1alpha1.ModePoolActive {
			all = append(all, p.words)
		}
	}
	return all
}

// usable are the pools that machines can be made in.
func (d *desk) usable() []settings.Pool {
	var all []settings.Pool
	for _, p := range d.pools {
		if p.usable() {
			all = append(all, p.pve)
		}
	}
	return all
}

// resting are the pools in which people want nothing to be done.
func (d *desk) resting() map[string]bool {
	all := map[string]bool{}
	for _, p := range d.pools {
		if rests(p.held) {
			all[p.pve.Name] = true
		}
	}
	return all
}

// sources are where the workloads' signals come from.
func (d *desk) sources() map[string]signals.Source {
	all := map[string]signals.Source{}
	for _, w := range d.workloads {
		if w.invalid == nil {
			ref := w.object.Spec.ScaleTargetRef
			all[w.name] = signals.Source{
				Target: signals.Target{Namespace: w.object.Namespace, Kind: ref.Kind, Name: ref.Name}, SLO: w.words.SLO, Spec: w.signals,
			}
		}
	}
	return all
}
