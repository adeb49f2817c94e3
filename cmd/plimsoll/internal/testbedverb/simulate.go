package testbedverb

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

const simulateLong = `Replay a load minute by minute against every scaler. Show how many requests each would have lost and how many
pod-minutes it would have used, beside an oracle that knows the next minute.

The load is a file with lines of minute,count from minute 0 on (- for standard input), a made-up load by its name, or a
Prometheus query in requests a second. A minute without a value is an error, unless --gaps says how to fill it.

Pods serve what the application's profile says. What they cannot serve within --timeout minutes is lost. Scalers learn
from the first part of the load, --train, which is in no figure. Each is played at several settings: --excess for most,
--quantile for ensemble-quantile, --price for ensemble-marginal. The same load and seed give the same figures, except
training times.
` + tuneHelp

// NewSimulate makes the verb simulate.
func NewSimulate(env *cli.Env, site SiteServer) *cobra.Command {
	ask := simulation{setting: replay.Default()}
	ask.load.query.site = site
	cmd := &cobra.Command{
		Use:   "simulate --trace FILE | --query PROMQL",
		Short: "Replay a load against every scaler, and compare losses and pods",
		Long: simulateLong + "\nLoads that are made up:\n" + loadsHelp() + "\nScalers:\n" + kindsHelp() +
			"\nA profile is one of:\n" + exampleProfile,
		Example: "  plimsoll simulate --trace diurnal --policies hpa,hpa-plus,ensemble\n" +
			"  plimsoll simulate --trace load.csv --pods 5 --per-pod 40 --base 0 --out out/load\n" +
			"  plimsoll simulate --prometheus http://127.0.0.1:9090 --query 'sum(rate(http_requests_total{job=\"web\"}[1m]))' --last 7d\n" +
			"  plimsoll simulate --config site.yaml --query 'sum(rate(http_requests_total[1m]))' --last 30d -o csv\n" +
			"  plimsoll simulate --tune --trace load.csv --per-pod 40 --base 0",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := ask.check(cmd); err != nil {
				return cli.SeeHelp(cmd, err)
			}
			return ask.run(cmd.Context(), env, again(cmd))
		},
	}
	ask.load.addFlags(cmd)
	ask.profile.addFlags(cmd)
	ask.addFlags(cmd)
	return cmd
}

// simulation is what the simulate verb is asked.
type simulation struct {
	load     loadQuestion
	profile  profileQuestion
	setting  replay.Setting
	policies []string
	kinds    []replay.Kind
	excess   []float64
	quantile []float64
	price    []float64
	pods     float64
	train    time.Duration
	season   time.Duration
	parallel int
	tune     bool
	out      string
	quiet    bool
	format   cli.Output
}

