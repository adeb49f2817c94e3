package loop

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// office is a house where people are asked. What they are asked is kept as the API server keeps it.
type office struct {
	*house
	version int
	crashes bool // the process ends once it has claimed
}

var errCrash = errors.New("the process ends")

func newOffice() *office { return &office{house: newHouse()} }

func (o *office) change(name string, do func(*approval.Proposal)) {
	o.state.Proposals = slices.Clone(o.state.Proposals)
	for i := range o.state.Proposals {
		if p := &o.state.Proposals[i]; p.Name == name {
			o.version++
			p.Version = strconv.Itoa(o.version)
			do(p)
		}
	}
}

func (o *office) Propose(_ context.Context, c *approval.Change) error {
	p := approval.Proposal{ProposalRef: approval.ProposalRef{Namespace: "plimsoll", Name: c.ProposalName(), UID: c.ProposalName()}, Change: *c, Digest: c.Digest(), Phase: approval.ProposalOpen}
	o.state.Proposals = append(slices.Clone(o.state.Proposals), p)
	o.change(p.Name, func(*approval.Proposal) {})
	return o.do("propose " + strings.TrimSuffix(p.Name, p.Digest[:16]))
}

func (o *office) Claim(_ context.Context, r *approval.ProposalRef, _ string) error {
	i := slices.IndexFunc(o.state.Proposals, func(p approval.Proposal) bool {
		return p.Name == r.Name && p.Version == r.Version && p.Phase == approval.ProposalOpen
	})
	if i < 0 {
		return errors.New("it has changed")
	}
	o.change(r.Name, func(p *approval.Proposal) { p.Phase = approval.ProposalFollowed })
	if o.crashes {
		return errCrash
	}
	return nil
}

func (o *office) Close(_ context.Context, c *approval.Closed) error {
	o.change(c.Name, func(p *approval.Proposal) { p.Phase = c.Phase })
	return o.do("close " + string(c.Phase))
}

func (o *office) Remove(_ context.Context, r *approval.ProposalRef) error {
	o.state.Proposals = slices.DeleteFunc(slices.Clone(o.state.Proposals), func(p approval.Proposal) bool { return p.Name == r.Name })
	return o.do("remove")
}

// answer has a person answer what is open.
func (o *office) answer(yes bool) {
	for _, p := range o.state.Proposals {
		if p.Phase == approval.ProposalOpen {
			o.change(p.Name, func(p *approval.Proposal) { p.Answer = &approval.Answer{Approved: yes, By: "ann"} })
		}
	}
}

// asks has the office's pool and workload ask first.
func (o *office) asks(pods podscaler.Policy, nodes nodescaler.Policy) *Runner {
	r := o.runner(pods, nodes)
	r.Approvals = o
	r.Consent = approval.Consent{Pools: map[string]approval.PoolRules{"worker": {}}, Workloads: map[string]approval.WorkloadRules{"shop/web": {}}}
	return r
}

// at makes a step at so many seconds, and returns it and what was done in it.
func (o *office) at(t *testing.T, r *Runner, seconds int) (Step, []string) {
	t.Helper()
	o.done = nil
	s := must.Get(r.Once(t.Context(), t0.Add(time.Duration(seconds)*time.Second)))(t)
	return s, o.done
}

func idle() nodesSay { return actions() }

// Reboot is what the office's machines can do beside those of the house.
func (o *office) Reboot(_ context.Context, machine string) error { return o.do("reboot " + machine) }

