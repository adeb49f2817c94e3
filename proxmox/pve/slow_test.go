package pve

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// A proof that is longer on its way than it lasts is still one when it comes: dated by its question it would be
// asked for again and again.
func TestHostThatAnswersSlowlyMakesMachines(t *testing.T) {
	for _, by := range []string{"1s", "3s", "10s"} {
		t.Run(by, func(t *testing.T) {
			w := newWorld(t, plan{hosts: 2, seed: 5}).begin()
			w.run(time.Minute)
			w.inject("slow GET /nodes/pve2/qemu/*/config by="+by, "slow PUT /nodes/pve2/qemu/*/config by="+by)
			before := w.calls("GET", "/config")
			name := w.mustOrder("pve2")
			w.until("the machine has joined", 10*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
			if n := w.calls("GET", "/config") - before; n > 10 {
				t.Errorf("its configuration was read %d times", n)
			}
		})
	}
}
