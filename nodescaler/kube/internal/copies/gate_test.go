package copies

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// server answers requests with a status; with 0 it does not answer.
type server struct{ status int }

func (s *server) RoundTrip(*http.Request) (*http.Response, error) {
	if s.status == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: s.status, Body: http.NoBody}, nil
}

func TestRequestsForCopiesWaitUntilTheServerIsReady(t *testing.T) {
	ask := func(ctx context.Context, l *line, method, path string) (int, time.Duration, error) {
		began := time.Now()
		r := must.Get(http.NewRequestWithContext(ctx, method, "https://api"+path, nil))(t)
		response, err := l.RoundTrip(r)
		if err != nil {
			return 0, time.Since(began), err
		}
		defer response.Body.Close() //nolint:errcheck // closing a body does not fail
		return response.StatusCode, time.Since(began), nil
	}
	for name, fault := range map[string]int{"it does not answer": 0, "it has a fault": http.StatusServiceUnavailable} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s := aLine(), &server{status: fault}
				l.next = s
				ctx := t.Context()
				if status, took, err := ask(ctx, l, "GET", path); status == http.StatusOK || took > 0 {
					t.Errorf("the first: %d after %s, %v", status, took, err)
				}
				select {
				case <-l.gate.hurry:
				default:
					t.Error("whether the server is ready is not asked at once")
				}
				for _, other := range []struct{ method, path string }{{"GET", "/readyz"}, {"PATCH", path}} {
					if _, took, _ := ask(ctx, l, other.method, other.path); took > 0 {
						t.Errorf("%s %s waits", other.method, other.path)
					}
				}
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				if _, took, err := ask(short, l, "GET", path); took != time.Second || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("one that may not wait: %v after %s", err, took)
				}
				go func() {
					time.Sleep(time.Hour)
					l.answered(errors.New("starting"))
					s.status = http.StatusOK
					time.Sleep(time.Hour)
					l.answered(nil)
				}()
				if status, took, err := ask(ctx, l, "GET", path); status != http.StatusOK || took != 2*time.Hour {
					t.Errorf("the next: %d after %s, %v", status, took, err)
				}
				if _, took, err := ask(ctx, l, "GET", path); took > 0 || err != nil {
					t.Errorf("after that: %v after %s", err, took)
				}
			})
		})
	}
}

func TestServerThatIsNotReadyIsAskedMoreOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { isAskedMoreOften(t, aLine()) })
}

func isAskedMoreOften(t *testing.T, l *line) {
	expect := func(when string, want time.Duration) {
		t.Helper()
		if got := l.pause(); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	expect("while it is ready", 5*time.Second)
	l.gate.close()
	expect("while requests wait", time.Second)
	l.answered(errors.New("no"))
	expect("while it is not", time.Second)
	l.answered(nil)
	expect("before it counts", 2*time.Second)
	l.answered(nil)
	expect("once it is again", 5*time.Second)
}

func TestWatchThatWasInterruptedForLongBeginsWithAList(t *testing.T) {
	for _, c := range []struct {
		name  string
		query string
		away  time.Duration
		want  int
	}{
		{"in the usual way", "watch=true&resourceVersion=7", time.Second, http.StatusOK},
		{"just short enough", "watch=true&resourceVersion=7", 9 * time.Second, http.StatusOK},
		{"for too long", "watch=true&resourceVersion=7", 10 * time.Second, http.StatusGone},
		{"for too long, and with a list", "watch=true&resourceVersion=7&sendInitialEvents=true", time.Minute, http.StatusOK},
		{"for too long, and the list itself", "resourceVersion=7", time.Minute, http.StatusOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := aLine()
				l.next = &server{status: http.StatusOK}
				l.closed(path)
				time.Sleep(c.away)
				// The next one continues from the list.
				for _, want := range []int{c.want, http.StatusOK} {
					r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api"+path+"?"+c.query, nil))(t)
					response := must.Get(l.RoundTrip(r))(t)
					if response.StatusCode != want {
						t.Errorf("%d, want %d", response.StatusCode, want)
					}
					if err := response.Body.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}
