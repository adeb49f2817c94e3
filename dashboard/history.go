package dashboard

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// UsualAddress is where the page is served on a machine of one's own.
const UsualAddress = "127.0.0.1:8642"

const (
	// Small is how many bytes of records are kept, compressed, in a process that does something
	// else too. Charts and sums reach further back.
	Small = 32 << 20
	// Large is that in a process that only shows a journal.
	Large = 256 << 20
	// mostChanges is how many changes the list of decisions keeps, about 20 MB of them.
	mostChanges = 50_000
)

// History keeps records as they come: each of the latest whole, and of all how their numbers went.
// It is a journal, and may be read while it is written.
type History struct {
	Doors Doors // is not changed once the page is served

	mu        sync.RWMutex
	limit     int // bytes
	kept      int
	records   []record  // by time
	now       time.Time // of the record that came last
	decisions []Decision
	changes   int // in all of them
	fleet     *trend
	workloads map[string]*trend
	money     ledger
	unit      string
	appended  chan struct{} // closed when the next record is there
	deflate   *flate.Writer
}

// record is one that is kept whole.
type record struct {
	id   string
	time time.Time
	line []byte // compressed JSON
}

// New returns an empty history that keeps so many bytes of records, Small or Large.
func New(limit int) *History {
	return &History{
		limit: limit, workloads: map[string]*trend{}, appended: make(chan struct{}),
		fleet: newTrend(mean, mean, latest, latest, latest, highest), money: ledger{},
	}
}

// Read adds the records of a journal, an NDJSON file.
func (h *History) Read(r io.Reader) error { return loop.Read(r, h.Append) }

// Append adds a record, filed by its time. The present is that of the record that came last: after
// a clock that was ahead is put right, the records of then lie in the future.
func (h *History) Append(s *loop.Step) error {
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if line, err = h.compress(line); err != nil {
		return err
	}
	r := record{id: s.ID, time: s.Time.UTC(), line: line}
	h.records, h.now = slices.Insert(h.records, h.after(r.time), r), r.time
	h.kept += len(line)
	h.forget()
	h.follow(s)
	if d, decided := decisionOf(s); decided {
		h.decisions, h.changes = append(h.decisions, d), h.changes+len(d.Changes)
		h.forgetChanges()
	}
	close(h.appended)
	h.appended = make(chan struct{})
	return nil
}

// compress makes a record about a tenth of its size.
func (h *History) compress(line []byte) ([]byte, error) {
	var out bytes.Buffer
	if h.deflate == nil {
		var err error
		if h.deflate, err = flate.NewWriter(&out, flate.BestSpeed); err != nil {
			return nil, err
		}
	}
	h.deflate.Reset(&out)
	if _, err := h.deflate.Write(line); err != nil {
		return nil, err
	}
	err := h.deflate.Close()
	return bytes.Clone(out.Bytes()), err
}

// forget drops those of the future, then the oldest records beyond the limit, some at a time.
func (h *History) forget() {
	if h.kept <= h.limit {
		return
	}
	n, present := 0, h.after(h.now)
	for _, r := range h.records[present:] {
		h.kept -= len(r.line)
	}
	h.records = h.records[:present]
	for ; n < present-1 && h.kept > h.limit-h.limit/10; n++ {
		h.kept -= len(h.records[n].line)
	}
	h.records = slices.Clone(h.records[n:])
}

// forgetChanges drops the oldest decisions beyond the limit, some at a time.
func (h *History) forgetChanges() {
	if h.changes <= mostChanges {
		return
	}
	n := 0
	for ; n < len(h.decisions)-1 && h.changes > mostChanges-mostChanges/10; n++ {
		h.changes -= len(h.decisions[n].Changes)
	}
	h.decisions = slices.Clone(h.decisions[n:])
}

// follow adds a record's numbers to the trends.
func (h *History) follow(s *loop.Step) {
	o := &s.Observed
	rate, joined, machines := unknown, unknown, number(0)
	if o.Cost.Known {
		h.unit = o.Cost.Unit
		rate, joined = number(o.Cost.Ordered.Units()), number(o.Cost.Joined.Units())
		h.money.add(s)
	}
	for _, n := range o.Machines {
		machines += number(n)
	}
	h.fleet.add(s.Time, rate, joined, machines, number(o.Nodes), number(o.Pods), number(o.Pending))
	for i := range s.Workloads {
		w := &s.Workloads[i]
		t := h.workloads[w.Workload]
		if t == nil { // who gives each branch a workload of its own makes many
			maps.DeleteFunc(h.workloads, func(_ string, old *trend) bool { return old.forgotten(s.Time) })
			t = newTrend(mean, highest, latest, latest, latest, latest)
			h.workloads[w.Workload] = t
		}
		ahead, load, late, target := unknown, unknown, unknown, unknown
		if w.Decision != nil && w.Decision.Ahead > 0 {
			ahead = number(w.Decision.Ahead)
		}
		if in := w.Inputs; in != nil {
			load, late = known(in.Arrivals), known(in.LatencyMs)
			if in.TargetMs > 0 {
				target = number(in.TargetMs)
			}
		}
		t.add(s.Time, load, late, target, number(w.Replicas), number(w.Ready), ahead)
	}
}

func known(v *float64) number {
	if v == nil {
		return unknown
	}
	return number(*v)
}

// after is how many records are not after a moment.
func (h *History) after(t time.Time) int {
	return sort.Search(len(h.records), func(i int) bool { return h.records[i].time.After(t) })
}

// open returns a record whole.
func (r *record) open() (json.RawMessage, error) {
	return io.ReadAll(flate.NewReader(bytes.NewReader(r.line)))
}

// next is closed once there is a record more than now.
func (h *History) next() <-chan struct{} {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.appended
}

// last is the record that came last; false without one.
func (h *History) last() (record, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if len(h.records) == 0 {
		return record{}, false
	}
	return h.records[h.after(h.now)-1], true
}

// around is the record at a moment, the last not after it or the first there is, with its
// neighbours' times, zero for none. The present has none after it.
func (h *History) around(t time.Time) (r record, before, after time.Time, found bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if len(h.records) == 0 {
		return record{}, before, after, false
	}
	i := max(0, h.after(t)-1)
	if i > 0 {
		before = h.records[i-1].time
	}
	if i < len(h.records)-1 && !h.records[i+1].time.After(h.now) {
		after = h.records[i+1].time
	}
	return h.records[i], before, after, true
}

// named is when the record of an ID was made, the latest of those that have it: IDs begin again
// with each process.
func (h *History) named(id string) (time.Time, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, r := range slices.Backward(h.records) {
		if r.id == id {
			return r.time, true
		}
	}
	return time.Time{}, false
}

// names are those of the workloads, sorted.
func (h *History) names() []string {
	all := make([]string, 0, len(h.workloads))
	for name := range h.workloads {
		all = append(all, name)
	}
	slices.SortFunc(all, strings.Compare)
	return all
}
