//go:build lab

package counted

import (
	"math"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/replay/hpaplus"
)

// The control plane's HPA, and a scaler of the replay by what was measured, have about the pods
// that the model has. A busy machine makes some decisions a period late, so that a pod more or less
// is no fault.
func TestTheModelIsNearARealHPA(t *testing.T) {
	t.Parallel() // it waits most of the time
	const minutes = 6
	e := must.Get(hpaplus.Parse(must.Get(testbed.File("hpaplus-table3"))(t)))(t)
	e.Replay.Rows, e.Replay.Entrants = []string{"hpa", "naive"}, nil
	e.Replay.Cases = []hpaplus.Grid{{Pods: []float64{5}, Tolerance: []float64{0.05}, Excess: []float64{0.85}}}
	small := must.Get(e.Reduce(hpaplus.Options{}, minutes))(t)
	w := &World{Folder: t.ArtifactDir(), Period: 12 * time.Second, Lab: lab.Config{Progress: func(line string) { t.Log(line) }}}
	c := must.Get(small.Play(t.Context(), w.Play))(t)
	var text testWriter = t.Logf
	if err := c.WriteMinutes(text); err != nil {
		t.Fatal(err)
	}
	table := c.Table()
	if err := table.Print(text); err != nil {
		t.Fatal(err)
	}
	for i := range c.Cluster.Runs {
		got, want := &c.Cluster.Runs[i], &c.Model.Runs[i]
		if off := math.Abs(float64(got.Measures["pods"] - want.Measures["pods"])); off > 1 {
			t.Errorf("%s has %v pods in the mean, want %v within 1", got.Row, got.Measures["pods"], want.Measures["pods"])
		}
		// The third minute has twice the requests that its pods can serve.
		if lost := float64(got.Measures["lost"]); lost < 5 || lost > 40 {
			t.Errorf("%s loses %v %% of the requests, and by the model %v", got.Row, lost, want.Measures["lost"])
		}
	}
}

// testWriter writes to a test's log.
type testWriter func(format string, args ...any)

func (w testWriter) Write(text []byte) (int, error) {
	w("%s", text)
	return len(text), nil
}
