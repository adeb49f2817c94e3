package steer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/nodescaler"
)

// NewRollout returns the verb rollout.
func NewRollout(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Watch, pause or undo the replacement of a pool's machines",
		Long: `A pool with disruption.drift Replace replaces its machines once what they are made from has changed, such as its
template. These verbs say how far that is, pause it, go on with it, and go back to the last revision that was rolled out
whole. They write the VMPool's spec.disruption.rollout, which kubectl can write as well.`,
	}
	cmd.AddCommand(
		rolloutVerb(env, "status", "Show how far the rollout of a pool is", nil),
		rolloutVerb(env, "pause", "Replace no further machine of a pool", pauseRollout),
		rolloutVerb(env, "resume", "Go on with a rollout that is paused, or try anew what has stopped or was rolled back", resumeRollout),
		rolloutVerb(env, "undo", "Make a pool's machines by the last good revision, until its template changes", undoRollout),
	)
	return cli.VerbsOnly(cmd)
}

// rolloutChange is what a verb writes on a pool, or why it cannot.
type rolloutChange func(env *cli.Env, p *v1alpha1.VMPool) (map[string]any, error)

func rolloutVerb(env *cli.Env, name, short string, change rolloutChange) *cobra.Command {
	var kube connect.Kube
	var format cli.Output
	cmd := &cobra.Command{
		Use: name + " POOL", Short: short, Example: "  plimsoll rollout " + name + " workers",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.SeeHelp(cmd, cli.Misused("pool: one must be given, was given %d", len(args)))
			}
			if _, err := cli.ParseName(args[0]); err != nil {
				return cli.SeeHelp(cmd, cli.Misused("pool: %v", err))
			}
			var left *v1alpha1.VMPool
			err := kube.Ask(cmd.Context(), env, func(ctx context.Context, client dynamic.Interface) (err error) {
				left, err = roll(ctx, env, client, args[0], change)
				return err
			})
			if err != nil {
				return err
			}
			shown := shownRollout(left)
			return format.Print(env.Stdout, shown, func(w io.Writer) { rolloutTable(w, &shown) })
		},
	}
	kube.Add(cmd)
	cli.AddOutput(cmd, &format)
	return cmd
}

// roll reads a pool, changes it, and returns it as it is then.
func roll(ctx context.Context, env *cli.Env, client dynamic.Interface, name string, change rolloutChange) (*v1alpha1.VMPool, error) {
	resource := at(client, v1alpha1.KindVMPool, "")
	o, err := resource.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !unknownKind(err) {
		return nil, cli.WithHint("kubectl get vmpools lists them", fmt.Errorf("there is no VMPool %s", name))
	}
	if err != nil {
		return nil, answered(err)
	}
	p, err := objectOf[v1alpha1.VMPool](o)
	if err != nil {
		return nil, err
	}
	if d := p.Spec.Disruption; d == nil || d.Drift != string(nodescaler.DriftReplace) {
		return nil, cli.WithHint("set spec.disruption.drift to Replace", fmt.Errorf("VMPool %s has no rollout: it keeps machines that drift", name))
	}
	if change == nil {
		return p, nil
	}
	to, err := change(env, p)
	if err != nil {
		return nil, err
	}
	key := ""
	if _, resumes := to["metadata"]; resumes {
		key = v1alpha1.AnnotationRolloutResumed
	}
	after, err := patch(ctx, resource, name, "plimsoll-rollout", key, to)
	if err != nil {
		return nil, answered(err)
	}
	return objectOf[v1alpha1.VMPool](after)
}

// objectOf reads an object of ours.
func objectOf[T any](o *unstructured.Unstructured) (*T, error) {
	of := new(T)
	text, err := o.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(text, of)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return of, nil
}

// rolloutKeys is a change of spec.disruption.rollout.
func rolloutKeys(keys map[string]any) map[string]any {
	return map[string]any{"spec": map[string]any{"disruption": map[string]any{"rollout": keys}}}
}

func pauseRollout(*cli.Env, *v1alpha1.VMPool) (map[string]any, error) {
	return rolloutKeys(map[string]any{"paused": true}), nil
}

// resumeRollout goes on with what was paused. If that is the way back, it does not try anew what
// failed.
func resumeRollout(env *cli.Env, p *v1alpha1.VMPool) (map[string]any, error) {
	by, st := p.Spec.Disruption.Rollout, p.Status.Rollout
	if by != nil && by.Paused && st != nil && st.Phase == string(nodescaler.PhaseRollingBack) {
		return rolloutKeys(map[string]any{"paused": nil}), nil
	}
	to := rolloutKeys(map[string]any{"paused": nil, "undo": nil})
	to["metadata"] = map[string]any{"annotations": map[string]any{v1alpha1.AnnotationRolloutResumed: env.Now().UTC().Format(time.RFC3339)}}
	return to, nil
}

