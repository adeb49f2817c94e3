package pve

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/intents"
)

// hanging are intents that are not written until they are let go, as while an API server does not
// answer.
type hanging struct {
	intents.Store
	mu    sync.Mutex
	until chan struct{} // nil hangs nothing
	hangs chan struct{} // receives when something hangs
}

func (h *hanging) wait() {
	h.mu.Lock()
	until := h.until
	h.mu.Unlock()
	if until == nil {
		return
	}
	select {
	case h.hangs <- struct{}{}:
	default:
	}
	<-until
}

func (h *hanging) Put(i intents.Intent) error {
	h.wait()
	return h.Store.Put(i)
}

func (h *hanging) Remove(order string) error {
	h.wait()
	return h.Store.Remove(order)
}

// hang lets nothing be written from now on until go is called.
func (h *hanging) hang() (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = make(chan struct{})
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		close(h.until)
		h.until = nil
	})
}

// What is known is listed while intents cannot be written, by any writer.
func TestListWaitsForNoWrite(t *testing.T) {
	for name, change := range map[string]func(w *world, joined string){
		"a tick":   func(w *world, _ string) { _ = w.fleet.Tick(context.Background()) },
		"an order": func(w *world, _ string) { _, _ = w.order("pve1") },
		"a return": func(w *world, joined string) { _ = w.fleet.Delete(context.Background(), joined) },
		"a spare":  func(w *world, joined string) { _ = w.fleet.Stash(context.Background(), joined) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, plan{hosts: 1, seed: 1})
			h := &hanging{Store: w.intents, hangs: make(chan struct{}, 1)}
			w.intents = h
			w.begin()
			w.run(time.Second)
			joined := w.join("pve1")[0]
			booting := w.mustOrder("pve1")
			w.until("it boots", 2*time.Minute, func() bool { return w.phase(booting) == nodescaler.Booting })
			w.sim.Advance(time.Minute) // it is a node by now
			release := h.hang()
			done := make(chan struct{})
			go func() {
				defer close(done)
				change(w, joined)
			}()
			defer func() {
				release()
				<-done
			}()
			<-h.hangs
			told := make(chan []nodescaler.Machine, 1)
			go func() {
				state, _ := w.fleet.List(context.Background())
				told <- state.Machines
			}()
			select {
			case got := <-told:
				var names []string
				for _, m := range got {
					names = append(names, m.Name)
				}
				if want := []string{joined, booting}; !slices.Equal(names, want) {
					t.Errorf("it tells of %v, want %v", names, want)
				}
			case <-time.After(5 * time.Second):
				t.Error("it waits for what is written")
			}
		})
	}
}
