package operator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

// For a day a load comes and goes in waves, on one workload whose replicas follow CPU and whose
// requests are sized. Replicas are at every minute what they are without sizing, and each pod is
// resized a few times. Once the load is even, nothing changes any more. What replicas are scaled
// by, as a part of requests, is not resized.
func TestReplicasAndRequestsDoNotChaseEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		cores bool // and so CPU is sized, too
	}{
		"by CPU as a part of requests": {false},
		"by CPU in cores":              {true},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				d := newDay(t, c.cores, seed)
				d.play(24 * 60)
				alone := newDay(t, c.cores, seed)
				alone.autoscalers["shop/web"].Spec.Rightsize = nil
				alone.play(24 * 60)
				if diff := cmp.Diff(alone.replicas, d.replicas); diff != "" {
					t.Errorf("replicas, -without sizing +with:\n%s", diff)
				}
				if least, most := slices.Min(d.replicas[60:]), slices.Max(d.replicas); most < 2*least {
					t.Errorf("replicas do not follow the load, from %d to %d", least, most)
				}
				pods, cpu := d.resizes()
				for pod, n := range pods {
					if n > 4 {
						t.Errorf("%s was resized %d times", pod, n)
					}
				}
				if len(pods) == 0 || cpu != c.cores {
					t.Errorf("%d pods were resized, their CPU %v", len(pods), cpu)
				}
				d.even = true
				d.play(60)
				d.done = nil
				d.play(120)
				for _, done := range d.done {
					if strings.HasPrefix(done, "scale") || strings.HasPrefix(done, "resize") {
						t.Errorf("at an even load: %s", done)
					}
				}
			})
		}
	}
}

// day is a house with a workload whose load comes in waves.
type day struct {
	*house
	rng      *rand.Rand
	waves    int
	even     bool
	minute   int
	replicas []int
}

func newDay(t *testing.T, cores bool, seed uint64) *day {
	d := &day{house: newHouse(t), rng: rand.New(rand.NewPCG(seed, 20))}
	d.waves = 1 + d.rng.IntN(3)
	d.cfg.Interval, d.cfg.NodeScaler = time.Minute, false
	d.web(active + resizes)
	a := d.autoscalers["shop/web"]
	a.Spec.MaxReplicas, *a.Spec.MinReplicas = 40, 2
	m := &a.Spec.HPA.Metrics[0]
	if m.AverageValue = new(v1alpha1.Quantity("350m")); !cores {
		m.AverageValue, m.AverageUtilization = nil, new(int32(70))
	}
	d.pool("workers", "")
	for i := range 10 {
		d.node("workers", fmt.Sprint("n", i))
	}
	d.begin()
	return d
}

// play plays minutes. A pod uses its share of the load, and of memory somewhat more than it has.
func (d *day) play(minutes int) {
	for range minutes {
		load := 4.0
		if !d.even {
			load += 2.5 * math.Sin(2*math.Pi*float64(d.waves*d.minute)/(24*60))
			load *= 1 + 0.04*(d.rng.Float64()-0.5)
			d.minute++
		}
		d.cores = load / float64(d.house.replicas["shop/web"])
		d.uses["app"] = use(d.cores, 400)
		d.steps(1)
		d.replicas = append(d.replicas, d.house.replicas["shop/web"])
	}
}

// resizes are those of each pod, and whether any changed its CPU.
func (d *day) resizes() (pods map[string]int, cpu bool) {
	pods = map[string]int{}
	for _, done := range d.resized() {
		var pod, container, cores, memory string
		_, _ = fmt.Sscan(strings.TrimPrefix(done, "resize "), &pod, &container, &cores, &memory)
		pods[pod]++
		cpu = cpu || cores != "500m"
	}
	return pods, cpu
}
