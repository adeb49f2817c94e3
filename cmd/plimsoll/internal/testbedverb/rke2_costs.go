package testbedverb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/costs"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/prometheus"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/rke2"
)

// costsBeside is what the verb that holds OpenCost's costs beside ours is asked.
type costsBeside struct {
	file       string
	from, to   time.Time
	prometheus *url.URL
	format     cli.Output
}

func newRKE2CostsCommand(env *cli.Env) *cobra.Command {
	var ask costsBeside
	cmd := &cobra.Command{
		Use:   "costs --config FILE --from TIME",
		Short: "Compare OpenCost's node costs with Plimsoll's",
		Long: "Compare OpenCost's node costs with Plimsoll's, for a time such as that of a run. Plimsoll's are added up from its series\n" +
			"in Prometheus, OpenCost's come from its API at addons.openCost.url. Nodes that only one of them prices, such as the\n" +
			"control plane, are listed and in no total. It only reads.",
		Example: "  plimsoll testbed rke2 costs --config site.yaml --from 2026-03-01T12:00:00Z --to 2026-03-01T12:30:00Z",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.RequireFlags(cmd, "config", "from"); err != nil {
				return err
			}
			now := env.Now().Truncate(time.Second)
			if ask.to.IsZero() {
				ask.to = now
			}
			if !ask.from.Before(ask.to) || ask.to.After(now) {
				return cli.SeeHelp(cmd, cli.Misused("--from: must be before --to, and both not after now, was %s to %s", ask.from.Format(time.RFC3339), ask.to.Format(time.RFC3339)))
			}
			return ask.answer(cmd.Context(), env)
		},
	}
	cmd.Flags().StringVarP(&ask.file, "config", "c", "", "the site's `file`")
	cli.AddFlag(cmd, &ask.from, cli.ParseTime, "from", "time", "", "when the time begins, such as 2026-03-01T12:00:00Z")
	cli.AddFlag(cmd, &ask.to, cli.ParseTime, "to", "time", "", "when it ends (default: now)")
	cli.AddFlag(cmd, &ask.prometheus, cli.ParseURL, "prometheus", "URL", "", "where Prometheus is (default: that of addons.prometheus)")
	cli.AddOutput(cmd, &ask.format)
	return cmd
}

// answer asks both and prints what they say.
func (ask *costsBeside) answer(ctx context.Context, env *cli.Env) error {
	site, _, err := readRKE2Site(env, ask.file)
	if err != nil {
		return err
	}
	theirs, err := ask.servers(site)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: time.Minute}
	h, err := (&costs.Prometheus{URL: ask.prometheus, Client: client}).Since(ctx, costs.ByNode, ask.from, ask.to)
	switch {
	case errors.Is(err, prometheus.ErrUnreachable):
		return cli.WithCode(cli.ExitUnreachable, fmt.Errorf("--prometheus: %w", err))
	case err != nil:
		return err
	case !strings.HasPrefix(h.Source, "plimsoll_"):
		return cli.WithHint("have it scrape plimsoll run", fmt.Errorf("--prometheus: there are no costs of Plimsoll's at %s in that time, but OpenCost's own", ask.prometheus))
	}
	assets, err := (&costs.OpenCost{URL: theirs, Client: client}).Nodes(ctx, ask.from, ask.to)
	if errors.Is(err, costs.ErrNoOpenCost) {
		return cli.WithCode(cli.ExitUnreachable, fmt.Errorf("addons.openCost.url: %w", err))
	} else if err != nil {
		return fmt.Errorf("addons.openCost.url: %w", err)
	}
	answer := answerBeside(h, assets)
	for _, note := range answer.Notes {
		fmt.Fprintln(env.Stderr, "note:", note)
	}
	return ask.format.Print(env.Stdout, answer, answer.table)
}

// servers are where both are asked.
func (ask *costsBeside) servers(site *rke2.Site) (*url.URL, error) {
	o := site.Addons.OpenCost
	if o == nil {
		return nil, cli.Misconfigured(ask.file, pricing.NewFault("addons.openCost", "must be there, for its url says where OpenCost is asked"))
	}
	if ask.prometheus == nil {
		at := site.PrometheusURL()
		if at == "" {
			return nil, cli.WithCode(cli.ExitUsage, errors.New("--prometheus: must be given where the site has no addons.prometheus"))
		}
		var err error
		if ask.prometheus, err = cli.ParseURL(at); err != nil {
			return nil, err
		}
	}
	return cli.ParseURL(o.URL)
}

