// Plimsoll may.
package main

import "github.com/plimsoll/plimsoll/testbed/sim"
