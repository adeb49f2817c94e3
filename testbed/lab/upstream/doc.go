// Package upstream plays upstream's cluster-autoscaler in a lab: a client of the external gRPC
// provider, which asks what a recorded cluster-autoscaler 1.36.1 asked, in its order, and orders
// and gives back machines by it.
//
// It knows nothing of a provider but what the contract's answers say, and nothing of the cluster
// but what the Kubernetes API says. What it decides is decided by the node policy unneeded, which
// does what cluster-autoscaler's defaults do. The client puts the answers into a snapshot for it
// and carries its plan out as cluster-autoscaler does. Sizes of groups are increased, nodes get its
// taint, pods are evicted, and nodes are deleted by the provider.
//
// Where it is another thing than cluster-autoscaler, besides what the policy says of itself:
//
//   - It asks once in a scan where cluster-autoscaler asks the same again and again.
//   - Nodes that were emptied are deleted by the next scan and not beside it, and one call deletes
//     one node.
//   - Pods are evicted in the scan that taints their node, not five seconds later.
//   - Nodes that are only looked at for deletion get no taint of their own.
//   - Options that a provider gives to a group are refused: the policy has one set of settings.
//   - CapacityBuffers are read as what they ask for; no status is written to them.
package upstream
