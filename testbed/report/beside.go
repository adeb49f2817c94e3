package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/figure"
)

// Beside is results of one experiment that are laid side by side.
type Beside struct {
	Experiment *testbed.Experiment // as its file says
	Sources    []testbed.Source
}

// besideContent is what its page is made of.
type besideContent struct {
	*Beside
	Head     head
	Warnings []string
	Table    testbed.Table
	Figures  []Figure
	Courses  []Figure
	Verdicts []sourceVerdicts
	Origins  [][2]string
}

// sourceVerdicts are what became of the experiment's assertions in a source.
type sourceVerdicts struct {
	Name     string
	Verdicts []testbed.Verdict
}

// Figures draws response time and cost against users, a line for each policy in each source, or of
// scenarios violations against cost; and how each policy went about it.
func (b *Beside) Figures() []Figure { return append(b.summed(), courses(b.Sources)...) }

func (b *Beside) summed() []Figure {
	if len(b.Experiment.Load.Scenarios) > 0 {
		return drawn([]*figure.Chart{pareto(b.Experiment, b.Sources)})
	}
	return drawn([]*figure.Chart{responseTime(b.Experiment, b.Sources), cost(b.Experiment, b.Sources)})
}

// WriteHTML writes the page.
func (b *Beside) WriteHTML(w io.Writer) error {
	contrasts, err := testbed.Beside(b.Sources)
	if err != nil {
		return err
	}
	c := besideContent{Beside: b, Table: testbed.Worlds(b.Sources, contrasts), Figures: b.summed(), Courses: courses(b.Sources)}
	var names []string
	for i := range b.Sources {
		s := &b.Sources[i]
		names = append(names, s.Name)
		for _, text := range s.Warnings() {
			c.Warnings = append(c.Warnings, s.Name+": "+text)
		}
		if v := b.Experiment.Judge(s.Results); len(v) > 0 {
			c.Verdicts = append(c.Verdicts, sourceVerdicts{s.Name, v})
		}
		c.Origins = append(c.Origins, [2]string{s.Name, fmt.Sprintf("%s (plimsoll %s)", strings.Join(again(s.Results), " "), s.Version)})
	}
	c.Head = head{strings.Join(names, " beside "), b.Experiment.Title, "testbed"}
	return page(w, "beside.html", &c)
}
