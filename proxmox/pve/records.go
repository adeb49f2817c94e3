package pve

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
)

// records keep intents and what happened: they move a machine on, have it wait, fail or held, and
// note the events for who reports them.
type records struct {
	mu      *guard
	telling sync.Mutex // held while events are reported, in order
	report  func(Event)
	lead    func(Lead)
	listed  *loop.MachineState // what List answers; nil since something has changed

	store  intents.Store
	clock  func() time.Time
	chance *rand.Rand
	wake   chan struct{}
	events []Event
	leads  []Lead
	counts map[string]int // events by code
}

// unlock ends a change and reports what happened in it.
func (rs *records) unlock() {
	rs.listed = nil
	rs.telling.Lock()
	events, leads := rs.events, rs.leads
	rs.events, rs.leads = nil, nil
	rs.mu.Unlock()
	for _, e := range events {
		rs.report(e)
	}
	for _, l := range leads {
		rs.lead(l)
	}
	rs.telling.Unlock()
}

// say notes what happened, about a machine if there is one.
func (rs *records) say(m *tracked, r nodescaler.Reason, advice string) {
	e := Event{At: rs.clock(), Code: r.Code, Text: r.Text, Advice: advice}
	if m != nil {
		e.Machine, e.Pool, e.Host, e.VMID = m.Name, m.Pool, m.Host, m.VMID
	}
	rs.counts[r.Code]++
	rs.events = append(rs.events, e)
}

func (rs *records) sayOfPool(pool string, r nodescaler.Reason, advice string) {
	rs.counts[r.Code]++
	rs.events = append(rs.events, Event{At: rs.clock(), Code: r.Code, Text: r.Text, Advice: advice, Pool: pool})
}

// noteProblem notes what is in a machine's way, and reports it when it is news.
func (rs *records) noteProblem(m *tracked, r nodescaler.Reason, advice string) {
	if m.problem.Code != r.Code {
		m.since = rs.clock()
		rs.say(m, r, advice)
	}
	m.problem = r
}

// keep writes the intent down. Whoever is about to make a call that it is about must not make it
// when this fails.
func (rs *records) keep(m *tracked) error {
	err := rs.store.Put(m.Intent.Clone())
	if err == nil {
		m.unsaved = false
		return nil
	}
	m.unsaved = true
	rs.noteProblem(m, reason(pvecode.IntentNotKept, "%v", err), "look whether intents can be written where they are kept")
	return err
}

// commit writes an intent down and goes by it.
func (rs *records) commit(m *tracked, i intents.Intent) error {
	if err := rs.store.Put(i); err != nil {
		m.unsaved = true // it may have been kept all the same: what is true now is written over it
		return err
	}
	m.Intent, m.unsaved = i, false
	m.tries, m.rest, m.problem = 0, time.Time{}, nodescaler.Reason{}
	rs.nudge()
	return nil
}

// nudge lets Run tick at once.
func (rs *records) nudge() { ring(rs.wake) }

// ahead takes a machine to its next step.
func (rs *records) ahead(m *tracked, s intents.Step) {
	m.Step, m.Since = s, rs.clock()
	rs.reached(m, s, m.Since)
	m.tries, m.rest, m.problem, m.doubted = 0, time.Time{}, nodescaler.Reason{}, time.Time{}
}

// reached notes that a machine is at a step, and how long it took from the one before. Who was put
// back and comes the same way again is timed from there on.
func (rs *records) reached(m *tracked, s intents.Step, at time.Time) {
	ends, is := stages[s]
	if !is || !m.Woken.IsZero() {
		return
	}
	if m.mile.step == ends.from && !m.mile.at.IsZero() {
		rs.timed(m, ends.stage, m.mile.at, at)
	}
	m.mile = milestone{s, at}
}

// readied notes that a machine's node is ready for the first time.
func (rs *records) readied(m *tracked, n *Node) {
	if m.mile.step != intents.StepJoined || !n.Ready || !m.Returned.IsZero() {
		return
	}
	now := rs.clock()
	at := now
	// It was ready before it was looked at.
	if n.ReadySince.After(m.mile.at) && n.ReadySince.Before(now) {
		at = n.ReadySince
	}
	rs.timed(m, StageReady, m.mile.at, at)
	rs.timed(m, StageAll, m.Created, at)
	m.mile = milestone{}
}

