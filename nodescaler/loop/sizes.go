package loop

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
)

// Resizer is a Cluster whose pods can get other requests while they run.
type Resizer interface {
	// Size is what sizing a pod goes by, as it was last observed.
	Size(pod string) (rightsize.Pod, bool)
	// Resize asks for other requests and limits of a pod's containers.
	Resize(ctx context.Context, workload, pod string, changes []rightsize.Change) error
	// Recreate evicts a pod that its node has no room to resize.
	Recreate(ctx context.Context, workload, pod string) error
}

// sizesEvery is how often it is learnt what containers use, and a pod of each workload may be
// resized.
const sizesEvery = time.Minute

// round reports whether a moment is in another round of sizing than the last one.
func (m *Memory) round(now time.Time) bool { return !now.Truncate(sizesEvery).Equal(m.sized) }

// sizing reports whether a workload's sizes are looked at in a step.
func (m *Memory) sizing(w *Workload, now time.Time) bool {
	if w.Sizes == nil {
		return false
	}
	s := m.sizers[w.Name]
	return m.round(now) || s == nil || !s.Of(w.Sizes) || s.Changed(w.Sizes)
}

// weigh reads what the sizes of pods are decided by, of the workloads of which they are now. With
// one that shares its nodes, it is read of all that do.
func (p *Ports) weigh(o *Observation, in *Intent, m *Memory) {
	r, can := p.Cluster.(Resizer)
	if !can {
		return
	}
	now, shared := map[string]bool{}, false
	for i := range in.Workloads {
		if w := &in.Workloads[i]; m.sizing(w, o.Time) {
			now[w.Name], shared = true, shared || w.shares()
		}
	}
	for i := range in.Workloads {
		if w := &in.Workloads[i]; shared && w.shares() {
			now[w.Name] = true
		}
	}
	if len(now) == 0 {
		return
	}
	o.Sizes = map[string]rightsize.Pod{}
	for i := range o.Cluster.Pods {
		pod := &o.Cluster.Pods[i]
		if !now[pod.Workload] || pod.Terminating {
			continue
		}
		if size, known := r.Size(pod.Name); known {
			o.Sizes[pod.Name] = size
		}
	}
	if p.Uses != nil {
		o.Uses = p.Uses()
	}
}

// shares reports whether the workload's containers share their nodes as limits.
func (w *Workload) shares() bool { return w.Sizes != nil && w.Sizes.Limits != "" }

// shared are the nodes that containers share, by name: those on which the sizes of pods were read
// of a workload that wants that. All other pods, and those that leave, have what they request.
func (d *decider) shared() map[string]*rightsize.Shared {
	all := map[string]*rightsize.Shared{}
	wants := map[string]*rightsize.Wants{}
	for i := range d.in.Workloads {
		if w := &d.in.Workloads[i]; w.shares() {
			wants[w.Name] = d.wants(w)
		}
	}
	share := func(p *nodescaler.Pod) bool {
		_, known := d.o.Sizes[p.Name]
		return known && p.Node != "" && wants[p.Workload] != nil
	}
	for i := range d.x.Nodes {
		n := &d.x.Nodes[i]
		if len(wants) == 0 || !slices.ContainsFunc(n.Pods, share) {
			continue
		}
		s := rightsize.NewShared(n.Name, n.Allocatable)
		for _, p := range n.Pods {
			if size := d.o.Sizes[p.Name]; share(p) {
				s.Add(p.Name, p.Requests, &size, wants[p.Workload])
			} else {
				s.SetAside(p.Requests)
			}
		}
		all[n.Name] = s
	}
	return all
}

