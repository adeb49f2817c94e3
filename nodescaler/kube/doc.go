// Package kube is the cluster port over Kubernetes. It reads from copies that watches keep up to date, and does
// all writing to the API server: replicas, deletion costs of pods, draining marks, evictions, nodes, statuses,
// events and the lease.
//
// # Reading
//
// The copies hold what decisions rest on and nothing else: a pod takes about 1.2 kB instead of 7. Whether
// they are up to date is known (see watches): a picture that may be old is an error, and no decision.
//
// Replicas of Deployments and StatefulSets come from the copies; the scale of any other kind is asked for,
// at most every five seconds. A pod belongs to the nearest of its owners that an autoscaler scales.
//
// Kubernetes says more about where pods may run than nodescaler has words for. What has none is told so that no
// machine is bought in vain and no pod is moved that might not find a place:
//
//   - Tolerations that compare numbers are not kept.
//   - Pods that ask for devices select a node that does not exist. They stay where they are, and nothing is bought
//     for them.
//   - Pods that share no node, by an anti-affinity to the host name or a port of the node, have marks for that. Pods
//     that are to be apart by zone, spread evenly, or together, have rules.
//   - Taints of nodes that are starting or failing make a node not ready.
//   - Pods with a claim that the scheduler has no node for, such as one that does not exist, select such a node too.
//   - How many volumes of a driver a node takes is an amount like that of a device.
//   - How much a driver can still store does not count.
//
// testbed/peers/scheduler asks Kubernetes' scheduler which pods go onto which nodes, and compares.
//
// What DaemonSets take of a machine that is to be bought is reckoned from their templates and the labels and taints of
// the pool, and what static pods take from the pool's nodes. A DaemonSet's pod that waits for its node has its place
// there already.
//
// Placeholders, which keep the places of replicas that are expected, are no pods here: what they take is free for
// whoever comes, nothing is ordered for them, and nobody's use counts them. How many have a place is told.
//
// # Writing
//
// Nothing is written that the mode forbids, and nothing while this process does not certainly lead: refused
// writes make no request. Every write is held to the version or the uid of what was observed, so that
// what changed since is not overwritten, and something else under the same name not touched.
//
// Clocks that jump change nothing here: whatever is measured, is measured by the monotonic clock. What
// others wrote is only ever compared with itself.
package kube
