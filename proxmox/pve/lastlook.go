package pve

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// Between the decision that a machine goes and the call that ends it lie moments or hours, in which
// all that it was decided by may have become untrue. So it is looked at once more, immediately
// before each such call: at its nodes and their pods, at its mark and UUID, at its drives. What
// speaks against it is waited for; silence does not, and is what the brake is for.

const (
	// lookWithin is how long a last look is waited for.
	lookWithin = 10 * time.Second
	// podsPatience is how long a machine whose node holds pods waits for them to go. Whoever
	// drained it believes that it is empty, and can only see that it is not when it is a node
	// again.
	podsPatience = 2 * time.Minute
	// frozenRest is how long a machine that the brake holds is left alone, unless its node is seen
	// to be back.
	frozenRest = 5 * time.Minute
)

// deferring are the problems that keep a machine from being stopped or destroyed.
var deferring = []string{
	CodeBraked, CodeNodeHoldsPods, CodeStrangeDevice, CodeLastLookFailed,
	nodescaler.LocalVolume, nodescaler.DuplicateNode, nodescaler.NodeContradicts,
}

// end is how a machine goes.
type end string

const (
	endDrained   end = "drained"   // nothing runs there any more, or it was decided before
	endUndrained end = "undrained" // what ran there may run still
	endNever     end = "never"     // it was no node, as far as is known
	endFull      end = "full"      // its node is ready and holds pods
)

// ending is what a last look shows of a machine that is to go.
type ending struct {
	ready   bool // its node
	pods    int  // that the node holds
	forced  bool // it is to go with its pods
	decided bool // it was shut down or stopped already
	rested  bool // it does not run, and was emptied before it was stopped
	was     bool // it was a node once, as far as is known
}

func (e ending) end() end {
	switch {
	case e.ready && e.pods > 0 && !e.forced:
		return endFull
	case e.decided, e.ready && e.pods == 0, e.rested:
		return endDrained
	case !e.was && !e.ready:
		return endNever
	}
	return endUndrained
}

// ran reports whether the machine was ever started. Unknown is yes, as it is of one that was found
// configured and stopped.
func (i *Intent) ran() bool {
	return !i.Step.before(StepStarted) || !i.Joined.IsZero() || !i.Woken.IsZero() || i.Adopted && !i.Step.before(StepConfigured)
}

// wasNode reports whether the machine had a node that was ready. Unknown is yes: of one that was
// found running, and of one that joined before the process began.
func (m *tracked) wasNode() bool {
	return (!m.Joined.IsZero() || m.Adopted && m.ran()) && !m.unready
}

// lastLook looks at a machine immediately before it is shut down, stopped or destroyed, and reports
// whether it may be.
func (w leaving) lastLook(ctx context.Context, c *pveapi.VMConfig, status pveapi.VMStatus) bool {
	if !w.i.ran() {
		return true
	}
	strange := w.strange(c)
	sight, err := w.sight(ctx)
	w.mu.Lock()
	defer w.records.unlock()
	was := w.m.Intent.clone()
	may := false
	switch {
	case len(strange) > 0:
		w.wait(reason(CodeStrangeDevice, "VM %d has what its order did not make: %s", w.i.VMID, list(strange)), takeOut(w.i.VMID, strange))
	case err != nil && w.m.wasNode():
		w.wait(reason(CodeLastLookFailed, "what its node holds cannot be read: %v", err), "nothing is stopped or destroyed unseen: look at the way to the API server")
	case err != nil || sight == nil:
		may = true
	default:
		may = w.mayEnd(sight, status)
	}
	if may && slices.Contains(deferring, w.m.problem.Code) {
		w.m.problem, w.m.tries = nodescaler.Reason{}, 0
	}
	if changed(&was, &w.m.Intent) {
		_ = w.records.keep(w.m) // noted there, and kept again before the next move
	}
	return may
}

