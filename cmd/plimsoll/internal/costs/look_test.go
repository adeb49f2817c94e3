package costs

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/pricing"
)

// A machine's state is not asked for here: what its node shows must do.
func TestANodeThatWasEmptiedAndIsSilentIsASpare(t *testing.T) {
	for _, c := range []struct {
		name string
		node nodescaler.Node
		want nodescaler.Phase
	}{
		{"ready", nodescaler.Node{Pool: "web", Ready: true}, nodescaler.Joined},
		{"being emptied", nodescaler.Node{Pool: "web", Ready: true, Draining: true, Cordoned: true}, nodescaler.Joined},
		{"silent", nodescaler.Node{Pool: "web"}, nodescaler.Joined},
		{"emptied and silent", nodescaler.Node{Pool: "web", Draining: true, Cordoned: true}, nodescaler.Spare},
		{"the same of no pool", nodescaler.Node{Draining: true, Cordoned: true}, nodescaler.Joined},
	} {
		var p kube.Picture
		p.State.Nodes = []nodescaler.Node{c.node}
		if got := Machines(&p, pricing.DefaultBook(), true, time.Now()).Snapshot.Machines[0].Phase; got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
