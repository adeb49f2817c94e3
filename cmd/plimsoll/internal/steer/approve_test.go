package steer

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/testbed/kubesim"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// Two people answer at once: one answer counts, and the other person reads whose.
func TestOfTwoAnswersAtOnceOneCounts(t *testing.T) {
	g := v1alpha1.GroupVersion
	server := kubesim.New(1, kubesim.Kind{Group: g.Group, Version: g.Version, Name: v1alpha1.KindScalingProposal, Resource: "scalingproposals", Status: true, Custom: true})
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ann := must.Get(dynamic.NewForConfig(server.Client("ann", nil).Config()))(t)
	proposal := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": g.String(), "kind": v1alpha1.KindScalingProposal, "metadata": map[string]any{"name": "workers-order-aaaa", "namespace": "plimsoll"},
		"spec": map[string]any{"proposed": map[string]any{
			"kind": "VMPool", "object": "workers", "does": "Order", "what": "order", "made": now.Format(time.RFC3339), "until": now.Add(time.Hour).Format(time.RFC3339),
		}},
	}}
	must.Get(ann.Resource(proposalResource).Namespace("plimsoll").Create(t.Context(), proposal, metav1.CreateOptions{}))(t)
	open := []byte(`{"status":{"phase":"Open"}}`)
	must.Get(ann.Resource(proposalResource).Namespace("plimsoll").Patch(t.Context(), "workers-order-aaaa", "application/merge-patch+json", open, metav1.PatchOptions{}, "status"))(t)

	yes := answer{name: "workers-order-aaaa", approval: v1alpha1.Approval{Decision: v1alpha1.Approved, By: "ann"}}
	no := answer{name: "workers-order-aaaa", approval: v1alpha1.Approval{Decision: v1alpha1.Rejected, By: "bob"}}
	seen := must.Get(no.proposals(t.Context(), ann))(t) // bob has read it before ann answers
	must.Get(yes.give(t.Context(), ann, now))(t)
	if _, err := no.write(t.Context(), ann, &seen[0]); err == nil {
		t.Error("the later answer is written over the earlier one")
	}
	if _, err := no.give(t.Context(), ann, now); err == nil || !strings.Contains(err.Error(), "already Approved, by ann") {
		t.Errorf("the later one is answered %v", err)
	}
}
