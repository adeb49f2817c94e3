package policy

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// Quantity is an amount in thousandths, written as Kubernetes writes it: 25m, 0.5, 10, 2k, 1Mi.
type Quantity int64

var (
	quantityForm  = regexp.MustCompile(`^(-?\d+(?:\.\d+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti|)$`)
	quantityScale = map[string]int64{
		"m": 1, "": 1e3, "k": 1e6, "M": 1e9, "G": 1e12, "T": 1e15,
		"Ki": 1e3 << 10, "Mi": 1e3 << 20, "Gi": 1e3 << 30, "Ti": 1e3 << 40,
	}
)

// ParseQuantity reads a quantity, and refuses what is no whole number of thousandths.
func ParseQuantity(s string) (Quantity, error) {
	m := quantityForm.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("must be a quantity such as 25m, 0.5 or 2k, was %q", s)
	}
	v, _ := new(big.Rat).SetString(m[1])
	v.Mul(v, new(big.Rat).SetInt64(quantityScale[m[2]]))
	if !v.IsInt() || !v.Num().IsInt64() {
		return 0, fmt.Errorf("must be a whole number of thousandths below 9.2×10¹⁵, was %q", s)
	}
	return Quantity(v.Num().Int64()), nil
}

// UnmarshalText reads a quantity.
func (q *Quantity) UnmarshalText(text []byte) (err error) {
	*q, err = ParseQuantity(string(text))
	return err
}

// UnmarshalJSON reads a quantity that is written as a string or as a number.
func (q *Quantity) UnmarshalJSON(data []byte) error {
	text := string(data)
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	return q.UnmarshalText([]byte(text))
}

// MarshalText prints the quantity as it is read.
func (q Quantity) MarshalText() ([]byte, error) { return []byte(q.String()), nil }

// String prints thousandths below one with an m, as in 25m, and all else as a decimal.
func (q Quantity) String() string {
	if -1000 < q && q < 1000 && q != 0 {
		return strconv.FormatInt(int64(q), 10) + "m"
	}
	sign, whole, frac := "", int64(q/1000), int64(q%1000)
	if q < 0 {
		sign, whole, frac = "-", -whole, -frac
	}
	s := fmt.Sprintf("%s%d.%03d", sign, whole, frac)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
