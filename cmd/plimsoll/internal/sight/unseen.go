// Package sight warns, at a start, of what is not seen of a cluster, and of kinds in it that are
// older than the program.
package sight

import (
	"context"
	"log/slog"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/kube"
)

// When the log says that the cluster has not been seen since the start. From then on steps say what
// is wrong.
const (
	unseenFirst = 5 * time.Second
	unseenAgain = 5 * time.Minute
)

// sight is what is seen of a cluster.
type sight interface {
	Synced(ctx context.Context) error
	// Unready is what the API server said in place of being ready.
	Unready() error
}

var _ sight = (*kube.Cluster)(nil)

// WarnUnseen warns now and then that the cluster has not been seen, until it is: nothing else would
// be said of an API server that does not answer.
func WarnUnseen(ctx context.Context, log *slog.Logger, server string, of sight) {
	for wait := unseenFirst; ; wait = unseenAgain {
		waiting, cancel := context.WithTimeout(ctx, wait)
		err := of.Synced(waiting)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && wait == unseenAgain:
			log.Info("the cluster has been seen", "server", server)
			return
		case err == nil:
			return
		}
		if unready := of.Unready(); unready != nil {
			err = unready // which is why
		}
		log.Warn("the cluster has not been seen yet", "server", server, "error", err)
	}
}