func TestARebootIsAskedForAsOne(t *testing.T) {
	o := newOffice()
	o.state.Nodes = slices.Clone(o.state.Nodes)
	o.state.Nodes[0].Ready, o.state.Nodes[0].Conditions = false, []nodescaler.NodeCondition{{Type: nodescaler.Ready, Status: "Unknown", Since: t0.Add(-time.Hour)}}
	sick := []nodescaler.Reason{{Code: nodescaler.MachineUnhealthy, Text: "node worker-a has condition Ready=Unknown"}}
	r := o.asks(replicas(2), actions(nodescaler.Action{Kind: nodescaler.Reboot, Node: "worker-a", Machine: "worker-a", Pool: "worker", Reasons: sick}))
	r.Machines = o
	r.Pools[0].Disruption.Repair = nodescaler.Repair{
		Conditions: []nodescaler.Ailment{{Type: nodescaler.Ready, Status: "Unknown", For: nodescaler.Duration(time.Minute)}},
		Reboot:     &nodescaler.RebootRule{Within: nodescaler.Duration(10 * time.Minute)},
	}
	o.at(t, r, 0)
	_, done := o.at(t, r, 10)
	expect(t, "asked", []string{"propose worker-end-"}, done)
	expect(t, "what", "reboot machine worker-a of pool worker, and end it if that does not help", o.state.Proposals[0].What)
	o.answer(true)
	_, done = o.at(t, r, 20)
	expect(t, "done by the approval", []string{"reboot worker-a"}, done)
}

func TestWhatIsAskedFirstIsDoneOnceItIsApproved(t *testing.T) {
	end := []nodescaler.Action{
		{Kind: nodescaler.Cordon, Node: "worker-a", Machine: "worker-a", Pool: "worker", Reasons: why},
		{Kind: nodescaler.Evict, Pod: "web-1", Node: "worker-a", Machine: "worker-a", Pool: "worker", Reasons: why},
	}
	for _, c := range []struct {
		name     string
		replicas int
		plan     nodescaler.Policy
		proposed []string
		done     []string
	}{
		{"growth", 5, idle(), []string{"propose web-grow-"}, []string{"scale shop/web to 5"}},
		{"shrinking", 1, idle(), []string{"propose web-shrink-"}, []string{"scale shop/web to 1"}},
		{"an order", 2, actions(order("b")), []string{"propose worker-order-"}, []string{"create b"}},
		{"two orders", 2, actions(order("b"), order("c")), []string{"propose worker-order-"}, []string{"create b", "create c"}},
		{"the end of a machine", 2, actions(end...), []string{"propose worker-end-"}, []string{"draining worker-a true", "evict web-1"}},
		{"both", 5, actions(order("b")), []string{"propose worker-order-", "propose web-grow-"}, []string{"scale shop/web to 5", "create b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOffice()
			if c.replicas == 1 { // the smallest change is then made at once
				o.state.Pods[1].Node = ""
			}
			r := o.asks(replicas(c.replicas), c.plan)
			o.at(t, r, 0)
			_, done := o.at(t, r, 10)
			slices.Sort(done)
			slices.Sort(c.proposed)
			expect(t, "asked", c.proposed, done)
			s, done := o.at(t, r, 20)
			expect(t, "done while nothing is answered", []string(nil), done)
			for i := range s.Plan.Actions {
				expect(t, "held", approval.CodeAwaitingApproval, s.Deferred[i].Code)
			}
			o.answer(true)
			_, done = o.at(t, r, 30)
			expect(t, "done by the approval", c.done, done[:min(len(c.done), len(done))])
			for _, p := range o.state.Proposals {
				if p.Phase == approval.ProposalFollowed {
					return
				}
			}
			t.Errorf("no approval was claimed: %+v", o.state.Proposals)
		})
	}
}

func TestAnApprovalIsFollowedOnce(t *testing.T) {
	o := newOffice()
	r := o.asks(replicas(2), actions(order("b")))
	o.at(t, r, 0)
	o.at(t, r, 10)
	stale := o.state.Proposals
	o.answer(true)
	approved := o.state.Proposals
	_, done := o.at(t, r, 20)
	expect(t, "done", []string{"create b"}, done)
	r.Nodes = actions(order("c"))
	now := o.state.Proposals
	o.state.Proposals = approved // the picture is an old one, in this process and the next
	_, done = o.at(t, r, 30)
	expect(t, "done by an old picture", []string(nil), done)
	next := o.asks(replicas(2), actions(order("c")))
	o.at(t, next, 40)
	o.state.Proposals = now
	_, done = o.at(t, next, 50)
	expect(t, "done by the next process", []string{"propose worker-order-"}, done)
	if stale[0].Phase != approval.ProposalOpen {
		t.Error("the picture was changed")
	}
}

