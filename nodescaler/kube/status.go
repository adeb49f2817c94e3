package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/printable"
	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

const (
	// reportEvery is how often a status is written at most of which only numbers changed.
	reportEvery = 15 * time.Second
	// numbersPerSecond is how many such are written a second at most, of all objects together.
	// Hundreds of autoscalers would otherwise have the API server write little else, and the loop
	// wait for it.
	numbersPerSecond = 4
)

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

// SetStatus writes the status of one of our own objects, of which it reads name, namespace, uid and
// status. It writes nothing when nothing changed, and changes of mere numbers, with the conditions
// as they were and nothing done, only once in a while: call it at every step with what is true
// then. An object that is gone has no status.
func (c *Cluster) SetStatus(ctx context.Context, o client.Object) error {
	i, _, err := ofOurs(o)
	if err != nil {
		return err
	}
	status, err := statusOf(o)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("status of %s %s", copies.Kinds[i].Kind, o.GetName())
	if !c.reports.due(o.GetUID(), status, c.statusNow(i, o), time.Now()) {
		return nil
	}
	return c.write(ctx, Recommend, what, func(ctx context.Context) error {
		body, err := json.Marshal(map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": copies.Kinds[i].Kind,
			"metadata": metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID()},
			"status":   json.RawMessage(status),
		})
		if err != nil {
			return err
		}
		// Applied whole, so that absent fields are removed, including those that other clients
		// wrote.
		force := true
		_, err = c.objects.Resource(v1alpha1.GroupVersion.WithResource(copies.Kinds[i].Resource)).Namespace(o.GetNamespace()).
			Patch(ctx, o.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: kept.FieldManager, Force: &force}, "status")
		if err == nil {
			c.reports.wrote(o.GetUID(), status, time.Now())
		}
		return unlessGone(err)
	})
}

// ofOurs is which of our kinds an object is of, and its status.
func ofOurs(o client.Object) (i copies.Kind, status any, err error) {
	switch o := o.(type) {
	case *v1alpha1.WorkloadAutoscaler:
		return copies.Autoscalers, o.Status, nil
	case *v1alpha1.VMPool:
		return copies.VMPools, o.Status, nil
	case *v1alpha1.PriceBook:
		return copies.PriceBooks, o.Status, nil
	}
	return 0, nil, fmt.Errorf("a %T is not one of our kinds", o)
}

// statusOf returns an object's status as JSON, with no text in it that steers a terminal: people
// look at it with kubectl.
func statusOf(o client.Object) ([]byte, error) {
	_, status, err := ofOurs(o)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return printable.JSON(text), nil
}

// statusNow returns the status that the object has, as far as is known.
func (c *Cluster) statusNow(i copies.Kind, o client.Object) []byte {
	key := o.GetName()
	if o.GetNamespace() != "" {
		key = o.GetNamespace() + "/" + key
	}
	is, ok := copies.One[client.Object](c.copies, i, key)
	if !ok {
		return nil
	}
	status, err := statusOf(is)
	if err != nil {
		return nil
	}
	return status
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
