package capacity

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// recorded reads the counts a minute of a recorded trace.
func recorded(t *testing.T, name string) []float64 {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "traces", name))
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("the recorded traces are not there: %v", err)
		}
		t.Skipf("NOT TRIED, for the recorded traces are not there: %v", err)
	}
	var counts []float64
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n")[1:] {
		_, count, _ := strings.Cut(line, ",")
		n, err := strconv.ParseFloat(strings.TrimSpace(count), 64)
		if err != nil {
			t.Fatalf("%s line %d: %v", name, i+2, err)
		}
		counts = append(counts, n)
	}
	return counts
}

// window is four days of a trace: three that forecasters are trained on, and the one after them.
type window struct {
	trace string
	day   int
}

// windows are all that are recommended of the NASA web server, the first with the rush of a launch.
var windows = []window{
	{"nasa_jul95.csv", 9}, {"nasa_jul95.csv", 16},
	{"nasa_aug95.csv", 3}, {"nasa_aug95.csv", 10}, {"nasa_aug95.csv", 17}, {"nasa_aug95.csv", 24},
}

const minutesADay = 24 * 60

func (w window) counts(t *testing.T) []float64 {
	return recorded(t, w.trace)[w.day*minutesADay : (w.day+4)*minutesADay]
}

// compare plays counts through the discrete model, and gives the MMPP/M/c model the count of the
// minute before, at a service rate that makes four pods of the mean. It returns the mean square of
// the difference in pods, and the mean pods of each.
func compare(t *testing.T, counts []float64, use float64) (mse, discrete, lossless float64) {
	t.Helper()
	perPod := mean(counts) / (4 * 0.9)
	d := Discrete{
		Profile: must(Linear(perPod, 0)), Timeout: 1,
		HPA: HPA{Target: use, Min: 1, Max: 1000, Stabilization: 1},
	}
	run, err := d.Run(counts)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range run[1:] {
		have, want := float64(p.Pods), float64(ServersFor(counts[i], perPod, use))
		mse += (have - want) * (have - want)
		discrete += have
		lossless += want
	}
	n := float64(len(run) - 1)
	return mse / n, discrete / n, lossless / n
}

// On an MMPP that is fitted to a recorded load the two models are near: at four to five pods less
// than half of one apart. The model that loses requests is the lower, as it cannot see what it
// lost.
func TestModelsAgreeOnAFittedLoad(t *testing.T) {
	for _, w := range windows {
		m, err := Fit{States: 6, Around: 5}.MMPP(w.counts(t))
		if err != nil {
			t.Fatal(err)
		}
		counts := m.Generate(seeded(1), 28*minutesADay)
		for _, use := range []float64{0.85, 0.9, 0.95} {
			mse, discrete, lossless := compare(t, counts, use)
			t.Logf("%s from day %d at %v: MSE %.3f, %.2f pods, lossless %.2f", w.trace, w.day, use, mse, discrete, lossless)
			if !(mse <= 0.3) || discrete < 4 || lossless > 5 || discrete >= lossless {
				t.Errorf("%s from day %d at %v: MSE %.3f at %.2f and %.2f pods, want at most 0.3 at 4 to 5, the first lower",
					w.trace, w.day, use, mse, discrete, lossless)
			}
		}
	}
}

// On the recorded minutes themselves they are further apart, for these jump more than their fit
// does: a use that cannot be above 1 lets replicas grow by one a minute, and the count may have
// doubled.
func TestModelsPartOnRecordedMinutes(t *testing.T) {
	for _, w := range windows {
		counts := w.counts(t)
		m, err := Fit{States: 6, Around: 5}.MMPP(counts)
		if err != nil {
			t.Fatal(err)
		}
		mse, discrete, lossless := compare(t, counts, 0.9)
		smooth, _, _ := compare(t, m.Generate(seeded(1), 28*minutesADay), 0.9)
		t.Logf("%s from day %d: MSE %.3f, %.2f pods, lossless %.2f; fitted %.3f", w.trace, w.day, mse, discrete, lossless, smooth)
		if !(mse > smooth && mse < 1.2) || discrete >= lossless {
			t.Errorf("%s from day %d: MSE %.3f at %.2f and %.2f pods, want it above %.3f, that of the fit, and below 1.2",
				w.trace, w.day, mse, discrete, lossless, smooth)
		}
	}
}

// What is generated from a fit varies nearly as the record does, and hangs together nearly as long.
func TestGeneratedLoadIsLikeTheRecorded(t *testing.T) {
	for _, w := range windows {
		counts := w.counts(t)
		m, err := Fit{States: 6, Around: 5}.MMPP(counts)
		if err != nil {
			t.Fatal(err)
		}
		made := m.Generate(seeded(1), 100*minutesADay)
		near(t, w.trace+" mean", mean(made), mean(counts), 0.05*mean(counts))
		near(t, w.trace+" deviation", math.Sqrt(variance(made)), math.Sqrt(variance(counts)), 0.2*math.Sqrt(variance(counts)))
		for _, later := range []int{1, 5} {
			near(t, w.trace+" correlation", covariance(made, later)/variance(made), covariance(counts, later)/variance(counts), 0.15)
		}
	}
}
