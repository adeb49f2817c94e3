package targets

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

const (
	// foreignLimit is how many foreign writes within foreignWindow are a fight between controllers,
	// and not a person who scales by hand.
	foreignLimit  = 3
	foreignWindow = 10 * time.Minute
	// foreignMemory is how long after the last of them we keep out of it. While we do, the other
	// side has nothing to write against, so that its silence proves nothing.
	foreignMemory = time.Hour
)

// meddling remembers who else changes replicas that we are to set. Times are taken from the
// monotonic clock, which no adjustment moves.
type meddling struct {
	mu      sync.Mutex
	by      map[types.UID]*meddler // by autoscaler
	written map[types.UID]int      // what we wrote last, by autoscaler
	seen    map[types.UID]int      // what was read last, by autoscaler
}

type meddler struct {
	generation int64 // of the autoscaler: an edit forgives
	times      []time.Time
	until      time.Time // zero unless it was a fight
	text       string
}

func newMeddling() *meddling {
	return &meddling{by: map[types.UID]*meddler{}, written: map[types.UID]int{}, seen: map[types.UID]int{}}
}

// of returns what is known for an autoscaler. A condition from before this process started counts,
// so that a restart does not begin the fight anew.
func (m *meddling) of(wla *v1alpha1.WorkloadAutoscaler, now time.Time) *meddler {
	known := m.by[wla.UID]
	if known != nil && known.generation == wla.Generation {
		return known
	}
	first := known == nil
	known = &meddler{generation: wla.Generation}
	m.by[wla.UID] = known
	told := meta.FindStatusCondition(wla.Status.Conditions, v1alpha1.ConditionConflicted)
	if first && told != nil && told.Status == metav1.ConditionTrue && told.Reason == v1alpha1.ReasonForeignWrites &&
		told.ObservedGeneration == wla.Generation {
		if left := foreignMemory - now.Sub(told.LastTransitionTime.Time); left > 0 {
			known.until, known.text = now.Add(min(left, foreignMemory)), told.Message
		}
	}
	return known
}

// saw notes that another client changed the replicas of an autoscaler's target.
func (m *meddling) saw(wla *v1alpha1.WorkloadAutoscaler, who string, from, to int, now time.Time) {
	if !Acts(wla) {
		return // then whoever writes is the one to write
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of(wla, now)
	known.times = slices.DeleteFunc(known.times, func(t time.Time) bool { return now.Sub(t) >= foreignWindow })
	known.times = append(known.times, now)
	if len(known.times) < foreignLimit && now.After(known.until) {
		return
	}
	if who == "" {
		who = "another client"
	}
	known.until = now.Add(foreignMemory)
	known.text = fmt.Sprintf("%s changed replicas from %d to %d, the foreign change no. %d within %s; nothing is written for %s after the last, or until this autoscaler is edited",
		who, from, to, len(known.times), foreignWindow, foreignMemory)
}

// read notes the replicas of a target that is not watched, so that their writer is unknown.
func (m *meddling) read(wla *v1alpha1.WorkloadAutoscaler, replicas int, now time.Time) {
	m.mu.Lock()
	before, known := m.seen[wla.UID]
	m.seen[wla.UID] = replicas
	m.mu.Unlock()
	if known && before != replicas && !m.isOurs(wla.UID, replicas) {
		m.saw(wla, "", before, replicas, now)
	}
}

// wrote notes what we wrote, or are about to: that it is written may be seen before the answer.
func (m *meddling) wrote(wla types.UID, replicas int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.written[wla] = replicas
}

// isOurs reports whether a number is the last that we wrote.
func (m *meddling) isOurs(wla types.UID, replicas int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	written, wrote := m.written[wla]
	return wrote && written == replicas
}

// finding returns the finding about an autoscaler's target, if any.
func (m *meddling) finding(wla *v1alpha1.WorkloadAutoscaler, now time.Time) (Finding, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of(wla, now)
	if !now.Before(known.until) {
		return Finding{}, false
	}
	return Finding{Code: v1alpha1.ReasonForeignWrites, Text: known.text}, true
}

// forget drops what belongs to autoscalers that are gone.
func (m *meddling) forget(present map[types.UID]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := func(uid types.UID) bool { return !present[uid] }
	for uid := range m.by {
		if gone(uid) {
			delete(m.by, uid)
		}
	}
	for uid := range m.seen {
		if gone(uid) {
			delete(m.seen, uid)
		}
	}
	for uid := range m.written {
		if gone(uid) {
			delete(m.written, uid)
		}
	}
}

// Acts reports whether an autoscaler says that its decisions are to be carried out.
func Acts(wla *v1alpha1.WorkloadAutoscaler) bool {
	return (wla.Spec.Mode == v1alpha1.ModeActive || wla.Spec.Mode == v1alpha1.ModeApprove) && !pausedAt(wla.Annotations, time.Now()) && wla.DeletionTimestamp == nil
}

// pausedAt reports whether annotations pause their object in both directions at a time. A time that
// cannot be understood ends no pause.
func pausedAt(said map[string]string, now time.Time) bool {
	until, err := time.Parse(time.RFC3339, said[v1alpha1.AnnotationPausedUntil])
	return said[v1alpha1.AnnotationPaused] == "true" && (err != nil || now.Before(until))
}

// Finding is something about a target that forbids to write to it.
type Finding struct {
	Code string
	Text string
}
