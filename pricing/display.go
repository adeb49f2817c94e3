package pricing

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Short prints a duration without the zeros at its end, as prices and periods are spoken of:
// 30m for 30m0s.
func Short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// signs are the currencies whose sign is commonly written before the amount.
var signs = map[string]string{"EUR": "€", "USD": "$", "GBP": "£", "JPY": "¥"}

// Display prints the amount for people, with its unit: €1.20, −€0.04, 3.50 units. It has two
// decimals, and more where these would show next to nothing.
func (m Micros) Display(unit string) string { return display(m.Units(), 2, unit) }

// Display prints the rate for people: €0.031/h, 2.500 units/h. It has three decimals, and more
// where these would show next to nothing.
func (r Rate) Display(unit string) string { return display(r.Units(), 3, unit) + "/h" }

// PerMonth is what the rate comes to in a month, a twelfth of a year of 365 days.
func (r Rate) PerMonth() Micros { return r.For(730 * time.Hour) }

// display prints an amount with so many decimals, or two significant digits if that is more.
func display(v float64, decimals int, unit string) string {
	sign, v := minus(v), math.Abs(v)
	if v > 0 {
		decimals = max(decimals, 1-int(math.Floor(math.Log10(v))))
	}
	number := strconv.FormatFloat(v, 'f', min(decimals, 9), 64)
	if mark, ok := signs[unit]; ok {
		return sign + mark + number
	}
	return sign + number + " " + unit
}

// minus is the sign of a number, as it is printed.
func minus(v float64) string {
	if v < 0 {
		return "−"
	}
	return ""
}

// Count prints a number of things: 1 pod, 2 pods.
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Are is Count with the verb: 1 pod is, 2 pods are.
func Are(n int, what string) string {
	if n == 1 {
		return Count(n, what) + " is"
	}
	return Count(n, what) + " are"
}
