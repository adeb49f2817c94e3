package targets

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// Scenario 38: three within ten minutes, and nothing is written any more.
func TestScenario38ThirdForeignWriteIsAFight(t *testing.T) {
	now := time.Now()
	after := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	wla := scaler("web", v1alpha1.ModeActive)
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
		wla, m := scaler("web", mode), newMeddling()
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
			c := must.Get(copies.New(&rest.Config{Host: "http://127.0.0.1:1"}, copies.Options{Log: slog.New(slog.DiscardHandler)}))(t)
			must.Do(t, c.Hold(copies.Autoscalers, scaler("web", v1alpha1.ModeActive)))
			all := New(c, func() bool { return tt.leads })
			at := func(replicas int) *kept.Scaled {
				return &kept.Scaled{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Kind: "Deployment", Replicas: replicas, Writer: kept.Writer{Name: tt.owner}}
			}
			for n := range tt.ours {
				if tt.leads {
					all.meddling.wrote("wla-web", n+2)
				}
				all.ScaleChanged(at(n+1), at(n+2))
			}
			for n := range tt.theirs {
				all.ScaleChanged(at(n+1), at(n+2))
			}
			if _, fights := all.meddling.finding(scaler("web", v1alpha1.ModeActive), time.Now()); fights != tt.fights {
				t.Errorf("a fight: %v, want %v", fights, tt.fights)
			}
		})
	}
}

// The writer of a scale that is not watched is unknown.
func TestReplicasThatWeDidNotWriteAreForeign(t *testing.T) {
	wla, m, now := scaler("web", v1alpha1.ModeActive), newMeddling(), time.Now()
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
	wla := scaler("web", v1alpha1.ModeActive)
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

func scaler(name string, mode v1alpha1.Mode) *v1alpha1.WorkloadAutoscaler {
	return &v1alpha1.WorkloadAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("wla-" + name), Generation: 1},
		Spec: v1alpha1.WorkloadAutoscalerSpec{
			Mode: mode, ScaleTargetRef: v1alpha1.ScaleTargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
		},
	}
}

func TestAPauseThatIsOverForbidsNoWrite(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		paused, until string
		want          bool
	}{
		{"", "", false},
		{"", "2026-03-01T13:00:00Z", false},
		{"true", "", true},
		{"true", "2026-03-01T13:00:00Z", true},
		{"true", "2026-03-01T12:00:00Z", false},
		{"true", "at noon", true},
		{"up", "", false}, // which the scaler sees to
	} {
		said := map[string]string{}
		if c.paused != "" {
			said[v1alpha1.AnnotationPaused] = c.paused
		}
		if c.until != "" {
			said[v1alpha1.AnnotationPausedUntil] = c.until
		}
		if got := pausedAt(said, now); got != c.want {
			t.Errorf("%v: paused %v, want %v", said, got, c.want)
		}
	}
}
