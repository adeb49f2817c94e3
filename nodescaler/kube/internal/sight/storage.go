package sight

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/pricing"
)

// storage is what decides where pods can use their claims.
type storage struct {
	volumes map[string]*kept.Volume // by the claim's namespace/name
	claims  map[string]*kept.Claim  // by namespace/name; nil where not all could be read
	classes map[string]*kept.Class
	usual   string // the class of claims that name none
	// free are the volumes that are there for claims to find, by class.
	free   map[string][]*place
	places map[string]*place // by class and what they require
	// last is the highest number of a pod, by its StatefulSet.
	last map[types.UID]int
	// users are the pods on nodes that use a claim which is for one pod alone, by claim, and pods
	// how many use one.
	users map[string]string
	pods  map[string]int
	// most is how many volumes of a driver a node takes, by node and driver. Drivers are those with
	// a limit anywhere.
	most    map[string]map[string]int64
	drivers map[string]bool
	devices *devices
}

// newStorage takes what was read; what is nil was not.
func newStorage(volumes []*kept.Volume, claims []*kept.Claim, classes []*kept.Class, limits []*kept.Attachable, devices *devices, pods []*kept.Pod) *storage {
	s := &storage{
		volumes: make(map[string]*kept.Volume, len(volumes)), classes: make(map[string]*kept.Class, len(classes)),
		free: map[string][]*place{}, places: map[string]*place{}, last: map[types.UID]int{},
		users: map[string]string{}, pods: map[string]int{}, devices: devices, most: make(map[string]map[string]int64, len(limits)), drivers: map[string]bool{},
	}
	known := make(map[string]*kept.Claim, len(claims))
	for _, c := range claims {
		known[c.Namespace+"/"+c.Name] = c
	}
	if volumes != nil && claims != nil && classes != nil {
		s.claims = known
	}
	for _, v := range volumes {
		if v.Claim != "" && known[v.Claim].Has(v) {
			s.volumes[v.Claim] = v
		}
		s.offer(v)
	}
	s.class(classes)
	for _, n := range limits {
		s.most[n.Name] = n.Most
		for driver := range n.Most {
			s.drivers[driver] = true
		}
	}
	for _, p := range pods {
		s.use(p)
	}
	return s
}

// class notes the classes. Of several usual ones the latest counts.
func (s *storage) class(all []*kept.Class) {
	s.classes[""] = &kept.Class{} // of none, for which volumes may be there and none is made
	var usual *kept.Class
	for _, k := range all {
		s.classes[k.Name] = k
		if k.Usual && (usual == nil || cmp.Or(k.CreationTimestamp.Compare(usual.CreationTimestamp.Time), cmp.Compare(usual.Name, k.Name)) > 0) {
			usual = k
		}
	}
	if usual != nil {
		s.usual = usual.Name
	}
}

// use notes the claims that a pod on a node has for itself, and its number.
func (s *storage) use(p *kept.Pod) {
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil && owner.Kind == "StatefulSet" && !p.Said.Terminating {
		if n, err := strconv.Atoi(strings.TrimPrefix(p.Name, owner.Name+"-")); err == nil {
			s.last[owner.UID] = max(s.last[owner.UID], n)
		}
	}
	if p.Said.Finished() {
		return
	}
	for i := range p.Claims {
		key := p.Namespace + "/" + p.Claims[i].Claim
		s.pods[key]++
		if c := s.claims[key]; c != nil && c.Alone && p.Claims[i].Template == nil && p.Said.Node != "" {
			s.users[key] = p.Said.Name
		}
	}
}

// claimed is a claim as a pod uses it, or as another replica of its workload would.
type claimed struct {
	*kept.Use
	is     *kept.Claim  // nil where it does not exist
	volume *kept.Volume // that it has, or that names it
	user   string       // the pod that has it for itself
	fresh  bool         // it is not made yet, so that what is to be done at once may be by then
	// at is where the claim finds a volume that is there, or that is anywhere.
	at       nodescaler.Affinity
	anywhere bool
}

// claimed are the claims that a pod uses.
func (s *storage) claimed(p *kept.Pod) (all []*claimed) {
	for i := range p.Claims {
		u := &p.Claims[i]
		key := p.Namespace + "/" + u.Claim
		c := &claimed{Use: u, is: s.claims[key], volume: s.volumes[key]}
		if c.is == nil && u.Template != nil && s.claims != nil {
			c.is = s.made(p, u)
		}
		if p.Said.Node == "" && u.Template == nil {
			c.user = s.users[key]
		}
		all = append(all, c)
	}
	return all
}

// made is the claim that is made from a pod's template.
func (s *storage) made(p *kept.Pod, u *kept.Use) *kept.Claim {
	made, yes := *u.Template, true
	made.OwnerReferences = []metav1.OwnerReference{{UID: p.UID, Controller: &yes}}
	if made.Unnamed {
		made.Class = s.usual
	}
	return &made
}

