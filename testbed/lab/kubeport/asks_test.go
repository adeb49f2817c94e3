//go:build lab

package kubeport

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// testAsks has a proposal made, approved, claimed and removed. Neither it nor the answer changes.
func testAsks(w *world, c *kube.Cluster) {
	w.autoscaler("asks", "apps/v1", "Deployment", "nobody", "Approve")
	w.ours(c, "asks")
	now := time.Now().UTC().Truncate(time.Second)
	change := approval.Change{
		Kind: v1alpha1.KindWorkloadAutoscaler, Object: "shop/asks", Does: approval.GrowWorkload, From: 1, To: 2, What: "grow shop/asks from 1 to 2 replicas",
		Made: now, Until: now.Add(time.Hour),
	}
	if err := c.Approvals().Propose(w.Context(), &change); err != nil {
		w.Fatal(err)
	}
	find := func(what string, ok func(*approval.Proposal) bool) (found approval.Proposal) {
		w.sees(c, what, func(s *loop.ClusterState) bool {
			for _, p := range s.Proposals {
				if p.Name == change.ProposalName() && ok(&p) {
					found = p
					return true
				}
			}
			return false
		})
		return found
	}
	open := find("the proposal as it was made", func(p *approval.Proposal) bool {
		return p.Digest == p.Change.Digest() && p.Phase == approval.ProposalOpen
	})
	patch := func(text string) error {
		_, err := w.any.Resource(v1alpha1.GroupVersion.WithResource("scalingproposals")).Namespace("shop").
			Patch(w.Context(), open.Name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	if err := patch(`{"spec": {"proposed": {"to": 9}}}`); !apierrors.IsInvalid(err) {
		w.Errorf("what is proposed can be changed: %v", err)
	}
	if err := patch(`{"spec": {"approval": {"decision": "Approved", "by": "ann"}}}`); err != nil {
		w.Error(err)
	}
	if err := patch(`{"spec": {"approval": {"decision": "Rejected"}}}`); !apierrors.IsInvalid(err) {
		w.Errorf("an answer can be changed: %v", err)
	}
	approved := find("the approval", func(p *approval.Proposal) bool { return p.Answer != nil && p.Answer.Approved })
	if err := c.Approvals().Claim(w.Context(), &open.ProposalRef, "d-1"); err == nil {
		w.Error("what has changed since it was seen is claimed")
	}
	if err := c.Approvals().Claim(w.Context(), &approved.ProposalRef, "d-2"); err != nil {
		w.Error(err)
	}
	followed := find("that it is followed", func(p *approval.Proposal) bool { return p.Phase == approval.ProposalFollowed })
	if err := c.Approvals().Remove(w.Context(), &followed.ProposalRef); err != nil {
		w.Error(err)
	}
}