func (rs *records) timed(m *tracked, s Stage, from, to time.Time) {
	rs.leads = append(rs.leads, Lead{m.Pool, s, max(0, to.Sub(from))})
}

func (rs *records) started(m *tracked) {
	if m.rebooting() {
		rs.rebooted(m)
		return
	}
	m.Reboot = intents.RebootNone // it was made anew
	rs.ahead(m, intents.StepStarted)
	rs.say(m, reason(pvecode.Started, "%s after it was ordered", m.Since.Sub(m.Created).Round(time.Second)), "")
}

// joined notes that a machine is a node.
func (rs *records) joined(m *tracked) {
	rs.ahead(m, intents.StepJoined)
	if m.Joined.IsZero() {
		m.Joined = m.Since
	}
	if !m.Woken.IsZero() {
		m.Rejoined, m.Misses = m.Since, 0
	}
}

// revoke makes a machine a node again that was to go: its node is ready.
func (rs *records) revoke(m *tracked, why nodescaler.Reason) {
	m.Returned, m.Stashed, m.Forced, m.Exit, m.Reboot = time.Time{}, time.Time{}, false, intents.ExitNone, intents.RebootNone
	m.Failed, m.FailedAt, m.Hints = nil, time.Time{}, nil
	m.Frozen, m.Silent, m.Resumed = time.Time{}, false, time.Time{}
	m.conf = nil
	if m.Step.Before(intents.StepJoined) {
		rs.joined(m)
	}
	m.tries, m.rest, m.problem = 0, time.Time{}, nodescaler.Reason{}
	rs.say(m, reason(pvecode.Revoked, "it is a node again and is not given up: %s", why.Text), "")
}

func (rs *records) erased(m *tracked) {
	m.Disc = ""
	if m.Step == intents.StepJoined {
		rs.ahead(m, intents.StepTidied)
	}
}

// freed is what is said of a machine that was proved to be no more.
const freed = "its VMID is free"

// gone closes the intent of a machine that is proved to be no more. It stays for the cool-down of
// its VMID, of which the text says what there is to know.
func (rs *records) gone(m *tracked, text string) {
	m.Gone, m.Since, m.Task, m.conf = rs.clock(), rs.clock(), nil, nil
	m.hidden, m.tries, m.rest, m.Frozen = false, 0, time.Time{}, time.Time{}
	rs.say(m, reason(pvecode.Gone, "%s", text), "")
}

// fail says that a machine will never join.
func (rs *records) fail(m *tracked, r nodescaler.Reason, advice string) {
	if m.Failed != nil {
		return
	}
	m.Failed, m.FailedAt = &r, rs.clock()
	rs.say(m, reason(pvecode.MachineFailed, "%s: %s", r.Code, r.Text), advice)
}

// hold puts a machine into quarantine: it is not touched any more until a person has looked. What
// that one can do is kept with the reason, which is shown for as long.
func (rs *records) hold(m *tracked, r nodescaler.Reason, advice string) {
	if m.Held != nil {
		return
	}
	held := reason(r.Code, "%s; %s", r.Text, advice)
	m.Held = &held
	rs.say(m, reason(pvecode.Quarantined, "%s", r.Text), advice)
}

// retry notes that a call failed and will be made again.
func (rs *records) retry(m *tracked, r nodescaler.Reason, advice string) {
	rs.noteProblem(m, r, advice)
	m.rest = rs.clock().Add(rs.backoff(m.tries))
	m.tries++
}

// backoff is how long to wait before the n-th try: twice as long each time, and never as long as
// another client does.
func (rs *records) backoff(n int) time.Duration {
	d := min(time.Second<<min(n, 6), time.Minute)
	return d/2 + time.Duration(rs.chance.Int64N(int64(d)))
}

// pause lets a machine rest before it is looked at again, without blaming anybody.
func (rs *records) pause(m *tracked, d time.Duration) { m.rest = rs.clock().Add(d) }

// maxWhy is how much of the reasons for an order is kept with it. All intents have to fit where
// they are kept, and a policy that explains itself well takes more room than all else that is known
// of a machine.
const maxWhy = 200

