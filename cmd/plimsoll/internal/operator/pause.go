package operator

import (
	"fmt"
	"math"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler"
)

// pause is what an object's annotations say of leaving it alone.
type pause struct {
	on        bool
	direction string // v1alpha1.PauseUp or PauseDown; empty is both
	replicas  *int   // fixed at a number; nil is not
	text      string
}

// full reports whether nothing at all is to be done.
func (p *pause) full() bool { return p.on && p.direction == "" && p.replicas == nil }

// guard is the part of it that the workload's scaler sees to.
func (p *pause) guard() podscaler.Pause {
	return podscaler.Pause{
		Replicas: p.replicas, Up: p.on && p.direction == v1alpha1.PauseUp, Down: p.on && p.direction == v1alpha1.PauseDown, Why: p.text,
	}
}

// pauseOf reads the annotations. What cannot be understood pauses the object: whoever wrote it
// wanted something to stop.
func pauseOf(o metav1.Object, now time.Time) pause {
	said := o.GetAnnotations()
	value, there := said[v1alpha1.AnnotationPaused]
	if !there || value == "false" {
		return pause{}
	}
	p := pausedBy(said)
	switch value {
	case "true":
	case v1alpha1.PauseUp, v1alpha1.PauseDown:
		p.direction = value
		p.text += ": nothing goes " + value
	default:
		p.text += fmt.Sprintf("; annotation %s must be true, %s or %s, was %q", v1alpha1.AnnotationPaused, v1alpha1.PauseUp, v1alpha1.PauseDown, value)
	}
	return p.ending(said, now)
}

// pauseOfWorkload reads those of a WorkloadAutoscaler, whose replicas may be fixed besides. Fixed
// ones are above a direction, and nothing above a pause of everything.
func pauseOfWorkload(o metav1.Object, now time.Time) pause {
	said := o.GetAnnotations()
	value, there := said[v1alpha1.AnnotationPausedReplicas]
	if p := pauseOf(o, now); !there || p.full() {
		return p
	}
	p := pausedBy(said)
	if n, err := strconv.Atoi(value); err == nil && 0 <= n && n <= math.MaxInt32 {
		p.replicas = &n
		p.text += fmt.Sprintf(": there are to be %d replicas", n)
	} else {
		p.text += fmt.Sprintf("; annotation %s must be a number of replicas such as 3, was %q", v1alpha1.AnnotationPausedReplicas, value)
	}
	return p.ending(said, now)
}

func pausedBy(said map[string]string) pause {
	p := pause{on: true, text: "paused"}
	if by := said[v1alpha1.AnnotationPausedBy]; by != "" {
		p.text += " by " + by
	}
	return p
}

// ending returns the pause with its end, and none if that has come.
func (p pause) ending(said map[string]string, now time.Time) pause {
	until, timed := said[v1alpha1.AnnotationPausedUntil]
	if !timed {
		return p
	}
	at, err := time.Parse(time.RFC3339, until)
	switch {
	case err != nil:
		p.text += fmt.Sprintf("; annotation %s must be a time such as 2026-03-01T12:00:00Z, was %q", v1alpha1.AnnotationPausedUntil, until)
	case !now.Before(at):
		return pause{}
	default:
		p.text += " until " + until
	}
	return p
}

// notResumed says what is wrong with what a person wrote to resume a pool.
func notResumed(o metav1.Object, key string, now time.Time) string {
	value, there := o.GetAnnotations()[key]
	if !there || !annotatedTime(o, key, now).IsZero() {
		return ""
	}
	if _, err := time.Parse(time.RFC3339, value); err == nil {
		return fmt.Sprintf("; annotation %s must be a time that has come, was %q", key, value)
	}
	return fmt.Sprintf("; annotation %s must be a time such as 2026-03-01T12:00:00Z, was %q", key, value)
}

// resumedAt is when a person last resumed a pool. What cannot be understood resumes nothing.
func resumedAt(o metav1.Object, now time.Time) time.Time {
	return annotatedTime(o, v1alpha1.AnnotationResumed, now)
}

// annotatedTime is a time that a person wrote on an object; zero if it cannot be understood, or is
// yet to come: until then it would resume all that is held later.
func annotatedTime(o metav1.Object, key string, now time.Time) time.Time {
	at, err := time.Parse(time.RFC3339, o.GetAnnotations()[key])
	if err != nil || at.After(now) {
		return time.Time{}
	}
	return at
}
