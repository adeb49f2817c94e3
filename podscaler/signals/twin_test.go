package signals

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/golden"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// twinCase is samples as Prometheus would have stored them, and what was made of them here.
// testbed/peers/prometheus asks the real engine the same of the same samples.
type twinCase struct {
	Name   string
	Series []twinSeries
	At     int64 // milliseconds, as all times
	Window int64
	Q      float64
	Target float64
	// The answers; null without one.
	Latency, Good, Arrivals *float64
}

type twinSeries struct {
	Name    string
	Labels  map[string]string
	Samples [][2]float64 // time and value
}

func TestTheAnswersForTheTwinAreWhatTheirFileSays(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	var cases []twinCase
	for i := range 40 {
		cases = append(cases, edgesCase(chance, i))
	}
	for i := range 25 {
		cases = append(cases, podsCase(t, chance, i))
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	for _, c := range cases {
		must.Do(t, encoder.Encode(c))
	}
	golden.Compare(t, "testdata/twin.jsonl", text.String())
}

func number(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}

// edgesCase is one histogram, of which quantile and good fraction are asked.
func edgesCase(chance *rand.Rand, i int) twinCase {
	c := twinCase{
		Name: fmt.Sprintf("edges %d", i), At: noon.UnixMilli(),
		Q: []float64{0.5, 0.9, 0.95, 0.99, 0.999}[chance.IntN(5)],
	}
	below, edge, count := map[float64]float64{}, 0.0, 0.0
	for range 1 + chance.IntN(10) {
		edge += float64(1+chance.IntN(20)) / 8
		if i > 0 { // the first is empty
			count += float64(chance.IntN(4)*chance.IntN(50)) / 4
		}
		below[edge] = count
		if c.Target == 0 || chance.IntN(2) == 0 {
			c.Target = edge
		}
	}
	below[inf] = count + float64(min(i, 1)*chance.IntN(2)*chance.IntN(50))
	for _, e := range newHistogram(below).edges {
		c.Series = append(c.Series, twinSeries{"h_bucket", map[string]string{"le": decimalEdge(e)}, [][2]float64{{float64(c.At), below[e]}}})
	}
	h := newHistogram(below)
	c.Latency, c.Good = number(h.quantile(c.Q)), number(h.good(c.Target))
	return c
}

func decimalEdge(e float64) string {
	if math.IsInf(e, 1) {
		return "+Inf"
	}
	return decimal(e)
}

// podsCase is pods that are scraped while they come, go, restart and miss a round.
func podsCase(t *testing.T, chance *rand.Rand, i int) twinCase {
	const every = 10 * time.Second
	window := time.Duration(2+chance.IntN(8)) * every
	rounds := int(window/every) + 1 + chance.IntN(12)
	s := source(Spec{Scrape: &Scrape{Port: 1, Latency: "h", Every: podscaler.Duration(every)}})
	s.SLO = podscaler.SLO{Quantile: 0.9, Target: 250 * time.Millisecond, Window: window}
	sc := newScrape("shop/cart", &s, nil)
	c := twinCase{Name: fmt.Sprintf("pods %d", i), Window: window.Milliseconds(), Q: s.SLO.Quantile, Target: 0.25}
	stored := map[string]*twinSeries{}
	lives := map[string]*[3]int{}
	store := func(now time.Time, pod, name, le string, v int) {
		key := pod + name + le
		if stored[key] == nil {
			stored[key] = &twinSeries{Name: name, Labels: map[string]string{"pod": pod}}
			if le != "" {
				stored[key].Labels["le"] = le
			}
			if now != noon { // a counter begins at 0, which Prometheus does not assume
				stored[key].Samples = append(stored[key].Samples, [2]float64{float64(now.Add(-time.Second).UnixMilli()), 0})
			}
		}
		stored[key].Samples = append(stored[key].Samples, [2]float64{float64(now.UnixMilli()), float64(v)})
	}
	var m *measurement
	for n := range rounds {
		now := noon.Add(time.Duration(n) * every)
		c.At = now.UnixMilli()
		if n == 0 || chance.IntN(4) == 0 {
			lives[fmt.Sprintf("p%d", n)] = &[3]int{}
		}
		var pods []Pod
		bodies := map[string]string{}
		for _, name := range sortedKeys(lives) {
			l := lives[name]
			if len(lives) > 1 && chance.IntN(12) == 0 {
				delete(lives, name)
				continue
			}
			var born time.Time
			if name != "p0" {
				born = now.Add(-time.Second)
			}
			pods = append(pods, Pod{Workload: "shop/cart", Name: name, Address: name, Ready: true, Started: born})
			if chance.IntN(10) == 0 {
				*l = [3]int{} // it restarted, and is scraped before its first request
			} else {
				below := 0
				for b := range 3 {
					below += chance.IntN(40)
					l[b] += below
				}
			}
			if chance.IntN(10) == 0 && sc.pods[name] != nil {
				continue // it misses the round
			}
			for b, le := range []string{"0.1", "0.25", "+Inf"} {
				bodies[name] += fmt.Sprintf("h_bucket{le=%q} %d\n", le, l[b])
				store(now, name, "h_bucket", le, l[b])
			}
			bodies[name] += fmt.Sprintf("h_count %d\n", l[2])
			store(now, name, "h_count", "", l[2])
		}
		m = &measurement{}
		r := &round{now: now, options: &Options{}, measured: map[string]*measurement{"shop/cart": m}}
		pages := sc.read(r, nil, nil, pods)
		for _, got := range pages {
			got.err = fmt.Errorf("silent")
			if body, there := bodies[got.pod.Name]; there {
				got.err = sc.parse(strings.NewReader(body), false, got)
			}
		}
		sc.take(r, pages)
	}
	for _, key := range sortedKeys(stored) {
		c.Series = append(c.Series, *stored[key])
	}
	m.settle(&s)
	for _, x := range []struct {
		r    podscaler.Reading
		into **float64
	}{{m.window.Latency, &c.Latency}, {m.window.Good, &c.Good}, {m.window.Arrivals, &c.Arrivals}} {
		if x.r.Known {
			*x.into = &x.r.Value
		} else if x.r.Why != fmt.Sprintf("there was no request in %s", window) {
			t.Fatalf("%s: %s", c.Name, x.r.Why)
		}
	}
	return c
}