// A leader that is lost between its claim and what it was to do has followed the approval: the next
// one asks anew.
func TestAClaimThatWasLostIsProposedAnew(t *testing.T) {
	o := newOffice()
	r := o.asks(replicas(2), actions(order("b")))
	o.at(t, r, 0)
	o.at(t, r, 10)
	o.answer(true)
	o.crashes = true
	s, done := o.at(t, r, 20)
	expect(t, "done by the one that is lost", []string(nil), done)
	if len(s.Outcomes) != 1 || s.Outcomes[0].Held == nil {
		t.Errorf("the record has %+v", s.Outcomes)
	}
	o.crashes = false
	next := o.asks(replicas(2), actions(order("b")))
	o.at(t, next, 30)
	_, done = o.at(t, next, 40)
	expect(t, "done by the next", []string{"propose worker-order-"}, done)
}

func TestAnswersThatAreNotFollowed(t *testing.T) {
	dear := order("b")
	large := pricing.Shape{Name: "small", CPU: 8000, Memory: 32 * pricing.GB}
	dear.Shape = &large
	for _, c := range []struct {
		name   string
		meddle func(o *office, r *Runner)
		at     int
		done   []string
		phase  approval.ProposalPhase
	}{
		{"it is rejected", func(o *office, _ *Runner) { o.answer(false) }, 30, []string{"close Rejected"}, approval.ProposalRejected},
		{"it comes too late", func(o *office, _ *Runner) { o.answer(true) }, 10 + 3600, []string{"propose worker-order-", "close Expired"}, approval.ProposalExpired},
		{"it is tampered with", func(o *office, _ *Runner) {
			o.answer(true)
			o.change(o.state.Proposals[0].Name, func(p *approval.Proposal) { p.Count = 9 })
		}, 300, []string{"propose worker-order-", "close Ignored"}, approval.ProposalIgnored},
		{"it is of another name", func(o *office, _ *Runner) {
			o.answer(true)
			o.change(o.state.Proposals[0].Name, func(p *approval.Proposal) { p.Name = "worker-order-0123456789abcdef" })
		}, 300, []string{"propose worker-order-", "close Ignored"}, approval.ProposalIgnored},
		{"it costs more by now", func(o *office, r *Runner) {
			o.answer(true)
			r.Nodes, r.Pools[0].Shapes = actions(dear), []pricing.Shape{large}
		}, 30, []string{"propose worker-order-", "close Outgrown"}, approval.ProposalOutgrown},
		{"nothing wants it for long", func(o *office, r *Runner) { r.Nodes = idle() }, 10 + 600, []string{"close Outgrown"}, approval.ProposalOutgrown},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOffice()
			r := o.asks(replicas(2), actions(order("b")))
			o.at(t, r, 0)
			o.at(t, r, 10)
			c.meddle(o, r)
			_, done := o.at(t, r, c.at)
			expect(t, "done", c.done, done)
			expect(t, "phase", c.phase, o.state.Proposals[0].Phase)
			_, done = o.at(t, r, c.at+10)
			expect(t, "done then", []string(nil), done)
		})
	}
}

