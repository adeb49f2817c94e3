package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/journals"
	"github.com/plimsoll/plimsoll/dashboard"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

func newTopCommand(env *cli.Env) *cobra.Command {
	var (
		file, url string
		every     time.Duration
	)
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show hosts, workloads and pending pods as they are now",
		Long: `Show hosts, workloads, pending pods and the last decisions, from a page that plimsoll run, dashboard
or demo serves, or from the last record of a journal. On a terminal it is refreshed,
but for a journal on standard input.`,
		Example: "  kubectl port-forward -n plimsoll deploy/plimsoll 8642 & plimsoll top\n" +
			"  plimsoll top --journal day.ndjson",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" && cmd.Flags().Changed("url") {
				return cli.SeeHelp(cmd, cli.Misused("--url: must be omitted with --journal, was %q", url))
			}
			look := func(ctx context.Context) (*loop.Step, error) { return lastOfPage(ctx, url) }
			if file != "" {
				look = func(context.Context) (*loop.Step, error) { return lastOfJournal(env, file) }
			}
			refreshed := env.IsTerminal && file != "-" // which can be read once
			return showTop(cmd.Context(), env, refreshed, every, look)
		},
	}
	cmd.Flags().StringVar(&file, "journal", "", "the journal, a `file` of one record a line; - is standard input")
	cmd.Flags().StringVar(&url, "url", "http://"+dashboard.UsualAddress, "the `address` of the page")
	cli.AddFlag(cmd, &every, cli.Positive(cli.ParseDuration), "every", "duration", "5s", "how often to look, on a terminal")
	return cmd
}

// showTop prints once, or again and again until it is interrupted.
func showTop(ctx context.Context, env *cli.Env, refreshed bool, every time.Duration, look func(context.Context) (*loop.Step, error)) error {
	for {
		s, err := look(ctx)
		if err != nil {
			return err
		}
		if !refreshed {
			return printTop(env.Stdout, s)
		}
		fmt.Fprint(cli.Unguarded(env.Stdout), "\x1b[H\x1b[2J") // the screen is empty
		if err := printTop(env.Stdout, s); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// lastOfPage asks a page for its last record.
func lastOfPage(ctx context.Context, url string) (*loop.Step, error) {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/api/v1/record", nil)
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return nil, fmt.Errorf("--url: no page is served there (plimsoll run serves one where its configuration has dashboard): %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	var got struct {
		Record *loop.Step
		Error  string
	}
	err = json.NewDecoder(io.LimitReader(answer.Body, 64<<20)).Decode(&got)
	if err != nil || got.Record == nil {
		return nil, fmt.Errorf("%s: %s: %s", url, answer.Status, cmp.Or(got.Error, "this is no record"))
	}
	return got.Record, nil
}

// lastOfJournal reads a journal to its end.
func lastOfJournal(env *cli.Env, file string) (*loop.Step, error) {
	journal, err := journals.Open(env, file)
	if err != nil {
		return nil, fmt.Errorf("--journal: %w", err)
	}
	var last *loop.Step
	if err := loop.Read(journal, func(s *loop.Step) error { last = s; return nil }); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if last == nil {
		return nil, fmt.Errorf("%s: must have a record, has none", file)
	}
	return last, nil
}

// printTop prints a record as tables.
func printTop(out io.Writer, s *loop.Step) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	o := &s.Observed
	price := "price unknown"
	if o.Cost.Known {
		price = fmt.Sprintf("%s, %s a month", o.Cost.Ordered.Display(o.Cost.Unit), o.Cost.Ordered.PerMonth().Display(o.Cost.Unit))
	}
	fmt.Fprintf(w, "%s  %d nodes, %d pods, %d pending  %s\n", s.Time.UTC().Format(time.DateTime), o.Nodes, o.Pods, o.Pending, price)
	for _, p := range s.Problems {
		fmt.Fprintf(w, "! %s\n", p)
	}
	fmt.Fprint(w, "\nHOST\tMACHINES\tGOING\tPROMISED\tASKED FOR\tPODS\n")
	for i := range o.Hosts {
		fmt.Fprintln(w, hostLine(&o.Hosts[i]))
	}
	if len(s.Workloads) > 0 {
		fmt.Fprint(w, "\nWORKLOAD\tREPLICAS\tREADY\tLOAD\tLATENCY\tOBJECTIVE\tWHY\n")
	}
	for i := range s.Workloads {
		fmt.Fprintln(w, workloadLine(&s.Workloads[i]))
	}
	if len(s.Plan.Unplaced) > 0 {
		fmt.Fprint(w, "\nPENDING\tWHY\n")
	}
	for i := range s.Plan.Unplaced {
		u := &s.Plan.Unplaced[i]
		fmt.Fprintf(w, "%s\t%s\n", u.Who(), u.Text())
	}
	return w.Flush()
}

// hostLine says how much of a host its machines were promised, and how much of them is asked for.
func hostLine(h *loop.HostLoad) string {
	var promised, inNodes, asked pricing.Resources
	machines, going, pods := 0, 0, 0
	for i := range h.Machines {
		m := &h.Machines[i]
		if m.Phase == nodescaler.Spare {
			continue
		}
		machines, promised = machines+1, promised.Plus(m.Shape.Resources())
		if m.Draining || m.Phase == nodescaler.Deleting || m.Phase == nodescaler.Failed {
			going++
		}
		if m.Phase == nodescaler.Joined {
			inNodes, asked, pods = inNodes.Plus(m.Shape.Resources()), asked.Plus(m.Requests), pods+m.Pods
		}
	}
	name := h.Name
	if !h.Online {
		name += " (down)"
	}
	return fmt.Sprintf("%s\t%d\t%d\t%s\t%s\t%d", name, machines, going, largerShare(promised, h.Room), largerShare(asked, inNodes), pods)
}

// largerShare is the larger of the shares of CPU and memory, in percent.
func largerShare(of, all pricing.Resources) string {
	if all.CPU <= 0 || all.Memory <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*max(float64(of.CPU)/float64(all.CPU), float64(of.Memory)/float64(all.Memory)))
}

func workloadLine(w *loop.WorkloadStep) string {
	load, latency, objective, why := "-", "-", "-", ""
	if in := w.Inputs; in != nil {
		if in.Arrivals != nil {
			load = fmt.Sprintf("%.1f/s", *in.Arrivals)
		}
		if in.LatencyMs != nil {
			latency = fmt.Sprintf("%.0f ms", *in.LatencyMs)
		}
		if in.TargetMs > 0 {
			objective = fmt.Sprintf("%.0f ms", in.TargetMs)
		}
	}
	switch {
	case w.Held != nil:
		why = w.Held.Text
	case w.Decision != nil && len(w.Decision.Reasons) > 0:
		why = w.Decision.Reasons[0].Text
	}
	return fmt.Sprintf("%s\t%d\t%d\t%s\t%s\t%s\t%s", w.Workload, w.Replicas, w.Ready, load, latency, objective, why)
}
