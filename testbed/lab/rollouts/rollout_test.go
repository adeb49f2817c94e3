//go:build lab

package rollouts

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
)

var (
	count = flag.Int("machines", 8, "how many machines there are, a multiple of 4")
	away  = flag.Int("away", 1, "how many pods of a service may be evicted at once: with more, the test must fail")
)

// All machines are replaced by others of a good template, a canary first, under load and disruption
// budgets. Then the template changes once more, without a canary, and in the middle of that to one
// of which no machine boots. The rollout stops and goes back to what was good last. No request
// fails, and no budget is broken.
func TestARolloutUnderLoadWithABadTemplateInTheMiddle(t *testing.T) {
	w := newWorld(t)
	w.makePool()
	w.makeServices()
	revision := ""
	whole := func(st *v1alpha1.RolloutStatus) bool {
		return st.Revision != revision && st.Phase == string(nodescaler.PhaseComplete) && int(st.Total) == *count && st.Updated == st.Total
	}
	w.rollout("all machines are of one revision", whole)
	requests, silence := w.send()
	fewest := w.watchPods()

	revision = w.pool().Status.Rollout.Revision
	w.change(`{` + template(good) + `}`)
	phases := w.rollout("all machines are of the good template", whole)
	w.follows(phases, nodescaler.PhaseCanary, nodescaler.PhaseProgressing, nodescaler.PhaseComplete)
	w.madeOf(good)
	lastGood := w.pool().Status.Rollout.Revision

	revision = lastGood
	w.change(`{` + template(next) + `, "disruption": {"rollout": {"canary": null}}}`)
	w.rollout("a third of them are of the next template", func(st *v1alpha1.RolloutStatus) bool {
		return st.Revision != revision && st.Phase == string(nodescaler.PhaseProgressing) && int(st.Updated) >= *count/3
	})
	revision = w.pool().Status.Rollout.Revision
	w.change(`{` + template(bad) + `}`)
	phases = w.rollout("all have come back", func(st *v1alpha1.RolloutStatus) bool {
		return st.Revision != revision && st.Phase == string(nodescaler.PhaseRolledBack)
	})
	w.follows(phases, nodescaler.PhaseRollingBack, nodescaler.PhaseRolledBack)
	w.madeOf(good)
	w.says(lastGood)

	silence()
	t.Logf("%s", requests)
	if why := requests.first.Load(); why != nil {
		t.Errorf("%d requests failed, the first with %s", requests.failed.Load(), *why)
	}
	if requests.lateShare() > budget {
		t.Errorf("%.1f %% of the requests were late, and the objective allows %.0f %%", 100*requests.lateShare(), 100*budget)
	}
	for service, ready := range fewest() {
		t.Logf("%s had at least %d pods that were ready", service, ready)
		if ready < replicas-1 {
			t.Errorf("its budget allows one of %d to be away", replicas)
		}
	}
}

// follows wants phases to have come in an order, with others between.
func (w *world) follows(phases []string, want ...nodescaler.RolloutPhase) {
	w.Helper()
	rest := phases
	for _, phase := range want {
		at := slices.Index(rest, string(phase))
		if at < 0 {
			w.Errorf("the phases were %v, want %v in this order", phases, want)
			return
		}
		rest = rest[at+1:]
	}
}

// madeOf waits until there are as many machines as there should be, each a clone of a template.
func (w *world) madeOf(vmid int) {
	w.Helper()
	labtest.Until(w, fmt.Sprintf("all machines are of template %d", vmid), 100*time.Millisecond, func(context.Context) error {
		var others []string
		all := w.vms()
		for _, v := range all {
			if disk := v.Config["scsi0"]; !strings.Contains(disk, fmt.Sprintf("base-%d-", vmid)) {
				others = append(others, disk)
			}
		}
		if len(all) != *count || len(others) > 0 {
			return fmt.Errorf("%d machines, of them others: %v", len(all), others)
		}
		return nil
	})
}

// says wants the pool's condition, its events and the verb to say what happened.
func (w *world) says(lastGood string) {
	w.Helper()
	said := w.plimsoll("rollout", "status", pool)
	w.Logf("plimsoll rollout status %s:\n%s", pool, said)
	for _, want := range []string{string(nodescaler.PhaseRolledBack), lastGood, "failed, and it stops at 2"} {
		if !strings.Contains(said, want) {
			w.Errorf("plimsoll rollout status does not say %q", want)
		}
	}
	for _, c := range w.pool().Status.Conditions {
		if c.Type == v1alpha1.ConditionRolledOut && (c.Status != "False" || c.Reason != nodescaler.RolloutRolledBack) {
			w.Errorf("the condition is %s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	events := w.events()
	for _, want := range []string{nodescaler.RolloutCanary, nodescaler.RolloutComplete, nodescaler.RolloutFailed, nodescaler.RolloutRolledBack} {
		if !events[want] {
			w.Errorf("there is no event %s: %v", want, events)
		}
	}
}
