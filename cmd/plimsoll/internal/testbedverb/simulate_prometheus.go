package testbedverb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/prometheus"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

// promQuestion is which of what Prometheus kept is the load.
type promQuestion struct {
	promQL   string
	server   *url.URL
	config   string
	from, to time.Time
	last     time.Duration
	gaps     string
	site     SiteServer
}

// SiteServer reads from a configuration file which Prometheus there is, and how it is asked.
type SiteServer func(env *cli.Env, file string) (*prometheus.Server, error)

// promFlags are those that are for --query.
var promFlags = []string{"prometheus", "config", "from", "to", "last", "gaps"}

// What a minute without a value is taken for.
const (
	gapsRefused  = "refuse"
	gapsZero     = "zero"
	gapsPrevious = "previous"
)

func (q *promQuestion) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.promQL, "query", "", "`PromQL` that gives requests a second, in one series")
	cli.AddFlag(cmd, &q.server, cli.ParseURL, "prometheus", "URL", "", "where Prometheus is, for --query")
	f.StringVarP(&q.config, "config", "c", "", "the configuration `file` of plimsoll run, for the address and credentials of Prometheus")
	cli.AddFlag(cmd, &q.from, cli.ParseTime, "from", "time", "", "when the load begins, such as 2026-03-01T00:00:00Z")
	cli.AddFlag(cmd, &q.to, cli.ParseTime, "to", "time", "", "when it ends (default: now)")
	cli.AddFlag(cmd, &q.last, wholeMinutes, "last", "duration", "", "how long until now, in place of --from and --to, such as 7d")
	cli.AddFlag(cmd, &q.gaps, cli.OneOf(gapsRefused, gapsZero, gapsPrevious), "gaps", "what", gapsRefused,
		"how to fill a minute without a value: refuse, zero, or previous for the value before it")
}

// check refuses flags that mean nothing together.
func (q *promQuestion) check(given func(string) bool) (faults []error) {
	fault := func(text string) { faults = append(faults, errors.New(text)) }
	if q.promQL == "" {
		fault(`--query: must be PromQL, was ""`)
	}
	if given("prometheus") == given("config") {
		fault("--prometheus: must be given with --query, or --config, one of the two")
	}
	switch {
	case given("last") && (given("from") || given("to")):
		fault("--last: must be omitted with --from and --to, or they with it")
	case !given("last") && !given("from"):
		fault("--last: must be given with --query, or --from")
	case given("from") && given("to") && (!q.to.After(q.from) || q.to.Sub(q.from)%time.Minute != 0):
		faults = append(faults, fmt.Errorf("--to: must be whole minutes after --from, was %s", q.to.Format(time.RFC3339)))
	}
	return faults
}

// read reads one value a minute. A minute's is the one at its end, when what a rate over a minute
// counts is that minute.
func (q *promQuestion) read(ctx context.Context, env *cli.Env) (*recorded, error) {
	server, err := q.reach(env)
	if err != nil {
		return nil, err
	}
	q.span(env.Now())
	count := int(q.to.Sub(q.from) / time.Minute)
	if count < 2 {
		return nil, cli.Misused("--from: must be 2 minutes at least before the end, was %s", q.from.Format(time.RFC3339))
	}
	list, err := server.Range(ctx, q.promQL, q.from.Add(time.Minute), time.Minute, count)
	if err != nil {
		return nil, unanswered(err)
	}
	values, err := q.one(list)
	if err != nil {
		return nil, err
	}
	if err := q.fill(env, values); err != nil {
		return nil, err
	}
	for i, v := range values {
		values[i] = math.Round(v * 60) // Prometheus extrapolates, and requests are whole
	}
	return &recorded{Trace: &replay.Trace{Name: q.promQL, Counts: values}, from: q.from}, nil
}

// span works out from when to when.
func (q *promQuestion) span(now time.Time) {
	if q.to.IsZero() {
		q.to = now.UTC().Truncate(time.Minute)
		if !q.from.IsZero() {
			q.to = now.UTC().Add(-(now.Sub(q.from) % time.Minute))
		}
	}
	if q.last > 0 {
		q.from = q.to.Add(-q.last)
	}
}

// reach is the server, and how it is asked.
func (q *promQuestion) reach(env *cli.Env) (*prometheus.Server, error) {
	if q.config == "" {
		return &prometheus.Server{URL: q.server, Client: &http.Client{Timeout: time.Minute}}, nil
	}
	return q.site(env, q.config)
}

// unanswered is the error of a query that brought nothing.
func unanswered(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted while Prometheus was asked")
	case errors.Is(err, prometheus.ErrUnreachable):
		return cli.WithCode(cli.ExitUnreachable, fmt.Errorf("--query: %w", err))
	}
	return fmt.Errorf("--query: %w", err)
}

// one takes the only series.
func (q *promQuestion) one(list []prometheus.Series) ([]float64, error) {
	switch len(list) {
	case 1:
		return list[0].Values, nil
	case 0:
		return nil, fmt.Errorf("--query: has no value between %s and %s: %s", stamp(q.from), stamp(q.to), q.promQL)
	}
	var names []string
	for _, s := range list {
		names = append(names, prometheus.Name(s.Labels))
	}
	const most = 5
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", more))
	}
	err := fmt.Errorf("--query: must give one series, gave %d:\n  %s", len(list), strings.Join(names, "\n  "))
	return nil, cli.WithHint("add them up with sum(…), or choose one by its labels", err)
}

// fill deals with minutes that have no value, and refuses values that cannot be requests a second.
func (q *promQuestion) fill(env *cli.Env, values []float64) error {
	var gaps []int // the minutes
	for i, v := range values {
		switch {
		case math.IsNaN(v):
			gaps = append(gaps, i)
		case v < 0 || math.IsInf(v, 0) || v > replayMost:
			return fmt.Errorf("--query: must give requests a second from 0 up, gave %v at %s", v, stamp(q.minute(i+1)))
		}
	}
	if len(gaps) == 0 {
		return nil
	}
	said := fmt.Sprintf("%d of %d minutes have no value: %s", len(gaps), len(values), q.list(gaps))
	switch {
	case q.gaps == gapsRefused:
		return cli.WithHint("choose a time without gaps, or say with --gaps zero or --gaps previous what they are taken for", errors.New("--query: "+said))
	case q.gaps == gapsPrevious && gaps[0] == 0:
		return fmt.Errorf("--gaps previous: there must be a value before each gap, was none before %s", stamp(q.from))
	}
	for _, i := range gaps {
		values[i] = 0
		if q.gaps == gapsPrevious {
			values[i] = values[i-1]
		}
	}
	fmt.Fprintf(env.Stderr, "note: --gaps %s: %s\n", q.gaps, said)
	return nil
}

// replayMost is more requests a second than there are: above it, counts a minute are no longer
// exact.
const replayMost = 1 << 46

func (q *promQuestion) minute(i int) time.Time { return q.from.Add(time.Duration(i) * time.Minute) }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// list says when the gaps are.
func (q *promQuestion) list(minutes []int) string {
	var out []string
	for len(minutes) > 0 {
		n := 1
		for n < len(minutes) && minutes[n] == minutes[0]+n {
			n++
		}
		out = append(out, stamp(q.minute(minutes[0]))+" to "+stamp(q.minute(minutes[0]+n)))
		minutes = minutes[n:]
	}
	const most = 5
	if more := len(out) - most; more > 0 {
		out = append(slices.Clone(out[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, ", ")
}
