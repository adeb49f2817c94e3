package disruption

import (
	"context"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	clocktest "k8s.io/utils/clock/testing"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/test/v1alpha1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

const (
	zone  = "zone"
	slots = 110
)

// when is the fleet's time. Waiting does not last: what Karpenter would find changed after the 15
// seconds that it waits before it acts, a fleet that moves by the minute does not have.
type when struct{ *clocktest.FakeClock }

var _ clock.Clock = when{}

func (w when) After(time.Duration) <-chan time.Time {
	at := make(chan time.Time, 1)
	at <- w.Now()
	return at
}

// cloud offers the pool's shapes at the book's prices. It makes no machines: those that Karpenter
// claims are ordered by the plan.
type cloud struct {
	cloudprovider.CloudProvider
	types   []*cloudprovider.InstanceType
	drifted map[string]bool // by provider ID
	repairs []cloudprovider.RepairPolicy
}

func newCloud(x *nodescaler.Index) *cloud {
	c, p := &cloud{drifted: map[string]bool{}}, x.Pools[0].Pool
	for _, s := range p.Shapes {
		c.types = append(c.types, instanceType(s, p.Reserved, float64(x.Rate(s, x.Hosts[0].Name))))
	}
	for _, a := range p.Disruption.Repair.Conditions {
		c.repairs = append(c.repairs, cloudprovider.RepairPolicy{
			ConditionType: corev1.NodeConditionType(a.Type), ConditionStatus: corev1.ConditionStatus(a.Status), TolerationDuration: time.Duration(a.For),
		})
	}
	return c
}

func instanceType(s pricing.Shape, reserved pricing.Resources, price float64) *cloudprovider.InstanceType {
	one := func(key, value string) *requirements.Requirement {
		return requirements.NewRequirement(key, corev1.NodeSelectorOpIn, value)
	}
	return &cloudprovider.InstanceType{
		Name: s.Name, Capacity: list(s.Resources(), slots), Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: list(reserved, 0)},
		Requirements: requirements.NewRequirements(
			one(corev1.LabelInstanceTypeStable, s.Name), one(corev1.LabelArchStable, "amd64"), one(corev1.LabelOSStable, "linux"),
			one(corev1.LabelTopologyZone, zone), one(v1.CapacityTypeLabelKey, v1.CapacityTypeOnDemand),
		),
		Offerings: cloudprovider.Offerings{{Available: true, Price: price, Requirements: requirements.NewLabelRequirements(map[string]string{
			v1.CapacityTypeLabelKey: v1.CapacityTypeOnDemand, corev1.LabelTopologyZone: zone,
		})}},
	}
}

// list is the amounts as Kubernetes has them; no pods if 0.
func list(r pricing.Resources, pods int64) corev1.ResourceList {
	l := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(r.CPU), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(r.Memory), resource.BinarySI),
	}
	if pods > 0 {
		l[corev1.ResourcePods] = *resource.NewQuantity(pods, resource.DecimalSI)
	}
	return l
}

func (c *cloud) Name() string { return "fleet" }

func (c *cloud) GetInstanceTypes(context.Context, *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return c.types, nil
}

func (c *cloud) IsDrifted(_ context.Context, claim *v1.NodeClaim) (cloudprovider.DriftReason, error) {
	if c.drifted[claim.Status.ProviderID] {
		return "TemplateDrifted", nil
	}
	return "", nil
}

func (c *cloud) RepairPolicies() []cloudprovider.RepairPolicy { return c.repairs }

func (c *cloud) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&v1alpha1.TestNodeClass{}}
}
