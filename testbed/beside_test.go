package testbed

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// measured are results of one trial a cell, of which p90 and cost are given.
func measured(name string, cells ...Trial) Source {
	r := &Results{Header: Header{Experiment: "x", Load: "sleep", DurationSeconds: 300, Trials: 1, Unit: "units"}, Runs: cells}
	r.sum()
	return Source{Name: name, Results: r}
}

func TestSourcesAreHeldAgainstTheFirst(t *testing.T) {
	sim := measured("sim",
		Trial{Policy: "a", Users: 10, P90Ms: 118, CostUnits: 2.06, Orders: 1},
		Trial{Policy: "a", Users: 40, P90Ms: 125, CostUnits: 2},
		Trial{Policy: "only here", Users: 10, P90Ms: 1},
	)
	lab := measured("lab",
		Trial{Policy: "a", Users: 10, P90Ms: 100, CostUnits: 2, Orders: 2},
		Trial{Policy: "a", Users: 40, P90Ms: 100, CostUnits: Number(math.NaN())},
	)
	all := []Source{sim, lab}
	got := must.Get(Beside(all))(t)
	table := Worlds(all, got)
	rows := map[string][]string{}
	for _, row := range table.Rows {
		rows[strings.Join(row[:3], " ")] = row[3:]
	}
	want := map[string][]string{
		"a 10 p90Ms":     {"118", "100", "+18.0 %  "},
		"a 40 p90Ms":     {"125", "100", "+25.0 % !"},
		"a 10 costUnits": {"2.1", "2", "+3.0 %  "},
		"a 40 costUnits": {"2", "–", "–  "},
		"a 10 orders":    {"1", "2", "-50.0 %  "},
		"a 10 returns":   {"0", "0", "+0.0 %  "},
	}
	for key, row := range want {
		if diff := cmp.Diff(row, rows[key]); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
	}
	for _, c := range got {
		if c.Flagged != (c.Users == 40 && c.Measure == "p90Ms") {
			t.Errorf("%s at %d: %s is flagged: %v", c.Policy, c.Users, c.Measure, c.Flagged)
		}
	}
	if len(rows) != 2*len(contrasted) {
		t.Errorf("%d rows", len(rows))
	}
	var out bytes.Buffer
	if err := table.Print(&out); err != nil || !strings.Contains(out.String(), "sim off lab") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// A world by the clock says what answers took without what its machine added, and the other, which
// has no clock, all that they took.
func TestWhatAMachineAddedIsToldApart(t *testing.T) {
	sim := measured("sim", Trial{Policy: "a", Users: 10, P90Ms: 90}, Trial{Policy: "a", Users: 40, P90Ms: 90})
	lab := measured("lab", Trial{Policy: "a", Users: 10, P90Ms: 120, ServedP90Ms: 100}, Trial{Policy: "a", Users: 40, P90Ms: 120})
	got := must.Get(Beside([]Source{sim, lab}))(t)
	var served []Contrast
	for _, c := range got {
		if c.Measure == servedP90 {
			served = append(served, c)
		}
	}
	if len(served) != 1 || served[0].Users != 10 || served[0].Values[1].Mean != 100 || served[0].Off[1] != -0.1 || served[0].Flagged {
		t.Errorf("%+v", served)
	}
}

func TestWhatCannotBeComparedIsRefused(t *testing.T) {
	cell := Trial{Policy: "a", Users: 10}
	other := func(change func(*Header)) []Source {
		lab := measured("lab", cell)
		change(&lab.Header)
		return []Source{measured("sim", cell), lab}
	}
	for want, all := range map[string][]Source{
		"there must be two or more to compare, were 1":         {measured("sim", cell)},
		"lab: must have the experiment of sim, x, was y":       other(func(h *Header) { h.Experiment = "y" }),
		"lab: must have the load of sim, sleep, was pace":      other(func(h *Header) { h.Load = "pace" }),
		"lab: must have the seconds of a trial of sim, 300":    other(func(h *Header) { h.DurationSeconds = 60 }),
		"lab: must have the unit of sim, units, was EUR":       other(func(h *Header) { h.Unit = "EUR" }),
		"no policy ran at the same level in two of them":       {measured("sim", cell), measured("lab", Trial{Policy: "a", Users: 20})},
		"sim: must have the name of no other, such as of sim,": {measured("sim", cell), measured("sim", cell)},
	} {
		if _, err := Beside(all); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
