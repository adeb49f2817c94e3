package provider

import (
	"context"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// slow is a port whose lists wait until they are let go.
type slow struct {
	*port
	asked chan struct{} // a list was begun
	going chan struct{} // closed when lists are let go
}

func (s *slow) List(ctx context.Context) (loop.MachineState, error) {
	if s.going != nil {
		s.asked <- struct{}{}
		<-s.going
	}
	return s.port.List(ctx)
}

// One call reads what has become too old; the others are answered meanwhile, from what is there.
func TestNobodyWaitsForWhoReads(t *testing.T) {
	var machines *slow
	s, p := made(t, func(c *Config) {
		machines = &slow{port: c.Machines.(*port)}
		c.Machines = machines
		now := time.Unix(0, 0)
		// Everything is always too old.
		c.Now = func() time.Time { now = now.Add(time.Hour); return now }
	})
	id := groupOf(t, s, "workers.small")
	must.Do(t, increase(t, s, id, 2))
	machines.asked, machines.going = make(chan struct{}, 1), make(chan struct{})
	read := make(chan int32)
	go func() { read <- target(t, s, id) }()
	<-machines.asked
	p.set(nodescaler.Deleting, nil) // which no one has seen yet
	for range 3 {
		if got := target(t, s, id); got != 2 {
			t.Errorf("target %d, want the 2 of before", got)
		}
	}
	close(machines.going)
	if got := <-read; got != 0 {
		t.Errorf("who read was told %d, want 0", got)
	}
	if got := target(t, s, id); got != 0 {
		t.Errorf("target %d, want 0", got)
	}
}
