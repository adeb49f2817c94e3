package nodescaler

import "github.com/plimsoll/plimsoll/pricing"

// Headroom is room that is kept free for a number of like pods that do not exist. It buys machines
// and holds them; a pod that exists takes the room at once.
type Headroom struct {
	// Name is the namespace and the name of what asks for it.
	Name string `json:"name"`
	// Like is one of the pods. It has no name of its own.
	Like  Pod `json:"like"`
	Count int `json:"count"`
}

// HeadroomState is how much of a headroom there is.
type HeadroomState struct {
	Name string `json:"name"`
	// For so many pods there is to be room. For Ready there is, on nodes, and for Coming there will
	// be, on machines that are ordered or in flight.
	Wanted int `json:"wanted"`
	Ready  int `json:"ready,omitempty"`
	Coming int `json:"coming,omitempty"`
	// Rate is the headroom's part of what our machines cost, by requests.
	Rate pricing.Rate `json:"rate,omitempty"`
	// Why says why there is less room than wanted; nil if there is not.
	Why *Reason `json:"why,omitempty"`
}

// Missing is for how many pods there is no room and none to come.
func (h *HeadroomState) Missing() int { return max(h.Wanted-h.Ready-h.Coming, 0) }

// Room returns for how many pods of each headroom room may be kept within the quotas of their
// namespaces, and why not for all.
func (t *Tenants) Room(all []Headroom) (counts []int, why []*Reason) {
	counts, why = make([]int, len(all)), make([]*Reason, len(all))
	more := map[string]Take{}
	for i := range all {
		counts[i] = max(all[i].Count, 0)
		if t == nil {
			continue
		}
		held := map[string]*Held{}
		counts[i] = t.admit(more, held, &all[i].Like, counts[i])
		if h := held[HeldAs(&all[i].Like)]; h != nil {
			why[i] = &h.Why
		}
	}
	return counts, why
}
