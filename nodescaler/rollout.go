package nodescaler

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// A rollout replaces the machines of a pool after what they are made from has changed. Which
// machines differ is their drift, and drift replaces them; a rollout says how many at once, waits,
// stops and goes back. All that it goes by is in the pool's settings, in its status and in what is
// observed, so that a process that has just started goes on where another one left.

// Rollout is how a pool's machines are replaced once they drift. Without one nothing but budgets
// limits that, and nothing stops it.
type Rollout struct {
	// Surge is how many machines may exist beside those that they replace; nil is any number.
	Surge *NodeCount `json:"surge,omitempty"`
	// Paused has no further machine replaced, also on the way back.
	Paused bool `json:"paused,omitempty"`
	// Canary are the machines that are replaced first, and watched; not set, there are none.
	Canary Canary `json:"canary,omitzero"`
	// MaxFailures is how many new machines fail before it stops; 0 is defaultRolloutFailures.
	MaxFailures int `json:"maxFailures,omitempty" strict:"nonzero"`
	// MissedFor is for how long workloads with pods on new machines may miss their objectives
	// before it stops; 0 is defaultMissedFor.
	MissedFor Duration `json:"missedFor,omitempty" strict:"nonzero"`
	// OnFailure is what follows when it stops; empty is RolloutRollback.
	OnFailure RolloutFailure `json:"onFailure,omitempty"`
	// Undo is a revision that is not to be rolled out: machines are made by the last good one.
	Undo string `json:"undo,omitempty"`
}

// Canary is how many machines are watched for how long before others are replaced.
type Canary struct {
	Machines int      `json:"machines" strict:"required"`
	For      Duration `json:"for" strict:"required"`
}

// RolloutFailure is what becomes of a rollout that fails.
type RolloutFailure string

// What becomes of a rollout that fails.
const (
	RolloutRollback RolloutFailure = "Rollback" // machines are made by the last good revision again
	RolloutStop     RolloutFailure = "Stop"     // all stay as they are
)

const (
	// defaultRolloutFailures is with how many new machines that failed it stops.
	defaultRolloutFailures = 2
	// defaultMissedFor is for how long objectives may be missed.
	defaultMissedFor = 10 * time.Minute
	// canaryPatience is for how long a canary may be over and its pods not ready.
	canaryPatience = 15 * time.Minute
	// rolloutNamed is how many failed machines are kept by name.
	rolloutNamed = 16
)

// RolloutPhase is how far a rollout is.
type RolloutPhase string

// The phases of a rollout.
const (
	PhaseComplete    RolloutPhase = "Complete"    // every machine is what the pool makes now
	PhaseCanary      RolloutPhase = "Canary"      // the first machines are replaced, or watched
	PhaseProgressing RolloutPhase = "Progressing" // machines are replaced
	PhasePaused      RolloutPhase = "Paused"      // none is for now
	// None is until the template changes or a person resumes it.
	PhaseStopped RolloutPhase = "Stopped"
	// Machines are replaced by such as were there before.
	PhaseRollingBack RolloutPhase = "RollingBack"
	// They all are, and the pool's settings say otherwise.
	PhaseRolledBack RolloutPhase = "RolledBack"
)

// Rolled is how far a pool's rollout is. Its status has it, and the next step goes by that.
type Rolled struct {
	// Revision is a digest of the settings that it is about, and Good that of the last ones by
	// which all machines were made and worked; empty if there are none to go back to.
	Revision string       `json:"revision,omitempty"`
	Good     string       `json:"good,omitempty"`
	Phase    RolloutPhase `json:"phase,omitempty"`
	// Began is when the rollout did, and Since since when the phase has been this one.
	Began time.Time `json:"began,omitzero"`
	Since time.Time `json:"since,omitzero"`
	// Proven is whether the canary is over, and Failed names new machines that failed.
	Proven bool     `json:"proven,omitempty"`
	Failed []string `json:"failed,omitempty"`
	// Updated are the machines that have joined and are what the pool would make now, of Total.
	Updated int    `json:"updated"`
	Total   int    `json:"total"`
	Why     Reason `json:"why,omitzero"`
}

// Rolling is what a pool's rollout goes by. The zero value is of a pool without one.
type Rolling struct {
	// Revision is a digest of the pool's settings, and Back whether machines are made by those of
	// Was.Good in place of them.
	Revision string
	Back     bool
	// Compared is the revision by which machines were last found to have drifted, or not. It may
	// be an earlier one for a step.
	Compared string
	// Was is how far it was, and Resumed when a person last said that it is to be tried anew.
	Was     Rolled
	Resumed time.Time
	// Now is how far it is, once that was decided.
	Now Rolled
}

