package kube

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll/plimsoll/testbed/kubesim"
	"github.com/plimsoll/plimsoll/testbed/must"
)

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
					r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api"+path+"?"+c.query, nil)
					if err != nil {
						t.Fatal(err)
					}
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

// A restored API server has lower versions, and not all nodes. A watch that continued from a later
// version would never bring that they are gone.
func TestNodesThatARestoreTookAreNotSeenAnyMore(t *testing.T) {
	quiet()
	synctest.Test(t, func(t *testing.T) {
		s := kubesim.New(1, ourKinds()...)
		h := newHamlet(s, nil)
		add := func(n int) {
			for range n {
				if err := s.Apply(h.node()); err != nil {
					t.Fatal(err)
				}
			}
		}
		add(2)
		backup, client := s.Snapshot(), s.Client("a", nil)
		add(3)
		c := must.Get(New(Config{REST: client.Config()}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
		if err := c.Synced(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		client.Fail(kubesim.Faults{Refused: true})
		time.Sleep(20 * time.Second)
		s.Restore(backup, false)
		client.Fail(kubesim.Faults{})
		time.Sleep(30 * time.Second)
		client.Freeze()
		synctest.Wait()
		if all, err := c.Nodes(ctx); err != nil || len(all) != 2 {
			t.Errorf("%d nodes, %v, want 2", len(all), err)
		}
	})
}
