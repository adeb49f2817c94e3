// Package sight puts what is kept of Kubernetes' objects together into what the loop observes. It
// needs no cluster.
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
package sight
