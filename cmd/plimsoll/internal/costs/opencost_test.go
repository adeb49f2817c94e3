package costs

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/costs/fakeopencost"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// asked is what nodes cost from noon to two by a server.
func asked(t *testing.T, h http.Handler) ([]Asset, error) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	u := must.Get(url.Parse(server.URL))(t)
	return (&OpenCost{URL: u, Client: server.Client()}).Nodes(t.Context(), noon, noon.Add(2*time.Hour))
}

// A node counts for as long as it was there, one that came back is added up, and what is no node is
// not.
func TestOpenCostsNodesAreAddedUp(t *testing.T) {
	got := must.Get(asked(t, &fakeopencost.Server{PerCPU: 1, PerGiB: 0.5, Nodes: []fakeopencost.Node{
		{Name: "b", CPUs: 2, GiB: 4, Begun: noon.Add(-time.Hour)},
		{Name: "a", CPUs: 4, GiB: 8, Begun: noon.Add(-time.Hour), End: noon.Add(30 * time.Minute)},
		{Name: "a", CPUs: 4, GiB: 8, Begun: noon.Add(90 * time.Minute)},
		{Name: "gone", CPUs: 4, GiB: 8, Begun: noon.Add(-time.Hour), End: noon},
	}}))(t)
	if diff := cmp.Diff([]Asset{{"a", 8 * pricing.Unit, time.Hour}, {"b", 8 * pricing.Unit, 2 * time.Hour}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnswersOfOpenCostThatSayNothingAreFaults(t *testing.T) {
	for body, says := range map[string]string{
		`{"code":200,"data":{"k":{"type":"Node","properties":{"name":"a"},"minutes":1}}}`: "node k has no properties.name, minutes or totalCost",
		`{"code":500,"message":"no"}`: "code 500",
		`<html>`:                      "invalid character",
		`{"code":200}`:                "unexpected end",
	} {
		_, err := asked(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v does not say %q", body, err, says)
		}
	}
	list, err := asked(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"code":200,"data":[{"k":{"type":"Node","properties":{"name":"a"},"minutes":60,"totalCost":1.5}},{"k":{"type":"Node","properties":{"name":"a"},"minutes":60,"totalCost":1.5}}]}`))
	}))
	if diff := cmp.Diff([]Asset{{"a", 3 * pricing.Unit, 2 * time.Hour}}, list); diff != "" || err != nil {
		t.Error("sets behind one another:", diff, err)
	}
	if _, err := asked(t, http.NotFoundHandler()); !errors.Is(err, ErrOpenCostRefuses) || !strings.Contains(err.Error(), "404 Not Found") {
		t.Error(err)
	}
	if _, err := (&OpenCost{URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, Client: http.DefaultClient}).Nodes(t.Context(), noon, noon.Add(time.Hour)); !errors.Is(err, ErrNoOpenCost) {
		t.Error(err)
	}
}
