package pve

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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
		verb, path := r.Method, strings.TrimPrefix(r.URL.Path, "/api2/json")
		m, vars := schema.Find(verb, path)
		if m == nil {
			t.Errorf("%s %s: there is no such method", verb, path)
			return next.RoundTrip(r)
		}
		params := sent(t, r)
		for name, values := range r.URL.Query() {
			params[name] = values[0]
		}
		for name, value := range vars {
			params[name] = value
		}
		if wrong := schema.Verify(m, params); len(wrong) > 0 {
			t.Errorf("%s %s %v: %v", verb, path, params, wrong)
		}
		return next.RoundTrip(r)
	})
}

// sent are the parameters in the body of a request, which can be read again.
func sent(t testing.TB, r *http.Request) map[string]any {
	params := map[string]any{}
	if r.Body == nil {
		return params
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	kind, args, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case len(body) == 0:
	case kind == "multipart/form-data":
		form, err := multipart.NewReader(bytes.NewReader(body), args["boundary"]).ReadForm(1 << 20)
		if err != nil {
			t.Error(err)
			break
		}
		for name, values := range form.Value {
			params[name] = values[0]
		}
		for name, files := range form.File {
			params[name] = files[0].Filename
		}
	default:
		var values map[string]any
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if err := d.Decode(&values); err != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		}
		maps.Copy(params, values)
	}
	return params
}
