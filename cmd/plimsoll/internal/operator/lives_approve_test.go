package operator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

// asksPeople reports whether people approve in a life: in one of three.
func asksPeople(seed uint64) bool { return rand.New(rand.NewPCG(seed, 13)).IntN(3) == 0 }

// inbox is the proposals of a town, as its API server keeps them, and what people have said. Where
// there is an emulated API server, it is what the process that leads has seen of them there.
type inbox struct {
	all      []approval.Proposal
	asked    time.Time // since when the objects ask about what they ask about
	version  int
	crashes  bool // the next claim is kept, and its answer lost
	approved map[string]approval.Change
	followed map[string]bool
	rebooted map[string]time.Time // when machines were last rebooted
}

// change writes a proposal. What was shown of it before stays as it was.
func (b *inbox) change(name string, do func(*approval.Proposal)) {
	b.all = slices.Clone(b.all)
	for i := range b.all {
		if p := &b.all[i]; p.Name == name {
			b.version++
			p.Version = strconv.Itoa(b.version)
			do(p)
		}
	}
}

// townApprovals is the town as the place where people are asked.
type townApprovals struct{ *town }

func (w townApprovals) Propose(ctx context.Context, c *approval.Change) error {
	if err := w.write(ctx, "propose"); err != nil {
		return err
	}
	b, name := &w.inbox, c.ProposalName()
	b.all = append(slices.Clone(b.all), approval.Proposal{
		ProposalRef: approval.ProposalRef{Namespace: "plimsoll", Name: name, UID: name}, Change: *c, Digest: c.Digest(), Phase: approval.ProposalOpen,
	})
	b.change(name, func(*approval.Proposal) {})
	w.said["proposal "+string(c.Does)]++
	return nil
}

func (w townApprovals) Claim(ctx context.Context, r *approval.ProposalRef, _ string) error {
	if err := w.write(ctx, "claim"); err != nil {
		return err
	}
	b := &w.inbox
	if !slices.ContainsFunc(b.all, func(p approval.Proposal) bool { return p.Name == r.Name && p.Version == r.Version }) {
		return errors.New("the proposal has changed")
	}
	b.change(r.Name, func(p *approval.Proposal) { p.Phase = approval.ProposalFollowed })
	w.said["proposal followed"]++
	if b.crashes {
		b.crashes = false
		return errNoAnswer
	}
	return nil
}

func (w townApprovals) Close(ctx context.Context, c *approval.Closed) error {
	if err := w.write(ctx, "close"); err != nil {
		return err
	}
	w.inbox.change(c.Name, func(p *approval.Proposal) { p.Phase = c.Phase })
	w.said["proposal "+string(c.Phase)]++
	return nil
}

func (w townApprovals) Remove(ctx context.Context, r *approval.ProposalRef) error {
	err := w.write(ctx, "remove proposal")
	if err == nil {
		w.inbox.all = slices.DeleteFunc(slices.Clone(w.inbox.all), func(p approval.Proposal) bool { return p.Name == r.Name })
	}
	return err
}

func (w *town) Approvals() loop.Approvals { return townApprovals{w} }

// answer has a person answer proposals that are open.
func (l *life) answer(r *rand.Rand, yes bool) {
	for _, p := range l.inbox.all {
		if p.Phase != approval.ProposalOpen || p.Answer != nil || r.IntN(4) == 0 {
			continue
		}
		if l.api != nil && !l.api.answer(&p, yes) {
			continue
		}
		l.note("PERSON approves %t: %s", yes, p.What)
		l.inbox.change(p.Name, func(p *approval.Proposal) { p.Answer = &approval.Answer{Approved: yes, By: "ann"} })
		if yes && p.Digest == p.Change.Digest() {
			l.inbox.approved[p.Name] = p.Change
		}
	}
}

