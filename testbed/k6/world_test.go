//go:build lab

package k6_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/testbed/k6"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/loader"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func program(t *testing.T) string {
	t.Helper()
	tools := lab.Toolbox{Progress: func(line string) { t.Log(line) }}
	return must.Get(tools.Path(t.Context(), lab.ToolK6))(t)
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
			s := must.Get(k6.Run(t.Context(), k6Program, t.TempDir(), c.load))(t)
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
			if s.Served == nil || s.Served.Mean+s.Late.Mean-s.Mean > 0.01 || s.Mean-s.Served.Mean-s.Late.Mean > 0.01 {
				t.Errorf("answers took %+v and were late by %+v, together %v", s.Served, s.Late, s.Mean)
			}
			if s.Late == nil || s.Late.Mean < 0.5 || s.Late.P99 > s.Max-99.5 {
				t.Errorf("answers were late by %+v", s.Late)
			}
			if len(s.Minutes) != 1 || s.Minutes[0].Requests != s.Requests || s.Minutes[0].Failed != s.Failed || s.Minutes[0].Late != s.Requests-s.Failed-s.Good {
				t.Errorf("minutes %+v", s.Minutes)
			}
		})
	}
}

// With a quantile at which every tenth failure shows, the minute has none.
func TestQuantilesAmongFailuresAreInfinite(t *testing.T) {
	url, _ := application(t)
	s, err := k6.Run(t.Context(), program(t), t.TempDir(), k6.Load{
		URL: url, Kind: k6.Pace, Users: 10, Think: 200 * time.Millisecond, Duration: 3 * time.Second, Target: time.Millisecond, Quantile: 0.95,
	})
	if err != nil || len(s.Minutes) != 1 || !math.IsInf(s.Minutes[0].Quantile, 1) {
		t.Fatalf("%+v, %v", s, err)
	}
	if s.Minutes[0].Late != s.Requests-s.Failed || s.Good > 0 {
		t.Errorf("of %d requests %d failed, and all others take longer than a millisecond: %d are late", s.Requests, s.Failed, s.Minutes[0].Late)
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

// What scripts send, by their settings.
func TestScriptsSendWhatTheySay(t *testing.T) {
	k6Program := program(t)
	trace := filepath.Join(t.TempDir(), "load.csv")
	must.Do(t, os.WriteFile(trace, []byte("minute,count\n0,7\n1, 40\n2,0\n3,10\n4,500\n"), 0o600))
	for _, c := range []struct {
		script      string
		settings    map[string]string
		least, most int
	}{
		// Users become 6 within 2 s and stay for 2: (1+6)/2·2 + 6·2 requests, less the time that
		// answers take.
		{"ramp.js", map[string]string{"STAGES": "6:2, 6:2", "KIND": "pace"}, 8, 26},
		// 2 s on the way to 10 a second, 2 s at it.
		{"rate.js", map[string]string{"RATE": "10", "RAMP": "2", "DURATION": "2"}, 24, 31},
		// 1 a second for 2 s, between 1 and 11 for 1 s, 11 for 2 s, and back.
		{"spike.js", map[string]string{"BASE": "1", "PEAK": "11", "BEFORE": "2", "RISE": "1", "HOLD": "2", "FALL": "1", "AFTER": "2"}, 30, 39},
		// Half of what came in three of the minutes, which take 2 s each.
		{"trace.js", map[string]string{"TRACE": trace, "FROM": "1", "MINUTES": "3", "SPEED": "30", "SCALE": "0.5"}, 23, 26},
	} {
		t.Run(c.script, func(t *testing.T) {
			url, served := application(t)
			c.settings["URL"], c.settings["TARGET"], c.settings["OBJECTIVE"] = url, "5000", "95"
			s := must.Get(k6.RunScript(t.Context(), k6Program, t.TempDir(), c.script, c.settings))(t)
			t.Logf("%+v", s)
			if s.Requests < c.least || s.Requests > c.most || int64(s.Requests) != served.Load() {
				t.Errorf("%d requests counted and %d served, want %d to %d", s.Requests, served.Load(), c.least, c.most)
			}
			// Every tenth is answered badly.
			if want := s.Requests < 10; s.Failed != s.Requests/10 || s.Objective == nil || s.Objective.Held != want {
				t.Errorf("%d of %d failed, the objective is %+v", s.Failed, s.Requests, s.Objective)
			}
		})
	}
}

// What is wrong is reported by name, rule and value before anything is sent.
func TestScriptsRefuseWhatTheyCannotDo(t *testing.T) {
	k6Program := program(t)
	folder := t.TempDir()
	for name, text := range map[string]string{"gap.csv": "0,5\n2,5\n", "words.csv": "time,requests\n0,5\n", "good.csv": "0,5\n1,5\n", "half.csv": "minute,count\n0,1.5\n"} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	at := func(name string) string { return filepath.Join(folder, name) }
	for _, c := range []struct {
		script, name, value, want string
		besides                   [2]string
	}{
		{script: "paper.js", name: "USERS", value: "1.5", want: `USERS: must be a whole number, was "1.5"`},
		{script: "paper.js", name: "KIND", value: "fast", want: `KIND: must be one of sleep, pace, open, was "fast"`},
		{script: "paper.js", name: "URL", value: "web", want: `URL: must be an address such as http://127.0.0.1:8080/, was "web"`},
		{script: "paper.js", name: "OBJECTIVE", value: "101", want: `OBJECTIVE: must be a number from 0 to 100, was "101"`},
		{script: "paper.js", name: "DURATION", value: "30m", want: `DURATION: must be a number of at least 1, was "30m"`},
		{script: "ramp.js", name: "STAGES", value: "10:30,20", want: `STAGES: must be users:seconds, such as 10:60, with commas between, was "20" in "10:30,20"`},
		{script: "rate.js", name: "RATE", value: "0", want: `RATE: must be a number of at least 0.02, was "0"`},
		{script: "spike.js", name: "PEAK", value: "2", want: `PEAK: must be more than BASE, which is 2, was "2"`},
		{script: "trace.js", name: "TRACE", want: `TRACE: must be given, was not`},
		{script: "trace.js", name: "TRACE", value: at("gap.csv"), want: "TRACE: " + at("gap.csv") + ` line 2: the minute must be 1, was "2"`},
		{script: "trace.js", name: "TRACE", value: at("words.csv"), want: "TRACE: " + at("words.csv") + ` line 1: the columns must be minute,count, was "time,requests"`},
		{script: "trace.js", name: "TRACE", value: at("half.csv"), want: "TRACE: " + at("half.csv") + ` line 2: must be minute,count in whole numbers, was "0,1.5"`},
		{script: "trace.js", name: "TRACE", value: at("good.csv"), besides: [2]string{"FROM", "2"}, want: `FROM: must be before minute 2, where the trace ends, was "2"`},
		{script: "trace.js", name: "TRACE", value: at("good.csv"), besides: [2]string{"MINUTES", "3"}, want: `MINUTES: must be at most 2, which are left of the trace, was "3"`},
	} {
		settings := map[string]string{"URL": "http://127.0.0.1:1", c.name: c.value}
		if c.besides[0] != "" {
			settings[c.besides[0]] = c.besides[1]
		}
		_, err := k6.RunScript(t.Context(), k6Program, t.TempDir(), c.script, settings)
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), `\"`, `"`), c.want) {
			t.Errorf("%s with %s=%s: %v, want %s", c.script, c.name, c.value, err, c.want)
		}
	}
	if _, err := k6.RunScript(t.Context(), k6Program, t.TempDir(), "load.js", nil); err == nil || err.Error() != `script: must be one of [paper.js ramp.js rate.js spike.js trace.js], was "load.js"` {
		t.Error(err)
	}
}

// The published load works by hand, where it lies, against a loader; and k6 says itself when an
// objective is missed.
func TestThePaperRunsByHand(t *testing.T) {
	service := must.Get(loader.New(loader.Config{Work: loader.Work{Digits: 100}, AtOnce: 8, CallTimeout: time.Second, Grace: time.Minute}))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx, l, func(loader.Calibration) error { return nil }) }()
	summary := filepath.Join(t.TempDir(), "summary.json")
	for target, want := range map[string]int{"60000": 0, "0.001": 99} {
		cmd := exec.Command(program(t), "run", "--address", "", "-e", "URL=http://"+l.Addr().String(), "-e", "USERS=2", "-e", "DURATION=2", "-e", "TARGET="+target, "-e", "SUMMARY="+summary, "paper.js")
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("within %s ms: %v\n%s", target, err, out)
		}
		if said := regexp.MustCompile(`[1-9] requests in .*, 0 failed, 0 not sent; p50 .* ms`); !said.Match(out) {
			t.Errorf("it says\n%s", out)
		}
		if _, err := os.Stat(summary); err != nil {
			t.Error(err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
