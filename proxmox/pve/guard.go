package pve

import "sync"

// guard is a lock on memory, which its holder gives up to readers while it writes down what it is
// about to do: where that is written may not answer for seconds, and nobody is to wait so long to
// be told what is known.
type guard struct {
	change sync.Mutex // held by the one who changes something, to the end
	memory sync.Mutex // and by who reads or writes what is remembered, at this moment
}

// Lock lets no other client read or change anything.
func (g *guard) Lock() {
	g.change.Lock()
	g.memory.Lock()
}

// Unlock ends a change.
func (g *guard) Unlock() {
	g.memory.Unlock()
	g.change.Unlock()
}

// read holds what is remembered still, which may be in the middle of a change. Call what it returns
// to end that.
func (g *guard) read() (end func()) {
	g.memory.Lock()
	return g.memory.Unlock
}

// aside lets others read while the holder of the lock does something that may take long.
func (g *guard) aside(do func() error) error {
	g.memory.Unlock()
	defer g.memory.Lock()
	return do()
}

// patient are intents that are written with the lock held, and let others read meanwhile.
type patient struct {
	Intents
	mu *guard
}

// Put keeps an intent.
func (p patient) Put(i Intent) error {
	return p.mu.aside(func() error { return p.Intents.Put(i) })
}

// Remove forgets one.
func (p patient) Remove(order string) error {
	return p.mu.aside(func() error { return p.Intents.Remove(order) })
}
