package replay

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/journals"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/whatif"
)

// whatIfQuestion is what is to be different while the load of a recording is played again.
type whatIfQuestion struct {
	asked               bool
	workload            string
	objective           whatif.Objective
	without             []string
	least, most, shapes []string // of pools
	think               time.Duration
}

func (q *whatIfQuestion) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&q.asked, "what-if", false, "play the load of the recording in a simulated cluster, by the recorded settings and by the changed ones")
	f.StringVar(&q.workload, "workload", "", "with --what-if, change policy and objective of this `namespace/name` only")
	cli.AddFlag(cmd, &q.objective, parseObjective, "objective", "objective", "", "with --what-if, the latency objective, such as p90=300ms")
	f.StringArrayVar(&q.without, "without", nil, "with --what-if, leave this `namespace/name` away; may be repeated")
	cli.AddFlag(cmd, &q.think, cli.Positive(cli.ParseDuration), "think", "duration", "", "with --what-if, users wait for each answer and then so long (default: requests arrive as they were recorded, however late the answers are)")
	f.StringArrayVar(&q.least, "pool-min", nil, "with --what-if, the fewest machines of a pool, as `pool=number`; may be repeated")
	f.StringArrayVar(&q.most, "pool-max", nil, "with --what-if, the most machines of a pool, as `pool=number`; may be repeated")
	f.StringArrayVar(&q.shapes, "pool-shape", nil, "with --what-if, a shape of a pool in place of its own, as `pool=4x8GiB` or pool=4x8GiB+40GiB with its disk; may be repeated")
}

// whatIfFlags are those that mean nothing without --what-if.
var whatIfFlags = []string{"workload", "objective", "think", "without", "pool-min", "pool-max", "pool-shape"}

// check refuses flags that mean nothing together.
func (q *whatIfQuestion) check(cmd *cobra.Command, changed bool) error {
	for _, name := range whatIfFlags {
		if !cmd.Flags().Changed(name) {
			continue
		}
		if changed = changed || name != "workload" && name != "think"; !q.asked {
			return cli.Misused("--%s: must be given with --what-if only", name)
		}
	}
	if q.asked && !changed {
		return cli.Misused("--what-if: must be given with a change: --objective, --policy, --node-policy, --prices, --limit, --without, --pool-min, --pool-max or --pool-shape")
	}
	return nil
}

// change is what is to be different.
func (ask *replayQuestion) change(cmd *cobra.Command, env *cli.Env) (*whatif.Change, error) {
	q := &ask.whatIf
	ch := &whatif.Change{Workload: q.workload, Policy: ask.policy, NodePolicy: ask.nodes, Limit: ask.limit, Without: q.without, Pools: map[string]whatif.Pool{}}
	if cmd.Flags().Changed("objective") {
		ch.Objective = &q.objective
	}
	if ask.price != "" {
		var err error
		if ch.Prices, err = resources.ReadPrices(env, "--prices", ask.price); err != nil {
			return nil, err
		}
	}
	for _, one := range []struct {
		flag string
		all  []string
		put  func(*whatif.Pool, string) error
	}{
		{"pool-min", q.least, func(p *whatif.Pool, v string) (err error) { p.Min, err = parseCount(v); return err }},
		{"pool-max", q.most, func(p *whatif.Pool, v string) (err error) { p.Max, err = parseCount(v); return err }},
		{"pool-shape", q.shapes, func(p *whatif.Pool, v string) error { return addShape(p, v) }},
	} {
		for _, text := range one.all {
			name, value, _ := strings.Cut(text, "=")
			pool := ch.Pools[name]
			if err := one.put(&pool, value); err != nil {
				return nil, cli.Misused("--%s: must be the name of a pool, =, and a value: %w", one.flag, err)
			}
			ch.Pools[name] = pool
		}
	}
	return ch, nil
}

func parseCount(text string) (*int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("must be a number, 0 or more, was %q", text)
	}
	return &n, nil
}

// addShape adds a shape as it is written on a command line: cores, x and memory, and + and disk.
func addShape(p *whatif.Pool, text string) error {
	sizes, disk, hasDisk := strings.Cut(text, "+")
	cores, memory, _ := strings.Cut(sizes, "x")
	s := pricing.Shape{Name: text}
	var err error
	if s.CPU, err = pricing.ParseMilliCPU(cores); err != nil {
		return fmt.Errorf("cores %w", err)
	}
	if s.Memory, err = pricing.ParseBytes(memory); err != nil {
		return fmt.Errorf("memory %w", err)
	}
	if hasDisk {
		if s.Disk, err = pricing.ParseBytes(disk); err != nil {
			return fmt.Errorf("disk %w", err)
		}
	}
	if s.CPU <= 0 || s.Memory <= 0 {
		return fmt.Errorf("a shape must have cores and memory, was %q", text)
	}
	p.Shapes = append(p.Shapes, s)
	return nil
}

// parseObjective reads an objective such as p90=300ms.
func parseObjective(text string) (o whatif.Objective, err error) {
	percentile, target, _ := strings.Cut(strings.TrimPrefix(text, "p"), "=")
	if o.Percentile, err = strconv.ParseFloat(percentile, 64); err == nil && o.Percentile > 0 && o.Percentile < 100 {
		var d time.Duration
		if d, err = cli.ParseDuration(target); err == nil && d > 0 {
			o.TargetMs = d.Seconds() * 1e3
			return o, nil
		}
	}
	return whatif.Objective{}, fmt.Errorf("must be a percentile and a time, such as p90=300ms, was %q", text)
}

// playWhatIf plays the load of a recording twice.
func (ask *replayQuestion) playWhatIf(ctx context.Context, cmd *cobra.Command, env *cli.Env, path string) error {
	change, err := ask.change(cmd, env)
	if err != nil {
		return err
	}
	recorded, err := recordedLoad(path, ask.from, ask.to)
	if err != nil {
		return err
	}
	recorded.AllThink(ask.whatIf.workload, ask.whatIf.think)
	answer, err := recorded.Ask(ctx, change)
	if err != nil {
		return cli.WithCode(cli.ExitConfig, err)
	}
	if err := ask.format.Print(env.Stdout, answer, func(w io.Writer) { whatIfTable(w, answer) }); err != nil {
		return err
	}
	for _, note := range answer.Notes {
		fmt.Fprintln(env.Stderr, "note: "+note)
	}
	return nil
}

// recordedLoad reads what a recording says of a time.
func recordedLoad(path string, from, to time.Time) (*whatif.Recorded, error) {
	r := &whatif.Recorded{}
	err := journals.ReadRecording(path, func(m *recording.Moment) error {
		at := m.Observation.Time
		if at.Before(from) || !to.IsZero() && !at.Before(to) {
			return nil
		}
		return r.Add(m)
	})
	return r, err
}

func whatIfTable(w io.Writer, a *whatif.Answer) {
	fmt.Fprintf(w, "%s to %s, %s\n\n", a.From.Format(time.RFC3339), a.To.Format(time.RFC3339), pricing.Short(a.To.Sub(a.From)))
	fmt.Fprint(w, "\tRECORDED\tBASELINE\tCHANGED\tDIFFERENCE\n")
	for _, row := range a.Rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", row.Name, row.Recorded, row.Baseline, row.Changed, row.Difference)
	}
}