// brief is the beginning of a text that is too long to be kept.
func brief(text string) string {
	if len(text) <= maxWhy {
		return text
	}
	const more = "…"
	end := maxWhy - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// ring rings a bell that need not be heard yet.
func ring(bell chan<- struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// guard is a lock on memory, which its holder gives up to readers while it writes down what it is
// about to do. Where that is written may not answer for seconds, and no reader is to wait so long
// for what is known.
type guard struct {
	change sync.Mutex // held by the one who changes something, to the end
	memory sync.Mutex // and by who reads or writes what is remembered, at this moment
}

// Lock lets no other client read or change anything.
func (g *guard) Lock() {
	g.change.Lock()
	g.memory.Lock()
}

// Unlock ends a change.
func (g *guard) Unlock() {
	g.memory.Unlock()
	g.change.Unlock()
}

// read holds what is remembered still, which may be in the middle of a change. Call what it returns
// to end that.
func (g *guard) read() (end func()) {
	g.memory.Lock()
	return g.memory.Unlock
}

// aside lets others read while the holder of the lock does something that may take long.
func (g *guard) aside(do func() error) error {
	g.memory.Unlock()
	defer g.memory.Lock()
	return do()
}

// patient are intents that are written with the lock held, and let others read meanwhile.
type patient struct {
	intents.Store
	mu *guard
}

// Put keeps an intent.
func (p patient) Put(i intents.Intent) error {
	return p.mu.aside(func() error { return p.Store.Put(i) })
}

// Remove forgets one.
func (p patient) Remove(order string) error {
	return p.mu.aside(func() error { return p.Store.Remove(order) })
}

// Lead is how long a machine took for a stage of its way from order to ready node.
type Lead struct {
	Pool  string
	Stage Stage
	Took  time.Duration
}

// Stage is a part of a machine's way from its order until its node is ready, or all of it.
type Stage string

// The stages, in their order, and the whole.
const (
	StageWait      Stage = "wait"      // until its clone is asked for: others are cloned first
	StageClone     Stage = "clone"     // until the clone is there
	StageConfigure Stage = "configure" // until disk, first-boot disc and configuration are made
	StageStart     Stage = "start"     // until it runs
	StageJoin      Stage = "join"      // until it is a node: boot and join
	StageReady     Stage = "ready"     // until the node is ready
	StageAll       Stage = "all"
	StageWake      Stage = "wake" // of a spare, until it is a node again; no part of the others
)

// Stages are all of them, the whole, and that of spares.
var Stages = []Stage{StageWait, StageClone, StageConfigure, StageStart, StageJoin, StageReady, StageAll, StageWake}

// milestone is when a step was reached that ends a stage and begins the next. It is not kept: of a
// machine whose stage was begun under another process, how long that took is not known.
type milestone struct {
	step intents.Step
	at   time.Time
}

// stages are what ends with reaching a step, and the step that it began with.
var stages = map[intents.Step]struct {
	from  intents.Step
	stage Stage
}{
	intents.StepClaimed: {intents.StepOrdered, StageWait}, intents.StepCloned: {intents.StepClaimed, StageClone}, intents.StepConfigured: {intents.StepCloned, StageConfigure},
	intents.StepStarted: {intents.StepConfigured, StageStart}, intents.StepJoined: {intents.StepStarted, StageJoin},
}

// Event is something that happened and an administrator may want to know.
type Event struct {
	At      time.Time `json:"at"`
	Code    string    `json:"code"`
	Text    string    `json:"text"`
	Machine string    `json:"machine,omitempty"`
	Pool    string    `json:"pool,omitempty"`
	Host    string    `json:"host,omitempty"`
	VMID    int       `json:"vmid,omitempty"`
	Advice  string    `json:"advice,omitempty"` // what a person can do about it
}

// String prints the event as a line.
func (e Event) String() string {
	s := e.At.UTC().Format("2006-01-02T15:04:05Z") + " " + e.Code
	if e.Machine != "" {
		s += " " + e.Machine
	}
	if e.VMID != 0 {
		s += fmt.Sprintf(" (%d on %s)", e.VMID, e.Host)
	}
	s += ": " + e.Text
	if e.Advice != "" {
		s += "; " + e.Advice
	}
	return s
}

func reason(code, format string, args ...any) nodescaler.Reason {
	return nodescaler.Reason{Code: code, Text: fmt.Sprintf(format, args...)}
}

func no(code, format string, args ...any) *nodescaler.Reason {
	r := reason(code, format, args...)
	return &r
}
