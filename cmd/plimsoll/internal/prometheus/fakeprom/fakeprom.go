// Package fakeprom answers range queries as Prometheus does, of series that a test states.
package fakeprom

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Series is one series: its text form, name{label="value",…}, and its value at a time, if it has
// one. One that comes and goes may be given in parts, in the order of time.
type Series struct {
	Text string
	At   func(time.Time) (float64, bool)
}

// maxPoints is how many moments Prometheus answers for at most.
const maxPoints = 11_000

// Handler answers /api/v1/query_range for plain selectors. It does not look back: a series has a
// value at a time or none.
func Handler(store []Series) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/query_range", func(w http.ResponseWriter, r *http.Request) {
		start, err1 := strconv.ParseFloat(r.FormValue("start"), 64)
		end, err2 := strconv.ParseFloat(r.FormValue("end"), 64)
		step, err3 := strconv.ParseFloat(r.FormValue("step"), 64)
		switch {
		case err1 != nil || err2 != nil || err3 != nil || step <= 0 || end < start:
			refuse(w, "start, end and step must be numbers")
		case (end-start)/step > maxPoints:
			refuse(w, "exceeded maximum resolution of 11,000 points per timeseries")
		default:
			answer(w, find(store, r.FormValue("query"), start, end, step))
		}
	})
	return mux
}

func refuse(w http.ResponseWriter, why string) {
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `{"status":"error","errorType":"bad_data","error":%q}`, why)
}

type result struct {
	Metric map[string]string `json:"metric"`
	Values [][2]any          `json:"values"`
}

func answer(w http.ResponseWriter, found []result) {
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": found}})
}

func find(store []Series, query string, start, end, step float64) []result {
	found, at := []result{}, map[string]int{}
	for _, s := range store {
		metric := labels(s.Text)
		if !matches(metric, labels(query)) {
			continue
		}
		values := s.values(start, end, step)
		if len(values) == 0 {
			continue
		}
		i, known := at[s.Text] // as Prometheus, it answers with a series once
		if !known {
			i, at[s.Text] = len(found), len(found)
			found = append(found, result{Metric: metric})
		}
		found[i].Values = append(found[i].Values, values...)
	}
	return found
}

func (s *Series) values(start, end, step float64) (all [][2]any) {
	for at := start; at <= end; at += step {
		if v, ok := s.At(time.UnixMilli(int64(at * 1e3))); ok {
			all = append(all, [2]any{at, strconv.FormatFloat(v, 'g', -1, 64)})
		}
	}
	return all
}

func matches(has, wants map[string]string) bool {
	for key, want := range wants {
		if has[key] != want {
			return false
		}
	}
	return true
}

// labels reads name{a="b",c="d"}.
func labels(text string) map[string]string {
	name, rest, _ := strings.Cut(strings.TrimSuffix(text, "}"), "{")
	all := map[string]string{"__name__": name}
	for pair := range strings.SplitSeq(rest, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			all[key] = strings.Trim(value, `"`)
		}
	}
	return all
}
