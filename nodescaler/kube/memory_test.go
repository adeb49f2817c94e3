package kube

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
)

func TestWriterOfReplicasIsKnown(t *testing.T) {
	entry := func(manager, fields string, minute int) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC))
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const replicas, others = `{"f:spec":{"f:replicas":{}}}`, `{"f:spec":{"f:template":{}},"f:status":{"f:replicas":{}}}`
	for _, c := range []struct {
		name   string
		fields []metav1.ManagedFieldsEntry
		want   writer
	}{
		{"no manager", nil, writer{}},
		{"one manager", []metav1.ManagedFieldsEntry{entry("kubectl", replicas, 1), entry("controller", others, 2)}, writer{name: "kubectl"}},
		{"the last", []metav1.ManagedFieldsEntry{entry("kubectl", replicas, 3), entry("helm", replicas, 2)}, writer{name: "kubectl"}},
		{"ours", []metav1.ManagedFieldsEntry{entry(fieldManager, replicas, 1)}, writer{ours: true, name: fieldManager}},
		{"ours and the same of another client", []metav1.ManagedFieldsEntry{entry(fieldManager, replicas, 1), entry("helm", replicas, 2)}, writer{ours: true, name: "helm"}},
		{"unreadable", []metav1.ManagedFieldsEntry{entry("kubectl", `{`, 1), {Manager: "old"}}, writer{}},
	} {
		if got := writerOfReplicas(c.fields); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Scenario 38: three within ten minutes, and nothing is written any more.
func TestScenario38ThirdForeignWriteIsAFight(t *testing.T) {
	now := time.Now()
	after := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	wla := autoscaler("web", v1alpha1.ModeActive)
	m := newMeddling()
	fights := func(at time.Time, w *v1alpha1.WorkloadAutoscaler) bool {
		f, ok := m.finding(w, at)
		return ok && f.Code == v1alpha1.ReasonForeignWrites && strings.Contains(f.Text, "kubectl")
	}
	m.saw(wla, "kubectl", 1, 2, after(0))
	m.saw(wla, "kubectl", 2, 3, after(5))
	m.saw(wla, "kubectl", 3, 4, after(11)) // the first is too long ago
	if fights(after(11), wla) {
		t.Error("two within ten minutes are a fight")
	}
	m.saw(wla, "kubectl", 4, 5, after(12))
	if !fights(after(12), wla) || !fights(after(71), wla) || fights(after(72), wla) {
		t.Error("three within ten minutes are a fight, for an hour")
	}
	m.saw(wla, "kubectl", 5, 6, after(60))
	if !fights(after(119), wla) || fights(after(121), wla) {
		t.Error("the hour begins with the last")
	}
	edited := wla.DeepCopy()
	edited.Generation++
	if fights(after(61), edited) {
		t.Error("an edit does not forgive")
	}
}

func TestWritesBesideARecommendationAreNoFight(t *testing.T) {
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeRecommend, v1alpha1.ModePaused} {
		wla, m := autoscaler("web", mode), newMeddling()
		for i := range 5 {
			m.saw(wla, "hpa", i, i+1, time.Now())
		}
		if f, ok := m.finding(wla, time.Now()); ok {
			t.Errorf("%s: %+v", mode, f)
		}
	}
}

// Replicas of an object that was applied without them have no manager, even after a write to the
// scale.
func TestOurWritesAreNoFightWhereReplicasHaveNoManager(t *testing.T) {
	for _, tt := range []struct {
		name         string
		leads        bool
		owner        string
		ours, theirs int // how many writes
		fights       bool
	}{
		{name: "our own", leads: true, ours: 5},
		{name: "those of the one who leads", ours: 5},
		{name: "those of a client without a name", leads: true, theirs: 3, fights: true},
		{name: "those of a client with a name, on a standby", owner: "kubectl", theirs: 3, fights: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := (&site{}).port(t, Active)
			c.observes(t)
			if tt.leads {
				c.leads(0)
			}
			at := func(replicas int) *scaled {
				return &scaled{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, kind: "Deployment", replicas: replicas, writer: writer{name: tt.owner}}
			}
			for n := range tt.ours {
				if tt.leads {
					c.meddling.wrote("wla-web", n+2)
				}
				c.scaleChanged(at(n+1), at(n+2))
			}
			for n := range tt.theirs {
				c.scaleChanged(at(n+1), at(n+2))
			}
			if _, fights := c.meddling.finding(autoscaler("web", v1alpha1.ModeActive), time.Now()); fights != tt.fights {
				t.Errorf("a fight: %v, want %v", fights, tt.fights)
			}
		})
	}
}

// The writer of a scale that is not watched is unknown.
func TestReplicasThatWeDidNotWriteAreForeign(t *testing.T) {
	wla, m, now := autoscaler("web", v1alpha1.ModeActive), newMeddling(), time.Now()
	for _, n := range []int{2, 2, 3, 3, 4} { // the first is what was there
		m.read(wla, n, now)
		m.wrote(wla.UID, n+1) // which the next reading shows, or not
	}
	if _, ok := m.finding(wla, now); ok {
		t.Error("our own writes are a fight")
	}
	for _, n := range []int{9, 7, 9} {
		m.read(wla, n, now)
	}
	if f, ok := m.finding(wla, now); !ok {
		t.Errorf("%+v", f)
	}
	m.forget(map[types.UID]bool{})
	if len(m.by)+len(m.seen)+len(m.written) > 0 {
		t.Error("an autoscaler that is gone is remembered")
	}
}

