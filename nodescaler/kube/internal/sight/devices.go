package sight

import (
	"fmt"
	"strconv"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

// devices is what decides where pods can use their resource claims.
type devices struct {
	// claims and templates are by namespace/name; nil where they could not be read.
	claims, templates map[string]*kept.DeviceClaim
	// holder is the pod that a claim's devices are counted for, by claim: the first on a node, or
	// else the first of those that wait. Shared are claims that several pods on nodes use.
	holder map[string]*kept.Pod
	shared map[string]bool
	// on is how many devices a node's drivers publish.
	on map[string]int
}

// newDevices takes what was read; what is nil was not. Pods are sorted.
func newDevices(claims, templates []*kept.DeviceClaim, slices []*kept.Published, pods []*kept.Pod) *devices {
	d := &devices{
		claims: byKey(claims), templates: byKey(templates), holder: map[string]*kept.Pod{}, shared: map[string]bool{}, on: map[string]int{},
	}
	for _, p := range pods {
		for _, u := range p.Devices {
			d.use(p, p.Namespace+"/"+u.Claim)
		}
	}
	latest := map[string]int64{}
	for _, s := range slices {
		latest[s.Pool] = max(latest[s.Pool], s.Generation)
	}
	for _, s := range slices {
		if s.Node != "" && s.Generation == latest[s.Pool] {
			d.on[s.Node] += s.Devices
		}
	}
	return d
}

func byKey(all []*kept.DeviceClaim) map[string]*kept.DeviceClaim {
	if all == nil {
		return nil
	}
	found := make(map[string]*kept.DeviceClaim, len(all))
	for _, c := range all {
		found[c.Namespace+"/"+c.Name] = c
	}
	return found
}

func (d *devices) use(p *kept.Pod, claim string) {
	was := d.holder[claim]
	switch {
	case p.Said.Finished():
	case was == nil || was.Said.Node == "" && p.Said.Node != "":
		d.holder[claim] = p
	case was.Said.Node != "" && p.Said.Node != "":
		d.shared[claim] = true
	}
}

// place adds to what the pod said what its resource claims ask of its node.
func (d *devices) place(said *nodescaler.Pod, p *kept.Pod) {
	if len(p.Devices) == 0 {
		return
	}
	is := nodescaler.Claims{Volumes: said.Volumes, Selector: said.Selector, Extra: said.Extra}
	another := is
	if said.Another != nil {
		another = *said.Another
	}
	for _, u := range p.Devices {
		d.ask(&is, p, u, p.Said.Node == "")
		d.addCopy(&another, p, u)
		if key := p.Namespace + "/" + u.Claim; d.shared[key] && said.Node != "" && said.Pinned == "" {
			said.Pinned = "shares the devices of resource claim " + u.Claim + " with other pods"
		}
	}
	said.Volumes, said.Selector, said.Extra, said.Another = is.Volumes, is.Selector, is.Extra, &another
}

// ask adds what a pod asks for by a claim. A pod on a node has what it asks for there.
func (d *devices) ask(asked *nodescaler.Claims, p *kept.Pod, u kept.DeviceUse, waits bool) {
	c := d.claims[p.Namespace+"/"+u.Claim]
	if c == nil && u.Template != "" {
		d.fresh(asked, p, u)
		return
	}
	holder := d.holder[p.Namespace+"/"+u.Claim]
	switch {
	case d.unread(asked):
	case c == nil:
		asked.Selector = kept.Nowhere("a node with devices for resource claim "+u.Claim+", which does not exist", "that resource claim")
	case c.DeletionTimestamp != nil && !c.Allocated:
		asked.Selector = kept.Nowhere("a node with devices for resource claim "+u.Claim+", which is being deleted", "another resource claim")
	case !c.Allocated && holder != p:
		asked.Selector = kept.Nowhere(fmt.Sprintf("a node with the devices of resource claim %s, which pod %s gets first", u.Claim, holder.Said.Name),
			"a node for pod "+holder.Said.Name+", or a resourceClaimTemplate with which each pod has a claim of its own")
	default:
		if holder == p {
			addDevices(asked, &c.Demand, "resource claim "+u.Claim)
		}
		if waits && c.Allocated && c.Required != nil {
			asked.Volumes = append(asked.Volumes[:len(asked.Volumes):len(asked.Volumes)], c.Required)
		}
	}
}

// addCopy adds what a further replica of the pod's workload would ask for. Claims of templates are
// its own, and of the others the same ones.
func (d *devices) addCopy(asked *nodescaler.Claims, p *kept.Pod, u kept.DeviceUse) {
	if u.Template != "" {
		d.fresh(asked, p, u)
		return
	}
	c := d.claims[p.Namespace+"/"+u.Claim]
	switch {
	case d.unread(asked):
	case c == nil || !c.Allocated:
		asked.Selector = kept.Nowhere("a node with the devices of resource claim "+u.Claim+", which has none yet", "a node for the pods that wait for them")
	case c.Required != nil:
		asked.Volumes = append(asked.Volumes[:len(asked.Volumes):len(asked.Volumes)], c.Required)
	}
}

// fresh adds what a claim asks for that is yet to be made from its template.
func (d *devices) fresh(asked *nodescaler.Claims, p *kept.Pod, u kept.DeviceUse) {
	t := d.templates[p.Namespace+"/"+u.Template]
	switch {
	case d.unread(asked):
	case t == nil:
		asked.Selector = kept.Nowhere("a node with devices for resource claim template "+u.Template+", which does not exist", "that resource claim template")
	default:
		addDevices(asked, &t.Demand, "resource claim template "+u.Template)
	}
}

// unread reports whether resource claims could not be read, and notes that.
func (d *devices) unread(asked *nodescaler.Claims) bool {
	if d.claims != nil && d.templates != nil {
		return false
	}
	asked.Selector = kept.Nowhere("a node with devices for resource claims, which are not known",
		"the right to list resourceclaims and resourceclaimtemplates of resource.k8s.io/v1, for Plimsoll")
	return true
}

// addDevices adds the devices that are asked for.
func addDevices(asked *nodescaler.Claims, m *kept.Demand, what string) {
	if m.Why != "" {
		asked.Selector = kept.Nowhere("a node with devices for "+what+", "+m.Why,
			"a request for a number of devices of a DeviceClass (exactly.count, without selectors), which a pool lists under resources as "+
				strconv.Quote(nodescaler.DeviceClass+"NAME"))
		return
	}
	asked.Extra = asked.Extra.Plus(m.Devices)
}
