// Package policy knows the machines.
package policy

import (
	scale "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
)
