package pve

import "time"

// A machine that is stopped while its node is away, silent or full loses what runs on it. One at a time that is the way
// to get rid of a machine that has died; many at a time it is more likely that whoever shows the nodes is wrong:
// a database restored from an old copy, a kubeconfig of another cluster, rights that were taken away. So few may go
// that way in an hour, and when there would be more, none goes until a person has looked or the nodes are back.

const (
	// brakeWindow is the time in which machines that go undrained are counted.
	brakeWindow = time.Hour
	// brakeShare is of how many machines one may go undrained in that time; of fewer, one may, too.
	brakeShare = 10
)

// brake is what is known of a pool when one more of its machines is to go undrained.
type brake struct {
	machines int  // that were nodes once, those in gone among them
	gone     int  // that went undrained in the last hour
	frozen   bool // one that was not to go waits still
}

// most is how many of the pool's machines may go undrained in an hour.
func (b brake) most() int { return max(1, b.machines/brakeShare) }

// holds reports whether one more has to wait.
func (b brake) holds() bool { return b.frozen || b.gone >= b.most() }
