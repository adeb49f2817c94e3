package demoverb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/hull"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/demo"
)

// plainDemo prints what happens line by line, and at the end what has come of it. It is no
// failure to be stopped: what has happened until then is summed up.
func plainDemo(ctx context.Context, env *cli.Env, s *demo.Session, o demoOptions) error {
	w := env.Stdout
	if o.url != "" {
		fmt.Fprintf(env.Stderr, "web page: %s\n", o.url)
	}
	fmt.Fprintf(w, "plimsoll demo · everything below is simulated · %s at %s · seed %d\n%s\n\n", pricing.Short(o.length()), o.speed, o.seed, strings.Join(demo.Setting(), "\n"))
	err := live(ctx, env, s, o.speed, func(events []demo.Event) error {
		for i := range events {
			if _, err := fmt.Fprintln(w, eventLine(&events[i])); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	fmt.Fprintln(w)
	return printSummary(w, s.Summary(), o.journal)
}

// eventLine prints an event in one line.
func eventLine(e *demo.Event) string {
	if e.State != nil {
		return statusLine(e.State)
	}
	line := e.At.Format("15:04:05") + " " + signOf(e.Kind).mark + " " + e.Text
	if e.Why != "" {
		line += ": " + e.Why
	}
	if e.Step != "" {
		line += " [" + e.Step + "]"
	}
	return line
}

// statusLine prints the state in one line.
func statusLine(s *demo.State) string {
	line := s.Time.Format("15:04") + "    "
	for i := range s.Services {
		line += serviceText(&s.Services[i]) + " · "
	}
	line += fmt.Sprintf("%d machines", s.Machines[nodescaler.Joined])
	if coming := s.Machines[nodescaler.Ordered] + s.Machines[nodescaler.Booting]; coming > 0 {
		line += fmt.Sprintf(" and %d coming", coming)
	}
	return line + fmt.Sprintf("  %s, static fleet %s", s.Rate.Display(s.Unit), s.Static.Display(s.Unit))
}

func serviceText(s *demo.Service) string {
	rate, latency := "?", "unknown ?"
	if v, ok := s.Arrivals.Number(); ok {
		rate = hull.Rate(v)
	}
	if v, ok := s.Latency.Number(); ok {
		mark := "✓"
		if v > s.Objective.Target.Seconds() {
			mark = "!"
		}
		latency = fmt.Sprintf("%.0f ms %s", 1000*v, mark)
	}
	return fmt.Sprintf("%s %s req/s p%.4g %s pods %d/%d", s.Name, rate, 100*s.Objective.Quantile, latency, s.Ready, s.Replicas)
}

// printSummary prints what has come of a session.
func printSummary(w io.Writer, s demo.Summary, journal string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "simulated\t%s, seed %d: %s, %d failed\n", pricing.Short(s.Length.Round(time.Second)), s.Seed, pricing.Count(s.Requests, "request"), s.Failed)
	fmt.Fprintf(table, "cost\t%s; the static fleet, %s, costs %s: %s\n", s.Spent.Display(s.Unit), s.StaticFleet, s.StaticSpent.Display(s.Unit), hull.Saved(s.Spent, s.StaticSpent))
	for i := range s.Services {
		of := &s.Services[i]
		fmt.Fprintf(table, "%s\tp%.4g ≤ %d ms missed in %d of %s%s\n", of.Name, 100*of.Objective.Quantile, of.Objective.Target.Milliseconds(), of.Over, pricing.Count(s.Minutes, "minute"), latencies(of))
	}
	fmt.Fprintf(table, "machines\t%d ordered, %d reclaimed, %s moved\n", s.Orders, s.Returns, pricing.Count(s.Moves, "pod"))
	fmt.Fprintf(table, "decisions\t%d of %s changed something\n", s.Decisions, pricing.Count(s.Steps, "step"))
	if journal != "" {
		fmt.Fprintf(table, "why\tplimsoll explain last --journal %s\n", journal)
	}
	return table.Flush()
}

// latencies prints the response times over all requests, if any was answered.
func latencies(s *demo.ServiceSummary) string {
	if math.IsNaN(s.P50) {
		return ""
	}
	return fmt.Sprintf("; of all requests p50 %.0f, p90 %.0f, p99 %.0f ms", 1000*s.P50, 1000*s.P90, 1000*s.P99)
}

// sign is how a kind of event is shown.
type sign struct {
	mark  string
	style hull.Style
}

func signOf(k demo.Kind) sign {
	switch k {
	case demo.Grown:
		return sign{"▲", hull.Good}
	case demo.Shrunk:
		return sign{"▼", hull.Plain}
	case demo.Ordered:
		return sign{"+", hull.Good}
	case demo.Joined, demo.Relief:
		return sign{"✓", hull.Good}
	case demo.Emptying:
		return sign{"↓", hull.Plain}
	case demo.Kept:
		return sign{"↑", hull.Plain}
	case demo.Moved:
		return sign{"→", hull.Plain}
	case demo.Returned:
		return sign{"−", hull.Plain}
	case demo.Trouble:
		return sign{"✗", hull.Bad}
	case demo.Fault:
		return sign{"!", hull.Bad}
	case demo.Price:
		return sign{"€", hull.Doubt}
	case demo.Status:
	}
	return sign{"·", hull.Faint}
}