// sizes decides on the requests of pods, and on their limits where nodes are shared.
func (d *decider) sizes() {
	round, was, nodes := d.round(d.snap.Now), d.sizers, d.shared()
	d.sized, d.sizers = d.snap.Now.Truncate(sizesEvery), map[string]*rightsize.Sizer{}
	steps := make(map[string]*WorkloadStep, len(d.step.Workloads))
	for i := range d.step.Workloads {
		steps[d.step.Workloads[i].Workload] = &d.step.Workloads[i]
	}
	for i := range d.in.Workloads {
		w := &d.in.Workloads[i]
		ws := steps[w.Name]
		if w.Sizes == nil || ws == nil {
			continue
		}
		s := was[w.Name]
		if s == nil || !s.Of(w.Sizes) {
			s = rightsize.NewSizer(w.Sizes, d.snap.Now)
		}
		d.sizers[w.Name] = s
		if !round && !s.Changed(w.Sizes) {
			says := s.Says()
			ws.Sizing = &says
			continue
		}
		pods := d.candidates(w, nodes)
		if round {
			s.Learn(d.snap.Now, pods, d.o.Uses)
		}
		says, resize := s.Decide(d.snap.Now, d.wants(w), pods)
		ws.Sizing, ws.Resize = &says, d.consult.Resize(w.Name, resize)
		if r := ws.Resize; r != nil {
			for _, n := range nodes { // the pod is on one of them
				n.Took(r.Pod, r.Changes)
			}
		}
	}
}

// wants are a workload's wishes, and whether anything else holds them now.
func (d *decider) wants(w *Workload) *rightsize.Wants {
	wants := *w.Sizes
	wants.Replicas = d.o.Cluster.Replicas[w.Name]
	switch rollout := d.o.Cluster.Rollouts[w.Name]; {
	case wants.Held != nil:
	case w.Held != nil:
		wants.Held = w.Held
	case rollout.InProgress:
		why := podscaler.Because(podscaler.ReasonRollout, "its pods are being replaced: %s", rollout.Why)
		wants.Held = &why
	}
	return &wants
}

// candidates are the pods of a workload that stay, by name: the size of no other was read.
func (d *decider) candidates(w *Workload, nodes map[string]*rightsize.Shared) (all []rightsize.Candidate) {
	used := slices.ContainsFunc(d.snap.Budgets, func(b nodescaler.Budget) bool { return b.Workload == w.Name && b.Allowed <= 0 })
	for _, i := range d.byWorkload[w.Name] {
		p := &d.snap.Pods[i]
		if size, known := d.o.Sizes[p.Name]; known {
			c := rightsize.Candidate{Name: p.Name, Ready: p.Ready, Pinned: p.Pinned, Uses: d.o.Uses[p.Name], Pod: size}
			if w.shares() {
				c.Node = nodes[p.Node]
			}
			if used {
				c.Pinned = cmp.Or(c.Pinned, "a disruption budget allows no eviction now")
			}
			all = append(all, c)
		}
	}
	return all
}

// resize asks for the resizes of a step.
func (p *Ports) resize(ctx context.Context, step *Step, not map[string]string) {
	for i := range step.Workloads {
		ws := &step.Workloads[i]
		if ws.Resize == nil {
			continue
		}
		o := Outcome{Action: -1, Workload: ws.Workload, Pod: ws.Resize.Pod}
		err := errors.New("pods cannot be resized here")
		if why, lost := not[ws.Workload]; lost {
			err = errors.New(why)
		} else if r, can := p.Cluster.(Resizer); can && ws.Resize.Evict {
			err = r.Recreate(ctx, ws.Workload, ws.Resize.Pod)
		} else if can {
			err = r.Resize(ctx, ws.Workload, ws.Resize.Pod, ws.Resize.Changes)
		}
		if err != nil {
			o.Error = err.Error()
		}
		step.Outcomes = append(step.Outcomes, o)
	}
}

// Resized is what came of the resize of one of a workload's pods in this step, or nil if none was
// asked for.
func (s *Step) Resized(ws *WorkloadStep) *rightsize.Resized {
	for i := range s.Outcomes {
		if o := &s.Outcomes[i]; ws.Resize != nil && o.Workload == ws.Workload && o.Pod != "" {
			done := ws.Resize.Done(s.Time, o.Error)
			return &done
		}
	}
	return nil
}
