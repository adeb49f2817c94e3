// Package allocation says whom a fleet's cost is down to: which node, pool, namespace and
// workload, and how much of it would be saved without them.
//
// Of each node, the pods pay for what they take of what it has, CPU and memory each at its own
// price. The part that pods might have and none takes is idle, and what the machine has beyond
// what pods may have is the system's:
//
//	cost = allocated + idle + system
//
// Amounts are whole numbers of Rate, and every one of them is divided without remainder: the
// equation holds on each line, and the lines of each kind add up to the total, to the last
// digit and whatever the order. A share differs from the exact one by less than one Rate.
//
// A host's fixed part is shared out over the machines on it in proportion to their prices.
//
// To allocate is not to save. Nothing is saved but by giving back whole machines, and of their price not
// always all: what a host draws anyway is saved with the host, and hardware that was bought never. A
// host's fixed part is saved with its last machine. Avoidable counts nothing else.
package allocation
