package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/serving"
)

// Config is a world before it starts.
type Config struct {
	Seed  uint64
	Start time.Time // the time of day at which the world starts
	// Tick is the time between two steps of the loop. With Wake, a pod that turns
	// unschedulable calls for a step at once.
	Tick time.Duration
	Wake bool

	Hosts     []nodescaler.Host
	Pools     []nodescaler.Pool
	Initial   map[string]int // machines of each pool that are joined at the start
	Spares    map[string]int // and those that have been, and are stopped
	Begin     []Begin        // machines that are there besides
	Prices    *pricing.Book
	Workloads []Workload
	Delays    Delays
	// Clones is how many machines are cloned at a time in all; 0 for no limit.
	Clones int
	// MetricsEvery is the time between two readings of the pods' CPU use (metrics-server's
	// resolution).
	MetricsEvery time.Duration
	// Late is how long ago what is measured was when it can be read. Nothing says so to who reads
	// it, but for the time that samples of CPU carry, as those of metrics-server do.
	Late   time.Duration
	Faults []Fault
}

// Begin is a machine that is there at the start, joined or a spare.
type Begin struct {
	Pool  string
	Shape pricing.Shape
	Host  string
	Spare bool
}

// Delays are how long things take.
type Delays struct {
	timing.Machine
	Wake     timing.Range // from the start of a spare to a node that is ready
	PodStart timing.Range // from a pod's binding until it is ready
}

// Workload is a service with its users.
type Workload struct {
	Name     string
	Replicas int // at the start
	Requests pricing.Resources
	Extra    pricing.Amounts // what a pod asks for besides
	// Quota is the CPU limit that a pod's requests share; no request uses more than one core.
	Quota pricing.MilliCPU
	// Concurrency is how many requests a pod serves at a time; further ones queue in it.
	Concurrency  int
	Demand       Demand
	Memory       Memory
	Balance      Balance
	Selector     map[string]string
	Tolerations  []nodescaler.Toleration
	Priority     int
	Unavailable  int           // pods that may be evicted at a time; 0 for any number
	Grace        time.Duration // how long a terminating pod may finish what it has
	Load         Load
	Window       time.Duration // the longest window that its signals will be read over
	Buckets      []time.Duration
	ScrapeEvery  time.Duration // of the latency histogram; 0 reads latencies exactly
	LatencyGoal  time.Duration // what a minute's quantile is held against
	GoalQuantile float64
}

// Demand is the CPU time of one request, and how long it waits besides.
type Demand = serving.Demand

// Memory is what a pod has in use: at rest, and for each request that it serves or that waits in
// it. None is not measured.
type Memory struct{ Base, PerRequest pricing.Bytes }

// Balance is how a request finds its pod.
type Balance = serving.Balance

// The ways of balancing.
const (
	LeastOfTwo = serving.LeastOfTwo
	AtRandom   = serving.AtRandom
)

// Load is who sends requests, and how.
type Load struct {
	Kind Kind
	// Level is the number of users over time, or the requests per second of an open load.
	Level Curve
	// Shared says that the level is a part of a load, as are those of the other workloads that say
	// so: their users are whole, and as many together as the parts come to.
	Shared bool
	// Think is a user's pause: after the answer (Sleep), or from request to request (Pace).
	Think time.Duration
	// Spread starts the users over this time instead of all at once.
	Spread time.Duration
	// Even spaces an open load's requests evenly instead of at random.
	Even bool
}

// Kind is how the senders of requests behave.
type Kind string

// The kinds of load.
const (
	Sleep Kind = "sleep" // request, wait for the answer, sleep: k6's sleep() in a loop
	Pace  Kind = "pace"  // one request every Think, or as fast as answers allow
	Open  Kind = "open"  // requests arrive regardless of the earlier ones
)

