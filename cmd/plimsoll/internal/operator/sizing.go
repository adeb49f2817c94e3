package operator

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
)

// Reasons of what is done about requests, besides those of rightsize and those that hold a workload.
const (
	reasonScaledByCPU = "ScaledByCPU" // replicas follow CPU in proportion to its requests, which are left alone then
	reasonOneByOne    = "OneByOne"    // the pod that was last resized is not ready yet
	reasonResized     = "Resized"
	reasonNotResized  = "FailedResize"
)

// refusedFor is how long a pod is left alone of which a resize was refused, so that others come to it.
const refusedFor = 10 * time.Minute

// unseenFor is how long nobody may have looked before the process led: kills since then count.
const unseenFor = 5 * time.Minute

// sizing is what is known of what a workload's containers use. It is kept in memory: whoever leads next
// begins anew, and takes nothing away before he knows a day.
type sizing struct {
	uid        types.UID
	generation int64 // of the object that it was last made for
	usage      *rightsize.Usage
	pods       map[string]bool         // those of the last round
	killed     map[[2]string]time.Time // the last kill that counts, by pod and container
	since      time.Time               // earlier kills may have counted before
	refused    map[string]time.Time    // by pod
	rounds     int

	recommended []rightsize.Recommendation
	status      v1alpha1.RightsizeStatus
	outside     bool // some request is out of bounds
	events      []kube.Event
}

// sized is a pod that may be resized.
type sized struct {
	name  string
	ready bool
	rightsize.Pod
}

// size learns, once a minute, what the containers use of those workloads that ask for it, recommends what
// they should request, and has a pod resized where that is wanted.
func (t *term) size(ctx context.Context, d *desk, pods []nodescaler.Pod) {
	round := d.now.Truncate(time.Minute)
	due := !round.Equal(t.sizedAt)
	t.sizedAt = round
	there := map[string]*sizing{}
	for _, w := range d.workloads {
		if w.sizeMode == "" || w.invalid != nil {
			continue
		}
		s := t.sizings[w.name]
		if s == nil || s.uid != w.object.UID {
			s = newSizing(w.object, d.now)
		}
		there[w.name], w.sizing, s.events = s, s, nil
		if !due && s.generation == w.object.Generation {
			continue
		}
		s.generation = w.object.Generation
		own := t.sizedPods(w, pods)
		if due {
			s.learn(d.now, own, t.containers())
		}
		s.recommend(w)
		s.watch(d.now, own)
		if reason, next := s.next(d.now, w, own); next != nil {
			t.resize(ctx, d.now, w, next)
		} else {
			s.status.Reason = &v1alpha1.Reason{Code: reason.Code, Text: reason.Text}
		}
	}
	t.sizings = there
}

func newSizing(o *v1alpha1.WorkloadAutoscaler, now time.Time) *sizing {
	s := &sizing{uid: o.UID, since: now.Add(-unseenFor), usage: rightsize.New(rightsize.Defaults()), killed: map[[2]string]time.Time{}, refused: map[string]time.Time{}}
	if o.Status.Rightsize != nil {
		s.status.LastResize = o.Status.Rightsize.LastResize
	}
	if last := s.status.LastResize; last != nil && last.Applied && last.Time.After(s.since) && !last.Time.After(now) {
		s.since = last.Time.Time
	}
	return s
}

// counts reports whether a kill for memory is to be counted. A pod's status shows the last one until its container starts
// again, to each process that leads: counted by all of them, each time of what it has been given for it since, one
// kill would have a container grow without end.
func (s *sizing) counts(pod, container string, killed time.Time) bool {
	last := s.status.LastResize
	resized := last != nil && last.Applied && last.Pod == pod && killed.Before(last.Time.Time)
	return !resized && killed.After(s.since) && killed.After(s.killed[[2]string{pod, container}])
}

// containers is what was last measured; without a source, and where nothing was, nothing is known.
func (t *term) containers() map[string][]signals.ContainerUse {
	if t.Containers == nil {
		return nil
	}
	return t.Containers()
}

// sizedPods are the pods of a workload that are there to stay, by name.
func (t *term) sizedPods(w *workload, pods []nodescaler.Pod) []sized {
	var all []sized
	for i := range pods {
		p := &pods[i]
		if p.Workload != w.name || p.Terminating {
			continue
		}
		if size, ok := t.Cluster.Size(p.Name); ok {
			all = append(all, sized{p.Name, p.Ready, size})
		}
	}
	slices.SortFunc(all, func(a, b sized) int { return strings.Compare(a.name, b.name) })
	return all
}