// sight asks what nodes a machine has; nil if there is no API server to ask and nothing is known.
func (w leaving) sight(ctx context.Context) (*nodescaler.Sight, error) {
	w.mu.Lock()
	self := w.members.self(w.m)
	var known *nodescaler.Sight
	if w.members.nodes != nil {
		known = &nodescaler.Sight{}
		for _, n := range w.members.nodes {
			if slices.ContainsFunc(w.members.match.ids.Of(n.identity()).Named, func(m *nodescaler.Machine) bool { return m.Name == self.Name }) {
				known.Nodes = append(known.Nodes, nodescaler.SeenNode{Identity: n.identity(), Ready: n.Ready})
			}
		}
	}
	w.mu.Unlock()
	if w.cfg.LastLook == nil {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	s, err := w.cfg.LastLook(ctx, nodescaler.Identity{Name: self.Name, ProviderID: self.ProviderID, SystemUUID: self.SystemUUID, Machine: self.Name})
	return &s, err
}

// wait leaves a machine for a while, for a reason that passes or that a person can do away with.
func (w leaving) wait(r nodescaler.Reason, advice string) { w.records.retry(w.m, r, advice) }

// mayEnd reports whether what was seen of a machine's nodes lets it be stopped or destroyed.
func (w leaving) mayEnd(s *nodescaler.Sight, status pveapi.VMStatus) bool {
	m := w.m
	var said []nodescaler.Identity
	e := ending{
		forced: m.Forced, decided: m.Exit != ExitNone, was: m.wasNode(),
		rested: status.Status != "running" && (!m.Stashed.IsZero() || !m.Woken.IsZero() && m.Step.before(StepStarted)),
	}
	var full string
	for _, n := range s.Nodes {
		said = append(said, n.Identity)
		if len(n.LocalClaims) > 0 {
			w.wait(reason(nodescaler.LocalVolume, "node %s keeps the volume of claim %s on its own disk", n.Name, n.LocalClaims[0]),
				"move or delete what the claim holds, or say on the claim that it may be lost")
			return false
		}
		e.ready, e.pods = e.ready || n.Ready, e.pods+len(n.Pods)
		if len(n.Pods) > 0 {
			full = n.Name + " holds " + n.Pods[0]
		}
	}
	if r := w.members.contradicted(m); r != nil {
		m.problem, m.since = *r, w.now // it was said when it was seen
		w.records.pause(m, time.Minute)
		return false
	}
	if r, held := w.members.match.ids.Contradictions(said)[m.Name]; held {
		w.wait(r, "nothing stops or destroys it until that is settled")
		return false
	}
	switch e.end() {
	case endFull:
		w.waitForPods(full, e.pods, status)
		return false
	case endNever:
		return w.mayFail()
	case endUndrained:
		return w.brakes(e.ready)
	case endDrained:
	}
	m.Frozen = time.Time{}
	return true
}

// waitForPods waits for the pods of a node that is ready, and gives the machine back to the cluster
// when they stay.
func (w leaving) waitForPods(full string, pods int, status pveapi.VMStatus) {
	m := w.m
	patient := m.problem.Code != CodeNodeHoldsPods || w.watch.since(m.since) < podsPatience
	r := reason(CodeNodeHoldsPods, "node %s, and %d pods in all", full, pods)
	if patient || status.Status != "running" || m.Exit != ExitNone && m.Exit != ExitShutdown {
		w.wait(r, "")
		return
	}
	w.records.revoke(m, r)
}

// mayFail lets a machine go that was no node, unless it is doubtful whether nodes are shown as they
// are.
func (w leaving) mayFail() bool {
	b, away := w.holds.brake(w.m)
	if !b.frozen && away <= b.pool.most(brakePool) {
		return true
	}
	w.wait(reason(CodeBraked, "it is not known to have been a node, and %d others of pool %s are away that were: %s", away, w.i.Pool, "the list of nodes may not be what it should be"),
		resumeBy(w.i.Pool))
	return false
}

// brakes lets a machine go undrained that may, and freezes the pool when it may not.
func (w leaving) brakes(ready bool) bool {
	m := w.m
	asked := m.Returned
	if asked.IsZero() {
		asked = m.Stashed
	}
	b, _ := w.holds.brake(m)
	switch {
	case !m.Undrained.IsZero() && !m.Undrained.Before(asked): // the process died before it was shut down
	case !m.Resumed.IsZero() || !b.holds():
		m.Undrained = w.cfg.Now()
		w.records.say(m, reason(CodeUndrained, "it goes without a drain: %s; %d of %d machines of pool %s do so within an hour, of at most %d",
			emptiness(ready), b.pool.gone+1, b.pool.machines, m.Pool, b.pool.most(brakePool)), "")
	default:
		if !b.frozen {
			w.records.say(m, reason(CodeBraked, "one more of %d machines of pool %s would go without a drain, after %d within an hour, of at most %d, and %d in all pools, of at most %d: %s; none goes that way now",
				b.pool.machines, m.Pool, b.pool.gone, b.pool.most(brakePool), b.all.gone, b.all.most(brakeAll), emptiness(ready)), resumeBy(m.Pool))
		}
		if m.Frozen.IsZero() {
			m.Frozen = w.cfg.Now()
		}
		m.Silent = !ready
		w.records.pause(m, frozenRest)
		return false
	}
	m.Frozen, m.problem = time.Time{}, nodescaler.Reason{}
	return true
}

func emptiness(ready bool) string {
	if ready {
		return "its node holds pods"
	}
	return "its node is away or not ready"
}

// resumeBy is what a person can do about a pool that is frozen.
func resumeBy(pool string) string {
	return "look whether its nodes are shown as they are; when they are back it goes on by itself, and plimsoll resume --pool " + pool + " lets those go that wait now"
}

// brake is what the brake goes by for a machine, and how many others that were nodes are none now.
func (hs *holds) brake(m *tracked) (b brake, away int) {
	for _, o := range hs.roster.machines {
		of := tally{}
		if o != m && hs.undrained(o) {
			of.gone = 1
		}
		if (o.Gone.IsZero() || of.gone > 0) && o.wasNode() {
			of.machines = 1
		}
		b.all = b.all.plus(of)
		if o.Pool != m.Pool {
			continue
		}
		b.pool = b.pool.plus(of)
		if !o.Gone.IsZero() || of.machines == 0 {
			continue
		}
		_, node := hs.members.nodeOf(o)
		b.frozen = b.frozen || !o.Frozen.IsZero()
		if o != m && hs.members.nodes != nil && !node && o.Stashed.IsZero() && o.Exit == ExitNone {
			away++
		}
	}
	return b, away
}

// undrained reports whether a machine went without a drain within the last hour.
func (hs *holds) undrained(m *tracked) bool {
	return !m.Undrained.IsZero() && hs.watch.since(m.Undrained) < brakeWindow
}

// silent reports whether a machine that was a node is seen to be none now.
func (hs *holds) silent(m *tracked) bool {
	n, _ := hs.members.nodeOf(m)
	return m.wasNode() && m.Stashed.IsZero() && hs.members.nodes != nil && !n.Ready
}

// settleSilent revokes that a machine is to go since its node was away, when that is ready again.
func (st *settler) settleSilent(m *tracked) {
	n, there := st.members.nodeOf(m)
	if !m.Silent || m.Returned.IsZero() && m.Stashed.IsZero() || m.Exit != ExitNone || !there || !n.Ready || st.members.contradicted(m) != nil {
		return
	}
	st.records.revoke(m, reason(CodeRevoked, "node %s is ready", n.Name))
}

// heldBy is why nothing stops or destroys a machine now, or nil.
func (hs *holds) heldBy(m *tracked) *nodescaler.Reason {
	switch belongs, contradicted := hs.ownership.holding(m), hs.members.contradicted(m); {
	case m.Held != nil:
		return m.Held
	case m.Step == StepOrdered:
		return nil // there is nothing, or nothing any more
	case belongs != nil:
		return belongs
	case contradicted != nil:
		return contradicted
	case !m.Frozen.IsZero():
		r := hs.roster.braked(m.Pool)
		return &r
	case slices.Contains(deferring, m.problem.Code) && !(m.Returned.IsZero() && m.Stashed.IsZero()): // else it is of before
		r := m.problem
		return &r
	}
	return nil
}

// braked is what is said of a pool that the brake holds.
func (ro *roster) braked(pool string) nodescaler.Reason {
	n := 0
	for _, m := range ro.machines {
		if m.Pool == pool && m.Gone.IsZero() && !m.Frozen.IsZero() {
			n++
		}
	}
	return reason(CodeBraked, "%d machines of pool %s are to go without a drain that emptied them, more than may within an hour, and none does; %s", n, pool, resumeBy(pool))
}

// Braked returns the pools of which no machine goes undrained, because too many would have, with
// why.
func (f *Fleet) Braked() map[string]nodescaler.Reason {
	f.mu.Lock()
	defer f.mu.Unlock()
	braked := map[string]nodescaler.Reason{}
	for _, m := range f.roster.machines {
		if _, known := braked[m.Pool]; !known && m.Gone.IsZero() && !m.Frozen.IsZero() {
			braked[m.Pool] = f.roster.braked(m.Pool)
		}
	}
	return braked
}

// letAllGo lets machines of pools go that were resumed since the brake has held them.
func (hs *holds) letAllGo(pools []settings.Pool) error {
	for _, p := range pools {
		if err := hs.letGo(p.Name, p.Resumed); err != nil {
			return err
		}
	}
	return nil
}

// letGo lets machines go that the brake has held since before a person said so.
func (hs *holds) letGo(pool string, said time.Time) error {
	let := 0
	for _, m := range hs.roster.sorted() {
		if m.Pool != pool || m.Frozen.IsZero() || !m.Gone.IsZero() || m.Frozen.After(said) {
			continue
		}
		i := m.Intent.clone()
		i.Frozen, i.Silent, i.Resumed = time.Time{}, false, hs.cfg.Now()
		if err := hs.records.store.Put(i); err != nil {
			m.unsaved = true
			return fmt.Errorf("keep that %s may go: %w", m.Name, err)
		}
		m.Frozen, m.Silent, m.Resumed, m.rest = i.Frozen, i.Silent, i.Resumed, time.Time{}
		let++
	}
	if let > 0 {
		hs.records.events = append(hs.records.events, Event{At: hs.cfg.Now(), Code: CodePoolResumed, Text: fmt.Sprintf("a person lets %d machines go without a drain", let), Pool: pool})
		hs.records.nudge()
	}
	return nil
}

// shown is the phase that others see: one that the brake holds is what it was before it was to go.
func (m *tracked) shown() nodescaler.Phase {
	if m.Frozen.IsZero() {
		return m.phase()
	}
	i := m.Intent
	i.Returned, i.Stashed = time.Time{}, time.Time{}
	return i.phase()
}
