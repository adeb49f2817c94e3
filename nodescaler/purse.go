package nodescaler

import (
	"math"

	"github.com/plimsoll/plimsoll/pricing"
)

// purse is what a namespace with a quota may still take, shared by its workloads.
type purse struct {
	rate     pricing.Rate
	replicas int
}

// endow gives the lots of namespaces with quotas what those leave them: beside what is there, or
// anew.
func (s *sharing) endow(t *Tenants, anew bool) {
	purses := map[string]*purse{}
	for i := range s.lots {
		l := &s.lots[i]
		tenant := t.Of(NamespaceOf(l.ask.Workload))
		if tenant == nil {
			continue
		}
		if purses[tenant.Namespace] == nil {
			purses[tenant.Namespace] = tenant.purse(anew)
		}
		l.purse, l.each = purses[tenant.Namespace], t.Least(l.ask.Like.Requests)
	}
}

func (t *Tenant) purse(anew bool) *purse {
	p := &purse{rate: math.MaxInt64, replicas: math.MaxInt}
	taken := t.Takes
	if anew {
		taken = Take{}
	}
	if t.Rate > 0 {
		p.rate = t.Rate - taken.Rate
	}
	if t.Replicas > 0 {
		p.replicas = t.Replicas - taken.Replicas
	}
	return p
}

// take takes so many replicas that come to so much each.
func (p *purse) take(n int, each pricing.Rate) {
	if p != nil {
		p.rate, p.replicas = p.rate-each*pricing.Rate(n), p.replicas-n
	}
}

// may reports whether the lot may have another replica.
func (l *lot) may() bool {
	return l.held < l.ask.Most && (l.purse == nil || l.purse.replicas > 0 && l.purse.rate >= l.each)
}