// Missed is a workload that misses its objective, and since when.
type Missed struct {
	Workload string
	Since    time.Time
}

// GoesBack reports whether machines are to be made by the last good revision in place of the
// pool's settings.
func (r *Rolling) GoesBack(by *Rollout) bool {
	switch {
	case by == nil || r.Was.Good == "" || r.Was.Good == r.Revision:
		return false
	case by.Undo == r.Revision:
		return true
	}
	back := r.Was.Phase == PhaseRollingBack || r.Was.Phase == PhaseRolledBack
	return back && r.Was.Revision == r.Revision && !r.anew()
}

// anew reports whether a person wants a rollout that ended to be tried again.
func (r *Rolling) anew() bool { return r.Resumed.After(r.Was.Since) }

// stale reports whether machines were compared with another revision than they are made by.
func (r *Rolling) stale() bool {
	if r.Back {
		return r.Compared != r.Was.Good
	}
	return r.Compared != r.Revision
}

// poolFleet are the machines of a pool as a rollout counts them.
type poolFleet struct {
	joined, outdated int
	fresh            []*NodeLoad // of machines that are what the pool would make now
}

func (x *Index) fleetOf(p *Pool) (f poolFleet) {
	for _, m := range x.Machines {
		if m.Pool != p.Name || m.Phase != Joined {
			continue
		}
		f.joined++
		if m.Drifted != "" {
			f.outdated++
		} else if n := x.NodeOf(m.Name); n != nil && n.VM == m {
			f.fresh = append(f.fresh, n)
		}
	}
	return f
}

// works reports whether a machine that is what the pool would make now is ready.
func (f *poolFleet) works() bool {
	return slices.ContainsFunc(f.fresh, func(n *NodeLoad) bool { return n.Ready })
}

// Roll decides how far a pool's rollout is.
func (x *Index) Roll(p *Pool, missed []Missed) Rolled {
	r := &p.Rolling
	f := x.fleetOf(p)
	s := r.Was
	changed := s.Revision != r.Revision
	compared := !r.stale()
	ended := s.Phase == PhaseStopped || s.Phase == PhaseRolledBack || s.Phase == PhaseRollingBack
	if changed || ended && r.anew() || s.Phase == PhaseComplete && f.outdated > 0 && compared {
		s = Rolled{Revision: r.Revision, Good: s.Good, Began: x.Now}
		s.Proven = changed && s.Good == r.Revision // it was there before
	}
	if !compared {
		if s.Phase == "" {
			s.Phase, s.Since = PhaseProgressing, x.Now
			s.Why = *reason(RolloutProgressing, "machines are compared with revision %s", s.Revision)
		}
		return s
	}
	s.Updated, s.Total = f.joined-f.outdated, f.joined
	if !r.Back {
		s.fail(x, p, &f)
		if s.recover(&f) && s.Phase == PhaseStopped && s.fault(x, p.Disruption.Rollout, &f, missed) == nil {
			s.Phase = PhaseProgressing
		}
	}
	phase, why := s.next(x, p, &f, missed)
	if phase == PhaseComplete {
		s.Good, s.Failed = s.Revision, nil
	}
	if s.Phase != phase || s.Since.IsZero() {
		s.Phase, s.Since = phase, x.Now
	}
	s.Why = *why
	return s
}

// next is the phase that follows.
func (s *Rolled) next(x *Index, p *Pool, f *poolFleet, missed []Missed) (RolloutPhase, *Reason) {
	by := p.Disruption.Rollout
	if p.Rolling.Back {
		return s.back(by, f)
	}
	failed := s.fault(x, by, f, missed)
	canGoBack := s.Good != "" && s.Good != s.Revision
	switch {
	case s.Phase == PhaseComplete, f.outdated == 0 && f.works() && (failed == nil || !canGoBack) && s.proven(x, by, f):
		return PhaseComplete, reason(RolloutComplete, "each of %d machines is of revision %s", f.joined, s.Revision)
	case s.Phase == PhaseStopped && f.outdated > 0:
		return PhaseStopped, &s.Why
	case failed != nil && by.OnFailure != RolloutStop && canGoBack:
		return PhaseRollingBack, failed
	case failed != nil && f.outdated > 0:
		return PhaseStopped, failed
	case by != nil && by.Paused:
		return PhasePaused, reason(RolloutPaused, "%d of %d machines are of revision %s; it is paused", s.Updated, s.Total, s.Revision)
	case !s.proven(x, by, f):
		return PhaseCanary, reason(RolloutCanary, "%d of %d machines are of revision %s; %d must work for %s before others are replaced",
			s.Updated, s.Total, s.Revision, by.Canary.Machines, pricing.Short(time.Duration(by.Canary.For)))
	}
	return PhaseProgressing, reason(RolloutProgressing, "%d of %d machines are of revision %s", s.Updated, s.Total, s.Revision)
}

