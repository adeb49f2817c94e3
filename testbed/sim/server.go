package sim

import (
	"time"

	"github.com/plimsoll/plimsoll/testbed/serving"
)

// request is what is remembered of a request that is being served or waits in a pod.
type request struct {
	start time.Duration
	user  int32
}

// server is a pod's serving side, in its place among all of them.
type server struct {
	serving.Pod[request]
	id    int
	svc   *service
	pod   *pod
	due   time.Duration // when the next request is to be moved on
	place int           // in the world's departures; -1 when idle
}

func newServer(id int, svc *service, p *pod, now time.Duration) *server {
	return &server{Pod: serving.New[request](svc.quota, svc.cfg.Concurrency, now), id: id, svc: svc, pod: p, place: -1}
}

// accept takes a request in, or lets it wait.
func (s *server) accept(now time.Duration, need, wait float64, r request) {
	s.Accept(now, need, wait, r)
	s.plan()
}

// finish moves on the request that is due, and reports whether it is out.
func (s *server) finish(now time.Duration) (r request, out bool) {
	r, out = s.Finish(now)
	s.plan()
	return r, out
}

// drop takes every request out, unserved.
func (s *server) drop(now time.Duration) []request {
	lost := s.Drop(now)
	s.plan()
	return lost
}

// resize changes how many cores the requests share.
func (s *server) resize(now time.Duration, quota float64) {
	s.Resize(now, quota)
	s.plan()
}

// plan puts the server's next departure where it belongs among all servers'.
func (s *server) plan() {
	d := &s.svc.world.departures
	due, busy := s.Due()
	if !busy {
		d.remove(s)
		return
	}
	s.due = due
	d.fix(s)
}

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
