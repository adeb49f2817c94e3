package main

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/prometheus/fakeprom"
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
