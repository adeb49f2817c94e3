package draft

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Because is a reason with its code and its sentence.
func Because(code, format string, args ...any) nodescaler.Reason {
	return nodescaler.Reason{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Findings are what was found of each of many things, by code. Of a thousand nodes most are kept
// for the same reason, so a few are named and the rest counted.
type Findings map[string]*finding

type finding struct {
	named []nodescaler.Reason
	more  int
}

// Add notes what was found of one thing.
func (f Findings) Add(code, format string, args ...any) {
	const named = 5
	if f[code] == nil {
		f[code] = &finding{}
	}
	if len(f[code].named) == named {
		f[code].more++
		return
	}
	f[code].named = append(f[code].named, Because(code, format, args...))
}

// Some counts things and names the first of them: 7 pods (a, b, c and 4 more).
func Some(what string, names []string) string {
	const shown = 5
	if len(names) != 1 {
		what += "s"
	}
	if len(names) == 0 {
		return "no " + what
	}
	list := strings.Join(names[:min(len(names), shown)], ", ")
	if more := len(names) - shown; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%d %s (%s)", len(names), what, list)
}

// PodNames names pods in their order.
func PodNames(pods []*nodescaler.Pod) []string {
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = p.Name
	}
	return names
}

// Percent prints a share for people.
func Percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// Ordinal is the word for a place: 1st, 2nd.
func Ordinal(n int) string {
	switch {
	case n%10 == 1 && n%100 != 11:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2 && n%100 != 12:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3 && n%100 != 13:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}

// Dominant is the larger of the shares that used takes of capacity.
func Dominant(used, capacity pricing.Resources) float64 {
	return max(Share(int64(used.CPU), int64(capacity.CPU)), Share(int64(used.Memory), int64(capacity.Memory)))
}

// Share is the part that used is of a whole. Something used of nothing is all of it.
func Share(used, of int64) float64 {
	switch {
	case of > 0:
		return float64(used) / float64(of)
	case used > 0:
		return 1
	}
	return 0
}

// Least returns the element for which key is smallest; of equals the first one, which in the
// index's lists is the first by name. The list must not be empty.
func Least[T any, K cmp.Ordered](list []T, key func(T) K) T {
	return slices.MinFunc(list, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
}
