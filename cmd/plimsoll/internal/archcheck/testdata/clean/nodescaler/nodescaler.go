// Package nodescaler knows the price.
package nodescaler

import "github.com/plimsoll/plimsoll/pricing"

// Buy draws.
var Buy = pricing.Draw
