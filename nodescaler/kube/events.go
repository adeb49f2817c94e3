package kube

import (
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/printable"
)

// Event is a Kubernetes Event about an object.
type Event struct {
	// About is the subject of the event, such as a condition's type. Events of one object with the
	// same About and Key are sent once, until one with another Key was sent.
	About, Key string
	Warning    bool
	Reason     string // a stable code in CamelCase
	Action     string // what was done or not done; empty is About
	Note       string // a sentence with the numbers
	// Turned is whether a condition turned. Those are few, and people wait for them: actions never
	// use up all that an object may have.
	Turned bool
}

const (
	// An object may have eventBurst events at once, and one more every eventEvery after that. What
	// is over that is counted in the next. As many as eventsKept on top are for conditions.
	eventBurst = 20
	eventsKept = 10
	eventEvery = 30 * time.Second
	// podEventEvery is how often a pod has the same event at most. API servers keep events for an
	// hour by default.
	podEventEvery = time.Hour
	// eventsWaiting is how many events wait at most for an API server that is slow.
	eventsWaiting = 256
	// noteLimit is how long a note may be, in bytes.
	noteLimit = 1024
	// controllerName is the reporting controller.
	controllerName = "plimsoll.dev/plimsoll"
)

// events remembers which events were sent, and queues those to be sent.
type events struct {
	mu    *sync.Mutex
	told  map[types.UID]*teller
	queue chan *eventsv1.Event
	pods  map[podEvent]time.Time // when each was sent, about pods and nodes
	swept time.Time
}

// podEvent is what an event about a pod or a node says.
type podEvent struct {
	uid            types.UID
	reason, action string
}

// teller is which events were sent about one object.
type teller struct {
	keys   map[string]string // by what it was about
	room   float64           // events that may still be sent
	at     time.Time         // when room was reckoned
	unsaid int               // events dropped since the last
}

func newEvents() events {
	return events{mu: &sync.Mutex{}, told: map[types.UID]*teller{}, queue: make(chan *eventsv1.Event, eventsWaiting), pods: map[podEvent]time.Time{}}
}

func (e *events) send(what *eventsv1.Event, log *slog.Logger) {
	select {
	case e.queue <- what:
	default:
		log.Warn("event dropped: too many wait to be sent", "object", what.Regarding.Name, "reason", what.Reason)
	}
}

// again reports whether a pod's event is due, and takes it for sent then.
func (e *events) again(of podEvent, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.swept) > time.Minute {
		e.swept = now
		maps.DeleteFunc(e.pods, func(_ podEvent, at time.Time) bool { return now.Sub(at) >= podEventEvery })
	}
	if at, sent := e.pods[of]; sent && now.Sub(at) < podEventEvery {
		return false
	}
	e.pods[of] = now
	return true
}

// admit reports whether an event is new and within the rate limit, and how many were dropped before
// it.
func (e *events) admit(uid types.UID, event Event, now time.Time) (unsaid int, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.told[uid]
	if t == nil {
		e.forget(now)
		t = &teller{keys: map[string]string{}, room: eventBurst + eventsKept, at: now}
		e.told[uid] = t
	}
	if key, known := t.keys[event.About]; known && key == event.Key {
		return 0, false
	}
	t.keys[event.About] = event.Key
	t.room = min(eventBurst+eventsKept, t.room+now.Sub(t.at).Seconds()/eventEvery.Seconds())
	t.at = now
	least := 1.
	if !event.Turned {
		least += eventsKept
	}
	if t.room < least {
		t.unsaid++
		return 0, false
	}
	t.room--
	unsaid, t.unsaid = t.unsaid, 0
	return unsaid, true
}

// forget drops objects about which nothing changed for long: most of them are gone.
func (e *events) forget(now time.Time) {
	const limit, age = 10_000, 24 * time.Hour
	if len(e.told) < limit {
		return
	}
	for uid, t := range e.told {
		if now.Sub(t.at) > age {
			delete(e.told, uid)
		}
	}
}

func event(about corev1.ObjectReference, by *string, e Event) *eventsv1.Event {
	now := time.Now()
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	what, action, instance := corev1.EventTypeNormal, e.Action, "plimsoll"
	if e.Warning {
		what = corev1.EventTypeWarning
	}
	if action == "" {
		action = e.About
	}
	if by != nil {
		instance = *by
	}
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cut(about.Name, 200) + "." + strconv.FormatInt(now.UnixNano(), 16)},
		EventTime:  metav1.NewMicroTime(now), Type: what, Reason: e.Reason, Action: cut(action, 128), Note: cut(printable.Text(e.Note), noteLimit),
		ReportingController: controllerName, ReportingInstance: cut(instance, 128),
		Regarding: about,
	}
}

// cut shortens a text to so many bytes, at the end of a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && s[limit]&0xC0 == 0x80 {
		limit--
	}
	return s[:limit]
}
