// Package steer is how people steer what runs in a cluster, by verbs and by the page: they approve
// and reject changes, pause and resume, and take rollouts on or back.
package steer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/plimsoll/plimsoll/api/printable"
	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
)

var proposalResource = v1alpha1.GroupVersion.WithResource("scalingproposals")

// NewApprove returns the verb approve.
func NewApprove(env *cli.Env) *cobra.Command {
	cmd := answerVerb(env, v1alpha1.Approved)
	cmd.Use, cmd.Short = "approve [NAME]", "List what waits for approval, or approve one"
	cmd.Long = `Pools and workloads in mode Approve propose what they would do as ScalingProposals. Without a name, those that wait for
an answer are listed: what would be done, why, what it adds to the price an hour, and until when it can be approved.
With a name, that one is approved, and done by the next step if it still follows from what is observed.

An answer is final. kubectl can write it, too: spec.approval of the ScalingProposal. RBAC says who may.`
	cmd.Example = "  plimsoll approve\n  plimsoll approve workers-order-3f9a1c02d4e5b6a7\n  plimsoll approve web-grow-0a1b2c3d4e5f6071 -n shop --note 'sale begins at 9'"
	return cmd
}

// NewReject returns the verb reject.
func NewReject(env *cli.Env) *cobra.Command {
	cmd := answerVerb(env, v1alpha1.Rejected)
	cmd.Use, cmd.Short = "reject NAME", "Reject a change that waits for approval"
	cmd.Long = "Reject a ScalingProposal. The same is not proposed again until the proposal's time is over. plimsoll approve lists what\nwaits for an answer."
	cmd.Example = "  plimsoll reject workers-end-3f9a1c02d4e5b6a7 --note 'not before the weekend'"
	return cmd
}

// answer is what a person says of a proposal.
type answer struct {
	namespace string // empty is any
	name      string
	approval  v1alpha1.Approval
}

func answerVerb(env *cli.Env, decision v1alpha1.ApprovalDecision) *cobra.Command {
	var kube connect.Kube
	var format cli.Output
	say := answer{approval: v1alpha1.Approval{Decision: decision}}
	cmd := &cobra.Command{
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 0 && decision == v1alpha1.Rejected {
				return cli.SeeHelp(cmd, cli.Misused("proposal: one name must be given, was given %d", len(args)))
			}
			if len(args) == 1 {
				if _, err := cli.ParseName(args[0]); err != nil {
					return cli.SeeHelp(cmd, cli.Misused("proposal: %v", err))
				}
				say.name = args[0]
			}
			say.approval.By = cmp.Or(env.Getenv("USER"), "plimsoll")
			var shown []v1alpha1.ScalingProposal
			err := kube.Ask(cmd.Context(), env, func(ctx context.Context, client dynamic.Interface) (err error) {
				shown, err = say.give(ctx, client, env.Now())
				return err
			})
			if err != nil {
				return err
			}
			return format.Print(env.Stdout, shown, func(w io.Writer) { proposalTable(w, shown) })
		},
	}
	kube.Add(cmd)
	cli.AddShortFlag(cmd, &say.namespace, cli.ParseNamespace, "namespace", "n", "namespace", "", "the proposal's namespace (default: every one)")
	cmd.Flags().StringVar(&say.approval.Note, "note", "", "a `text` for people who wonder why")
	cli.AddOutput(cmd, &format)
	return cmd
}

// give gives the answer, and returns the proposal as it is then; or without a name all that wait.
func (a *answer) give(ctx context.Context, client dynamic.Interface, now time.Time) ([]v1alpha1.ScalingProposal, error) {
	all, err := a.proposals(ctx, client)
	if err != nil {
		return nil, err
	}
	if a.name == "" {
		return slices.DeleteFunc(all, func(p v1alpha1.ScalingProposal) bool { return !waits(&p, now) }), nil
	}
	all = slices.DeleteFunc(all, func(p v1alpha1.ScalingProposal) bool { return p.Name != a.name })
	switch len(all) {
	case 0:
		if a.namespace != "" {
			return nil, cli.WithHint("plimsoll approve lists those of every namespace that wait for an answer", fmt.Errorf("there is no ScalingProposal %s in %s", a.name, a.namespace))
		}
		return nil, cli.WithHint("plimsoll approve lists those that wait for an answer", fmt.Errorf("there is no ScalingProposal %s", a.name))
	case 1:
	default: // whoever may write in a namespace can make one of any name there
		return nil, cli.WithHint("name its namespace with --namespace", fmt.Errorf("there are %d ScalingProposals %s, one of them in %s and one in %s", len(all), a.name, all[0].Namespace, all[1].Namespace))
	}
	left, err := a.to(ctx, client, &all[0], now)
	if err != nil {
		return nil, err
	}
	return []v1alpha1.ScalingProposal{*left}, nil
}

