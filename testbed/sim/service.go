package sim

import (
	"math/rand/v2"
	"time"

	"github.com/plimsoll/plimsoll/testbed/serving"
)

// service is a workload that is running: its pods, its users, and what was measured of it.
type service struct {
	world    *World
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