// back is how far a rollout is that goes back to the last good revision.
func (s *Rolled) back(by *Rollout, f *poolFleet) (RolloutPhase, *Reason) {
	if f.outdated > 0 {
		paused := ""
		if by != nil && by.Paused {
			paused = " and it is paused"
		}
		return PhaseRollingBack, reason(RolloutRollingBack, "machines are made by revision %s again, and %d of %d are not yet%s: %s", s.Good, f.outdated, f.joined, paused, s.because(by))
	}
	return PhaseRolledBack, reason(RolloutRolledBack, "machines are made by revision %s, and not by %s: %s", s.Good, s.Revision, s.because(by))
}

// because is why machines are made by an earlier revision.
func (s *Rolled) because(by *Rollout) string {
	if by != nil && by.Undo == s.Revision {
		return "disruption.rollout.undo names " + s.Revision
	}
	if s.Why.Code == RolloutFailed {
		return s.Why.Text
	}
	if _, why, is := strings.Cut(s.Why.Text, ": "); is {
		return why
	}
	return s.Why.Text
}

// recover forgets the failed machines that work again, and reports whether there are any.
func (s *Rolled) recover(f *poolFleet) bool {
	works := func(name string) bool {
		return slices.ContainsFunc(f.fresh, func(n *NodeLoad) bool { return n.VM.Name == name && n.Ready })
	}
	before := len(s.Failed)
	s.Failed = slices.DeleteFunc(slices.Clone(s.Failed), works)
	return len(s.Failed) < before
}

// fail notes the new machines that failed, each once. That there is no room for one, that it was
// stopped or removed or that its host is away says nothing of what it is made from.
func (s *Rolled) fail(x *Index, p *Pool, f *poolFleet) {
	note := func(name string) {
		if !slices.Contains(s.Failed, name) && len(s.Failed) < rolloutNamed {
			s.Failed = append(slices.Clone(s.Failed), name)
		}
	}
	for _, m := range x.Machines {
		if m.Pool == p.Name && m.Phase == Failed && m.Drifted == "" && !m.NoRoom && !m.Removed && !m.Since.Before(s.Began) {
			note(m.Name)
		}
	}
	for _, n := range f.fresh {
		if !n.Ready && n.Joined.After(s.Began) && !n.Starting(x.Now, NodeStartup) && !x.Away(n.VM.Host) && n.VM.Problem == "" {
			note(n.VM.Name)
		}
	}
}

// fault is why the rollout must not go on, or nil.
func (s *Rolled) fault(x *Index, by *Rollout, f *poolFleet, missed []Missed) *Reason {
	if by == nil {
		return nil
	}
	most := cmp.Or(by.MaxFailures, defaultRolloutFailures)
	if len(s.Failed) >= most {
		return reason(RolloutFailed, "%d machines of revision %s failed, and it stops at %d: %s", len(s.Failed), s.Revision, most, strings.Join(s.Failed, ", "))
	}
	if why := s.sick(x, by, f); why != nil {
		return why
	}
	return s.misses(x, by, f, missed)
}

// misses is which workload with pods on new machines has missed its objective for too long, or nil.
// One that missed it before does not count.
func (s *Rolled) misses(x *Index, by *Rollout, f *poolFleet, missed []Missed) *Reason {
	patience := cmp.Or(time.Duration(by.MissedFor), defaultMissedFor)
	for _, m := range missed {
		if m.Since.Before(s.Began) || x.Now.Sub(m.Since) < patience {
			continue
		}
		has := func(p *Pod) bool { return p.Workload == m.Workload }
		if slices.ContainsFunc(f.fresh, func(n *NodeLoad) bool { return !n.VM.Created.Before(s.Began) && slices.ContainsFunc(n.Pods, has) }) {
			return reason(RolloutFailed, "%s has missed its objective since %s, for more than %s, and has pods on machines of revision %s",
				m.Workload, m.Since.UTC().Format(time.RFC3339), pricing.Short(patience), s.Revision)
		}
	}
	return nil
}