// unique wants a list to have names, each once, and returns them.
func unique[T any](f *pricing.Faults, key string, all []T, name func(*T) string) []string {
	var names []string
	for i := range all {
		n := name(&all[i])
		f.Must(n != "" && !slices.Contains(names, n), fmt.Sprintf("%s[%d].name", key, i), "given, and be there once", fmt.Sprintf("%q", n))
		names = append(names, n)
	}
	return names
}

// Validate says everything that is wrong with the configuration.
func (c *Config) Validate() error {
	var f pricing.Faults
	// Zero is how a machine says that it does not exist yet.
	f.Must(!c.Start.IsZero(), "start", "given", c.Start)
	f.Must(c.Tick > 0, "tick", "greater than 0", c.Tick)
	f.Must(c.MetricsEvery > 0, "metricsEvery", "greater than 0", c.MetricsEvery)
	f.Must(c.Late >= 0, "late", "0 or more", c.Late)
	f.Must(c.Clones >= 0, "clones", "0 or more", c.Clones)
	if f.Must(c.Prices != nil, "prices", "given", "nothing"); c.Prices != nil {
		if err := c.Prices.Validate(); err != nil {
			f = append(f, fmt.Errorf("prices: %w", err))
		}
	}
	hosts := unique(&f, "hosts", c.Hosts, func(h *nodescaler.Host) string { return h.Name })
	c.Delays.validate(&f)
	c.validatePools(&f)
	unique(&f, "workloads", c.Workloads, func(w *Workload) string { return w.Name })
	for i := range c.Workloads {
		c.Workloads[i].validate(&f)
	}
	for i := range c.Faults {
		c.Faults[i].validate(&f, fmt.Sprintf("faults[%d].", i), hosts)
	}
	return errors.Join(f...)
}

func (d *Delays) validate(f *pricing.Faults) {
	for _, r := range []struct {
		key string
		timing.Range
	}{{"clone", d.Clone}, {"boot", d.Boot}, {"delete", d.Delete}, {"wake", d.Wake}, {"podStart", d.PodStart}} {
		f.Must(r.Valid(), "delays."+r.key, "a range from 0 up", fmt.Sprintf("%s..%s", r.Min, r.Max))
	}
}

func (c *Config) validatePools(f *pricing.Faults) {
	pools := unique(f, "pools", c.Pools, func(p *nodescaler.Pool) string { return p.Name })
	for i := range c.Pools {
		f.Must(c.Pools[i].PodSlots >= 0, fmt.Sprintf("pools[%d].podSlots", i), "0 or more", c.Pools[i].PodSlots)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Initial)) {
		f.Must(slices.Contains(pools, name), "initial."+name, "one of the pools", pools)
		f.Must(c.Initial[name] >= 0, "initial."+name, "0 or more", c.Initial[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Spares)) {
		f.Must(slices.Contains(pools, name), "spares."+name, "one of the pools", pools)
		f.Must(c.Spares[name] >= 0, "spares."+name, "0 or more", c.Spares[name])
	}
	for i := range c.Begin {
		f.Must(slices.Contains(pools, c.Begin[i].Pool), fmt.Sprintf("begin[%d].pool", i), "one of the pools", c.Begin[i].Pool)
	}
}