// learn takes what was measured, and kills for memory.
func (s *sizing) learn(now time.Time, pods []sized, uses map[string][]signals.ContainerUse) {
	s.rounds++
	there := map[string]bool{}
	for _, p := range pods {
		there[p.name] = true
		for _, c := range p.Containers {
			if s.counts(p.name, c.Name, c.OOMEnded) {
				s.killed[[2]string{p.name, c.Name}] = c.OOMEnded
				s.usage.OOM(p.name, c.Name, c.OOMEnded, request(c).Memory)
			}
			i := slices.IndexFunc(uses[p.name], func(u signals.ContainerUse) bool { return u.Name == c.Name })
			if i < 0 {
				continue
			}
			if cpu := uses[p.name][i].CPU; cpu.Known {
				s.usage.AddCPU(p.name, c.Name, cpu.At.Add(-cpu.Span), pricing.MilliCPU(math.Ceil(cpu.Value*1000-1e-9)))
			}
			if memory := uses[p.name][i].Memory; memory.Known {
				s.usage.AddMemory(p.name, c.Name, memory.At, pricing.Bytes(memory.Value))
			}
		}
	}
	s.forget(now, there)
}

// forget drops what is known of pods that are gone. What they used still counts.
func (s *sizing) forget(now time.Time, there map[string]bool) {
	for pod := range s.pods {
		if !there[pod] {
			s.usage.Gone(pod)
		}
	}
	s.pods = there
	maps.DeleteFunc(s.killed, func(at [2]string, _ time.Time) bool { return !there[at[0]] })
	for pod, at := range s.refused {
		if !there[pod] || now.Sub(at) >= refusedFor {
			delete(s.refused, pod)
		}
	}
	s.usage.Forget(now)
}

// request is what a container requests; without a request, Kubernetes takes the limit for it.
func request(c rightsize.Container) pricing.Resources {
	r := c.Requests
	if r.CPU == 0 {
		r.CPU = c.Limits.CPU
	}
	if r.Memory == 0 {
		r.Memory = c.Limits.Memory
	}
	return r
}

// recommend works out what the containers should request.
func (s *sizing) recommend(w *workload) {
	s.recommended = s.usage.Recommend(w.sizes)
	for i := range s.recommended {
		rec := &s.recommended[i]
		if rec.Has(rightsize.CPU) && w.sizeMode == rightsize.InPlace && scaledByRequests(w.policy) {
			rec.Reasons = append(rec.Reasons, rightsize.Reason{Code: reasonScaledByCPU, Text: fmt.Sprintf(
				"cpu: policy %s scales replicas by use in proportion to requests, each of which would change what the other goes by: it is shown and left as it is", w.policy.Policy)})
		}
	}
	s.status.Containers = recommendations(s.recommended)
}

// scaledByRequests reports whether replicas follow CPU as a part of what is requested. Of a policy that
// is not known here it is taken for granted.
func scaledByRequests(p podpolicy.Spec) bool {
	switch p.Policy {
	case "SLOCost", "Joint": // which goes by the cores that pods use, once it has seen some
		return false
	case "FastSlow":
		return p.FastSlow == nil || p.FastSlow.Metric == ""
	case "Watermark": // whose marks of CPU may be absolute, and need not be
		return p.Watermark == nil || len(p.Watermark.Metrics) == 0 ||
			slices.ContainsFunc(p.Watermark.Metrics, func(m podpolicy.WatermarkMetric) bool { return m.Type == podpolicy.Resource })
	case "Predictive": // which goes by CPU where nothing is forecast, and may learn what fits into a request
		c := p.Predictive
		return c == nil || c.CPU.AverageValue == 0 ||
			c.Profile.Linear == nil && c.Profile.Quadratic == nil && c.Profile.Table == nil && (c.Profile.Learned == nil || c.Profile.Learned.CPU == 0)
	case "HPA":
		return p.HPA == nil || len(p.HPA.Metrics) == 0 ||
			slices.ContainsFunc(p.HPA.Metrics, func(m podpolicy.Metric) bool { return m.AverageUtilization > 0 })
	}
	return true
}

// carried are the recommendations that may be carried out for a pod.
func (s *sizing) carried(pod *rightsize.Pod) []rightsize.Recommendation {
	all := slices.Clone(s.recommended)
	for i := range all {
		if slices.ContainsFunc(all[i].Reasons, func(r rightsize.Reason) bool { return r.Code == reasonScaledByCPU }) {
			all[i].Resources = slices.DeleteFunc(slices.Clone(all[i].Resources), func(r rightsize.Resource) bool { return r == rightsize.CPU })
		}
	}
	return rightsize.Upward(all, pod)
}

// watch tells when requests leave the bounds, and when they are back.
func (s *sizing) watch(now time.Time, pods []sized) {
	text := ""
	for i := range pods {
		d := rightsize.Decide(now, rightsize.InPlace, s.recommended, &pods[i].Pod)
		if r := reasonOf(d.Reasons, rightsize.ReasonOutsideBounds); r != nil && text == "" {
			text = fmt.Sprintf("pod %s: %s", pods[i].name, r.Text)
		}
	}
	is := text != ""
	e := kube.Event{About: "Rightsize", Key: rightsize.ReasonOutsideBounds, Warning: true, Reason: rightsize.ReasonOutsideBounds, Note: text}
	if !is {
		e.Warning, e.Key, e.Reason, e.Note = false, rightsize.ReasonWithinBounds, rightsize.ReasonWithinBounds, "all requests are within what is recommended"
	}
	if is != s.outside {
		s.events = append(s.events, e)
	}
	s.outside = is
}

