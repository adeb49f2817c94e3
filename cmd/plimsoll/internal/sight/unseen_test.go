package sight

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// farCluster is seen after a while, and its API server gives one reason why it is not.
type farCluster struct {
	seen time.Time
	why  error
}

func (f farCluster) Synced(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return errors.Join(errors.New("nodes have not been read yet"), ctx.Err())
	case <-time.After(time.Until(f.seen)):
		return nil
	}
}

func (f farCluster) Unready() error { return f.why }

func TestAClusterThatIsNotSeenIsTold(t *testing.T) {
	refused := errors.New("connection refused")
	for _, c := range []struct {
		after time.Duration
		why   error
		times int
		want  string
	}{
		{after: time.Second, why: refused, times: 0},
		{after: 8 * time.Second, why: refused, times: 1, want: `server=https://api:6443 error="connection refused"`},
		{after: 8 * time.Second, times: 1, want: "nodes have not been read yet"},
		{after: 11 * time.Minute, why: refused, times: 3, want: "refused"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			WarnUnseen(t.Context(), slog.New(slog.NewTextHandler(&out, nil)), "https://api:6443", farCluster{time.Now().Add(c.after), c.why})
			if n := strings.Count(out.String(), "has not been seen yet"); n != c.times || !strings.Contains(out.String(), c.want) {
				t.Errorf("seen after %s, it is logged %d times, want %d and %q:\n%s", c.after, n, c.times, c.want, &out)
			}
			if end := strings.Contains(out.String(), "the cluster has been seen"); end != (c.times > 0) {
				t.Errorf("seen after %s, that it is seen is logged: %v\n%s", c.after, end, &out)
			}
		})
	}
}
