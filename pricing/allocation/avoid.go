package allocation

import "github.com/plimsoll/plimsoll/pricing"

// avoid enters what would be saved. What is saved of a machine's price is its Saving, and with the
// last machine of a host the host's fixed part besides.
func (b *book) avoid() {
	spare := b.spare()
	emptied := b.emptied(spare)
	for i := range b.nodes {
		n := &b.nodes[i]
		if !spare[i] {
			continue
		}
		n.line.Avoidable = n.Price.Alone
		if emptied[n.Host] { // the shares of a host's machines are its fixed part
			n.line.Avoidable += n.Price.WithHost + n.parts.Sum() - n.Price.Sum()
		}
		b.total.Avoidable += n.line.Avoidable
		b.pools.of(n.Pool).Avoidable += n.line.Avoidable
	}
	b.avoidGroups(b.namespaces, b.Namespaces)
	b.avoidGroups(b.workloads, b.Workloads)
}

// avoidGroups enters what could be saved besides if the pods of a line were gone.
func (b *book) avoidGroups(all lines, frees map[string][]string) {
	for name, line := range all { // each by itself
		without := b.spare()
		for _, node := range frees[name] {
			if i, ok := b.at[node]; ok && b.nodes[i].Price != nil {
				without[i] = true
			}
		}
		line.Avoidable = b.saved(without) - b.total.Avoidable
	}
}

// saved is what doing without some nodes saves.
func (b *book) saved(without []bool) pricing.Rate {
	emptied := b.emptied(without)
	var sum pricing.Rate
	for i := range b.nodes {
		n := &b.nodes[i]
		if !without[i] {
			continue
		}
		sum += n.Price.Alone
		if emptied[n.Host] {
			sum += n.Price.WithHost
		}
	}
	for host := range emptied {
		sum += b.Hosts[host]
	}
	return sum
}

// spare marks the priced nodes that could be done without.
func (b *book) spare() []bool {
	spare := make([]bool, len(b.nodes))
	for i := range b.nodes {
		spare[i] = b.nodes[i].Spare && b.nodes[i].Price != nil
	}
	return spare
}

// emptied are the hosts that would carry no machine any more. A machine without a price keeps
// its host, too, and what is on hosts that are not known empties none.
func (b *book) emptied(without []bool) map[string]bool {
	emptied := map[string]bool{}
	for i := range b.nodes {
		if without[i] && b.nodes[i].Host != "" {
			emptied[b.nodes[i].Host] = true
		}
	}
	for i := range b.nodes {
		if !without[i] {
			delete(emptied, b.nodes[i].Host)
		}
	}
	return emptied
}
