package dashboard

import (
	"cmp"
	"context"
	"embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed web
var web embed.FS

// heartbeat is how often a stream without news says that it is still there.
const heartbeat = 15 * time.Second

// policy lets the page load what it is made of from where it came, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the page, and under api/v1/ the JSON that it is drawn from. But for what its doors
// offer, it reads only. With local, it answers to names of this machine only: a page of somewhere
// else that has its name point here must not read it.
func (h *History) Handler(local bool) http.Handler {
	files, err := fs.Sub(web, "web")
	if err != nil {
		panic(err) // the folder is in the program
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(files))
	for path, answer := range map[string]func(*query) (any, error){
		"summary": h.summary(local), "record": h.record, "series": h.series, "decisions": h.decided, "money": h.spent,
	} {
		mux.HandleFunc("/api/v1/"+path, func(w http.ResponseWriter, r *http.Request) { reply(w, r, answer) })
	}
	mux.HandleFunc("/api/v1/stream", h.stream)
	doors := h.offers(local)
	for path, door := range doors {
		mux.HandleFunc(path, door)
	}
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, fmt.Errorf("%s: must be /api/v1/ and summary, record, series, decisions, money, stream, or what-if or actions where the page offers them", r.URL.Path))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cache-Control", "no-store")
		if local && !isLocal(r.Host) {
			refuse(w, http.StatusForbidden, fmt.Errorf("host: must be localhost or a loopback address, was %q", r.Host))
			return
		}
		if _, door := doors[r.URL.Path]; !door && r.Method != http.MethodGet && r.Method != http.MethodHead {
			head.Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, fmt.Errorf("method: must be GET or HEAD, was %q", r.Method))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isLocal reports whether a host, with or without a port, is this machine by a name that no
// other's name server answers for.
func isLocal(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || ip != nil && ip.IsLoopback()
}

// fault is a parameter that cannot be taken.
type fault struct{ error }

// query is the parameters of a request, and what was wrong with the first that was.
type query struct {
	r     *http.Request
	wrong error
}

func (q *query) text(key string) string { return q.r.URL.Query().Get(key) }

// time is the moment of a key, or another if it has none.
func (q *query) time(key string, without time.Time) time.Time {
	text := q.text(key)
	if text == "" {
		return without
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil && q.wrong == nil {
		q.wrong = fault{fmt.Errorf("%s: must be a time such as 2026-06-01T06:00:00Z, was %q", key, text)}
	}
	return t
}

// count is the number of a key, or another if it has none.
func (q *query) count(key string, without, most int) int {
	text := q.text(key)
	if text == "" {
		return without
	}
	n, err := strconv.Atoi(text)
	if (err != nil || n < 1 || n > most) && q.wrong == nil {
		q.wrong = fault{fmt.Errorf("%s: must be a number from 1 to %d, was %q", key, most, text)}
	}
	return n
}

// table is an answer that can be a CSV file too.
type table interface{ rows() [][]string }

func reply(w http.ResponseWriter, r *http.Request, answer func(*query) (any, error)) {
	q := &query{r: r}
	format := cmp.Or(q.text("format"), "json")
	got, err := answer(q)
	rows, tabular := got.(table)
	switch err := cmp.Or(q.wrong, err); {
	case err != nil:
		code := http.StatusInternalServerError
		if errors.As(err, new(fault)) {
			code = http.StatusBadRequest
		}
		refuse(w, code, err)
	case got == nil:
		refuse(w, http.StatusNotFound, fmt.Errorf("there is no record yet"))
	case format == "csv" && tabular:
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		_ = csv.NewWriter(w).WriteAll(rows.rows()) // who went away does not mind
	case format != "json":
		refuse(w, http.StatusBadRequest, fmt.Errorf("format: must be json, or csv for decisions and money, was %q", format))
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(got)
	}
}

func refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

// Summary is what there are records of.
type Summary struct {
	Records   int       `json:"records"` // that are kept whole
	From      time.Time `json:"from"`    // of those
	To        time.Time `json:"to"`
	Since     time.Time `json:"since"` // of what charts show
	Unit      string    `json:"unit"`
	Workloads []string  `json:"workloads"`
	// Offers are what-if and actions, where the page has them.
	Offers []string `json:"offers"`
}

func (h *History) summary(local bool) func(*query) (any, error) {
	offers := []string{}
	for _, path := range slices.Sorted(maps.Keys(h.offers(local))) {
		offers = append(offers, strings.TrimPrefix(path, "/api/v1/"))
	}
	return func(*query) (any, error) { return h.summarize(offers) }
}

func (h *History) summarize(offers []string) (any, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if len(h.records) == 0 {
		return nil, nil
	}
	s := Summary{Records: len(h.records), From: h.records[0].time, To: h.now, Unit: h.unit, Workloads: h.names(), Offers: offers}
	s.Since = s.From
	if begin := h.fleet.begin(); begin.Before(s.Since) {
		s.Since = begin
	}
	return s, nil
}

// Moment is one record whole, with when its neighbours were made.
type Moment struct {
	Record json.RawMessage `json:"record"`
	Before *time.Time      `json:"before,omitempty"`
	After  *time.Time      `json:"after,omitempty"`
}

// record is the one of an ID or at a time, or the last.
func (h *History) record(q *query) (any, error) {
	last, any := h.last()
	if !any {
		return nil, nil
	}
	at := q.time("at", last.time)
	if id := q.text("id"); id != "" {
		made, found := h.named(id)
		if !found {
			return nil, fault{fmt.Errorf("id: must be that of a record that is kept, was %q", id)}
		}
		at = made
	}
	r, before, after, _ := h.around(at)
	line, err := r.open()
	m := Moment{Record: line}
	if !before.IsZero() {
		m.Before = &before
	}
	if !after.IsZero() {
		m.After = &after
	}
	return m, err
}

// Series are numbers over time: of a workload, or of the fleet.
type Series struct {
	Times  []int64             `json:"times"` // Unix seconds
	Values map[string][]number `json:"values"`
}

func (h *History) series(q *query) (any, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if len(h.records) == 0 {
		return nil, nil
	}
	to := q.time("to", h.now)
	from := q.time("from", to.Add(-24*time.Hour))
	t, names := h.fleet, []string{"rate", "joined", "machines", "nodes", "pods", "pending"}
	if workload := q.text("workload"); workload != "" {
		t, names = h.workloads[workload], []string{"load", "latency", "target", "replicas", "ready", "ahead"}
		if t == nil {
			return nil, fault{fmt.Errorf("workload: must be namespace/name of one that has an autoscaler, was %q", workload)}
		}
	}
	times, columns := t.points(from, to)
	s := Series{Times: make([]int64, len(times)), Values: map[string][]number{}}
	for i, at := range times {
		s.Times[i] = at.Unix()
	}
	for i, name := range names {
		s.Values[name] = columns[i]
	}
	return s, nil
}

// Decisions are a list of them, the latest first. More says that there are older ones.
type Decisions struct {
	Decisions []Decision `json:"decisions"`
	More      bool       `json:"more"`
}

func (h *History) decided(q *query) (any, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	limit, text, kind := q.count("limit", 100, 1000), q.text("about"), q.text("kind")
	to := q.time("to", time.Unix(1<<40, 0)) // also those of a clock that was ahead
	from := q.time("from", time.Time{})
	d := Decisions{Decisions: []Decision{}}
	for _, one := range slices.Backward(h.decisions) {
		one = one.of(kind)
		switch {
		case one.Time.After(to) || one.Time.Before(from), len(one.Changes) == 0, text != "" && !one.about(text):
		case len(d.Decisions) == limit:
			d.More = true
			return d, nil
		default:
			d.Decisions = append(d.Decisions, one)
		}
	}
	return d, nil
}

func (d Decisions) rows() [][]string {
	all := [][]string{{"time", "record", "kind", "subject", "detail", "code", "reason", "held", "failed"}}
	for _, one := range d.Decisions {
		for i := range one.Changes {
			c, code, why := &one.Changes[i], "", ""
			if len(c.Why) > 0 {
				code, why = c.Why[0].Code, c.Why[0].Text
			}
			all = append(all, []string{one.Time.Format(time.RFC3339), one.ID, c.Kind, c.Subject, c.Detail, code, why, c.Held, c.Failed})
		}
	}
	return all
}

func (h *History) spent(q *query) (any, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if len(h.records) == 0 {
		return nil, nil
	}
	to := q.time("to", h.now)
	from := q.time("from", to.Add(-24*time.Hour))
	if begin := h.fleet.begin(); from.Before(begin) {
		from = begin
	}
	return h.moneyOf(from, to), nil
}

func (m Money) rows() [][]string {
	all := [][]string{{"by", "name", "machine hours", "spent", "idle", "unit"}}
	for _, by := range []struct {
		name    string
		amounts []Amount
	}{{"pool", m.ByPool}, {"host", m.ByHost}, {"shape", m.ByShape}, {"namespace", m.ByNamespace}} {
		for _, a := range by.amounts {
			n := func(v float64) string { return strconv.FormatFloat(v, 'f', 6, 64) }
			all = append(all, []string{by.name, a.Name, n(a.Hours), n(a.Spent), n(a.Idle), m.Unit})
		}
	}
	return all
}

// stream says whenever there is a new record, as server-sent events.
func (h *History) stream(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		next := h.next()
		text := ": no record yet\n\n"
		if last, any := h.last(); any {
			at, _ := last.time.MarshalText()
			text = fmt.Sprintf("id: %s\nevent: record\ndata: {\"id\":%q,\"time\":%q}\n\n", at, last.id, at)
		}
		if _, err := w.Write([]byte(text)); err != nil || out.Flush() != nil {
			return
		}
		for waiting := true; waiting; {
			select {
			case <-r.Context().Done():
				return
			case <-beat.C:
				if _, err := w.Write([]byte(": still here\n\n")); err != nil || out.Flush() != nil {
					return
				}
			case <-next:
				waiting = false
			}
		}
		select { // a demo makes many records a second, and the page shows the last
		case <-r.Context().Done():
			return
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// Serve answers on a listener until the context is done. On a loopback address it answers to
// names of this machine only.
func (h *History) Serve(ctx context.Context, l net.Listener) error {
	tcp, ok := l.Addr().(*net.TCPAddr)
	server := &http.Server{Handler: h.Handler(ok && tcp.IP.IsLoopback()), ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
