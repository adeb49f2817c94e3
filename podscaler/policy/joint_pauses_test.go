package policy

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/capacity"
)

// shown shows pauses what of would count, once every so often.
func shown(p *pauses, from, n int, every time.Duration, of func(i int) (flying, rate float64)) {
	for i := range n {
		flying, rate := of(i)
		p.see(noon.Add(time.Duration(from+i)*every), &podscaler.Window{
			InFlight: podscaler.Known(flying), Arrivals: podscaler.Known(rate), Latency: podscaler.Known(flying / rate / capacity.MeanShare),
		})
	}
}

func TestPausesAreFoundOut(t *testing.T) {
	jitter := func(i int) float64 { return 140 + float64(i*i*7%11)/4 } // a second, by chance
	const soon = 2 + pausesNone
	for _, c := range []struct {
		name string
		of   func(i int) (flying, rate float64)
		want int // counts until it is known; 0 if it never is
	}{
		{"as many whatever they are answered", func(i int) (float64, float64) { return 25, jitter(i) }, soon},
		{"two more each minute", func(i int) (float64, float64) { return 5 + 2*float64(i), jitter(i) }, soon},
		{"one more in some minutes", func(i int) (float64, float64) { return 30 + float64(i/2), jitter(i) }, soon},
		{"as many but for a jump, which is seen twice", func(i int) (float64, float64) { return 25 + 10*float64(min(i/6, 1)), jitter(i) }, 17},
		{"too few to judge by", func(i int) (float64, float64) { return 3, jitter(i) }, 0},
		{"a mean over a while", func(i int) (float64, float64) { return 25.02, jitter(i) }, 0},
		{"requests that come like clockwork", func(int) (float64, float64) { return 25, 140 }, 0},
		{"up and down by a fifth", func(i int) (float64, float64) { return 25 + 5*float64(i%2), jitter(i) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p pauses
			got := 0
			for i := 0; i < 60 && got == 0; i++ {
				if shown(&p, i, 1, time.Minute, func(int) (float64, float64) { return c.of(i) }); p.none {
					got = i + 1
				}
			}
			if got != c.want {
				t.Errorf("known after %d counts, want %d", got, c.want)
			}
		})
	}
}

func TestPausesAreForgotten(t *testing.T) {
	steady := func(i int) (float64, float64) { return 25, 140 + float64(i*7%5)/2 }
	known := func() *pauses {
		var p pauses
		if shown(&p, 0, 20, time.Minute, steady); !p.none {
			t.Fatal("as many in flight for 20 minutes, and nothing is known")
		}
		return &p
	}
	p := known()
	if shown(p, 20, 4, time.Minute, func(i int) (float64, float64) { return 25 + 9*float64(i%2), 140 }); !p.none {
		t.Error("it is forgotten at once")
	}
	if shown(p, 24, 20, time.Minute, func(i int) (float64, float64) { return 25 + 9*float64(i*i%5), 140 + float64(i*3%7) }); p.none {
		t.Error("it is held for ever")
	}
	p = known()
	if shown(p, 20, 1, time.Minute, func(int) (float64, float64) { return 24.5, 140 }); p.none {
		t.Error("a series that turns out to be a mean is believed")
	}
	p = known()
	shown(p, 200, 2, time.Minute, func(int) (float64, float64) { return 80, 140 })
	if p.none || len(p.still) > 0 || len(p.counts) != 2 {
		t.Error("counts three hours apart are held against each other")
	}
	p = known()
	if shown(p, 20, 25, time.Minute, func(int) (float64, float64) { return 2, 10 }); !p.none {
		t.Error("it is forgotten as soon as there are few")
	}
	if shown(p, 45, 10, time.Minute, func(int) (float64, float64) { return 2, 10 }); p.none {
		t.Error("it is remembered for ever once there are few")
	}
	for _, every := range []time.Duration{5 * time.Second, 59 * time.Second, time.Minute, 2 * time.Minute} {
		var q pauses
		if shown(&q, 0, int(time.Hour/every), every, steady); !q.none || len(q.counts) != 2 {
			t.Errorf("runs of every %s: it is not known after an hour", every)
		}
	}
}

// Connections that are left open are in flight as well, and are no users who ask and ask.
func TestWhatIsLeftOpenIsNoUserWhoDoesNotPause(t *testing.T) {
	var p pauses
	for i := range 60 {
		p.see(noon.Add(time.Duration(i)*time.Minute), &podscaler.Window{
			InFlight: podscaler.Known(50), Arrivals: podscaler.Known(20 + float64(i*i*7%11)/4), Latency: podscaler.Known(0.2),
		})
	}
	if p.none {
		t.Error("50 connections that stay open are taken for users who do not pause")
	}
}

// Users who pause for at least twice as long as answers take are never taken for such as do not,
// however many they are.
func TestUsersWhoPauseAreToldFromThoseWhoDoNot(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		users, waits := 10+r.IntN(300), 0.05+0.28*r.Float64()
		var p pauses
		for i := range 24 * 60 {
			flying, came := 0, 0
			for range users {
				if r.Float64() < waits {
					flying++
				}
			}
			for range 60 {
				if r.Float64() < 0.5 {
					came++
				}
			}
			shown(&p, i, 1, time.Minute, func(int) (float64, float64) { return float64(flying), float64(users) + float64(came)/60 })
			if p.none {
				t.Fatalf("seed %d: %d users, of which %.2f wait: after %d minutes they are taken not to pause", seed, users, waits, i)
			}
		}
	}
}
