package pricing

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

// byteUnits are the units that sizes are printed in; where two print alike, the first is taken.
var byteUnits = []struct {
	name string
	size Bytes
}{
	{"TB", TB}, {"GB", GB}, {"MB", MB}, {"kB", KB},
	{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB},
}

// byteSuffixes are the units that sizes are read in besides: Kubernetes' own, in its spelling,
// and what they share their meaning with.
var byteSuffixes = map[string]Bytes{
	"B": 1, "KB": KB,
	"k": KB, "M": MB, "G": GB, "T": TB,
	"Ki": KiB, "Mi": MiB, "Gi": GiB, "Ti": TiB,
}

const byteRule = "must be a size in B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024) or Kubernetes' k, M, G, T, Ki, Mi, Gi, Ti"

// ParseBytes reads a size: 8GB, 8GiB, 1.5GB, and as Kubernetes writes them 512Mi, 8G. GB is 10⁹
// bytes and GiB is 2³⁰. A size without a unit is refused: it is more often a forgotten unit
// than a number of bytes. A fraction of a byte is rounded to the nearest one.
func ParseBytes(s string) (Bytes, error) {
	n, suffix, ok := scanNumber(s)
	if !ok {
		return 0, fault(byteRule, s)
	}
	if n.unscaled.Sign() < 0 {
		return 0, fault("must be ≥ 0", s)
	}
	size, ok := byteUnit(strings.TrimPrefix(suffix, " "))
	if !ok {
		return 0, fault(byteRule, s)
	}
	bytes := n.times(int64(size))
	if !bytes.IsInt64() {
		return 0, fault("must be at most "+Bytes(saturate(bytes)).String(), s)
	}
	return Bytes(bytes.Int64()), nil
}

func byteUnit(name string) (Bytes, bool) {
	for _, u := range byteUnits {
		if u.name == name {
			return u.size, true
		}
	}
	size, ok := byteSuffixes[name]
	return size, ok
}

// ParseMilliCPU reads a number of cores: 2, 0.5, 500m.
func ParseMilliCPU(s string) (MilliCPU, error) {
	n, suffix, ok := scanNumber(s)
	scale, known := map[string]int64{"": int64(Core), "m": 1}[suffix]
	if !ok || !known {
		return 0, fault("must be a number of cores such as 2, 0.5 or 500m", s)
	}
	milli := n.times(scale)
	switch {
	case milli.Sign() < 0:
		return 0, fault("must be ≥ 0", s)
	case !n.whole(scale):
		return 0, fault("must be a whole number of thousandths of a core", s)
	case !milli.IsInt64():
		return 0, fault("must be at most "+MilliCPU(saturate(milli)).String(), s)
	}
	return MilliCPU(milli.Int64()), nil
}

// ParseMicros reads an amount of money: 40, 0.0316, -3. What would have to be rounded is refused.
func ParseMicros(s string) (Micros, error) {
	v, err := parseDecimal(s, 6)
	return Micros(v), err
}

// parseDecimal reads a number exactly, in units of 10⁻ᵈ.
func parseDecimal(s string, d int) (int64, error) {
	n, rest, ok := scanNumber(s)
	if !ok || rest != "" {
		return 0, fault("must be a decimal number such as 40 or 0.0316", s)
	}
	v := n.times(pow10(d).Int64())
	switch {
	case n.decimals > d:
		return 0, fault(fmt.Sprintf("must have at most %d decimals", d), s)
	case !v.IsInt64():
		return 0, fault("must not be further from 0 than "+trimDecimal(saturate(v), d), s)
	}
	return v.Int64(), nil
}

// fault says which rule a value breaks; the key is for the caller to add.
func fault(rule, value string) error { return fmt.Errorf("%s, was %q", rule, value) }

// number is a decimal as people write it: unscaled × 10^-decimals.
type number struct {
	unscaled *big.Int
	decimals int
}

// scanNumber reads the decimal that s starts with: a sign perhaps, digits, and perhaps a point
// with more digits. No exponents, no bare points: those are slips of the pen in a price.
func scanNumber(s string) (n number, rest string, ok bool) {
	sign, s := "", s
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	whole := leadingDigits(s)
	s = s[len(whole):]
	decimals := ""
	if strings.HasPrefix(s, ".") {
		if decimals = leadingDigits(s[1:]); decimals == "" {
			return number{}, "", false
		}
		s = s[1+len(decimals):]
	}
	unscaled, ok := new(big.Int).SetString(sign+whole+decimals, 10)
	if !ok || whole == "" {
		return number{}, "", false
	}
	return number{unscaled: unscaled, decimals: len(decimals)}, s, true
}

