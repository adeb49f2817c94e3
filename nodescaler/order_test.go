package nodescaler

import (
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestOrderIDsAreNeverUsedTwice(t *testing.T) {
	label := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	ms := rapid.Int64Range(-1<<40, 1<<45)
	index := rapid.IntRange(0, 1<<20)
	rapid.Check(t, func(t *rapid.T) {
		a, b := ms.Draw(t, "a"), ms.Draw(t, "b")
		i, j := index.Draw(t, "i"), index.Draw(t, "j")
		x, y := OrderID(time.UnixMilli(a), i), OrderID(time.UnixMilli(b), j)
		if (x == y) != (a == b && i == j) {
			t.Fatalf("%d/%d is %s, %d/%d is %s", a, i, x, b, j, y)
		}
		if name := MachineName("workers", x); !label.MatchString(name) || len(name) > 40 {
			t.Fatalf("%s is no DNS label of a handy length", name)
		}
	})
	if got := OrderID(time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC), 0); got != "mtim7pc0-0" {
		t.Errorf("OrderID = %s", got)
	}
}
