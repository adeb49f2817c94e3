package pvesim

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
	"github.com/plimsoll/plimsoll/proxmox/reference"
)

// knownOf reads what is known of the real server. Where it is missing the test says that nothing
// was tried, and where everything must be tried it fails.
func knownOf(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(filepath.FromSlash("../../../shared/pve"), file))
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("what is known of Proxmox VE is not there: %v", err)
		}
		t.Skipf("NOT TRIED, for what is known of Proxmox VE is not there: %v", err)
	}
	return data
}

func publishedSchema(t testing.TB) *reference.Schema {
	t.Helper()
	s, err := reference.Parse(knownOf(t, "api-schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// player replays one group of recordings on a cluster that was brought into the state in which the
// real one was.
type player struct {
	testing.TB
	c      *Cluster
	schema *reference.Schema
	all    []*reference.Record // by line
	entry  string              // the host that is asked when nothing else is said

	secrets      map[string]string // of tokens, by user!token
	ticket, csrf string
	ours         map[string]string // the emulator's ids for recorded ones
	count        *tally
	excused      map[int]bool // exceptions that were met
	now          *reference.Record
	broken       bool // the emulator panicked, and cannot be used any more
}

// tally is what was compared.
type tally struct {
	groups, exchanges, tasks, seen, mismatches int
	logLines, sameLines, logs, sameLogs        int
	endpoints                                  map[string]bool
}

// Every exchange that was recorded of the real server goes alike with the emulator: status line,
// errors, message, the answer's shape and everything in it that is not measured, and how long it
// took. Every task ends as it did there.
func TestRecordedExchanges(t *testing.T) {
	records, err := reference.Recordings(knownOf(t, "transcripts.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	schema := publishedSchema(t)
	byLine := make([]*reference.Record, records[len(records)-1].Line+1)
	var order []string
	groups := map[string][]*reference.Record{}
	for _, r := range records {
		byLine[r.Line] = r
		if groups[r.Group] == nil {
			order = append(order, r.Group)
		}
		groups[r.Group] = append(groups[r.Group], r)
	}
	count := &tally{endpoints: map[string]bool{}}
	for _, name := range order {
		t.Run(strings.ReplaceAll(name, "/", " "), func(t *testing.T) {
			scene, ok := scenes[name]
			if !ok {
				t.Fatalf("nobody says what state the server was in when %q was recorded", name)
			}
			p := newPlayer(t, schema, byLine, count)
			p.setUp(scene, groups)
			p.replay(groups[name])
			p.checkExceptions(groups[name])
			count.groups++
		})
	}
	t.Logf("SUMMARY %d groups, %d endpoints, %d exchanges replayed, %d tasks and %d observations compared, %d mismatches, %d exceptions; %d of %d task logs and %d of %d of their lines are the same",
		count.groups, len(count.endpoints), count.exchanges, count.tasks, count.seen, count.mismatches, len(exceptions), count.sameLogs, count.logs, count.sameLines, count.logLines)
	for _, e := range exceptions {
		t.Logf("exception: record %d, %s: %s", e.line, e.part, e.why)
	}
	for _, line := range slices.Sorted(maps.Keys(fixes)) {
		t.Logf("put right before record %d: %s", line, fixes[line].why)
	}
	if count.groups == len(order) && count.exchanges < 600 {
		t.Errorf("%d exchanges were replayed, want 600 at least", count.exchanges)
	}
}

func newPlayer(t testing.TB, schema *reference.Schema, all []*reference.Record, count *tally) *player {
	return &player{
		TB: t, schema: schema, all: all, entry: "pve1", count: count,
		secrets: map[string]string{}, ours: map[string]string{}, excused: map[int]bool{},
	}
}

// setUp brings a new cluster into the state in which a group was recorded.
func (p *player) setUp(s scene, groups map[string][]*reference.Record) {
	cfg := alone()
	if s.hosts == 3 {
		cfg = three()
	}
	c, err := New(cfg)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if !p.broken {
			c.Close()
		}
	})
	p.c = c
	c.SetPassword("root@pam", rootPassword)
	_, p.secrets["root@pam!t1"], _ = strings.Cut(c.Token("root@pam", "t1", false), "=")
	if s.entry != "" {
		p.entry = s.entry
	}
	p.orders(s.before...)
	for _, earlier := range s.after {
		silent := *p.count
		silent.endpoints = map[string]bool{}
		quiet := *p
		quiet.TB, quiet.count = muted{p.TB}, &silent
		quiet.replay(groups[earlier])
	}
	if s.then != nil {
		s.then(p)
	}
}

// muted replays what leads up to a group. What goes wrong in it is reported where that is compared.
type muted struct{ testing.TB }

func (muted) Errorf(string, ...any) {}
func (muted) Logf(string, ...any)   {}

func (p *player) replay(records []*reference.Record) {
	for _, r := range records {
		p.now = r
		if fix, ok := fixes[r.Line]; ok {
			fix.do(p)
		}
		switch {
		case r.Stub && r.UPID != "": // it ended, however it did
			p.await(p.ours[r.UPID])
		case r.Stub:
		case r.Request != nil:
			p.exchange(r)
		case r.UPID != "":
			p.endOf(r)
		default:
			p.observation(r)
		}
	}
}

// exchange replays one exchange and compares what comes back.
func (p *player) exchange(r *reference.Record) {
	req, err := p.request(r)
	if err != nil {
		p.Fatalf("record %d: %v", r.Line, err)
	}
	// The real exchange took time, in which tasks went on; what it waited for the emulator waits
	// for itself.
	if took := time.Duration(r.Response.MS * float64(time.Millisecond)); took < 2*time.Second {
		p.c.Advance(took)
	}
	sent := p.send(req)
	p.count.exchanges++
	p.count.endpoints[p.endpoint(r)] = true
	p.learn(r, sent)
	var d differences
	d.answers(p, r, sent)
	p.report(r, d, sent)
}

// answered is what the emulator said.
type answered struct {
	status  int
	reason  string
	header  http.Header
	length  int64
	body    []byte
	took    time.Duration
	problem error // there was no answer
	schema  []string
}

// data is the body; when it is not JSON, its text.
func (a *answered) data() any {
	var v any
	if reference.Decode(a.body, &v) != nil {
		return string(a.body)
	}
	return v
}

// send sends a request, and holds the answer against the schema.
func (p *player) send(req *http.Request) *answered {
	x := reference.Exchange{Verb: req.Method, URL: req.URL, ContentType: req.Header.Get("Content-Type")}
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			p.Fatal(err)
		}
		x.Body, _ = io.ReadAll(body)
	}
	defer func() {
		if r := recover(); r != nil {
			p.broken = true
			p.Fatalf("%s %s: the emulator panics: %v\n%s", req.Method, req.URL.Path, r, debug.Stack())
		}
	}()
	before := p.c.Now()
	resp, err := p.c.Transport().RoundTrip(req)
	a := &answered{problem: err, took: p.c.Now().Sub(before)}
	if err != nil {
		return a
	}
	a.body, _ = io.ReadAll(resp.Body)
	a.status, a.header, a.length = resp.StatusCode, resp.Header, resp.ContentLength
	a.reason = strings.TrimPrefix(resp.Status, fmt.Sprint(resp.StatusCode, " "))
	if m, _, err := p.schema.Request(x.Verb, x.URL, x.ContentType, x.Body); err == nil && m != nil && a.status == 200 && strings.HasPrefix(x.URL.Path, "/api2/json") {
		a.schema, _ = p.schema.Answer(m, a.body)
	}
	return a
}

// endpoint names what a record asked, with its template where the schema has one.
func (p *player) endpoint(r *reference.Record) string {
	u, err := url.Parse(r.Request.Path)
	if err != nil {
		return r.Request.Method + " " + r.Request.Path
	}
	path := strings.TrimPrefix(u.Path, "/api2/json")
	if m, _ := p.schema.Find(r.Request.Method, path); m != nil {
		return m.Method + " " + m.Path
	}
	return r.Request.Method + " " + path
}

// request builds what was sent, with the emulator's ids and credentials in the place of the
// recorded.
func (p *player) request(r *reference.Record) (*http.Request, error) {
	q := r.Request
	body := ""
	if q.Raw != nil {
		body = *q.Raw
	}
	kind := q.Headers["Content-Type"]
	if q.Form != nil {
		body = p.form(q.Form)
	} else if kind == "" && body != "" {
		body, kind = fromCurl(body), "application/x-www-form-urlencoded"
	}
	host := cmp.Or(q.Host, p.entry)
	req, err := http.NewRequest(q.Method, "https://"+host+":8006"+p.path(q.Path), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range q.Headers {
		req.Header.Set(name, p.credential(name, value))
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if q.Headers == nil && (kind != "" || q.Raw != nil || q.Host != "") {
		req.Header.Set("Authorization", "PVEAPIToken=root@pam!t1="+p.secrets["root@pam!t1"])
	}
	if change, ok := uncut[r.Line]; ok {
		change(p, req)
	}
	return req, nil
}

// form is a form as it is sent, with what the recording hides put back.
func (p *player) form(fields map[string]any) string {
	values := url.Values{}
	for key, value := range fields {
		text := fmt.Sprint(value)
		switch {
		case key == "password" && text == "PASSWORD":
			text = rootPassword
		case strings.HasPrefix(text, "PVE:root@pam:"):
			text = p.rootTicket()
		case p.ours[text] != "":
			text = p.ours[text]
		}
		values.Set(key, text)
	}
	return values.Encode()
}

// fromCurl is the form that curl's -d arguments make. What the recording hides is put back.
func fromCurl(args string) string {
	args = strings.ReplaceAll(args, "PASSWORD", rootPassword)
	return strings.Join(strings.Split(strings.TrimPrefix(args, "-d "), " -d "), "&")
}

var upidInPath = regexp.MustCompile(`UPID(%3A|:)[^/?]*`)

// path has the emulator's UPIDs, written as the recorded ones were.
func (p *player) path(path string) string {
	return upidInPath.ReplaceAllStringFunc(path, func(was string) string {
		upid, err := url.PathUnescape(was)
		if err != nil || p.ours[upid] == "" {
			return was
		}
		if strings.Contains(was, "%3A") {
			return url.QueryEscape(p.ours[upid])
		}
		return p.ours[upid]
	})
}

var (
	recordedToken  = regexp.MustCompile(`^(PVEAPIToken[= ])([^=]+)=(.*)$`)
	recordedCookie = regexp.MustCompile(`^PVEAuthCookie=(PVE(?::|%3A).*)$`)
)

// credential puts the emulator's secrets in the place of what the recording says of the real ones.
func (p *player) credential(name, value string) string {
	if m := recordedToken.FindStringSubmatch(value); m != nil && !strings.HasPrefix(m[3], "00000000-") && p.secrets[m[2]] != "" {
		return m[1] + m[2] + "=" + p.secrets[m[2]]
	}
	if m := recordedCookie.FindStringSubmatch(value); m != nil {
		if strings.Contains(m[1], "%3A") {
			return "PVEAuthCookie=" + url.QueryEscape(p.rootTicket())
		}
		return "PVEAuthCookie=" + p.rootTicket()
	}
	if name == "CSRFPreventionToken" && value == "TIMESTAMP:HASH" {
		p.rootTicket()
		return p.csrf
	}
	return value
}

// rootTicket is a ticket of root's, made when it is first needed.
func (p *player) rootTicket() string {
	if p.ticket == "" {
		a := p.ask("", "POST /access/ticket?username=root@pam&password="+rootPassword)
		data, _ := a.data().(map[string]any)
		data, _ = data["data"].(map[string]any)
		p.ticket, _ = data["ticket"].(string)
		p.csrf, _ = data["CSRFPreventionToken"].(string)
		if p.ticket == "" || p.csrf == "" {
			p.Errorf("root cannot log in: %d %s %s", a.status, a.reason, a.body)
		}
	}
	return p.ticket
}

// ask makes a call that was not recorded. What follows the question mark is sent as a form by
// verbs that have one.
func (p *player) ask(token, line string) *answered {
	verb, path, _ := strings.Cut(line, " ")
	form := ""
	if verb == "POST" || verb == "PUT" {
		path, form, _ = strings.Cut(path, "?")
	}
	req, err := http.NewRequest(verb, "https://"+p.entry+":8006/api2/json"+path, strings.NewReader(form))
	if err != nil {
		p.Fatal(err)
	}
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	switch token {
	case "":
	case "root@pam":
		req.Header.Set("Cookie", "PVEAuthCookie="+url.QueryEscape(p.rootTicket()))
		req.Header.Set("CSRFPreventionToken", p.csrf)
	default:
		req.Header.Set("Authorization", "PVEAPIToken="+token+"="+p.secrets[token])
	}
	return p.send(req)
}

// order makes a call of root's that must succeed, and returns its UPID if it has one. Where it does
// not, the group is replayed all the same: most of it may not depend on it.
func (p *player) order(line string) string { return p.orderAs("root@pam!t1", line) }

func (p *player) orderAs(token, line string) string {
	a := p.ask(token, line)
	if a.problem != nil || a.status != 200 {
		p.Errorf("to bring the cluster into its state, %s: %d %s %s %v", line, a.status, a.reason, a.body, a.problem)
		return ""
	}
	body, _ := a.data().(map[string]any)
	if secret, ok := body["data"].(map[string]any); ok && secret["full-tokenid"] != nil {
		p.secrets[fmt.Sprint(secret["full-tokenid"])] = fmt.Sprint(secret["value"])
	}
	upid, _ := body["data"].(string)
	if !strings.HasPrefix(upid, "UPID:") {
		upid = ""
	}
	return upid
}

// orders makes calls one after the other, and lets each task end, which it must do well.
func (p *player) orders(lines ...string) {
	for _, line := range lines {
		upid := p.order(line)
		if upid == "" {
			continue
		}
		if t := p.await(upid); t == nil || t.Exit != "OK" {
			p.Errorf("to bring the cluster into its state, %s: %+v", line, t)
		}
	}
}

// ordered makes a call that was not recorded, though the end of its task was, in a later record.
func (p *player) ordered(token, line string, in int) {
	p.ours[p.all[in].UPID] = p.orderAs(token, line)
}

// together makes calls of root's at the same moment, and returns the answers in their order, each
// with the time that it took.
func (p *player) together(lines ...string) []timed {
	answers := make([]timed, len(lines))
	p.c.With(func() {
		began := p.c.Clock
		for i, line := range lines {
			verb, path, _ := strings.Cut(line, " ")
			path, form, _ := strings.Cut(path, "?")
			r := &request{method: verb, path: "/api2/json" + path, header: http.Header{
				"Authorization": {"PVEAPIToken=root@pam!t1=" + p.secrets["root@pam!t1"]},
			}}
			if verb == "GET" {
				r.query = form
			} else {
				r.body = []byte(form)
				r.header.Set("Content-Type", "application/x-www-form-urlencoded")
			}
			p.c.Start(func(proc *engine.Process) {
				answer := p.c.serve(proc, p.c.Node(p.entry), r)
				answers[i] = timed{answer, p.c.Clock.Sub(began)}
			})
		}
	})
	for range 3000 {
		if !slices.ContainsFunc(answers, func(a timed) bool { return a.response == nil }) {
			break
		}
		p.c.Advance(100 * time.Millisecond)
	}
	return answers
}

type timed struct {
	*response
	took time.Duration
}

// find is a task of the emulator.
func (p *player) find(upid string) (found *world.Task) {
	p.c.With(func() {
		for _, h := range p.c.Nodes {
			for _, t := range h.Tasks {
				if t.UPID == upid {
					found = t
				}
			}
		}
	})
	return found
}

// await lets time pass until a task is over, and returns it.
func (p *player) await(upid string) *world.Task {
	t := p.find(upid)
	if t == nil {
		return nil
	}
	for range 12000 {
		over := false
		p.c.With(func() { over = !t.Running() })
		if over {
			break
		}
		p.c.Advance(50 * time.Millisecond)
	}
	return t
}

// endOf compares how a task ended, and what it said.
func (p *player) endOf(r *reference.Record) {
	p.count.tasks++
	var d differences
	sent := &answered{}
	upid := p.ours[r.UPID]
	began := p.c.Now()
	if t := p.await(upid); t == nil {
		d.add("task", "the emulator has none for %s", r.UPID)
	} else {
		node := strings.Split(upid, ":")[1]
		sent = p.ask("root@pam!t1", "GET /nodes/"+node+"/tasks/"+url.PathEscape(upid)+"/status")
		var want any
		if err := reference.Decode(r.Status, &want); err != nil {
			p.Fatal(err)
		}
		body, _ := sent.data().(map[string]any)
		d.compare(p, "task", want, body["data"])
		p.compareLogs(&d, r, p.ask("root@pam!t1", "GET /nodes/"+node+"/tasks/"+url.PathEscape(upid)+"/log?limit=0"))
	}
	p.report(r, d, sent)
	// So long the real task was waited for.
	p.c.Advance(max(0, time.Duration(r.Secs*float64(time.Second))-p.c.Now().Sub(began)))
}

// compareLogs holds a task's last line to be the same, and counts the others: what the tools behind
// the real server print depends on their versions.
func (p *player) compareLogs(d *differences, r *reference.Record, a *answered) {
	var got []string
	body, _ := a.data().(map[string]any)
	lines, _ := body["data"].([]any)
	for _, line := range lines {
		line, _ := line.(map[string]any)
		got = append(got, fmt.Sprint(line["t"]))
	}
	if len(got) == 0 {
		d.add("log", "is empty: %s", a.body)
		return
	}
	p.count.logs++
	same, left := 0, slices.Clone(got)
	for _, line := range r.Log {
		p.count.logLines++
		if i := slices.IndexFunc(left, func(g string) bool { return p.plain(line) == p.plain(g) }); i >= 0 {
			left = slices.Delete(left, i, i+1)
			same++
		}
	}
	p.count.sameLines += same
	if same == len(r.Log) && len(got) == len(r.Log) {
		p.count.sameLogs++
	} else {
		p.Logf("record %d, %s: the log differs:\n  recorded %q\n  emulated %q", r.Line, r.Note, r.Log, got)
	}
	if want := r.Log[len(r.Log)-1]; p.plain(want) != p.plain(got[len(got)-1]) {
		d.add("log", "ends with %q, recorded %q", got[len(got)-1], want)
	}
}

// report says how the emulator differs from the recording, but for what is excused.
func (p *player) report(r *reference.Record, d differences, a *answered) {
	var left []difference
	for _, diff := range d {
		excused := false
		for i, e := range exceptions {
			if e.line == r.Line && strings.HasPrefix(diff.part, e.part) {
				p.excused[i], excused = true, true
			}
		}
		if !excused {
			left = append(left, diff)
		}
	}
	if len(left) == 0 {
		return
	}
	p.count.mismatches++
	var b strings.Builder
	fmt.Fprintf(&b, "MISMATCH record %d, %s: %s\n", r.Line, r.Group, r.Note)
	if r.Request != nil {
		fmt.Fprintf(&b, "  request  %s %s %s\n", r.Request.Method, r.Request.Path, requestBody(r.Request))
		fmt.Fprintf(&b, "  recorded %d %s in %.0f ms %s\n", r.Response.Status, r.Response.Reason, r.Response.MS, shortened(string(r.Response.Body)))
		fmt.Fprintf(&b, "  emulated %d %s in %d ms %s %v\n", a.status, a.reason, a.took.Milliseconds(), shortened(string(a.body)), cmp.Or(a.problem, errors.New("")))
	} else if r.UPID != "" {
		fmt.Fprintf(&b, "  recorded %s %q\n  emulated %s\n", r.Status, r.Log, shortened(string(a.body)))
	}
	for i, diff := range left {
		if i == 12 {
			fmt.Fprintf(&b, "  - and %d more\n", len(left)-i)
			break
		}
		fmt.Fprintf(&b, "  - %s: %s\n", diff.part, shortened(diff.text))
	}
	p.Errorf("%s", b.String())
}

func requestBody(q *reference.Request) string {
	if q.Raw != nil {
		return shortened(*q.Raw)
	}
	var fields []string
	for _, key := range slices.Sorted(maps.Keys(q.Form)) {
		fields = append(fields, fmt.Sprintf("%s=%v", key, q.Form[key]))
	}
	return shortened(strings.Join(fields, " "))
}

func shortened(s string) string {
	if r := []rune(s); len(r) > 500 {
		return string(r[:500]) + "…"
	}
	return s
}

// checkExceptions fails for exceptions that the emulator does not need, and for those without a
// record.
func (p *player) checkExceptions(records []*reference.Record) {
	for i, e := range exceptions {
		if slices.ContainsFunc(records, func(r *reference.Record) bool { return r.Line == e.line }) && !p.excused[i] {
			p.Errorf("record %d, %s: goes as recorded, and need not be excused (%s)", e.line, e.part, e.why)
		}
	}
}
