package pricing

import (
	"fmt"
	"math/big"
	"slices"
	"sort"
	"time"
)

// Ledger adds up what machines cost while they come and go and tariffs change. It keeps cost
// exactly and rounds once, when a number is read. Starts and stops may be entered in any order of
// time. It is not safe for concurrent use.
//
// Cost is kept as a number of Rate × nanoseconds. Every start, stop and change of tariff is a
// point that holds the cost up to it and the rate from it on; the cost up to any moment is then
// that of the point before it and a remainder.
type Ledger struct {
	editions []edition // in order of time

	charges []charge
	machine map[Placed]int // the charge for machines of a shape on a host
	host    map[string]int // the charge for a host's fixed part

	runs   []run
	latest map[string]int // a machine's last run, by id

	events  []event // in order of time
	applied int     // how many of the events are in points and in the charges' counts
	points  []point
	running int // machines, after the applied events
}

// charge is something that costs the same at the same time: machines of a shape on a host, or a
// host's fixed part.
type charge struct {
	price func(b *Book, at time.Time) Rate
	once  bool                // charged once, for any count
	rates map[[2]int]*big.Int // by index of the edition and of its tariff in force
	count int                 // machines that run, after the applied events
}

// none is the charge of machines on no particular host for their host's fixed part.
const none = -1

// run is one life of a machine. Its stop is zero while it runs.
type run struct {
	id            string
	machine, host int // charges; host may be none
	start, stop   time.Time
	stopped       bool // it is kept, and does not run
}

// event is a run's start or stop.
type event struct {
	at    time.Time
	run   int
	delta int
}

// point is where the rate changes.
type point struct {
	at      time.Time
	total   *big.Int // cost until at
	rate    *big.Int // from at on
	applied int      // events that rate counts
}

// NewLedger returns an empty ledger that charges by b.
func NewLedger(b *Book) *Ledger {
	return &Ledger{
		editions: []edition{{book: b}},
		machine:  make(map[Placed]int),
		host:     make(map[string]int),
		latest:   make(map[string]int),
	}
}

// Start says that a machine is paid for from a moment on. The host's fixed part is charged with
// it, unless the host's name is empty. A machine that was stopped may be started again, no
// earlier than it was stopped.
func (l *Ledger) Start(id string, s Shape, host string, at time.Time) error {
	return l.begin("start", id, Placed{Shape: s, Host: host}, at)
}

// Keep says that a machine is stopped from a moment on, and kept: it costs its disk, and its host's
// fixed part as if it ran. Stop ends that, too; Start ends it and lets the machine run.
func (l *Ledger) Keep(id string, s Shape, host string, at time.Time) error {
	return l.begin("keep", id, Placed{Shape: s, Host: host, Stopped: true}, at)
}

// begin begins a run, or a time of being kept, and ends what of the other kind there was.
func (l *Ledger) begin(what, id string, p Placed, at time.Time) error {
	at = at.Round(0)
	if i, ok := l.latest[id]; ok && l.runs[i].stop.IsZero() && l.runs[i].stopped != p.Stopped {
		if err := l.Stop(id, at); err != nil {
			return err
		}
	}
	if i, ok := l.latest[id]; ok {
		switch last := &l.runs[i]; {
		case last.stop.IsZero():
			return fmt.Errorf("%s %s at %s: it runs since %s", what, id, stamp(at), stamp(last.start))
		case at.Before(last.stop):
			return fmt.Errorf("%s %s at %s: it ran until %s", what, id, stamp(at), stamp(last.stop))
		}
	}
	l.latest[id] = len(l.runs)
	l.runs = append(l.runs, run{
		id: id, machine: l.machineCharge(p), host: l.hostCharge(p.Host), start: at, stopped: p.Stopped,
	})
	l.insert(event{at: at, run: l.latest[id], delta: 1})
	return nil
}

// Stop says that a machine is no longer paid for.
func (l *Ledger) Stop(id string, at time.Time) error {
	at = at.Round(0)
	i, ok := l.latest[id]
	if !ok {
		return fmt.Errorf("stop %s at %s: it was never started", id, stamp(at))
	}
	r := &l.runs[i]
	switch {
	case !r.stop.IsZero():
		return fmt.Errorf("stop %s at %s: it is stopped since %s", id, stamp(at), stamp(r.stop))
	case at.Before(r.start):
		return fmt.Errorf("stop %s at %s: it was started at %s", id, stamp(at), stamp(r.start))
	}
	r.stop = at
	l.insert(event{at: at, run: i, delta: -1})
	return nil
}

func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }

// Between returns what the machines cost between two moments, past or to come. For what is to
// come, what runs now runs on and tariffs change as they will. It is negative if to is before
// from.
func (l *Ledger) Between(from, to time.Time) Micros { return settle(l.between(from, to)) }

func (l *Ledger) between(from, to time.Time) *big.Int {
	return new(big.Int).Sub(l.until(to), l.until(from))
}

// Rate returns what everything that runs at a moment costs per hour.
func (l *Ledger) Rate(at time.Time) Rate {
	p, last := l.before(at)
	switch {
	case p == nil:
		return 0
	case last:
		return Rate(saturate(l.rateAt(at)))
	default:
		return Rate(saturate(p.rate))
	}
}

// until is the cost from the beginning to a moment.
func (l *Ledger) until(at time.Time) *big.Int {
	p, last := l.before(at)
	switch {
	case p == nil:
		return new(big.Int)
	case last:
		end := l.advance(*p, at, func(point) {})
		return end.totalAt(at)
	default:
		return p.totalAt(at)
	}
}

