package provider

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// places bound how many connections or calls there are at once, in all and of one address. A
// newcomer is let in, and the oldest goes of the address that has most: where places were refused,
// silent ones would keep clients out for as long as they like.
type places struct {
	all, of int
	mu      sync.Mutex
	held    []*holder // the oldest first
}

// holder is who has a place.
type holder struct {
	from string
	end  func()
	busy bool // it makes room for none
}

// enter gives a place to one more, and reports whether there is one.
func (p *places) enter(h *holder) bool {
	p.mu.Lock()
	p.held = append(p.held, h)
	out := p.excess(h)
	p.remove(out)
	p.mu.Unlock()
	if out != nil && out != h {
		out.end()
	}
	return out != h
}

// leave gives a place up, if it is still had.
func (p *places) leave(h *holder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(h)
}

func (p *places) remove(h *holder) {
	p.held = slices.DeleteFunc(p.held, func(is *holder) bool { return is == h })
}

// stay keeps a place until it is given up, and reports whether it was still had.
func (p *places) stay(h *holder) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.busy = true
	return slices.Contains(p.held, h)
}

// excess is who has to go when one more has come, or nil. No address makes room for one that has
// more.
func (p *places) excess(last *holder) *holder {
	count := map[string]int{}
	for _, h := range p.held {
		count[h.from]++
	}
	most := count[last.from]
	own := most > p.of
	if !own && len(p.held) <= p.all {
		return nil
	}
	out := last
	for _, h := range p.held {
		if h == last || h.busy || own && h.from != last.from {
			continue
		}
		if n := count[h.from]; n > most || n == most && out == last {
			out, most = h, n
		}
	}
	return out
}

// callPlaces are the places of those that a port reads and answers. How long a message is shows
// when it is about to be read, so that each call has the room of the longest.
type callPlaces struct{ places }

// admit takes a call in before anything of it is read, or refuses it. One that is being answered
// makes room for none; one whose question has not come does, and ends when it has not come in time.
func (c *callPlaces) admit(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	h := &holder{end: cancel}
	if p, is := peer.FromContext(ctx); is {
		h.from = addressOf(p.Addr)
	}
	if !c.enter(h) {
		cancel()
		return ctx, status.Error(codes.ResourceExhausted, "too many calls are being answered; ask again")
	}
	late := time.AfterFunc(questionTime, cancel)
	context.AfterFunc(ctx, func() { // with the end of the call, or after its time
		cancel()
		late.Stop()
		c.leave(h)
	})
	return context.WithValue(ctx, question{}, sync.OnceValue(func() bool { return late.Stop() && c.stay(h) })), nil
}

// question is the key of what a call does when its question has come.
type question struct{}

// arrived says that a call's question has come. Of a stream, the first does.
func arrived(ctx context.Context) error {
	if came, is := ctx.Value(question{}).(func() bool); is && !came() {
		return status.Errorf(codes.DeadlineExceeded, "the question must come within %s, and at once where many ask", questionTime)
	}
	return nil
}

// limited is a listener with places for connections. Those that have not shown a certificate yet
// have places of their own, so that they take none of clients that have.
type limited struct {
	net.Listener
	strangers, clients *places
}

// Limited is a listener with places for so many connections, in all and of one address. A newcomer
// is let in, and the oldest is closed of the address that has most.
func Limited(l net.Listener, all, of int) net.Listener { return newLimited(l, all, of) }

func newLimited(l net.Listener, all, of int) *limited {
	return &limited{l, &places{all: all, of: of}, &places{all: all, of: of}}
}

// Accept waits for a connection.
func (l *limited) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &limitedConn{Conn: raw, l: l}
	c.place = &holder{from: addressOf(raw.RemoteAddr()), end: func() { _ = c.Close() }}
	l.strangers.enter(c.place)
	return c, nil
}

// addressOf is whose connection it is: its host's.
func addressOf(at net.Addr) string {
	if tcp, is := at.(*net.TCPAddr); is {
		return tcp.IP.String()
	}
	return at.Network()
}

// limitedConn makes room for another when it is closed.
type limitedConn struct {
	net.Conn
	l      *limited
	place  *holder
	closed atomic.Bool
}

// Close closes it.
func (c *limitedConn) Close() error {
	c.closed.Store(true)
	c.l.strangers.leave(c.place)
	c.l.clients.leave(c.place)
	return c.Conn.Close()
}

// known moves a connection to the places of those that have shown a certificate.
func (c *limitedConn) known() {
	c.l.strangers.leave(c.place)
	c.l.clients.enter(c.place)
	if c.closed.Load() { // meanwhile
		c.l.clients.leave(c.place)
	}
}

// mutual are credentials that let only clients in whose certificate is good.
type mutual struct {
	credentials.TransportCredentials
}

// ServerHandshake learns who a client is.
func (m mutual) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := m.TransportCredentials.ServerHandshake(raw)
	if l, is := raw.(*limitedConn); is && err == nil {
		l.known()
	}
	return c, info, err
}