func leadingDigits(s string) string {
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		return s
	}
	return s[:end]
}

// times returns the number times scale, rounded half away from zero.
func (n number) times(scale int64) *big.Int {
	return round(new(big.Int).Mul(n.unscaled, big.NewInt(scale)), pow10(n.decimals))
}

// whole reports whether the number times scale has no fraction.
func (n number) whole(scale int64) bool {
	scaled := new(big.Int).Mul(n.unscaled, big.NewInt(scale))
	return scaled.Rem(scaled, pow10(n.decimals)).Sign() == 0
}

func pow10(d int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d)), nil)
}

// In JSON money, rates, cores, watts and percentages are numbers in the unit that people think in,
// never in the thousandths or millionths of the integers. So a number means the same in a
// configuration, a journal and an answer. Sizes are numbers of bytes. All of them are also read
// from strings, where sizes and cores may have their unit.

// MarshalJSON writes units.
func (m Micros) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// MarshalJSON writes units per hour.
func (r Rate) MarshalJSON() ([]byte, error) { return []byte(r.String()), nil }

// MarshalJSON writes cores.
func (c MilliCPU) MarshalJSON() ([]byte, error) { return []byte(c.Cores()), nil }

// MarshalJSON writes watts.
func (w MilliWatts) MarshalJSON() ([]byte, error) { return []byte(w.String()), nil }

// MarshalJSON writes percent.
func (p Percent) MarshalJSON() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalJSON reads units, as a number or a string.
func (m *Micros) UnmarshalJSON(data []byte) error { return unmarshalJSON(data, m.UnmarshalText) }

// UnmarshalJSON reads units per hour, as a number or a string.
func (r *Rate) UnmarshalJSON(data []byte) error { return unmarshalJSON(data, r.UnmarshalText) }

// UnmarshalJSON reads watts, as a number or a string.
func (w *MilliWatts) UnmarshalJSON(data []byte) error { return unmarshalJSON(data, w.UnmarshalText) }

// UnmarshalJSON reads percent, as a number or a string.
func (p *Percent) UnmarshalJSON(data []byte) error { return unmarshalJSON(data, p.UnmarshalText) }

// UnmarshalJSON reads cores, as a number, which may be negative, or as ParseMilliCPU does.
func (c *MilliCPU) UnmarshalJSON(data []byte) error {
	if isString(data) {
		return unmarshalJSON(data, c.UnmarshalText)
	}
	return setDecimal((*int64)(c), data, 3)
}

// UnmarshalJSON reads a number of bytes, which may be negative, or as ParseBytes does.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	if isString(data) {
		return unmarshalJSON(data, b.UnmarshalText)
	}
	return setDecimal((*int64)(b), data, 0)
}

// UnmarshalText reads units.
func (m *Micros) UnmarshalText(text []byte) error { return setDecimal((*int64)(m), text, 6) }

// UnmarshalText reads units per hour.
func (r *Rate) UnmarshalText(text []byte) error { return setDecimal((*int64)(r), text, 9) }

// UnmarshalText reads watts.
func (w *MilliWatts) UnmarshalText(text []byte) error { return setDecimal((*int64)(w), text, 3) }

// UnmarshalText reads percent.
func (p *Percent) UnmarshalText(text []byte) error { return setDecimal((*int64)(p), text, 3) }

// UnmarshalText reads what ParseMilliCPU does.
func (c *MilliCPU) UnmarshalText(text []byte) (err error) {
	*c, err = ParseMilliCPU(string(text))
	return err
}

// UnmarshalText reads what ParseBytes does.
func (b *Bytes) UnmarshalText(text []byte) (err error) {
	*b, err = ParseBytes(string(text))
	return err
}

func setDecimal(into *int64, text []byte, d int) (err error) {
	*into, err = parseDecimal(string(text), d)
	return err
}

func isString(data []byte) bool { return len(data) > 0 && data[0] == '"' }

// unmarshalJSON hands a JSON number or the contents of a JSON string to a text reader.
func unmarshalJSON(data []byte, read func([]byte) error) error {
	if !isString(data) {
		return read(data)
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	return read([]byte(s))
}
