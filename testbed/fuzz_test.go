package testbed

import (
	"bytes"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// FuzzExperiment reads experiment files that users write: what is taken is a file that can be run.
func FuzzExperiment(f *testing.F) {
	entries := must.Get(experiments.ReadDir("experiments"))(f)
	for _, e := range entries {
		text := must.Get(experiments.ReadFile("experiments/" + e.Name()))(f)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := Parse(text)
		if err == nil && e.Name == "" {
			t.Error("an experiment without a name")
		}
	})
}

// FuzzResults reads results that another version wrote.
func FuzzResults(f *testing.F) {
	f.Add([]byte(`{"experiment":"a","world":"sim","runs":[{}],"summary":[]}`))
	f.Add([]byte(`{"summary":[{"measures":{}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ReadResults(bytes.NewReader(text))
		if err == nil && r == nil {
			t.Error("neither results nor an error")
		}
	})
}
