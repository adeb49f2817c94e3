package policy

import (
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
)

func cordoned(n *nodescaler.Node) { n.Cordoned = true }

func pinned(p *nodescaler.Pod) { p.Pinned = "bare" }

func build(t sample.Fatal, s Spec) nodescaler.Policy {
	t.Helper()
	p, err := New(s)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return p
}