// copyOf are the claims that another replica of the pod's workload would use: those of templates
// are its own, and of the others the same ones. Differs is set if that is not what the pod uses.
func (s *storage) copyOf(p *kept.Pod) (all []*claimed, differs bool) {
	for _, c := range s.claimed(p) {
		name, own := s.next(p, c.Claim)
		switch {
		case c.is == nil && (own || c.Template != nil): // nothing is known of what it is made from
			differs = true
			continue
		case c.Template != nil:
			c.is, c.volume, c.fresh, differs = s.made(p, c.Use), nil, true, true
		case own:
			is, key := s.claims[p.Namespace+"/"+name], p.Namespace+"/"+name
			if c.fresh = is == nil; c.fresh {
				is = c.is.Anew()
			}
			c, differs = &claimed{Use: &kept.Use{Claim: name, Again: c.Again}, is: is, volume: s.volumes[key], fresh: c.fresh}, true
		case c.is != nil && c.is.Alone:
			c.user, differs = cmp.Or(s.users[p.Namespace+"/"+c.Claim], p.Said.Name), true
		}
		all = append(all, c)
	}
	return all, differs
}

// next is what the claim would be called of the next replica of a StatefulSet, which may be there
// from before; own reports whether it has one of its own.
func (s *storage) next(p *kept.Pod, claim string) (name string, own bool) {
	owner := metav1.GetControllerOfNoCopy(p)
	template, own := strings.CutSuffix(claim, "-"+p.Name)
	if !own || owner == nil || owner.Kind != "StatefulSet" {
		return claim, false
	}
	return fmt.Sprintf("%s-%s-%d", template, owner.Name, s.last[owner.UID]+1), true
}

// waits reports whether the claim finds a volume, or has one made, once its pod has a node, or
// once it is there.
func (s *storage) waits(c *claimed) bool {
	if c.is == nil || c.is.Bound || c.is.Volume != "" {
		return false
	}
	k := s.classes[c.is.Class]
	return k != nil && (k.Delayed || c.fresh)
}

// refuses says why the scheduler lets the pod onto no node for now because of a claim, and what
// would help; "" if it does not.
func (s *storage) refuses(p *kept.Pod, u *claimed) (why, help string) {
	c := u.is
	switch {
	case c == nil:
		return "which does not exist", "that claim, or a pod that does not name it"
	case u.Template != nil && !metav1.IsControlledBy(c, p):
		return "which was not made for it", "another name of that claim, or of the pod's volume"
	case c.DeletionTimestamp != nil:
		return "which is being deleted", "the end of the pods that use that claim, and another one"
	case c.Lost || c.Bound && u.volume == nil:
		return "whose volume is gone", "a claim with a volume that is there"
	case u.user != "":
		return "which is for one pod alone (ReadWriteOncePod), and pod " + u.user + " has it", "the end of pod " + u.user
	case c.Bound:
		return "", ""
	case c.Volume != "":
		return "which is still being bound", "what the claim's events say"
	}
	switch k := s.classes[c.Class]; {
	case c.Class == "" && !u.fresh:
		return "which is not bound and has no StorageClass", "a StorageClass for that claim, or a volume that suits it"
	case k == nil:
		return "which is not bound, and whose StorageClass " + c.Class + " does not exist", "that StorageClass, or a volume that suits the claim"
	case !k.Delayed && !u.fresh:
		return "which is to be bound before the pod has a node (StorageClass " + c.Class + "), and is not",
			"what the claim's events say, or a StorageClass with volumeBindingMode: WaitForFirstConsumer"
	case !k.Makes() && !u.anywhere && len(u.at) == 0:
		return "which no volume suits that is there and free, and none is made for its StorageClass " + strconv.Quote(c.Class), "a volume that suits the claim"
	}
	return "", ""
}

// place adds to what the pod said what its claims require of its node.
func (s *storage) place(said *nodescaler.Pod, p *kept.Pod) {
	if len(p.Claims) > 0 {
		all := s.claimed(p)
		for _, c := range all {
			if v := c.volume; v != nil && v.Local != "" && said.Pinned == "" && !said.Daemon {
				said.Pinned = "local storage: " + v.Local
			}
		}
		asked, besides := s.asks(p, all), said.Extra
		said.Volumes, said.Selector, said.Extra = asked.Volumes, asked.Selector, besides.Plus(s.attaches(p, all, false))
		if others, differs := s.copyOf(p); differs {
			asked = s.asks(p, others)
			asked.Extra, said.Another = besides.Plus(s.attaches(p, all, true)), &asked
		}
	}
	s.devices.place(said, p)
}

// attaches is how many volumes a pod with the claims attaches to its node, or another replica of
// its workload does. What several pods use, or may, is attached once for all of them.
func (s *storage) attaches(p *kept.Pod, all []*claimed, another bool) (n pricing.Amounts) {
	for _, c := range all {
		driver := s.driver(c)
		if !s.drivers[driver] {
			continue
		}
		name, key := nodescaler.AttachableVolumes+driver, p.Namespace+"/"+c.Claim
		_, own := s.next(p, c.Claim)
		own = own || c.Template != nil
		if s.pods[key] > 1 && !(own && another) || !own && c.is != nil && c.is.Many() {
			name = pricing.Shared(name, key)
		}
		n = n.Plus(pricing.Amounts{{Name: kept.Text(name), N: 1}})
	}
	return n
}

