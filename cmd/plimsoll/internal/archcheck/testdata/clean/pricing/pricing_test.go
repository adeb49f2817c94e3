package pricing_test

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"pgregory.net/rapid"
)

// Tests read files and clocks, use the test modules, and know the other pure rooms.
func TestNothing(t *testing.T) {
	_, _, _, _, _ = os.Args, time.Now(), cmp.Diff, rapid.Check, nodescaler.Buy
	pricing.At()
}
