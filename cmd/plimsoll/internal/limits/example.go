package limits

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-helpers/resource"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// figures are the pods of a survey's figures.
//
//go:embed figures/figure9.yaml figures/figure10.yaml
var figures embed.FS

// exampleAnswer holds a paper's numbers against what its rules come to.
type exampleAnswer struct {
	Source string         `json:"source"`
	Tables []exampleTable `json:"tables"`
	// Mixed is FFMRA's split of the whole node as it is printed, which mixes units.
	Mixed []mixedPools `json:"ffmraAsPrintedUnitsMixed"`
}

// exampleTable is one of the paper's examples.
type exampleTable struct {
	Rule rightsize.Rule    `json:"rule"`
	Of   string            `json:"of"`
	Node pricing.Resources `json:"node"`
	Rows []exampleRow      `json:"rows"`
	Note string            `json:"note"`
}

// exampleRow is a limit, and the one that is printed.
type exampleRow struct {
	rightsize.Limit
	Printed pricing.Resources `json:"printed"`
	Same    bool              `json:"same"`
}

// mixedPools are numbers of nothing: millicores and an amount of memory, added up.
type mixedPools struct {
	MemoryIn string  `json:"memoryIn"`
	Whole    float64 `json:"whole"`
	Dominant float64 `json:"dominant"`
	Other    float64 `json:"other"`
}

// showExample prints the paper's examples.
func (ask *limitsQuestion) showExample(cmd *cobra.Command, env *cli.Env) error {
	var faults []error
	for _, name := range []string{"pods", "node", "rule"} {
		if cmd.Flags().Changed(name) {
			faults = append(faults, fmt.Errorf("--%s: must be omitted with --example, which has its own", name))
		}
	}
	if len(faults) > 0 {
		return cli.SeeHelp(cmd, cli.WithCode(cli.ExitUsage, errors.Join(faults...)))
	}
	answer, err := workExample()
	if err != nil {
		return err
	}
	return ask.format.Print(env.Stdout, answer, answer.table)
}

// workExample applies the rules to the paper's figures.
func workExample() (*exampleAnswer, error) {
	requests9, limits9, err := readFigure("figures/figure9.yaml")
	if err != nil {
		return nil, err
	}
	requests10, limits10, err := readFigure("figures/figure10.yaml")
	if err != nil {
		return nil, err
	}
	size := func(cpu pricing.MilliCPU, mebi pricing.Bytes) pricing.Resources {
		return pricing.Resources{CPU: cpu, Memory: mebi * pricing.MiB}
	}
	printedDRF := []rightsize.Demand{{Pod: "pod1", Requests: size(300, 1200)}, {Pod: "pod2", Requests: size(600, 200)}}
	a := &exampleAnswer{Source: "L. Nguyen and N. Bhoi, Autoscaling in Kubernetes"}
	for _, e := range []struct {
		rule            rightsize.Rule
		of              string
		node            pricing.Resources
		demand, printed []rightsize.Demand
		note            string
	}{
		{
			rightsize.MLFDRS, "figure 10's requests, beside its limits", size(2000, 1800), requests10, limits10,
			"The text names no rule for figure 10, and says that its node has 2000Mi or 1990Mi. It is MLF-DRS on the 1800Mi of figure 9's node.\n" +
				"779m is a slip for 799m, and was applied as it is: figure 11 has 38 % of it. Even, as the text calls them, are the two of memory only.",
		},
		{
			rightsize.FFMRA, "figure 10's requests, beside its limits", size(2000, 2000), requests10, limits10,
			"The last rule that the text describes before figure 10, on the node that it names. Its figures are others; 736Mi is the same by chance.",
		},
		{
			rightsize.DRF, "figure 9's requests, beside section VIII A", size(900, 1800), requests9, printedDRF,
			"What is printed follows from figure 9's requests.",
		},
		{
			rightsize.DRF, "figure 9's limits, beside section VIII A", size(900, 1800), limits9, printedDRF,
			"The text takes figure 9's limits for what is demanded. From them, what is printed does not follow.",
		},
	} {
		limits, err := rightsize.FairLimits(e.rule, e.node, e.demand)
		if err != nil {
			return nil, err
		}
		t := exampleTable{Rule: e.rule, Of: e.of, Node: e.node, Note: e.note}
		for i, l := range limits {
			printed := e.printed[i].Requests
			t.Rows = append(t.Rows, exampleRow{Limit: l, Printed: printed, Same: l.Limits == printed})
		}
		a.Tables = append(a.Tables, t)
	}
	return a, a.mix(size(2000, 2000), requests10)
}

// readFigure reads a figure's pods: what they request, and what their limits are.
func readFigure(name string) (requests, limits []rightsize.Demand, err error) {
	data, err := figures.ReadFile(name)
	if err != nil {
		return nil, nil, err
	}
	pods, _, err := readPods(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return demands(pods, resource.PodRequests), demands(pods, resource.PodLimits), nil
}

// mix adds FFMRA's split of the node as it is printed, in two units of memory.
func (a *exampleAnswer) mix(node pricing.Resources, pods []rightsize.Demand) error {
	for _, unit := range []struct {
		name string
		size pricing.Bytes
	}{{"Mi", pricing.MiB}, {"Gi", pricing.GiB}} {
		dominant, other, err := rightsize.MixedPools(node, pods, unit.size)
		if err != nil {
			return err
		}
		a.Mixed = append(a.Mixed, mixedPools{unit.name, dominant + other, dominant, other})
	}
	return nil
}

func (a *exampleAnswer) table(w io.Writer) {
	fmt.Fprintf(w, "%s: what is printed, and what the rules come to. What differs is marked ≠.\n", a.Source)
	for _, t := range a.Tables {
		t.print(w)
	}
	fmt.Fprintf(w, "\nFFMRA AS PRINTED, UNITS MIXED: millicores and memory are added up, and split\n")
	fmt.Fprintln(w, "MEMORY IN\tWHOLE NODE\tFOR DOMINANT\tFOR OTHERS")
	for _, m := range a.Mixed {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\n", m.MemoryIn, m.Whole, m.Dominant, m.Other)
	}
	fmt.Fprintln(w, "These are numbers of nothing, others in every unit. FFMRA's limits above do without: the sum cancels out.")
}

func (t *exampleTable) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s on %s and %s, of %s\n", strings.ToUpper(string(t.Rule)), millicores(t.Node.CPU), mebibytes(t.Node.Memory), t.Of)
	fmt.Fprintln(w, "POD\tDOMINANT\tCPU\tPRINTED\tMEMORY\tPRINTED")
	for _, r := range t.Rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Pod, r.Dominant,
			millicores(r.Limits.CPU), marked(millicores(r.Printed.CPU), r.Limits.CPU == r.Printed.CPU),
			mebibytes(r.Limits.Memory), marked(mebibytes(r.Printed.Memory), r.Limits.Memory == r.Printed.Memory))
	}
	fmt.Fprintln(w, t.Note)
}

func marked(text string, same bool) string {
	if same {
		return text
	}
	return text + " ≠"
}
