package rightsize

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Mode is what is done about recommendations.
type Mode string

// The modes.
const (
	// Off shows recommendations and does nothing. It is the default.
	Off Mode = "Off"
	// Initial sets requests as pods are created, and leaves them as they are from then on.
	Initial Mode = "Initial"
	// InPlace does that, and resizes pods that run.
	InPlace Mode = "InPlace"
	// Auto does that, and evicts a pod that its node has no room to resize. The Vertical Pod
	// Autoscaler calls it InPlaceOrRecreate.
	Auto Mode = "Auto"
)

// sets reports whether a mode changes what pods request, now or as they are created.
func (m Mode) sets() bool { return m == Initial || m.Acts() }

// Acts reports whether a mode changes pods that run.
func (m Mode) Acts() bool { return m == InPlace || m == Auto }

// Pod is a pod that requests may be set of.
type Pod struct {
	// Running is whether it is there already; if not, it is about to be created.
	Running bool
	// Started is when it started; the zero time is unknown, which is taken for just now.
	Started time.Time
	// Resize is how far the last resize has come, and ResizeSince since when it waits for room; the
	// zero time is unknown.
	Resize      ResizeState
	ResizeSince time.Time
	Containers  []Container
	// Starts are its init containers that end before the containers start.
	Starts []Start `json:",omitempty"`
	// Ranges are those of its namespace.
	Ranges Ranges `json:",omitzero"`
}

// Start is an init container that ends. It is not sized, and has its part in what a pod comes to.
type Start struct {
	Requests, Limits pricing.Resources
	// Sidecars is how many of the pod's run beside it, the first ones.
	Sidecars int
}

// Container is a container of a pod, with what its specification has.
type Container struct {
	Name string
	// Sidecar is an init container that runs beside the others.
	Sidecar bool
	// Requests and Limits are 0 where there are none.
	Requests, Limits pricing.Resources
	// Restarts are the resources that it cannot be given more or less of without a restart.
	Restarts []Resource
	// OOMStarted and OOMEnded are when its last run began and ended, if that was killed for memory.
	OOMStarted, OOMEnded time.Time
}

// ResizeState is how far a pod's last resize has come.
type ResizeState string

// The states of a resize.
const (
	ResizeDone       ResizeState = ""           // or there was none
	ResizePending    ResizeState = "Pending"    // not looked at yet, or being carried out
	ResizeDeferred   ResizeState = "Deferred"   // the node has no room for it now
	ResizeInfeasible ResizeState = "Infeasible" // the node can never hold it
)

// Action is what is to be done to a pod.
type Action string

// The actions.
const (
	None        Action = "None"
	SetOnCreate Action = "SetOnCreate"
	Resize      Action = "Resize"
	Evict       Action = "Evict"
)

// Decision is what is to be done to a pod, and why.
type Decision struct {
	Action Action `json:"action"`
	// Changes are what the containers are to have that get anything else. With None, they are what
	// is recommended all the same.
	Changes []Change `json:"changes,omitempty"`
	Reasons []Reason `json:"reasons"`
}

// Change is what a container is to have. Limits keep their proportion to requests, which also
// keeps the pod's quality-of-service class, without which a resize is refused.
type Change struct {
	Container string            `json:"container"`
	Sidecar   bool              `json:"sidecar,omitempty"`
	Requests  pricing.Resources `json:"requests"`
	Limits    pricing.Resources `json:"limits"`
}

// When a pod is resized although its requests are within bounds: after so long, for so large a
// part; or when it died so soon for lack of memory, so lately.
const (
	driftAge   = 12 * time.Hour
	driftPart  = 0.1
	quickDeath = 10 * time.Minute
)

// deferredFor is how long a resize may wait for room on its node until mode Auto evicts the pod.
const deferredFor = 5 * time.Minute

// Upward returns what is recommended for a pod with nothing less than it requests, where less than
// a day of samples is known. A usage that was forgotten, as with a restart, knows a quiet hour and
// takes it for all there is: a pod may be given more by that, and nothing may be taken from it.
func Upward(recommended []Recommendation, pod *Pod) []Recommendation {
	all := slices.Clone(recommended)
	for i := range all {
		rec := &all[i]
		at := slices.IndexFunc(pod.Containers, func(c Container) bool { return c.Name == rec.Container })
		if at < 0 || !rec.Short() {
			continue
		}
		for _, r := range rec.Resources {
			request := pod.Containers[at].request(r)
			r.set(&rec.Target, max(r.of(rec.Target), request))
			r.set(&rec.Upper, max(r.of(rec.Upper), request))
		}
	}
	return all
}

// Unbounded reports whether an amount is no bound: history does not support one yet.
func (r Resource) Unbounded(amount pricing.Resources) bool { return r.of(amount) >= most }

