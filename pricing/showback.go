package pricing

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"sort"
	"time"
)

// Share is the part of the cost that is down to one machine, or to one host's fixed part.
type Share struct {
	// Machine is the machine's id; empty in a host's fixed part, which no one machine causes.
	Machine string `json:"machine,omitempty"`
	// Host is the host whose fixed part it is; empty in a machine's share.
	Host string `json:"host,omitempty"`
	Cost Micros `json:"cost"`

	exact *big.Int
}

// Each divides what Between returns: one share for each machine that ran, by id, then one for
// each host's fixed part, by name. Before rounding, the shares add up to the whole; each is
// rounded by itself.
func (l *Ledger) Each(from, to time.Time) []Share {
	from, to = from.Round(0), to.Round(0)
	spans := make(map[int][]span) // of each charge, by start
	machines := make(map[string]*big.Int)
	periods := l.periods(from, to)
	for _, r := range l.sortedRuns() {
		s, ok := r.within(from, to)
		if !ok {
			continue
		}
		if machines[r.id] == nil {
			machines[r.id] = new(big.Int)
		}
		machines[r.id].Add(machines[r.id], l.cost(r.machine, s, periods))
		spans[r.host] = append(spans[r.host], s)
	}
	var shares []Share
	for _, id := range slices.Sorted(maps.Keys(machines)) {
		shares = append(shares, Share{Machine: id, Cost: settle(machines[id]), exact: machines[id]})
	}
	for _, host := range slices.Sorted(maps.Keys(l.host)) {
		exact := new(big.Int)
		for _, s := range union(spans[l.host[host]]) {
			exact.Add(exact, l.cost(l.host[host], s, periods))
		}
		if exact.Sign() != 0 {
			shares = append(shares, Share{Host: host, Cost: settle(exact), exact: exact})
		}
	}
	return shares
}

// sortedRuns lists the runs by start.
func (l *Ledger) sortedRuns() []run {
	return slices.SortedStableFunc(slices.Values(l.runs), func(a, b run) int {
		return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.id, b.id))
	})
}

// periods lists the periods of constant prices, from the first start on: before it nothing costs
// anything, however early from is.
func (l *Ledger) periods(from, to time.Time) []span {
	if len(l.events) > 0 {
		from = later(from, l.events[0].at)
	}
	var list []span
	for from.Before(to) {
		end, ok := l.nextChange(from)
		if !ok || end.After(to) {
			end = to
		}
		list = append(list, span{from, end})
		from = end
	}
	return list
}

// span is a stretch of time.
type span struct{ from, to time.Time }

// within is the part of a run between two moments.
func (r *run) within(from, to time.Time) (span, bool) {
	s := span{r.start, to}
	if r.start.Before(from) {
		s.from = from
	}
	if !r.stop.IsZero() && r.stop.Before(to) {
		s.to = r.stop
	}
	return s, s.from.Before(s.to)
}

// cost is what a charge comes to over a span, at the prices of the periods.
func (l *Ledger) cost(charge int, s span, periods []span) *big.Int {
	sum := new(big.Int)
	first := sort.Search(len(periods), func(i int) bool { return periods[i].to.After(s.from) })
	for _, p := range periods[first:] {
		if !p.from.Before(s.to) {
			break
		}
		part := elapsed(later(p.from, s.from), earlier(p.to, s.to))
		sum.Add(sum, part.Mul(part, l.priceAt(charge, p.from)))
	}
	return sum
}

// union joins spans, given by start, that meet or overlap.
func union(spans []span) []span {
	var joined []span
	for _, s := range spans {
		if n := len(joined); n > 0 && !s.from.After(joined[n-1].to) {
			joined[n-1].to = later(joined[n-1].to, s.to)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
