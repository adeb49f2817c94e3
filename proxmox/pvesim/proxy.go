package pvesim

import (
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// Between a client and the code that serves its call are, on every host, pveproxy, which passes on
// what is for another host, and pvedaemon, whose few workers do what needs root's rights. A
// connection between the two belongs to one worker, so that calls that come when all are busy wait
// for one of them, while others have long been idle again.
const (
	// workerConnections is how many calls pveproxy has under way to a worker. Those behind them
	// wait in pveproxy, and their time does not count.
	workerConnections = 4
	// proxyLine is how many calls may wait in pveproxy. Those that come on top are given
	// connections that a worker has just closed.
	proxyLine = 18
	// waitBroken is when that is noticed.
	waitBroken = 9500 * time.Millisecond
	// arpExpires is how long a host that has gone is still known by its address. Until then packets
	// to it are lost, and from then on there is no route.
	arpExpires = 30 * time.Second
)

// noRoute is how long it takes to learn that there is no route.
var noRoute = timing.Range{Min: 2 * time.Second, Max: 20 * time.Second}

// proxy passes a call on to another host, and returns how that failed.
func (k exchange) proxy(h *world.Node) error {
	if k.World.Connects(k.Entry, h) {
		return nil
	}
	reason, limit := "Connection timed out", world.WaitProxy
	if k.World.Clock.Sub(k.World.Lost[[2]int{k.Entry.ID, h.ID}]) >= arpExpires {
		reason, limit = "No route to host", noRoute.Draw(k.World.RNG("arp "+k.Entry.Name))
	}
	if k.Process.Wait(limit, func() bool { return k.World.Connects(k.Entry, h) }) {
		return nil
	}
	return &failure.Error{Status: 595, Reason: reason, Bare: true}
}

// occupyWorker has one of pvedaemon's workers on the host that answers do the work. A caller that
// waited too long gets an error, and the work goes on nonetheless, or is even begun later.
func (k exchange) occupyWorker(work func(at *api.Call) (any, error)) (any, error) {
	h := k.Node
	waiting := 0
	for _, w := range h.Workers {
		waiting += len(w.Line)
	}
	if waiting >= proxyLine {
		k.Process.Sleep(waitBroken)
		return nil, &failure.Error{Status: 596, Reason: "Broken pipe", Bare: true}
	}
	w := k.daemonOf(h)
	k.queue(w)
	if err := k.proxy(h); err != nil { // it has gone meanwhile
		return nil, err
	}
	var data any
	var err error
	done := false
	at := *k.Call
	w.Underway++
	child := k.World.Start(func(p *engine.Process) {
		at.Process = p
		defer func() {
			w.Underway--
			delete(h.Serving, p)
		}()
		p.Until(func() bool { return !w.Busy })
		w.Busy = true
		defer func() { w.Busy = false }()
		data, err = work(&at)
		done = true
	})
	h.Serving[child] = true
	if !k.Process.Wait(world.WaitProxy, func() bool { return done }) {
		return nil, &failure.Error{Status: 596, Reason: "Connection timed out", Bare: true}
	}
	k.Total = at.Total
	return data, err
}

// daemonOf is a worker that is idle, if there is one.
func (k exchange) daemonOf(h *world.Node) *world.Worker {
	idle := slices.DeleteFunc(slices.Clone(h.Workers), func(w *world.Worker) bool { return w.Underway > 0 })
	if len(idle) == 0 {
		idle = h.Workers
	}
	return idle[k.World.RNG("connections to "+h.Name).IntN(len(idle))]
}

// queue waits until pveproxy has a connection to the worker for the call. Its processes share their
// calls out unevenly, so that no one knows who comes next.
func (k exchange) queue(w *world.Worker) {
	if len(w.Line) == 0 && w.Underway < workerConnections {
		return
	}
	turn := k.World.RNG("pveproxy").Float64()
	w.Line = append(w.Line, turn)
	defer func() { w.Line = slices.DeleteFunc(w.Line, func(t float64) bool { return t == turn }) }()
	k.Process.Until(func() bool { return w.Underway < workerConnections && slices.Min(w.Line) == turn })
}