// asks is what the claims ask of a node.
func (s *storage) asks(p *kept.Pod, all []*claimed) nodescaler.Claims {
	asked := nodescaler.Claims{Selector: p.Form.Selector}
	s.find(all)
	for _, c := range all {
		asked.Volumes = append(asked.Volumes, s.requires(c)...)
		if s.claims == nil {
			continue
		}
		if why, help := s.refuses(p, c); why != "" {
			asked.Selector = kept.Nowhere("a node with the volume of claim "+c.Claim+", "+why, help)
		}
	}
	return asked
}

// requires is what a claim requires of nodes: what its volume does, or where it finds one, or one
// can be made.
func (s *storage) requires(c *claimed) (all []nodescaler.Affinity) {
	if !s.waits(c) {
		if c.volume != nil && c.volume.Required != nil {
			all = append(all, c.volume.Required)
		}
		if c.volume != nil && c.volume.Zones != nil {
			all = append(all, c.volume.Zones)
		}
		return all
	}
	k, some := s.classes[c.is.Class], c.at
	if k.Makes() {
		some = slices.Concat(some, k.Required)
	}
	if !c.anywhere && (!k.Makes() || k.Required != nil) {
		all = append(all, some)
	}
	if c.is.Node != "" {
		all = append(all, nodescaler.Affinity{{{Key: nodescaler.NameField, Operator: nodescaler.In, Values: []string{c.is.Node}}}})
	}
	return all
}

// driver is whose volume a claim has, or will have.
func (s *storage) driver(c *claimed) string {
	if c.volume != nil && !s.waits(c) {
		return c.volume.Driver
	}
	if c.is == nil || s.classes[c.is.Class] == nil {
		return ""
	}
	return s.classes[c.is.Class].Provisioner
}

// takes is how many volumes a node takes of each driver that has a limit anywhere.
func (s *storage) takes(node string) pricing.Amounts {
	all := make(map[string]int64, len(s.drivers))
	for driver := range s.drivers {
		n, limited := s.most[node][driver]
		if !limited {
			n = pricing.Boundless
		}
		all[kept.Text(nodescaler.AttachableVolumes+driver)] = n
	}
	return pricing.AmountsOf(all)
}

// place is volumes that the same nodes reach.
type place struct {
	required nodescaler.Affinity // nil is every node
	volumes  []*kept.Volume
}

// offer adds a volume to those that are there to be found, if it is free.
func (s *storage) offer(v *kept.Volume) {
	if !v.Free || v.Required != nil && len(v.Required) == 0 {
		return
	}
	key := v.Class + " "
	if v.Required != nil {
		key += v.Required.String()
	}
	if s.places[key] == nil {
		s.places[key] = &place{required: v.Required}
		s.free[v.Class] = append(s.free[v.Class], s.places[key])
	}
	s.places[key].volumes = append(s.places[key].volumes, v)
}

// find says where claims that wait find volumes. A claim that finds one among those of one place
// finds one where there are more besides: each claim before it leaves at least as many.
func (s *storage) find(all []*claimed) {
	waiting := map[string][]*claimed{} // by class
	for _, c := range all {
		switch {
		case !s.waits(c) || c.is.Node != "": // one is made for it, or it has one
		case c.volume != nil && c.is.Fits(c.volume) && c.Again == 0:
			c.at, c.anywhere = c.volume.Required, c.volume.Required == nil
		case c.volume != nil && c.is.Fits(c.volume): // and others besides: one can be made, if that
		default:
			waiting[c.is.Class] = append(waiting[c.is.Class], c)
		}
	}
	for class, claims := range waiting {
		slices.SortStableFunc(claims, func(a, b *claimed) int { return cmp.Compare(a.is.Bytes, b.is.Bytes) })
		for _, o := range s.free[class] {
			o.choose(claims, s.places[class+" "])
		}
	}
}

// choose has each of the claims choose among the volumes of a place, and of the one that is
// everywhere.
func (o *place) choose(claims []*claimed, everywhere *place) {
	left := slices.Clone(o.volumes)
	if everywhere != nil && everywhere != o {
		left = append(left, everywhere.volumes...)
	}
	slices.SortFunc(left, func(a, b *kept.Volume) int { return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Name, b.Name)) })
	for _, c := range claims {
		found := 0
		for range 1 + c.Again { // the scheduler has a claim choose as often as the pod names it
			if i := slices.IndexFunc(left, c.is.Suits); i >= 0 {
				left, found = slices.Delete(left, i, i+1), found+1
			}
		}
		if found > c.Again {
			c.at, c.anywhere = append(c.at, o.required...), c.anywhere || o.required == nil
		}
	}
}
