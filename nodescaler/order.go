package nodescaler

import (
	"strconv"
	"time"
)

// OrderID names the i-th order of the step at now. Two steps that are a millisecond apart
// never share one, and it is short and plain enough to end a machine's name: mtim7pc0-0.
// A name that was used once is refused by RKE2 and k3s for ever after, so ids are made from
// the time and never from a count that starts again.
func OrderID(now time.Time, i int) string {
	// Unsigned, so that a world whose clock starts before 1970 has no sign in its names.
	return strconv.FormatUint(uint64(now.UnixMilli()), 36) + "-" + strconv.FormatInt(int64(i), 36)
}

// MachineName is the name of the machine, and of the node, that an order makes.
func MachineName(pool, order string) string { return pool + "-" + order }
