package pve

import "time"

// A machine that is stopped while its node is away, silent or full loses what runs on it. One at a
// time that is the way to get rid of a machine that has died; many at a time it is more likely that
// whoever shows the nodes is wrong: a database restored from an old copy, a kubeconfig of another
// cluster, rights that were taken away. So few may go that way in an hour, and when there would be
// more, none goes until a person has looked or the nodes are back.

const (
	// brakeWindow is the time in which machines that go undrained are counted.
	brakeWindow = time.Hour
	// brakeShare is of how many machines one may go undrained in that time.
	brakeShare = 10
	// So many may go where there are fewer: of a pool, and of all pools together.
	brakePool, brakeAll = 1, 2
)

// holds are what keeps machines from being stopped or destroyed: whose they are, what their nodes
// say, and the brake.
type holds struct {
	cfg       *FleetConfig
	watch     *watch
	records   *records
	roster    *roster
	view      *view
	members   *members
	ownership *ownership
}

// brake is what is known when one more machine is to go undrained.
type brake struct {
	pool, all tally
	frozen    bool // one of the pool that was not to go waits still
}

// tally counts machines of a pool, or of all.
type tally struct {
	machines int // that were nodes once, those in gone among them
	gone     int // that went undrained in the last hour
}

func (t tally) plus(o tally) tally { return tally{t.machines + o.machines, t.gone + o.gone} }

// most is how many of the machines may go undrained in an hour.
func (t tally) most(least int) int { return max(least, t.machines/brakeShare) }

// holds reports whether one more has to wait.
func (b brake) holds() bool {
	return b.frozen || b.pool.gone >= b.pool.most(brakePool) || b.all.gone >= b.all.most(brakeAll)
}
