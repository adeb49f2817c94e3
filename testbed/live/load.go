package live

import (
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/k6"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Load is who sends requests to a job's workload, at a URL.
func Load(e *testbed.Experiment, j *testbed.Job, url string) k6.Load {
	w := &e.Workloads[0]
	return k6.Load{
		URL:  url,
		Kind: k6.Kind(j.Load.Kind), Users: users(j), Rate: rate(j), Think: j.Load.Think, Spread: j.Load.Spread,
		Duration: j.Length, Target: w.SLO.Target, Quantile: float64(w.SLO.P),
	}
}

// inFlight is how many requests of an open load may be on their way for each that comes in a
// second.
const inFlight = 20

func users(j *testbed.Job) int {
	if j.Load.Kind == sim.Open {
		return inFlight * j.Level.Users
	}
	return j.Level.Users
}

func rate(j *testbed.Job) float64 {
	if j.Load.Kind == sim.Open {
		return float64(j.Level.Users)
	}
	return 0
}
