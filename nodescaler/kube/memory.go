package kube

import (
	"bytes"
	"encoding/json"
	"hash/fnv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// deniedFor is how long a missing right is not tried again.
const deniedFor = time.Hour

// denials are namespaces in which a right is lacking.
type denials struct {
	mu    sync.Mutex
	since map[string]time.Time // by namespace, when it was last lacking
}

// tries reports whether it is worth trying in a namespace.
func (d *denials) tries(namespace string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, denied := d.since[namespace]
	return !denied || now.Sub(since) >= deniedFor
}

// deny notes that the right is lacking, and reports whether that is news.
func (d *denials) deny(namespace string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, known := d.since[namespace]
	if d.since == nil {
		d.since = map[string]time.Time{}
	}
	d.since[namespace] = now
	return !known
}

// expectations are what was last made known, by autoscaler, so that nothing is asked for what stays
// as it is.
type expectations struct {
	mu sync.Mutex
	of map[types.UID]madeKnown
}

// madeKnown is how many were, and when by the monotonic clock.
type madeKnown struct {
	is int
	at time.Time
}

func newExpectations() *expectations { return &expectations{of: map[types.UID]madeKnown{}} }

func (e *expectations) is(wla types.UID, more int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	k, ok := e.of[wla]
	return ok && k.is == more && time.Since(k.at) < expectAge
}

func (e *expectations) note(wla types.UID, more int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for old, k := range e.of { // those of autoscalers that are gone among them
		if now.Sub(k.at) >= expectAge {
			delete(e.of, old)
		}
	}
	e.of[wla] = madeKnown{more, now}
}

func (e *expectations) forget(wla types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.of, wla)
}

const (
	// reportEvery is how often a status is written at most of which only numbers changed.
	reportEvery = 15 * time.Second
	// numbersPerSecond is how many such are written a second at most, of all objects together.
	// Hundreds of autoscalers would otherwise have the API server write little else, and the loop
	// wait for it.
	numbersPerSecond = 4
)

// reports remembers which statuses were written, and when.
type reports struct {
	mu     *sync.Mutex
	byUID  map[types.UID]report
	lately time.Time // when what is old was last dropped
}

type report struct {
	status []byte
	at     time.Time
}

func newReports() reports { return reports{mu: &sync.Mutex{}, byUID: map[types.UID]report{}} }

// pause is how long an object's status is left as it is if only numbers changed: the more objects
// there are, the longer; and up to twice as long, so that not all come due in the same step.
func (r *reports) pause(uid types.UID) time.Duration {
	every := r.every()
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // never fails
	return every + time.Duration(h.Sum32()%uint32(every/time.Millisecond))*time.Millisecond
}

func (r *reports) every() time.Duration {
	return max(reportEvery, time.Duration(len(r.byUID))*time.Second/numbersPerSecond)
}

// due reports whether a status is to be written. Our own last writing counts beside the copy, which
// may not show it yet.
func (r *reports) due(uid types.UID, status, is []byte, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	last, wrote := r.byUID[uid]
	lately := wrote && now.Sub(last.at) < r.pause(uid)
	switch {
	case lately && bytes.Equal(last.status, status):
		return false
	case lately:
		return !bytes.Equal(verdicts(last.status), verdicts(status))
	}
	return !bytes.Equal(is, status)
}

func (r *reports) wrote(uid types.UID, status []byte, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byUID[uid] = report{status, now}
}

// forget drops, now and then, entries without a use.
func (r *reports) forget(now time.Time) {
	if now.Sub(r.lately) < time.Minute {
		return
	}
	r.lately = now
	old := 2 * r.every()
	for uid, last := range r.byUID {
		if now.Sub(last.at) >= old {
			delete(r.byUID, uid)
		}
	}
}

// verdicts returns what of a status is more than numbers: the conditions without their texts, what
// was decided and done, and how far a rollout is.
func verdicts(status []byte) []byte {
	var s struct {
		ObservedGeneration int64 `json:"observedGeneration"`
		Conditions         []struct {
			Type, Status, Reason string
			ObservedGeneration   int64 `json:"observedGeneration"`
		} `json:"conditions"`
		LastPlan *doings `json:"lastPlan"`
		// who leads next goes by it
		Rollout *struct {
			Revision, Phase string
			CanaryPassed    bool
			Failed          []string
		} `json:"rollout"`
		LastDecision *struct {
			Action   string
			From, To int32
			Applied  bool
		} `json:"lastDecision"`
	}
	if err := json.Unmarshal(status, &s); err != nil {
		return status
	}
	s.LastPlan.shorten()
	v, err := json.Marshal(s)
	if err != nil {
		return status
	}
	return v
}

// doings are what a plan has to do.
type doings struct {
	Applied bool
	Actions []struct{ Kind, Subject string }
}

// shorten leaves out what a plan that is not carried out is about: a machine that would be bought
// has another name at every step.
func (d *doings) shorten() {
	if d == nil || d.Applied {
		return
	}
	for i := range d.Actions {
		d.Actions[i].Subject = ""
	}
}
