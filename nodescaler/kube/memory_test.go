package kube

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

func TestStatusIsWrittenWhenItSaysSomethingElse(t *testing.T) {
	now := time.Now()
	status := func(replicas int, reason, text string) []byte {
		return []byte(`{"currentReplicas":` + strconv.Itoa(replicas) + `,"conditions":[{"type":"Ready","status":"True","reason":"` + reason + `","message":"` + text + `"}]}`)
	}
	r := newReports()
	write := func(what []byte, is []byte, at time.Time) bool {
		if !r.due("u", what, is, at) {
			return false
		}
		r.wrote("u", what, at)
		return true
	}
	for i, c := range []struct {
		what, is []byte
		after    time.Duration
		want     bool
	}{
		{what: status(1, "A", "x"), is: []byte(`{}`), want: true},
		// The copy is stale.
		{what: status(1, "A", "x"), is: []byte(`{}`), after: time.Second, want: false},
		{what: status(2, "A", "y"), is: status(1, "A", "x"), after: 2 * time.Second, want: false},
		{what: status(2, "B", "y"), is: status(1, "A", "x"), after: 3 * time.Second, want: true},
		{what: status(3, "B", "y"), is: status(2, "B", "y"), after: 3*time.Second + r.pause("u"), want: true},
		{what: status(3, "B", "y"), is: status(3, "B", "y"), after: time.Hour, want: false},
		// Another client edited it.
		{what: status(3, "B", "y"), is: status(4, "B", "y"), after: time.Hour, want: true},
	} {
		if got := write(c.what, c.is, now.Add(c.after)); got != c.want {
			t.Errorf("%d: written %v, want %v", i, got, c.want)
		}
	}
}

// A decision is reported at once, and a recommendation when it changes.
func TestStatusReportsDecisionsAtOnce(t *testing.T) {
	const ready = `"conditions":[{"type":"Ready","status":"True","reason":"Active"}]`
	plan := func(id string, applied bool, kind, subject string) string {
		return fmt.Sprintf(`{%s,"lastPlan":{"id":%q,"applied":%v,"actions":[{"kind":%q,"subject":%q}]}}`, ready, id, applied, kind, subject)
	}
	decision := func(id string, to int) string {
		return fmt.Sprintf(`{%s,"lastDecision":{"id":%q,"action":"ScaleUp","from":2,"to":%d,"applied":true}}`, ready, id, to)
	}
	for _, c := range []struct {
		name      string
		was, what string
		want      bool
	}{
		{"the first plan", `{` + ready + `}`, plan("d-1", true, "Buy", "small w-1"), true},
		{"another machine is bought", plan("d-1", true, "Buy", "small w-1"), plan("d-2", true, "Buy", "small w-2"), true},
		{"another would be", plan("d-1", false, "Buy", "small w-1"), plan("d-2", false, "Buy", "small w-2"), false},
		{"it is carried out now", plan("d-1", false, "Buy", "small w-1"), plan("d-2", true, "Buy", "small w-1"), true},
		{"something else would be done", plan("d-1", false, "Buy", "small w-1"), plan("d-2", false, "Cordon", "w-1"), true},
		{"a decision", decision("d-1", 4), decision("d-2", 5), true},
		{"the same decision again", decision("d-1", 4), decision("d-2", 4), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, now := newReports(), time.Now()
			r.wrote("u", []byte(c.was), now)
			if got := r.due("u", []byte(c.what), []byte(c.was), now.Add(time.Second)); got != c.want {
				t.Errorf("written %v, want %v", got, c.want)
			}
		})
	}
}

func TestNumbersOfManyObjectsAreWrittenMoreRarely(t *testing.T) {
	began := time.Now()
	for _, c := range []struct {
		objects, least, most int
		oldest               time.Duration
	}{{1, 15, 40, 40 * time.Second}, {20, 300, 800, 40 * time.Second}, {1000, 800, 2400, 510 * time.Second}} {
		r, written, last := newReports(), 0, make([]time.Time, c.objects)
		for step := range 60 { // ten minutes
			at := began.Add(time.Duration(step) * 10 * time.Second)
			for i := range c.objects {
				uid, status := types.UID(strconv.Itoa(i)), []byte(fmt.Sprintf(`{"currentReplicas":%d}`, step))
				if !r.due(uid, status, nil, at) {
					continue
				}
				r.wrote(uid, status, at)
				if last[i] = at; step > 0 {
					written++
				}
			}
		}
		if written < c.least || written > c.most {
			t.Errorf("of %d objects %d were written, want from %d to %d", c.objects, written, c.least, c.most)
		}
		for i, at := range last {
			if age := began.Add(10 * time.Minute).Sub(at); age > c.oldest {
				t.Errorf("of %d objects, number %d is %s old", c.objects, i, age)
			}
		}
	}
}

