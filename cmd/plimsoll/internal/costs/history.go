package costs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// History is what a cluster cost over a time, as far as Prometheus knows.
type History struct {
	From, To time.Time
	Step     time.Duration
	// Source is the series that it was read from.
	Source   string
	Currency string // empty if Prometheus does not say
	Total    Spent
	Lines    []Spent // by name
	// Covered is how much of the time costs are known of. Gaps are the rest: what was spent in them
	// is not known, and in no sum.
	Covered time.Duration
	Gaps    []Gap
}

// Spent is what one node, pool, namespace or workload cost over the covered time.
type Spent struct {
	Name                          string
	Cost, Allocated, Idle, System pricing.Micros
	// For is how much of the covered time it was there.
	For time.Duration
	// Parted is whether the cost's parts are known; OpenCost's series have none.
	Parted bool
}

// Gap is a time of which costs are not known.
type Gap struct{ From, To time.Time }

// By is what costs are listed by.
type By string

// The things that costs are listed by.
const (
	ByNode      By = "node"
	ByPool      By = "pool"
	ByNamespace By = "namespace"
	ByWorkload  By = "workload"
)

// Bys lists them.
func Bys() []By { return []By{ByNode, ByPool, ByNamespace, ByWorkload} }

// ErrNoSeries is what there is to say when Prometheus has none of the series that costs are read
// from.
var ErrNoSeries = errors.New("no series of costs")

// ErrSeveralClusters is what wraps the values of label cluster, when there are several.
var ErrSeveralClusters = errors.New("there are costs of several clusters")

// maxPoints is how many moments of the time are looked at, at most.
const maxPoints = 1440

// stepFor is a minute, or as much more as it takes for a time to have no more than maxPoints of it.
func stepFor(d time.Duration) time.Duration {
	return max(time.Minute, (d/maxPoints + time.Second - 1).Truncate(time.Second))
}

// Since adds up what was spent since some time ago: at each of many moments, the costs that were
// exported then hold until the next one. Moments without costs are gaps.
func (p *Prometheus) Since(ctx context.Context, by By, from, to time.Time) (*History, error) {
	h := &History{From: from, To: to, Step: stepFor(to.Sub(from)), Source: "plimsoll_" + string(by) + "_cost_per_hour"}
	ours, err := p.ours(ctx, h, by)
	if err != nil || ours {
		return h, err
	}
	if by != ByNode {
		return nil, fmt.Errorf("%w: there is no %s between %s and %s", ErrNoSeries, h.Source, stamp(from), stamp(to))
	}
	h.Source = "node_total_hourly_cost"
	return h, p.openCosts(ctx, h)
}

func stamp(t time.Time) string { return t.Format(time.RFC3339) }

// ours reads Plimsoll's own series, and reports whether there are any.
func (p *Prometheus) ours(ctx context.Context, h *History, by By) (bool, error) {
	known, err := p.queryRange(ctx, "plimsoll_cost_known", h)
	if err != nil || len(known) == 0 {
		return false, err
	}
	covered := h.moments()
	for _, s := range known {
		for i, v := range s.Values {
			covered[i] = covered[i] || v == 1
		}
	}
	list, err := p.queryRange(ctx, h.Source, h)
	if err != nil {
		return false, err
	}
	if h.Currency, err = p.currency(ctx, h); err != nil {
		return false, err
	}
	h.cover(covered)
	h.add(list, covered, by)
	return true, oneCluster(append(known, list...))
}

// openCosts reads OpenCost's series. Where there is a cost of any node, those of all are taken to
// be known.
func (p *Prometheus) openCosts(ctx context.Context, h *History) error {
	list, err := p.queryRange(ctx, h.Source, h)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("%w: there is neither plimsoll_cost_known nor node_total_hourly_cost between %s and %s", ErrNoSeries, stamp(h.From), stamp(h.To))
	}
	covered := h.moments()
	for _, s := range list {
		for i, v := range s.Values {
			covered[i] = covered[i] || !math.IsNaN(v)
		}
	}
	h.cover(covered)
	h.add(list, covered, ByNode)
	return oneCluster(list)
}

