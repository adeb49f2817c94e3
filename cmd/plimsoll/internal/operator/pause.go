package operator

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

// pause is what an object's annotations say of leaving it alone.
type pause struct {
	on        bool
	direction string    // v1alpha1.PauseUp or PauseDown; empty is both
	until     time.Time // zero is until somebody takes it back
	text      string
}

// pauseOf reads the annotations. What cannot be understood pauses the object: whoever wrote it wanted
// something to stop.
func pauseOf(o metav1.Object, now time.Time) pause {
	said := o.GetAnnotations()
	value, there := said[v1alpha1.AnnotationPaused]
	if !there || value == "false" {
		return pause{}
	}
	p := pause{on: true, text: "paused"}
	if by := said[v1alpha1.AnnotationPausedBy]; by != "" {
		p.text += " by " + by
	}
	switch value {
	case "true":
	case v1alpha1.PauseUp, v1alpha1.PauseDown:
		p.direction = value
		p.text += ": nothing goes " + value
	default:
		p.text += fmt.Sprintf("; annotation %s must be true, %s or %s, was %q", v1alpha1.AnnotationPaused, v1alpha1.PauseUp, v1alpha1.PauseDown, value)
	}
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
		p.until = at
		p.text += " until " + until
	}
	return p
}
