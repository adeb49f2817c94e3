package worlds

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/testbed"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Draw parses the file, so that every world that is drawn passes what any experiment must.
func TestWorldsAreWithinTheirRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		e, err := Draw(seed)
		if err != nil {
			t.Fatalf("%v\n%s", err, File(seed))
		}
		within := func(what string, least, most, is float64) {
			if is < least || is > most {
				t.Errorf("%s is %g, must be from %g to %g\n%s", what, is, least, most, File(seed))
			}
		}
		requests := 0.0
		for i := range e.Workloads {
			w := &e.Workloads[i]
			within("a pod's CPU", leastPod, mostPod, float64(w.Requests.CPU))
			within("a request's CPU", leastService.Seconds(), mostService.Seconds(), w.Demand.Mean.Seconds())
			alone := w.Demand.Mean.Seconds() / min(1, float64(w.Quota)/1000)
			within("a lone request", 0, 1.1*slowest.Seconds(), alone)
			within("the target, in lone requests,", 1.99, 10.01, w.SLO.Target.Seconds()/(alone+w.Demand.Wait.Seconds()))
			within("slots, in those that keep the CPU busy,", 0.99, 65*mostPod, float64(w.Concurrency)/(float64(w.Quota)/1000)/(1+w.Demand.Wait.Seconds()/w.Demand.Mean.Seconds()))
			within("the window, in scrapes,", 4, 1e9, float64(w.SLO.Window/e.Signals.MetricsEvery))
			requests += most(e, w)
		}
		within("requests", leastRequests/4, 1.1*mostRequests, requests)
		for _, s := range e.Pools[0].Shapes {
			within("a machine's CPU", 2000, 64000, float64(s.CPU))
		}
		lead := (e.Delays.Clone.Min + e.Delays.Clone.Max + e.Delays.Boot.Min + e.Delays.Boot.Max) / 2
		within("the lead time", leastLead.Seconds()-0.2, mostLead.Seconds()+0.2, lead.Seconds())
		within("the time between samples", leastScrape.Seconds(), mostScrape.Seconds(), e.Signals.MetricsEvery.Seconds())
		for _, f := range e.Faults {
			if f.Kind != sim.CloneFails {
				t.Errorf("there is a fault of kind %s", f.Kind)
			}
		}
	})
}

// most is about the most requests that a workload gets: users who wait for answers send the most
// where each is answered as if it were alone.
func most(e *testbed.Experiment, w *testbed.Workload) float64 {
	l := sim.Load{Kind: e.Load.Kind, Think: e.Load.Think, Level: sim.Curve(e.Load.Scenarios[0].Curve)}
	if w.Load != nil {
		l.Kind, l.Level = w.Load.Kind, sim.Curve(w.Load.Curve)
	}
	n := mean(l.Level, e.Duration) * e.Duration.Seconds()
	switch l.Kind {
	case sim.Sleep:
		return n / (l.Think.Seconds() + w.Demand.Mean.Seconds()/min(1, float64(w.Quota)/1000) + w.Demand.Wait.Seconds())
	case sim.Pace:
		return n / l.Think.Seconds()
	default:
		return n
	}
}

func TestASeedMakesOneWorld(t *testing.T) {
	seen := map[string]uint64{}
	for seed := range uint64(200) {
		text := File(seed)
		if !bytes.Equal(text, File(seed)) {
			t.Errorf("seed %d makes another world the second time", seed)
		}
		w := draw(seed)
		if other, has := seen[w.String()]; has {
			t.Errorf("seeds %d and %d make the same world", other, seed)
		}
		seen[w.String()] = seed
	}
}

// Were one of them hardly drawn, nothing would be known of it.
func TestAllKindsOfWorldsAreDrawn(t *testing.T) {
	n := map[string]int{}
	count := func(is bool, what string) {
		if is {
			n[what]++
		}
	}
	const all = 1000
	for seed := range uint64(all) {
		w := draw(seed)
		s := &w.services[0]
		n[s.shape]++
		n[string(s.kind)]++
		count(len(w.services) > 1, "mixed")
		count(len(w.faults) > 0, "faults")
		count(len(w.machines) > 1, "two shapes")
		count(s.tail > 0, "tail")
		count(w.lead > 5*time.Minute, "long lead")
		count(w.lead < time.Minute, "short lead")
		count(s.demand < 50*time.Millisecond, "short requests")
		count(s.demand > time.Second, "long requests")
		count(s.cpu < 200, "small pods")
		count(s.cpu > 2000, "large pods")
		count(w.machines[0] >= 16, "large machines")
		count(bytes.Contains(File(seed), []byte("clairvoyant: true")), "clairvoyant")
		count(!w.warm, "cold")
		count(w.scraped, "scraped")
		count(s.wait > 0, "waiting")
	}
	for _, what := range []string{
		"steady", "ramp", "spike", "day", "noise", "on/off", "open", "sleep", "pace", "mixed", "faults", "two shapes", "tail", "long lead", "short lead",
		"short requests", "long requests", "small pods", "large pods", "large machines", "clairvoyant", "cold", "scraped", "waiting",
	} {
		if n[what] < all/20 {
			t.Errorf("%s: %d of %d worlds", what, n[what], all)
		}
	}
	t.Log(n)
}
