// Command peers plays ours and others' in one program.
package main

import "github.com/plimsoll/plimsoll/pricing"

var _ = pricing.Micros(1)
