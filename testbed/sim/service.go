package sim

import (
	"math/rand/v2"
	"time"

	"github.com/plimsoll/plimsoll/testbed/serving"
)

// service is a workload that is running: its pods, its users, and what was measured of it.
type service struct {
	world    *cluster
	cfg      *Workload
	quota    float64 // cores
	replicas int
	pods     []*pod // in order of creation; gone ones are taken out
	made     int
	ready    []*server // the endpoints
	demand   *rand.Rand
	balance  *rand.Rand
	users    sender
	stats    stats
}

// sender is the source of a service's requests.
type sender interface {
	// next is when the sender acts next, or never.
	next() time.Duration
	// act lets it do what is due.
	act(now time.Duration)
	// answered informs it that a user's request has come back, well or not.
	answered(now time.Duration, user int32)
	// level sets how many users there are, or how many requests a second.
	level(now time.Duration, l float64)
}

// send hands a request to a pod. Where no pod is ready, or the machine of the one that was
// picked is down, it fails at once.
func (s *service) send(now time.Duration, user int32) {
	s.stats.sent(now)
	srv := s.pick()
	if srv == nil || srv.pod.dead {
		s.stats.failed()
		s.users.answered(now, user)
		return
	}
	s.stats.inFlight++
	d := &s.cfg.Demand
	srv.accept(now, d.Draw(s.demand), d.DrawWait(s.demand), request{now, user})
}

func (s *service) pick() *server {
	if len(s.ready) == 0 {
		return nil
	}
	return serving.Pick(s.ready, s.cfg.Balance, s.balance)
}

// depart moves on the request of srv that is due.
func (s *service) depart(now time.Duration, srv *server) {
	r, out := srv.finish(now)
	if !out {
		return
	}
	s.stats.inFlight--
	s.stats.done(now, r.start)
	s.users.answered(now, r.user)
	if srv.pod.obs.Terminating && srv.Load() == 0 {
		s.world.later(0, srv.pod.remove)
	}
}

// fail gives requests back unserved.
func (s *service) fail(now time.Duration, lost []request) {
	for _, r := range lost {
		s.stats.inFlight--
		s.stats.failed()
		s.users.answered(now, r.user)
	}
}

// endpoint adds or removes a pod among those that get requests.
func (s *service) endpoint(srv *server, in bool) {
	at := -1
	for i, e := range s.ready {
		if e == srv {
			at = i
		}
	}
	switch {
	case in && at < 0:
		s.ready = append(s.ready, srv)
	case !in && at >= 0:
		s.ready = append(s.ready[:at], s.ready[at+1:]...)
	}
}

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
