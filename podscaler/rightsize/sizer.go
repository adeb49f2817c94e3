package rightsize

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Wants is what people want of the requests of a workload's pods.
type Wants struct {
	// Of identifies the object that says so: what was learnt for another one does not count.
	Of       string
	Mode     Mode
	Policies Policies
	// KeepCPU and KeepMemory are why requests of the one or the other are recommended and not
	// changed, or nil.
	KeepCPU, KeepMemory *Reason
	// Held is why no pod is resized, or nil.
	Held *Reason
	// Last is the last resize on record. A new Sizer goes by it.
	Last *Resized
}

// kept is why requests of a resource are recommended and not changed, or nil.
func (w *Wants) kept(r Resource) *Reason {
	if r == CPU {
		return w.KeepCPU
	}
	return w.KeepMemory
}

// rules are what recommendations follow from.
func (w Wants) rules() Wants {
	w.Held, w.Last = nil, nil
	return w
}

// Candidate is a pod that may be resized.
type Candidate struct {
	Name  string
	Ready bool
	Pod
}

// Order is a pod that is to be resized.
type Order struct {
	Pod     string   `json:"pod"`
	Changes []Change `json:"changes"`
	Reasons []Reason `json:"reasons"`
}

// Resized is what came of an order.
type Resized struct {
	Pod     string
	At      time.Time
	Applied bool
	Reasons []Reason
	// Outcome says it in one sentence. It is empty if the resize was only found on record.
	Outcome Reason
}

// Done is what came of an order at a time; the error is empty if the pod was resized.
func (o *Order) Done(at time.Time, err string) Resized {
	r := Resized{Pod: o.Pod, At: at, Applied: err == "", Reasons: o.Reasons}
	var changes []string
	for _, c := range o.Changes {
		changes = append(changes, c.String())
	}
	r.Outcome = because(ReasonResized, "pod %s: %s; %s", o.Pod, o.Reasons[0].Text, strings.Join(changes, "; "))
	if err != "" {
		r.Outcome.Code, r.Outcome.Text = ReasonFailedResize, r.Outcome.Text+": "+err
		r.Reasons = append(slices.Clip(r.Reasons), because(ReasonFailedResize, "%s", err))
	}
	return r
}

// String prints what the container is to request.
func (c Change) String() string {
	return fmt.Sprintf("container %s is to request %s and %s", c.Container, CPU.text(int64(c.Requests.CPU)), Memory.text(int64(c.Requests.Memory)))
}

// Sizing is what a Sizer has to say of a workload's pods.
type Sizing struct {
	Recommended []Recommendation
	// Reason is why no pod is resized now, or why one is.
	Reason Reason
	Last   *Resized
	// Outside is a request that is out of bounds, and Turned says that there is one, or none any
	// more, since that look.
	Outside string
	Turned  bool
}

// A Sizer resizes the pods of a workload, one after another. It learns what their containers use.
// What it knows is safe to forget: a new one takes nothing away before it knows a day.
type Sizer struct {
	wants   Wants // its rules
	usage   *Usage
	pods    map[string]bool         // those of the last round
	killed  map[[2]string]time.Time // the last kill that counts, by pod and container
	since   time.Time               // earlier kills may have counted before
	refused map[string]time.Time    // by pod
	rounds  int
	says    Sizing
}

// refusedFor is how long a pod of which a resize was refused is left alone, so that others have
// their turn.
const refusedFor = 10 * time.Minute

// unseenFor is for how long before the first look kills count, as no Sizer may have seen them.
const unseenFor = 5 * time.Minute

// NewSizer returns a Sizer that knows no use.
func NewSizer(w *Wants, now time.Time) *Sizer {
	s := &Sizer{
		wants: Wants{Of: w.Of}, usage: New(Defaults()), since: now.Add(-unseenFor),
		killed: map[[2]string]time.Time{}, refused: map[string]time.Time{},
	}
	s.says.Last = w.Last
	if last := w.Last; last != nil && last.Applied && last.At.After(s.since) && !last.At.After(now) {
		s.since = last.At
	}
	return s
}

// Of reports whether the Sizer is that of the object that wants something.
func (s *Sizer) Of(w *Wants) bool { return s.wants.Of == w.Of }

// Changed reports whether something else is wanted than when it last decided.
func (s *Sizer) Changed(w *Wants) bool { return !reflect.DeepEqual(s.wants, w.rules()) }

// Says is what came of its last look.
func (s *Sizer) Says() Sizing {
	says := s.says
	says.Turned = false
	return says
}

// Learn takes in what containers use, and kills for memory. Pods are sorted by name.
func (s *Sizer) Learn(now time.Time, pods []Candidate, uses map[string][]podscaler.ContainerUse) {
	s.rounds++
	there := map[string]bool{}
	for _, p := range pods {
		there[p.Name] = true
		for i := range p.Containers {
			s.learn(p.Name, &p.Containers[i], uses[p.Name])
		}
	}
	s.forget(now, there)
}

// Decide says what requests should be, and which pod is resized now, if any. Pods are sorted by
// name.
func (s *Sizer) Decide(now time.Time, w *Wants, pods []Candidate) (Sizing, *Order) {
	s.wants = w.rules()
	s.recommend()
	s.watch(now, pods)
	o := s.next(now, w.Held, pods)
	return s.says, o
}

// Done takes in what came of its last order.
func (s *Sizer) Done(r Resized) {
	if !r.Applied {
		s.refused[r.Pod] = r.At
	}
	s.says.Last, s.says.Reason = &r, r.Outcome
}

