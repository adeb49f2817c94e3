package nodescaler

import (
	"maps"
	"math"

	"github.com/plimsoll/plimsoll/pricing"
)

// Paid is what is paid for: every machine that is there, on its way or on its way out, the disks of
// those that are stopped, and what a plan adds. It knows the hard limit.
type Paid struct {
	x     *Index
	rate  pricing.Rate   // of all of them, with the fixed parts of their hosts
	hosts map[string]int // how many of them each carries
}

// Paid returns what is paid for as the snapshot has it. Without a limit nothing of it is worked
// out.
func (x *Index) Paid() *Paid {
	return x.PaidFor(func(*Machine) bool { return true })
}

// PaidFor returns what is paid for the machines that count.
func (x *Index) PaidFor(counts func(*Machine) bool) *Paid {
	p := &Paid{x: x, hosts: map[string]int{}}
	if x.Limit <= 0 {
		return p
	}
	for _, m := range x.Machines {
		if counts(m) {
			p.Add(m.Shape, m.Host)
		}
	}
	for _, m := range x.Spares {
		if !counts(m) {
			continue
		}
		if m.Phase != Spare {
			p.Add(m.Shape, m.Host)
			continue
		}
		p.add(x.SpareRate(m.Shape), m.Host)
	}
	return p
}

// Rate is what all of it costs an hour; 0 without a limit.
func (p *Paid) Rate() pricing.Rate { return p.rate }

// Carries reports whether any of it is on the host; never without a limit.
func (p *Paid) Carries(host string) bool { return p.hosts[host] > 0 }

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
	if p.x.Limit <= 0 || p.hosts[host] > 0 {
		return 0
	}
	return p.x.hostRate(host)
}

// Add adds a machine.
func (p *Paid) Add(s pricing.Shape, host string) {
	if p.x.Limit > 0 {
		p.add(p.x.Rate(s, host), host)
	}
}

func (p *Paid) add(rate pricing.Rate, host string) {
	p.rate, _ = p.with(rate, p.opening(host))
	p.hosts[host]++
}

// Without returns what is paid for once a machine is gone that is paid for now.
func (p *Paid) Without(m *Machine) *Paid {
	less := &Paid{x: p.x, rate: p.rate, hosts: maps.Clone(p.hosts)}
	if p.x.Limit <= 0 {
		return less
	}
	if m.Phase == Spare {
		less.rate -= p.x.SpareRate(m.Shape)
	} else {
		less.rate -= p.x.Rate(m.Shape, m.Host)
	}
	if less.hosts[m.Host]--; less.hosts[m.Host] == 0 {
		less.rate -= p.x.hostRate(m.Host)
	}
	return less
}

// sum adds two rates, neither of them negative; more than there are numbers for is the largest.
func sum(a, b pricing.Rate) pricing.Rate {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
