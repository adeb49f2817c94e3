package prometheus

import (
	"testing"
	"time"
)

// FuzzMatrix reads answers of any server that calls itself a Prometheus: each series has a value a
// moment.
func FuzzMatrix(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[1735689600.123,"0.25"]]}]}}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1e300,"NaN"],[-1,"+Inf"],[0]]}]}}`))
	f.Add([]byte(`{"status":"error","error":"\u001b[2J"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m := moments{from: time.Unix(1735689600, 0), step: time.Second, count: 3}
		list, err := m.matrix("200 OK", body)
		for _, s := range list {
			if err == nil && len(s.Values) != m.count {
				t.Errorf("%d values of %d moments", len(s.Values), m.count)
			}
		}
	})
}
