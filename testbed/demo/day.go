package demo

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/testbed/sim"
)

// The day of the shop, in requests a second by the time of day. Between these it goes in
// straight lines.
var hours = []struct {
	at   time.Duration
	rate float64
}{
	{0, 60},
	{2 * time.Hour, 34},
	{4 * time.Hour, 24}, // the night's trough
	{6 * time.Hour, 48},
	{8 * time.Hour, 130},
	{9*time.Hour + 30*time.Minute, 175},
	{11*time.Hour + 15*time.Minute, 180},
	{12*time.Hour + 20*time.Minute, 235}, // lunch
	{13*time.Hour + 30*time.Minute, 185},
	{16 * time.Hour, 160},
	{18 * time.Hour, 190},
	{20 * time.Hour, 180},
	{22*time.Hour + 30*time.Minute, 120},
	{24 * time.Hour, 60},
}

// The evening's offer: how high it drives the rate, how fast they come, how long they stay and
// how long they take to go.
const (
	crowdPeak = 300.0
	crowdFrom = 20*time.Hour + 5*time.Minute
	crowdRise = 4 * time.Minute
	crowdStay = 25 * time.Minute
	crowdFall = 50 * time.Minute
)

// usersPerRate is how many users make one request a second: each thinks for a second and waits
// for about this long.
const usersPerRate = 1.2

// load draws the days that a session needs, as users over the time since its start. Every hour,
// burst and crowd differs a little from seed to seed and from day to day.
func load(seed uint64, length time.Duration) sim.Curve {
	rng := rand.New(rand.NewPCG(seed, 0x706c696d))
	var curve sim.Curve
	for midnight := -opening; midnight < length; midnight += 24 * time.Hour {
		for _, p := range day(rng) {
			curve = append(curve, sim.Point{At: midnight + p.At, Level: p.Level * usersPerRate})
		}
	}
	return curve
}

// day draws one day, in requests a second.
func day(rng *rand.Rand) sim.Curve {
	about := func(v, spread float64) float64 { return v * (1 + spread*(2*rng.Float64()-1)) }
	plain := make(sim.Curve, len(hours))
	for i, h := range hours {
		plain[i] = sim.Point{At: h.at, Level: about(h.rate, .06)}
	}
	// Midnight joins the days.
	plain[0].Level, plain[len(plain)-1].Level = hours[0].rate, hours[len(hours)-1].rate
	bumps := []sim.Curve{crowd(rng, plain)}
	for range 4 {
		at := time.Duration(about(float64(13*time.Hour), .5))
		last := time.Duration(about(float64(9*time.Minute), .4))
		high := about(.28, .35) * plain.At(at)
		bumps = append(bumps, sim.Curve{{At: at}, {At: at + time.Minute, Level: high}, {At: at + last, Level: high}, {At: at + last + 2*time.Minute}})
	}
	return sum(plain, bumps...)
}

// crowd is what the evening's offer brings on top of the day.
func crowd(rng *rand.Rand, plain sim.Curve) sim.Curve {
	from := crowdFrom + time.Duration(rng.Int64N(int64(20*time.Minute)))
	high := crowdPeak*(1+.03*(2*rng.Float64()-1)) - plain.At(from)
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