// before returns the last point that is not after a moment, and whether it is the last of all.
func (l *Ledger) before(at time.Time) (p *point, last bool) {
	l.apply()
	n := sort.Search(len(l.points), func(i int) bool { return l.points[i].at.After(at) })
	if n == 0 {
		return nil, false
	}
	return &l.points[n-1], n == len(l.points)
}

// totalAt is the cost until a moment at or after p, if the rate stays as it is.
func (p *point) totalAt(at time.Time) *big.Int {
	cost := elapsed(p.at, at)
	return cost.Add(cost.Mul(cost, p.rate), p.total)
}

// elapsed is the time between two moments in nanoseconds, which a Duration cannot hold for
// moments that are centuries apart.
func elapsed(from, to time.Time) *big.Int {
	seconds := big.NewInt(to.Unix() - from.Unix())
	nanos := big.NewInt(int64(to.Nanosecond() - from.Nanosecond()))
	return nanos.Add(nanos, seconds.Mul(seconds, big.NewInt(int64(time.Second))))
}

// insert notes an event in order of time, and takes back what was worked out beyond it.
func (l *Ledger) insert(e event) {
	n := sort.Search(len(l.events), func(i int) bool { return l.events[i].at.After(e.at) })
	l.rewind(n, e.at)
	l.events = slices.Insert(l.events, n, e)
}

// rewind takes back what was worked out of the events from the nth on, and beyond a moment.
func (l *Ledger) rewind(n int, to time.Time) {
	for l.applied > n {
		l.applied--
		undone := l.events[l.applied]
		l.count(undone.run, -undone.delta)
	}
	keep := len(l.points)
	for keep > 0 && (l.points[keep-1].applied > n || l.points[keep-1].at.After(to)) {
		keep--
	}
	l.points = l.points[:keep]
}

// apply brings the points up to the last event.
func (l *Ledger) apply() {
	for l.applied < len(l.events) {
		e := l.events[l.applied]
		last := point{at: e.at, total: new(big.Int), rate: new(big.Int)}
		if n := len(l.points); n > 0 {
			last = l.advance(l.points[n-1], e.at, func(p point) { l.points = append(l.points, p) })
		}
		rate := l.changed(last.rate, e)
		l.applied++
		l.points = append(l.points, point{at: e.at, total: last.totalAt(e.at), rate: rate, applied: l.applied})
	}
}

// advance returns the point at the last change of prices that is not after a moment, or p if prices
// did not change since. It passes each point on the way to note. While nothing runs, prices do not
// matter.
func (l *Ledger) advance(p point, to time.Time, note func(point)) point {
	for l.running > 0 {
		next, ok := l.nextChange(p.at)
		if !ok || next.After(to) {
			break
		}
		p = point{at: next, total: p.totalAt(next), rate: l.rateAt(next), applied: p.applied}
		note(p)
	}
	return p
}

// changed applies an event, and returns the rate after it.
func (l *Ledger) changed(rate *big.Int, e event) *big.Int {
	touched := l.runs[e.run].charges()
	rate = new(big.Int).Set(rate)
	for _, c := range touched {
		rate.Sub(rate, l.chargedAt(c, e.at))
	}
	l.count(e.run, e.delta)
	for _, c := range touched {
		rate.Add(rate, l.chargedAt(c, e.at))
	}
	return rate
}

// count counts a run in or out.
func (l *Ledger) count(run, delta int) {
	l.running += delta
	for _, c := range l.runs[run].charges() {
		l.charges[c].count += delta
	}
}

// rateAt is what everything that runs after the applied events costs per hour at a moment.
func (l *Ledger) rateAt(at time.Time) *big.Int {
	sum := new(big.Int)
	for c := range l.charges {
		sum.Add(sum, l.chargedAt(c, at))
	}
	return sum
}

// chargedAt is what a charge comes to per hour at a moment.
func (l *Ledger) chargedAt(i int, at time.Time) *big.Int {
	c := &l.charges[i]
	times := c.count
	if c.once {
		times = min(times, 1)
	}
	if times == 0 {
		return new(big.Int)
	}
	product := big.NewInt(int64(times))
	return product.Mul(product, l.priceAt(i, at))
}

// priceAt is a charge's price at a moment. A price depends on the time only through the book
// that counts and its tariff in force.
func (l *Ledger) priceAt(i int, at time.Time) *big.Int {
	c := &l.charges[i]
	edition := l.edition(at)
	book := l.editions[edition].book
	key := [2]int{edition, book.tariffIndex(at)}
	price, ok := c.rates[key]
	if !ok {
		price = big.NewInt(int64(c.price(book, at)))
		c.rates[key] = price
	}
	return price
}

// charges lists what a run is charged.
func (r *run) charges() []int {
	if r.host == none {
		return []int{r.machine}
	}
	return []int{r.machine, r.host}
}

func (l *Ledger) machineCharge(p Placed) int {
	i, ok := l.machine[p]
	if !ok {
		i = l.addCharge(func(b *Book, at time.Time) Rate { return b.rate(p, at) }, false)
		l.machine[p] = i
	}
	return i
}

func (l *Ledger) hostCharge(host string) int {
	if host == "" {
		return none
	}
	i, ok := l.host[host]
	if !ok {
		i = l.addCharge(func(b *Book, at time.Time) Rate { return b.HostRate(host, at) }, true)
		l.host[host] = i
	}
	return i
}

func (l *Ledger) addCharge(price func(*Book, time.Time) Rate, once bool) int {
	l.charges = append(l.charges, charge{price: price, once: once, rates: make(map[[2]int]*big.Int)})
	return len(l.charges) - 1
}
