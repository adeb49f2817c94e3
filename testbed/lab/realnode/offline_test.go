//go:build guest

package realnode

import (
	"slices"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// A machine that reaches no server never joins. Plimsoll says what its agent shows, deletes it and
// orders another.
func TestAMachineWithoutANetworkIsReplaced(t *testing.T) {
	t.Log("by emulation this takes eight minutes")
	w := newWorld(t, site{offline: true, pool: func(p *settings.Pool) { p.JoinTimeout = nodescaler.Duration(6 * time.Minute) }})
	w.create(service)
	w.until("a machine was cloned", time.Minute, func() bool { return len(w.vms()) == 1 })
	id := w.vms()[0].ID
	w.until("its agent answers", patience, func() bool { return w.answers(id) })
	w.until("kubeadm tries to join", patience, func() bool { _, code := w.inside(id, "pgrep -f 'kubeadm [j]oin'"); return code == 0 })
	out, _ := w.inside(id, "ip -brief address; ip route; tail -n 5 /var/log/cloud-init-output.log")
	w.Logf("inside:\n%s", out)
	w.until("it is reported, with what its agent shows", patience, func() bool {
		return w.reports(pvecode.MachineFailed, pvecode.JoinTimeout) && w.reports(pvecode.MachineFailed, "agent: interfaces")
	})
	w.until("it is gone", patience, func() bool { return !slices.Contains(w.ids(), id) })
	w.until("another is cloned", patience, func() bool { return len(w.vms()) == 1 })
	if len(w.nodes()) > 0 {
		t.Errorf("there are nodes: %v", w.nodes())
	}
	for _, e := range w.events() {
		w.Logf("%s %s: %s", e.Regarding.Kind, e.Reason, e.Note)
	}
}

func (w *world) ids() (all []int) {
	for _, vm := range w.vms() {
		all = append(all, vm.ID)
	}
	return all
}

func (w *world) events() []eventsv1.Event {
	return must.Get(w.client.EventsV1().Events("").List(w.Context(), metav1.ListOptions{}))(w).Items
}

// reports reports whether there is an event with a reason that says something.
func (w *world) reports(reason, text string) bool {
	return slices.ContainsFunc(w.events(), func(e eventsv1.Event) bool { return e.Reason == reason && strings.Contains(e.Note, text) })
}
