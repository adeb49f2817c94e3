package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// What pods' claims ask of nodes is what the scheduler's filters VolumeBinding, VolumeRestrictions
// and NodeVolumeLimits make of it. How much more a driver can store is not looked at.

// class is what is kept of a StorageClass.
type class struct {
	metav1.ObjectMeta
	provisioner string
	delayed     bool // its claims are bound once the pod has a node
	usual       bool // the class of claims that name none
	// required is where its volumes can be made; nil is anywhere.
	required nodescaler.Affinity
}

// makes reports whether volumes are made for claims of the class.
func (k *class) makes() bool {
	return k.provisioner != "" && k.provisioner != "kubernetes.io/no-provisioner"
}

// keepClass is the transform of the copies of StorageClasses.
func keepClass(o any) (any, error) {
	if s, ok := o.(*storagev1.StorageClass); ok {
		return shortClass(s), nil
	}
	return o, nil
}

func shortClass(s *storagev1.StorageClass) *class {
	kept := &class{
		ObjectMeta: keepMeta(&s.ObjectMeta), provisioner: text(s.Provisioner),
		delayed: s.VolumeBindingMode != nil && *s.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer,
		usual: s.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" ||
			s.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true",
	}
	for _, t := range s.AllowedTopologies {
		term := make(nodescaler.Term, 0, len(t.MatchLabelExpressions))
		for _, e := range t.MatchLabelExpressions {
			term = append(term, nodescaler.Requirement{Key: text(e.Key), Operator: nodescaler.In, Values: slices.Sorted(slices.Values(e.Values))})
		}
		kept.required = append(kept.required, term)
	}
	return kept
}

// attachable is what is kept of a CSINode: how many volumes of a driver the node takes, where there
// is an end to it.
type attachable struct {
	metav1.ObjectMeta
	most map[string]int64 // by driver
}

// keepAttachable is the transform of the copies of CSINodes.
func keepAttachable(o any) (any, error) {
	if n, ok := o.(*storagev1.CSINode); ok {
		return shortAttachable(n), nil
	}
	return o, nil
}

func shortAttachable(n *storagev1.CSINode) *attachable {
	kept := &attachable{keepMeta(&n.ObjectMeta), map[string]int64{}}
	for i := range n.Spec.Drivers {
		if d := &n.Spec.Drivers[i]; d.Allocatable != nil && d.Allocatable.Count != nil {
			kept.most[text(d.Name)] = int64(*d.Allocatable.Count)
		}
	}
	return kept
}

// use is a claim that a pod uses. A generic ephemeral volume's is made after the pod, from the
// template.
type use struct {
	claim    string
	template *claim
	again    int // how often the pod names it besides
}

// uses are the claims that a pod uses, each once.
func uses(p *corev1.Pod) (all []use) {
	for i := range p.Spec.Volumes {
		var u use
		switch v := &p.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			u.claim = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
			t := v.Ephemeral.VolumeClaimTemplate
			u = use{claim: p.Name + "-" + v.Name, template: claimOf(&t.ObjectMeta, &t.Spec)}
		default:
			continue
		}
		if i := slices.IndexFunc(all, func(other use) bool { return other.claim == u.claim }); i >= 0 {
			all[i].again++
		} else {
			all = append(all, u)
		}
	}
	return all
}

// storage is what decides where pods can use their claims.
type storage struct {
	volumes map[string]*volume // by the claim's namespace/name
	claims  map[string]*claim  // by namespace/name; nil where less than all of it could be read
	classes map[string]*class
	usual   string // the class of claims that name none
	// free are the volumes that are there for claims to find, by class.
	free   map[string][]*place
	places map[string]*place // by class and what they require
	// last is the highest number of a pod, by its StatefulSet.
	last map[types.UID]int
	// users are the pods on nodes that use a claim which is for one pod alone, by claim.
	users map[string]string
	// most is how many volumes of a driver a node takes, by node and driver. Drivers are those with
	// a limit anywhere.
	most    map[string]map[string]int64
	drivers map[string]bool
	devices *devices
}

// newStorage takes what was read; what is nil was not.
func newStorage(volumes []*volume, claims []*claim, classes []*class, limits []*attachable, devices *devices, pods []*pod) *storage {
	s := &storage{
		volumes: make(map[string]*volume, len(volumes)), classes: make(map[string]*class, len(classes)),
		free: map[string][]*place{}, places: map[string]*place{}, last: map[types.UID]int{},
		users: map[string]string{}, devices: devices, most: make(map[string]map[string]int64, len(limits)), drivers: map[string]bool{},
	}
	known := make(map[string]*claim, len(claims))
	for _, c := range claims {
		known[c.Namespace+"/"+c.Name] = c
	}
	if volumes != nil && claims != nil && classes != nil {
		s.claims = known
	}
	for _, v := range volumes {
		if v.claim != "" && known[v.claim].has(v) {
			s.volumes[v.claim] = v
		}
		s.offer(v)
	}
	s.class(classes)
	for _, n := range limits {
		s.most[n.Name] = n.most
		for driver := range n.most {
			s.drivers[driver] = true
		}
	}
	for _, p := range pods {
		s.use(p)
	}
	return s
}

