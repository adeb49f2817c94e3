package kept

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Resource claims ask for devices of a DeviceClass. A request for a number of any devices of a
// class is an amount that pods ask for and nodes have. Which devices an expression selects is only
// known where the devices are published, so that no machine can be ordered for it.

// Demand is what a resource claim asks for.
type Demand struct {
	Devices pricing.Amounts
	// Why the devices cannot be counted; "" if they can.
	Why string
}

func demandOf(spec *resourcev1.ResourceClaimSpec) Demand {
	counts, all := map[string]int64{}, int64(0)
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if why := uncountable(r.Exactly); why != "" {
			return Demand{Why: fmt.Sprintf("whose request %s %s", r.Name, why)}
		}
		n := max(1, r.Exactly.Count)
		counts[Text(nodescaler.DeviceClass+r.Exactly.DeviceClassName)] += n
		all += n
	}
	if len(spec.Devices.Constraints) > 0 && all > 1 {
		return Demand{Why: "which constrains its devices by their attributes"}
	}
	return Demand{Devices: pricing.AmountsOf(counts)}
}

// uncountable says why a request is not for a number of any devices of a class; "" if it is.
func uncountable(r *resourcev1.ExactDeviceRequest) string {
	switch {
	case r == nil:
		return "lists alternatives"
	case r.AllocationMode == resourcev1.DeviceAllocationModeAll:
		return "is for all devices of a node"
	case r.AdminAccess != nil && *r.AdminAccess:
		return "is for admin access"
	case len(r.Selectors) > 0:
		return "selects devices by an expression"
	case r.Capacity != nil:
		return "is for a part of a device"
	}
	return ""
}

// DeviceClaim is what is kept of a ResourceClaim, or of a ResourceClaimTemplate.
type DeviceClaim struct {
	metav1.ObjectMeta
	Demand
	// Allocated is set once it has its devices. They are on nodes that meet required; nil is any.
	Allocated bool
	Required  nodescaler.Affinity
}

func shortDeviceClaim(c *resourcev1.ResourceClaim) *DeviceClaim {
	kept := &DeviceClaim{ObjectMeta: keepMeta(&c.ObjectMeta), Demand: demandOf(&c.Spec)}
	if a := c.Status.Allocation; a != nil {
		kept.Allocated = true
		if a.NodeSelector != nil {
			kept.Required = affinity(a.NodeSelector)
		}
	}
	return kept
}

func shortDeviceTemplate(c *resourcev1.ResourceClaimTemplate) *DeviceClaim {
	return &DeviceClaim{ObjectMeta: keepMeta(&c.ObjectMeta), Demand: demandOf(&c.Spec.Spec)}
}

// Published is what is kept of a ResourceSlice: how many devices of one pool of a driver are on a
// node.
type Published struct {
	metav1.ObjectMeta
	Node, Pool string
	Generation int64
	Devices    int
}

func shortPublished(s *resourcev1.ResourceSlice) *Published {
	kept := &Published{
		ObjectMeta: keepMeta(&s.ObjectMeta), Pool: Text(s.Spec.Driver + " " + s.Spec.Pool.Name), Generation: s.Spec.Pool.Generation,
		Devices: len(s.Spec.Devices),
	}
	if s.Spec.NodeName != nil {
		kept.Node = Text(*s.Spec.NodeName)
	}
	return kept
}

// DeviceUse is a resource claim that a pod uses. Template is what the claim is made from, if it is
// the pod's own; its name is empty until it is made.
type DeviceUse struct{ Claim, Template string }

// deviceUses are the resource claims of a pod.
func deviceUses(p *corev1.Pod) (all []DeviceUse) {
	for i := range p.Spec.ResourceClaims {
		r := &p.Spec.ResourceClaims[i]
		switch {
		case r.ResourceClaimName != nil:
			all = append(all, DeviceUse{Claim: *r.ResourceClaimName})
		case r.ResourceClaimTemplateName != nil:
			if u := (DeviceUse{Template: *r.ResourceClaimTemplateName}); u.made(p, r.Name) {
				all = append(all, u)
			}
		}
	}
	return all
}

// made looks up the claim that was made for a pod. It reports false if the pod needs none.
func (u *DeviceUse) made(p *corev1.Pod, name string) bool {
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.Name == name && s.ResourceClaimName == nil {
			return false
		} else if s.Name == name {
			u.Claim = *s.ResourceClaimName
		}
	}
	return true
}
