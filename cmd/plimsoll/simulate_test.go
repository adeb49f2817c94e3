package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/prometheus/fakeprom"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

// serveRates serves requests a second, a line each in a file: from when to when, the value, and the
// series. The value may be day, which follows the clock. Of several lines of a series the first
// counts that has a value. A line "token X" wants that token with every query. The script finds it
// under PROMETHEUS.
func serveRates(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: rates file")
	}
	var store []fakeprom.Series
	token := ""
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(words) == 2 && words[0] == "token" {
			token = "Bearer " + words[1]
		}
		if len(words) < 4 {
			continue
		}
		from, err := time.Parse(time.RFC3339, words[0])
		ts.Check(err)
		to, err := time.Parse(time.RFC3339, words[1])
		ts.Check(err)
		store = joinRates(store, words[3], func(at time.Time) (float64, bool) {
			value, err := strconv.ParseFloat(words[2], 64)
			if err != nil {
				value = math.Round(100 * (1 - math.Cos(2*math.Pi*float64(at.Unix())/86400)))
			}
			return value, !at.Before(from) && !at.After(to)
		})
	}
	inner := fakeprom.Handler(store)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch query := r.FormValue("query"); {
		case r.Header.Get("Authorization") != token:
			w.WriteHeader(http.StatusUnauthorized)
		case strings.Count(query, "(") != strings.Count(query, ")"):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\": parse error: unclosed left parenthesis"}`)
		default:
			inner.ServeHTTP(w, r)
		}
	}))
	ts.Defer(server.Close)
	ts.Setenv("PROMETHEUS", server.URL)
}

func joinRates(store []fakeprom.Series, name string, at func(time.Time) (float64, bool)) []fakeprom.Series {
	i := slices.IndexFunc(store, func(s fakeprom.Series) bool { return s.Text == name })
	if i < 0 {
		return append(store, fakeprom.Series{Text: name, At: at})
	}
	before := store[i].At
	store[i].At = func(t time.Time) (float64, bool) {
		if v, ok := before(t); ok {
			return v, true
		}
		return at(t)
	}
	return store
}

func TestDurationsMayHaveDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"7d": 7 * 24 * time.Hour, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour, "90m": 90 * time.Minute,
	} {
		got, err := wholeMinutes(text)
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "7", "7dd", "-7d", "-3h", "30s", "90s", "0d", "1e300d", "NaNd", "7d3", "7d-3h", "53375d2000000h"} {
		if got, err := wholeMinutes(text); err == nil || !strings.Contains(err.Error(), strconv.Quote(text)) {
			t.Errorf("%q: got %s, %v", text, got, err)
		}
	}
}

func TestTheBusiestDayIsShownOrAllThereIs(t *testing.T) {
	quiet, busy := make([]float64, replay.MinutesADay), slices.Repeat([]float64{7}, replay.MinutesADay)
	if diff := cmp.Diff(span{replay.MinutesADay, 2 * replay.MinutesADay}, busiest(slices.Concat(quiet, busy, quiet)), cmp.AllowUnexported(span{})); diff != "" {
		t.Error(diff)
	}
	if got := busiest(make([]float64, 100)); got != (span{0, 100}) {
		t.Errorf("of a hundred minutes: %v", got)
	}
}

// TestInterruptedSimulationsWriteNoResults interrupts one as soon as the load was kept.
func TestInterruptedSimulationsWriteNoResults(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var made []string
	var out, err bytes.Buffer
	env := &cli.Env{
		Args:   []string{"simulate", "--trace", "mmpp", "--policies", "hpa", "--out", "there"},
		Stdout: &out, Stderr: &err, Now: time.Now, Getenv: func(string) string { return "" },
		ReadFile: func(string) ([]byte, error) { return nil, fs.ErrNotExist },
		Create: func(name string) (io.WriteCloser, error) {
			made = append(made, name)
			cancel()
			return sink{}, nil
		},
	}
	if code := run(ctx, env); code != cli.ExitFailed {
		t.Errorf("exits with %d, want %d", code, cli.ExitFailed)
	}
	if !strings.Contains(err.String(), "plimsoll: interrupted: 0 of ") || out.Len() > 0 {
		t.Errorf("it says %q, and prints %q", err.String(), out.String())
	}
	if diff := cmp.Diff([]string{"there/load.csv"}, made); diff != "" {
		t.Error(diff)
	}
}

type sink struct{}

func (sink) Write(p []byte) (int, error) { return len(p), nil }
func (sink) Close() error                { return nil }
