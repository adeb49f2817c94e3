package nodescaler

// Sight is what the API server shows of a machine's nodes at one moment, asked directly: the last
// look before something is stopped or destroyed.
type Sight struct {
	Nodes []SeenNode
}

// SeenNode is a node that names the machine by provider ID, system UUID or name.
type SeenNode struct {
	Identity
	UID   string
	Ready bool
	// Open nodes take pods: they are neither cordoned nor marked by cluster-autoscaler as about to
	// be deleted. One that is not known to be is not.
	Open bool
	// Pods are those that a drain would have to move, as namespace/name: no daemons, no mirrors,
	// none that have finished.
	Pods []string
	// LocalClaims are as in Node.
	LocalClaims []string
}
