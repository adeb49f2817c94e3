// Package scale runs the binary against a cluster as large as this machine can pretend, and says
// what that costs it: memory, CPU, and the time of a step. It also says how long a pod that no node
// can take waits to be seen.
package scale
