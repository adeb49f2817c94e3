package pve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// longPause is how long a machine that waits for a person is left alone.
const longPause = 30 * time.Second

// doLeave takes a machine that was reclaimed one call further out: shut down, stopped, destroyed.
// Each of these calls has its own proof, read immediately before it: what was true a moment ago is
// how strangers' machines are lost.
func (w leaving) doLeave(ctx context.Context) {
	c, status, v, wrong, ok := w.prove(ctx)
	if !ok {
		return
	}
	if v == provedCloned && c.Protection && c.Lock == "" {
		w.unprotect(ctx, c)
		return
	}
	if w.mayNot(c, status, v, wrong) || !w.lastLook(ctx, c, status) {
		return
	}
	if status.Status != "running" {
		w.destroy(ctx)
		return
	}
	w.halt(ctx, status.HAManaged)
}

// prove reads all that must be known of a machine before it is stopped.
func (w leaving) prove(ctx context.Context) (c *pveapi.VMConfig, status pveapi.VMStatus, v verdict, wrong []string, ok bool) {
	c, v, wrong, err := w.inspect(ctx)
	if uuid := machineUUID(w.cfg.Owner, w.i.Order); err == nil && v == provedCloned && !w.i.Step.Before(intents.StepConfigured) && !strings.EqualFold(c.UUID, uuid) {
		v, wrong = doubtful, []string{fmt.Sprintf("its system UUID is %s, not %s, as it was when it was configured", cmp.Or(c.UUID, "empty"), uuid)}
	}
	if err == nil {
		status, err = w.vm().Status(ctx)
	}
	if err != nil {
		w.done(func() {
			if pveapi.Is(err, pveapi.Absent) {
				w.records.pause(w.m, lookGap)
				return
			}
			w.callFailed(err)
		})
	}
	return c, status, v, wrong, err == nil
}

// unprotect takes away the protection that a clone has from its template, which was not meant for
// it. One that was configured has only what a person gave it.
func (w leaving) unprotect(ctx context.Context, c *pveapi.VMConfig) {
	err := w.vm().SetConfig(ctx, map[string]string{"protection": "0"}, nil, c.Digest)
	w.done(func() {
		if err != nil {
			w.callFailed(err)
		}
	})
}

// mayNot notes why a machine is not to be stopped or destroyed, if there is a reason.
func (w leaving) mayNot(c *pveapi.VMConfig, status pveapi.VMStatus, v verdict, wrong []string) bool {
	m := w.m
	stop := true
	w.done(func() {
		switch {
		case v == stranger && w.i.Exit == intents.ExitDestroy:
			w.records.gone(m, "it was destroyed, and its VMID is another VM's now")
		case v == stranger || v == doubtful:
			w.doubt(wrong)
		case v == unproved && (c.Lock == "clone" || c.Lock == "create"):
			if m.doubted.IsZero() {
				m.doubted = w.now
			}
			making(w).cloning(w.watch.since(m.doubted))
		case v == unproved:
			w.records.retry(m, reason(pvecode.Retry, "%s", list(wrong)), "")
		case c.Lock != "" || status.Lock != "":
			w.locked(cmp.Or(c.Lock, status.Lock))
		case status.HAManaged && w.cfg.HA == settings.HAWait:
			w.records.noteProblem(m, reason(pvecode.HAManaged, "VM %d was put under high availability", m.VMID), "ha-manager remove vm:"+itoa(m.VMID))
			w.records.pause(m, longPause)
		case c.Protection:
			w.records.noteProblem(m, reason(pvecode.Protected, "VM %d was protected by hand", m.VMID), "if it may go: qm set "+itoa(m.VMID)+" --protection 0")
			w.records.pause(m, longPause)
		default:
			stop = false
		}
	})
	return stop
}

// lockedFor is how long a machine may be locked without a report. A task that was killed, as
// by a host that went down, leaves its lock for ever.
const lockedFor = 10 * time.Minute

