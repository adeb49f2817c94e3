package loop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// ErrBudget is what Cluster.Evict answers when disruption budgets do not allow it now. It is
// an ordinary outcome: the next step asks again.
var ErrBudget = errors.New("disruption budget used up")

// ErrRefused is what Machines.Create wraps when the order was surely not taken. Any other error
// leaves that open, and the order counts as a machine until it is listed or given up.
var ErrRefused = errors.New("order refused")

// ErrPoolRefused is ErrRefused where the pool takes no order now, of any shape on any host.
var ErrPoolRefused = fmt.Errorf("%w by its pool", ErrRefused)

// ErrUnseen is ErrRefused where no order is taken because the machines cannot be seen now.
var ErrUnseen = fmt.Errorf("%w while the machines cannot be seen", ErrRefused)

// Act carries a step out, in order, and records what came of each part. After a failure with a
// node or machine, the rest of the plan for it is left to the next step; that of one pod holds up
// no other.
func (p *Ports) Act(ctx context.Context, step *Step) {
	// What is expected beyond the replicas is made known before they change: whoever looks between
	// the two writes would order for both.
	p.expect(ctx, step.Expected)
	not := p.claim(ctx, step)
	p.rescale(ctx, step, not.scales)
	p.carryOut(ctx, step, not.actions)
	p.resize(ctx, step, not.resizes)
	p.consult(ctx, step)
}

// rescale writes replicas, and notes what came of it in the workloads' order.
func (p *Ports) rescale(ctx context.Context, step *Step, not map[string]string) {
	type written struct{ marked, err error }
	var due []*WorkloadStep
	for i := range step.Workloads {
		if ws := &step.Workloads[i]; ws.Decision != nil && ws.Decision.To != ws.Decision.From && ws.Held == nil {
			due = append(due, ws)
		}
	}
	all := make([]written, len(due))
	p.each(len(due), func(i int) {
		if _, lost := not[due[i].Workload]; !lost {
			all[i].marked, all[i].err = p.scale(ctx, due[i])
		}
	})
	for i, ws := range due {
		o := Outcome{Action: -1, Workload: ws.Decision.Workload, Error: not[ws.Workload]}
		if all[i].marked != nil {
			step.problem(CodePodsNotMarked, all[i].marked.Error())
		}
		if all[i].err != nil {
			o.Error = all[i].err.Error()
		}
		step.Outcomes = append(step.Outcomes, o)
	}
}

// each does something n times, as many at once as the cluster takes.
func (p *Ports) each(n int, do func(int)) {
	c, can := p.Cluster.(Parallel)
	if !can {
		for i := range n {
			do(i)
		}
		return
	}
	var parts sync.WaitGroup
	places := make(chan struct{}, c.AtOnce())
	for i := range n {
		places <- struct{}{}
		parts.Go(func() {
			do(i)
			<-places
		})
	}
	parts.Wait()
}

// carryOut does what the plan says, but for what is not to be done.
func (p *Ports) carryOut(ctx context.Context, step *Step, not map[int]nodescaler.Reason) {
	failed := map[string]bool{}
	for i := range step.Plan.Actions {
		if ctx.Err() != nil {
			return
		}
		a := &step.Plan.Actions[i]
		why, later := step.Deferred[i]
		if lost, is := not[i]; is {
			why, later = lost, true
		}
		if later {
			step.Outcomes = append(step.Outcomes, Outcome{Action: i, Held: &why})
			continue
		}
		if a.Node != "" && failed[a.Node] {
			continue
		}
		o := Outcome{Action: i}
		if err := p.do(ctx, step, a); err != nil {
			o.Error, o.Refused = err.Error(), refusal(err)
			// What refuses one pod, such as a webhook, may let the others go.
			if a.Node != "" && a.Kind != nodescaler.Evict && a.Kind != nodescaler.DeletePod {
				failed[a.Node] = true
			}
		}
		step.Outcomes = append(step.Outcomes, o)
	}
}

func refusal(err error) Refusal {
	switch {
	case errors.Is(err, ErrPoolRefused):
		return PoolRefused
	case errors.Is(err, ErrRefused):
		return OrderRefused
	}
	return ""
}

// scale writes the replicas of a decision. Before a workload shrinks, its pods are marked that are
// to go first. A failure of that is a problem of the step, and holds nothing up.
func (p *Ports) scale(ctx context.Context, ws *WorkloadStep) (marked, err error) {
	if c, can := p.Cluster.(Chooser); can && ws.Leaving != nil {
		marked = c.Choose(ctx, ws.Workload, ws.Leaving)
	}
	return marked, p.Cluster.SetReplicas(ctx, ws.Workload, ws.Decision.To)
}

func (p *Ports) do(ctx context.Context, step *Step, a *nodescaler.Action) error {
	switch a.Kind {
	case nodescaler.Buy:
		if err := p.Machines.Create(ctx, Order{ID: a.Order, Action: *a, At: step.Time}); err != nil {
			return fmt.Errorf("order %s: %w", a.Order, err)
		}
		return nil
	case nodescaler.Cordon, nodescaler.Uncordon:
		return p.Cluster.SetDraining(ctx, a.Node, a.Kind == nodescaler.Cordon)
	case nodescaler.Evict:
		return p.Cluster.Evict(ctx, a.Pod)
	case nodescaler.DeletePod:
		return p.deletePod(ctx, a)
	case nodescaler.Return:
		return p.Machines.Delete(ctx, a.Machine)
	case nodescaler.Stash, nodescaler.Wake:
		return p.keep(ctx, a)
	case nodescaler.Reboot:
		r, can := p.Machines.(Rebooter)
		if !can {
			return errors.New("machines cannot be rebooted here")
		}
		return r.Reboot(ctx, a.Machine)
	}
	return fmt.Errorf("unknown action %q", a.Kind)
}

// deletePod deletes a pod whose drain is at its end.
func (p *Ports) deletePod(ctx context.Context, a *nodescaler.Action) error {
	d, can := p.Cluster.(PodDeleter)
	if !can {
		return errors.New("pods cannot be deleted here")
	}
	return d.DeletePod(ctx, a.Pod, time.Duration(a.Grace))
}

// keep stops a machine that was emptied, or starts one and lets its node take pods again. The node
// of a spare stays closed from its drain on; where it could not be opened, the policy finds it
// closed and takes that back.
func (p *Ports) keep(ctx context.Context, a *nodescaler.Action) error {
	k, can := p.Machines.(Keeper)
	switch {
	case !can:
		return errors.New("machines cannot be kept as spares here")
	case a.Kind == nodescaler.Stash:
		return k.Stash(ctx, a.Machine)
	}
	if err := k.Wake(ctx, a.Machine); err != nil || a.Node == "" {
		return err
	}
	return p.Cluster.SetDraining(ctx, a.Node, false)
}