func (ask *simulation) addFlags(cmd *cobra.Command) {
	f, s := cmd.Flags(), &ask.setting
	f.StringSliceVar(&ask.policies, "policies", []string{"all"}, "only these scalers; the oracle is always there")
	cli.AddFlag(cmd, &ask.excess, parts(true), "excess", "numbers", "0.7,0.8,0.9", "the parts of the pods' capacity that the load is to take")
	cli.AddFlag(cmd, &ask.quantile, parts(false), "quantile", "numbers", "0.9,0.95,0.99", "the quantiles of the load that ensemble-quantile has room for")
	cli.AddFlag(cmd, &ask.price, parts(false), "price", "numbers", "0.02,0.1,0.3", "the parts of a pod's capacity that must be worth it to ensemble-marginal")
	cli.AddFlag(cmd, &ask.pods, cli.AboveZero, "pods", "number", "", "scale the load so that the oracle takes this number of pods on average (default: as it is; 5 for a made-up load)")
	cli.AddFlag(cmd, &ask.train, wholeMinutes, "train", "duration", "", "how much of the load to learn from first (default: 3d, or three quarters of a shorter one)")
	cli.AddFlag(cmd, &ask.season, wholeMinutes, "season", "duration", "1d", "the time after which the load repeats")
	f.IntVar(&s.Timeout, "timeout", s.Timeout, "how many `minutes` a request waits before it is lost; 1 for those that time out in seconds")
	f.Float64Var(&s.Tolerance, "tolerance", s.Tolerance, "how far the HPA lets use be from its target")
	f.IntVar(&s.Min, "min", s.Min, "the fewest pods")
	f.IntVar(&s.Max, "max", s.Max, "the most pods")
	f.Uint64Var(&s.Seed, "seed", s.Seed, "the seed of all random choices")
	cli.AddFlag(cmd, &ask.parallel, cli.AtLeastOne, "parallel", "number", strconv.Itoa(runtime.GOMAXPROCS(0)), "runs at a time")
	f.BoolVar(&ask.tune, "tune", false, "search the settings of policy Predictive on 3 weeks or more of the load, and print them if they are better")
	f.StringVar(&ask.out, "out", "", "a `folder` to write the load, results.json, report.html and the figures to")
	f.BoolVar(&ask.quiet, "quiet", false, "do not print progress")
	cli.AddOutput(cmd, &ask.format, cli.OutputCSV)
	names := append([]string{"all"}, kindNames()...)
	if err := cmd.RegisterFlagCompletionFunc("policies", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

func kindsHelp() string {
	var b strings.Builder
	for _, k := range replay.Kinds() {
		fmt.Fprintf(&b, "  %-18s %s\n", k.Name, k.Title)
	}
	return b.String()
}

func kindNames() []string {
	var names []string
	for _, k := range replay.Kinds() {
		names = append(names, k.Name)
	}
	return names
}

// check refuses flags that mean nothing, alone or together.
func (ask *simulation) check(cmd *cobra.Command) error {
	ask.setting.Season = int(ask.season / time.Minute)
	faults := slices.Concat(ask.load.check(cmd), ask.profile.check(cmd), ask.choose(), ask.checkTune(cmd))
	if ask.tune {
		ask.load.least = replay.FewestWeeks * replay.MinutesAWeek * time.Minute
	} else {
		faults = append(faults, ask.idle(cmd)...)
	}
	if err := ask.setting.Validate(); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			faults = append(faults, errors.New("--"+line))
		}
	}
	if low, high := float64(ask.setting.Min), float64(ask.setting.Max); ask.pods != 0 && low <= high && (ask.pods <= low || ask.pods >= high) {
		faults = append(faults, fmt.Errorf("--pods: must be between --min %v and --max %v, was %v", low, high, ask.pods))
	}
	if len(faults) > 0 {
		return cli.WithCode(cli.ExitUsage, errors.Join(faults...))
	}
	return nil
}

// choose finds the scalers that were named.
func (ask *simulation) choose() (faults []error) {
	if slices.Equal(ask.policies, []string{"all"}) {
		ask.kinds = replay.Kinds()
		return nil
	}
	var chosen []string
	for _, name := range ask.policies {
		k, err := replay.Find(name)
		if err != nil {
			_, rule, _ := strings.Cut(err.Error(), ": ")
			faults = append(faults, fmt.Errorf("--policies: %s%s", rule, cli.DidYouMean("", name, kindNames())))
			continue
		}
		if slices.Contains(chosen, k.Name) {
			faults = append(faults, fmt.Errorf("--policies: must name each once, was %s twice", k.Name))
		}
		chosen, ask.kinds = append(chosen, k.Name), append(ask.kinds, k)
	}
	if !slices.Contains(chosen, oracle) {
		k, err := replay.Find(oracle)
		faults, ask.kinds = append(faults, err), append(ask.kinds, k)
	}
	return slices.DeleteFunc(faults, func(err error) bool { return err == nil })
}

// idle refuses a setting of scalers none of which is played.
func (ask *simulation) idle(cmd *cobra.Command) (faults []error) {
	for _, knob := range []replay.Knob{replay.Excess, replay.Quantile, replay.Price} {
		f := cmd.Flags().Lookup(string(knob))
		turned := func(k replay.Kind) bool { return k.Knob == knob }
		if !f.Changed || len(ask.kinds) == 0 || slices.ContainsFunc(ask.kinds, turned) {
			continue
		}
		var names []string
		for _, k := range slices.DeleteFunc(replay.Kinds(), func(k replay.Kind) bool { return !turned(k) }) {
			names = append(names, k.Name)
		}
		faults = append(faults, fmt.Errorf("--%s: must be omitted without %s among --policies %s, was %s", knob, strings.Join(names, ", "), strings.Join(ask.policies, ","), f.Value))
	}
	return faults
}

