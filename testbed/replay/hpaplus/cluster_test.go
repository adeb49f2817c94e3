package hpaplus

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// byTheModel is a cluster that is as the model has it, but for its HPA, which is a pod more.
func byTheModel(_ context.Context, rows []*Row) error {
	profile, err := capacity.Linear(PerPod, 0)
	if err != nil {
		return err
	}
	for _, row := range rows {
		line, err := capacity.NewLoss(profile, 1)
		if err != nil {
			return err
		}
		pods := row.Pods
		for i, rate := range row.Rates {
			now, err := line.Step(pods, rate)
			if err != nil {
				return err
			}
			if row.HPA != nil {
				now.Pods++
			}
			row.Player.Measured(now)
			switch {
			case i+1 == len(row.Rates):
			case row.HPA != nil:
				pods = row.HPA.Desired(profile, pods, now.Served)
			default:
				pods = row.Player.Next(row.Rates[i+1])
			}
		}
	}
	return nil
}

// What a cluster measures is laid beside the model and the paper, and one that is as the model is
// off by nothing.
func TestAClusterIsLaidBesideTheModel(t *testing.T) {
	e := short(t, "hpaplus-table3")
	e.Reference = &Reference{Source: "a test", Cells: []Cell{{Row: "hpa-plus", Excess: 0.9, Values: map[string]float64{"podsChange": 3}}}}
	e.Replay.Cases = []Grid{{Pods: []float64{5}, Tolerance: []float64{0.1}, Excess: []float64{0.85, 0.9}}}
	e.Replay.Leaders = true
	const minutes = 60
	c := must.Get(must.Get(e.Reduce(Options{}, minutes))(t).Play(t.Context(), byTheModel))(t)
	for i := range c.Cluster.Runs {
		got, want := &c.Cluster.Runs[i], &c.Model.Runs[i]
		more := 0.
		if got.Row == "hpa" {
			more = 1
		}
		if d := float64(got.Measures["pods"] - want.Measures["pods"]); d < more-1e-3 || d > more+1e-3 {
			t.Errorf("%s at %v: %v pods in the cluster, and %v by the model", got.Row, got.Case, got.Measures["pods"], want.Measures["pods"])
		}
		if got.Measures[squared] != 0 != (more > 0) {
			t.Errorf("%s: the pods are off by %v", got.Row, got.Measures[squared])
		}
		if d := got.Measures["lost"] - want.Measures["lost"]; d > 1e-9 || d < -1e-9 {
			t.Errorf("%s: %v %% lost, and %v %% by the model", got.Row, got.Measures["lost"], want.Measures["lost"])
		}
	}
	text := must.Get(printed(c))(t)
	for _, want := range []string{"excess 0.9", "podsChange", "active.AR", "minute,arrivedModel", `"world": "lab"`} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
}

// printed is all that a contrast can be written as.
func printed(c *Contrast) (string, error) {
	var text bytes.Buffer
	table := c.Table()
	err := errors.Join(table.Print(&text), c.Write(&text), c.WriteMinutes(&text))
	return text.String(), err
}

func TestWhatAClusterCannotPlayIsRefused(t *testing.T) {
	e := short(t, "hpaplus-table3")
	for want, o := range map[string]struct {
		Options
		minutes int
	}{
		"for: must be time for 2 to 720 minutes of the load, was 1":              {minutes: 1},
		"trace: must be given once at most, for a cluster plays one, was 2":      {Options{Traces: []Source{shipped("mmpp"), shipped("diurnal")}}, 9},
		"policies: must be one of hpa, hpa-plus (did you mean hpa?), was \"hp\"": {Options{Rows: []string{"hp"}}, 9},
	} {
		if _, err := e.Reduce(o.Options, o.minutes); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if e := short(t, "hpaplus-table2"); e.InCluster() {
		t.Error("models without replicas are in a cluster")
	}
}