// locked waits for whoever has locked the machine.
func (w leaving) locked(by string) {
	m := w.m
	why := reason(pvecode.Retry, "VM %d is locked (%s)", m.VMID, by)
	if m.problem.Code == pvecode.Locked || m.problem == why && w.watch.since(m.since) >= lockedFor {
		why.Code = pvecode.Locked
	}
	w.records.retry(m, why, "if no task works on it any more: qm unlock "+itoa(m.VMID))
}

// haStops is how long high availability may take to hear of a shutdown, and to end it.
const haStops = 2 * time.Minute

// halt lets a guest shut down that was a node, and stops all others and those that did not go. With
// high availability the task of a shutdown ends before the shutdown begins, and a stop right after
// it would leave the guest no time.
func (w leaving) halt(ctx context.Context, managed bool) {
	was := w.i.Exit
	if managed && was == intents.ExitShutdown && w.watch.since(w.i.Since) < time.Duration(w.p.ShutdownGrace)+haStops {
		w.done(func() { w.records.pause(w.m, lookGap) })
		return
	}
	if !w.i.Joined.IsZero() && was == intents.ExitNone && w.i.Failed == nil {
		if !w.before(func() { w.m.Exit, w.m.Since = intents.ExitShutdown, w.now }) {
			return
		}
		upid, err := w.vm().Shutdown(ctx, time.Duration(w.p.ShutdownGrace), false)
		w.done(func() { w.askedOut(upid, intents.TaskShutdown, err) })
		return
	}
	if !w.before(func() { w.m.Exit = intents.ExitStop }) {
		return
	}
	// A shutdown that hangs would keep the stop waiting for its lock.
	upid, err := w.vm().Stop(ctx, was == intents.ExitShutdown && !managed)
	w.done(func() { w.askedOut(upid, intents.TaskStop, err) })
}

func (w leaving) destroy(ctx context.Context) {
	if !w.before(func() { w.m.Exit = intents.ExitDestroy }) {
		return
	}
	upid, err := w.vm().Destroy(ctx, true)
	w.done(func() {
		w.askedOut(upid, intents.TaskDestroy, err)
		if err == nil {
			w.records.say(w.m, reason(pvecode.DestroyAsked, "it is proved to be ours and stopped"), "")
		}
	})
}

// askedOut notes what the server said to an order on the way out; it is given again until done.
func (w leaving) askedOut(upid pveapi.UPID, kind intents.TaskKind, err error) {
	if err == nil {
		w.follow(upid, kind)
		return
	}
	w.callFailed(err)
}

// Between the decision that a machine goes and the call that ends it lie moments or hours, in which
// all that it was decided by may have become untrue. So it is looked at once more, immediately
// before each such call: at its nodes and their pods, at its mark and UUID, at its drives. What
// speaks against it is waited for; silence does not, and is what the brake is for.

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
	halted  bool // it was stopped, or shut down and does not run any more
	open    bool // a node with pods takes more of them
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

// withdrawn reports whether cluster-autoscaler gave a machine back and then opened its node again,
// as it does when it hears no answer. What came to the node since is not to go with it, nor what
// came to one whose guest did not shut down.
func (e ending) withdrawn() bool { return e.forced && !e.halted && e.open }