func TestFightOutlivesARestart(t *testing.T) {
	now := time.Now()
	wla := autoscaler("web", v1alpha1.ModeActive)
	wla.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionConflicted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonForeignWrites, Message: "another client",
		ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(now.Add(-20 * time.Minute)),
	}}
	m := newMeddling()
	if _, ok := m.finding(wla, now); !ok {
		t.Error("forgotten")
	}
	if _, ok := m.finding(wla, now.Add(41*time.Minute)); ok {
		t.Error("longer than an hour")
	}
	wla.Generation = 2
	if _, ok := newMeddling().finding(wla, now); ok {
		t.Error("an edit does not forgive")
	}
}

func TestBudgetsAreShared(t *testing.T) {
	aBudget := func(name string, allowed int, selector string) *disruption {
		o, err := keepDisruption(object[policyv1.PodDisruptionBudget](t, `{metadata: {namespace: shop, name: `+name+`}, spec: {selector: `+selector+`},
  status: {disruptionsAllowed: `+strconv.Itoa(allowed)+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		return o.(*disruption)
	}
	aPod := func(name, workload, labels string) (*pod, nodescaler.Pod) {
		p := keptPod(t, `{metadata: {namespace: shop, name: `+name+`, labels: `+labels+`, `+owned+`}}`)
		said := p.said
		said.Workload = workload
		return p, said
	}
	o, _ := keepDisruption(object[policyv1.PodDisruptionBudget](t, `{metadata: {namespace: shop, name: d, generation: 2}, spec: {selector: {}}, status: {disruptionsAllowed: 5, observedGeneration: 1}}`))
	outdated := o.(*disruption)
	for _, c := range []struct {
		name   string
		all    []*disruption
		want   []nodescaler.Budget
		pinned string
	}{
		{name: "none", want: []nodescaler.Budget{}},
		{name: "on one workload", all: []*disruption{aBudget("b", 2, `{matchLabels: {app: a}}`)}, want: []nodescaler.Budget{{Workload: "a", Allowed: 2}}},
		{name: "on part of one", all: []*disruption{aBudget("b", 2, `{matchLabels: {app: a, v: "1"}}`)}, want: []nodescaler.Budget{{Workload: "a", Allowed: 2}}},
		{name: "on two", all: []*disruption{aBudget("b", 2, `{matchExpressions: [{key: app, operator: Exists}]}`)}, want: []nodescaler.Budget{{Workload: "a", Allowed: 1}, {Workload: "b", Allowed: 1}}},
		{name: "on two, used up", all: []*disruption{aBudget("b", 0, `{}`)}, want: []nodescaler.Budget{{Workload: "a"}, {Workload: "b"}}},
		{name: "on two parts of one", all: []*disruption{aBudget("b", 3, `{matchLabels: {app: a, v: "1"}}`), aBudget("c", 1, `{matchLabels: {app: a, v: "2"}}`)}, want: []nodescaler.Budget{{Workload: "a", Allowed: 1}}},
		{name: "twice on one pod", all: []*disruption{aBudget("b", 3, `{matchLabels: {app: b}}`), aBudget("c", 2, `{matchLabels: {app: b}}`)}, want: []nodescaler.Budget{{Workload: "b", Allowed: 2}},
			pinned: "covered by two disruption budgets, b and c: the API server evicts no such pod"},
		{name: "without a selector", all: []*disruption{aBudget("b", 3, `null`)}, want: []nodescaler.Budget{}},
		{name: "whose number is old", all: []*disruption{outdated}, want: []nodescaler.Budget{{Workload: "a"}, {Workload: "b"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var kept []*pod
			var said []nodescaler.Pod
			for _, p := range [][3]string{{"a-1", "a", `{app: a, v: "1"}`}, {"a-2", "a", `{app: a, v: "2"}`}, {"b-1", "b", `{app: b}`}} {
				k, s := aPod(p[0], p[1], p[2])
				kept, said = append(kept, k), append(said, s)
			}
			elsewhere := keptPod(t, `{metadata: {namespace: other, name: a, labels: {app: a}}}`)
			kept, said = append(kept, elsewhere), append(said, elsewhere.said)
			if diff := cmp.Diff(c.want, budgets(c.all, kept, said)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if said[2].Pinned != c.pinned {
				t.Errorf("pinned %q, want %q", said[2].Pinned, c.pinned)
			}
		})
	}
}

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
	waiting, placed := &pod{}, &pod{}
	waiting.said.Unschedulable = true
	daemon := &pod{}
	daemon.said.Unschedulable, daemon.said.Daemon = true, true
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
		c.podCame(s.before, s.after, s.first)
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