// proven reports whether so many new machines have worked for so long as the canary says, and their
// pods are ready.
func (s *Rolled) proven(x *Index, by *Rollout, f *poolFleet) bool {
	if s.Proven || by == nil || by.Canary.Machines == 0 {
		return true
	}
	good := 0
	for _, n := range f.fresh {
		if n.Ready && n.worked(x) >= time.Duration(by.Canary.For) && x.unwell(n) == nil {
			good++
		}
	}
	s.Proven = good >= by.Canary.Machines
	return s.Proven
}

// sick is why a canary fails, or nil: its time is long over, and a pod on it is not ready.
func (s *Rolled) sick(x *Index, by *Rollout, f *poolFleet) *Reason {
	if s.Proven || by.Canary.Machines == 0 {
		return nil
	}
	for _, n := range f.fresh {
		if !n.Ready || n.worked(x) < time.Duration(by.Canary.For)+canaryPatience {
			continue // of a node that is not ready no pod is
		}
		if p := x.unwell(n); p != nil {
			return reason(RolloutFailed, "pod %s is not ready on %s, which is of revision %s, and others of %s are elsewhere", p.Name, n.Name, s.Revision, p.Workload)
		}
	}
	return nil
}

// worked is for how long the node has been one.
func (n *NodeLoad) worked(x *Index) time.Duration {
	since := n.Joined
	if n.VM.Since.After(since) {
		since = n.VM.Since
	}
	return x.Now.Sub(since)
}

// unwell is a pod that is not ready on the node, although others of its workload are ready
// elsewhere, or nil. What is ready nowhere says nothing of the node.
func (x *Index) unwell(n *NodeLoad) *Pod {
	const warmUp = 2 * time.Minute
	for _, p := range n.Pods {
		if p.Ready || p.Terminating || p.Workload == "" || x.Now.Sub(p.Created) < warmUp {
			continue
		}
		elsewhere := func(o Pod) bool { return o.Workload == p.Workload && o.Node != n.Name && o.Ready }
		if slices.ContainsFunc(x.Snapshot.Pods, elsewhere) {
			return p
		}
	}
	return nil
}

// RollsNone is why no machine of the pool goes because it drifted, or nil.
func (p *Pool) RollsNone() *Reason {
	r := &p.Rolling
	switch {
	case p.Disruption.Rollout == nil:
		return nil
	case r.stale():
		return reason(RolloutHeld, "the machines of pool %s have not been compared with what it makes now", p.Name)
	case p.Disruption.Rollout.Paused && r.Back: // the phase says which way it is under way
		return reason(RolloutHeld, "the rollout of pool %s goes back, and is paused", p.Name)
	case r.Now.Phase == PhasePaused, r.Now.Phase == PhaseStopped, r.Now.Phase == PhaseRollingBack && !r.Back:
		return reason(RolloutHeld, "the rollout of pool %s is %s: %s", p.Name, r.Now.Phase, r.Now.Why.Text)
	}
	return nil
}

// RollsFirst is how many machines more of the pool's new revision may be made for its canary, and
// whether it has one under way.
func (p *Pool) RollsFirst(x *Index) (more int, canary bool) {
	if p.Disruption.Rollout == nil || p.Rolling.Now.Phase != PhaseCanary {
		return 0, false
	}
	there := 0
	for _, m := range x.Machines {
		if m.Pool == p.Name && m.Drifted == "" && m.Phase.Live() {
			there++
		}
	}
	return max(p.Disruption.Rollout.Canary.Machines-there, 0), true
}

// Renews reports whether spares of the pool that drifted are replaced. Until then they are as good
// as any: while it keeps what drifted, makes no machines, or has its rollout wait or watch its
// canary.
func (p *Pool) Renews(x *Index) bool {
	_, canary := p.RollsFirst(x)
	return p.Disruption.Drift == DriftReplace && p.Shut() == nil && p.RollsNone() == nil && !canary
}

// RollsBeside is how many machines may exist beside those that they replace, of so many that have
// joined, and whether that is limited.
func (p *Pool) RollsBeside(joined int) (surge int, limited bool) {
	by := p.Disruption.Rollout
	if by == nil || by.Surge == nil {
		return 0, false
	}
	return by.Surge.Of(joined), true
}