func (w *Workload) validate(f *pricing.Faults) {
	must := func(kept bool, key, rule string, was any) { f.Must(kept, "workloads."+w.Name+"."+key, rule, was) }
	must(w.Replicas >= 0, "replicas", "0 or more", w.Replicas)
	must(w.Requests.CPU >= 0 && w.Requests.Memory >= 0, "requests", "0 or more", w.Requests)
	must(w.Quota > 0, "quota", "greater than 0", w.Quota)
	must(w.Concurrency > 0, "concurrency", "greater than 0", w.Concurrency)
	must(w.Demand.Mean > 0, "demand.mean", "greater than 0", w.Demand.Mean)
	must(w.Demand.Spread >= 0 && w.Demand.Spread < 1, "demand.spread", "from 0 to below 1", w.Demand.Spread)
	must(w.Demand.Tail == 0 || w.Demand.Tail > 1, "demand.tail", "0 or greater than 1", w.Demand.Tail)
	must(w.Demand.Tail == 0 || w.Demand.Spread == 0, "demand.spread", "0 with a tail", w.Demand.Spread)
	must(w.Demand.Wait >= 0, "demand.wait", "0 or greater", w.Demand.Wait)
	must(w.Memory.Base >= 0 && w.Memory.PerRequest >= 0, "memory", "0 or more", w.Memory)
	must(w.Balance == LeastOfTwo || w.Balance == AtRandom, "balance", fmt.Sprintf("%s or %s", LeastOfTwo, AtRandom), w.Balance)
	must(w.Unavailable >= 0, "unavailable", "0 or more", w.Unavailable)
	must(w.Grace >= 0, "grace", "0 or more", w.Grace)
	must(w.Window > 0, "window", "greater than 0", w.Window)
	must(w.LatencyGoal > 0, "latencyGoal", "greater than 0", w.LatencyGoal)
	must(w.GoalQuantile > 0 && w.GoalQuantile < 1, "goalQuantile", "between 0 and 1", w.GoalQuantile)
	must(w.ScrapeEvery >= 0, "scrapeEvery", "0 or more", w.ScrapeEvery)
	must(len(w.Buckets) > 0 == (w.ScrapeEvery > 0), "buckets", "given with scrapeEvery, and only with it", w.Buckets)
	for i, edge := range w.Buckets {
		must(edge > 0 && (i == 0 || edge > w.Buckets[i-1]), fmt.Sprintf("buckets[%d]", i), "above 0 and the edge before it", edge)
	}
	w.Load.validate(must)
}

func (l *Load) validate(must func(kept bool, key, rule string, was any)) {
	kinds := []Kind{Sleep, Pace, Open}
	must(slices.Contains(kinds, l.Kind), "load.kind", fmt.Sprintf("one of %s", kinds), l.Kind)
	must(l.Kind == Open || l.Think > 0, "load.think", "greater than 0 for users", l.Think)
	must(l.Spread >= 0, "load.spread", "0 or more", l.Spread)
	must(len(l.Level) > 0, "load.level", "given", "nothing")
	for i, p := range l.Level {
		key := fmt.Sprintf("load.level[%d]", i)
		must(p.Level >= 0 && p.Level <= MaxLevel, key, fmt.Sprintf("from 0 to %g", float64(MaxLevel)), p.Level)
		must(i == 0 || p.At >= l.Level[i-1].At, key, "no earlier than the point before it", p.At)
	}
}

// MaxLevel is the most users, or requests a second, of a load. It keeps users countable, and
// requests apart by whole nanoseconds.
const MaxLevel = 1e9

func (x *Fault) validate(f *pricing.Faults, key string, hosts []string) {
	f.Must(slices.Contains(FaultKinds, x.Kind), key+"kind", fmt.Sprintf("one of %s", FaultKinds), x.Kind)
	f.Must(x.At >= 0, key+"at", "0 or more", x.At)
	f.Must(x.For >= 0, key+"for", "0 or more", x.For)
	f.Must(x.Kind != MetricsVanish || x.For > 0, key+"for", "greater than 0 for "+string(MetricsVanish), x.For)
	noisy := x.Kind == NoisyNeighbour
	f.Must(!noisy || x.For > 0, key+"for", "greater than 0 for "+string(NoisyNeighbour), x.For)
	f.Must(!noisy || x.Left > 0 && x.Left < 1, key+"left", "between 0 and 1 for "+string(NoisyNeighbour), x.Left)
	f.Must(!noisy || x.Host == "" || slices.Contains(hosts, x.Host), key+"host", fmt.Sprintf("one of %s, or none for all", hosts), x.Host)
	f.Must(x.Count >= 0, key+"count", "0 or more", x.Count)
	f.Must(x.Kind != HostDies || slices.Contains(hosts, x.Host), key+"host", fmt.Sprintf("one of %s", hosts), x.Host)
}
