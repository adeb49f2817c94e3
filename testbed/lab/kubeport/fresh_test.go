//go:build lab

package kubeport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed/lab"
)

func TestPictureThatMayBeOldIsNone(t *testing.T) {
	w := newWorld(t, lab.ControlPlane{})
	w.node("n-1", "workers")
	c := w.cluster(kube.Config{StaleAfter: 3 * time.Second})
	stale := func(what string) {
		t.Helper()
		w.until(what, func(ctx context.Context) error {
			_, err := c.Observe(ctx)
			if errors.Is(err, kube.ErrStale) {
				t.Logf("%s: %v", what, err)
				return nil
			}
			return errors.Join(errors.New("not stale"), err)
		})
	}
	sees := func(n int) {
		t.Helper()
		w.sees(c, fmt.Sprintf("%d nodes", n), func(s *loop.ClusterState) bool { return len(s.Nodes) == n })
	}
	sees(1)

	plane := w.lab.Status()[0].PID
	if err := syscall.Kill(plane, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stale("while the API server hangs")
	if err := syscall.Kill(plane, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.node("n-2", "workers")
	sees(2)

	if err := w.lab.Kill(lab.ControlPlanePart); err != nil {
		t.Fatal(err)
	}
	stale("while the API server is gone")
	if err := w.lab.Start(t.Context(), lab.ControlPlanePart); err != nil {
		t.Fatal(err)
	}
	w.node("n-3", "workers")
	sees(3)
}

// What every watch does now and then is no reason to stop.
func TestQuietClusterStaysFresh(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	w := newWorld(t, lab.ControlPlane{APIServerArgs: []string{"--min-request-timeout=20"}})
	c := w.cluster(kube.Config{StaleAfter: 10 * time.Second})
	end := time.After(90 * time.Second)
	for {
		// A machine that is too busy to answer whether it is ready is another matter.
		if err := c.Fresh(); err != nil && !strings.Contains(err.Error(), "that it is ready") {
			t.Fatal(err)
		}
		select {
		case <-end:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// plimsoll plan looks at clusters that know nothing of us.
func TestClusterWithoutOurKindsIsRead(t *testing.T) {
	w := bareWorld(t, lab.ControlPlane{})
	w.node("n-1", "workers")
	c := w.cluster(kube.Config{})
	w.sees(c, "the node", func(s *loop.ClusterState) bool { return len(s.Nodes) == 1 })
	if all, err := c.Autoscalers(); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
	w.install()
	w.autoscaler("late", "apps/v1", "Deployment", "nobody", "Recommend")
	if o := w.ours(c, "late"); o.Spec.MaxReplicas != 50 {
		t.Errorf("%+v", o)
	}
}
