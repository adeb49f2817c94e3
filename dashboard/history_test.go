package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var begin = time.Date(2026, 6, 1, 6, 0, 0, 0, time.UTC)

// step is a record in which two machines run, of which one is half empty.
func step(n int) *loop.Step {
	small := pricing.Shape{Name: "small", CPU: 2000, Memory: 4e9}
	latency, arrivals := 250.0, float64(n)
	s := &loop.Step{
		ID: fmt.Sprintf("d-%06d", n), Time: begin.Add(time.Duration(n) * 10 * time.Second),
		Observed: loop.Observed{
			Hosts: []loop.HostLoad{
				{Name: "pve1", Online: true, Room: pricing.Resources{CPU: 16000, Memory: 48e9}, Machines: []loop.MachineLoad{
					{Name: "a", Pool: "web", Phase: nodescaler.Joined, Shape: small, Rate: 360e9, Requests: pricing.Resources{CPU: 1000, Memory: 1e9}},
				}},
				{Name: "pve2", Online: true, Room: pricing.Resources{CPU: 16000, Memory: 48e9}, Machines: []loop.MachineLoad{
					{Name: "b", Pool: "batch", Phase: nodescaler.Joined, Shape: small, Rate: 360e9, Requests: pricing.Resources{CPU: 500, Memory: 4e9}},
				}},
			},
			Namespaces: []loop.NamespaceLoad{{Namespace: "db", Allocated: 360e9}, {Namespace: "shop", Allocated: 180e9, Idle: 180e9}},
			Machines:   map[nodescaler.Phase]int{nodescaler.Joined: 2}, Nodes: 2, Pods: 4,
			Cost: loop.Cost{Known: true, Unit: "EUR", Joined: 900e9, Ordered: 900e9},
		},
		Workloads: []loop.WorkloadStep{{Workload: "shop/web", Replicas: n, Ready: n, Inputs: &loop.Inputs{LatencyMs: &latency, TargetMs: 300, Arrivals: &arrivals}}},
	}
	if n%10 == 5 {
		s.Workloads[0].Decision = &podscaler.Decision{Workload: "shop/web", From: n - 1, To: n, Reasons: []podscaler.Reason{{Code: "SizedForLoad", Text: "so many carry it"}}}
		s.Plan.Actions = []nodescaler.Action{{Kind: nodescaler.Buy, Order: "o-1", Pool: "web", Host: "pve1", Shape: &small, Reasons: []nodescaler.Reason{{Code: "PodsPending", Text: "1 pod"}}}}
		s.Outcomes = []loop.Outcome{{Action: 0, Error: "no room"}}
	}
	return s
}

// filled is a history of so many records.
func filled(t *testing.T, n int) *History {
	t.Helper()
	h := New(Small)
	for i := range n {
		must.Do(t, h.Append(step(i)))
	}
	return h
}

// ask returns what the server says to a path, and its code.
func ask(h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
	return w.Code, w.Body.String()
}

func TestAnswers(t *testing.T) {
	h := filled(t, 100).Handler(true)
	for _, c := range []struct {
		path  string
		code  int
		wants []string
	}{
		{"/", 200, []string{"<html lang=\"en\">", "app.js"}},
		{"/app.js", 200, []string{"EventSource"}},
		{"/api/v1/summary", 200, []string{`"records":100`, `"to":"2026-06-01T06:16:30Z"`, `"workloads":["shop/web"]`, `"unit":"EUR"`}},
		{"/api/v1/record", 200, []string{`"id":"d-000099"`, `"before":"2026-06-01T06:16:20Z"`}},
		{"/api/v1/record?at=2026-06-01T06:01:05Z", 200, []string{`"id":"d-000006"`, `"before":"2026-06-01T06:00:50Z"`, `"after":"2026-06-01T06:01:10Z"`}},
		{"/api/v1/record?at=2020-01-01T00:00:00Z", 200, []string{`"id":"d-000000"`}},
		{"/api/v1/record?id=d-000042", 200, []string{`"id":"d-000042"`}},
		{"/api/v1/record?id=d-1", 400, []string{`id: must be that of a record that is kept, was \"d-1\"`}},
		{"/api/v1/record?at=yesterday", 400, []string{`at: must be a time such as 2026-06-01T06:00:00Z, was \"yesterday\"`}},
		{"/api/v1/series", 200, []string{`"rate":[900,`, `"nodes":[2,`, `"pending":[0,`}},
		{"/api/v1/series?workload=shop/web", 200, []string{`"load":[0,1,2,`, `"latency":[250,`, `"ahead":[null,`}},
		{"/api/v1/series?workload=shop/none", 400, []string{"workload: must be"}},
		{"/api/v1/decisions?limit=3", 200, []string{`"id":"d-000095"`, `"detail":"94 → 95"`, `"failed":"no room"`, `"more":true`}},
		{"/api/v1/decisions?kind=Buy&to=2026-06-01T06:01:00Z", 200, []string{`"id":"d-000005"`, `"detail":"small on pve1 of pool web"`, `"more":false`}},
		{"/api/v1/decisions?about=sizedfor&format=csv", 200, []string{"time,record,kind", "d-000095,Scale,shop/web,94 → 95,SizedForLoad,so many carry it"}},
		{"/api/v1/decisions?about=nothing", 200, []string{`{"decisions":[],"more":false}`}},
		{"/api/v1/decisions?limit=0", 400, []string{`limit: must be a number from 1 to 1000, was \"0\"`}},
		{"/api/v1/record?format=csv", 400, []string{"format: must be json, or csv for decisions and money"}},
		{"/api/v1/nothing", 404, []string{"/api/v1/nothing: must be"}},
		{"/nothing", 404, nil},
	} {
		code, body := ask(h, c.path)
		if code != c.code {
			t.Errorf("%s: %d, want %d: %s", c.path, code, c.code, body)
		}
		for _, want := range c.wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s: %.300s\nlacks %s", c.path, body, want)
			}
		}
	}
	if code, body := ask(New(Small).Handler(true), "/api/v1/record"); code != 404 || !strings.Contains(body, "no record yet") {
		t.Errorf("without records: %d %s", code, body)
	}
}

