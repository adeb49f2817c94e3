// Package podscaler hides a clock.
package podscaler

import . "time"

var start = Now()
