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
	s, err := Parse(published)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Recordings(recorded)
	if err != nil {
		t.Fatal(err)
	}
	return s, all
}

// A schema that refuses what the real server took, or takes what the real server refused, would judge
// the emulator wrongly.
func TestSchemaJudgesWhatWasRecordedAsTheServerDid(t *testing.T) {
	s, records := known(t)
	taken, refused := 0, 0
	for _, r := range records {
		if r.Stub || r.Request == nil || r.Response.Status != 200 && r.Response.Status != 400 {
			continue
		}
		u, err := url.Parse(r.Request.Path)
		if err != nil {
			t.Fatal(err)
		}
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
		if r.Response.Status == 200 {
			taken++
		}
	}
	t.Logf("%d recorded requests are taken, and %d parameters are refused, as the server did", taken, refused)
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
		u, err := url.Parse(r.Request.Path)
		if err != nil {
			t.Fatal(err)
		}
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
