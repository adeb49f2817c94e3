package kube

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// Volumes that are there and no claim's are found by claims that wait for their pod's node, on
// each node as the scheduler does it: the smallest claim chooses first, and the smallest volume
// that suits it.

// form is what a claim asks of a volume, or what a volume has.
type form struct {
	class      string // "" if it has none
	size       int64
	modes      []corev1.PersistentVolumeAccessMode
	block      bool
	attributes string // the name of a VolumeAttributesClass
}

func formOf(class string, size corev1.ResourceList, modes []corev1.PersistentVolumeAccessMode, mode *corev1.PersistentVolumeMode, attributes *string) form {
	f := form{class: text(class), size: size.Storage().Value(), block: mode != nil && *mode == corev1.PersistentVolumeBlock}
	for _, m := range modes {
		f.modes = append(f.modes, corev1.PersistentVolumeAccessMode(text(string(m))))
	}
	if attributes != nil {
		f.attributes = text(*attributes)
	}
	return f
}

// fits reports whether the claim may have the volume, if that names the claim.
func (c *claim) fits(v *volume) bool {
	return v.class == c.class && v.size >= c.size && v.block == c.block && v.attributes == c.attributes && v.DeletionTimestamp == nil
}

// suits reports whether the claim may have a volume that is free.
func (c *claim) suits(v *volume) bool {
	if !c.fits(v) || c.selector != nil && !c.selector.Matches(labels.Set(v.Labels)) {
		return false
	}
	return !slices.ContainsFunc(c.modes, func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(v.modes, m) })
}

// place is volumes that the same nodes reach.
type place struct {
	required nodescaler.Affinity // nil is every node
	volumes  []*volume
}

// offer adds a volume to those that are there to be found, if it is free.
func (s *storage) offer(v *volume) {
	if !v.free || v.required != nil && len(v.required) == 0 {
		return
	}
	key := v.class + " "
	if v.required != nil {
		key += v.required.String()
	}
	if s.places[key] == nil {
		s.places[key] = &place{required: v.required}
		s.free[v.class] = append(s.free[v.class], s.places[key])
	}
	s.places[key].volumes = append(s.places[key].volumes, v)
}

// find says where claims that wait find volumes. A claim that finds one among those of one place
// finds one where there are more besides: each claim before it leaves at least as many.
func (s *storage) find(all []*claimed) {
	waiting := map[string][]*claimed{} // by class
	for _, c := range all {
		switch {
		case !s.waits(c) || c.is.node != "": // one is made for it, or it has one
		case c.volume != nil && c.is.fits(c.volume) && c.again == 0:
			c.at, c.anywhere = c.volume.required, c.volume.required == nil
		case c.volume != nil && c.is.fits(c.volume): // and others besides: one can be made, if that
		default:
			waiting[c.is.class] = append(waiting[c.is.class], c)
		}
	}
	for class, claims := range waiting {
		slices.SortStableFunc(claims, func(a, b *claimed) int { return cmp.Compare(a.is.size, b.is.size) })
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
	slices.SortFunc(left, func(a, b *volume) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.Name, b.Name)) })
	for _, c := range claims {
		found := 0
		for range 1 + c.again { // the scheduler has a claim choose as often as the pod names it
			if i := slices.IndexFunc(left, c.is.suits); i >= 0 {
				left, found = slices.Delete(left, i, i+1), found+1
			}
		}
		if found > c.again {
			c.at, c.anywhere = append(c.at, o.required...), c.anywhere || o.required == nil
		}
	}
}
