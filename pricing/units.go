package pricing

import (
	"fmt"
	"math/big"
	"strings"
	"time"
)

// Micros is an amount of money in millionths of the book's unit.
type Micros int64

// MilliCPU is CPU in thousandths of a core.
type MilliCPU int64

// Bytes is memory or disk in bytes. GB (10⁹) and GiB (2³⁰) are told apart where sizes
// are read and printed, never here.
type Bytes int64

// Sizes as people write them.
const (
	KB  Bytes = 1e3
	MB  Bytes = 1e6
	GB  Bytes = 1e9
	TB  Bytes = 1e12
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40

	Core MilliCPU = 1000
	Unit Micros   = 1e6
)

// Resources is what a pod asks for or a machine has to give.
type Resources struct {
	CPU    MilliCPU `json:"cpu"`
	Memory Bytes    `json:"memory"`
}

// Plus returns r with o added.
func (r Resources) Plus(o Resources) Resources {
	return Resources{CPU: r.CPU + o.CPU, Memory: r.Memory + o.Memory}
}

// Minus returns r with o taken away; the result may be negative.
func (r Resources) Minus(o Resources) Resources {
	return Resources{CPU: r.CPU - o.CPU, Memory: r.Memory - o.Memory}
}

// Times returns r n times over.
func (r Resources) Times(n int) Resources {
	return Resources{CPU: r.CPU * MilliCPU(n), Memory: r.Memory * Bytes(n)}
}

// Within reports whether r fits into room in every dimension.
func (r Resources) Within(room Resources) bool {
	return r.CPU <= room.CPU && r.Memory <= room.Memory
}

// Rate is money per hour in thousand-millionths of the unit (10⁻⁹ units/h). A vCPU price in
// Micros times a MilliCPU count is exact in it; a memory price is rounded to it once, half
// away from zero, when a shape is quoted. Everything after that is exact.
type Rate int64

// rateScale is how many Rate make one Micros per hour.
const rateScale = 1000

// RateOf returns the rate of m per hour.
func RateOf(m Micros) Rate { return Rate(m) * rateScale }

// Units returns the rate in units per hour, for display and for policies' arithmetic.
func (r Rate) Units() float64 { return float64(r) / 1e9 }

// For returns what the rate comes to over d, rounded once to Micros, half away from zero.
func (r Rate) For(d time.Duration) Micros {
	n := new(big.Int).Mul(big.NewInt(int64(r)), big.NewInt(int64(d)))
	return Micros(divRound(n, big.NewInt(rateScale*int64(time.Hour))))
}

// Per returns the rate that spends m in d, rounded once, half away from zero. d must be positive.
func Per(m Micros, d time.Duration) Rate {
	n := new(big.Int).Mul(big.NewInt(int64(m)), big.NewInt(rateScale*int64(time.Hour)))
	return Rate(divRound(n, big.NewInt(int64(d))))
}

// divRound divides, rounding half away from zero; den must be positive.
func divRound(num, den *big.Int) int64 {
	twice := new(big.Int).Lsh(num, 1)
	if num.Sign() >= 0 {
		twice.Add(twice, den)
	} else {
		twice.Sub(twice, den)
	}
	return twice.Quo(twice, new(big.Int).Lsh(den, 1)).Int64()
}

// Units returns the amount in units, for display and for policies' arithmetic.
func (m Micros) Units() float64 { return float64(m) / 1e6 }

// String prints the amount in units with as many decimals as it needs: 5, 5.294967.
func (m Micros) String() string { return trimDecimal(int64(m), 6) }

// String prints the rate in units per hour with as many decimals as it needs.
func (r Rate) String() string { return trimDecimal(int64(r), 9) }

// trimDecimal prints v × 10⁻ᵈ without trailing zeros.
func trimDecimal(v int64, d int) string {
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	s := fmt.Sprintf("%0*d", d+1, v)
	whole, frac := s[:len(s)-d], strings.TrimRight(s[len(s)-d:], "0")
	if frac == "" {
		return sign + whole
	}
	return sign + whole + "." + frac
}
