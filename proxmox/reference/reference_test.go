package reference

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// known reads what lies beside the project. Where it is missing the test says that nothing was
// tried, and where everything must be tried it fails.
func known(t *testing.T) (*Schema, []*Record) {
	t.Helper()
	published, err := os.ReadFile(filepath.FromSlash("../../../shared/pve/api-schema.json"))
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("NOT TRIED, for what is known of Proxmox VE is not there: %v", err)
	}
	recorded, err2 := os.ReadFile(filepath.FromSlash("../../../shared/pve/transcripts.jsonl"))
	if err != nil || err2 != nil {
		t.Fatalf("what is known of Proxmox VE is not there: %v, %v", err, err2)
	}
	s := must.Get(Parse(published))(t)
	all := must.Get(Recordings(recorded))(t)
	return s, all
}

// A schema that refuses what the real server took, or takes what the real server refused, would
// judge the emulator wrongly.
func TestSchemaJudgesWhatWasRecordedAsTheServerDid(t *testing.T) {
	s, records := known(t)
	taken, refused := 0, 0
	for _, r := range records {
		if r.Stub || r.Request == nil || r.Response.Status != 200 && r.Response.Status != 400 {
			continue
		}
		u := must.Get(url.Parse(r.Request.Path))(t)
		path, below := strings.CutPrefix(u.Path, "/api2/json")
		m, vars := s.Find(r.Request.Method, path)
		if !below || m == nil {
			continue
		}
		params, ok := r.Request.Params(u)
		if !ok || strings.HasSuffix(fmt.Sprint(params["comment"]), "…") {
			continue
		}
		for key, value := range vars {
			params[key] = value
		}
		got := s.Verify(m, params)
		want := recordedErrors(r.Response)
		for key, text := range want {
			if logical(text) {
				delete(want, key)
			} else {
				refused++
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("record %d, %s %s: %q, want %q", r.Line, r.Request.Method, u.Path, got, want)
		}
		if x, ok := sent(r.Request, u); ok && (len(s.Problems(x)) == 0) != (len(got) == 0) {
			t.Errorf("record %d, %s %s: as it was sent, %q, want %q", r.Line, r.Request.Method, u.Path, s.Problems(x), got)
		}
		if r.Response.Status == 200 {
			taken++
		}
	}
	t.Logf("%d recorded requests are taken, and %d parameters are refused, as the server did", taken, refused)
	if taken < 300 || refused < 20 {
		t.Error("that is too few to go by")
	}
}

// sent is a recorded request as it was sent. What curl sent was recorded as its arguments.
func sent(q *Request, u *url.URL) (x Exchange, ok bool) {
	x = Exchange{Verb: q.Method, URL: u, ContentType: q.Headers["Content-Type"]}
	if q.Raw != nil && *q.Raw != "" {
		x.Body = []byte(*q.Raw)
		return x, x.ContentType != ""
	}
	form := url.Values{}
	for key, value := range q.Form {
		text, _ := plain(value)
		form.Set(key, text)
	}
	x.Body = []byte(form.Encode())
	return x, true
}

// A body that the server could not read is a fault; and so are endpoints and paths that it takes of
// clients that are less careful than ours.
func TestFaultsAreFound(t *testing.T) {
	s, records := known(t)
	unreadable := regexp.MustCompile(`^malformed JSON|^Not a HASH|^upload 'Content-Type`)
	n := 0
	for _, r := range records {
		if r.Request == nil || !unreadable.MatchString(r.Response.Reason) {
			continue
		}
		n++
		u := must.Get(url.Parse(r.Request.Path))(t)
		if x, _ := sent(r.Request, u); len(s.Faults(x.Verb, u, x.ContentType, x.Body)) == 0 {
			t.Errorf("record %d is taken, and the server said %s", r.Line, r.Response.Reason)
		}
	}
	if n != 4 {
		t.Errorf("%d bodies that the server could not read were looked at, want 4", n)
	}
	const clone, boolean = "POST /api2/json/nodes/pve1/qemu/100/clone", "type check ('integer') failed - got JSON::PP::Boolean"
	for _, c := range []struct{ request, body, want string }{
		{clone, `{"newid":101,"vmid":"100"}`, ""},
		{clone, `{"newid":true}`, `newid: "` + boolean + `"`},
		{clone, `{"newid":101,"vmid":102}`, "vmid: duplicate parameter (already defined in URI) with conflicting values"},
		{"GET /api2/json/access/domains", "", "is not published"},
		{"GET /version", "", "is not below /api2/json"},
		{"GET /api2/json/version/", "", "has an empty part, or a slash in one that is not escaped"},
		{"GET /api2/json/nodes/pve1/tasks//log", "", "has an empty part, or a slash in one that is not escaped"},
		{"DELETE /api2/json/nodes/pve1/storage/nfs/content/nfs:iso/a.iso", "", "has an empty part, or a slash in one that is not escaped"},
		{"DELETE /api2/json/nodes/pve1/storage/nfs/content/nfs:iso%2Fa.iso", "", ""},
		{"GET /api2/json/cluster/sdn/vnets", "", ""},
		{"PUT /api2/json/cluster/sdn/vnets", "", "there is no such endpoint"},
		{"GET /api2/json/access/domains", "", "is not published"},
		{"DELETE /api2/json/pools/a%2Fb", "", "there is no such endpoint"},
	} {
		verb, path, _ := strings.Cut(c.request, " ")
		u := must.Get(url.Parse(path))(t)
		kind, want := "", ""
		if c.body != "" {
			kind = "application/json"
		}
		if c.want != "" {
			want = verb + " " + u.Path + ": " + c.want
		}
		if got := strings.Join(s.Faults(verb, u, kind, []byte(c.body)), "\n"); got != want {
			t.Errorf("%s %s: %q, want %q", c.request, c.body, got, want)
		}
	}
}

func recordedErrors(r *Response) map[string]string {
	var body struct{ Errors map[string]string }
	if json.Unmarshal(r.Body, &body) != nil || body.Errors == nil {
		return map[string]string{}
	}
	return body.Errors
}

// logicalErrors are said by the code behind an endpoint, in the form of a bad parameter.
var logicalErrors = regexp.MustCompile(`already exists|^No such storage|^target is local node|^Only root may|^unknown option|at the same time$|^wrong file extension|^unable to parse worker upid|^no such task|^invalid ACL path`)

func logical(text string) bool { return logicalErrors.MatchString(text) }

func TestSchemaDescribesWhatTheServerAnswered(t *testing.T) {
	s, records := known(t)
	n := 0
	needed := map[*BrokenPromise]bool{}
	for _, r := range records {
		if r.Stub || r.Request == nil || r.Response.Status != 200 {
			continue
		}
		u := must.Get(url.Parse(r.Request.Path))(t)
		path, below := strings.CutPrefix(u.Path, "/api2/json")
		m, _ := s.Find(r.Request.Method, path)
		if !below || m == nil {
			continue
		}
		n++
		problems, broken := s.Answer(m, r.Response.Body)
		for _, problem := range problems {
			t.Errorf("record %d, %s %s: %s", r.Line, m.Method, m.Path, problem)
		}
		for _, b := range broken {
			needed[b] = true
		}
	}
	for _, b := range brokenPromises {
		if !needed[b] {
			t.Errorf("%s %s: is what the schema says, and need not be allowed (%s)", b.endpoint, b.field, b.why)
		}
	}
	t.Logf("%d recorded answers are what the schema says", n)
}
