package report

import (
	"fmt"
	"html/template"
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
	Drawings []template.HTML
	Origins  [][2]string
}

// Figures draws response time and cost against users, a line for each policy in each source. Of scenarios
// there are none.
func (b *Beside) Figures() []Figure {
	if len(b.Experiment.Load.Scenarios) > 0 {
		return nil
	}
	return drawn([]*figure.Chart{responseTime(b.Experiment, b.Sources), cost(b.Experiment, b.Sources)})
}

// WriteHTML writes the page.
func (b *Beside) WriteHTML(w io.Writer) error {
	contrasts, err := testbed.Beside(b.Sources)
	if err != nil {
		return err
	}
	c := besideContent{Beside: b, Table: testbed.Worlds(b.Sources, contrasts)}
	var names []string
	for i := range b.Sources {
		s := &b.Sources[i]
		names = append(names, s.Name)
		for _, text := range s.Warnings() {
			c.Warnings = append(c.Warnings, s.Name+": "+text)
		}
		c.Origins = append(c.Origins, [2]string{s.Name, fmt.Sprintf("%s (plimsoll %s)", strings.Join(again(s.Results), " "), s.Version)})
	}
	c.Head = head{strings.Join(names, " beside "), b.Experiment.Title, "testbed"}
	for _, f := range b.Figures() {
		c.Drawings = append(c.Drawings, template.HTML(f.SVG)) // our own drawing, escaped where it was drawn
	}
	if err := layouts.ExecuteTemplate(w, "beside.html", &c); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
