package loader

import (
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// The page is read by a preset, with nothing said but its port, and all signals are known from it.
func TestThePresetOTelReadsThePage(t *testing.T) {
	s := ready(t, small())
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	at := must.Get(url.Parse(server.URL))(t)
	port := must.Get(strconv.Atoi(at.Port()))(t)
	began := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	r := signals.New(signals.Options{Pods: func() []signals.Pod {
		return []signals.Pod{{Workload: "bench/loader", Name: "loader-1", Address: at.Hostname(), Ready: true, Started: began.Add(-time.Hour)}}
	}})
	must.Do(t, r.Configure(map[string]signals.Source{"bench/loader": {
		Target: signals.Target{Namespace: "bench", Kind: "Deployment", Name: "loader"},
		SLO:    podscaler.SLO{Quantile: 0.9, Target: time.Minute, Window: time.Minute},
		Spec:   signals.Spec{Preset: signals.OTel, Scrape: &signals.Scrape{Port: port}},
	}}))
	requests := func(well, badly int) {
		for range well {
			get(s, "/")
		}
		for range badly {
			get(s, "/", depthHeader, strconv.Itoa(mostDepth))
		}
	}
	requests(1, 1)
	r.Prepare(t.Context(), began)
	requests(9, 1)
	now := began.Add(20 * time.Second)
	r.Prepare(t.Context(), now)
	w := must.Get(r.Read(t.Context(), &podscaler.Workload{Name: "bench/loader"}, now))(t)
	if w.Arrivals != podscaler.Known(0.5) || w.Errors != podscaler.Known(0.1) || w.InFlight != podscaler.Known(0) || w.Good != podscaler.Known(1) {
		t.Errorf("arrivals %+v, errors %+v, in flight %+v, good %+v", w.Arrivals, w.Errors, w.InFlight, w.Good)
	}
	if !w.Latency.Known || w.Latency.Value <= 0 {
		t.Errorf("latency %+v", w.Latency)
	}
	if found := r.Findings("bench/loader"); found != nil {
		t.Errorf("it finds %+v", found)
	}
}
