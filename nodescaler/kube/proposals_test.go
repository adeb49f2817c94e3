package kube

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/kubesim"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

var aChange = approval.Change{
	Kind: v1alpha1.KindVMPool, Object: "workers", Does: approval.OrderMachines, Subject: "small", Count: 2, What: "order up to 2 of shape small", Unit: "EUR",
	Price: pricing.RateOf(pricing.Unit / 3), Why: []podscaler.Reason{{Code: "PodsPending", Text: "2 pods wait <&>"}},
	Made: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Until: time.Date(2026, 3, 1, 13, 0, 0, 0, time.UTC),
}

// anOffice is a port at an API server in memory, with a pool and an autoscaler.
func anOffice(t *testing.T) (approvals, dynamic.Interface) {
	t.Helper()
	server := kubesim.New(1, ourKinds()...)
	c := must.Get(New(Config{REST: server.Client("a", nil).Config(), Mode: Active, Namespace: "plimsoll", Lease: "plimsoll"}))(t)
	c.leads(0)
	c.holds(t, copies.VMPools, &v1alpha1.VMPool{ObjectMeta: metav1.ObjectMeta{Name: "workers", UID: "pool"}})
	c.holds(t, copies.Autoscalers, autoscaler("web", v1alpha1.ModeApprove))
	return approvals{c}, must.Get(dynamic.NewForConfig(server.Client("person", nil).Config()))(t)
}

// seen are the proposals as they are read once the copies are up to date.
func (a approvals) seen(t *testing.T, of dynamic.Interface) []approval.Proposal {
	t.Helper()
	list := must.Get(of.Resource(v1alpha1.GroupVersion.WithResource("scalingproposals")).List(t.Context(), metav1.ListOptions{}))(t)
	for i := range list.Items {
		p := &v1alpha1.ScalingProposal{}
		must.Do(t, runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, p))
		a.holds(t, copies.Proposals, p)
	}
	return a.all()
}

func TestAProposalIsReadAsItWasMade(t *testing.T) {
	a, of := anOffice(t)
	grow := aChange
	grow.Kind, grow.Object, grow.Does, grow.Subject, grow.From, grow.To = v1alpha1.KindWorkloadAutoscaler, "shop/web", approval.GrowWorkload, "", 2, 5
	for _, c := range []approval.Change{aChange, grow} {
		must.Do(t, a.Propose(t.Context(), &c))
	}
	all := a.seen(t, of)
	if len(all) != 2 || all[0].Namespace != "plimsoll" || all[1].Namespace != "shop" {
		t.Fatalf("there is %+v", all)
	}
	for _, p := range all {
		if p.Digest != p.Change.Digest() || p.Name != p.ProposalName() || p.Phase != approval.ProposalOpen || p.Answer != nil {
			t.Errorf("it is read as another one: %+v", p)
		}
	}
}

// The digest of every change is the same once it was an object.
func TestDigestsOutliveTheObject(t *testing.T) {
	a, _ := anOffice(t)
	rapid.Check(t, func(t *rapid.T) {
		c := aChange
		c.What, c.Subject = rapid.StringMatching(`[ -~ä]{0,40}`).Draw(t, "what"), rapid.StringMatching(`[a-z]{0,9}`).Draw(t, "subject")
		c.Count, c.From, c.To = rapid.IntRange(0, 99).Draw(t, "count"), rapid.IntRange(0, 99).Draw(t, "from"), rapid.IntRange(0, 99).Draw(t, "to")
		c.Price = pricing.Rate(rapid.Int64Range(-1e15, 1e15).Draw(t, "price"))
		c.Made = time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "made"), 0).UTC()
		o := must.Get(a.proposal(&c))(t)
		if got := changeOf(o); got.Digest() != c.Digest() {
			t.Fatalf("%+v is read as %+v", c, got)
		}
	})
}

func TestAnApprovalIsClaimedOnceAndAsItWasSeen(t *testing.T) {
	a, of := anOffice(t)
	must.Do(t, a.Propose(t.Context(), &aChange))
	open := a.seen(t, of)[0]
	at := of.Resource(v1alpha1.GroupVersion.WithResource("scalingproposals")).Namespace("plimsoll")
	must.Get(at.Patch(t.Context(), open.Name, types.MergePatchType, []byte(`{"spec":{"approval":{"decision":"Approved","by":"ann"}}}`), metav1.PatchOptions{}))(t)
	if a.Claim(t.Context(), &open.ProposalRef, "d-1") == nil {
		t.Error("what has changed since it was seen is claimed")
	}
	if err := a.Close(t.Context(), &approval.Closed{ProposalRef: open.ProposalRef, Phase: approval.ProposalExpired}); err != nil {
		t.Errorf("what has changed is not left as it is: %v", err)
	}
	approved := a.seen(t, of)[0]
	if approved.Answer == nil || !approved.Answer.Approved || approved.Answer.By != "ann" || approved.Phase != approval.ProposalOpen {
		t.Fatalf("it is %+v", approved)
	}
	if err := a.Claim(t.Context(), &approved.ProposalRef, "d-2"); err != nil {
		t.Error(err)
	}
	if a.Claim(t.Context(), &approved.ProposalRef, "d-3") == nil {
		t.Error("it is claimed twice")
	}
	if followed := a.seen(t, of)[0]; followed.Phase != approval.ProposalFollowed || followed.Digest != aChange.Digest() {
		t.Errorf("it is %+v", followed)
	}
	a.cfg.Mode = Recommend
	if a.Claim(t.Context(), &approved.ProposalRef, "d-4") == nil || a.Propose(t.Context(), &aChange) == nil {
		t.Error("mode Recommend asks people")
	}
}

// A proposal about a pool counts in Plimsoll's own namespace alone.
func TestAPoolsProposalElsewhereIsForged(t *testing.T) {
	a, _ := anOffice(t)
	o := must.Get(a.proposal(&aChange))(t)
	o.Namespace, o.Status = "shop", v1alpha1.ScalingProposalStatus{Digest: aChange.Digest(), Phase: "Open"}
	a.holds(t, copies.Proposals, o)
	if all := a.all(); len(all) != 1 || all[0].Digest != "" {
		t.Errorf("it is read as %+v", all)
	}
}
