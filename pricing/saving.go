package pricing

import (
	"math/big"
	"time"
)

// Saving is the part of a machine's price that reclaiming it saves.
type Saving struct {
	// Alone is saved by reclaiming the machine, regardless of what else its host carries.
	Alone Rate `json:"alone"`
	// WithHost is saved besides once the host carries no machine at all, and is switched off.
	WithHost Rate `json:"withHost"`
}

// Saving computes which part of its price is saved when a machine is reclaimed. A stated price is
// saved whole. Of a derived price only the power per vCPU and GB is. The machine's share of its
// host's idle power is saved with the host, and its share of the bought hardware never.
func (b *Book) Saving(s Shape, host string, at time.Time) Saving {
	r := b.reckon(s, host, at)
	whole := r.rate()
	if r.derived == nil {
		return Saving{Alone: whole}
	}
	cpu := r.partSaving(r.vcpu, r.derived.perVCPU, r.derived.from.WattsPerVCPU, r.vcpuMicros())
	memory := r.partSaving(r.memory, r.derived.perGB, r.derived.from.WattsPerGB, r.memoryMicros())
	exact := new(big.Rat).Add(cpu.alone, memory.alone)
	alone := rateOfRat(exact.Add(exact, r.machineMicros()))
	withHost := rateOfRat(new(big.Rat).Add(cpu.withHost, memory.withHost))
	return Saving{Alone: alone, WithHost: min(withHost, whole-alone)} // each is rounded by itself
}

// partSaving is an exact Saving of a part of a machine's price, in Micros per hour.
type partSaving struct{ alone, withHost *big.Rat }

// partSaving divides what a machine's vCPUs or memory cost. The part is derived if its price is the
// one that was derived, and no owner's.
func (r *reckoning) partSaving(p price, derived *big.Rat, watts *MilliWatts, cost *big.Rat) partSaving {
	if p.from != "" || derived.Sign() == 0 {
		return partSaving{cost, new(big.Rat)}
	}
	d := r.derived
	own := new(big.Rat) // of the price of one vCPU or GB, for power of its own
	if watts != nil {
		own = d.energyOf(*watts)
	}
	amount := new(big.Rat).Quo(cost, derived)
	s := partSaving{new(big.Rat).Mul(own, amount), new(big.Rat)}
	if d.energy != nil && d.shared.Sign() != 0 {
		s.withHost.Sub(derived, own)
		s.withHost.Mul(s.withHost, d.energy).Quo(s.withHost, d.shared).Mul(s.withHost, amount)
	}
	return s
}
