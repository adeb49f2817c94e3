package kube

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll/plimsoll/testbed/kubesim"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// A restored API server has lower versions, and not all nodes. A watch that continued from a later
// version would never bring that they are gone.
func TestNodesThatARestoreTookAreNotSeenAnyMore(t *testing.T) {
	quiet()
	synctest.Test(t, func(t *testing.T) {
		s := kubesim.New(1, ourKinds()...)
		h := newHamlet(s, nil)
		add := func(n int) {
			for range n {
				must.Do(t, s.Apply(h.node()))
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
		must.Do(t, c.Synced(ctx))
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