// class notes the classes. Of several usual ones the latest counts.
func (s *storage) class(all []*class) {
	s.classes[""] = &class{} // of none, for which volumes may be there and none is made
	var usual *class
	for _, k := range all {
		s.classes[k.Name] = k
		if k.usual && (usual == nil || cmp.Or(k.CreationTimestamp.Compare(usual.CreationTimestamp.Time), cmp.Compare(usual.Name, k.Name)) > 0) {
			usual = k
		}
	}
	if usual != nil {
		s.usual = usual.Name
	}
}

// use notes the claims that a pod on a node has for itself, and its number.
func (s *storage) use(p *pod) {
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil && owner.Kind == "StatefulSet" && !p.said.Terminating {
		if n, err := strconv.Atoi(strings.TrimPrefix(p.Name, owner.Name+"-")); err == nil {
			s.last[owner.UID] = max(s.last[owner.UID], n)
		}
	}
	if p.said.Node == "" || p.said.Finished() {
		return
	}
	for i := range p.claims {
		key := p.Namespace + "/" + p.claims[i].claim
		if c := s.claims[key]; c != nil && c.alone && p.claims[i].template == nil {
			s.users[key] = p.said.Name
		}
	}
}

// claimed is a claim as a pod uses it, or as another replica of its workload would.
type claimed struct {
	*use
	is     *claim  // nil where it does not exist
	volume *volume // that it has, or that names it
	user   string  // the pod that has it for itself
	fresh  bool    // it is not made yet, so that what is to be done at once may be by then
	// at is where the claim finds a volume that is there, or that is anywhere.
	at       nodescaler.Affinity
	anywhere bool
}

// claimed are the claims that a pod uses.
func (s *storage) claimed(p *pod) (all []*claimed) {
	for i := range p.claims {
		u := &p.claims[i]
		key := p.Namespace + "/" + u.claim
		c := &claimed{use: u, is: s.claims[key], volume: s.volumes[key]}
		if c.is == nil && u.template != nil && s.claims != nil {
			c.is = s.made(p, u)
		}
		if p.said.Node == "" && u.template == nil {
			c.user = s.users[key]
		}
		all = append(all, c)
	}
	return all
}

// made is the claim that is made from a pod's template.
func (s *storage) made(p *pod, u *use) *claim {
	made, yes := *u.template, true
	made.OwnerReferences = []metav1.OwnerReference{{UID: p.UID, Controller: &yes}}
	if made.unnamed {
		made.class = s.usual
	}
	return &made
}

// copyOf are the claims that another replica of the pod's workload would use: those of templates
// are its own, and of the others the same ones. Differs is set if that is not what the pod uses.
func (s *storage) copyOf(p *pod) (all []*claimed, differs bool) {
	for _, c := range s.claimed(p) {
		name, own := s.next(p, c.claim)
		switch {
		case c.is == nil && (own || c.template != nil): // nothing is known of what it is made from
			differs = true
			continue
		case c.template != nil:
			c.is, c.volume, c.fresh, differs = s.made(p, c.use), nil, true, true
		case own:
			is, key := s.claims[p.Namespace+"/"+name], p.Namespace+"/"+name
			if c.fresh = is == nil; c.fresh {
				is = c.is.anew()
			}
			c, differs = &claimed{use: &use{claim: name, again: c.again}, is: is, volume: s.volumes[key], fresh: c.fresh}, true
		case c.is != nil && c.is.alone:
			c.user, differs = cmp.Or(s.users[p.Namespace+"/"+c.claim], p.said.Name), true
		}
		all = append(all, c)
	}
	return all, differs
}

// next is what the claim would be called of the next replica of a StatefulSet, which may be there
// from before; own reports whether it has one of its own.
func (s *storage) next(p *pod, claim string) (name string, own bool) {
	owner := metav1.GetControllerOfNoCopy(p)
	template, own := strings.CutSuffix(claim, "-"+p.Name)
	if !own || owner == nil || owner.Kind != "StatefulSet" {
		return claim, false
	}
	return fmt.Sprintf("%s-%s-%d", template, owner.Name, s.last[owner.UID]+1), true
}

// anew is a claim like it of which nothing has come yet.
func (c *claim) anew() *claim {
	return &claim{form: c.form, selector: c.selector}
}

// waits reports whether the claim finds a volume, or has one made, once its pod has a node, or
// once it is there.
func (s *storage) waits(c *claimed) bool {
	if c.is == nil || c.is.bound || c.is.volume != "" {
		return false
	}
	k := s.classes[c.is.class]
	return k != nil && (k.delayed || c.fresh)
}

