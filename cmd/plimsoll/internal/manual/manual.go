// Package manual writes the manual pages of a command and of the verbs below it, as man reads them.
package manual

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Pages are the commands that have a page: one and all below it, but for those that are hidden or
// are topics of help.
func Pages(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, verb := range cmd.Commands() {
		if listed(verb) {
			all = append(all, Pages(verb)...)
		}
	}
	return all
}

// listed reports whether help lists a verb. The library does not count help itself.
func listed(verb *cobra.Command) bool { return verb.IsAvailableCommand() || verb.Name() == "help" }

// Name is what a command's page is called.
func Name(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// Page is the page of a command.
func Page(cmd *cobra.Command, version string) string {
	cmd.InitDefaultHelpFlag()
	var b strings.Builder
	source := strings.TrimSpace(cmd.Root().Name() + " " + version)
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q\n.SH NAME\n%s \\- %s\n", strings.ToUpper(Name(cmd)), source, escape(Name(cmd)), escape(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR\n", escape(cmd.UseLine()))
	b.WriteString(".SH DESCRIPTION\n")
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	b.WriteString(paragraphs(long))
	if flags := options(cmd); flags != "" {
		b.WriteString(".SH OPTIONS\n" + flags)
	}
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n" + verbatim(cmd.Example))
	}
	if others := related(cmd); len(others) > 0 {
		b.WriteString(".SH SEE ALSO\n" + strings.Join(others, ",\n") + "\n")
	}
	return b.String()
}

// paragraphs writes a text whose lines that are indented are to stay as they are.
func paragraphs(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(part, "  ") {
			b.WriteString(verbatim(part))
			continue
		}
		b.WriteString(lines(part))
	}
	return b.String()
}

func verbatim(text string) string { return ".nf\n" + lines(strings.Trim(text, "\n")) + ".fi\n" }

// lines writes text, of which no line is to be taken for a request.
func lines(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = "\x00" + line
		}
		b.WriteString(strings.ReplaceAll(escape(line), "\x00", `\&`) + "\n")
	}
	return b.String()
}

// escape writes backslashes and hyphens as they are.
func escape(text string) string { return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text) }

// options lists the flags of a command, its own and those that it has from others.
func options(cmd *cobra.Command) string {
	var b strings.Builder
	list := func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		b.WriteString(".TP\n")
		if f.Shorthand != "" {
			b.WriteString(`\fB\-` + f.Shorthand + `\fR, `)
		}
		b.WriteString(`\fB\-\-` + escape(f.Name) + `\fR`)
		if value != "" {
			b.WriteString(` \fI` + escape(value) + `\fR`)
		}
		if !slices.Contains([]string{"", "false", "0", "0s", "[]"}, f.DefValue) && !strings.Contains(usage, "default") {
			usage += " (default: " + f.DefValue + ")"
		}
		b.WriteString("\n" + lines(usage))
	}
	cmd.NonInheritedFlags().VisitAll(list)
	cmd.InheritedFlags().VisitAll(list)
	return b.String()
}

// related are the pages of the command above and of those below.
func related(cmd *cobra.Command) []string {
	var all []string
	refer := func(other *cobra.Command) { all = append(all, `\fB`+escape(Name(other))+`\fR(1)`) }
	if cmd.HasParent() {
		refer(cmd.Parent())
	}
	for _, verb := range cmd.Commands() {
		if listed(verb) {
			refer(verb)
		}
	}
	return all
}
