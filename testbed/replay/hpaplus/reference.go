package hpaplus

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/testbed"
)

// Reference is what was published, to lay results beside. It is no yardstick: it was measured on a
// trace that is not to be had.
type Reference struct {
	Source string `json:"source" strict:"required"`
	Cells  []Cell `json:"cells" strict:"required"`
}

// Cell is what was published of a row at an excess.
type Cell struct {
	Row     string             `json:"row" strict:"required"`
	Against string             `json:"against,omitempty"`
	Excess  float64            `json:"excess,omitempty"` // any unless set
	Values  map[string]float64 `json:"values" strict:"required"`
}

// seconds is a value that may be published and is in no results.
const seconds = "trainSeconds"

func (ref *Reference) validate(f *testbed.Faults, e *Experiment) {
	known := append(e.measureNames(), seconds, squared)
	for i, c := range ref.Cells {
		path := fmt.Sprintf("reference.cells[%d]", i)
		f.OneOf(path+".row", c.Row, e.RowNames())
		twice := slices.ContainsFunc(ref.Cells[:i], func(o Cell) bool { return o.Row == c.Row && o.Against == c.Against && o.Excess == c.Excess })
		f.Must(!twice, path, "must be of another row, against or excess than the cells before", c.Row)
		for name := range c.Values {
			f.Must(slices.Contains(known, name) || strings.HasPrefix(name, "active."), path+".values", "must be measures of "+strings.Join(known, ", "), name)
		}
	}
}

// Side is what was published beside what came out, in every case at the same excess: on each trace
// if there are few, or else the median over them.
func (e *Experiment) Side(r *Results) (testbed.Table, bool) {
	if e.Reference == nil {
		return testbed.Table{}, false
	}
	t := testbed.Table{Caption: "beside what was published", Head: []string{"row", "case", "measure", "published"}, Left: 3}
	traces := r.Traces
	if Few(r) {
		t.Head = append(t.Head, traces...)
	} else {
		traces, t.Head = []string{""}, append(t.Head, "median here")
	}
	names := append(e.measureNames(), seconds)
	differ := varying(e.Cases())
	for i := range e.Reference.Cells {
		cell := &e.Reference.Cells[i]
		for _, name := range append(names, activeNames(cell)...) {
			theirs, has := cell.Values[name]
			if !has {
				continue
			}
			for _, c := range e.Cases() {
				if cell.Excess != 0 && cell.Excess != c.Excess || r.At(cell.Row, cell.Against, c) == nil {
					continue
				}
				row := []string{cell.Row, named(&c, differ), name, number(theirs)}
				for _, trace := range traces {
					row = append(row, testbed.Show(r.beside(cell, name, trace, c), 3))
				}
				t.Rows = append(t.Rows, row)
			}
		}
	}
	return t, len(t.Rows) > 0
}

// beside is what came out where something was published.
func (r *Results) beside(cell *Cell, name, trace string, c Case) float64 {
	if name == seconds {
		return r.Seconds(cell.Row)
	}
	at := term{factor: 1, measure: name, row: cell.Row, against: cell.Against, trace: trace}
	v, _ := at.value(r, c)
	return v
}

// activeNames are a cell's values of who was active, in order.
func activeNames(c *Cell) []string {
	var out []string
	for name := range c.Values {
		if strings.HasPrefix(name, "active.") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