// lastLook looks at a machine immediately before it is shut down, stopped or destroyed, and reports
// whether it may be.
func (w leaving) lastLook(ctx context.Context, c *pveapi.VMConfig, status pveapi.VMStatus) bool {
	if !w.i.Ran() {
		return true
	}
	strange := w.strange(c)
	sight, err := w.sight(ctx)
	w.mu.Lock()
	defer w.records.unlock()
	was := w.m.Intent.Clone()
	may := false
	switch {
	case len(strange) > 0:
		w.wait(reason(pvecode.StrangeDevice, "VM %d has what its order did not make: %s", w.i.VMID, list(strange)), takeOut(w.i.VMID, strange))
	case err != nil && w.m.wasNode():
		w.wait(reason(pvecode.LastLookFailed, "what its node holds cannot be read: %v", err), "nothing is stopped or destroyed unseen: look at the way to the API server")
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
		forced: m.Forced, decided: m.Exit != intents.ExitNone, was: m.wasNode(),
		halted: m.Exit != intents.ExitNone && (m.Exit != intents.ExitShutdown || status.Status != "running"),
		rested: status.Status != "running" && (!m.Stashed.IsZero() || !m.Woken.IsZero() && m.Step.Before(intents.StepStarted)),
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
			e.open = e.open || n.Ready && n.Open
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
	if e.withdrawn() {
		w.records.revoke(m, reason(pvecode.NodeHoldsPods, "node %s, which is open again since cluster-autoscaler gave it back", full))
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
	patient := m.problem.Code != pvecode.NodeHoldsPods || w.watch.since(m.since) < podsPatience
	r := reason(pvecode.NodeHoldsPods, "node %s, and %d pods in all", full, pods)
	if patient || status.Status != "running" || m.Exit != intents.ExitNone && m.Exit != intents.ExitShutdown {
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
	w.wait(reason(pvecode.Braked, "it is not known to have been a node, and %d others of pool %s are away that were: %s", away, w.i.Pool, "the list of nodes may not be what it should be"),
		resumeBy(w.i.Pool))
	return false
}

// brakes lets a machine go undrained that may, and freezes the pool when it may not.
func (w leaving) brakes(ready bool) bool {
	m := w.m
	asked := m.Returned
	if asked.IsZero() {
		asked = cmp.Or(m.Stashed, m.Rebooted)
	}
	b, _ := w.holds.brake(m)
	switch {
	case !m.Undrained.IsZero() && !m.Undrained.Before(asked): // the process died before the call
	case !m.Resumed.IsZero() || !b.holds():
		m.Undrained = w.cfg.Now()
		w.records.say(m, reason(pvecode.Undrained, "it goes without a drain: %s; %d of %d machines of pool %s do so within an hour, of at most %d",
			emptiness(ready), b.pool.gone+1, b.pool.machines, m.Pool, b.pool.most(brakePool)), "")
	default:
		if !b.frozen {
			w.records.say(m, reason(pvecode.Braked, "one more of %d machines of pool %s would go without a drain, after %d within an hour, of at most %d, and %d in all pools, of at most %d: %s; none goes that way now",
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

// A spare is a machine that was a node and is stopped. That it is to be one is written down before
// it is shut down, and that it is not to be one any more before it is started. Whoever reads the
// intent and looks stops what should be stopped and starts what should run.

const (
	// spareRest is how long a spare that could not be started says so, and is not to be tried
	// again.
	spareRest = 5 * time.Minute
	// maxMisses is how often in a row that may be before it is taken to be broken.
	maxMisses = 3
	// missedAfter is how long the cluster may go on believing in a node that is gone.
	missedAfter = time.Minute
)

func (w leaving) do(ctx context.Context, mv move) {
	switch {
	case mv == moveStash:
		w.doStash(ctx)
	case mv == moveRevive:
		w.doRevive(ctx)
	default:
		w.doLeave(ctx)
	}
}

// doStash proves that a machine is ours and shuts it down, to be kept or to be started again.
func (w leaving) doStash(ctx context.Context) {
	c, status, v, wrong, ok := w.prove(ctx)
	if !ok || w.mayNot(c, status, v, wrong) {
		return
	}
	if status.Status != "running" {
		w.done(func() { w.records.pause(w.m, lookGap) }) // the list does not show it yet
		return
	}
	if w.lastLook(ctx, c, status) {
		w.halt(ctx, status.HAManaged)
	}
}

// putBack makes a machine that could not be started the spare that it was. Whoever wanted it sees
// that, and orders another.
func (w making) putBack(r nodescaler.Reason) {
	m := w.m
	m.Misses++
	if m.Misses >= maxMisses {
		w.records.fail(m, reason(r.Code, "%s, for the %dth time in a row", r.Text, m.Misses), "")
		return
	}
	m.Stashed, m.Step, m.Since, m.Task = w.now, intents.StepTidied, w.now, nil
	m.conf, m.tries, m.rest = nil, 0, time.Time{}
	w.records.noteProblem(m, r, "")
	w.records.say(m, reason(pvecode.NotWoken, "%s: %s", r.Code, r.Text), "")
}
