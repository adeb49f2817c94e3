package costs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/prometheus"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/pricing"
)

// UnitPrices are what there is where a cluster has no PriceBook and no file names prices.
const UnitPrices = "no PriceBook: a unit per vCPU-hour and per GB-hour"

// costQuestion is what the cost verb is asked.
type costQuestion struct {
	by         By
	sort       string
	kube       connect.Kube
	prices     string
	all        bool
	since      time.Duration
	prometheus *url.URL
	match      string
	format     cli.Output
}

const costLong = `Show what a cluster costs per hour, by node, namespace or workload. It only reads, with any kubeconfig
that may list nodes and pods.

Pods pay for the CPU and memory that they request. Allocatable capacity that no pod requests is idle;
capacity that is not allocatable belongs to the system. Namespaces and workloads bear a share of both, in
proportion to what they request on the node.

Allocated cost is not what could be saved. Avoidable cost is. For a node or a pool, it is the cost of
machines that are empty or whose pods fit elsewhere. What a host draws anyway counts only with the last of
its machines, and hardware that was bought counts nothing. For a namespace or a workload, it is what could
be saved in addition if its pods were gone; these figures do not add up.

Prices come from the PriceBook default, or from --prices. Without either, a vCPU-hour and a GB-hour cost
one unit each, and the output says so. With --since, costs are added up from Plimsoll's series in
Prometheus or, by node, from OpenCost's. Time without samples is reported as unknown, and is not free.`

// New returns the command.
func New(env *cli.Env) *cobra.Command {
	var ask costQuestion
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Show what a cluster costs, by node, namespace or workload",
		Long:  costLong,
		Example: "  plimsoll cost\n" +
			"  plimsoll cost --by workload --sort-by cost --prices prices.yaml\n" +
			"  plimsoll cost --by namespace --since 24h --prometheus http://127.0.0.1:9090 -o csv",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := ask.check(cmd); err != nil {
				return cli.SeeHelp(cmd, err)
			}
			if ask.since > 0 {
				return ask.answerSpent(cmd.Context(), env)
			}
			return ask.answerNow(cmd.Context(), env)
		},
	}
	f := cmd.Flags()
	cli.AddFlag(cmd, &ask.by, parseBy, "by", "what", string(ByNode), "list by node, pool, namespace or workload")
	cli.AddFlag(cmd, &ask.sort, cli.OneOf(costOrders...), "sort-by", "column", "name", "sort by "+strings.Join(costOrders, ", ")+"; what is largest comes first")
	ask.kube.Add(cmd)
	f.StringVar(&ask.prices, "prices", "", "a price book, a YAML `file` (default: the cluster's PriceBook default, or a unit per vCPU-hour and per GB-hour)")
	f.BoolVar(&ask.all, "all-nodes", false, "price all nodes (default: Plimsoll's, or where there are none all but the control plane)")
	cli.AddFlag(cmd, &ask.since, cli.Positive(cli.ParseDuration), "since", "duration", "", "show what was spent within this time until now, such as 24h")
	cli.AddFlag(cmd, &ask.prometheus, cli.ParseURL, "prometheus", "URL", "", "where Prometheus is, for --since")
	f.StringVar(&ask.match, "match", "", "for --since, further `matchers` of the series, such as 'cluster=\"home\"'")
	cli.AddOutput(cmd, &ask.format, cli.OutputCSV)
	return cmd
}

func parseBy(text string) (By, error) {
	var words []string
	for _, by := range Bys() {
		words = append(words, string(by))
	}
	word, err := cli.OneOf(words...)(text)
	return By(word), err
}

// check refuses flags that mean nothing together.
func (ask *costQuestion) check(cmd *cobra.Command) error {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	var faults []error
	if given("since") && !given("prometheus") {
		faults = append(faults, errors.New("--prometheus: must be given with --since"))
	}
	for _, name := range []string{"prometheus", "match"} {
		if given(name) && !given("since") {
			faults = append(faults, fmt.Errorf("--%s: must be given with --since only, which says for how long", name))
		}
	}
	for _, name := range []string{"kubeconfig", "context", "prices", "all-nodes"} {
		if given(name) && given("since") {
			faults = append(faults, fmt.Errorf("--%s: must be omitted with --since, which reads Prometheus and not the cluster", name))
		}
	}
	if given("since") && slices.Contains(costOrdersNow, ask.sort) {
		faults = append(faults, fmt.Errorf("--sort-by: must be one of %s with --since, was %q", strings.Join(costOrdersSpent, ", "), ask.sort))
	}
	if len(faults) > 0 {
		return cli.WithCode(cli.ExitUsage, errors.Join(faults...))
	}
	return nil
}

