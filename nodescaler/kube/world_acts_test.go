package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

func (w *world) context() context.Context { return context.Background() }

// work is what a process does while it leads: it looks, and writes by chance.
func (p *process) work(ctx context.Context) {
	p.note("%s leads", p.name)
	for ctx.Err() == nil {
		if time.Since(p.began) < worldEnds {
			p.step(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(1+p.rng.IntN(6)) * time.Second):
		}
	}
	p.note("%s leads no more", p.name)
}

// act is one write: what it is, how it is done, and how it shows that it was.
type act struct {
	what, kind, key string
	do              func(context.Context) error
	// shows is asked about nil if the object is not there.
	shows func(raw map[string]any) bool
	// trusts is how long it takes for granted that it still shows.
	trusts time.Duration
	// uid is of the object that is meant, and replicas those that it had when it was observed; both
	// may be unknown.
	uid      types.UID
	replicas *int
}

func (p *process) step(ctx context.Context) {
	state, err := p.port().Observe(ctx)
	if p.count("observe", err == nil); err != nil {
		return
	}
	for range 1 + p.rng.IntN(3) {
		if a := p.draw(&state); a.do != nil {
			p.does(ctx, a)
		}
	}
}

func (p *process) does(ctx context.Context, a act) {
	began := time.Now()
	err := a.do(ctx)
	p.count(a.what, result(err))
	p.judge(a, began, err)
	if err != nil {
		return
	}
	if p.acted = time.Now(); !p.world.was(a, began.Add(-a.trusts)) {
		p.fault("%s: %s %s succeeded, and does not show", p.name, a.what, a.key)
	}
}

// judge checks what an act did to the objects, also where it failed.
func (p *process) judge(a act, began time.Time, err error) {
	refused := false
	for _, call := range slices.Backward(p.client.Calls()) {
		if call.Done.Before(began) {
			break
		}
		if call.Kind != a.kind || call.Key != a.key {
			continue
		}
		refused = refused || call.Code == http.StatusTooManyRequests
		if call.Code >= http.StatusBadRequest || call.Was == nil {
			continue
		}
		if uid := metadata(call.Was)["uid"]; a.uid != "" && uid != string(a.uid) {
			p.fault("%s: %s %s was done to %v, and %s was meant", p.name, a.what, a.key, uid, a.uid)
		}
		if is := spec(call.Was)["replicas"]; a.replicas != nil && is != int64(*a.replicas) {
			p.fault("%s: %s %s was done to %v replicas, and %d were observed", p.name, a.what, a.key, is, *a.replicas)
		}
	}
	if errors.Is(err, loop.ErrBudget) && !refused {
		p.fault("%s: %s %s: no budget refused it: %v", p.name, a.what, a.key, err)
	}
}

// result is what kind of an error it is.
func result(err error) string {
	for _, c := range []struct {
		is   error
		name string
	}{{loop.ErrBudget, "budget"}, {ErrChanged, "changed"}, {ErrConflicted, "conflicted"}, {ErrNotLeader, "not leader"}, {context.DeadlineExceeded, "late"}, {context.Canceled, "ended"}} {
		if errors.Is(err, c.is) {
			return c.name
		}
	}
	if err != nil {
		return "failed"
	}
	return "done"
}

// was reports whether what an act does was so at some time since it began.
func (w *world) was(a act, began time.Time) bool {
	var raw map[string]any
	history := w.server.History(a.kind)
	for i := range history {
		c := &history[i]
		if c.Key != a.key {
			continue
		}
		if !c.At.Before(began) && a.shows(raw) {
			return true
		}
		raw = c.Object()
		if c.Type == "DELETED" {
			raw = nil
		}
	}
	return a.shows(raw)
}

