package pricing

import (
	"math/big"
	"time"
)

// Parts is a machine's price by what is paid for. The two add up to its rate.
type Parts struct {
	CPU    Rate `json:"cpu"`
	Memory Rate `json:"memory"`
}

// Sum is both parts together.
func (p Parts) Sum() Rate { return p.CPU + p.Memory }

// Parts divides what Rate returns into what is paid for the vCPUs and for the memory. A shape
// with one price for everything is divided as the prices of vCPU and memory would divide it,
// and in halves where these come to nothing.
func (b *Book) Parts(s Shape, host string, at time.Time) Parts {
	r := b.reckon(s, host, at)
	whole := r.rate()
	if r.whole == nil {
		cpu := rateOfRat(b.scaled(r.vcpuMicros(), r.tariff))
		return Parts{CPU: cpu, Memory: whole - cpu} // rounding keeps order: cpu is not above the whole
	}
	s.Name = "" // as if the shape had no price of its own
	r = b.reckon(s, host, at)
	cpu, both := r.vcpuMicros(), r.vcpuMicros()
	if both.Add(both, r.memoryMicros()); both.Sign() == 0 {
		cpu, both = big.NewRat(1, 1), big.NewRat(2, 1)
	}
	cpu.Quo(cpu, both).Mul(cpu, new(big.Rat).SetInt64(int64(whole)))
	share := Rate(divRound(cpu.Num(), cpu.Denom()))
	return Parts{CPU: share, Memory: whole - share}
}
