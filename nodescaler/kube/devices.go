package kube

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Resource claims ask for devices of a DeviceClass. A request for a number of any devices of a
// class is an amount that pods ask for and nodes have. Which devices an expression selects is only
// known where the devices are published, so that no machine can be ordered for it.

// demand is what a resource claim asks for.
type demand struct {
	devices pricing.Amounts
	// why the devices cannot be counted; "" if they can.
	why string
}

func demandOf(spec *resourcev1.ResourceClaimSpec) demand {
	counts, all := map[string]int64{}, int64(0)
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if why := uncountable(r.Exactly); why != "" {
			return demand{why: fmt.Sprintf("whose request %s %s", r.Name, why)}
		}
		n := max(1, r.Exactly.Count)
		counts[text(nodescaler.DeviceClass+r.Exactly.DeviceClassName)] += n
		all += n
	}
	if len(spec.Devices.Constraints) > 0 && all > 1 {
		return demand{why: "which constrains its devices by their attributes"}
	}
	return demand{devices: pricing.AmountsOf(counts)}
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

// deviceClaim is what is kept of a ResourceClaim, or of a ResourceClaimTemplate.
type deviceClaim struct {
	metav1.ObjectMeta
	demand
	// allocated is set once it has its devices. They are on nodes that meet required; nil is any.
	allocated bool
	required  nodescaler.Affinity
}

// keepDeviceClaim is the transform of the copies of ResourceClaims, and of their templates.
func keepDeviceClaim(o any) (any, error) {
	switch c := o.(type) {
	case *resourcev1.ResourceClaim:
		return shortDeviceClaim(c), nil
	case *resourcev1.ResourceClaimTemplate:
		return shortDeviceTemplate(c), nil
	}
	return o, nil
}

func shortDeviceClaim(c *resourcev1.ResourceClaim) *deviceClaim {
	kept := &deviceClaim{ObjectMeta: keepMeta(&c.ObjectMeta), demand: demandOf(&c.Spec)}
	if a := c.Status.Allocation; a != nil {
		kept.allocated = true
		if a.NodeSelector != nil {
			kept.required = affinity(a.NodeSelector)
		}
	}
	return kept
}

func shortDeviceTemplate(c *resourcev1.ResourceClaimTemplate) *deviceClaim {
	return &deviceClaim{ObjectMeta: keepMeta(&c.ObjectMeta), demand: demandOf(&c.Spec.Spec)}
}

// published is what is kept of a ResourceSlice: how many devices of one pool of a driver are on a
// node.
type published struct {
	metav1.ObjectMeta
	node, pool string
	generation int64
	devices    int
}

// keepPublished is the transform of the copies of ResourceSlices.
func keepPublished(o any) (any, error) {
	if s, ok := o.(*resourcev1.ResourceSlice); ok {
		return shortPublished(s), nil
	}
	return o, nil
}

func shortPublished(s *resourcev1.ResourceSlice) *published {
	kept := &published{
		ObjectMeta: keepMeta(&s.ObjectMeta), pool: text(s.Spec.Driver + " " + s.Spec.Pool.Name), generation: s.Spec.Pool.Generation,
		devices: len(s.Spec.Devices),
	}
	if s.Spec.NodeName != nil {
		kept.node = text(*s.Spec.NodeName)
	}
	return kept
}

// deviceUse is a resource claim that a pod uses. Template is what the claim is made from, if it is
// the pod's own; its name is empty until it is made.
type deviceUse struct{ claim, template string }

// deviceUses are the resource claims of a pod.
func deviceUses(p *corev1.Pod) (all []deviceUse) {
	for i := range p.Spec.ResourceClaims {
		r := &p.Spec.ResourceClaims[i]
		switch {
		case r.ResourceClaimName != nil:
			all = append(all, deviceUse{claim: *r.ResourceClaimName})
		case r.ResourceClaimTemplateName != nil:
			if u := (deviceUse{template: *r.ResourceClaimTemplateName}); u.made(p, r.Name) {
				all = append(all, u)
			}
		}
	}
	return all
}

// made looks up the claim that was made for a pod. It reports false if the pod needs none.
func (u *deviceUse) made(p *corev1.Pod, name string) bool {
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.Name == name && s.ResourceClaimName == nil {
			return false
		} else if s.Name == name {
			u.claim = *s.ResourceClaimName
		}
	}
	return true
}

// devices is what decides where pods can use their resource claims.
type devices struct {
	// claims and templates are by namespace/name; nil where they could not be read.
	claims, templates map[string]*deviceClaim
	// holder is the pod that a claim's devices are counted for, by claim: the first on a node, or
	// else the first of those that wait. Shared are claims that several pods on nodes use.
	holder map[string]*pod
	shared map[string]bool
	// on is how many devices a node's drivers publish.
	on map[string]int
}