// answerNow says what the cluster costs now.
func (ask *costQuestion) answerNow(ctx context.Context, env *cli.Env) error {
	var book *pricing.Book
	if ask.prices != "" { // before the cluster is asked anything
		var err error
		if book, err = resources.ReadPrices(env, "--prices", ask.prices); err != nil {
			return err
		}
	}
	cfg, cluster, err := ask.kube.Config(env)
	if err != nil {
		return err
	}
	seen, err := kube.Look(ctx, kube.Config{REST: cfg})
	if err != nil {
		return connect.Unread(err)
	}
	from := ask.prices
	if book == nil {
		if book, from, err = bookOf(seen); err != nil {
			return err
		}
	}
	look := Machines(seen, book, ask.all, env.Now().Truncate(time.Second))
	c, err := Of(look.Snapshot)
	if err != nil {
		return cli.WithCode(cli.ExitConfig, fmt.Errorf("%s: %w", from, err))
	}
	notes := look.Notes
	if from == UnitPrices {
		notes = append(notes, fmt.Sprintf("prices are a unit per vCPU-hour and per GB-hour: there is no PriceBook %s; --prices names a file in its place", v1alpha1.DefaultPriceBook))
	}
	answer := answerCost(c, ask, notes, book)
	answer.Cluster, answer.Prices = cluster, from
	for _, note := range answer.Notes {
		fmt.Fprintln(env.Stderr, "note:", note)
	}
	if ask.format == cli.OutputCSV {
		return writeCSV(env.Stdout, answer.csv())
	}
	return ask.format.Print(env.Stdout, answer, answer.table)
}

// bookOf is the prices that the cluster states, and where they are from: where it has none, a unit
// for each. Those that may be there and cannot be read are not taken for none.
func bookOf(p *kube.Picture) (book *pricing.Book, from string, err error) {
	for _, b := range p.PriceBooks {
		if b.Name != v1alpha1.DefaultPriceBook {
			continue
		}
		book, err := resources.Book(b)
		if err != nil {
			return nil, "", cli.Misconfigured("PriceBook "+b.Name, err)
		}
		return book, "PriceBook " + b.Name, nil
	}
	for _, err := range p.Unread {
		if strings.HasPrefix(err.Error(), "pricebooks:") {
			return nil, "", cli.WithHint("give --prices FILE", cli.WithCode(cli.ExitConfig, err))
		}
	}
	return pricing.DefaultBook(), UnitPrices, nil
}

// answerSpent says what the cluster cost since some time.
func (ask *costQuestion) answerSpent(ctx context.Context, env *cli.Env) error {
	from := &Prometheus{URL: ask.prometheus, Client: &http.Client{Timeout: time.Minute}, Match: ask.match}
	now := env.Now().Truncate(time.Second)
	h, err := from.Since(ctx, ask.by, now.Add(-ask.since), now)
	switch {
	case errors.Is(err, prometheus.ErrUnreachable):
		return cli.WithCode(cli.ExitUnreachable, fmt.Errorf("--prometheus: %w", err))
	case errors.Is(err, ErrSeveralClusters):
		return cli.WithHint(`choose one with --match 'cluster="…"'`, err)
	case errors.Is(err, ErrNoSeries):
		return cli.WithHint("have Prometheus scrape plimsoll run", err)
	case err != nil:
		return err
	}
	answer := answerSpent(h, ask)
	for _, note := range answer.Notes {
		fmt.Fprintln(env.Stderr, "note:", note)
	}
	if ask.format == cli.OutputCSV {
		return writeCSV(env.Stdout, answer.csv())
	}
	return ask.format.Print(env.Stdout, answer, answer.table)
}
