// Package loop reads the clock.
package loop

import "time"

var start = time.Now()
