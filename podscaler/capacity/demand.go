package capacity

import "math"

// Demand learns what a request takes of the pods' CPU, so that no profile has to be measured: pods
// that may use so much CPU serve as many requests as fit into it. What the pods used over the
// requests that came is averaged over the last hour of periods, the busy ones counting for more.
//
// It needs the use of all pods that serve. It loses where CPU is not what pods are short of, and
// where pods that are idle use some: with little to do each request seems to take more than it
// does, which asks for pods too many.
type Demand struct {
	cpu, requests float64 // the older the lighter
	periods       int     // that were counted
}

const (
	// demandMemory is after how many periods what was seen has fallen to a third (1/e).
	demandMemory = 60
	// demandFewest is how many periods a demand rests on at least.
	demandFewest = 3
)

// Observe takes a period: the cores that all pods used, the requests a second that came, and
// whether the pods could not have used more. Of pods that are saturated not all requests are
// served, and those that are seem to be cheap: nothing is known by them but that a request takes so
// much at least. Where that is more than was known, half the way is gone at once, for the pods are
// too few now.
func (d *Demand) Observe(cpu, requests float64, saturated bool) {
	if !finite(cpu) || !finite(requests) || cpu <= 0 || requests <= 0 {
		return
	}
	if saturated {
		if each, ok := d.PerRequest(); ok && cpu/requests > each {
			d.cpu *= (1 + cpu/requests/each) / 2
		}
		return
	}
	keep := math.Exp(-1.0 / demandMemory)
	d.cpu, d.requests = d.cpu*keep+cpu, d.requests*keep+requests
	d.periods++
}

// PerRequest is what a request takes of a core for a second, once a few periods have been seen.
func (d *Demand) PerRequest() (cores float64, known bool) {
	if d.periods < demandFewest || !(d.requests > 0) {
		return 0, false
	}
	cores = d.cpu / d.requests
	return cores, finite(cores) && cores > 0
}

// Profile is that of pods which may use so many cores each: every pod adds the same.
func (d *Demand) Profile(cores float64) (Profile, bool) {
	each, ok := d.PerRequest()
	if !ok {
		return Profile{}, false
	}
	p, err := Linear(cores/each, 0)
	return p, err == nil
}