// undoRollout names the revision that is not to be, so that it has no effect on one that follows.
// Of a rollout that was paused, it goes back.
func undoRollout(_ *cli.Env, p *v1alpha1.VMPool) (map[string]any, error) {
	seen := int64(0)
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionRolledOut); c != nil {
		seen = c.ObservedGeneration
	}
	switch st := p.Status.Rollout; {
	case st == nil || st.Revision == "":
		return nil, fmt.Errorf("VMPool %s says nothing of its rollout yet", p.Name)
	case seen != p.Generation:
		return nil, cli.WithHint("run it again after the controller's next step; if it takes none, plimsoll is not running or leads no pools",
			fmt.Errorf("VMPool %s: its rollout must be of generation %d, its present one, was of %d: revision %s may not be the one to undo", p.Name, p.Generation, seen, st.Revision))
	case st.LastGood == nil:
		return nil, fmt.Errorf("VMPool %s has no earlier revision to go back to: none was rolled out whole", p.Name)
	case st.LastGood.Revision == st.Revision:
		return nil, fmt.Errorf("VMPool %s has no earlier revision to go back to: %s is the last that was rolled out whole", p.Name, st.Revision)
	default:
		return rolloutKeys(map[string]any{"undo": st.Revision, "paused": nil}), nil
	}
}

// rolloutShown is how far the rollout of a pool is.
type rolloutShown struct {
	Pool     string   `json:"pool"`
	Revision string   `json:"revision,omitempty"`
	Phase    string   `json:"phase,omitempty"`
	Updated  int32    `json:"updated"`
	Total    int32    `json:"total"`
	Since    string   `json:"since,omitempty"`
	LastGood string   `json:"lastGood,omitempty"`
	Paused   bool     `json:"paused,omitempty"`
	Undo     string   `json:"undo,omitempty"`
	Failed   []string `json:"failed,omitempty"`
	Message  string   `json:"message,omitempty"`
	// Obstacle is why the pool is not Ready.
	Obstacle string `json:"obstacle,omitempty"`
}

func shownRollout(p *v1alpha1.VMPool) rolloutShown {
	shown := rolloutShown{Pool: p.Name}
	if by := p.Spec.Disruption.Rollout; by != nil {
		shown.Paused, shown.Undo = by.Paused, by.Undo
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Status == metav1.ConditionFalse {
		shown.Obstacle = c.Reason + ": " + c.Message
	}
	st := p.Status.Rollout
	if st == nil {
		return shown
	}
	shown.Revision, shown.Phase, shown.Updated, shown.Total, shown.Failed, shown.Message = st.Revision, st.Phase, st.Updated, st.Total, st.Failed, st.Message
	if !st.Since.IsZero() {
		shown.Since = st.Since.UTC().Format(time.RFC3339)
	}
	if st.LastGood != nil {
		shown.LastGood = st.LastGood.Revision
	}
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionRolledOut)
	if c != nil && c.ObservedGeneration != p.Generation {
		shown.Message = fmt.Sprintf("the controller has not decided on generation %d of the pool yet; this is the rollout of generation %d", p.Generation, c.ObservedGeneration)
		if shown.Phase == string(nodescaler.PhaseComplete) {
			shown.Phase = ""
		}
	}
	return shown
}

func rolloutTable(w io.Writer, r *rolloutShown) {
	var asked []string
	if r.Undo != "" {
		asked = append(asked, "undo "+r.Undo)
	}
	if r.Paused {
		asked = append(asked, "pause")
	}
	fmt.Fprintf(w, "POOL\tREVISION\tPHASE\tUPDATED\tSINCE\tLAST GOOD\tASKED\n")
	fmt.Fprintf(w, "%s\t%s\t%s\t%d/%d\t%s\t%s\t%s\n", r.Pool, cmp.Or(r.Revision, "-"), cmp.Or(r.Phase, "-"), r.Updated, r.Total, cmp.Or(r.Since, "-"), cmp.Or(r.LastGood, "-"), cmp.Or(strings.Join(asked, ", "), "-"))
	if r.Message != "" {
		fmt.Fprintf(w, "\n%s\n", r.Message)
	}
	if r.Obstacle != "" {
		fmt.Fprintf(w, "\nthe pool is not ready: %s\n", r.Obstacle)
	}
}