// asksFirst has the pool and the workloads ask about some of what they do. What
// cluster-autoscaler decides is asked about nowhere.
func (l *life) asksFirst(r *rand.Rand) {
	l.inbox.asked = l.sim.Now()
	if l.autoscaler == nil {
		l.pools["aa"].Spec.Mode = v1alpha1.ModePoolApprove
		l.pools["aa"].Spec.Approval = one(r, []*v1alpha1.PoolApproval{
			nil, {}, {Proceed: v1alpha1.PoolProceeds{Repairs: true}}, {Proceed: v1alpha1.PoolProceeds{Ends: true}}, {Proceed: v1alpha1.PoolProceeds{BuysUpToPerHour: "12"}},
		})
	}
	for _, name := range l.workloads() {
		if a := l.autoscalers[name]; r.IntN(3) > 0 {
			a.Spec.Mode = v1alpha1.ModeApprove
			a.Spec.Approval = one(r, []*v1alpha1.WorkloadApproval{
				nil, {Proceed: v1alpha1.WorkloadProceeds{GrowthUpToReplicas: 3}}, {Proceed: v1alpha1.WorkloadProceeds{Shrinks: true, Resizes: true}},
			})
		}
	}
}

func (l *life) workloads() (all []string) {
	for _, s := range l.services {
		all = append(all, s.name)
	}
	return all
}

// approveHappenings are what lives with people who approve may meet besides, by kind.
var approveHappenings = map[string]func(*life, *rand.Rand){
	"asks first":        (*life).asksFirst,
	"a person says yes": func(l *life, r *rand.Rand) { l.answer(r, true) },
	"a person says no":  func(l *life, r *rand.Rand) { l.answer(r, false) },
	"a claim is lost":   func(l *life, _ *rand.Rand) { l.inbox.crashes = true },
	"a proposal is forged": func(l *life, r *rand.Rand) {
		c := approval.Change{
			Kind: v1alpha1.KindVMPool, Object: "aa", Does: one(r, []approval.Does{approval.OrderMachines, approval.EndMachine}), Subject: one(r, []string{"small", "large"}),
			Count: 8, Price: 1000 * pricing.RateOf(pricing.Unit), What: "all", Made: l.now(), Until: l.now().Add(time.Hour),
		}
		if l.api != nil {
			l.api.forge(&c)
			return
		}
		l.inbox.all = append(slices.Clone(l.inbox.all), approval.Proposal{
			ProposalRef: approval.ProposalRef{Namespace: "plimsoll", Name: c.ProposalName(), UID: "forged"}, Change: c, Answer: &approval.Answer{Approved: true, By: "mallory"},
		})
		l.inbox.change(c.ProposalName(), func(*approval.Proposal) {})
	},
	"a proposal is tampered with": func(l *life, r *rand.Rand) {
		if len(l.inbox.all) == 0 {
			return
		}
		p := one(r, l.inbox.all)
		if l.api != nil && !l.api.tamper(&p) {
			return
		}
		name := p.Name
		delete(l.inbox.approved, name)
		l.inbox.change(name, func(p *approval.Proposal) {
			p.Count, p.To, p.Until, p.Answer = p.Count+5, p.To+5, p.Until.Add(time.Hour), &approval.Answer{Approved: true, By: "mallory"}
		})
	},
}

// approveEventsOf are a life's events of people who approve. They ask first from early on, and are
// often there.
func approveEventsOf(seed uint64) []event {
	rng := rand.New(rand.NewPCG(seed, 14))
	all := []event{{time.Minute, "asks first", rng.Uint64()}}
	for at := 2 * time.Minute; at < troubleFor; at += time.Duration(30+rng.IntN(300)) * time.Second {
		all = append(all, event{at, one(rng, []string{"a person says yes", "a person says yes", "a person says yes", "a person says no"}), rng.Uint64()})
	}
	return append(all, moreEventsOf(seed, 15, approveHappenings)...)
}

// approvedFirst is the law of mode Approve: nothing is done to a pool or a workload that neither a
// rule nor an approval covers, and none is followed twice. It goes by what people said, and by no
// word of the product but which approval it claims.
func (l *life) approvedFirst(s *loop.Step) {
	by := map[int]approval.Change{}
	workloads := map[string][]approval.Change{}
	if s.Asked != nil {
		for _, c := range s.Asked.Claim {
			change, is := l.inbox.approved[c.Name]
			done := slices.ContainsFunc(c.Actions, func(i int) bool { o := s.Tried(i); return o != nil && o.Held == nil })
			scaled := s.Rescaled(c.Workload)
			done = done || c.Workload != "" && c.Does != approval.ResizePod && scaled != nil && scaled.Error == ""
			switch {
			case !done:
			case !is:
				l.fault("%s: follows %s, which no person approved as it is", s.ID, c.Name)
			case l.inbox.followed[c.Name]:
				l.fault("%s: follows %s twice", s.ID, c.Name)
			case !s.Time.Before(change.Until):
				l.fault("%s: follows %s at %s, which expired at %s", s.ID, c.Name, s.Time, change.Until)
			}
			l.inbox.followed[c.Name] = l.inbox.followed[c.Name] || done
			for _, i := range c.Actions {
				by[i] = change
			}
			workloads[c.Workload] = append(workloads[c.Workload], change)
		}
	}
	l.poolApproved(s, by)
	for i := range s.Workloads {
		l.workloadApproved(s, &s.Workloads[i], workloads[s.Workloads[i].Workload])
	}
}

