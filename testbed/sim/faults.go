package sim

import "time"

// Fault is something that goes wrong at a time.
type Fault struct {
	At   time.Duration
	Kind FaultKind
	Host string        // of HostDies, and of NoisyNeighbour, where none means all
	For  time.Duration // how long it lasts; of HostDies 0 is for good
	// Count is how many of the next clones fail.
	Count int
	// Left is the part of their CPU that a noisy neighbour leaves to the pods.
	Left float64
}

// FaultKind is what goes wrong.
type FaultKind string

// The kinds of fault.
const (
	CloneFails    FaultKind = "clone-fails"    // the next clones fail
	HostDies      FaultKind = "host-dies"      // a host stops, and every machine on it
	MetricsVanish FaultKind = "metrics-vanish" // no signal can be read
	// NoisyNeighbour is another owner's work on a host. The pods on it get less CPU than they are
	// promised, and nothing that is measured of them says why.
	NoisyNeighbour FaultKind = "noisy-neighbour"
)

// FaultKinds are all of them.
var FaultKinds = []FaultKind{CloneFails, HostDies, MetricsVanish, NoisyNeighbour}
