package policy

import (
	"github.com/plimsoll/plimsoll/podscaler"
)

// allocator gives replicas room: what is paid for first, and machines that enough runs want.
type allocator struct {
	fill       bool
	perMachine int // replicas that a machine takes, as last seen
	off        *switches
}

// unsureRuns is how many runs in a row have to want a machine before it is bought. It counts while
// it is not sure what requests take, for pods that have just started use more than they will. It
// also counts for one replica: a load that stays at the edge of a machine would else buy one again
// and again, and a queue that is there for a moment is gone before a machine could be there.
const unsureRuns = 4

// see takes in what room there is.
func (a *allocator) see(v *podscaler.View) {
	if pl := v.Room.Places; pl != nil && pl.PerMachine > 0 {
		a.perMachine = pl.PerMachine
	}
}

// agreed is how many replicas the last runs agree on. More than one beyond what is paid for need no
// agreement where there is a queue, or it is sure what requests take.
func (a *allocator) agreed(pl *podscaler.Places, s *sizing, h *holder, queued bool) int {
	if s.now > pl.Coming+1 && (queued || s.sure == 1) {
		return s.now
	}
	return h.needs.lately(unsureRuns)
}

// filled is n and what there is room for beside them on machines that are paid for as long as n
// are needed. A whole machine's room is left empty, for then the machine can go. So is what others
// do not need, until they have left it: to ask for it before would buy a machine. While no request
// is measured, nothing shows that more would help.
func (a *allocator) filled(v *podscaler.View, pl *podscaler.Places, n, allowed int) int {
	if !a.fill || unmeasured(v) {
		return n
	}
	most := max(min(v.Workload.Max, allowed), n)
	if pl.Filled > 0 {
		return min(max(n, min(pl.Filled, pl.Coming)), most)
	}
	room := pl.Ready
	if n > room {
		room = pl.Coming
	}
	free := room - n
	switch {
	case free < 0:
		return n
	case a.perMachine > 0:
		free %= a.perMachine
	}
	return min(n+free, most)
}

// unmeasured reports whether neither requests nor response times are known, but CPU alone.
func unmeasured(v *podscaler.View) bool {
	_, arrivals := v.Window.Arrivals.Number()
	_, latency := v.Window.Latency.Number()
	_, flying := v.Window.InFlight.Number()
	return !arrivals && !latency && !flying
}

// leaves reports whether replicas are given up that have room, or will have it: the machine they
// would keep is not needed for those that stay.
func (a *allocator) leaves(v *podscaler.View, pl *podscaler.Places, to int) bool {
	return a.fill && to < min(v.Replicas, pl.Coming, v.Workload.Max)
}

// worth is what each replica is worth: the requests that it is expected to answer well, by what
// each of those that are needed answers.
func (s *sizing) worth(n int) []float64 {
	worth := make([]float64, n)
	if s.work.demand <= 0 || n == 0 {
		return worth
	}
	each := s.ceiling * s.quota / s.work.demand
	rate := max(s.work.offered, s.outlook.machine) / s.work.demand
	for i := range worth {
		worth[i] = max(min(each, rate-each*float64(i)), 0)
	}
	return worth
}
