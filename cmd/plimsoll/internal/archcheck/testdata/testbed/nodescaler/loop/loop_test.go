package loop_test

import "github.com/plimsoll/plimsoll/testbed/sim"