func TestAForgedProposalIsIgnored(t *testing.T) {
	o := newOffice()
	r := o.asks(replicas(2), actions(order("b")))
	o.at(t, r, 0)
	ch := approval.Change{Kind: "VMPool", Object: "worker", Does: approval.OrderMachines, Subject: "small", Count: 9, Price: 100 * pricing.RateOf(pricing.Unit), Made: t0, Until: t0.Add(time.Hour)}
	o.state.Proposals = []approval.Proposal{{ // all but the status, which only we may write
		ProposalRef: approval.ProposalRef{Name: ch.ProposalName()}, Change: ch, Answer: &approval.Answer{Approved: true},
	}}
	_, done := o.at(t, r, 10)
	expect(t, "done", []string{"propose worker-order-", "close Ignored"}, done)
	o.state.Proposals[0].Phase = ""
	o.state.Proposals[0].Answer = nil
	_, done = o.at(t, r, 20)
	expect(t, "done where it is not closed yet", []string{"close Ignored"}, done)
}

func TestARejectionHoldsForItsTime(t *testing.T) {
	o := newOffice()
	r := o.asks(replicas(2), actions(order("b")))
	o.at(t, r, 0)
	o.at(t, r, 10)
	o.answer(false)
	s, _ := o.at(t, r, 20)
	expect(t, "why", approval.CodeApprovalRejected, s.Deferred[0].Code)
	for at := 30; at < 3600; at += 300 {
		if _, done := o.at(t, r, at); done != nil {
			t.Errorf("done at %d: %v", at, done)
		}
	}
	_, done := o.at(t, r, 3620)
	expect(t, "done then", []string{"propose worker-order-"}, done)
	r.Nodes = idle()
	if _, done = o.at(t, r, 2*3600+20); !slices.Contains(done, "remove") {
		t.Errorf("what was rejected long ago stays: %v", done)
	}
}

// With more than was approved, what was approved is done, and people are asked about the rest.
func TestMoreThanWasApproved(t *testing.T) {
	o := newOffice()
	r := o.asks(replicas(5), actions(order("b")))
	o.at(t, r, 0)
	o.at(t, r, 10)
	o.answer(true)
	r.Nodes = actions(order("b"), order("c"))
	s, done := o.at(t, r, 20)
	expect(t, "done", []string{"scale shop/web to 5", "create b", "propose worker-order-"}, done)
	expect(t, "deferred", 1, len(s.Deferred))
}

func TestRulesCoverWhatTheySay(t *testing.T) {
	rate := pricing.DefaultBook().Rate(small, "pve1", t0)
	failed := nodescaler.Action{Kind: nodescaler.Return, Machine: "worker-b", Pool: "worker", Reasons: []nodescaler.Reason{{Code: nodescaler.MachineFailed, Text: "it failed"}}}
	unneeded := failed
	unneeded.Reasons = why
	for _, c := range []struct {
		name     string
		pool     approval.PoolRules
		workload approval.WorkloadRules
		replicas int
		other    nodescaler.Phase // of a machine without a node, if there is one
		plan     nodescaler.Policy
		done     []string
	}{
		{"growth up to 3 of 5", approval.PoolRules{}, approval.WorkloadRules{GrowthUpTo: 3}, 5, "", idle(), []string{"scale shop/web to 3", "propose web-grow-"}},
		{"growth up to 5", approval.PoolRules{}, approval.WorkloadRules{GrowthUpTo: 5}, 5, "", idle(), []string{"scale shop/web to 5"}},
		{"the second machine exceeds", approval.PoolRules{BuysUpTo: 2 * rate}, approval.WorkloadRules{}, 2, "", actions(order("b"), order("c")), []string{"create b", "propose worker-order-"}},
		{"a repair", approval.PoolRules{Repairs: true}, approval.WorkloadRules{}, 2, nodescaler.Failed, actions(failed), []string{"delete worker-b"}},
		{"a failed machine for another reason", approval.PoolRules{Repairs: true}, approval.WorkloadRules{}, 2, nodescaler.Failed, actions(unneeded), []string{"delete worker-b"}},
		{"a spare is no repair", approval.PoolRules{Repairs: true}, approval.WorkloadRules{}, 2, nodescaler.Spare, actions(unneeded), []string{"propose worker-end-"}},
		{"a repair is no order", approval.PoolRules{BuysUpTo: 9 * rate}, approval.WorkloadRules{}, 2, nodescaler.Failed, actions(failed), []string{"propose worker-end-"}},
		{"an end", approval.PoolRules{Ends: true}, approval.WorkloadRules{}, 2, nodescaler.Failed, actions(failed), []string{"delete worker-b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOffice()
			if c.other != "" {
				o.machines.Machines = append(o.machines.Machines, nodescaler.Machine{Name: "worker-b", Order: "z", Pool: "worker", Shape: small, Host: "pve1", Phase: c.other})
			}
			r := o.asks(replicas(c.replicas), c.plan)
			r.Consent = approval.Consent{Pools: map[string]approval.PoolRules{"worker": c.pool}, Workloads: map[string]approval.WorkloadRules{"shop/web": c.workload}}
			o.at(t, r, 0)
			_, done := o.at(t, r, 10)
			expect(t, "done", c.done, done)
		})
	}
}