// to gives the answer to a proposal, and returns it as it is then. If another client wrote it
// meanwhile, it is read again: that may be another answer.
func (a *answer) to(ctx context.Context, client dynamic.Interface, p *v1alpha1.ScalingProposal, now time.Time) (*v1alpha1.ScalingProposal, error) {
	const tries = 3
	var conflict error
	for range tries {
		if err := refused(p, now); err != nil {
			return nil, err
		}
		left, err := a.write(ctx, client, p)
		if !apierrors.IsConflict(err) {
			return left, answered(err)
		}
		conflict = err
		if p, err = readProposal(ctx, client, p.Namespace, p.Name); err != nil {
			return nil, err
		}
	}
	return nil, answered(conflict)
}

func readProposal(ctx context.Context, client dynamic.Interface, namespace, name string) (*v1alpha1.ScalingProposal, error) {
	o, err := client.Resource(proposalResource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, answered(err)
	}
	return objectOf[v1alpha1.ScalingProposal](o)
}

// waits reports whether a proposal waits for an answer.
func waits(p *v1alpha1.ScalingProposal, now time.Time) bool {
	return p.Status.Phase == string(approval.ProposalOpen) && p.Spec.Approval == nil && now.Before(p.Spec.Proposed.Until.Time)
}

// noAnswer is why a proposal takes no answer.
type noAnswer struct{ error }

// refused is why no answer can be given, or nil.
func refused(p *v1alpha1.ScalingProposal, now time.Time) error {
	switch said := p.Spec.Approval; {
	case said != nil:
		return noAnswer{fmt.Errorf("ScalingProposal %s is already %s, by %s", p.Name, said.Decision, printable.Text(cmp.Or(said.By, "a person who is not named")))}
	case p.Status.Phase != string(approval.ProposalOpen):
		return noAnswer{fmt.Errorf("ScalingProposal %s is %s: %s", p.Name, cmp.Or(printable.Text(p.Status.Phase), "not of Plimsoll's making"), printable.Text(cmp.Or(p.Status.Message, "nothing is done by it")))}
	case !now.Before(p.Spec.Proposed.Until.Time):
		return noAnswer{fmt.Errorf("ScalingProposal %s expired at %s", p.Name, p.Spec.Proposed.Until.UTC().Format(time.RFC3339))}
	}
	return nil
}

// write writes the answer on the proposal as it was read.
func (a *answer) write(ctx context.Context, client dynamic.Interface, p *v1alpha1.ScalingProposal) (*v1alpha1.ScalingProposal, error) {
	text, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID, "resourceVersion": p.ResourceVersion}, "spec": map[string]any{"approval": a.approval},
	})
	if err != nil {
		return nil, err
	}
	o, err := client.Resource(proposalResource).Namespace(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, text, metav1.PatchOptions{FieldManager: "plimsoll-approve"})
	if err != nil {
		return nil, err
	}
	return objectOf[v1alpha1.ScalingProposal](o)
}

func (a *answer) proposals(ctx context.Context, client dynamic.Interface) (all []v1alpha1.ScalingProposal, err error) {
	list, err := client.Resource(proposalResource).Namespace(a.namespace).List(ctx, metav1.ListOptions{})
	switch {
	case unknownKind(err):
		return nil, cli.WithHint("plimsoll manifests crds | kubectl apply --server-side -f - installs it", errors.New("the cluster does not know the kind ScalingProposal"))
	case apierrors.IsForbidden(err) && a.namespace == "":
		return nil, cli.WithHint("name the namespace of the proposal with --namespace", answered(err))
	case err != nil:
		return nil, answered(err)
	}
	for i := range list.Items {
		p, err := objectOf[v1alpha1.ScalingProposal](&list.Items[i])
		if err != nil {
			return nil, err
		}
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b v1alpha1.ScalingProposal) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

func proposalTable(w io.Writer, all []v1alpha1.ScalingProposal) {
	if len(all) == 0 {
		fmt.Fprintln(w, "nothing waits for an answer")
		return
	}
	fmt.Fprintf(w, "NAMESPACE\tNAME\tWHAT\tPRICE/H\tUNTIL\tANSWER\tWHY\n")
	for i := range all {
		p := &all[i].Spec.Proposed
		said, why := "-", "-"
		if a := all[i].Spec.Approval; a != nil {
			said = string(a.Decision) + " by " + cmp.Or(a.By, "-")
		}
		if len(p.Why) > 0 {
			why = p.Why[0].Text
		}
		for _, column := range []string{all[i].Namespace, all[i].Name, p.What, strings.TrimSpace(p.PricePerHour + " " + p.Currency), p.Until.UTC().Format(time.RFC3339), said} {
			fmt.Fprintf(w, "%s\t", printable.Text(column))
		}
		fmt.Fprintln(w, printable.Text(why))
	}
}
