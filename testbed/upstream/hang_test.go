package upstream_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// clock is emulated time while a world is made, and then follows the wall clock: the emulator,
// which is in the same process, would answer for the time only between two of its own doings.
type clock struct {
	emulated func() time.Time
	begun    atomic.Pointer[time.Time] // when it began to follow the wall clock
	from     time.Time
	ahead    atomic.Int64
}

func (c *clock) now() time.Time {
	begun := c.begun.Load()
	if begun == nil {
		return c.emulated()
	}
	return c.from.Add(time.Since(*begun) + time.Duration(c.ahead.Load()))
}

// follow lets it follow the wall clock.
func (c *clock) follow() {
	c.from = c.emulated()
	now := time.Now()
	c.begun.Store(&now)
}

// thousand is a world of 1,000 nodes in 10 groups, made as they would be.
func thousand(b *testing.B) (*world, *clock) {
	b.Helper()
	const hosts, groups, each = 10, 10, 100
	var pools []settings.Pool
	for i := range groups {
		p := rke2Pool(fmt.Sprintf("pool-%d", i), smallShape, 10000+500*i, hosts)
		p.Max, p.VMIDs.Last = each, p.VMIDs.First+499
		p.Placement.CPURatio, p.Placement.MemoryRatio = 8, 8
		pools = append(pools, p)
	}
	c := &clock{}
	w := begin(b, plan{hosts: hosts, pools: pools, change: func(w *world) {
		c.emulated = w.sim.Now
		w.site.ClonesPerStorage, w.site.Now, w.provider.Now = 100, c.now, c.now
	}})
	for _, p := range pools {
		w.mustIncrease(w.group(p.Name), each)
	}
	w.until("all have joined", time.Hour, func() bool { return len(w.kube.joined()) == groups*each })
	w.until("no first-boot disc is left", time.Hour, func() bool { return len(w.discs()) == 0 })
	for _, p := range pools {
		if !w.all(w.group(p.Name), "Running", each) {
			b.Fatalf("not all of %s run", p.Name)
		}
	}
	c.follow()
	return w, c
}

// BenchmarkHangingCluster calls at 500 calls a second a provider of 1,000 nodes in 10 groups. Its
// fleet works at first, then the cluster hangs, at last for so long that what was seen is too old
// to act by. It prints how long the answers took.
func BenchmarkHangingCluster(b *testing.B) {
	w, c := thousand(b)
	ctx, cancel := context.WithCancel(context.Background())
	var fleet sync.WaitGroup
	fleet.Go(func() { w.fleet.Run(ctx) })
	defer fleet.Wait()
	defer cancel()
	defer w.door.open()
	for b.Loop() {
		w.door.open()
		answering := w.load(b)
		w.door.close()
		hanging := w.load(b)
		c.ahead.Add(int64(3 * time.Minute))
		long := w.load(b)
		table(b, []string{"answering", "hanging", "hung-for-3m"}, answering, hanging, long)
	}
}

// load makes calls of every kind evenly, 500 a second for five seconds, regardless of earlier
// ones, and returns how long they took, by name.
func (w *world) load(b *testing.B) map[string][]time.Duration {
	b.Helper()
	const rate, lasts = 500, 5
	group := w.group("pool-3")
	calls := w.calls(group, w.ids(group)[7])
	var mu sync.Mutex
	took := map[string][]time.Duration{}
	var wait sync.WaitGroup
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	for i := range rate * lasts {
		<-tick.C
		one := calls[i%len(calls)]
		wait.Go(func() {
			start := time.Now()
			if err := one.do(context.Background()); err != nil {
				b.Errorf("%s: %v", one.name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			took[one.name] = append(took[one.name], time.Since(start))
			took["all"] = append(took["all"], time.Since(start))
		})
	}
	wait.Wait()
	return took
}

// table prints how long calls took, and reports the 99th percentile of all.
func table(b *testing.B, states []string, took ...map[string][]time.Duration) {
	fmt.Printf("\n%-28s", "")
	for _, state := range states {
		fmt.Printf(" %-40s", state)
	}
	fmt.Println()
	for _, name := range slices.Sorted(maps.Keys(took[0])) {
		fmt.Printf("%-28s", name)
		for _, one := range took {
			fmt.Printf(" %5d p50 %7s p99 %7s max %7s", len(one[name]), quantile(one[name], .5), quantile(one[name], .99), quantile(one[name], 1))
		}
		fmt.Println()
	}
	for i, state := range states {
		b.ReportMetric(float64(quantile(took[i]["all"], .99).Microseconds()), "p99-µs-"+state)
	}
}

func quantile(took []time.Duration, q float64) time.Duration {
	slices.Sort(took)
	return took[int(q*float64(len(took)-1))].Round(10 * time.Microsecond)
}
