package pveapi

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/proxmox/reference"
)

// shared reads a file of recorded data. A test that needs it says so when it is not there, and
// fails then in CI.
func shared(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "pve", name))
	if err == nil {
		return data
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("what was recorded of Proxmox VE is not there: %v", err)
	}
	t.Skipf("NOT TRIED, for what was recorded of Proxmox VE is not there: %v", err)
	return nil
}

// strict returns a transport that fails the test for every request that Proxmox VE would not take.
func strict(t testing.TB, schema *reference.Schema, next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		var body []byte
		if req.Body != nil {
			body, _ = io.ReadAll(req.Body)
			_ = req.Body.Close()
			req = req.Clone(req.Context())
			req.Body = io.NopCloser(bytes.NewReader(body))
		}
		for _, fault := range schema.Faults(req.Method, req.URL, req.Header.Get("Content-Type"), body) {
			t.Errorf("%s, in %s %s", fault, req.URL.RequestURI(), body)
		}
		return next.RoundTrip(req)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// exchanges returns what was recorded, without what only the test bed has said.
func exchanges(t testing.TB) []*reference.Record {
	t.Helper()
	all, err := reference.Recordings(shared(t, "transcripts.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(r *reference.Record) bool { return r.Stub })
}
