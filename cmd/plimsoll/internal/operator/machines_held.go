package operator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
)

// heldMachine is a machine that nothing takes down, and why.
type heldMachine struct {
	name string
	why  nodescaler.Reason
}

// heldCodes are the reasons that every pool has a series for. Whoever makes machines may have
// others.
var heldCodes = []string{nodescaler.DuplicateNode, nodescaler.NodeContradicts, nodescaler.LocalVolume}

// wanted reports whether a machine is held because its data is wanted. No action is needed.
func wanted(code string) bool { return code == nodescaler.LocalVolume }

// fixes are what to do about a machine that is held.
var fixes = map[string]string{
	nodescaler.NodeContradicts: "delete the Node object that is wrong: the kubelet of one that runs makes it anew",
	nodescaler.LocalVolume:     "delete the claim, or annotate it plimsoll.dev/safe-to-lose=true",
}

func (h *heldMachine) text() string {
	text := h.name + ": " + h.why.Text
	if fix := fixes[h.why.Code]; fix != "" && !strings.Contains(text, "delete") {
		text += "; " + fix
	}
	return text
}

// heldOf are the pool's machines that are held: first those that need an action, and of these by
// name.
func (c *counted) heldOf(pool string) []heldMachine {
	var all []heldMachine
	for i := range c.state.Machines {
		m := &c.state.Machines[i]
		if why, held := c.held[m.Name]; held && m.Pool == pool {
			all = append(all, heldMachine{m.Name, why})
		}
	}
	rank := func(h heldMachine) int {
		if wanted(h.why.Code) {
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b heldMachine) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.name, b.name))
	})
	return all
}

// machinesHeld states which of the pool's machines are held.
func (c conditions) machinesHeld(held []heldMachine) {
	kind := v1alpha1.ConditionMachinesHeld
	if len(held) == 0 {
		c.set(kind, metav1.ConditionFalse, reasonNoneHeld, "nothing speaks against taking its machines down")
		return
	}
	texts := make([]string, len(held))
	for i := range held {
		texts[i] = held[i].text()
	}
	c.set(kind, metav1.ConditionTrue, held[0].why.Code, "not emptied, stopped or destroyed: %s", firstFew(texts))
}

// firstFew joins the first texts, and says how many more there are.
func firstFew(texts []string) string {
	const named = 5
	if more := len(texts) - named; more > 0 {
		texts = append(texts[:named:named], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// heldEvents warn of each machine that needs an action.
func heldEvents(held []heldMachine) []kube.Event {
	var all []kube.Event
	for i := range held {
		if h := &held[i]; !wanted(h.why.Code) {
			all = append(all, kube.Event{
				About: v1alpha1.ConditionMachinesHeld + " " + h.name, Key: h.why.String(), Warning: true, Reason: h.why.Code, Action: "Keep",
				Note: h.text(),
			})
		}
	}
	return all
}
