// Package kube is the cluster port over Kubernetes. It reads from copies that watches keep up to
// date, and does all writing to the API server: replicas, deletion costs of pods, draining marks,
// evictions, nodes, statuses, events and the lease.
//
// # Reading
//
// The copies hold only what decisions need: a pod takes about 1.2 kB instead of 7. Their staleness
// is known (see watches): with copies that may be stale, a read is an error and nothing is
// decided.
//
// Replicas of Deployments and StatefulSets come from the copies; the scale of any other kind is
// asked for, at most every five seconds. A pod belongs to the nearest of its owners that an
// autoscaler scales.
//
// Kubernetes has more placement rules than nodescaler. The other ones are translated on the safe
// side: no machine is bought in vain, and no pod is evicted that might not find a place.
//
//   - Tolerations that compare numbers are not kept.
//   - Pods with resource claims select a node that does not exist. They are not evicted, and no
//     machine is ordered for them.
//   - Host ports and anti-affinities by host name are marks. Other anti-affinities, affinities to
//     pods and spread constraints are rules of topology.
//   - Taints of nodes that are starting or failing make a node not ready.
//   - Pods with a claim that the scheduler has no node for, such as one that does not exist, select
//     such a node too.
//   - How many volumes of a driver a node takes is an amount like that of a device.
//   - How much a driver can still store does not count.
//
// testbed/peers/scheduler asks Kubernetes' scheduler which pods go onto which nodes, and compares.
//
// What DaemonSets will take of a new machine is computed from their templates and the pool's
// labels and taints. What static pods will take is observed on the pool's nodes. A pending pod of
// a DaemonSet has its place on its node already.
//
// Placeholders reserve room for expected replicas, and are not pods here. Their room counts as
// free, no machine is ordered for them, and they count in no namespace's use. The observation says
// how many of them have a node.
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
