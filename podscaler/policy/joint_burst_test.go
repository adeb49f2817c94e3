package policy

import (
	"math"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
)

// Ten pods of half a core do 4.2 cores of work. Few of them use more for a while, as they collect
// garbage or start, which is no more that all may use.
func TestAFewPodsBurstMakesNoOthersNeedless(t *testing.T) {
	for _, c := range []struct {
		name     string
		bursting int
		runs     int
		started  bool // they have just become ready
		want     float64
	}{
		{"one for two runs", 1, 2, false, 0.5},
		{"one for an hour", 1, 240, false, 0.5},
		{"two for an hour", 2, 240, false, 0.5},
		{"half of them as they start", 5, 1, true, 0.5},
		{"half of them for an hour, which all may", 5, 240, false, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, w := unlearned(t), shop(500)
			least, quota := 100, 0.0
			for i := range 240 + c.runs + 48 {
				now := start.Add(time.Hour + time.Duration(i)*15*time.Second)
				v := manyPods(w, 10, 0.42, now)
				for j := range c.bursting {
					if bursts := 240 <= i && i < 240+c.runs; bursts {
						v.Pods[j].CPU.Value = 4
						if c.started {
							v.Pods[j].ReadyChanged = now.Add(-5 * time.Second)
						}
					}
				}
				r := p.Desired(v)
				quota = max(quota, p.estimator.service.Quota())
				if i >= 200 {
					least = min(least, r.Replicas)
				}
			}
			if math.Abs(quota-c.want) > 0.01 {
				t.Errorf("a pod is taken to have %.3g cores, should be %.3g", quota, c.want)
			}
			if want := 10; c.want == 0.5 && least < want || least < 5 {
				t.Errorf("goes down to %d", least)
			}
		})
	}
}

// A pod alone is believed to have what it has used for all of a window, and no less than that.
func TestAPodAloneIsBelievedOnceItKeepsItUp(t *testing.T) {
	for _, c := range []struct {
		runs int
		want float64
	}{{2, 0.5}, {5, 1}} {
		p, w := unlearned(t), shop(500)
		for i := range 40 + c.runs {
			cpu := 0.4
			if i >= 40 {
				cpu = 1
			}
			p.Desired(manyPods(w, 1, cpu, start.Add(time.Hour+time.Duration(i)*15*time.Second)))
		}
		if got := p.estimator.service.Quota(); got != c.want {
			t.Errorf("after %d runs at 1 core it is taken to have %.3g, should be %.3g", c.runs, got, c.want)
		}
	}
}

// manyPods are so many pods that each use so much on requests of 50 ms.
func manyPods(w *podscaler.Workload, pods int, cpu float64, now time.Time) *podscaler.View {
	v := partsView(pods, cpu, float64(pods)*cpu/0.05, 0.2, float64(pods))
	v.Now, v.Workload = now, w
	for i := range v.Pods {
		v.Pods[i].CPU.At = now
	}
	return v
}

// Pods that use 30m each for nothing make the requests of a quiet night seem dear. The morning's
// are held against their number.
func TestAQuietNightMakesNoMorningDear(t *testing.T) {
	p, w := unlearned(t), shop(500)
	replicas, most := 2, 0
	for i := range 1440 + 240 {
		rate := 0.1 + min(max(float64(i-1440)/2, 0), 40) // up within 20 minutes
		cores := 0.03*float64(replicas) + 0.05*rate
		v := manyPods(w, replicas, cores/float64(replicas), start.Add(time.Hour+time.Duration(i)*15*time.Second))
		v.Window.Arrivals, v.Window.InFlight = podscaler.Known(rate), podscaler.Known(0.1*rate)
		v.Window.Latency = podscaler.Known(0.15)
		r := p.Desired(v)
		if replicas = r.Replicas; i >= 1440 {
			most = max(most, replicas)
		}
	}
	if most > 8 {
		t.Errorf("goes up to %d replicas, of which 6 carry the load", most)
	}
}
