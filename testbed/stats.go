package testbed

import "math"

// Stat is a measure over the trials of one policy at one level of load.
type Stat struct {
	Mean Number `json:"mean"`
	SD   Number `json:"sd"`
	// Low and High bound the 95 % interval of the mean, by Student's t. With one trial they are
	// unknown, and so is SD.
	Low  Number `json:"low"`
	High Number `json:"high"`
}

// StatOf sums up values of as many trials: their mean, and the interval that it is in.
func StatOf(values []float64) Stat { return statOf(values) }

// statOf sums up the trials. An unknown value makes all of it unknown: a mean of the others
// would be the mean of a different experiment.
func statOf(values []float64) Stat {
	n := float64(len(values))
	mean := 0.0
	for _, v := range values {
		mean += v / n
	}
	if len(values) < 2 {
		unknown := Number(math.NaN())
		return Stat{Rounded(mean), unknown, unknown, unknown}
	}
	square := 0.0
	for _, v := range values {
		square += (v - mean) * (v - mean)
	}
	sd := math.Sqrt(square / (n - 1))
	half := student(len(values)-1) * sd / math.Sqrt(n)
	return Stat{Rounded(mean), Rounded(sd), Rounded(mean - half), Rounded(mean + half)}
}

// student is the 0.975 quantile of Student's t with so many degrees of freedom.
func student(degrees int) float64 {
	if degrees <= len(students) {
		return students[degrees-1]
	}
	// Cornish and Fisher's expansion about the normal quantile, right to 10⁻⁴ from here on.
	const z = 1.959963985
	n := float64(degrees)
	z3, z5, z7 := math.Pow(z, 3), math.Pow(z, 5), math.Pow(z, 7)
	return z + (z3+z)/(4*n) + (5*z5+16*z3+3*z)/(96*n*n) + (3*z7+19*z5+17*z3-15*z)/(384*n*n*n)
}

// students are the quantiles for 1, 2, 3 … degrees of freedom.
var students = [...]float64{
	12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
	2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
}
