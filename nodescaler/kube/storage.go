package kube

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// What pods' claims ask of nodes is what the scheduler's filters VolumeBinding, VolumeRestrictions
// and NodeVolumeLimits make of it. Volumes that are there and not bound, and how much more a driver
// can store, are not looked at.

// class is what is kept of a StorageClass.
type class struct {
	metav1.ObjectMeta
	provisioner string
	delayed     bool // its claims are bound once the pod has a node
	usual       bool // the class of claims that name none
	// required is where its volumes can be made; nil is anywhere.
	required nodescaler.Affinity
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
			u = use{p.Name + "-" + v.Name, claimOf(&t.ObjectMeta, &t.Spec)}
		default:
			continue
		}
		if !slices.ContainsFunc(all, func(other use) bool { return other.claim == u.claim }) {
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
	// users are the pods on nodes that use a claim which is for one pod alone, by claim.
	users map[string]string
	// most is how many volumes of a driver a node takes, by node and driver. Drivers are those with
	// a limit anywhere.
	most    map[string]map[string]int64
	drivers map[string]bool
}

// newStorage takes what was read; what is nil was not.
func newStorage(volumes []*volume, claims []*claim, classes []*class, limits []*attachable, pods []*pod) *storage {
	s := &storage{
		volumes: make(map[string]*volume, len(volumes)), classes: make(map[string]*class, len(classes)),
		users: map[string]string{}, most: make(map[string]map[string]int64, len(limits)), drivers: map[string]bool{},
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

// use notes the claims that a pod on a node has for itself.
func (s *storage) use(p *pod) {
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

// of is the claim that a pod uses, or will once it is made from its template; nil without a claim.
func (s *storage) of(p *pod, u *use) *claim {
	c := s.claims[p.Namespace+"/"+u.claim]
	if c != nil || u.template == nil || s.claims == nil {
		return c
	}
	made, yes := *u.template, true
	made.OwnerReferences = []metav1.OwnerReference{{UID: p.UID, Controller: &yes}}
	if made.unnamed {
		made.class = s.usual
	}
	return &made
}

// refuses says why the scheduler lets the pod onto no node for now because of a claim, and what
// would help; "" if it does not.
func (s *storage) refuses(p *pod, u *use, c *claim, v *volume) (why, help string) {
	user := s.users[p.Namespace+"/"+u.claim]
	switch {
	case c == nil:
		return "which does not exist", "that claim, or a pod that does not name it"
	case u.template != nil && !metav1.IsControlledBy(c, p):
		return "which was not made for it", "another name of that claim, or of the pod's volume"
	case c.DeletionTimestamp != nil:
		return "which is being deleted", "the end of the pods that use that claim, and another one"
	case c.lost || c.bound && v == nil:
		return "whose volume is gone", "a claim with a volume that is there"
	case user != "" && p.said.Node == "" && u.template == nil:
		return "which is for one pod alone (ReadWriteOncePod), and pod " + user + " has it", "the end of pod " + user
	case c.bound:
		return "", ""
	case c.volume != "":
		return "which is still being bound", "what the claim's events say"
	}
	switch k := s.classes[c.class]; {
	case c.class == "":
		return "which is not bound and has no StorageClass", "a StorageClass for that claim, or a volume that suits it"
	case k == nil:
		return "which is not bound, and whose StorageClass " + c.class + " does not exist", "that StorageClass, or a volume that suits the claim"
	case !k.delayed:
		return "which is to be bound before the pod has a node (StorageClass " + c.class + "), and is not",
			"what the claim's events say, or a StorageClass with volumeBindingMode: WaitForFirstConsumer"
	}
	return "", ""
}

// place adds to what the pod said what its claims require of its node, and what there is no word
// for.
func (s *storage) place(said *nodescaler.Pod, p *pod) {
	for i := range p.claims {
		u := &p.claims[i]
		v, c := s.volumes[p.Namespace+"/"+u.claim], s.of(p, u)
		if v != nil && v.local != "" && said.Pinned == "" && !said.Daemon {
			said.Pinned = "local storage: " + v.local
		}
		said.Volumes = append(said.Volumes, s.requires(c, v)...)
		if driver := s.driver(c, v); s.drivers[driver] {
			said.Extra = said.Extra.Plus(pricing.Amounts{{Name: text(nodescaler.AttachableVolumes + driver), N: 1}})
		}
		if s.claims == nil {
			continue
		}
		if why, help := s.refuses(p, u, c, v); why != "" {
			said.Selector = nowhere("a node with the volume of claim "+u.claim+", "+why, help)
		}
	}
	if p.lacking != "" {
		said.Selector = nowhere(p.lacking, "")
	}
}

// requires is what a claim requires of nodes: what its volume does, or where one can be made.
func (s *storage) requires(c *claim, v *volume) (all []nodescaler.Affinity) {
	if v != nil && v.required != nil {
		all = append(all, v.required)
	}
	if c == nil || c.bound {
		return all
	}
	if k := s.classes[c.class]; v == nil && k != nil && k.required != nil {
		all = append(all, k.required)
	}
	if c.node != "" {
		all = append(all, nodescaler.Affinity{{{Key: nodescaler.NameField, Operator: nodescaler.In, Values: []string{c.node}}}})
	}
	return all
}

// driver is whose volume a claim has, or will have.
func (s *storage) driver(c *claim, v *volume) string {
	switch {
	case v != nil:
		return v.driver
	case c == nil:
		return ""
	}
	if k := s.classes[c.class]; k != nil {
		return k.provisioner
	}
	return ""
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
