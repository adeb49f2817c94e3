//go:build lab

package k6_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/testbed/k6"
	"github.com/plimsoll/plimsoll/testbed/lab"
)

func program(t *testing.T) string {
	t.Helper()
	tools := lab.Toolbox{Progress: func(line string) { t.Log(line) }}
	path, err := tools.Path(t.Context(), lab.ToolK6)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// application answers after a tenth of a second, and every tenth request badly.
func application(t *testing.T) (url string, served *atomic.Int64) {
	served = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := served.Add(1)
		time.Sleep(100 * time.Millisecond)
		w.Header().Set("Server-Timing", "cache;desc=hit, pod;dur=99.5")
		if n%10 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintln(w, n)
	}))
	t.Cleanup(s.Close)
	return s.URL, served
}

func TestLoadsSendAndCountWhatTheySay(t *testing.T) {
	k6Program := program(t)
	for _, c := range []struct {
		load        k6.Load
		least, most int // requests: with none lost, and as slow as a busy machine may be
	}{
		// 8 users for 4 s: a second between an answer and the next request, or between requests.
		{k6.Load{Kind: k6.Sleep, Users: 8, Think: time.Second, Spread: 500 * time.Millisecond, Duration: 4 * time.Second}, 16, 32},
		{k6.Load{Kind: k6.Pace, Users: 8, Think: 250 * time.Millisecond, Duration: 4 * time.Second}, 64, 136},
		{k6.Load{Kind: k6.Open, Users: 50, Rate: 20, Duration: 4 * time.Second}, 60, 81},
	} {
		t.Run(string(c.load.Kind), func(t *testing.T) {
			url, served := application(t)
			c.load.URL, c.load.Target = url, 5*time.Second
			s, err := k6.Run(t.Context(), k6Program, t.TempDir(), c.load)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", s)
			if s.Requests < c.least || s.Requests > c.most || int64(s.Requests) != served.Load() {
				t.Errorf("%d requests counted and %d served, want %d to %d", s.Requests, served.Load(), c.least, c.most)
			}
			if s.Failed != s.Requests/10 || s.Good != s.Requests-s.Failed {
				t.Errorf("%d of %d failed, %d were good", s.Failed, s.Requests, s.Good)
			}
			if s.Min < 100 || s.P50 < s.Min || s.P90 < s.P50 || s.P99 < s.P90 || s.Max < s.P99 {
				t.Errorf("latencies %+v", s)
			}
			if since := time.Since(s.Began); since < c.load.Duration || since > 2*time.Minute {
				t.Errorf("it began at %s, %s ago", s.Began, since)
			}
			if s.Late == nil || s.Late.Mean < 0.5 || s.Late.P99 > s.Max-99.5 {
				t.Errorf("answers were late by %+v", s.Late)
			}
			if len(s.Minutes) != 1 || s.Minutes[0].Requests != s.Requests || s.Minutes[0].Failed != s.Failed {
				t.Errorf("minutes %+v", s.Minutes)
			}
		})
	}
}

// With a quantile at which every tenth failure shows, the minute has none.
func TestQuantilesAmongFailuresAreInfinite(t *testing.T) {
	url, _ := application(t)
	s, err := k6.Run(t.Context(), program(t), t.TempDir(), k6.Load{
		URL: url, Kind: k6.Pace, Users: 10, Think: 200 * time.Millisecond, Duration: 3 * time.Second, Target: time.Second, Quantile: 0.95,
	})
	if err != nil || len(s.Minutes) != 1 || !math.IsInf(s.Minutes[0].Quantile, 1) {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestLoadsEndWithTheirContext(t *testing.T) {
	url, _ := application(t)
	k6Program := program(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	began := time.Now()
	_, err := k6.Run(ctx, k6Program, t.TempDir(), k6.Load{URL: url, Kind: k6.Sleep, Users: 1, Think: time.Second, Duration: 10 * time.Minute, Target: time.Second})
	if err == nil || time.Since(began) > time.Minute {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

func TestWhatK6SaysOfAFailureIsTold(t *testing.T) {
	_, err := k6.Run(t.Context(), "false", t.TempDir(), k6.Load{URL: "http://127.0.0.1:1", Kind: k6.Sleep, Users: 1, Think: time.Second, Duration: time.Second, Target: time.Second})
	if err == nil || !strings.HasPrefix(err.Error(), "k6: exit status 1") {
		t.Error(err)
	}
}