// oneCluster refuses series of several clusters, whose nodes and namespaces may have the same
// names.
func oneCluster(list []series) error {
	var all []string
	for i := range list {
		all = append(all, list[i].Labels["cluster"])
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > 1 {
		return fmt.Errorf("%w: %q", ErrSeveralClusters, all)
	}
	return nil
}

// moments is one value for each moment that is looked at.
func (h *History) moments() []bool { return make([]bool, h.points()) }

func (h *History) points() int { return int((h.To.Sub(h.From) + h.Step - 1) / h.Step) }

// stretch is the time that a moment is about; the last one may be shorter.
func (h *History) stretch(i int) (from, to time.Time) {
	from = h.From.Add(time.Duration(i) * h.Step)
	if to = from.Add(h.Step); to.After(h.To) {
		to = h.To
	}
	return from, to
}

// cover notes which of the time is known of.
func (h *History) cover(covered []bool) {
	for i, known := range covered {
		from, to := h.stretch(i)
		switch n := len(h.Gaps); {
		case known:
			h.Covered += to.Sub(from)
		case n > 0 && h.Gaps[n-1].To.Equal(from):
			h.Gaps[n-1].To = to
		default:
			h.Gaps = append(h.Gaps, Gap{from, to})
		}
	}
}

// add adds up the series by what they are of. Of several that say the same thing at the same time,
// such as those of two processes that took over from one another, the largest counts.
func (h *History) add(list []series, covered []bool, by By) {
	best := map[string]map[string][]float64{} // by name and part
	for _, s := range list {
		name, part := s.nameBy(by), s.label("part")
		if best[name] == nil {
			best[name] = map[string][]float64{}
		}
		had := best[name][part]
		if had == nil {
			best[name][part] = s.Values
			continue
		}
		for i, v := range s.Values {
			if math.IsNaN(had[i]) || v > had[i] {
				had[i] = v
			}
		}
	}
	h.Total = Spent{Parted: true}
	for name, parts := range best {
		spent := h.integrate(parts, covered)
		spent.Name = name
		h.Lines = append(h.Lines, spent)
	}
	slices.SortFunc(h.Lines, func(a, b Spent) int { return cmp.Compare(a.Name, b.Name) })
	for _, l := range h.Lines {
		h.Total.Cost += l.Cost
		h.Total.Allocated += l.Allocated
		h.Total.Idle += l.Idle
		h.Total.System += l.System
		h.Total.Parted = h.Total.Parted && l.Parted
	}
	h.Total.For = h.Covered
}

// integrate adds up one line. Moments that are not covered do not count, even with a value.
func (h *History) integrate(parts map[string][]float64, covered []bool) Spent {
	there := h.moments()
	total := func(part string) pricing.Micros {
		var hours float64
		for i, v := range parts[part] {
			if !covered[i] || math.IsNaN(v) {
				continue
			}
			from, to := h.stretch(i)
			there[i] = true
			hours += v * to.Sub(from).Hours()
		}
		return pricing.Micros(math.Round(hours * float64(pricing.Unit)))
	}
	var s Spent
	if whole, ok := parts[""]; ok && whole != nil {
		s.Cost = total("")
	} else {
		s.Parted = true
		s.Allocated, s.Idle, s.System = total(partAllocated), total(partIdle), total(partSystem)
		s.Cost = s.Allocated + s.Idle + s.System
	}
	for i, was := range there {
		if was {
			from, to := h.stretch(i)
			s.For += to.Sub(from)
		}
	}
	return s
}

// nameBy is the name of what a series is of. A scraper that does not honour the labels of what it
// scrapes puts its own in their place, and theirs under another name.
func (s *series) nameBy(by By) string {
	name := s.label(string(by))
	if by == ByWorkload {
		return s.label(string(ByNamespace)) + "/" + name
	}
	return name
}

func (s *series) label(name string) string {
	if own, ok := s.Labels["exported_"+name]; ok {
		return own
	}
	return s.Labels[name]
}

// currency is that of the costs, if they have one.
func (p *Prometheus) currency(ctx context.Context, h *History) (string, error) {
	list, err := p.queryRange(ctx, "plimsoll_cost_info", h)
	if err != nil {
		return "", err
	}
	var all []string
	for i := range list {
		all = append(all, list[i].label("currency"))
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > 1 {
		return "", fmt.Errorf("costs are in several currencies between %s and %s, and cannot be added up: %s", stamp(h.From), stamp(h.To), strings.Join(all, ", "))
	}
	return strings.Join(all, ""), nil
}
