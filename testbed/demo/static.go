package demo

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sort"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// static is the fleet that one would have to keep all day without an autoscaler: the cheapest
// machines that hold, in the day's busiest minutes, the fewest pods with which every objective is
// held. No one knows these numbers beforehand, so that this is the best such fleet, and what is
// saved against it is what is saved at least.
type static struct {
	pods     []int // of each service
	machines []pricing.Placed
	ledger   *pricing.Ledger
}

// busiest is how long the busiest stretch is that the static fleet must hold.
const busiest = 5 * time.Minute

func newStatic(seed uint64, rates []sim.Curve, length time.Duration, book *pricing.Book) (*static, error) {
	from := peak(rates, length)
	f := &static{ledger: pricing.NewLedger(book)}
	for i, s := range services() {
		var failed error
		pods := sort.Search(s.Max, func(n int) bool {
			ok, err := holds(seed, i, rates[i].From(from), n)
			failed = cmp.Or(failed, err)
			return ok
		})
		if failed != nil {
			return nil, failed
		}
		f.pods = append(f.pods, pods)
	}
	if err := f.place(book); err != nil {
		return nil, err
	}
	return f, nil
}

// peak is the start of the stretch of a session in which its requests take most CPU time, or of
// its first day if it ends before that: who buys machines buys them for whole days.
func peak(rates []sim.Curve, length time.Duration) time.Duration {
	work := make([]sim.Curve, len(rates))
	for i, s := range services() {
		work[i] = rates[i].Scaled(s.demand.Mean.Seconds())
	}
	all := sum(work[0], work[1:]...)
	from, most := time.Duration(0), math.Inf(-1)
	for t := time.Duration(0); t+busiest <= max(length, 24*time.Hour); t += time.Minute {
		sum := 0.0
		for i := range 11 {
			sum += all.At(t + busiest*time.Duration(i)/10)
		}
		if sum > most {
			from, most = t, sum
		}
	}
	return from
}

// holds simulates the busiest stretch of one service with so many pods, which are all there and
// stay, and reports whether its objective was held over the whole of it.
func holds(seed uint64, service int, rate sim.Curve, pods int) (bool, error) {
	if pods == 0 {
		return false, nil
	}
	s := services()[service]
	cfg := world(seed)
	// One machine that is large enough: what is asked is how many pods, not where.
	cfg.Hosts[0].Room = pricing.Resources{CPU: 1 << 40, Memory: 1 << 60}
	cfg.Pools[0].Shapes = []pricing.Shape{{Name: "all", CPU: 1 << 30, Memory: 1 << 50}}
	cfg.Initial = map[string]int{"worker": 1}
	s.replicas = pods
	cfg.Workloads = []sim.Workload{s.simulated(rate)}
	w, err := sim.New(cfg, nil)
	if err != nil {
		return false, err
	}
	if err := w.Run(context.Background(), busiest); err != nil {
		return false, err
	}
	score := &w.Scores()[0]
	return score.Failed == 0 && score.Latencies.Quantile(s.SLO.Quantile) <= s.SLO.Target.Seconds(), nil
}

// place buys the machines at the start.
func (f *static) place(book *pricing.Book) error {
	f.machines = cheapest(f.pods, book)
	if f.machines == nil {
		return fmt.Errorf("the hosts have no room for %d pods", f.total())
	}
	for i, m := range f.machines {
		if err := f.ledger.Start(fmt.Sprintf("static-%d", i), m.Shape, m.Host, start); err != nil {
			return err
		}
	}
	return nil
}

// total is how many pods the fleet holds.
func (f *static) total() (n int) {
	for _, pods := range f.pods {
		n += pods
	}
	return n
}

// String prints the fleet in words.
func (f *static) String() string {
	count := map[string]int{}
	for _, m := range f.machines {
		count[m.Shape.Name]++
	}
	var parts []string
	for _, s := range pools()[0].Shapes {
		if n := count[s.Name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d × %s", n, s.Name))
		}
	}
	return fmt.Sprintf("%s for %d pods", strings.Join(parts, " and "), f.total())
}

// cheapest is the cheapest set of the pool's machines that holds so many pods of each service;
// nil if the hosts have no room for it.
func cheapest(pods []int, book *pricing.Book) []pricing.Placed {
	pool := pools()[0]
	p := packing.Problem{Hosts: map[string]pricing.Resources{}}
	for i, s := range services() {
		for j := range pods[i] {
			p.Items = append(p.Items, packing.Item{Name: fmt.Sprintf("%s-%03d", s.Name, j), Requests: s.Pod})
		}
	}
	p.Limits = map[string]int{pool.Name: len(p.Items)}
	for _, h := range hosts() {
		p.Hosts[h.Name] = h.Room
		for _, s := range pool.Shapes {
			p.Offers = append(p.Offers, packing.Offer{
				Pool: pool.Name, Shape: s, Host: h.Name, Rate: book.Rate(s, h.Name, start),
				Free: s.Resources().Minus(pool.Reserved), Slots: nodescaler.DefaultPodSlots,
			})
		}
	}
	result := packing.Solve(p)
	var fleet []pricing.Placed
	held := 0
	for _, b := range result.Purchases {
		fleet = append(fleet, pricing.Placed{Shape: b.Offer.Shape, Host: b.Offer.Host})
		held += len(b.Items)
	}
	if held < len(p.Items) {
		return nil
	}
	return fleet
}
