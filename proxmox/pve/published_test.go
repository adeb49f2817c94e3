package pve

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/plimsoll/plimsoll/proxmox/reference"
)

// published reads Proxmox VE's own description of what its API takes. A test that needs it says so
// when it is not there, and fails then in CI.
func published(t testing.TB) *reference.Schema {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "pve", "api-schema.json"))
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("NOT TRIED, for what is published of Proxmox VE is not there: %v", err)
	}
	schema, failed := reference.Parse(data)
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return schema
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// asPublished is a way that fails the test for every request that the published API does not take.
func asPublished(t testing.TB, schema *reference.Schema, next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		var body []byte
		if r.Body != nil {
			var err error
			if body, err = io.ReadAll(r.Body); err != nil {
				t.Error(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		for _, fault := range schema.Faults(r.Method, r.URL, r.Header.Get("Content-Type"), body) {
			t.Errorf("%s, in %s %.500q", fault, r.URL.RawQuery, body)
		}
		return next.RoundTrip(r)
	})
}