// draw draws one write, and the zero value where there is nothing to write to.
func (p *process) draw(state *loop.ClusterState) act {
	c, app := p.port(), fmt.Sprintf("web%d", p.rng.IntN(len(services)))
	switch p.rng.IntN(8) {
	case 0:
		n, seen := p.rng.IntN(7), state.Replicas["shop/"+app]
		return act{
			what: "scale", kind: "deployments.apps", key: "shop/" + app, replicas: &seen, do: func(ctx context.Context) error { return c.SetReplicas(ctx, "shop/"+app, n) },
			shows: func(raw map[string]any) bool { return spec(raw)["replicas"] == int64(n) },
		}
	case 1, 2:
		return p.drawNode(state)
	case 3, 4:
		return p.drawPod(state)
	case 5:
		n := int32(p.rng.IntN(100))
		wla, ok := copies.One[*v1alpha1.WorkloadAutoscaler](c.copies, copies.Autoscalers, "shop/"+app)
		if !ok {
			return act{}
		}
		wla = wla.DeepCopy()
		wla.Status.DesiredReplicas = &n
		return act{what: "status", kind: "workloadautoscalers.plimsoll.dev", key: "shop/" + app, do: func(ctx context.Context) error { return c.SetStatus(ctx, wla) }, shows: always}
	case 6:
		n := p.rng.IntN(3)
		return act{
			what: "expect", kind: "deployments.apps", key: "shop/" + ExpectName(app), do: func(ctx context.Context) error { return c.Expect(ctx, "shop/"+app, n) },
			shows: func(raw map[string]any) bool { return spec(raw)["replicas"] == int64(n) || raw == nil && n == 0 }, trusts: expectAge,
		}
	default:
		wla, ok := copies.One[*v1alpha1.WorkloadAutoscaler](c.copies, copies.Autoscalers, "shop/"+app)
		if ok {
			c.About(wla, Event{About: "x", Key: fmt.Sprint(p.rng.Uint64()), Reason: "X", Note: "x"})
		}
		return act{}
	}
}

func always(map[string]any) bool { return true }

func (p *process) drawNode(state *loop.ClusterState) act {
	if len(state.Nodes) == 0 {
		return act{}
	}
	c, n := p.port(), state.Nodes[p.rng.IntN(len(state.Nodes))]
	uid := c.observed.Load().Nodes[n.Name]
	if p.rng.IntN(10) == 0 && len(state.Nodes) > 3 {
		return act{
			what: "remove node", kind: "nodes", key: n.Name, uid: uid, do: func(ctx context.Context) error { return c.RemoveNode(ctx, n.Name) },
			shows: func(raw map[string]any) bool { return metadata(raw)["uid"] != string(uid) },
		}
	}
	to := p.rng.IntN(3) == 0
	return act{
		what: fmt.Sprintf("drain %v", to), kind: "nodes", key: n.Name, uid: uid, do: func(ctx context.Context) error { return c.SetDraining(ctx, n.Name, to) },
		shows: func(raw map[string]any) bool {
			all, _ := metadata(raw)["annotations"].(map[string]any)
			return (all[kept.AnnotationDraining] != nil) == to && (!to || spec(raw)["unschedulable"] == true)
		},
	}
}

func (p *process) drawPod(state *loop.ClusterState) act {
	if len(state.Pods) == 0 {
		return act{}
	}
	c, is := p.port(), state.Pods[p.rng.IntN(len(state.Pods))]
	seen, ok := c.observed.Load().Pod(is.Name)
	if !ok {
		return act{}
	}
	another := func(raw map[string]any) bool { return metadata(raw)["uid"] != string(seen.UID) }
	switch p.rng.IntN(4) {
	case 0:
		return act{
			what: "choose", kind: "pods", key: is.Name, uid: seen.UID, trusts: time.Since(p.oldest(time.Now())), do: func(ctx context.Context) error { return c.Choose(ctx, is.Workload, []string{is.Name}) },
			shows: func(raw map[string]any) bool {
				all, _ := metadata(raw)["annotations"].(map[string]any)
				// That it lacks the right is logged, and no error.
				lacks := !c.unmarked.tries("shop", time.Now())
				return lacks || another(raw) || leaves(raw) || all["controller.kubernetes.io/pod-deletion-cost"] == kept.DeletionCost
			},
		}
	case 1:
		cpu := pricing.MilliCPU(100 + p.rng.IntN(100))
		change := []rightsize.Change{{Container: "c", Requests: pricing.Resources{CPU: cpu}}}
		return act{
			what: "resize", kind: "pods", key: is.Name, uid: seen.UID, do: func(ctx context.Context) error { return c.Resize(ctx, is.Workload, is.Name, change) },
			shows: func(raw map[string]any) bool { return fmt.Sprint(spec(raw)["containers"]) != "" && hasCPU(raw, cpu) },
		}
	}
	return act{
		what: "evict", kind: "pods", key: is.Name, uid: seen.UID, do: func(ctx context.Context) error { return c.Evict(ctx, is.Name) },
		shows: func(raw map[string]any) bool { return another(raw) || leaves(raw) },
	}
}

func hasCPU(raw map[string]any, cpu pricing.MilliCPU) bool {
	all, _ := spec(raw)["containers"].([]any)
	for _, v := range all {
		c, _ := v.(map[string]any)
		r, _ := c["resources"].(map[string]any)
		requests, _ := r["requests"].(map[string]any)
		if requests["cpu"] == fmt.Sprintf("%dm", cpu) {
			return true
		}
	}
	return false
}