func TestConditionThatLastsIsSentOnce(t *testing.T) {
	e, now := newEvents(), time.Now()
	sent := func(about, key string) bool { _, ok := e.admit("u", Event{About: about, Key: key}, now); return ok }
	for i, c := range []struct {
		about, key string
		want       bool
	}{
		{"Ready", "TargetNotFound", true}, {"Ready", "TargetNotFound", false}, {"SLOAtRisk", "TargetNotFound", true},
		{"Ready", "Active", true}, {"Ready", "TargetNotFound", true}, {"Ready", "TargetNotFound", false},
	} {
		if got := sent(c.about, c.key); got != c.want {
			t.Errorf("%d: sent %v, want %v", i, got, c.want)
		}
	}
}

func TestEventsAreFewAndNoneIsForgotten(t *testing.T) {
	e, now := newEvents(), time.Now()
	sent, unsaid := 0, 0
	for i := range 100 {
		if n, ok := e.admit("u", Event{About: "Scale", Key: strconv.Itoa(i)}, now); ok {
			sent, unsaid = sent+1, unsaid+n
		}
	}
	if sent != eventBurst || unsaid != 0 {
		t.Errorf("sent %d at once, and dropped %d of those", sent, unsaid)
	}
	n, ok := e.admit("u", Event{About: "Scale", Key: "later"}, now.Add(eventEvery+time.Second))
	if !ok || n != 100-eventBurst {
		t.Errorf("the next is sent: %v, with %d dropped", ok, n)
	}
	if _, ok := e.admit("other", Event{About: "Scale", Key: "1"}, now); !ok {
		t.Error("another object has to wait")
	}
}

// Conditions that turn are said although many machines were made before, and not without end.
func TestActionsLeaveRoomForConditions(t *testing.T) {
	e, now, turned := newEvents(), time.Now(), 0
	for i := range 100 {
		e.admit("u", Event{About: "Buy", Key: strconv.Itoa(i)}, now)
	}
	for i := range 100 {
		if _, ok := e.admit("u", Event{About: "RolledOut", Key: strconv.Itoa(i), Turned: true}, now); ok {
			turned++
		}
	}
	if turned != eventsKept {
		t.Errorf("%d conditions that turned were said, want %d", turned, eventsKept)
	}
}

func TestBellRingsAtOnceAndThenNowAndThen(t *testing.T) {
	s := newSignal(50 * time.Millisecond)
	for range 1000 {
		s.ring()
	}
	<-s.c // at once
	select {
	case <-s.c: // once more, for those after the first
	case <-time.After(time.Minute):
		t.Fatal("what came after the first was lost")
	}
	select {
	case <-s.c:
		t.Error("a third time")
	case <-time.After(200 * time.Millisecond):
	}
}

func TestOnlyPodsThatBeginToWaitWake(t *testing.T) {
	c := &Cluster{wake: newSignal(0)}
	waiting, placed := &kept.Pod{}, &kept.Pod{}
	waiting.Said.Unschedulable = true
	daemon := &kept.Pod{}
	daemon.Said.Unschedulable, daemon.Said.Daemon = true, true
	for _, s := range []struct {
		name          string
		before, after any
		first, want   bool
	}{
		{name: "comes waiting", after: waiting, want: true},
		{name: "was there at the start", after: waiting, first: true},
		{name: "begins to wait", before: placed, after: waiting, want: true},
		{name: "waits on", before: waiting, after: waiting},
		{name: "is placed", before: waiting, after: placed},
		{name: "comes with every node", before: placed, after: daemon},
		{name: "is something else", before: &corev1.Pod{}, after: &corev1.Pod{}},
	} {
		c.wake.podCame(s.before, s.after, s.first)
		rang := len(c.wake.c) > 0
		if rang {
			<-c.wake.c
		}
		if rang != s.want {
			t.Errorf("%s: rang %v, want %v", s.name, rang, s.want)
		}
	}
}

// A pod has the same event once an hour, another at once; what was long ago is forgotten.
func TestPodsHaveAnEventOnceAnHour(t *testing.T) {
	e, now := newEvents(), time.Now()
	for i, c := range []struct {
		uid, reason string
		after       time.Duration
		want        bool
	}{
		{"u", "PoolAtMax", 0, true},
		{"u", "PoolAtMax", 59 * time.Minute, false},
		{"u", "NoHostRoom", 59 * time.Minute, true},
		{"v", "PoolAtMax", 59 * time.Minute, true},
		{"u", "PoolAtMax", time.Hour, true},
		{"u", "PoolAtMax", 90 * time.Minute, false},
		{"w", "PoolAtMax", 5 * time.Hour, true},
	} {
		if is := e.again(podEvent{types.UID(c.uid), c.reason, ""}, now.Add(c.after)); is != c.want {
			t.Errorf("%d: sent %v, want %v", i, is, c.want)
		}
	}
	if len(e.pods) != 1 {
		t.Errorf("%d are remembered", len(e.pods))
	}
}
