package demo

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/testbed/sim"
)

// users are who sends a workload its requests: how many a second by the time of day, in straight
// lines between these hours.
type users struct {
	hours sim.Curve
	// crowd is how high the evening's offer drives the rate; 0 for none.
	crowd float64
	// pause is how long each thinks before the next request; 0 for an open load.
	pause time.Duration
}

// visitors are the shop's, of whose requests this is a part: few at night, most at lunch.
func visitors(part float64) users {
	hours := hourly([][2]float64{
		{0, 60}, {2, 34}, {4, 24}, {6, 48}, {8, 130}, {9.5, 175}, {11.25, 180}, {12.33, 235},
		{13.5, 185}, {16, 160}, {18, 190}, {20, 180}, {22.5, 120}, {24, 60},
	})
	return users{hours: hours.Scaled(part), crowd: 300 * part, pause: time.Second}
}

// clerks have their reports made after closing time.
var clerks = users{hours: hourly([][2]float64{{0, 4}, {3, 4}, {4, .1}, {22, .1}, {23, 4}, {24, 4}})}

// hourly is a curve through pairs of an hour and a rate.
func hourly(pairs [][2]float64) sim.Curve {
	curve := make(sim.Curve, len(pairs))
	for i, p := range pairs {
		curve[i] = sim.Point{At: time.Duration(p[0] * float64(time.Hour)), Level: p[1]}
	}
	return curve
}

// The evening's offer: how fast they come, how long they stay and how long they take to go.
const (
	crowdFrom = 20*time.Hour + 5*time.Minute
	crowdRise = 4 * time.Minute
	crowdStay = 25 * time.Minute
	crowdFall = 50 * time.Minute
)

// load is how requests at these rates are sent. One who thinks for a second and waits for about a
// fifth of one makes five sixths of a request a second.
func (u users) load(rate sim.Curve) sim.Load {
	if u.pause == 0 {
		return sim.Load{Kind: sim.Open, Level: rate}
	}
	return sim.Load{Kind: sim.Sleep, Level: rate.Scaled(1.2 * u.pause.Seconds()), Think: u.pause, Spread: u.pause}
}

// rates draws the days that a session needs: the requests a second to each service over the time
// since its start. Every hour, burst and crowd differs a little from seed to seed and from day to
// day.
func rates(seed uint64, length time.Duration) []sim.Curve {
	list := services()
	curves := make([]sim.Curve, len(list))
	for i := range list {
		rng := rand.New(rand.NewPCG(seed, 0x706c696d+uint64(i)))
		for midnight := -opening; midnight < length; midnight += 24 * time.Hour {
			for _, p := range list[i].users.day(rng) {
				curves[i] = append(curves[i], sim.Point{At: midnight + p.At, Level: p.Level})
			}
		}
	}
	return curves
}

// day draws one day.
func (u users) day(rng *rand.Rand) sim.Curve {
	about := func(v, spread float64) float64 { return v * (1 + spread*(2*rng.Float64()-1)) }
	plain := make(sim.Curve, len(u.hours))
	for i, h := range u.hours {
		plain[i] = sim.Point{At: h.At, Level: about(h.Level, .06)}
	}
	// Midnight joins the days.
	plain[0], plain[len(plain)-1] = u.hours[0], u.hours[len(plain)-1]
	if u.crowd == 0 {
		return plain
	}
	bumps := []sim.Curve{crowd(rng, plain, u.crowd)}
	for range 4 {
		at := time.Duration(about(float64(13*time.Hour), .5))
		last := time.Duration(about(float64(9*time.Minute), .4))
		high := about(.28, .35) * plain.At(at)
		bumps = append(bumps, sim.Curve{{At: at}, {At: at + time.Minute, Level: high}, {At: at + last, Level: high}, {At: at + last + 2*time.Minute}})
	}
	return sum(plain, bumps...)
}

// crowd is what the evening's offer brings on top of the day.
func crowd(rng *rand.Rand, plain sim.Curve, peak float64) sim.Curve {
	from := crowdFrom + time.Duration(rng.Int64N(int64(20*time.Minute)))
	high := peak*(1+.03*(2*rng.Float64()-1)) - plain.At(from)
	return sim.Curve{
		{At: from},
		{At: from + crowdRise, Level: high},
		{At: from + crowdRise + crowdStay, Level: high},
		{At: from + crowdRise + crowdStay + crowdFall},
	}
}

// sum adds bumps to a curve; at their ends a bump is 0. It is exact, as all of them are straight
// between their points.
func sum(curve sim.Curve, bumps ...sim.Curve) sim.Curve {
	var times []time.Duration
	for _, c := range append(bumps, curve) {
		for _, p := range c {
			times = append(times, p.At)
		}
	}
	slices.SortFunc(times, cmp.Compare)
	var total sim.Curve
	for _, at := range slices.Compact(times) {
		level := curve.At(at)
		for _, b := range bumps {
			level += b.At(at)
		}
		total = append(total, sim.Point{At: at, Level: level})
	}
	return total
}
