package forecast

import "cmp"

// AR expects a weighted sum of the last values. The weights are those that would have served
// best so far, by least squares, and are fixed with every value; what is older than the memory
// counts for little. It needs as many values as it has lags twice over, and is good after some
// hundreds.
//
// On request rates by the minute it is as good as anything that was tried on them a period
// ahead, for some microseconds a value. It loses where what happens depends on the time of day,
// beyond the reach of its lags, and for as long as its lags hold a spike that means nothing.

// AR is the settings of the AR forecaster.
type AR struct {
	// Lags is how many values it looks back on; 32, unless set.
	Lags int `json:"lags,omitempty"`
	// Memory is after how many periods a value's weight has fallen to a third (1/e); 4320,
	// unless set: three days of minutes.
	Memory float64 `json:"memory,omitempty"`
}

func init() {
	register("AR", "expects a weighted sum of the last values, by least squares.", func(s Spec) (Model, error) { return newAR(settings(s.AR)) })
}

func newAR(c AR) (Model, error) {
	c.Lags = cmp.Or(c.Lags, 32)
	c.Memory = cmp.Or(c.Memory, 3*dayOfMinutes)
	var f faults
	f.unless(c.Lags >= 1 && c.Lags <= 256, "ar.lags", "must be from 1 to 256", c.Lags)
	f.unless(c.Memory >= 2 && c.Memory <= maxPeriods, "ar.memory", "must be from 2 to 1048576 periods", c.Memory)
	if f.err() != nil {
		return nil, f.err()
	}
	m := newLinear(c.Lags, c.Lags, c.Lags+1, c.Memory)
	m.regressors = func(row []float64, _ int, at func(int) float64) {
		row[0] = 1
		for i := 1; i <= c.Lags; i++ {
			row[i] = at(i)
		}
	}
	return &m, nil
}