// refuses says why the scheduler lets the pod onto no node for now because of a claim, and what
// would help; "" if it does not.
func (s *storage) refuses(p *pod, u *claimed) (why, help string) {
	c := u.is
	switch {
	case c == nil:
		return "which does not exist", "that claim, or a pod that does not name it"
	case u.template != nil && !metav1.IsControlledBy(c, p):
		return "which was not made for it", "another name of that claim, or of the pod's volume"
	case c.DeletionTimestamp != nil:
		return "which is being deleted", "the end of the pods that use that claim, and another one"
	case c.lost || c.bound && u.volume == nil:
		return "whose volume is gone", "a claim with a volume that is there"
	case u.user != "":
		return "which is for one pod alone (ReadWriteOncePod), and pod " + u.user + " has it", "the end of pod " + u.user
	case c.bound:
		return "", ""
	case c.volume != "":
		return "which is still being bound", "what the claim's events say"
	}
	switch k := s.classes[c.class]; {
	case c.class == "" && !u.fresh:
		return "which is not bound and has no StorageClass", "a StorageClass for that claim, or a volume that suits it"
	case k == nil:
		return "which is not bound, and whose StorageClass " + c.class + " does not exist", "that StorageClass, or a volume that suits the claim"
	case !k.delayed && !u.fresh:
		return "which is to be bound before the pod has a node (StorageClass " + c.class + "), and is not",
			"what the claim's events say, or a StorageClass with volumeBindingMode: WaitForFirstConsumer"
	case !k.makes() && !u.anywhere && len(u.at) == 0:
		return "which no volume suits that is there and free, and none is made for its StorageClass " + strconv.Quote(c.class), "a volume that suits the claim"
	}
	return "", ""
}

// place adds to what the pod said what its claims require of its node.
func (s *storage) place(said *nodescaler.Pod, p *pod) {
	if len(p.claims) > 0 {
		all := s.claimed(p)
		for _, c := range all {
			if v := c.volume; v != nil && v.local != "" && said.Pinned == "" && !said.Daemon {
				said.Pinned = "local storage: " + v.local
			}
			if driver := s.driver(c); s.drivers[driver] {
				said.Extra = said.Extra.Plus(pricing.Amounts{{Name: text(nodescaler.AttachableVolumes + driver), N: 1}})
			}
		}
		asked := s.asks(p, all)
		said.Volumes, said.Selector = asked.Volumes, asked.Selector
		if all, differs := s.copyOf(p); differs {
			asked = s.asks(p, all)
			asked.Extra, said.Another = said.Extra, &asked
		}
	}
	s.devices.place(said, p)
}

// asks is what the claims ask of a node.
func (s *storage) asks(p *pod, all []*claimed) nodescaler.Claims {
	asked := nodescaler.Claims{Selector: p.said.Selector}
	s.find(all)
	for _, c := range all {
		asked.Volumes = append(asked.Volumes, s.requires(c)...)
		if s.claims == nil {
			continue
		}
		if why, help := s.refuses(p, c); why != "" {
			asked.Selector = nowhere("a node with the volume of claim "+c.claim+", "+why, help)
		}
	}
	return asked
}

// requires is what a claim requires of nodes: what its volume does, or where it finds one, or one
// can be made.
func (s *storage) requires(c *claimed) (all []nodescaler.Affinity) {
	if !s.waits(c) {
		if c.volume != nil && c.volume.required != nil {
			all = append(all, c.volume.required)
		}
		return all
	}
	k, some := s.classes[c.is.class], c.at
	if k.makes() {
		some = slices.Concat(some, k.required)
	}
	if !c.anywhere && (!k.makes() || k.required != nil) {
		all = append(all, some)
	}
	if c.is.node != "" {
		all = append(all, nodescaler.Affinity{{{Key: nodescaler.NameField, Operator: nodescaler.In, Values: []string{c.is.node}}}})
	}
	return all
}

// driver is whose volume a claim has, or will have.
func (s *storage) driver(c *claimed) string {
	if c.volume != nil && !s.waits(c) {
		return c.volume.driver
	}
	if c.is == nil || s.classes[c.is.class] == nil {
		return ""
	}
	return s.classes[c.is.class].provisioner
}

// takes is how many volumes a node takes of each driver that has a limit anywhere.
func (s *storage) takes(node string) pricing.Amounts {
	all := make(map[string]int64, len(s.drivers))
	for driver := range s.drivers {
		n, limited := s.most[node][driver]
		if !limited {
			n = pricing.Boundless
		}
		all[text(nodescaler.AttachableVolumes+driver)] = n
	}
	return pricing.AmountsOf(all)
}

// nowhere selects a node that there is not.
func nowhere(what, help string) map[string]string {
	return map[string]string{nodescaler.SelectNowhere: what, nodescaler.SelectHelp: help}
}
