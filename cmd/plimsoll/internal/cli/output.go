package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/plimsoll/plimsoll/api/printable"
	"github.com/plimsoll/plimsoll/pricing"
)

// Output is how a verb prints its answer.
type Output string

// The ways to print an answer.
const (
	OutputTable Output = "table"
	OutputJSON  Output = "json"
	OutputYAML  Output = "yaml"
	OutputCSV   Output = "csv" // of verbs that print lists
)

// AddOutput gives a command the flag that says how to print its answer: in the ways that every verb
// has, and perhaps in others besides.
func AddOutput(cmd *cobra.Command, into *Output, besides ...Output) {
	names := []string{string(OutputTable), string(OutputJSON), string(OutputYAML)}
	for _, o := range besides {
		names = append(names, string(o))
	}
	read := func(text string) (Output, error) {
		if !slices.Contains(names, text) {
			return "", fmt.Errorf("must be one of %s, was %q", strings.Join(names, ", "), text)
		}
		return Output(text), nil
	}
	last := len(names) - 1
	usage := "print the answer as " + strings.Join(names[:last], ", ") + " or " + names[last]
	AddShortFlag(cmd, into, read, "output", "o", "format", string(OutputTable), usage)
	if err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// Print writes an answer as JSON or YAML, or lets table write it, with tabs between columns.
func (o Output) Print(w io.Writer, answer any, table func(w io.Writer)) error {
	if o == OutputTable {
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
	if o == OutputYAML {
		return WriteYAML(w, text.Bytes())
	}
	_, err := w.Write(text.Bytes())
	return err
}

// WriteYAML writes JSON as YAML with the same keys in the same order and the same numbers, so
// that the one can be read as the other.
func WriteYAML(w io.Writer, text []byte) error {
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

// noText is what YAML 1.1 reads as a boolean or as a number of base 60, and YAML 1.2 as text.
// Kubernetes reads the former.
var noText = regexp.MustCompile(`^(?:[yYnN]|(?i:yes|no|on|off)|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?)$`)

// plain takes JSON's braces and quotes off, but for text that would be none without, or with
// characters that are escaped when it is shown: YAML reads escapes inside double quotes only.
func plain(n *yaml.Node) {
	n.Style = 0
	if printable.Text(n.Value) != n.Value || n.Kind == yaml.ScalarNode && noText.MatchString(n.Value) && n.Tag == "!!str" {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		plain(c)
	}
}

// Count is a number of things.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// InPercent prints a share in brackets, and nothing where there is no whole.
func InPercent(part, whole int64) string {
	if whole == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.0f%%)", 100*float64(part)/float64(whole))
}

// Cores prints CPU in cores.
func Cores(n int64) string { return strconv.FormatFloat(float64(n)/1000, 'f', 1, 64) }

// GiB prints memory in GiB.
func GiB(n int64) string {
	return strconv.FormatFloat(float64(n)/float64(pricing.GiB), 'f', 1, 64) + "GiB"
}