// newDevices takes what was read; what is nil was not. Pods are sorted.
func newDevices(claims, templates []*deviceClaim, slices []*published, pods []*pod) *devices {
	d := &devices{
		claims: byKey(claims), templates: byKey(templates), holder: map[string]*pod{}, shared: map[string]bool{}, on: map[string]int{},
	}
	for _, p := range pods {
		for _, u := range p.devices {
			d.use(p, p.Namespace+"/"+u.claim)
		}
	}
	latest := map[string]int64{}
	for _, s := range slices {
		latest[s.pool] = max(latest[s.pool], s.generation)
	}
	for _, s := range slices {
		if s.node != "" && s.generation == latest[s.pool] {
			d.on[s.node] += s.devices
		}
	}
	return d
}

func byKey(all []*deviceClaim) map[string]*deviceClaim {
	if all == nil {
		return nil
	}
	found := make(map[string]*deviceClaim, len(all))
	for _, c := range all {
		found[c.Namespace+"/"+c.Name] = c
	}
	return found
}

func (d *devices) use(p *pod, claim string) {
	was := d.holder[claim]
	switch {
	case p.said.Finished():
	case was == nil || was.said.Node == "" && p.said.Node != "":
		d.holder[claim] = p
	case was.said.Node != "" && p.said.Node != "":
		d.shared[claim] = true
	}
}

// place adds to what the pod said what its resource claims ask of its node.
func (d *devices) place(said *nodescaler.Pod, p *pod) {
	if len(p.devices) == 0 {
		return
	}
	is := nodescaler.Claims{Volumes: said.Volumes, Selector: said.Selector, Extra: said.Extra}
	another := is
	if said.Another != nil {
		another = *said.Another
	}
	for _, u := range p.devices {
		d.ask(&is, p, u, p.said.Node == "")
		d.addCopy(&another, p, u)
		if key := p.Namespace + "/" + u.claim; d.shared[key] && said.Node != "" && said.Pinned == "" {
			said.Pinned = "shares the devices of resource claim " + u.claim + " with other pods"
		}
	}
	said.Volumes, said.Selector, said.Extra, said.Another = is.Volumes, is.Selector, is.Extra, &another
}

// ask adds what a pod asks for by a claim. A pod on a node has what it asks for there.
func (d *devices) ask(asked *nodescaler.Claims, p *pod, u deviceUse, waits bool) {
	c := d.claims[p.Namespace+"/"+u.claim]
	if c == nil && u.template != "" {
		d.fresh(asked, p, u)
		return
	}
	holder := d.holder[p.Namespace+"/"+u.claim]
	switch {
	case d.unread(asked):
	case c == nil:
		asked.Selector = nowhere("a node with devices for resource claim "+u.claim+", which does not exist", "that resource claim")
	case c.DeletionTimestamp != nil && !c.allocated:
		asked.Selector = nowhere("a node with devices for resource claim "+u.claim+", which is being deleted", "another resource claim")
	case !c.allocated && holder != p:
		asked.Selector = nowhere(fmt.Sprintf("a node with the devices of resource claim %s, which pod %s gets first", u.claim, holder.said.Name),
			"a node for pod "+holder.said.Name+", or a resourceClaimTemplate with which each pod has a claim of its own")
	default:
		if holder == p {
			c.add(asked, "resource claim "+u.claim)
		}
		if waits && c.allocated && c.required != nil {
			asked.Volumes = append(asked.Volumes[:len(asked.Volumes):len(asked.Volumes)], c.required)
		}
	}
}

// addCopy adds what a further replica of the pod's workload would ask for. Claims of templates are
// its own, and of the others the same ones.
func (d *devices) addCopy(asked *nodescaler.Claims, p *pod, u deviceUse) {
	if u.template != "" {
		d.fresh(asked, p, u)
		return
	}
	c := d.claims[p.Namespace+"/"+u.claim]
	switch {
	case d.unread(asked):
	case c == nil || !c.allocated:
		asked.Selector = nowhere("a node with the devices of resource claim "+u.claim+", which has none yet", "a node for the pods that wait for them")
	case c.required != nil:
		asked.Volumes = append(asked.Volumes[:len(asked.Volumes):len(asked.Volumes)], c.required)
	}
}

// fresh adds what a claim asks for that is yet to be made from its template.
func (d *devices) fresh(asked *nodescaler.Claims, p *pod, u deviceUse) {
	t := d.templates[p.Namespace+"/"+u.template]
	switch {
	case d.unread(asked):
	case t == nil:
		asked.Selector = nowhere("a node with devices for resource claim template "+u.template+", which does not exist", "that resource claim template")
	default:
		t.add(asked, "resource claim template "+u.template)
	}
}

// unread reports whether resource claims could not be read, and notes that.
func (d *devices) unread(asked *nodescaler.Claims) bool {
	if d.claims != nil && d.templates != nil {
		return false
	}
	asked.Selector = nowhere("a node with devices for resource claims, which are not known",
		"the right to list resourceclaims and resourceclaimtemplates of resource.k8s.io/v1, for Plimsoll")
	return true
}

// add adds the devices that are asked for.
func (m *demand) add(asked *nodescaler.Claims, what string) {
	if m.why != "" {
		asked.Selector = nowhere("a node with devices for "+what+", "+m.why,
			"a request for a number of devices of a DeviceClass (exactly.count, without selectors), which a pool lists under resources as "+
				strconv.Quote(nodescaler.DeviceClass+"NAME"))
		return
	}
	asked.Extra = asked.Extra.Plus(m.devices)
}
