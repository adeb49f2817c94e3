package sight

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

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
