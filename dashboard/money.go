package dashboard

import (
	"cmp"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

const (
	// mostHours is how long sums are kept: two months.
	mostHours = 1488
	// longestStep is how long a record's machines are taken to have run before it: a longer time
	// without records is one of which nothing is known.
	longestStep = 10 * time.Minute
)

// ledger is what machines have cost, by the hour.
type ledger struct {
	last  time.Time
	hours map[int64]map[item]spending
}

// item is a kind of machine, or a namespace. One without any of them is the fixed price of hosts.
type item struct{ pool, host, shape, namespace string }

// spending is what machines cost, and how much of that their pods asked for.
type spending struct{ hours, spent, used float64 }

// add charges the time since the record before at what this one saw.
func (l *ledger) add(s *loop.Step) {
	passed := s.Time.Sub(l.last)
	l.last = s.Time
	if passed <= 0 || passed > longestStep {
		return
	}
	if l.hours == nil {
		l.hours = map[int64]map[item]spending{}
	}
	hour := s.Time.Unix() / 3600
	items := l.hours[hour]
	if items == nil {
		items = map[item]spending{}
		l.hours[hour] = items
		delete(l.hours, hour-mostHours)
	}
	rates := pricing.Rate(0) // of the machines alone
	for i := range s.Observed.Hosts {
		h := &s.Observed.Hosts[i]
		for k := range h.Machines {
			m := &h.Machines[k]
			rates += m.Rate
			spent, key := m.Rate.Units()*passed.Hours(), item{pool: m.Pool, host: h.Name, shape: m.Shape.Name}
			of := items[key]
			items[key] = spending{of.hours + passed.Hours(), of.spent + spent, of.used + spent*asked(m)}
		}
	}
	for _, n := range s.Observed.Namespaces {
		key := item{namespace: n.Namespace}
		of, allocated := items[key], n.Allocated.Units()*passed.Hours()
		items[key] = spending{spent: of.spent + allocated + n.Idle.Units()*passed.Hours(), used: of.used + allocated}
	}
	if fixed := (s.Observed.Cost.Ordered - rates).Units(); fixed > 0 {
		of := items[item{}]
		of.spent += fixed * passed.Hours()
		items[item{}] = of
	}
}

// asked is how much of a machine its pods ask for: of CPU or memory, whichever is more.
func asked(m *loop.MachineLoad) float64 {
	if m.Phase != nodescaler.Joined || m.Shape.CPU <= 0 || m.Shape.Memory <= 0 {
		return 0
	}
	return min(1, max(float64(m.Requests.CPU)/float64(m.Shape.CPU), float64(m.Requests.Memory)/float64(m.Shape.Memory)))
}

// Money is what a time has cost.
type Money struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Unit  string    `json:"unit"`
	Spent float64   `json:"spent"`
	// Idle is the part of it that no pod asked for.
	Idle float64 `json:"idle"`
	// Fixed is the part that hosts cost, however little runs on them.
	Fixed float64 `json:"fixed"`
	// Month is what a month costs at this pace.
	Month float64 `json:"month"`
	// Peak is what the dearest fleet of the time cost an hour, and Static what that would have cost
	// all the time.
	Peak    float64  `json:"peak"`
	Static  float64  `json:"static"`
	ByPool  []Amount `json:"byPool"`
	ByHost  []Amount `json:"byHost"`
	ByShape []Amount `json:"byShape"`
	// ByNamespace divides what the machines under pods have cost. What is idle on a machine is
	// shared among its namespaces; a machine without pods is in none.
	ByNamespace []Amount `json:"byNamespace"`
}

// Amount is what the machines of one pool, host, shape or namespace have cost. Namespaces share
// machines, and have no hours of them.
type Amount struct {
	Name  string  `json:"name"`
	Hours float64 `json:"hours"` // of machines
	Spent float64 `json:"spent"`
	Idle  float64 `json:"idle"`
}

// moneyOf sums the hours that a time touches.
func (h *History) moneyOf(from, to time.Time) Money {
	m := Money{From: from, To: to, Unit: h.unit}
	pools, hosts, shapes, spaces := map[string]spending{}, map[string]spending{}, map[string]spending{}, map[string]spending{}
	put := func(in map[string]spending, name string, s spending) {
		of := in[name]
		in[name] = spending{of.hours + s.hours, of.spent + s.spent, of.used + s.used}
	}
	for hour, items := range h.money.hours {
		if hour < from.Unix()/3600 || hour > to.Unix()/3600 {
			continue
		}
		for of, s := range items {
			if of.namespace != "" {
				put(spaces, of.namespace, s)
				continue
			}
			m.Spent += s.spent
			if of == (item{}) {
				m.Fixed += s.spent
				continue
			}
			m.Idle += s.spent - s.used
			put(pools, of.pool, s)
			put(hosts, of.host, s)
			put(shapes, of.shape, s)
		}
	}
	_, numbers := h.fleet.points(from, to)
	for _, rate := range numbers[0] {
		if rate == rate {
			m.Peak = max(m.Peak, float64(rate))
		}
	}
	if long := to.Sub(from).Hours(); long > 0 {
		m.Month, m.Static = m.Spent/long*730, m.Peak*long
	}
	m.ByPool, m.ByHost, m.ByShape, m.ByNamespace = amounts(pools), amounts(hosts), amounts(shapes), amounts(spaces)
	return m
}

// amounts are sums, the dearest first.
func amounts(of map[string]spending) []Amount {
	all := make([]Amount, 0, len(of))
	for name, s := range of {
		all = append(all, Amount{Name: name, Hours: s.hours, Spent: s.spent, Idle: s.spent - s.used})
	}
	slices.SortFunc(all, func(a, b Amount) int { return cmp.Or(cmp.Compare(b.Spent, a.Spent), cmp.Compare(a.Name, b.Name)) })
	return all
}
