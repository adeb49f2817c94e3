package replay

import (
	"bytes"
	"testing"
)

// FuzzCSV reads loads that users measured: a trace has a count a minute, or the file is refused.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("minute,requests\n0,10\n1,20\n"))
	f.Add([]byte("0,1\n2,1\n"))
	f.Add([]byte("minute,requests\n0,1e300\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		trace, err := ReadCSV("load.csv", bytes.NewReader(data))
		if err == nil && len(trace.Counts) == 0 {
			t.Error("a trace without a minute")
		}
	})
}