func reasonOf(all []rightsize.Reason, code string) *rightsize.Reason {
	i := slices.IndexFunc(all, func(r rightsize.Reason) bool { return r.Code == code })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// order is a pod's resize that is to be asked for.
type order struct {
	pod      string
	decision rightsize.Decision
}

// next is the one pod to be resized now, or why none is.
func (s *sizing) next(now time.Time, w *workload, pods []sized) (nodescaler.Reason, *order) {
	if held := w.holdSizing(s); held != nil {
		return *held, nil
	}
	if i := slices.IndexFunc(pods, func(p sized) bool { return p.Resize == rightsize.ResizePending }); i >= 0 {
		return *because(rightsize.ReasonResizePending, "pod %s: its last resize is not done yet, and they are resized one by one", pods[i].name), nil
	}
	unready, why := s.unready(pods), excuse{*because(rightsize.ReasonNoRecommendation, "no pod of it runs"), math.MaxInt}
	for i := range pods {
		p := &pods[i]
		if !p.Running {
			continue
		}
		d := rightsize.Decide(now, rightsize.InPlace, s.carried(&p.Pod), &p.Pod)
		first, failed := d.Reasons[0], !s.refused[p.name].IsZero()
		switch {
		case d.Action != rightsize.Resize:
		case failed:
			first = rightsize.Reason{Code: reasonNotResized, Text: "it was refused, and is not asked for again for " + pricing.Short(refusedFor)}
		case unready != "" && unready != p.name:
			first = rightsize.Reason{Code: reasonOneByOne, Text: fmt.Sprintf("it waits for pod %s, which was resized before and is not ready", unready)}
		default:
			return nodescaler.Reason{}, &order{p.name, d}
		}
		why.take(p.name, first)
	}
	return why.Reason, nil
}

// unready is the pod that was resized last, if it is not ready: it may need more, and no second one must
// come to be as it is.
func (s *sizing) unready(pods []sized) string {
	last := s.status.LastResize
	if last == nil || !slices.ContainsFunc(pods, func(p sized) bool { return p.name == last.Pod && !p.ready }) {
		return ""
	}
	return last.Pod
}

// excuse is the most important reason why pods are not resized.
type excuse struct {
	nodescaler.Reason
	rank int
}

func (e *excuse) take(pod string, r rightsize.Reason) {
	rank := slices.Index(tellFirst, r.Code)
	if rank < 0 {
		rank = len(tellFirst)
	}
	if rank < e.rank {
		*e = excuse{*because(r.Code, "pod %s: %s", pod, r.Text), rank}
	}
}

// tellFirst are the reasons why a pod is not resized that count above others.
var tellFirst = []string{
	reasonNotResized, rightsize.ReasonResizeInfeasible, reasonOneByOne, rightsize.ReasonQoSFixed, rightsize.ReasonNoRecommendation, rightsize.ReasonWithinBounds,
}

// holdSizing says why nothing is resized, or nil.
func (w *workload) holdSizing(s *sizing) *nodescaler.Reason {
	switch {
	case w.sizeMode != rightsize.InPlace:
		return because(rightsize.ReasonModeOff, "recommendations are shown and not carried out")
	case w.held != nil:
		return w.held
	case w.pause.on:
		return because(v1alpha1.ReasonPaused, "%s", w.pause.text)
	case w.target.Sized != nil:
		return because(w.target.Sized.Code, "%s", w.target.Sized.Text)
	case w.target.Rollout.InProgress:
		return because(podscaler.ReasonRollout, "its pods are being replaced: %s", w.target.Rollout.Why)
	case s.rounds < 2: // the first sight is only looked at
		return because(reasonStarting, "its pods have been seen for less than a minute")
	}
	return nil
}

// resize asks for a pod to be resized, and notes what came of it.
func (t *term) resize(ctx context.Context, now time.Time, w *workload, o *order) {
	s := w.sizing
	err := t.Cluster.Resize(ctx, w.name, o.pod, o.decision.Changes)
	t.Metrics.resized(err)
	last := &v1alpha1.PodResize{Pod: o.pod, Time: metav1.NewTime(now), Applied: err == nil, Reasons: sizeReasons(o.decision.Reasons)}
	what := fmt.Sprintf("pod %s: %s; %s", o.pod, o.decision.Reasons[0].Text, changesText(o.decision.Changes))
	e := kube.Event{About: reasonResized, Key: o.pod + " " + now.UTC().Format(time.RFC3339), Action: "Resize", Reason: reasonResized, Note: what}
	if err != nil {
		s.refused[o.pod] = now
		last.Reasons = append(last.Reasons, v1alpha1.Reason{Code: reasonNotResized, Text: err.Error()})
		e.Warning, e.Reason, e.Note = true, reasonNotResized, what+": "+err.Error()
	}
	s.events = append(s.events, e)
	s.status.LastResize = last
	s.status.Reason = &v1alpha1.Reason{Code: e.Reason, Text: e.Note}
}

func changesText(all []rightsize.Change) string {
	var words []string
	for _, c := range all {
		words = append(words, fmt.Sprintf("container %s is to request %s and %s", c.Container, c.Requests.CPU, quantity(rightsize.Memory, c.Requests)))
	}
	return strings.Join(words, "; ")
}
