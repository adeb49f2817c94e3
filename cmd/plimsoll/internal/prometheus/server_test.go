package prometheus

import (
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/prometheus/fakeprom"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var noon = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// serve serves series and counts the queries.
func serve(t *testing.T, store []fakeprom.Series) (*Server, *int) {
	t.Helper()
	asked := 0
	inner := fakeprom.Handler(store)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	to := must.Get(url.Parse(server.URL))(t)
	return &Server{URL: to, Client: server.Client()}, &asked
}

func minutes(at time.Time) float64 { return at.Sub(noon).Minutes() }

func TestLongTimesAreReadInPiecesThatFit(t *testing.T) {
	s, asked := serve(t, []fakeprom.Series{
		{Text: `x{a="all"}`, At: func(at time.Time) (float64, bool) { return minutes(at), true }},
		{Text: `x{a="late"}`, At: func(at time.Time) (float64, bool) { return 1, minutes(at) >= 12_000 }},
	})
	const count = 25_000
	got := must.Get(s.Range(t.Context(), "x", noon, time.Minute, count))(t)
	if *asked != 3 || len(got) != 2 {
		t.Fatalf("%d series after %d queries, want 2 after 3", len(got), *asked)
	}
	for i := range count {
		late := math.NaN()
		if i >= 12_000 {
			late = 1
		}
		if got[0].Values[i] != float64(i) || got[1].Values[i] != late && !math.IsNaN(late+got[1].Values[i]) {
			t.Fatalf("minute %d: got %v and %v", i, got[0].Values[i], got[1].Values[i])
		}
	}
	if diff := cmp.Diff(`{__name__="x",a="late"}`, Name(got[1].Labels)); diff != "" {
		t.Error(diff)
	}
}

func TestAPieceThatIsRefusedRefusesTheWhole(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 2 {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(`{"status":"error","error":"too many samples"}`))
			return
		}
		fakeprom.Handler(nil).ServeHTTP(w, r)
	}))
	defer server.Close()
	to, _ := url.Parse(server.URL)
	_, err := (&Server{URL: to, Client: server.Client()}).Range(t.Context(), "x", noon, time.Minute, 40_000)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "x: prometheus refuses: 422 Unprocessable Entity: too many samples") || asked != 2 {
		t.Errorf("got %v after %d queries", err, asked)
	}
}

func TestWhatTheServerWantsToSeeIsSent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer abc" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fakeprom.Handler(nil).ServeHTTP(w, r)
	}))
	defer server.Close()
	to, _ := url.Parse(server.URL)
	s := &Server{URL: to, Client: server.Client()}
	if _, err := s.Range(t.Context(), "x", noon, time.Minute, 2); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "401 Unauthorized") {
		t.Errorf("without a token: %v", err)
	}
	s.Authorize = func(r *http.Request) { r.Header.Set("Authorization", "Bearer abc") }
	if _, err := s.Range(t.Context(), "x", noon, time.Minute, 2); err != nil {
		t.Errorf("with a token: %v", err)
	}
}

func TestAPartialAnswerIsNotTakenAsWhole(t *testing.T) {
	answer := `{"status":"success","isPartial":true,"data":{"resultType":"matrix","result":[]}}`
	m := moments{from: noon, step: time.Minute, count: 1}
	if _, err := m.matrix("200 OK", []byte(answer)); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "the answer is partial") {
		t.Errorf("got %v", err)
	}
}
