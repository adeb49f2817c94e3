package replay

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
)

// Synthetic is a load that is made up: for those who have recorded none, and for as many runs of
// the same kind of day as it takes to distinguish chance from effect.
type Synthetic struct {
	Name  string
	Title string // a sentence that may follow the name
	// Make makes so many days of it. The same days and seed make the same counts.
	Make func(days int, seed uint64) *Trace
}

// Synthetics are the loads that can be made up, by name.
func Synthetics() []Synthetic {
	return []Synthetic{
		{"diurnal", "follows the time of day and the day of the week, wanders a little, and has the noise of counting", Diurnal},
		{"mmpp", "changes between six regimes as a small web server's load did in August 1995: hectic, and the same at all hours", MMPP},
	}
}

// visits are how the fitted process came about: the minutes of a recorded load in each of six
// states, by the state of the minute after, and the requests that came in them. It was NASA's web
// server, four days from 21 August 1995 on, fitted by Fit.
var (
	visits = [6][6]float64{
		{843, 105, 1, 0, 0, 0},
		{106, 714, 144, 1, 0, 0},
		{0, 144, 687, 131, 1, 0},
		{0, 2, 131, 702, 125, 0},
		{0, 0, 0, 126, 734, 101},
		{0, 0, 0, 0, 101, 861},
	}
	requests = [6]float64{11622, 20779, 28669, 38787, 51545, 72549}
)

// Fitted is the process that MMPP makes its load by, in requests a minute.
func Fitted() capacity.MMPP {
	m := capacity.MMPP{Rates: make([]float64, len(visits)), Transitions: make([][]float64, len(visits))}
	for i, to := range visits {
		minutes := 0.0
		for _, n := range to {
			minutes += n
		}
		m.Rates[i] = requests[i] / minutes
		m.Transitions[i] = make([]float64, len(to))
		for j, n := range to {
			m.Transitions[i][j] = n / minutes
		}
	}
	return m
}

// fitAround is over how many minutes the regime of a minute is found: a single count is as much
// chance as regime.
const fitAround = 5

// Fit is the process of so many regimes that comes near to a recorded load, in requests a minute.
// Where many counts are the same there may be fewer regimes.
func Fit(t *Trace, regimes int) (capacity.MMPP, error) {
	m, err := capacity.Fit{States: regimes, Around: fitAround}.MMPP(t.Counts)
	if err != nil {
		return capacity.MMPP{}, fmt.Errorf("%s: %w", t.Name, err)
	}
	return m, nil
}

// Draw makes minutes of a process. The same seed makes the same counts.
func Draw(name string, m capacity.MMPP, minutes int, seed uint64) *Trace {
	return &Trace{Name: name, Counts: m.Generate(rand.New(rand.NewPCG(seed, 0)), minutes)}
}

// MMPP makes days of the fitted process.
func MMPP(days int, seed uint64) *Trace {
	return Draw(fmt.Sprintf("mmpp-%d", seed), Fitted(), days*MinutesADay, seed)
}

// What a diurnal load is like, in the mean over workdays.
const (
	diurnalMean = 1000.0 // requests a minute
	dayDepth    = 0.6    // how far day and night are from that, as a part of it
	noonDepth   = 0.15   // of two rushes a day, before and after noon
	weekend     = 0.7    // of a workday's load
	wander      = 0.12   // the deviation of the level's logarithm
	wanderHours = 3      // after which it has forgotten a third to two thirds of itself
)

// Diurnal makes days of a load that follows the clock, beginning on a Monday at midnight. Its level
// wanders about the time of day's by an eighth, and its counts scatter about the level as those of
// people who know nothing of each other do.
func Diurnal(days int, seed uint64) *Trace {
	rng := rand.New(rand.NewPCG(seed, 1))
	counts := make([]float64, days*MinutesADay)
	keep := math.Exp(-1 / float64(wanderHours*60))
	off := wander * rng.NormFloat64()
	for i := range counts {
		counts[i] = capacity.Poisson(rng, diurnalMean*timeOfDay(i)*math.Exp(off))
		off = keep*off + wander*math.Sqrt(1-keep*keep)*rng.NormFloat64()
	}
	return &Trace{Name: fmt.Sprintf("diurnal-%d", seed), Counts: counts}
}

// timeOfDay is the part of a workday's mean load that comes in a minute, of a week that begins at
// 0.
func timeOfDay(minute int) float64 {
	hour := 2 * math.Pi * float64(minute%MinutesADay) / MinutesADay
	level := 1 - dayDepth*math.Cos(hour-math.Pi/6) + noonDepth*math.Cos(2*hour+math.Pi/3)
	if day := minute / MinutesADay % 7; day >= 5 {
		level *= weekend
	}
	return level
}