// besideAnswer is what nodes cost by us and by OpenCost.
type besideAnswer struct {
	From     time.Time    `json:"from"`
	To       time.Time    `json:"to"`
	Currency string       `json:"currency,omitempty"`
	Percent  float64      `json:"coveredPercent"` // of the time, by Plimsoll's series
	Total    besideLine   `json:"total"`          // of the nodes that both price
	Lines    []besideLine `json:"lines"`
	Notes    []string     `json:"notes,omitempty"`
}

// besideLine is one node. What one of the two does not know is not there.
type besideLine struct {
	Node        string          `json:"node"`
	Ours        *pricing.Micros `json:"ours,omitempty"`
	OursFor     string          `json:"oursFor,omitempty"`
	OpenCost    *pricing.Micros `json:"openCost,omitempty"`
	OpenCostFor string          `json:"openCostFor,omitempty"`
	// Difference is OpenCost's cost without ours.
	Difference *pricing.Micros `json:"difference,omitempty"`
}

func answerBeside(h *costs.History, assets []costs.Asset) *besideAnswer {
	a := &besideAnswer{From: h.From, To: h.To, Currency: h.Currency, Percent: 100 * h.Covered.Seconds() / h.To.Sub(h.From).Seconds()}
	lines := map[string]*besideLine{}
	line := func(node string) *besideLine {
		if lines[node] == nil {
			lines[node] = &besideLine{Node: node}
		}
		return lines[node]
	}
	for i := range h.Lines {
		l := line(h.Lines[i].Name)
		l.Ours, l.OursFor = &h.Lines[i].Cost, pricing.Short(h.Lines[i].For)
	}
	for i := range assets {
		l := line(assets[i].Node)
		l.OpenCost, l.OpenCostFor = &assets[i].Cost, pricing.Short(assets[i].For.Round(time.Second))
	}
	var ours, theirs pricing.Micros
	both := 0
	for _, l := range lines {
		if l.Ours != nil && l.OpenCost != nil {
			l.subtract()
			ours, theirs, both = ours+*l.Ours, theirs+*l.OpenCost, both+1
		}
		a.Lines = append(a.Lines, *l)
	}
	slices.SortFunc(a.Lines, func(x, y besideLine) int { return cmp.Compare(x.Node, y.Node) })
	a.Total = besideLine{Node: "*", Ours: &ours, OpenCost: &theirs}
	a.Total.subtract()
	a.note(both)
	return a
}

func (l *besideLine) subtract() {
	difference := *l.OpenCost - *l.Ours
	l.Difference = &difference
}

// hoursOfAMonth is what OpenCost divides prices of a month by, and has been seen to divide prices
// of an hour by.
const hoursOfAMonth = 730

// note prints what is not in the numbers, and what they look like.
func (a *besideAnswer) note(both int) {
	if a.Percent < 99.95 {
		a.Notes = append(a.Notes, fmt.Sprintf("of %.1f%% of the time Plimsoll's costs are known; OpenCost's are of all of it", a.Percent))
	}
	if alone := len(a.Lines) - both; alone > 0 {
		a.Notes = append(a.Notes, cli.Count(alone, "node", "nodes")+" that only one of the two has a price for: in no total")
	}
	ratio := float64(*a.Total.Ours) / float64(*a.Total.OpenCost)
	if math.Abs(ratio/hoursOfAMonth-1) < 0.2 {
		a.Notes = append(a.Notes, fmt.Sprintf("OpenCost's costs are 1/%.0f of ours: it takes the prices of an hour that it was given for those of a month", ratio))
	}
}

func (a *besideAnswer) table(w io.Writer) {
	fmt.Fprintln(w, strings.Join([]string{"NODE", "FOR", "PLIMSOLL", "FOR", "OPENCOST", "DIFFERENCE"}, "\t"))
	unit := cmp.Or(a.Currency, "units")
	show := func(m *pricing.Micros) string {
		if m == nil {
			return "-"
		}
		return m.Display(unit)
	}
	for _, l := range append([]besideLine{a.Total}, a.Lines...) {
		difference := show(l.Difference)
		if l.Difference != nil {
			difference += cli.InPercent(int64(*l.Difference), int64(*l.Ours))
		}
		fmt.Fprintln(w, strings.Join([]string{l.Node, cmp.Or(l.OursFor, "-"), show(l.Ours), cmp.Or(l.OpenCostFor, "-"), show(l.OpenCost), difference}, "\t"))
	}
}
