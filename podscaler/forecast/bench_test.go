package forecast_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler/forecast"
)

// days returns a series like a recorded one: a daily swing, and noise as counts have it.
func days(n int) (series []float64) {
	r := rand.New(rand.NewPCG(7, 8))
	for i := range n * day {
		mean := 60 + 40*math.Sin(2*math.Pi*float64(i)/day)
		series = append(series, max(math.Round(mean+math.Sqrt(mean)*r.NormFloat64()), 0))
	}
	return series
}

// BenchmarkStep is what one period costs: a value is taken and judged at five horizons, and a
// distribution made at one. "all" is every forecaster but HTM, and the ensemble and the race of
// forecasters of their own besides.
func BenchmarkStep(b *testing.B) {
	for _, name := range append([]string{"all"}, forecast.Names()...) {
		b.Run(name, func(b *testing.B) {
			names := []string{name}
			if name == "all" {
				names = allButHTM()
			}
			step(b, names)
		})
	}
}

// allButHTM are the forecasters that are promised to be small.
func allButHTM() []string {
	return slices.DeleteFunc(forecast.Names(), func(n string) bool { return n == "htm" })
}

// followed are forecasters that know a series and are followed at five horizons.
func followed(t testing.TB, names []string, series []float64) (all []*forecast.Calibrated) {
	for _, name := range names {
		c := mustCalibrate(t, model(t, usual(name)), 1, 2, 4, 8, 16)
		c.Train(series)
		all = append(all, c)
	}
	return all
}

func held(all []*forecast.Calibrated) (bytes int) {
	for _, c := range all {
		bytes += c.Size()
	}
	return bytes
}

// LSTM holds most in the day after its training, when it learns anew from three days.
func TestAllForecastersOfAWorkloadFitIntoTwoMegabytes(t *testing.T) {
	series := days(4)
	all, most := followed(t, allButHTM(), series), 0
	for i := range day + 2 {
		for _, c := range all {
			c.Observe(series[i])
		}
		if i%100 == 0 || i >= day {
			most = max(most, held(all))
		}
	}
	if most > 2e6 {
		t.Errorf("all forecasters but HTM hold %d bytes", most)
	}
}

func step(b *testing.B, names []string) {
	series := days(4)
	all := followed(b, names, series)
	most := held(all)
	took := make([]time.Duration, 0, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		began := time.Now()
		for _, c := range all {
			c.Observe(series[i%len(series)])
			c.Forecast(4).Quantile(0.95)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(max(most, held(all))), "B-held")
}

// BenchmarkTrain is what three days of minutes cost.
func BenchmarkTrain(b *testing.B) {
	series := days(3)
	for _, name := range forecast.Names() {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				forecast.Train(model(b, forecast.Spec{Type: name}), series)
			}
		})
	}
}

// BenchmarkLSTM is what a period costs an LSTM that only foretells, and one that is being taught.
func BenchmarkLSTM(b *testing.B) {
	series := days(3)
	for _, bench := range []struct {
		name    string
		retrain int
	}{{"foretells", 1 << 20}, {"learns", 128}} {
		b.Run(bench.name, func(b *testing.B) {
			m := model(b, forecast.Spec{Type: "LSTM", LSTM: &forecast.LSTM{Retrain: bench.retrain}})
			forecast.Train(m, series)
			for i := range 128 {
				m.Observe(series[i])
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				m.Observe(series[i%len(series)])
				m.Predict(1)
			}
			bytes, _ := forecast.Size(m)
			b.ReportMetric(float64(bytes), "B-held")
		})
	}
}

// BenchmarkHTM is what a period costs an HTM that knows three days, a small one, the usual one, and
// one of the published size.
func BenchmarkHTM(b *testing.B) {
	series := days(3)
	for _, bench := range []struct {
		name string
		size forecast.HTM
	}{
		{"small", forecast.HTM{Columns: 256, Cells: 4, Active: 10}},
		{"usual", forecast.HTM{}},
		{"published", forecast.HTM{Columns: 2048, Cells: 32, Active: 40}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			m := model(b, forecast.Spec{Type: "HTM", HTM: &bench.size})
			forecast.Train(m, series)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				m.Observe(series[i%len(series)])
				m.Predict(1)
			}
			bytes, _ := forecast.Size(m)
			b.ReportMetric(float64(bytes), "B-held")
		})
	}
}
