package operator

import (
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/notify"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
)

// ears hear what people are told.
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
	h.findings["shop/web"] = []kube.Finding{{Code: "ForeignWrites", Text: "somebody else sets its replicas"}}
	h.begin().steps(10)
	h.expect("heard of the conflict", []string{"shop,nobody Firing web Conflicted ForeignWrites"}, e.heard)
	warned := slices.ContainsFunc(h.told, func(s string) bool {
		return strings.Contains(s, `spec.notifications[1].name: must be a receiver in the configuration of plimsoll run, was "nobody"`)
	})
	h.expect("warned of the receiver", true, warned)

	// Another process leads: it does not tell again what the status says already.
	h.begin().steps(3)
	h.expect("heard again", 1, len(e.heard))

	h.findings = nil
	h.cores = 1
	h.steps(40)
	h.expect("heard then", []string{"shop,nobody Scaled web  SuccessfulRescale", "shop,nobody Resolved web Conflicted NoConflict"}, e.heard[1:])
}
