package sim

import (
	"math"
	"time"
)

// request is one request being served or waiting in a pod.
type request struct {
	start  time.Duration
	finish float64 // the server's virtual time at which it is done
	need   float64 // CPU seconds
	user   int32
}

// server is a pod's serving side: processor sharing of its CPU quota among at most
// svc.cfg.Concurrency requests, the others waiting in order of arrival.
//
// All requests in service progress at one rate, so a virtual clock that counts CPU seconds
// per request orders their ends once and for all: arrivals and departures move the clock's
// speed, never the order.
type server struct {
	id      int
	svc     *service
	pod     *pod
	serving []request // heap by finish
	waiting []request
	virtual float64
	last    time.Duration // when virtual was last brought up to date
	busy    float64       // CPU seconds used
	due     time.Duration // the next end of a request
	place   int           // in the world's departures; -1 when idle
}

// rate is the virtual clock's speed: what one request gets of a core.
func (s *server) rate() float64 {
	return min(1, s.svc.quota/float64(len(s.serving)))
}

func (s *server) advance(now time.Duration) {
	if n := len(s.serving); n > 0 && now > s.last {
		dt := (now - s.last).Seconds() * s.rate()
		s.virtual += dt
		s.busy += dt * float64(n)
	}
	s.last = now
}

// accept takes a request in, or lets it wait.
func (s *server) accept(now time.Duration, r request) {
	s.advance(now)
	if len(s.serving) >= s.svc.cfg.Concurrency {
		s.waiting = append(s.waiting, r)
		return
	}
	s.begin(r)
	s.plan(now)
}

func (s *server) begin(r request) {
	if len(s.serving) == 0 {
		s.virtual = 0
	}
	r.finish = s.virtual + r.need
	h := append(s.serving, r)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].finish <= r.finish {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = r
	s.serving = h
}

// finish takes out the request whose end is due, and lets the next waiting one in.
func (s *server) finish(now time.Duration) request {
	s.advance(now)
	h := s.serving
	done := h[0]
	s.virtual = max(s.virtual, done.finish)
	last := len(h) - 1
	moved := h[last]
	h = h[:last]
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && h[child+1].finish < h[child].finish {
			child++
		}
		if h[child].finish >= moved.finish {
			break
		}
		h[i] = h[child]
		i = child
	}
	if last > 0 {
		h[i] = moved
	}
	s.serving = h
	if len(s.waiting) > 0 {
		next := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.begin(next)
	}
	s.plan(now)
	return done
}

// plan puts the server's next departure where it belongs among all servers'.
func (s *server) plan(now time.Duration) {
	d := &s.svc.world.departures
	if len(s.serving) == 0 {
		d.remove(s)
		return
	}
	left := max(0, s.serving[0].finish-s.virtual) / s.rate()
	s.due = now + time.Duration(math.Ceil(left*1e9))
	d.fix(s)
}

// drop takes every request out, unserved.
func (s *server) drop(now time.Duration) []request {
	s.advance(now)
	lost := append(s.serving, s.waiting...)
	s.serving, s.waiting = nil, nil
	s.svc.world.departures.remove(s)
	return lost
}

// load is how many requests the server has.
func (s *server) load() int { return len(s.serving) + len(s.waiting) }

// departures is a heap of the servers that have requests, by their next departure.
type departures []*server

func (d departures) next() time.Duration {
	if len(d) == 0 {
		return never
	}
	return d[0].due
}

func (d departures) less(a, b *server) bool {
	return a.due < b.due || a.due == b.due && a.id < b.id
}

// fix moves a server to its place after due has changed, adding it if it was idle.
func (d *departures) fix(s *server) {
	if s.place < 0 {
		s.place = len(*d)
		*d = append(*d, s)
	}
	if !d.up(s) {
		d.down(s)
	}
}

func (d *departures) remove(s *server) {
	if s.place < 0 {
		return
	}
	h := *d
	i, last := s.place, len(h)-1
	moved := h[last]
	h[last] = nil
	*d = h[:last]
	s.place = -1
	if i == last {
		return
	}
	moved.place = i
	(*d)[i] = moved
	if !d.up(moved) {
		d.down(moved)
	}
}

func (d departures) up(s *server) bool {
	i := s.place
	for i > 0 {
		up := (i - 1) / 2
		if !d.less(s, d[up]) {
			break
		}
		d[i] = d[up]
		d[i].place = i
		i = up
	}
	moved := i != s.place
	d[i], s.place = s, i
	return moved
}

func (d departures) down(s *server) {
	i := s.place
	for {
		child := 2*i + 1
		if child >= len(d) {
			break
		}
		if child+1 < len(d) && d.less(d[child+1], d[child]) {
			child++
		}
		if !d.less(d[child], s) {
			break
		}
		d[i] = d[child]
		d[i].place = i
		i = child
	}
	d[i], s.place = s, i
}
