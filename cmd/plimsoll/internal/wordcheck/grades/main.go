// Command grades prints how hard each page is to read, the hardest first.
package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/wordcheck"
)

func main() {
	grades, err := wordcheck.Grades(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "grades:", err)
		os.Exit(1)
	}
	slices.SortStableFunc(grades, func(a, b wordcheck.Grade) int { return cmp.Compare(b.Level, a.Level) })
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "GRADE\tMEDIAN SENTENCE\tWORDS\t  PAGE")
	words := 0
	for _, g := range grades {
		words += g.Words
		fmt.Fprintf(table, "%.1f\t%d\t%d\t  %s\n", g.Level, g.Median, g.Words, g.Path)
	}
	fmt.Fprintf(table, "\t\t%d\t  all\n", words)
	_ = table.Flush() // whoever reads has gone
}