// asksSince reports whether a process may not know yet what is asked about.
func (l *life) asksSince() bool { return l.api != nil && l.sim.Now().Sub(l.inbox.asked) < blurs }

func (l *life) poolApproved(s *loop.Step, by map[int]approval.Change) {
	p := l.pools["aa"]
	if p.Spec.Mode != v1alpha1.ModePoolApprove || l.asksSince() {
		return
	}
	var rules v1alpha1.PoolProceeds
	if p.Spec.Approval != nil {
		rules = p.Spec.Approval.Proceed
	}
	count := map[string]int{}
	for i := range s.Plan.Actions {
		a := &s.Plan.Actions[i]
		if o := s.Tried(i); o == nil || o.Held != nil {
			continue
		}
		c, claimed := by[i]
		ok := false
		switch a.Kind {
		case nodescaler.Uncordon:
			ok = true
		case nodescaler.Buy, nodescaler.Wake:
			name := fmt.Sprint(c.Made, c.Does, c.Subject)
			count[name]++
			ok = rules.BuysUpToPerHour != "" && !claimed || claimed && count[name] <= c.Count && (c.Does == approval.OrderMachines) == (a.Kind == nodescaler.Buy)
		case nodescaler.Cordon, nodescaler.Evict, nodescaler.DeletePod, nodescaler.Return, nodescaler.Stash, nodescaler.Reboot:
			ok = rules.Ends || rules.Repairs || claimed && c.Does == approval.EndMachine && c.Subject == a.Machine ||
				l.endApproved(a.Machine) && (a.Kind != nodescaler.Cordon || s.Time.Sub(l.inbox.rebooted[a.Machine]) < 24*time.Hour)
			if a.Kind == nodescaler.Reboot { // who approved it approved the end if it does not help
				l.inbox.rebooted[a.Machine] = s.Time
			}
		}
		if !ok {
			l.fault("%s: %s %s is done, and neither a rule nor an approval covers it", s.ID, a.Kind, subject(a))
		}
	}
}

// endApproved reports whether the end of a machine was approved, and begun.
func (l *life) endApproved(machine string) bool {
	for name, c := range l.inbox.approved {
		if c.Does == approval.EndMachine && c.Subject == machine && l.inbox.followed[name] {
			return true
		}
	}
	return false
}

func (l *life) workloadApproved(s *loop.Step, ws *loop.WorkloadStep, by []approval.Change) {
	a := l.autoscalers[ws.Workload]
	if a == nil || a.Spec.Mode != v1alpha1.ModeApprove || l.asksSince() {
		return
	}
	var rules v1alpha1.WorkloadProceeds
	if a.Spec.Approval != nil {
		rules = a.Spec.Approval.Proceed
	}
	has := func(ok func(approval.Change) bool) bool { return slices.ContainsFunc(by, ok) }
	if o := s.Rescaled(ws.Workload); o != nil && o.Error == "" {
		switch d := ws.Decision; {
		case d.To > d.From && d.To > int(rules.GrowthUpToReplicas) && !has(func(c approval.Change) bool { return c.Does == approval.GrowWorkload && d.To <= c.To }),
			d.To < d.From && !rules.Shrinks && !has(func(c approval.Change) bool { return c.Does == approval.ShrinkTo && d.To >= c.To }):
			l.fault("%s: %s goes from %d to %d, and neither a rule nor an approval covers it", s.ID, ws.Workload, d.From, d.To)
		}
	}
	if done := s.Resized(ws); done != nil && done.Applied && !rules.Resizes && !has(func(c approval.Change) bool { return c.Does == approval.ResizePod && c.Subject == done.Pod }) {
		l.fault("%s: %s is resized, and neither a rule nor an approval covers it", s.ID, done.Pod)
	}
}