// Decide returns what is to be done to a pod about what is recommended for its containers.
func Decide(now time.Time, mode Mode, recommended []Recommendation, pod *Pod) Decision {
	w, within := pod.weighed(recommended)
	d := Decision{Action: None, Changes: w.changes}
	stay := func(code, format string, args ...any) Decision {
		d.Reasons = append(d.Reasons, because(code, format, args...))
		return d
	}
	switch {
	case !w.any && len(within) > 0 && len(recommended) > 0 && mode.sets():
		d.Reasons = within
		return d
	case !w.any:
		return stay(ReasonNoRecommendation, "nothing is recommended for any of its containers")
	case !mode.sets():
		return stay(ReasonModeOff, "recommendations are shown and not carried out: %s", w)
	case mode == Auto && pod.stuck(now, w) != nil:
		d.Action, d.Reasons = Evict, []Reason{*pod.stuck(now, w)}
		return d
	case len(w.changes) == 0:
		return stay(ReasonUnchanged, "it has what is recommended")
	case !pod.Running:
		d.Action = SetOnCreate
		d = stay(ReasonCreated, "it is created with what is recommended: %s", w)
		d.Reasons = append(d.Reasons, within...)
		return d
	case mode == Initial:
		return stay(ReasonModeInitial, "requests are set as pods are created, and it runs already: %s", w)
	}
	if held := holds(pod, w); held != nil {
		return stay(held.Code, "%s", held.Text)
	}
	cause, called := calledFor(now, pod, w)
	d.Reasons = append(d.Reasons, cause)
	if called {
		d.Action = Resize
		d.Reasons = append(append(d.Reasons, w.restarts...), within...)
	}
	return d
}

// stuck returns why a running pod cannot have what it was resized to where it is, or nil. It asks
// for that already, and so may have nothing left to be changed.
func (p *Pod) stuck(now time.Time, w *weighing) *Reason {
	var r Reason
	switch {
	case !p.Running:
		return nil
	case p.Resize == ResizeInfeasible && !w.less:
		r = because(ReasonResizeInfeasible, "its node can never hold what it was last resized to")
	case p.overdue(now):
		r = because(ReasonResizeDeferred, "its node has had no room for its last resize for %s", pricing.Short(now.Sub(p.ResizeSince).Round(time.Second)))
	default:
		return nil
	}
	return &r
}

// overdue reports whether its node has had no room for its resize for long.
func (p *Pod) overdue(now time.Time) bool {
	return p.Resize == ResizeDeferred && !p.ResizeSince.IsZero() && now.Sub(p.ResizeSince) >= deferredFor
}

// waiting reports whether its last resize is not done, and may yet be.
func (p *Pod) waiting() bool { return p.Resize == ResizePending || p.Resize == ResizeDeferred }

// holds returns why a running pod cannot be resized now, or nil.
func holds(pod *Pod, w *weighing) *Reason {
	var r Reason
	switch {
	case pod.bestEffort():
		r = because(ReasonQoSFixed, "it has neither requests nor limits, and a resize may not give it the first ones: set them in its template")
	case pod.waiting():
		r = because(ReasonResizePending, "its last resize is not done yet")
	case pod.Resize == ResizeInfeasible && !w.less:
		r = because(ReasonResizeInfeasible, "its node cannot hold what it was last resized to, and no less is recommended now")
	default:
		return nil
	}
	return &r
}

// calledFor reports whether a pod is worth being resized, and why.
func calledFor(now time.Time, pod *Pod, w *weighing) (Reason, bool) {
	if w.outside != "" {
		return because(ReasonOutsideBounds, "%s", w.outside), true
	}
	for _, c := range pod.Containers {
		lived, ago := c.OOMEnded.Sub(c.OOMStarted), now.Sub(c.OOMEnded)
		if !c.OOMEnded.IsZero() && lived < quickDeath && ago < quickDeath && w.covers(c.Name) {
			return because(ReasonQuickOOM, "container %s was killed for memory %s after it started", c.Name, pricing.Short(lived.Round(time.Second))), true
		}
	}
	age := now.Sub(pod.Started)
	if pod.Started.IsZero() || age < driftAge || w.drift < driftPart {
		return because(ReasonWithinBounds, "all requests are within bounds; for %.0f %% of difference in all, it is resized from %.0f %% on when it is %s old",
			100*w.drift, 100*driftPart, pricing.Short(driftAge)), false
	}
	return because(ReasonDrifted, "requests differ by %.0f %% in all, and it is %s old", 100*w.drift, pricing.Short(age.Round(time.Minute))), true
}

func (p *Pod) bestEffort() bool {
	return !slices.ContainsFunc(p.Containers, func(c Container) bool {
		return c.Requests != pricing.Resources{} || c.Limits != pricing.Resources{}
	})
}

