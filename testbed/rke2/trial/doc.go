// Package trial is a cluster of RKE2 as a world of experiments. A run there is Plimsoll as its
// manifests install it, an application that burns the CPU it is said to, and k6 on a machine of its
// own.
//
// A run is a list of steps. Each brings about what is to be so after any earlier run, so that it
// can be ended anywhere and begun again from the first: there is nothing in the cluster that a run
// needs of another. What a finished run came to is kept, and is not made again. All is done through
// the API of Kubernetes; of machines nothing is asked but by a VMPool.
package trial
