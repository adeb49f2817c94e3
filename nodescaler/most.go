package nodescaler

// Most is how many pods like this one could find room at most, alone: on the nodes that are there,
// the machines that are kept or on their way, and all that may still be made. Replicas beyond that
// need not be looked at one by one, however many are asked for.
func (x *Index) Most(p *Pod) int {
	n := 0
	for i := range x.Nodes {
		l := &x.Nodes[i]
		b := bin{like: l.Node, room: l.Allocatable.Minus(l.Used.Requests), extra: l.Extra.Minus(l.Used.Extra), slots: Slots(l.PodSlots) - l.Used.Pods, crowd: l.Crowd}
		n += b.most(p)
	}
	for _, list := range [][]*Machine{x.Machines, x.Spares} {
		for _, m := range list {
			if pool := x.Pool(m.Pool); pool != nil && (m.Kept() || x.arrives(m)) {
				n += pool.bin(m.Shape).most(p)
			}
		}
	}
	for i := range x.Pools {
		n += x.mostNew(&x.Pools[i], p)
	}
	return n
}

// mostNew is how many such pods the machines hold at most that the pool may still make.
func (x *Index) mostNew(pool *PoolSize, p *Pod) (most int) {
	for _, s := range pool.Shapes {
		each, machines := pool.bin(s).most(p), 0
		if each == 0 {
			continue
		}
		for h := range x.Hosts {
			if pool.Makes(s, x.Hosts[h].Host) && machines < pool.Places() {
				machines += (&bin{room: x.Hosts[h].Free, slots: pool.Places()}).count(&Pod{Requests: s.Resources()})
			}
		}
		most = max(most, each*min(machines, pool.Places()))
	}
	return most
}

// most is how many such pods the bin takes, if it takes any.
func (b *bin) most(p *Pod) int {
	if Accepts(p, b.like) != "" || b.crowd.Clash(p) != nil {
		return 0
	}
	return b.count(p)
}

// Few lowers counts so that together they are no more than most, or one each: the largest first,
// down to a level that all keep to.
func Few(counts []int, most int) []int {
	low, high := 1, 1 // the level: low is allowed
	for _, n := range counts {
		high = max(high, n)
	}
	under := func(level int) bool {
		sum := 0
		for _, n := range counts {
			if sum += min(max(n, 0), level); sum > most {
				return false
			}
		}
		return true
	}
	for low < high {
		if mid := low + (high-low+1)/2; under(mid) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	few := make([]int, len(counts))
	for i, n := range counts {
		few[i] = min(max(n, 0), low)
	}
	return few
}
