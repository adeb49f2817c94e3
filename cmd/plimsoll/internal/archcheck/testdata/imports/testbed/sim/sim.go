// Package sim brings its own policies.
package sim

import (
	"github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/podscaler/policy"
)
