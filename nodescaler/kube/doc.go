// Package kube is the cluster port over Kubernetes. It reads from copies that watches keep up to
// date, and does all writing to the API server: replicas, deletion costs of pods, draining marks,
// evictions, nodes, statuses, events and the lease.
//
// # Reading
//
// Copies hold only what decisions need (internal/kept, internal/copies). With copies that may be
// stale, a read is an error and nothing is decided. What they say together is put into the loop's
// words by internal/sight, and what autoscalers scale is found by internal/targets.
//
// Replicas of Deployments and StatefulSets come from the copies; the scale of any other kind is
// asked for, at most every five seconds. A pod belongs to the nearest of its owners that an
// autoscaler scales.
//
// # Writing
//
// Nothing is written that the mode forbids, and nothing while this process does not certainly
// lead: refused writes make no request. Every write is held to the version or the uid of what was
// observed, so that what changed since is not overwritten, and something else under the same name
// not touched.
//
// A wall clock that jumps has no effect here, because durations are measured by the monotonic
// clock. Times that others wrote are only compared with each other.
package kube