// run plays the load, and prints and writes what came of it.
func (ask *simulation) run(ctx context.Context, env *cli.Env, again []string) error {
	if err := ask.profile.read(env, &ask.setting); err != nil {
		return err
	}
	load, err := ask.load.read(ctx, env, ask.setting.Seed)
	if err != nil {
		return err
	}
	if load.madeUp && ask.pods == 0 {
		ask.pods = usualPods
		again = append(again, "--pods", strconv.Itoa(usualPods))
	}
	train, err := ask.trained(len(load.Counts))
	if err != nil {
		return err
	}
	// The load is written first: reading it may have taken long, and a folder that cannot be
	// written to is better known now.
	if ask.out != "" {
		if err := ask.keep(env, load); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	played, err := ask.sized(load.Trace, train)
	if err != nil {
		return err
	}
	if err := ask.moving(played, train); err != nil {
		return err
	}
	if ask.tune {
		return ask.tuned(ctx, env, played)
	}
	b := &bench{ask: ask, env: env, load: played, train: train}
	all, took, err := b.play(ctx)
	if err != nil {
		return err
	}
	a := newSimulateAnswer(b, load, all, again)
	for _, note := range a.notes() {
		fmt.Fprintln(env.Stderr, "note:", note)
	}
	if err := a.print(env, ask.format); err != nil {
		return err
	}
	if ask.out == "" {
		return nil
	}
	return a.write(env, ask.out, took)
}

const (
	// oracle is the scaler that all are held against.
	oracle = "oracle"
	// usualTraining is how long scalers learn, unless that is said: what the published experiments
	// gave them.
	usualTraining = 3 * replay.MinutesADay
	// usualPods are those that a made-up load takes in the mean, unless that is said.
	usualPods = 5
)

// sized is the load at the size that was asked for.
func (ask *simulation) sized(load *replay.Trace, train int) (*replay.Trace, error) {
	if ask.pods == 0 {
		return load, nil
	}
	t, err := replay.Scale(load, train, ask.pods, ask.setting)
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("--pods: %w", err))
	}
	return t, nil
}

// moving refuses a load that no scaler would ever take more than the fewest pods for: all that is
// played would be the same.
func (ask *simulation) moving(load *replay.Trace, train int) error {
	least := slices.Min(ask.excess)
	peak, idle := replay.Idle(load, train, ask.setting, least)
	if !idle {
		return nil
	}
	serves := ask.setting.Profile.Total(float64(ask.setting.Min))
	return cli.WithHint(
		"say what one pod of your application serves with --per-pod N --base 0, or multiply the load with --pods 5",
		cli.WithCode(cli.ExitConfig, fmt.Errorf("--trace: must need more than --min %d at some time, and its busiest minute has %s requests a second, of which --min serves %s: no scaler would ever move",
			ask.setting.Min, strconv.FormatFloat(peak, 'g', 4, 64), strconv.FormatFloat(serves, 'g', 4, 64))))
}

// trained is how many minutes of a load are learnt from.
func (ask *simulation) trained(minutes int) (int, error) {
	if ask.tune {
		train, err := replay.TuneFrom(minutes)
		if err != nil {
			return 0, cli.Misused("--tune: %w", err)
		}
		return train, nil
	}
	if ask.train == 0 {
		return min(usualTraining, minutes*3/4), nil
	}
	train := int(ask.train / time.Minute)
	if train >= minutes {
		return 0, cli.Misused("--train: must be shorter than the load, which has %d minutes, was %s", minutes, days(ask.train))
	}
	return train, nil
}

// again are the flags that play the same once more, wherever the load came from.
func again(cmd *cobra.Command) []string {
	var out []string
	for _, name := range []string{
		"policies", "excess", "quantile", "price", "pods", "train", "season", "per-pod", "base", "timeout", "tolerance", "min", "max", "seed",
	} {
		f := cmd.Flags().Lookup(name)
		switch {
		case !f.Changed:
		case name == "policies":
			names, err := cmd.Flags().GetStringSlice(name)
			if err != nil {
				panic(err) // it is one
			}
			out = append(out, "--policies", strings.Join(names, ","))
		default:
			out = append(out, "--"+name, f.Value.String())
		}
	}
	return out
}

// parts reads different numbers above 0 and below 1, or up to 1, in any order.
func parts(one bool) func(string) ([]float64, error) {
	rule := "below 1 such as 0.9,0.95"
	if one {
		rule = "up to 1 such as 0.85,0.9"
	}
	return func(text string) ([]float64, error) {
		var out []float64
		for word := range strings.SplitSeq(text, ",") {
			v, err := strconv.ParseFloat(word, 64)
			if err != nil || !(v > 0 && v < 1) && !(one && v == 1) || slices.Contains(out, v) {
				return nil, fmt.Errorf("must be different numbers above 0 and %s, was %q", rule, text)
			}
			out = append(out, v)
		}
		slices.Sort(out)
		return out, nil
	}
}

// wholeMinutes reads a time of minutes, which may have days.
func wholeMinutes(text string) (time.Duration, error) {
	d, err := cli.ParseDuration(text)
	if err == nil && (d < time.Minute || d%time.Minute != 0) {
		err = fmt.Errorf("must be whole minutes, one at least, was %q", text)
	}
	return d, err
}

// days prints a duration as parseDuration reads it.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return pricing.Short(d)
}
