package demo

import (
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Mishap is something that a session's caller may let go wrong.
type Mishap struct {
	Kind  sim.FaultKind
	Short string // its name, for a menu
	Text  string // what it does
}

// Mishaps are all there are.
var Mishaps = []Mishap{
	{sim.HostDies, "a host", "the fullest host dies for 30 minutes"},
	{sim.CloneFails, "a clone", "the next clone fails"},
	{sim.MetricsVanish, "the metrics", "metrics vanish for 10 minutes"},
}

// How long things stay broken.
const (
	hostAway = 30 * time.Minute
	blind    = 10 * time.Minute
)

// clumsy is when the storage fails a clone of its own accord, after the start: one day without a
// mishap would be no day in the life of a cluster.
const clumsy = 40 * time.Minute

// Inject lets something go wrong now.
func (s *Session) Inject(kind sim.FaultKind) error {
	f := sim.Fault{Kind: kind}
	var text string
	switch kind {
	case sim.HostDies:
		f.Host, f.For = fullest(s.last.Observed.Hosts), hostAway
		if f.Host == "" {
			return fmt.Errorf("no host is left to die")
		}
		text = fmt.Sprintf("%s dies, and every machine on it, for %s", f.Host, pricing.Short(hostAway))
	case sim.CloneFails:
		text = "the storage fails the next clone"
	case sim.MetricsVanish:
		f.For = blind
		text = fmt.Sprintf("no metric can be read for %s", pricing.Short(blind))
	case sim.NoisyNeighbour:
		return fmt.Errorf("a demo knows no %s", kind)
	}
	if err := s.world.Inject(f); err != nil {
		return err
	}
	s.note(Event{At: s.Now(), Kind: Fault, Text: text})
	return nil
}

// fullest is the host that is on line and carries the most; the first by name of several.
func fullest(hosts []loop.HostLoad) string {
	name, most := "", -1
	for i := range hosts {
		h := &hosts[i]
		cpu := 0
		for j := range h.Machines {
			cpu += int(h.Machines[j].Shape.CPU)
		}
		if h.Online && cpu > most {
			name, most = h.Name, cpu
		}
	}
	return name
}
