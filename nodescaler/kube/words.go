package kube

import (
	"errors"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/targets"
)

// Errors that callers branch on. What is returned wraps them and says more.
var (
	// ErrStale is returned by a read while the copies are incomplete or may be stale.
	ErrStale = copies.ErrStale
	// ErrForbidden is returned by a write that the mode does not allow. No request was made.
	ErrForbidden = errors.New("not allowed in this mode")
	// ErrNotLeader is returned by a write while leadership is not certain. No request was made.
	ErrNotLeader = errors.New("not the leader")
	// ErrConflicted is returned by SetReplicas for a workload with a finding, or whose autoscaler
	// is no longer Active. No request was made.
	ErrConflicted = targets.ErrConflicted
	// ErrChanged is returned by a write when another client changed the object after it was
	// observed.
	ErrChanged = targets.ErrChanged
)

// Mode is what a Cluster may write.
type Mode string

// The modes. Each allows what the earlier ones allow, too.
const (
	ReadOnly  Mode = "ReadOnly"  // nothing at all
	Recommend Mode = "Recommend" // the lease, statuses of our own kinds, and events
	// Active allows to write replicas and those that are expected, deletion costs and requests of
	// pods, draining marks, evictions, nodes whose machine is gone, and ScalingProposals.
	Active Mode = "Active"
)

// allows reports whether the mode allows what needs another.
func (m Mode) allows(need Mode) bool {
	rank := map[Mode]int{"": 0, ReadOnly: 0, Recommend: 1, Active: 2}
	return rank[m] >= rank[need]
}

// Target is what a WorkloadAutoscaler scales.
type Target = targets.Target

// Finding is something about a target that forbids to write to it.
type Finding = targets.Finding

// Codes of findings.
const (
	FindingForeignSizer    = targets.FindingForeignSizer
	FindingTargetUnknown   = targets.FindingTargetUnknown
	FindingSelectorMissing = targets.FindingSelectorMissing
)
