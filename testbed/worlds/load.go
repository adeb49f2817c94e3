package worlds

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/testbed/sim"
)

// loads are the shapes of a load, each drawn as parts of its peak.
var loads = []struct {
	name string
	draw func(d dice, length float64) sim.Curve // of so many seconds
}{
	{"steady", dice.steady}, {"ramp", dice.ramp}, {"spike", dice.spike}, {"day", dice.day}, {"noise", dice.noise}, {"on/off", dice.onOff},
}

// load draws the shape of a load that lasts so long.
func (d dice) load(length time.Duration) (string, sim.Curve) {
	l := loads[d.count(0, len(loads)-1)]
	return l.name, l.draw(d, length.Seconds())
}

func at(seconds, level float64) sim.Point {
	return sim.Point{At: time.Duration(math.Round(seconds)) * time.Second, Level: level}
}

func (d dice) steady(float64) sim.Curve { return sim.Flat(1) }

// ramp goes up, or down.
func (d dice) ramp(length float64) sim.Curve {
	from, to := d.even(0.1, 0.5), 1.0
	if d.under(0.3) {
		from, to = to, from
	}
	start := d.even(0.1, 0.4) * length
	return sim.Curve{at(0, from), at(start, from), at(start+d.even(0.05, 0.4)*length, to)}
}

// spike jumps up for two minutes to a quarter of the time.
func (d dice) spike(length float64) sim.Curve {
	base, start := d.even(0.05, 0.4), d.even(0.2, 0.6)*length
	end := start + d.log(120, length/4)
	return sim.Curve{at(0, base), at(start, base), at(start, 1), at(end, 1), at(end, base)}
}

// day swings once or twice, in a few minutes' steps.
func (d dice) day(length float64) sim.Curve {
	low, swings, phase := d.even(0.05, 0.4), float64(d.count(1, 2)), d.next()
	const points = 48
	var c sim.Curve
	for i := range points + 1 {
		part := float64(i) / points
		c = append(c, at(part*length, low+(1-low)*(1-math.Cos(2*math.Pi*(swings*part+phase)))/2))
	}
	return c
}

// noise jumps every one to five minutes.
func (d dice) noise(length float64) sim.Curve {
	var c sim.Curve
	for t := 0.0; t < length; {
		level, end := d.even(0.2, 1), t+d.even(60, 300)
		c = append(c, at(t, level), at(end, level))
		t = end
	}
	return c
}

// onOff goes between all and nearly nothing.
func (d dice) onOff(length float64) sim.Curve {
	off := d.even(0.02, 0.2)
	on := d.under(0.5)
	var c sim.Curve
	for t := 0.0; t < length; on = !on {
		level, end := off, t+d.log(180, 900)
		if on {
			level = 1
		}
		c = append(c, at(t, level), at(end, level))
		t = end
	}
	return c
}

// mean is a curve's over that time.
func mean(c sim.Curve, over time.Duration) float64 {
	sum := 0.0
	for t := time.Duration(0); t < over; t += time.Second {
		sum += c.At(t)
	}
	return sum / over.Seconds()
}

// around are bucket edges of a histogram about a target.
func around(target time.Duration) []time.Duration {
	var out []time.Duration
	for _, part := range []float64{1. / 16, 1. / 8, 1. / 4, 1. / 2, 3. / 4, 1, 1.5, 2, 4, 8} {
		out = append(out, time.Duration(part*float64(target)).Round(100*time.Microsecond))
	}
	return out
}

// rising puts edges in order, each once.
func rising(edges []time.Duration) string {
	var out []string
	for _, e := range slices.Compact(slices.Sorted(slices.Values(edges))) {
		out = append(out, e.String())
	}
	return strings.Join(out, ", ")
}
