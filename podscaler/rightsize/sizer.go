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
	// MinReplicas is how many pods there must be for one to be evicted; 0 means 2.
	MinReplicas int
	// Limits is the rule by which its containers share their nodes as limits, or "".
	Limits Rule
	// Creates says that pods get what is recommended as they are created.
	Creates bool
	// Held is why no pod is resized, or nil.
	Held *Reason
	// Replicas is how many pods there should be.
	Replicas int
	// Last is the last resize on record, and Saved what a Sizer of an earlier process knew. A new
	// Sizer goes by them.
	Last  *Resized
	Saved string
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
	w.Held, w.Last, w.Replicas, w.Saved = nil, nil, 0, ""
	return w
}

// Candidate is a pod that may be resized.
type Candidate struct {
	Name  string
	Ready bool
	// Pinned is why it must not be evicted; empty if it may be.
	Pinned string
	// Node is the node that its containers share, or nil, and Uses what they were last measured to
	// use.
	Node *Shared
	Uses []podscaler.ContainerUse
	Pod
}

// Order is a pod that is to be resized, or evicted.
type Order struct {
	Pod     string   `json:"pod"`
	Evict   bool     `json:"evict,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	Reasons []Reason `json:"reasons"`
}

// Resized is what came of an order.
type Resized struct {
	Pod              string
	At               time.Time
	Applied, Evicted bool
	Reasons          []Reason
	// Outcome says it in one sentence. It is empty if the resize was only found on record.
	Outcome Reason
}

// Done is what came of an order at a time; the error is empty if the pod was resized.
func (o *Order) Done(at time.Time, err string) Resized {
	r := Resized{Pod: o.Pod, At: at, Applied: err == "", Evicted: o.Evict, Reasons: o.Reasons}
	r.Outcome = because(ReasonResized, "pod %s: %s; %s", o.Pod, o.Reasons[0].Text, o.What())
	if o.Evict {
		r.Outcome.Code = ReasonEvicted
	}
	if err != "" {
		r.Outcome.Code, r.Outcome.Text = ReasonFailedResize, r.Outcome.Text+": "+err
		r.Reasons = append(slices.Clip(r.Reasons), because(ReasonFailedResize, "%s", err))
	}
	return r
}

// What says what the order does to its pod.
func (o *Order) What() string {
	if o.Evict {
		return "it is evicted, to be made again where there is room"
	}
	var changes []string
	for _, c := range o.Changes {
		changes = append(changes, c.String())
	}
	return strings.Join(changes, "; ")
}

// Action is what is done to the pod, as a verb.
func (o *Order) Action() string {
	if o.Evict {
		return "evict"
	}
	return "resize"
}

// String prints the order.
func (o *Order) String() string { return fmt.Sprintf("%s pod %s: %s", o.Action(), o.Pod, o.What()) }

// String prints what the container is to request, and its limits.
func (c Change) String() string {
	text := fmt.Sprintf("container %s is to request %s and %s", c.Container, CPU.text(int64(c.Requests.CPU)), Memory.text(int64(c.Requests.Memory)))
	var most []string
	for _, r := range both {
		if limit := r.of(c.Limits); limit > 0 {
			most = append(most, fmt.Sprintf("%s of %s", r.text(limit), r))
		}
	}
	if len(most) > 0 {
		text += ", limited to " + strings.Join(most, " and ")
	}
	return text
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
	// Created is what pods get as they are created, nothing less than their template says where
	// little history is known; nil is nothing.
	Created []Recommendation
	// Limits are what the containers may use that share their nodes.
	Limits []ContainerLimits
	// Saved is what a Sizer of the next process is to go by, and Lost why what an earlier one knew
	// could not be read at that look.
	Saved string
	Lost  *Reason
}

// A Sizer resizes the pods of a workload, one after another. It learns what their containers use.
// What it knows is in a checkpoint, and safe to forget: a new one takes nothing away before it
// knows a day.
type Sizer struct {
	wants   Wants // its rules
	usage   *Usage
	pods    map[string]bool         // those of the last round
	killed  map[[2]string]time.Time // the last kill that counts, by pod and container
	since   time.Time               // earlier kills may have counted before
	refused map[string]time.Time    // by pod
	rounds  int
	evicted evictions
	saved   time.Time
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
	if w.Saved != "" {
		if err := s.restore(w.Saved, now); err != nil {
			lost := because(ReasonCheckpointRefused, "what was learnt before cannot be read, and is learnt anew: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
			s.says.Lost = &lost
		}
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
	says.Turned, says.Lost = false, nil
	return says
}

// Learn takes in what containers use, and kills for memory. Pods are sorted by name.
func (s *Sizer) Learn(now time.Time, pods []Candidate, uses map[string][]podscaler.ContainerUse) {
	s.rounds++
	there := map[string]bool{}
	for _, p := range pods {
		there[p.Name] = true
		for i := range p.Containers {
			s.learn(now, p.Name, &p.Containers[i], uses[p.Name])
		}
	}
	s.forget(now, there)
}

// Decide says what requests should be, and which pod is resized now, if any. Pods are sorted by
// name.
func (s *Sizer) Decide(now time.Time, w *Wants, pods []Candidate) (Sizing, *Order) {
	s.wants = w.rules()
	s.recommend()
	s.says.Created, s.says.Limits = nil, limitsOf(pods)
	if w.Creates {
		s.says.Created = s.changed()
	}
	s.watch(now, pods)
	s.save(now)
	o := s.next(now, w, pods)
	says := s.says
	s.says.Lost = nil
	return says, o
}

// Done takes in what came of its last order.
func (s *Sizer) Done(r Resized) {
	switch {
	case !r.Applied:
		s.refused[r.Pod] = r.At
	case r.Evicted:
		s.evicted.note(r.At, s.says.Recommended)
		s.saved = time.Time{} // whoever leads next must know
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

// aheadFor is how far a node's clock may be ahead. Use of a later time would weigh more than all
// that was learnt, and keep what is measured until then from counting.
const aheadFor = time.Minute

func (s *Sizer) learn(now time.Time, pod string, c *Container, uses []podscaler.ContainerUse) {
	early := func(at time.Time) bool { return at.After(now.Add(aheadFor)) }
	if !early(c.OOMEnded) && s.counts(pod, c.Name, c.OOMEnded) {
		s.killed[[2]string{pod, c.Name}] = c.OOMEnded
		s.usage.OOM(pod, c.Name, c.OOMEnded, pricing.Bytes(c.request(Memory)))
	}
	for _, use := range uses {
		if use.Name != c.Name {
			continue
		}
		if cpu := use.CPU; cpu.Known && !early(cpu.At) {
			s.usage.AddCPU(pod, c.Name, cpu.At.Add(-cpu.Span), pricing.MilliCPU(math.Ceil(cpu.Value*1000-1e-9)))
		}
		if memory := use.Memory; memory.Known && !early(memory.At) {
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
			if why := s.wants.kept(r); why != nil && rec.Has(r) && s.wants.Mode.sets() {
				rec.Reasons = append(rec.Reasons, *why)
			}
		}
	}
}

// carried are the recommendations that may be carried out for a pod.
func (s *Sizer) carried(pod *Pod) []Recommendation { return Upward(s.changed(), pod) }

// changed are the recommendations without what is shown and left as it is.
func (s *Sizer) changed() []Recommendation {
	all := slices.Clone(s.says.Recommended)
	for i := range all {
		all[i].Resources = slices.DeleteFunc(slices.Clone(all[i].Resources), func(r Resource) bool { return s.wants.kept(r) != nil })
	}
	return all
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
func (s *Sizer) next(now time.Time, w *Wants, pods []Candidate) *Order {
	// One that waits for long does not keep the others from their turns.
	pending := slices.IndexFunc(pods, func(p Candidate) bool { return p.waiting() && !p.overdue(now) })
	switch {
	case w.Held != nil:
		s.says.Reason = *w.Held
	case s.rounds < 2: // the first round only looks
		s.says.Reason = because(ReasonStarting, "its pods have been seen for less than a minute")
	case pending >= 0:
		s.says.Reason = because(ReasonResizePending, "pod %s: its last resize is not done yet, and they are resized one by one", pods[pending].Name)
	default:
		return s.choose(now, w, pods)
	}
	return nil
}

// choose takes the first of the pods that calls for it.
func (s *Sizer) choose(now time.Time, w *Wants, pods []Candidate) *Order {
	unready, why := s.unready(pods), excuse{because(ReasonNoRecommendation, "no pod of it runs"), math.MaxInt}
	for i := range pods {
		p := &pods[i]
		if !p.Running {
			continue
		}
		d := s.decide(now, p)
		first, failed := d.Reasons[0], !s.refused[p.Name].IsZero()
		if first.Code == ReasonQoSFixed && p.bestEffort() && s.wants.Mode == Auto && s.wants.Creates {
			d.Action = Evict // it gets its first requests as it is created
		}
		var stays *Reason
		if d.Action == Evict {
			stays = s.stays(now, w, pods, p)
		}
		switch {
		case d.Action != Resize && d.Action != Evict:
		case stays != nil:
			first = *stays
		case failed:
			first = because(ReasonFailedResize, "it was refused, and is not asked for again for %s", pricing.Short(refusedFor))
		case unready != "" && unready != p.Name:
			first = because(ReasonOneByOne, "it waits for pod %s, which was resized before and is not ready", unready)
		default:
			s.says.Reason = first
			if d.Action == Evict {
				return &Order{Pod: p.Name, Evict: true, Reasons: d.Reasons}
			}
			return &Order{Pod: p.Name, Changes: d.Changes, Reasons: d.Reasons}
		}
		why.take(p.Name, first)
	}
	s.says.Reason = why.Reason
	return nil
}

// decide says what is to be done to a pod. No memory is taken away that is in use: it stays as it
// is, then, and CPU is sized alone.
func (s *Sizer) decide(now time.Time, p *Candidate) Decision {
	carried := s.carried(&p.Pod)
	d := s.sized(now, p, carried)
	why := p.belowUse(&d)
	if why == nil {
		return d
	}
	if d = s.sized(now, p, except(carried, Memory)); d.Action == Resize {
		d.Reasons = append(d.Reasons, *why)
		return d
	}
	return Decision{Action: None, Reasons: append([]Reason{*why}, d.Reasons...)}
}

// belowUse is why a resize would take memory away that is in use, or nil.
func (p *Candidate) belowUse(d *Decision) *Reason {
	if d.Action != Resize {
		return nil
	}
	for _, c := range d.Changes {
		at := slices.IndexFunc(p.Containers, func(was Container) bool { return was.Name == c.Container })
		was, is, uses := p.Containers[at].Limits.Memory, c.Limits.Memory, p.uses(c.Container)
		if is > 0 && (was == 0 || is < was) && (!uses.Known || uses.Value > float64(is)) {
			than := "may be less than it uses, which is unknown"
			if uses.Known {
				than = "is less than it uses, " + Memory.text(amount(uses.Value))
			}
			why := because(ReasonBelowUse, "container %s: its limit of memory would be %s, which %s: the pod's memory stays as it is", c.Container, Memory.text(int64(is)), than)
			return &why
		}
	}
	return nil
}

// sized says what is to be done to a pod. One that is older than a LimitRange may be as no resize
// is admitted, of whichever resource: it is not asked for.
func (s *Sizer) sized(now time.Time, p *Candidate, carried []Recommendation) Decision {
	d := s.limited(now, p, carried)
	if d.Action != Resize {
		return d
	}
	after := p.changed(d.Changes)
	for _, r := range both {
		if against := p.against(r, after); against != "" {
			return Decision{Action: None, Reasons: []Reason{because(ReasonLimitRange, "no resize of it is admitted, for it is older than a LimitRange of its namespace: %s", against)}}
		}
	}
	return d
}

// limited says what is to be done to a pod, with the limits that are its shares.
func (s *Sizer) limited(now time.Time, p *Candidate, carried []Recommendation) Decision {
	d := Decide(now, s.wants.Mode, carried, &p.Pod)
	resizes := d.Action == Resize
	if p.Node == nil || !s.wants.Mode.Acts() || !resizes && (p.Resize != ResizeDone || !slices.Contains(leaves, d.Reasons[0].Code)) {
		return d
	}
	var changes []Change
	if resizes {
		changes = d.Changes
	}
	fit, why := p.Node.limit(p, changes)
	switch {
	case resizes:
		d.Changes, d.Reasons = fit, append(d.Reasons, why...)
	case len(why) == 0:
	case len(fit) > 0:
		d = Decision{Action: Resize, Changes: fit, Reasons: why}
	default:
		d.Reasons = why
	}
	return d
}

// leaves are the reasons why what a pod requests is left as it is. Its limits may be set then.
var leaves = []string{ReasonUnchanged, ReasonWithinBounds, ReasonNoRecommendation, ReasonLimitRange}

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
var ranks = []string{ReasonFailedResize, ReasonEvictionHeld, ReasonEvictedBefore, ReasonResizeInfeasible, ReasonOneByOne, ReasonResizePending, ReasonQoSFixed, ReasonBelowUse, ReasonOverNode, ReasonBelowRequest, ReasonLimitRange, ReasonNoRecommendation, ReasonWithinBounds}
