package manual

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

func tree() *cobra.Command {
	root := &cobra.Command{Use: "boat", Short: "Sail"}
	run := func(*cobra.Command, []string) {}
	verb := &cobra.Command{
		Use: "load-up GOODS", Short: "Load goods", Run: run,
		Long:    "Load goods up to the mark.\n.hidden goods count.\n\n  boat load-up tea\n\nThe mark is C:\\mark.",
		Example: "  boat load-up tea --to 5\n  'quoted'\n",
	}
	verb.Flags().StringP("out", "o", "table", "the `format` of the list")
	verb.Flags().Bool("dry-run", false, "only say what would be done")
	verb.Flags().Int("secret", 1, "not shown")
	_ = verb.Flags().MarkHidden("secret")
	root.AddCommand(verb, &cobra.Command{Use: "old", Hidden: true, Run: run}, &cobra.Command{Use: "topic", Short: "Read"})
	return root
}

func TestAPageIsAsManReadsIt(t *testing.T) {
	const want = `.TH "BOAT-LOAD-UP" 1 "" "boat v1.2.3"
.SH NAME
boat\-load\-up \- Load goods
.SH SYNOPSIS
\fBboat load\-up GOODS [flags]\fR
.SH DESCRIPTION
Load goods up to the mark.
\&.hidden goods count.
.PP
.nf
  boat load\-up tea
.fi
.PP
The mark is C:\emark.
.SH OPTIONS
.TP
\fB\-\-dry\-run\fR
only say what would be done
.TP
\fB\-h\fR, \fB\-\-help\fR
help for load\-up
.TP
\fB\-o\fR, \fB\-\-out\fR \fIformat\fR
the format of the list (default: table)
.SH EXAMPLES
.nf
  boat load\-up tea \-\-to 5
  'quoted'
.fi
.SH SEE ALSO
\fBboat\fR(1)
`
	pages := Pages(tree())
	if len(pages) != 2 || Name(pages[0]) != "boat" || Name(pages[1]) != "boat-load-up" {
		t.Fatalf("pages of %v", pages)
	}
	if diff := cmp.Diff(want, Page(pages[1], "v1.2.3")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
