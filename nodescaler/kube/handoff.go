package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

// HandOff is how replicas that are expected are made known to whoever orders machines in our place.
type HandOff struct {
	By HandOffBy
	// PriorityClass is what placeholders have, and Image what they run. Placeholders alone need
	// them.
	PriorityClass, Image string
}

// HandOffBy is by what they are made known.
type HandOffBy string

// The ways to make them known.
const (
	// ByNothing makes nothing known, as the empty value does.
	ByNothing HandOffBy = "none"
	// ByCapacityBuffer publishes CapacityBuffers, which cluster-autoscaler keeps room for.
	ByCapacityBuffer HandOffBy = "CapacityBuffer"
	// ByPlaceholders has pods that do nothing keep the places of those that are expected, and wait
	// for machines in theirs.
	ByPlaceholders HandOffBy = "Placeholders"
)

// HandOffs are all of them.
var HandOffs = []HandOffBy{ByCapacityBuffer, ByPlaceholders, ByNothing}

// Used reports whether anything is made known.
func (h HandOff) Used() bool { return h.By == ByCapacityBuffer || h.By == ByPlaceholders }

func (h HandOff) check() error {
	switch {
	case h.By != "" && !slices.Contains(HandOffs, h.By):
		return fmt.Errorf("hand off by: must be one of %v, was %q", HandOffs, h.By)
	case h.By == ByPlaceholders && (h.PriorityClass == "" || h.Image == ""):
		return fmt.Errorf("hand off by %s: needs a priority class and an image, was %q and %q", h.By, h.PriorityClass, h.Image)
	}
	return nil
}

// ErrNoBuffers is what Expect answers where CapacityBuffers are to be published and the cluster has
// none.
var ErrNoBuffers = errors.New("the cluster does not know CapacityBuffers of " + copies.BufferGroup)

const (
	// annotationMadeFrom is the source that a published object was made from, without the number.
	annotationMadeFrom = "plimsoll.dev/made-from"
	// expectAge is how long a published object is assumed to exist. Another client may have removed
	// it.
	expectAge = 2 * time.Minute
)

// ExpectName is what everything is called by which replicas of a WorkloadAutoscaler's target are
// made known, in its namespace.
func ExpectName(autoscaler string) string { return kept.ExpectName(autoscaler) }

// Usable looks at a cluster, and returns why nothing could be made known there in this way, or nil.
func (h HandOff) Usable(ctx context.Context, cfg *rest.Config) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, copies.Patience)
	defer cancel()
	switch h.By {
	case ByPlaceholders:
		return h.givesWay(ctx, client)
	case ByCapacityBuffer:
		if _, served, err := copies.NewServed(client).Buffers(ctx); err != nil || !served {
			return cmp.Or(err, ErrNoBuffers)
		}
	case ByNothing:
	}
	return nil
}

// givesWay looks whether placeholders would, and returns why not.
func (h HandOff) givesWay(ctx context.Context, client kubernetes.Interface) error {
	class, err := client.SchedulingV1().PriorityClasses().Get(ctx, h.PriorityClass, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("priority class %s: %w", h.PriorityClass, err)
	}
	if class.Value >= 0 {
		return fmt.Errorf("priority class %s: value must be below 0, or placeholders would not give way to pods without a class, was %d", h.PriorityClass, class.Value)
	}
	return nil
}
