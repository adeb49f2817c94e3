package podscaler

import (
	"slices"
	"time"
)

// ErrorBudget counts the requests of a workload, and those that were late for its objective: an
// objective for the 99th percentile lets one in a hundred be late. It knows what was observed since
// it began, and takes the time before for as busy and without a late request. So what it says of a
// window that it has not seen whole is the least that was spent.
type ErrorBudget struct {
	since, last time.Time
	counted     bool
	counts      [len(budgetWindows)]ring
}

// Budget is what is known of an error budget at a time.
type Budget struct {
	Since time.Time `json:"since"` // since when requests are counted
	// Late is the share of requests that the objective lets be late, and Left the share of those of
	// BudgetPeriod that are left. It is below 0 once more were late.
	Late float64 `json:"late"`
	Left float64 `json:"left"`
	Burn []Burn  `json:"burn"`
}

// Burn is how many times as many requests as the objective lets were late, over a window. At 1 all
// of the window the budget is used up just at the end of BudgetPeriod.
type Burn struct {
	Over Duration `json:"over"`
	Rate float64  `json:"rate"`
}

// BudgetPeriod is what an error budget is for.
const BudgetPeriod = 30 * 24 * time.Hour

// budgetWindows are what is counted over, and the last is the period.
var budgetWindows = [...]time.Duration{
	5 * time.Minute, 30 * time.Minute, time.Hour, 6 * time.Hour, 3 * 24 * time.Hour, BudgetPeriod,
}

// BurnAlert is a pace at which a budget is spent too fast: more than Rate over the long window, and
// over the short one, which shows that it still is.
type BurnAlert struct {
	Long, Short time.Duration
	Rate        float64
	Page        bool // a person is to look at once
}

// BurnAlerts are those of the SRE workbook, the fastest first: 2 % of the period's budget in an
// hour, 5 % in six hours, 10 % in three days.
var BurnAlerts = []BurnAlert{
	{time.Hour, 5 * time.Minute, 14.4, true},
	{6 * time.Hour, 30 * time.Minute, 6, true},
	{3 * 24 * time.Hour, 6 * time.Hour, 1, false},
}

// NearlyAllLate is the share of late requests that counts as any alert's rate: of an objective that
// lets one in ten be late, no budget is ever spent 14.4 times as fast.
const NearlyAllLate = 0.9

// See takes in what a run measured. It counts the requests since the run before, at most for as
// long as they were measured over; what could not be measured is not counted.
func (b *ErrorBudget) See(v *View) {
	rate, arriving := v.Window.Arrivals.Number()
	good, answered := v.Window.Good.Number()
	if b.since.IsZero() {
		b.since = v.Now
	}
	passed := v.Now.Sub(b.last)
	first := b.last.IsZero()
	b.last = v.Now
	if first || passed <= 0 || !arriving || !answered || rate <= 0 {
		return
	}
	over := v.Window.Over
	if over == 0 {
		over = v.Workload.SLO.Window
	}
	b.counted = true
	all := rate * min(passed, over).Seconds()
	for i := range b.counts {
		b.counts[i].add(v.Now, budgetWindows[i], all, all*min(max(1-good, 0), 1))
	}
}

// Spent is what of the budget was spent by then; nil without an objective, and
// until requests were counted.
func (b *ErrorBudget) Spent(o SLO, now time.Time) *Budget {
	if o.Target <= 0 || !b.counted {
		return nil
	}
	s := &Budget{Since: b.since, Late: 1 - o.Quantile}
	seen := max(now.Sub(b.since), 1)
	for i, window := range budgetWindows {
		rate := 0.0
		if all, late := b.counts[i].sum(now, window); all > 0 {
			rate = late / all * min(1, float64(seen)/float64(window)) / s.Late
		}
		s.Burn = append(s.Burn, Burn{Duration(window), rate})
	}
	last := len(s.Burn) - 1
	s.Left, s.Burn = 1-s.Burn[last].Rate, s.Burn[:last]
	return s
}

// Over is the rate over a window; 0 where none is kept for it.
func (s *Budget) Over(window time.Duration) float64 {
	i := slices.IndexFunc(s.Burn, func(b Burn) bool { return b.Over == Duration(window) })
	if i < 0 {
		return 0
	}
	return s.Burn[i].Rate
}

// Burning is the fastest alert whose rate is exceeded; nil if none is.
func (s *Budget) Burning() *BurnAlert {
	for i := range BurnAlerts {
		a := &BurnAlerts[i]
		if rate := min(a.Rate, NearlyAllLate/s.Late); s.Over(a.Long) > rate && s.Over(a.Short) > rate {
			return a
		}
	}
	return nil
}

// ring counts requests over the last window, in parts of it.
type ring struct {
	part  int64 // the present one
	parts [budgetParts + 1]struct{ all, late float64 }
}

const budgetParts = 12

// turn goes on to the part that a time is in, and returns what of that part has passed.
func (r *ring) turn(now time.Time, window time.Duration) (passed float64) {
	width := int64(window / budgetParts)
	part := now.UnixNano() / width
	for n := min(part-r.part, int64(len(r.parts))); n > 0; n-- {
		r.parts[(part-n+1)%int64(len(r.parts))] = struct{ all, late float64 }{}
	}
	r.part = max(part, r.part)
	return float64(now.UnixNano()%width) / float64(width)
}

func (r *ring) add(now time.Time, window time.Duration, all, late float64) {
	r.turn(now, window)
	p := &r.parts[r.part%int64(len(r.parts))]
	p.all, p.late = p.all+all, p.late+late
}

// sum is what was counted over the window; of its oldest part, as much as is still in it.
func (r *ring) sum(now time.Time, window time.Duration) (all, late float64) {
	passed := r.turn(now, window)
	for i, p := range r.parts {
		share := 1.0
		if int64(i) == (r.part+1)%int64(len(r.parts)) {
			share = 1 - passed
		}
		all, late = all+p.all*share, late+p.late*share
	}
	return all, late
}