// The fixed part of a host that carries nothing yet is in the price of the first machine there.
func TestThePriceIsWhatAMachineAdds(t *testing.T) {
	o := newOffice()
	o.hosts(2)
	r := o.asks(replicas(2), actions(on(order("b"), "pve2")))
	book, fixed := pricing.DefaultBook(), 7*pricing.Unit
	book.Hosts = map[string]pricing.HostPrices{"pve2": {PerHost: &fixed}}
	r.Prices = book
	o.at(t, r, 0)
	o.at(t, r, 10)
	expect(t, "price", book.Rate(small, "pve2", t0)+book.HostRate("pve2", t0), o.state.Proposals[0].Price)
	if book.HostRate("pve2", t0) == 0 {
		t.Error("the host costs nothing: the test shows nothing")
	}
}

// The fixed part of a host that begins to carry machines is paid once.
func TestThePriceOfSeveralCountsTheirHostOnce(t *testing.T) {
	o := newOffice()
	o.hosts(2)
	r := o.asks(replicas(2), actions(on(order("b"), "pve2"), on(order("c"), "pve2")))
	book, fixed := pricing.DefaultBook(), 7*pricing.Unit
	book.Hosts = map[string]pricing.HostPrices{"pve2": {PerHost: &fixed}}
	r.Prices = book
	o.at(t, r, 0)
	o.at(t, r, 10)
	expect(t, "price", 2*book.Rate(small, "pve2", t0)+book.HostRate("pve2", t0), o.state.Proposals[0].Price)
	o.answer(true)
	_, done := o.at(t, r, 20)
	expect(t, "done", []string{"create b", "create c"}, done)
}

// A drain that was approved goes on in later steps and processes. One that was not is asked about.
func TestAnApprovedDrainGoesOn(t *testing.T) {
	cordon := nodescaler.Action{Kind: nodescaler.Cordon, Node: "worker-a", Machine: "worker-a", Pool: "worker", Reasons: why}
	evict := nodescaler.Action{Kind: nodescaler.Evict, Pod: "web-1", Node: "worker-a", Machine: "worker-a", Pool: "worker", Reasons: why}
	for _, approved := range []bool{true, false} {
		o := newOffice()
		r := o.asks(replicas(2), actions(cordon))
		o.at(t, r, 0)
		if approved {
			o.at(t, r, 10)
			o.answer(true)
			_, done := o.at(t, r, 20)
			expect(t, "done", []string{"draining worker-a true"}, done)
		}
		o.state.Nodes[0].Draining, o.state.Nodes[0].Cordoned = true, true
		next := o.asks(replicas(2), actions(evict))
		o.at(t, next, 30)
		_, done := o.at(t, next, 40)
		want := []string{"evict web-1"}
		if !approved {
			want = []string{"propose worker-end-"}
		}
		expect(t, "done next", want, done)
	}
}
