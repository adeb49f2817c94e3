// Package allocation divides the cost of a fleet between nodes, pools, namespaces and workloads,
// and computes how much would be saved without each of them.
//
// Pods pay for their part of a node, CPU and memory each at its own price. The allocatable part
// that no pod requests is idle. The part of the machine that is not allocatable is the system's:
//
//	cost = allocated + idle + system
//
// Amounts are whole numbers of Rate, and every one of them is divided without remainder: the
// equation holds on each line, and the lines of each kind add up to the total, to the last
// digit and in any order. A share differs from the exact one by less than one Rate.
//
// A host's fixed part is shared out over the machines on it in proportion to their prices.
//
// To allocate is not to save. Only a whole machine that is reclaimed saves money, and not always
// its whole price: the idle power of a host is saved with the host, and bought hardware is never
// saved. A host's fixed part is saved with its last machine. Avoidable counts nothing else.
package allocation