// TestMoney charges 99 steps of 10 seconds: of 900 an hour, 360 each for two machines, one a half
// of which is idle.
func TestMoney(t *testing.T) {
	h := filled(t, 100)
	code, body := ask(h.Handler(true), "/api/v1/money")
	var m Money
	if err := json.Unmarshal([]byte(body), &m); err != nil || code != 200 {
		t.Fatalf("%d %v %s", code, err, body)
	}
	hours := 990.0 / 3600
	for what, pair := range map[string][2]float64{
		"spent": {m.Spent, 900 * hours}, "fixed": {m.Fixed, 180 * hours}, "idle": {m.Idle, 180 * hours}, "month": {m.Month, 900 * 730},
		"peak": {m.Peak, 900}, "static": {m.Static, 900 * hours}, "of web": {m.ByPool[1].Spent, 360 * hours}, "its idle": {m.ByPool[1].Idle, 180 * hours},
		"of pve2": {m.ByHost[1].Spent, 360 * hours}, "hours of small": {m.ByShape[0].Hours, 2 * hours},
		"of shop": {m.ByNamespace[1].Spent, 360 * hours}, "idle of shop": {m.ByNamespace[1].Idle, 180 * hours},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-6*pair[1] {
			t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
		}
	}
	if _, csv := ask(h.Handler(true), "/api/v1/money?format=csv"); !strings.Contains(csv, "pool,batch,0.275000,99.000000,0.000000,EUR") {
		t.Errorf("as CSV: %s", csv)
	} else if !strings.Contains(csv, "namespace,shop,0.000000,99.000000,49.500000,EUR") {
		t.Errorf("by namespace: %s", csv)
	}
}

// TestAnHourWithoutRecordsIsNotCharged leaves a gap, as when the process was down.
func TestAnHourWithoutRecordsIsNotCharged(t *testing.T) {
	h := filled(t, 2)
	late := step(360)
	must.Do(t, h.Append(late))
	if m := h.moneyOf(begin, late.Time); math.Abs(m.Spent-900*10.0/3600) > 1e-9 {
		t.Errorf("%v was spent in 10 seconds", m.Spent)
	}
}

// TestTheOldestRecordsGo keeps the latest within the limit, and what charts need of all.
func TestTheOldestRecordsGo(t *testing.T) {
	h := New(Small)
	h.limit = 20_000
	for i := range 500 {
		must.Do(t, h.Append(step(i)))
	}
	kept := 0
	for i := range h.records {
		kept += len(h.records[i].line)
	}
	if kept != h.kept || kept > h.limit || kept < h.limit/2 {
		t.Errorf("%d bytes are kept, said %d, of at most %d", kept, h.kept, h.limit)
	}
	last, _ := h.last()
	if _, points := h.fleet.points(begin, last.time); len(points[0]) != 500 {
		t.Errorf("%d points", len(points[0]))
	}
	if last.id != "d-000499" {
		t.Errorf("the last is %s", last.id)
	}
}

// TestChangesAndWorkloadsAreBounded changes much in every step, and has a workload for each branch.
func TestChangesAndWorkloadsAreBounded(t *testing.T) {
	h := New(1 << 10)
	for i := range 70 {
		s := loop.Step{ID: fmt.Sprintf("d-%06d", i), Time: begin.AddDate(0, 0, i)}
		s.Workloads = []loop.WorkloadStep{{Workload: fmt.Sprintf("preview/branch-%d", i)}}
		s.Plan.Actions = slices.Repeat([]nodescaler.Action{{Kind: nodescaler.Evict, Pod: "a"}}, 2000)
		must.Do(t, h.Append(&s))
	}
	n := 0
	for _, d := range h.decisions {
		n += len(d.Changes)
	}
	if n != h.changes || n > mostChanges || n < mostChanges/2 {
		t.Errorf("%d changes are kept, said %d, of at most %d", n, h.changes, mostChanges)
	}
	if names := h.names(); len(names) != 63 || slices.Contains(names, "preview/branch-0") {
		t.Errorf("%d workloads of 62 days are kept: %v", len(names), names)
	}
}

