package notify

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func about(condition string, at time.Duration, bad bool) Statement {
	return Statement{Bad: bad, Notice: Notice{
		Kind: "WorkloadAutoscaler", Namespace: "shop", Name: "web", Condition: condition, Reason: condition + "Reason", Text: "so it is", Time: start.Add(at),
	}}
}

// One alert for each condition, and not one for each cycle.
func TestAConditionIsToldOnceAndOnceWhenItIsOver(t *testing.T) {
	var a Alerts
	var sent []string
	see := func(condition string, at time.Duration, bad bool) {
		if n := a.See(about(condition, at, bad)); n != nil {
			sent = append(sent, at.String()+" "+string(n.Status)+" "+n.Condition)
		}
	}
	see("Conflicted", 0, false)
	for at := time.Duration(0); at < 10*time.Minute; at += 15 * time.Second {
		see("Conflicted", at, true)
		see("SLOAtRisk", at, at/(15*time.Second)%2 == 0) // comes and goes all the time
	}
	for at := 10 * time.Minute; at < 20*time.Minute; at += 15 * time.Second {
		see("Conflicted", at, false)
		see("SLOAtRisk", at, false)
	}
	see("Conflicted", 21*time.Minute, true)
	want := []string{
		"0s Firing Conflicted", "0s Firing SLOAtRisk",
		"14m45s Resolved SLOAtRisk", "15m0s Resolved Conflicted", "21m0s Firing Conflicted",
	}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("-want +sent:\n%s", diff)
	}
}

// A new leader finds in the status what was notified, and notifies only of what is new.
func TestWhatWasNotifiedBeforeARestartIsNotNotifiedAgain(t *testing.T) {
	var a Alerts
	s := about("Conflicted", 0, true)
	s.WasBad = true
	if n := a.See(s); n != nil {
		t.Errorf("notified again: %+v", n)
	}
	b := Alerts{}
	s = about("Conflicted", 0, false)
	s.WasBad = true
	if n := b.See(s); n != nil {
		t.Errorf("notified at once that it is over: %+v", n)
	}
	if n := b.See(about("Conflicted", 6*time.Minute, false)); n == nil || n.Status != Resolved {
		t.Errorf("was not notified that it is over: %+v", n)
	}
}

func TestAClockThatIsPutBackDelaysNothingForLong(t *testing.T) {
	var a Alerts
	a.See(about("Conflicted", 0, true))
	a.See(about("Conflicted", time.Minute, false))
	a.See(about("Conflicted", -24*time.Hour, false))
	if n := a.See(about("Conflicted", -24*time.Hour+5*time.Minute, false)); n == nil || n.Status != Resolved {
		t.Errorf("was not notified that it is over: %+v", n)
	}
}

func TestObjectsThatAreGoneAreForgotten(t *testing.T) {
	var a Alerts
	a.See(about("Conflicted", 0, true))
	a.Forget(func(_, _, name string) bool { return name != "web" })
	if n := a.See(about("Conflicted", time.Minute, true)); n == nil {
		t.Error("another object of the same name is not notified of")
	}
}

// receiver keeps what is posted to it, and answers as it is asked to.
type receiver struct {
	mu     sync.Mutex
	bodies []string
	tokens []string
	codes  []int // of the first answers; the others are 200
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies, r.tokens = append(r.bodies, string(body)), append(r.tokens, q.Header.Get("Authorization"))
	if len(r.codes) > 0 {
		w.WriteHeader(r.codes[0])
		r.codes = r.codes[1:]
	}
}

// RoundTrip answers without a network, so that time can be played with.
func (r *receiver) RoundTrip(q *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, q)
	return w.Result(), nil
}

func TestReceiversAreToldInTheirOwnWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hears := &receiver{codes: []int{503, 429}}
		var log strings.Builder
		s := NewSender([]Receiver{
			{Name: "ops", URL: "http://hook/secret", Token: "s3cret", All: true},
			{Name: "shop", URL: "http://hook/shop", Format: Slack, Conditions: []string{"Conflicted"}},
			{Name: "nobody", URL: "http://hook/nobody"},
		}, &http.Client{Transport: hears}, slog.New(slog.NewTextHandler(&log, nil)))
		ctx := t.Context()
		go s.Run(ctx)
		n := about("Conflicted", 0, true).Notice
		n.Status, n.Text = Firing, "an HPA <web> has it"
		s.Tell([]string{"shop"}, n)
		time.Sleep(time.Minute)
		s.Tell([]string{"shop"}, Notice{Status: Scaled, Kind: "WorkloadAutoscaler", Namespace: "shop", Name: "web", Reason: "SuccessfulRescale", Time: start})
		time.Sleep(time.Minute)
		synctest.Wait()
		hears.mu.Lock()
		defer hears.mu.Unlock()
		count := map[string]int{}
		for _, b := range hears.bodies {
			count[b]++
		}
		const (
			firing = `{"receiver":"ops","status":"Firing","kind":"WorkloadAutoscaler","namespace":"shop","name":"web","condition":"Conflicted","reason":"ConflictedReason","text":"an HPA \u003cweb\u003e has it","time":"2026-03-01T12:00:00Z"}`
			scaled = `{"receiver":"ops","status":"Scaled","kind":"WorkloadAutoscaler","namespace":"shop","name":"web","reason":"SuccessfulRescale","text":"","time":"2026-03-01T12:00:00Z"}`
		)
		slack, _ := json.Marshal(map[string]string{"text": "*Firing* WorkloadAutoscaler shop/web: Conflicted (ConflictedReason)\nan HPA &lt;web&gt; has it"})
		if count[scaled] != 1 || count[firing] < 1 || count[string(slack)] < 1 || len(hears.bodies) != 5 {
			t.Errorf("posted %d times: %v", len(hears.bodies), count)
		}
		if log.Len() != 0 {
			t.Errorf("logged: %s", log.String())
		}
	})
}

func TestAReceiverThatRefusesIsNotAskedAgainAndItsAddressIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hears := &receiver{codes: []int{404, 500, 500, 500, 500}}
		var log strings.Builder
		s := NewSender([]Receiver{{Name: "ops", URL: "http://hook/secret", All: true}}, &http.Client{Transport: hears}, slog.New(slog.NewTextHandler(&log, nil)))
		var given []bool
		s.Done = func(_ string, arrived bool) { given = append(given, arrived) }
		go s.Run(t.Context())
		for range 3 {
			s.Tell(nil, about("Conflicted", 0, true).Notice)
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		if diff := cmp.Diff([]bool{false, false, true}, given); diff != "" {
			t.Errorf("-want +arrived:\n%s", diff)
		}
		if len(hears.bodies) != 6 {
			t.Errorf("asked %d times, want once, four times and once", len(hears.bodies))
		}
		if text := log.String(); strings.Contains(text, "secret") || !strings.Contains(text, "refused with 404") {
			t.Errorf("logged: %s", text)
		}
	})
}

func TestNobodyWaitsForAReceiver(t *testing.T) {
	s := NewSender([]Receiver{{Name: "ops", URL: "http://hook", All: true}}, http.DefaultClient, slog.New(slog.DiscardHandler))
	dropped := 0
	s.Done = func(string, bool) { dropped++ }
	for range waiting + 5 { // no one runs it
		s.Tell(nil, about("Conflicted", 0, true).Notice)
	}
	if dropped != 5 {
		t.Errorf("%d were dropped, want 5", dropped)
	}
}

// A redirected POST arrives without the notice.
func TestANoticeThatIsSentElsewhereIsNotDelivered(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307} {
		hears := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hears++
			if r.URL.Path == "/secret" {
				http.Redirect(w, r, "http://user:pass@"+r.Host+"/t0ken?key=k", code)
			}
		}))
		s := NewSender(nil, server.Client(), slog.New(slog.DiscardHandler))
		err := s.post(t.Context(), &Receiver{URL: server.URL + "/secret"}, &Notice{})
		server.Close()
		want := fmt.Sprintf("refused with %d %s to %s: give the address there", code, http.StatusText(code), server.Listener.Addr())
		if hears != 1 || err == nil || err.Error() != want {
			t.Errorf("%d: %v after %d requests, want %s", code, err, hears, want)
		}
	}
}
