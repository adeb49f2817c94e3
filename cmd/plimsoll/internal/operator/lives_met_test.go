package operator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
)

// meeting is that a call was made while an event of a kind was recent.
type meeting struct{ event, call string }

// recently is how long an event is taken to be recent.
const recently = 5 * time.Minute

func (w *town) meet(call string, at time.Time) {
	w.meeting.Lock()
	defer w.meeting.Unlock()
	for kind, until := range w.recent {
		if at.Before(until) {
			w.met[meeting{kind, call}]++
		}
	}
}

// begins notes that an event of a kind is recent until then.
func (w *town) begins(kind string, until time.Time) {
	w.meeting.Lock()
	defer w.meeting.Unlock()
	w.recent[kind] = until
}

// kindOfCall is a path without its names.
func kindOfCall(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, p := range parts {
		if i > 0 && (parts[i-1] == "nodes" || parts[i-1] == "qemu" || parts[i-1] == "tasks" || parts[i-1] == "storage" || parts[i-1] == "content") || strings.Contains(p, ":") {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, "/")
}

// everything is what lives are to produce: each kind of action, and each condition of those that
// rest on what a town has.
func everything() (all []string) {
	for _, k := range []nodescaler.Kind{
		nodescaler.Buy, nodescaler.Return, nodescaler.Cordon, nodescaler.Uncordon, nodescaler.Evict, nodescaler.Stash, nodescaler.Wake, nodescaler.Reboot,
	} {
		all = append(all, "action "+string(k))
	}
	all = append(all, "action Resize", "undrained reboot", "proposal followed", "proposal followed through the API")
	for _, c := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionScalingActive, v1alpha1.ConditionScalingLimited, v1alpha1.ConditionMetricsHealthy,
		v1alpha1.ConditionPaused, v1alpha1.ConditionSLOAtRisk, v1alpha1.ConditionCapacityPending,
		v1alpha1.ConditionPodsUnplaced, v1alpha1.ConditionMachinesHeld, v1alpha1.ConditionFallback, v1alpha1.ConditionCapacityHeld,
	} {
		all = append(all, "condition "+c+" True", "condition "+c+" False")
	}
	return all
}

// matrix prints how often each kind of event was recent at each kind of call.
func matrix(met map[meeting]int) string {
	by := map[string][]string{}
	for _, m := range slices.SortedFunc(maps.Keys(met), func(a, b meeting) int {
		return cmp.Or(strings.Compare(a.event, b.event), strings.Compare(a.call, b.call))
	}) {
		by[m.event] = append(by[m.event], fmt.Sprintf("%s %d", m.call, met[m]))
	}
	var out strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(&out, "%s: %s\n", kind, strings.Join(by[kind], ", "))
	}
	return out.String()
}
