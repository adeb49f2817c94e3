package nodescaler

import (
	"math"

	"github.com/plimsoll/plimsoll/pricing"
)

// Paid is what is paid for: every machine that is there, on its way or on its way out, the disks of
// those that are stopped, and what a plan adds. It knows the hard limit.
type Paid struct {
	x     *Index
	rate  pricing.Rate    // of all of them, with the fixed parts of their hosts
	hosts map[string]bool // that carry any
}

// Paid returns what is paid for as the snapshot has it. Without a limit nothing of it is worked out.
func (x *Index) Paid() *Paid {
	p := &Paid{x: x, hosts: map[string]bool{}}
	for _, m := range x.Machines {
		p.Add(m.Shape, m.Host)
	}
	for _, m := range x.Spares {
		if m.Phase != Spare {
			p.Add(m.Shape, m.Host)
			continue
		}
		p.rate, _ = p.with(x.SpareRate(m.Shape), p.opening(m.Host))
		p.hosts[m.Host] = true
	}
	return p
}

// Waking returns what all would cost an hour with a spare started, and whether the limit allows it.
func (p *Paid) Waking(m *Machine) (pricing.Rate, bool) {
	if p.x.Limit <= 0 || m.Phase != Spare {
		return p.rate, true
	}
	rate := sum(p.rate-p.x.SpareRate(m.Shape), p.x.Rate(m.Shape, m.Host))
	return rate, rate <= p.x.Limit
}

// Wake starts a spare.
func (p *Paid) Wake(m *Machine) { p.rate, _ = p.Waking(m) }

// With returns what all would cost an hour with a machine more, and whether the limit allows it.
func (p *Paid) With(s pricing.Shape, host string) (pricing.Rate, bool) {
	if p.x.Limit <= 0 {
		return 0, true
	}
	return p.with(p.x.Rate(s, host), p.opening(host))
}

// with is With for a machine at a rate on a host that costs so much to open.
func (p *Paid) with(rate, opening pricing.Rate) (pricing.Rate, bool) {
	if p.x.Limit <= 0 {
		return 0, true
	}
	rate = sum(sum(p.rate, rate), opening)
	return rate, rate <= p.x.Limit
}

// opening is the fixed part of a host that carries nothing.
func (p *Paid) opening(host string) pricing.Rate {
	if p.x.Limit <= 0 || p.hosts[host] {
		return 0
	}
	return p.x.hostRate(host)
}

// Add adds a machine.
func (p *Paid) Add(s pricing.Shape, host string) {
	p.rate, _ = p.With(s, host)
	p.hosts[host] = true
}

// sum adds two rates, neither of them negative; more than there are numbers for is the largest.
func sum(a, b pricing.Rate) pricing.Rate {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
