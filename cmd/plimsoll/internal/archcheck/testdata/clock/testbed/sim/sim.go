// Package sim waits.
package sim

import "time"

// Wait waits.
func Wait() { time.Sleep(1) }
