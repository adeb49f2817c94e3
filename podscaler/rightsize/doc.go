// Package rightsize says how large a container's requests should be, from what it has been seen to
// use, and how a node's capacity is shared out fairly as limits.
//
// Usage takes samples and forgets them by halves, as the recommender of Kubernetes' Vertical Pod
// Autoscaler does in version 1.8.1; testbed/peers/vpa asks that one the same and compares.
// Recommend makes targets and bounds of it, Decide what is to be done to a pod about them, which by
// default is nothing. FairLimits knows nothing of use: it shares a node out by requests, under one
// of three rules.
//
// Nothing here reads a clock or a socket. What has not been measured is not recommended.
package rightsize
