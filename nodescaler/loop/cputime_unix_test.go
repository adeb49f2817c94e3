//go:build unix

package loop_test

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used so far, the collector's part included: unlike the wall's
// time it does not count what others keep the machine busy with.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
