package operator

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// objects are what the API server holds at the beginning of a step.
type objects struct {
	autoscalers []*v1alpha1.WorkloadAutoscaler
	pools       []*v1alpha1.VMPool
	books       []*v1alpha1.PriceBook
	targets     []kube.Target
	requests    map[string]pricing.Resources // of a pod, by workload
	readings    *readings                    // of earlier steps
}

// desk is what a step is to be made by: every object, what it means, and why it is left alone.
type desk struct {
	now       time.Time
	workloads []*workload
	pools     []*pool
	books     []*book
	prices    *pricing.Book // nil is the default book
	limit     pricing.Rate  // what all machines may cost an hour; 0 is no limit
	blind     string        // why prices are not known; empty if they are
}

// workload is a WorkloadAutoscaler.
type workload struct {
	object  *v1alpha1.WorkloadAutoscaler
	name    string // namespace/name
	words   podscaler.Workload
	policy  podpolicy.Spec
	signals signals.Spec
	invalid error
	target  kube.Target
	pause   pause
	held    *nodescaler.Reason // why nothing is done to it
	sizes   *rightsize.Wants   // of its containers, as its specification has it; nil is nothing
	handOff kube.HandOffBy     // by what replicas that are expected are made known
	// findings are what was amiss with its signals when they were last measured.
	findings []podscaler.Reason
	// warnings are what is allowed and most likely not meant.
	warnings []podscaler.Reason
}

// pool is a VMPool.
type pool struct {
	object   *v1alpha1.VMPool
	pve      settings.Pool
	words    nodescaler.Pool
	invalid  error
	conflict error // with another pool
	pause    pause
	held     *nodescaler.Reason
	offered  bool                // to cluster-autoscaler
	rolling  *nodescaler.Rolling // nil of a pool that does not replace drifted machines
}

// ours reports whether Plimsoll decides how many machines the pool has.
func (p *pool) ours() bool {
	return p.usable() && p.object.Spec.ScaledBy != v1alpha1.ScaledByClusterAutoscaler
}

func (p *pool) usable() bool { return p.invalid == nil && p.conflict == nil }

// book is a PriceBook.
type book struct {
	object  *v1alpha1.PriceBook
	prices  *pricing.Book
	chosen  bool
	invalid error
}

func because(code, format string, args ...any) *nodescaler.Reason {
	r := podscaler.Because(code, format, args...)
	return &r
}

// oneLine puts all faults of an object into a line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// workloadStep is a workload's part of a step, or nil if it has none.
func workloadStep(s *loop.Step, name string) *loop.WorkloadStep {
	i := slices.IndexFunc(s.Workloads, func(w loop.WorkloadStep) bool { return w.Workload == name })
	if i < 0 {
		return nil
	}
	return &s.Workloads[i]
}

func isTrue(all []metav1.Condition, kind string) bool {
	return slices.ContainsFunc(all, func(c metav1.Condition) bool { return c.Type == kind && c.Status == metav1.ConditionTrue })
}

// subject is what an action is done to.
func subject(a *nodescaler.Action) string {
	if a.Kind == nodescaler.Buy && a.Shape != nil {
		return strings.TrimSpace(a.Shape.Name + " " + nodescaler.MachineName(a.Pool, a.Order))
	}
	return cmp.Or(a.Pod, a.Machine, a.Node)
}

func kindOf(o client.Object) string {
	switch o.(type) {
	case *v1alpha1.WorkloadAutoscaler:
		return v1alpha1.KindWorkloadAutoscaler
	case *v1alpha1.VMPool:
		return v1alpha1.KindVMPool
	}
	return v1alpha1.KindPriceBook
}

// planned reports whether the step's plan says what has no place. The first steps, and those
// without a view of the machines, plan nothing.
func planned(s *loop.Step) bool {
	p := &s.Plan
	return len(p.Unplaced)+len(p.Reasons)+len(p.Actions) > 0 || !p.LookAgain.IsZero()
}
