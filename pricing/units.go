package pricing

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Micros is an amount of money in millionths of the book's unit.
type Micros int64

// MilliCPU is CPU in thousandths of a core.
type MilliCPU int64

// Bytes is memory or disk in bytes. GB (10⁹) and GiB (2³⁰) are distinguished where sizes are read
// and printed, never here.
type Bytes int64

// MilliWatts is electric power in thousandths of a watt.
type MilliWatts int64

// Percent is a proportion in thousandths of a percent.
type Percent int64

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

	Core MilliCPU   = 1000
	Unit Micros     = 1e6
	Watt MilliWatts = 1000

	// Hundred is the whole of something.
	Hundred Percent = 100_000
)

// Resources is what a pod asks for or a machine has to give.
type Resources struct {
	CPU    MilliCPU `json:"cpu"`
	Memory Bytes    `json:"memory"`
}

// Plus returns r with o added. What is too large becomes the largest there is: a sum that wraps
// round to a negative one would fit anywhere.
func (r Resources) Plus(o Resources) Resources {
	return Resources{CPU: MilliCPU(add(int64(r.CPU), int64(o.CPU))), Memory: Bytes(add(int64(r.Memory), int64(o.Memory)))}
}

// Minus returns r with o taken away; the result may be negative.
func (r Resources) Minus(o Resources) Resources {
	return r.Plus(Resources{CPU: -max(o.CPU, -math.MaxInt64), Memory: -max(o.Memory, -math.MaxInt64)})
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
// Micros times a MilliCPU count is exact in it; a machine's price is rounded to it once, half
// away from zero, when a shape is quoted. Everything after that is exact.
//
// What is too large for a Rate or for Micros becomes the largest there is. Without that, the
// dearest machine would wrap round to a negative price and be the first one bought.
type Rate int64

// rateScale is how many Rate make one Micros per hour.
const rateScale = 1000

// RateOf returns the rate of m per hour.
func RateOf(m Micros) Rate {
	if r := m * rateScale; r/rateScale == m {
		return Rate(r)
	}
	return Rate(saturate(new(big.Int).Mul(big.NewInt(int64(m)), big.NewInt(rateScale))))
}

// Units returns the rate in units per hour, for display and for policies' arithmetic.
func (r Rate) Units() float64 { return float64(r) / 1e9 }

// For returns what the rate comes to over d, rounded once to Micros, half away from zero.
func (r Rate) For(d time.Duration) Micros {
	return settle(new(big.Int).Mul(big.NewInt(int64(r)), big.NewInt(int64(d))))
}

// Per returns the rate that spends m in d, rounded once, half away from zero. d must be positive.
func Per(m Micros, d time.Duration) Rate {
	n := new(big.Int).Mul(big.NewInt(int64(m)), big.NewInt(rateScale*int64(time.Hour)))
	return Rate(divRound(n, big.NewInt(int64(d))))
}

// Limit is an amount of money that is not to be crossed, with its period.
type Limit struct {
	Amount Micros        `json:"amount" strict:"required"`
	Per    time.Duration `json:"per" strict:"required"`
}

// Rate is the limit for an hour; none is 0.
func (l *Limit) Rate() Rate {
	if l == nil {
		return 0
	}
	return Per(l.Amount, l.Per)
}

// settle turns an exact cost in Rate × nanoseconds into money. It is the one place where cost
// over time is rounded.
func settle(exact *big.Int) Micros {
	return Micros(divRound(exact, big.NewInt(rateScale*int64(time.Hour))))
}

// divRound divides as round does, and returns the largest number there is for one too large.
func divRound(num, den *big.Int) int64 { return saturate(round(num, den)) }

// round divides, rounding half away from zero; den must be positive.
func round(num, den *big.Int) *big.Int {
	twice := new(big.Int).Lsh(num, 1)
	if num.Sign() >= 0 {
		twice.Add(twice, den)
	} else {
		twice.Sub(twice, den)
	}
	return twice.Quo(twice, new(big.Int).Lsh(den, 1))
}

// saturate returns n, or the nearest number that fits.
func saturate(n *big.Int) int64 {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.Sign() < 0:
		return math.MinInt64
	default:
		return math.MaxInt64
	}
}

// Units returns the amount in units, for display and for policies' arithmetic.
func (m Micros) Units() float64 { return float64(m) / 1e6 }

// String prints the amount in units with as many decimals as it needs: 5, 5.294967.
func (m Micros) String() string { return trimDecimal(int64(m), 6) }

// String prints the rate in units per hour with as many decimals as it needs.
func (r Rate) String() string { return trimDecimal(int64(r), 9) }

// String prints the power in watts with as many decimals as it needs.
func (w MilliWatts) String() string { return trimDecimal(int64(w), 3) }

// String prints the proportion in percent, without the sign, with as many decimals as it needs.
func (p Percent) String() string { return trimDecimal(int64(p), 3) }

// String prints whole cores as such and the rest in thousandths: 2, 500m.
func (c MilliCPU) String() string {
	if c%Core == 0 {
		return strconv.FormatInt(int64(c/Core), 10)
	}
	return strconv.FormatInt(int64(c), 10) + "m"
}

// Cores prints the cores as a decimal: 2, 0.5.
func (c MilliCPU) Cores() string { return trimDecimal(int64(c), 3) }

// String prints the size exactly, in the unit that makes it shortest: 8GB, 8GiB, 1.5GiB, 1001B.
// ParseBytes reads it back, unless it is negative.
func (b Bytes) String() string {
	sign, n := magnitude(int64(b))
	best := strconv.FormatUint(n, 10) + "B"
	for _, u := range byteUnits {
		size := uint64(u.size)
		if n < size {
			continue
		}
		hi, lo := bits.Mul64(n, 1000)
		thousandths, rest := bits.Div64(hi, lo, size)
		if s := formatDecimal(thousandths, 3) + u.name; rest == 0 && len(s) < len(best) {
			best = s
		}
	}
	return sign + best
}

// Rounded prints bytes in the binary unit that keeps the number short.
func (b Bytes) Rounded() string {
	if b >= GiB || b <= -GiB {
		return strconv.FormatFloat(float64(b)/float64(GiB), 'f', 1, 64) + " GiB"
	}
	return strconv.FormatInt(int64(b/MiB), 10) + " MiB"
}

// trimDecimal prints v × 10⁻ᵈ without trailing zeros.
func trimDecimal(v int64, d int) string {
	sign, n := magnitude(v)
	return sign + formatDecimal(n, d)
}

// magnitude splits v into its sign and the rest, which for the smallest int64 is no int64.
func magnitude(v int64) (sign string, n uint64) {
	if v < 0 {
		return "-", -uint64(v)
	}
	return "", uint64(v)
}

// formatDecimal prints n × 10⁻ᵈ without trailing zeros.
func formatDecimal(n uint64, d int) string {
	s := strconv.FormatUint(n, 10)
	if len(s) <= d {
		s = strings.Repeat("0", d+1-len(s)) + s
	}
	whole, decimals := s[:len(s)-d], strings.TrimRight(s[len(s)-d:], "0")
	if decimals == "" {
		return whole
	}
	return whole + "." + decimals
}
