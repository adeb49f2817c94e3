package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/plimsoll/plimsoll/api/printable"
	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// approvals are ScalingProposals, by which people are asked.
type approvals struct{ *Cluster }

// Approvals is where people are asked.
func (c *Cluster) Approvals() loop.Approvals { return approvals{c} }

func (a approvals) at(namespace string) dynamic.ResourceInterface {
	return a.objects.Resource(v1alpha1.GroupVersion.WithResource(copies.Kinds[copies.Proposals].Resource)).Namespace(namespace)
}

// all are the proposals that were observed. Those of pools count in our own namespace alone.
func (a approvals) all() (all []approval.Proposal) {
	for _, o := range copies.Sorted[*v1alpha1.ScalingProposal](a.copies, copies.Proposals) {
		if o.DeletionTimestamp != nil {
			continue
		}
		p := approval.Proposal{
			ProposalRef: approval.ProposalRef{Namespace: o.Namespace, Name: o.Name, UID: string(o.UID), Version: o.ResourceVersion},
			Change:      changeOf(o), Digest: o.Status.Digest, Phase: approval.ProposalPhase(o.Status.Phase),
		}
		if p.Kind == v1alpha1.KindVMPool && o.Namespace != a.cfg.Namespace {
			p.Digest = ""
		}
		if said := o.Spec.Approval; said != nil {
			p.Answer = &approval.Answer{Approved: said.Decision == v1alpha1.Approved, By: said.By}
		}
		all = append(all, p)
	}
	return all
}

// changeOf is what is proposed. What cannot be read has another digest.
func changeOf(o *v1alpha1.ScalingProposal) approval.Change {
	p := &o.Spec.Proposed
	c := approval.Change{
		Kind: p.Kind, Object: p.Object, Does: approval.Does(p.Does), Subject: p.Subject, Count: int(p.Count), From: int(p.From), To: int(p.To),
		What: p.What, Unit: p.Currency, Made: p.Made.UTC(), Until: p.Until.UTC(),
	}
	if p.Kind == v1alpha1.KindWorkloadAutoscaler {
		c.Object = o.Namespace + "/" + p.Object
	}
	var rate pricing.Rate
	if rate.UnmarshalText([]byte(p.PricePerHour)) == nil {
		c.Price = rate
	}
	for _, r := range p.Why {
		c.Why = append(c.Why, podscaler.Reason{Code: r.Code, Text: r.Text})
	}
	return c
}

// proposal is a change as an object.
func (a approvals) proposal(c *approval.Change) (*v1alpha1.ScalingProposal, error) {
	owner := metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: c.Kind}
	o := &v1alpha1.ScalingProposal{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindScalingProposal},
		ObjectMeta: metav1.ObjectMeta{Name: c.ProposalName(), Namespace: a.cfg.Namespace},
	}
	p := &o.Spec.Proposed
	*p = v1alpha1.ProposedChange{
		Kind: c.Kind, Object: c.Object, Does: string(c.Does), Subject: c.Subject, Count: int32(c.Count), From: int32(c.From), To: int32(c.To), //nolint:gosec // what the API took before
		What: c.What, PricePerHour: c.Price.String(), Currency: c.Unit, Made: metav1.NewTime(c.Made), Until: metav1.NewTime(c.Until),
	}
	for _, r := range c.Why {
		p.Why = append(p.Why, v1alpha1.Reason{Code: r.Code, Text: r.Text})
	}
	if c.Kind == v1alpha1.KindVMPool {
		pool, there := copies.One[*v1alpha1.VMPool](a.copies, copies.VMPools, c.Object)
		if !there {
			return nil, fmt.Errorf("there is no VMPool %s", c.Object)
		}
		owner.Name, owner.UID = pool.Name, pool.UID
	} else {
		o.Namespace, p.Object, _ = strings.Cut(c.Object, "/")
		wla, there := copies.One[*v1alpha1.WorkloadAutoscaler](a.copies, copies.Autoscalers, c.Object)
		if !there {
			return nil, fmt.Errorf("there is no WorkloadAutoscaler %s", c.Object)
		}
		owner.Name, owner.UID = wla.Name, wla.UID
	}
	o.OwnerReferences = []metav1.OwnerReference{owner}
	return o, nil
}

// Propose makes a proposal, and writes its digest where only we can.
func (a approvals) Propose(ctx context.Context, c *approval.Change) error {
	what := "propose " + c.ProposalName()
	o, err := a.proposal(c)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	keys, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	delete(keys, "status")
	return a.write(ctx, Active, what, func(ctx context.Context) error {
		made, err := a.at(o.Namespace).Create(ctx, &unstructured.Unstructured{Object: keys}, metav1.CreateOptions{FieldManager: kept.FieldManager})
		if err != nil {
			return err
		}
		ref := approval.ProposalRef{Namespace: o.Namespace, Name: o.Name, UID: string(made.GetUID()), Version: made.GetResourceVersion()}
		return a.state(ctx, &ref, map[string]any{"digest": c.Digest(), "phase": approval.ProposalOpen})
	})
}

// Claim notes that an approval is followed.
func (a approvals) Claim(ctx context.Context, p *approval.ProposalRef, by string) error {
	return a.write(ctx, Active, "claim the approval "+p.Name, func(ctx context.Context) error {
		return a.state(ctx, p, map[string]any{"phase": approval.ProposalFollowed, "message": "it is carried out by decision " + by})
	})
}

// Close notes that nothing is done by a proposal.
func (a approvals) Close(ctx context.Context, c *approval.Closed) error {
	return a.write(ctx, Active, "close "+c.Name, func(ctx context.Context) error {
		return unlessGone(a.state(ctx, &c.ProposalRef, map[string]any{"phase": c.Phase, "message": c.Why}))
	})
}

// state writes keys of the status of a proposal, if it is as it was observed.
func (a approvals) state(ctx context.Context, p *approval.ProposalRef, keys map[string]any) error {
	keys["since"] = metav1.NewTime(time.Now().Truncate(time.Second))
	status, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID, "resourceVersion": p.Version}, "status": json.RawMessage(printable.JSON(status)),
	})
	if err != nil {
		return err
	}
	_, err = a.at(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: kept.FieldManager}, "status")
	return err
}

// Remove deletes a proposal.
func (a approvals) Remove(ctx context.Context, p *approval.ProposalRef) error {
	return a.write(ctx, Active, "remove "+p.Name, func(ctx context.Context) error {
		uid := types.UID(p.UID)
		return unlessGone(a.at(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}))
	})
}
