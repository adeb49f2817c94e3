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
)

// output is how a verb prints its answer.
type output string

// The ways to print an answer.
const (
	outputTable output = "table"
	outputJSON  output = "json"
	outputYAML  output = "yaml"
)

var outputs = []string{string(outputTable), string(outputJSON), string(outputYAML)}

// addOutput gives a command the flag that says how to print its answer.
func addOutput(cmd *cobra.Command, into *output) {
	*into = outputTable
	cmd.Flags().VarP(into, "output", "o", "print the answer as table, json or yaml")
	complete := cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err)
	}
}

// Set reads the flag.
func (o *output) Set(text string) error {
	if !slices.Contains(outputs, text) {
		return fmt.Errorf("must be one of %s, was %q", strings.Join(outputs, ", "), text)
	}
	*o = output(text)
	return nil
}

// String is the flag's value.
func (o *output) String() string { return string(*o) }

// Type is what the help calls the value.
func (o *output) Type() string { return "format" }

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
	if err := yaml.Unmarshal(text, &document); err != nil {
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

// plain takes JSON's braces and quotes off.
func plain(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		plain(c)
	}
}
