// Package loop reads the clock outside run.go.
package loop

import "time"

var start = time.Now()
