package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/plimsoll/plimsoll/api/printable"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
)

// output is how a verb prints its answer.
type output string

// The ways to print an answer.
const (
	outputTable output = "table"
	outputJSON  output = "json"
	outputYAML  output = "yaml"
	outputCSV   output = "csv" // of verbs that print lists
)

// addOutput gives a command the flag that says how to print its answer: in the ways that every verb
// has, and perhaps in others besides.
func addOutput(cmd *cobra.Command, into *output, besides ...output) {
	names := []string{string(outputTable), string(outputJSON), string(outputYAML)}
	for _, o := range besides {
		names = append(names, string(o))
	}
	read := func(text string) (output, error) {
		if !slices.Contains(names, text) {
			return "", fmt.Errorf("must be one of %s, was %q", strings.Join(names, ", "), text)
		}
		return output(text), nil
	}
	last := len(names) - 1
	usage := "print the answer as " + strings.Join(names[:last], ", ") + " or " + names[last]
	cli.AddShortFlag(cmd, into, read, "output", "o", "format", string(outputTable), usage)
	if err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// print writes an answer as JSON or YAML, or lets table write it, with tabs between columns.
func (o output) print(w io.Writer, answer any, table func(w io.Writer)) error {
	if o == outputTable {
		columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		table(columns)
		return columns.Flush()
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(answer); err != nil {
		return err
	}
	if o == outputYAML {
		return writeYAML(w, text.Bytes())
	}
	_, err := w.Write(text.Bytes())
	return err
}

// writeYAML writes JSON as YAML with the same keys in the same order and the same numbers, so
// that the one can be read as the other.
func writeYAML(w io.Writer, text []byte) error {
	var document yaml.Node
	// JSON does not escape some control characters, which YAML refuses.
	if err := yaml.Unmarshal([]byte(printable.Text(string(text))), &document); err != nil {
		return err
	}
	plain(&document)
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return err
	}
	return encoder.Close()
}

// plain takes JSON's braces and quotes off, but for text with characters that are escaped when it
// is shown: YAML reads escapes inside double quotes only.
func plain(n *yaml.Node) {
	n.Style = 0
	if printable.Text(n.Value) != n.Value {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		plain(c)
	}
}