// TestOnlyThisMachinesNamesAreAnswered refuses a page of elsewhere that has its name point here.
func TestOnlyThisMachinesNamesAreAnswered(t *testing.T) {
	h := filled(t, 1)
	for host, want := range map[string]int{"localhost:1": 200, "127.0.0.1:8642": 200, "[::1]:8642": 200, "a.localhost": 200, "evil.example:8642": 403, "10.0.0.1": 403, "": 403} {
		for local, want := range map[bool]int{true: want, false: 200} {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/v1/summary", nil)
			r.Host = host
			if h.Handler(local).ServeHTTP(w, r); w.Code != want {
				t.Errorf("%q, local %t: %d, want %d", host, local, w.Code, want)
			}
		}
	}
	w := httptest.NewRecorder()
	if h.Handler(true).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://localhost/api/v1/summary", nil)); w.Code != 405 {
		t.Errorf("a POST: %d", w.Code)
	}
}

// TestTheStreamSaysWhatComes reads the events of a client that stays.
func TestTheStreamSaysWhatComes(t *testing.T) {
	h := New(Small)
	server := httptest.NewServer(h.Handler(true))
	defer server.Close()
	answer := must.Get(http.Get(server.URL + "/api/v1/stream"))(t)
	defer func() { _ = answer.Body.Close() }()
	seen := ""
	read := func(want string) {
		data := make([]byte, 4096)
		for !strings.Contains(seen, want) {
			n, err := answer.Body.Read(data)
			if seen += string(data[:n]); err != nil {
				t.Fatalf("%v after %s", err, seen)
			}
		}
	}
	read("no record yet")
	for i := range 3 {
		must.Do(t, h.Append(step(i)))
		read(fmt.Sprintf(`data: {"id":"d-%06d","time":"2026-06-01T06:00:%d0Z"}`, i, i))
	}
}

// TestAClockThatIsPutRightIsThePresent lives an hour by a clock that is ahead, and a minute by the
// right one. All of the page is of the last record, also once memory is short.
func TestAClockThatIsPutRightIsThePresent(t *testing.T) {
	for _, ahead := range []time.Duration{time.Second, 3 * time.Hour, 90 * 24 * time.Hour} {
		h := New(Small)
		for i := range 366 {
			s := step(i)
			if i < 360 {
				s.Time = s.Time.Add(ahead)
			}
			must.Do(t, h.Append(s))
		}
		for path, wants := range map[string][]string{
			"summary":                    {`"to":"2026-06-01T07:00:50Z"`},
			"record":                     {`"id":"d-000365"`},
			"series":                     {`,1780297250],`},
			"series?workload=shop/web":   {`,365],"target"`},
			"decisions?limit=1":          {`"id":"d-000365"`},
			"decisions?limit=3&kind=Buy": {`"id":"d-000345"`},
			"money":                      {`"to":"2026-06-01T07:00:50Z"`},
		} {
			_, body := ask(h.Handler(true), "/api/v1/"+path)
			for _, want := range wants {
				if !strings.Contains(body, want) {
					t.Errorf("%s ahead, %s: %.3000s\nlacks %s", ahead, path, body, want)
				}
			}
			if path == "record" && strings.Contains(body, `"after":`) {
				t.Errorf("%s ahead: a record is after the present", ahead)
			}
		}
		h.limit = h.kept / 2
		must.Do(t, h.Append(step(366)))
		if last, _ := h.last(); last.id != "d-000366" || h.kept > h.limit {
			t.Errorf("%s ahead, memory short: the last is %s, %d bytes of %d are kept", ahead, last.id, h.kept, h.limit)
		}
	}
}

// TestAJournalReadIsTheJournalWritten gives the same records back, byte for byte.
func TestAJournalReadIsTheJournalWritten(t *testing.T) {
	var file bytes.Buffer
	journal := loop.NewNDJSON(&file)
	for i := range 20 {
		must.Do(t, journal.Append(step(i)))
	}
	want := file.String()
	h := New(Small)
	must.Do(t, h.Read(&file))
	for i, line := range strings.Split(strings.TrimSpace(want), "\n") {
		got, err := h.records[i].open()
		var compact bytes.Buffer
		enc := json.NewEncoder(&compact)
		enc.SetEscapeHTML(false)
		if err != nil || enc.Encode(got) != nil || strings.TrimSpace(compact.String()) != line {
			t.Errorf("record %d is %s, was written as %s: %v", i, got, line, err)
		}
	}
	if err := h.Read(strings.NewReader("{}\n")); err == nil || !strings.Contains(err.Error(), "line 1 is not a record") {
		t.Errorf("what is no journal: %v", err)
	}
}
