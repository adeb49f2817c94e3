package explainverb

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"k8s.io/client-go/dynamic"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/explain"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/steer"
)

// stateQuestion asks for the state of a workload.
type stateQuestion struct {
	kube            connect.Kube
	namespace, name string
	format          *cli.Output
}

// answer reads a WorkloadAutoscaler and explains its status.
func (ask *stateQuestion) answer(ctx context.Context, env *cli.Env) error {
	var a v1alpha1.WorkloadAutoscaler
	err := ask.kube.Ask(ctx, env, func(ctx context.Context, client dynamic.Interface) error {
		o, err := steer.AutoscalerNamed(ctx, client, ask.namespace, ask.name)
		if err != nil {
			return err
		}
		text, err := o.MarshalJSON()
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &a)
	})
	if err != nil {
		return err
	}
	return ask.format.Print(env.Stdout, &a.Status, func(w io.Writer) { fmt.Fprint(w, stateOf(&a)) })
}

// stateOf explains the state of a workload.
func stateOf(a *v1alpha1.WorkloadAutoscaler) *explain.Node {
	s, ref := &a.Status, a.Spec.ScaleTargetRef
	root := explain.Node{Text: fmt.Sprintf("%s/%s · %s %s · policy %s, mode %s", a.Namespace, a.Name, ref.Kind, ref.Name, a.Spec.Policy, a.Spec.Mode)}
	replicas := fmt.Sprintf("%s asked for, %s ready, %s wanted", number32(s.CurrentReplicas), number32(s.ReadyReplicas), number32(s.DesiredReplicas))
	root.Add("replicas", replicas)
	if o := s.SLO; o != nil && a.Spec.SLO != nil {
		root.Add("latency", fmt.Sprintf("%s (objective: %s at most %s)", cmp.Or(o.Observed, "unknown"), a.Spec.SLO.P, a.Spec.SLO.Target))
		if b := o.ErrorBudget; b != nil {
			root.Add("error budget", budget(b))
		}
		root.Add("arrivals", cmp.Or(o.ArrivalsPerSecond, "unknown")+" requests/s")
	}
	if c := s.Cost; c != nil && a.Spec.Cost != nil {
		root.Add("cost", fmt.Sprintf("%s %s (target: %s per %s)", cmp.Or(c.Current, "unknown"), c.Currency, a.Spec.Cost.Target, a.Spec.Cost.Per))
	}
	decided(&root, s.LastDecision)
	conditions := root.Add("conditions", "")
	for _, c := range s.Conditions {
		conditions.Add(c.Type, fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message))
	}
	if len(s.Conditions) == 0 {
		conditions.Text = "none: plimsoll run has not looked at it yet"
	}
	return &root
}

// budget says what is left of an error budget, and how fast it is spent.
func budget(b *v1alpha1.ErrorBudget) string {
	rates := make([]string, len(b.BurnRates))
	for i, r := range b.BurnRates {
		rates[i] = r.Rate + " over " + r.Window
	}
	return fmt.Sprintf("%s of it left of 30 days; spent as many times as fast as it may be: %s", b.Left, strings.Join(rates, ", "))
}

// decided explains the last decision.
func decided(root *explain.Node, d *v1alpha1.ScalingDecision) {
	if d == nil {
		root.Add("last decision", "none yet")
		return
	}
	done := "· not carried out"
	if d.Applied {
		done = "✓ done"
	}
	n := root.Add("last decision", fmt.Sprintf("%s at %s: %d → %d replicas  %s", d.ID, d.Time.UTC().Format("2006-01-02 15:04:05 MST"), d.From, d.To, done))
	for _, r := range d.Reasons {
		n.Add(r.Code, r.Text)
	}
}

func number32(n *int32) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}