// counts reports whether a kill for memory is to be counted. A pod's status shows the last one to
// each process that leads, until its container starts again. If each counted it, from the request
// of its time, one kill would have a container grow without end.
func (s *Sizer) counts(pod, container string, killed time.Time) bool {
	last := s.says.Last
	resized := last != nil && last.Applied && last.Pod == pod && killed.Before(last.At)
	return !resized && killed.After(s.since) && killed.After(s.killed[[2]string{pod, container}])
}

func (s *Sizer) learn(pod string, c *Container, uses []podscaler.ContainerUse) {
	if s.counts(pod, c.Name, c.OOMEnded) {
		s.killed[[2]string{pod, c.Name}] = c.OOMEnded
		s.usage.OOM(pod, c.Name, c.OOMEnded, pricing.Bytes(c.request(Memory)))
	}
	for _, use := range uses {
		if use.Name != c.Name {
			continue
		}
		if cpu := use.CPU; cpu.Known {
			s.usage.AddCPU(pod, c.Name, cpu.At.Add(-cpu.Span), pricing.MilliCPU(math.Ceil(cpu.Value*1000-1e-9)))
		}
		if memory := use.Memory; memory.Known {
			s.usage.AddMemory(pod, c.Name, memory.At, pricing.Bytes(memory.Value))
		}
	}
}

// forget drops what is known of pods that are gone. What they used still counts.
func (s *Sizer) forget(now time.Time, there map[string]bool) {
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

func (s *Sizer) recommend() {
	s.says.Recommended = s.usage.Recommend(s.wants.Policies)
	for i := range s.says.Recommended {
		rec := &s.says.Recommended[i]
		for _, r := range []Resource{CPU, Memory} {
			if why := s.wants.kept(r); why != nil && rec.Has(r) && s.wants.Mode == InPlace {
				rec.Reasons = append(rec.Reasons, *why)
			}
		}
	}
}

// carried are the recommendations that may be carried out for a pod.
func (s *Sizer) carried(pod *Pod) []Recommendation {
	all := slices.Clone(s.says.Recommended)
	for i := range all {
		all[i].Resources = slices.DeleteFunc(slices.Clone(all[i].Resources), func(r Resource) bool { return s.wants.kept(r) != nil })
	}
	return Upward(all, pod)
}

// watch notices when requests leave the bounds, and when they are back.
func (s *Sizer) watch(now time.Time, pods []Candidate) {
	was := s.says.Outside
	s.says.Outside = ""
	for i := range pods {
		d := Decide(now, InPlace, s.says.Recommended, &pods[i].Pod)
		if at := slices.IndexFunc(d.Reasons, func(r Reason) bool { return r.Code == ReasonOutsideBounds }); at >= 0 {
			s.says.Outside = fmt.Sprintf("pod %s: %s", pods[i].Name, d.Reasons[at].Text)
			break
		}
	}
	s.says.Turned = (was == "") != (s.says.Outside == "")
}

// next is the pod to be resized now. Without one, it notes the reason.
func (s *Sizer) next(now time.Time, held *Reason, pods []Candidate) *Order {
	pending := slices.IndexFunc(pods, func(p Candidate) bool { return p.Resize == ResizePending })
	switch {
	case held != nil:
		s.says.Reason = *held
	case s.rounds < 2: // the first round only looks
		s.says.Reason = because(ReasonStarting, "its pods have been seen for less than a minute")
	case pending >= 0:
		s.says.Reason = because(ReasonResizePending, "pod %s: its last resize is not done yet, and they are resized one by one", pods[pending].Name)
	default:
		return s.choose(now, pods)
	}
	return nil
}

// choose takes the first pod that calls for it.
func (s *Sizer) choose(now time.Time, pods []Candidate) *Order {
	unready, why := s.unready(pods), excuse{because(ReasonNoRecommendation, "no pod of it runs"), math.MaxInt}
	for i := range pods {
		p := &pods[i]
		if !p.Running {
			continue
		}
		d := Decide(now, InPlace, s.carried(&p.Pod), &p.Pod)
		first, failed := d.Reasons[0], !s.refused[p.Name].IsZero()
		switch {
		case d.Action != Resize:
		case failed:
			first = because(ReasonFailedResize, "it was refused, and is not asked for again for %s", pricing.Short(refusedFor))
		case unready != "" && unready != p.Name:
			first = because(ReasonOneByOne, "it waits for pod %s, which was resized before and is not ready", unready)
		default:
			s.says.Reason = first
			return &Order{p.Name, d.Changes, d.Reasons}
		}
		why.take(p.Name, first)
	}
	s.says.Reason = why.Reason
	return nil
}

// unready is the pod that was resized last, if it is not ready: it may need more, and no second pod
// must come to be as it is.
func (s *Sizer) unready(pods []Candidate) string {
	last := s.says.Last
	if last == nil || !slices.ContainsFunc(pods, func(p Candidate) bool { return p.Name == last.Pod && !p.Ready }) {
		return ""
	}
	return last.Pod
}

// excuse is the most important reason why pods are not resized.
type excuse struct {
	Reason
	rank int
}

func (e *excuse) take(pod string, r Reason) {
	rank := slices.Index(ranks, r.Code)
	if rank < 0 {
		rank = len(ranks)
	}
	if rank < e.rank {
		*e = excuse{because(r.Code, "pod %s: %s", pod, r.Text), rank}
	}
}

// ranks are the reasons why a pod is not resized that count above others.
var ranks = []string{ReasonFailedResize, ReasonResizeInfeasible, ReasonOneByOne, ReasonQoSFixed, ReasonNoRecommendation, ReasonWithinBounds}