// weighing is what a pod has, held against what is recommended.
type weighing struct {
	any     bool   // something is recommended for it
	outside string // the first request that is out of bounds
	less    bool   // less is recommended of something
	drift   float64
	changes []Change
	// restarts are the reasons that a resize would restart containers for.
	restarts []Reason
	names    []string
}

func (w *weighing) covers(container string) bool { return slices.Contains(w.names, container) }

// String prints the changes.
func (w *weighing) String() string {
	var all []string
	for _, c := range w.changes {
		all = append(all, fmt.Sprintf("container %s requests %s and %s", c.Container,
			CPU.text(int64(c.Requests.CPU)), Memory.text(int64(c.Requests.Memory))))
	}
	if len(all) == 0 {
		return "it has what is recommended"
	}
	return strings.Join(all, "; ")
}

// weighed weighs what is recommended as far as the pod's ranges admit it. A resource of which they
// admit nothing of that stays as it is, which was admitted.
func (p *Pod) weighed(recommended []Recommendation) (w *weighing, why []Reason) {
	admitted, why := p.admitted(recommended)
	w = weigh(admitted, p)
	var stays []Reason
	for _, r := range both {
		against := p.against(r, p.changed(w.changes))
		if against == "" {
			continue
		}
		recommended = except(recommended, r)
		admitted, why = p.admitted(recommended)
		w = weigh(admitted, p)
		stays = append(stays, because(ReasonLimitRange, "%s stays as it is, for no LimitRange of its namespace may be exceeded: %s", r, against))
	}
	return w, append(why, stays...)
}

// except are recommendations of all but a resource.
func except(recommended []Recommendation, r Resource) []Recommendation {
	all := slices.Clone(recommended)
	for i := range all {
		all[i].Resources = slices.DeleteFunc(slices.Clone(all[i].Resources), func(o Resource) bool { return o == r })
	}
	return all
}

func weigh(recommended []Recommendation, pod *Pod) *weighing {
	w := &weighing{}
	has, should := map[Resource]int64{}, map[Resource]int64{}
	for _, c := range pod.Containers {
		i := slices.IndexFunc(recommended, func(r Recommendation) bool { return r.Container == c.Name && len(r.Resources) > 0 })
		if i < 0 {
			continue
		}
		w.any = true
		w.names = append(w.names, c.Name)
		w.container(c, &recommended[i], &pod.Ranges.Container)
		for _, r := range recommended[i].Resources {
			has[r] += c.request(r)
			should[r] += r.of(recommended[i].Target)
		}
	}
	all := w.changes
	pod.inRatio(recommended, all)
	w.changes = nil // rather than no changes
	for i, c := range pod.changed(all) {
		if was := pod.Containers[i]; c.Requests != was.Requests || c.Limits != was.Limits {
			w.changes = append(w.changes, Change{c.Name, c.Sidecar, c.Requests, c.Limits})
		}
	}
	for _, r := range both {
		w.drift += math.Abs(float64(has[r]-should[r])) / max(float64(has[r]), 1)
	}
	return w
}

// request returns what a container requests; without a request, Kubernetes takes the limit for it.
func (c *Container) request(r Resource) int64 {
	if request := r.of(c.Requests); request > 0 {
		return request
	}
	return r.of(c.Limits)
}

// container weighs a container.
func (w *weighing) container(c Container, rec *Recommendation, within *Range) {
	change := Change{c.Name, c.Sidecar, c.Requests, c.Limits}
	for _, r := range rec.Resources {
		request, target := c.request(r), r.of(rec.Target)
		low, high := r.of(rec.Lower), r.of(rec.Upper)
		if w.outside == "" && (request == 0 || request < low || request > high) {
			bounds := fmt.Sprintf("not within %s and %s", r.text(low), r.text(high))
			if r.Unbounded(rec.Upper) {
				bounds = "less than " + r.text(low)
			}
			w.outside = fmt.Sprintf("container %s requests %s of %s, which is %s", c.Name, r.text(request), r, bounds)
		}
		w.less = w.less || target < request
		if request == target {
			continue
		}
		r.set(&change.Requests, target)
		before, limit := within.proportion(r, &c)
		r.set(&change.Limits, within.limits(r, proportional(limit, before, target), target))
		if slices.Contains(c.Restarts, r) {
			w.restarts = append(w.restarts, because(ReasonRestarts, "container %s restarts with it: its resize policy for %s says so", c.Name, r))
		}
	}
	w.changes = append(w.changes, change)
}

// proportional returns the limit that is to a request as it was to the one before. It is rounded
// up, for a limit must never be below its request.
func proportional(limit, before, request int64) int64 {
	if limit == 0 || before == 0 {
		return 0
	}
	return partOf(limit, request, before, true)
}
