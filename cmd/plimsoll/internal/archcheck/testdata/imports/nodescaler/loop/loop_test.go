package loop_test

import (
	"github.com/plimsoll/plimsoll/dashboard"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler/policy"
)
