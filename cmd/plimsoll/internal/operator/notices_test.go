package operator

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/notify"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/podscaler"
)

// ears hear what people are notified of.
type ears struct{ heard []string }

func (e *ears) Known(receiver string) bool { return receiver == "shop" }

func (e *ears) Tell(receivers []string, n notify.Notice) {
	e.heard = append(e.heard, strings.Join(receivers, ",")+" "+string(n.Status)+" "+n.Name+" "+n.Condition+" "+n.Reason)
}

func TestPeopleAreToldOnceAndNotAtEveryStep(t *testing.T) {
	h := newHouse(t)
	e := &ears{}
	h.cfg.Notify = e
	h.node("workers", "a")
	h.web(active + "  notifications: [{name: shop}, {name: nobody}]\n")
	h.findings["shop/web"] = []kube.Finding{{Code: "ForeignWrites", Text: "another client sets its replicas"}}
	h.begin().steps(10)
	h.expect("heard of the conflict", []string{"shop,nobody Firing web Conflicted ForeignWrites"}, e.heard)
	warned := slices.ContainsFunc(h.told, func(s string) bool {
		return strings.Contains(s, `spec.notifications[1].name: must be a receiver in the configuration of plimsoll run, was "nobody"`)
	})
	h.expect("warned of the receiver", true, warned)

	// Another process leads: it does not repeat what the status says already.
	h.begin().steps(3)
	h.expect("heard again", 1, len(e.heard))

	h.findings = nil
	h.cores = 1
	h.steps(40)
	h.expect("heard then", []string{"shop,nobody Scaled web  SuccessfulRescale", "shop,nobody Resolved web Conflicted NoConflict"}, e.heard[1:])
}

// A condition of what is asked for no more goes, and is over; what cannot be measured is not over.
func TestConditionsAreOverWhenNobodyAsksAndNotWhenNobodyKnows(t *testing.T) {
	h := newHouse(t)
	e := &ears{}
	h.cfg.Notify = e
	h.node("workers", "a")
	web := h.web(active + "  fallback: {after: 1m, behavior: Static, replicas: 4}\n  slo: {p: 95th, target: 300ms, window: 5m}\n")
	h.cores, h.latency = math.NaN(), podscaler.Known(0.4)
	h.begin().steps(20)
	h.expect("heard at first", true, len(e.heard) == 3 && strings.HasSuffix(e.heard[2], "Firing web Fallback Fallback"))
	h.expect("beside it", true, slices.Contains(e.heard, " Firing web SLOAtRisk AboveTarget"))
	h.latency = podscaler.Reading{}
	h.steps(40)
	h.expect("heard while it is not known", 3, len(e.heard))
	h.latency = podscaler.Known(0.2)
	web.Spec.Fallback = nil
	h.steps(40)
	h.expect("said", "", said(web.Status.Conditions)["Fallback"])
	h.expect("heard then", []string{" Resolved web Fallback NotAsked", " Resolved web SLOAtRisk WithinTarget"}, e.heard[3:])
}

// Whoever leads anew counts steps anew: what an earlier one did at a step of the number is not done
// again.
func TestChangesAreNotToldAgainByTheStepsOfAnother(t *testing.T) {
	h := newHouse(t)
	e := &ears{}
	h.cfg.Notify = e
	h.node("workers", "a")
	h.node("workers", "b")
	h.web(active + "  notifications: [{name: shop}]\n")
	h.cores = 1
	h.begin().steps(10)
	told := len(e.heard)
	h.expect("heard", "shop Scaled web  SuccessfulRescale", e.heard[told-1])
	h.cores = 0.5
	h.begin().steps(10)
	h.expect("heard again", told, len(e.heard))
}

// vanishing is a cluster in which autoscalers are deleted between the reads of a step.
type vanishing struct{ cluster }

func (vanishing) Targets(context.Context) ([]kube.Target, error) { return nil, nil }

// The target of what was just deleted is not read, which is no trouble that people hear of.
func TestAutoscalersThatAreDeletedWhileTheyAreReadAreNoTrouble(t *testing.T) {
	h := newHouse(t)
	e := &ears{}
	h.cfg.Notify = e
	h.node("workers", "a")
	h.web(active)
	h.cores = 0.5 // as it should be
	h.begin().steps(2)
	h.term.Cluster = vanishing{cluster{h}}
	h.steps(1)
	h.expect("heard", []string{}, e.heard)
}
