package operator

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
)

// histories reads what policies lack of the load before they were made, and has it learnt from:
// both take seconds, and go on beside the steps. All of it is of one term.
type histories struct {
	log *slog.Logger

	mu   sync.Mutex
	busy bool
	of   map[string]*history // by workload
}

// history is what one policy lacks.
type history struct {
	policy loop.PolicySpec
	lack   podscaler.Lack
	wanted bool // in this step
	found  *podscaler.History
	next   time.Time // it is asked for
	wait   time.Duration
	said   string
}

// How long it is until a history is asked for again that could not be had.
const (
	firstRecall = time.Minute
	lastRecall  = time.Hour
)

// History hands over what a workload's policy lacks, if it is there.
func (h *histories) History(w *loop.Workload, lack podscaler.Lack) *podscaler.History {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.of[w.Name]
	if one == nil || one.lack != lack || !reflect.DeepEqual(one.policy, w.Policy) {
		one = &history{policy: w.Policy, lack: lack}
		h.of[w.Name] = one
	}
	one.wanted = true
	if one.found != nil {
		delete(h.of, w.Name) // what is lacked later is another one
	}
	return one.found
}

// read has those read beside the steps whose time it is. Who lacks nothing any more is forgotten.
func (h *histories) read(ctx context.Context, t *term, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked, lacks := map[string]*history{}, map[string]podscaler.Lack{}
	for name, one := range h.of {
		switch {
		case !one.wanted:
			delete(h.of, name)
		case one.found == nil && !now.Before(one.next):
			asked[name], lacks[name] = one, one.lack
		}
		one.wanted = false
	}
	if h.busy || len(asked) == 0 {
		return
	}
	h.busy = true
	t.beside.Go(func() {
		t.Signals.Recall(ctx, now, lacks, func(name string, found *podscaler.History, err error) { h.got(name, asked[name], now, found, err) })
		h.mu.Lock()
		defer h.mu.Unlock()
		h.busy = false
	})
}

// said is why a workload's policy has no history that it asked for.
func (h *histories) said(workload string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one := h.of[workload]; one != nil {
		return one.said
	}
	return ""
}

// got takes in a history, or why it could not be had. What a policy of the same settings has learnt
// from it the workload's own takes over.
func (h *histories) got(name string, one *history, now time.Time, found *podscaler.History, err error) {
	if err == nil {
		var made podscaler.Policy
		if made, err = one.policy.New(); err == nil {
			made.(podscaler.Learner).Learn(found) // who lacks one learns
			found.Learnt = made
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		one.found = found
		h.log.Info("a policy has learnt from the load before its start", "workload", name, "until", found.End)
		return
	}
	one.wait = min(max(2*one.wait, firstRecall), lastRecall)
	one.next = now.Add(one.wait)
	if one.said != err.Error() {
		one.said = err.Error()
		h.log.Info("a policy starts without the load before its start", "workload", name, "why", err)
	}
}
