// Package loop turns observation into decision into calls, once.
//
// Once observes the cluster, the machines and the signals through its ports, asks the pod
// scalers and the node policy what should be, does it, and writes one record of it all to the
// journal. It never waits for a machine. Production calls it from a ticker, the simulator from
// its event heap, and no policy can tell which.
package loop
