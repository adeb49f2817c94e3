package operator

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/notify"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	"github.com/plimsoll/plimsoll/pricing"
)

// term is one term of leadership: what the loop remembers lasts as long.
type term struct {
	Config
	fleet    Fleet
	memory   loop.Memory
	prices   *pricing.Book     // of the last step
	readings readings          // of objects
	asks     asks              // of pods
	said     map[types.UID]any // the statuses of the last step: those that are read may be older
	statuses statuses
	prepared bool      // the signals were measured once
	ticks    time.Time // a tick, by which others are reckoned
	last     time.Time // of the last step
	began    time.Time // the last step, by the monotonic clock
	trouble  trouble
	alerts   notify.Alerts
	past     *histories

	// measuring is while the signals are measured for the next step; measured receives when they
	// were.
	measuring bool
	measured  chan struct{}

	beside sync.WaitGroup // what goes on while steps are made
	swept  time.Time      // orphans were last looked for
}

// begin forgets what the loop remembered, which makes it slower to shrink and never faster.
func (t *term) begin() error {
	t.memory, t.asks = loop.Memory{}, nil
	t.past = &histories{of: map[string]*history{}, log: t.Log}
	t.forget(recording.Nothing)
	if !t.NodeScaler {
		return nil
	}
	policy, err := nodepolicy.New(t.Nodes)
	t.memory.Nodes = policy
	return err
}

// wait waits for the picture of the cluster, which may be old when the lead comes back after the
// API server was away, but no longer than for a step: that says what is wrong.
func (t *term) wait(ctx, until context.Context) {
	ctx, cancel := context.WithTimeout(ctx, t.Interval)
	defer cancel()
	defer context.AfterFunc(until, cancel)()
	_ = t.Cluster.Synced(ctx)
}

// forget notes in the recording what is remembered of the steps before.
func (t *term) forget(kept recording.Remembered) {
	if t.Recording == nil {
		return
	}
	var nodes *nodepolicy.Spec
	if t.NodeScaler {
		nodes = &t.Nodes
	}
	t.Recording.Forget(kept, nodes)
}
