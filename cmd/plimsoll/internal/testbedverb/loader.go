package testbedverb

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/loader"
)

// testbedLoader is what the loader verb is asked.
type testbedLoader struct {
	listen string
	expose bool
	config loader.Config
	format cli.Output
}

// usualDigits is the work where neither digits nor a time are given.
const usualDigits = 1000

func newTestbedLoaderCommand(env *cli.Env) *cobra.Command {
	var ask testbedLoader
	cmd := &cobra.Command{
		Use:   "loader",
		Short: "Serve requests that take a known amount of CPU, to have something to scale",
		Long: `Serve requests over HTTP that each compute decimals of π, until it is interrupted. Then finish the requests that it has.

With --calibrate it first measures how many decimals take that long on one core, in CPU time, so that a busy machine
comes to the same number. Each request may hold memory, and may be passed on to other loaders.

  /          any other path: a request, answered with π; Server-Timing says how long it took
  /metrics   histograms of requests and calls, and requests in flight, with the names that preset OTel reads
  /healthz   the process lives
  /readyz    it takes requests`,
		Example: "  plimsoll testbed loader --calibrate 120ms\n" +
			"  plimsoll testbed loader --listen 127.0.0.1:8081 --digits 1200 --memory 2MB\n" +
			"  plimsoll testbed loader --calibrate 20ms --call http://127.0.0.1:8081 --call http://127.0.0.1:8082 --parallel",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("digits") && ask.config.Calibrate == 0 {
				ask.config.Digits = usualDigits
			}
			return ask.run(cmd, env)
		},
	}
	f, c := cmd.Flags(), &ask.config
	f.StringVar(&ask.listen, "listen", "127.0.0.1:8080", "the `address` to listen at; port 0 takes a free one")
	f.BoolVar(&ask.expose, "expose", false, "listen on an address that other machines can reach")
	cli.AddFlag(cmd, &c.Digits, cli.AtLeastOne, "digits", "number", "", fmt.Sprintf("decimals of π for every request (default: %d, without --calibrate)", usualDigits))
	cli.AddFlag(cmd, &c.Calibrate, cli.Positive(cli.ParseDuration), "calibrate", "duration", "", "the CPU time of a request, such as 120ms")
	cli.AddFlag(cmd, &c.Memory, pricing.ParseBytes, "memory", "size", "0MB", "memory that every request holds until it is answered")
	cli.AddFlag(cmd, &c.Spread, parsePercentage, "spread", "percentage", "0%", "how far a request's work differs from the mean, such as 20%")
	cli.AddFlag(cmd, &c.AtOnce, cli.AtLeastOne, "at-once", "number", "64", "how many requests are worked on at a time")
	f.StringArrayVar(&c.Calls, "call", nil, "an `address` that every request is passed on to when its work is done; repeatable")
	f.BoolVar(&c.Parallel, "parallel", false, "make the calls all at once, and not one after the other")
	cli.AddFlag(cmd, &c.CallTimeout, cli.Positive(cli.ParseDuration), "call-timeout", "duration", "30s", "how long a call may take")
	cli.AddFlag(cmd, &c.Linger, cli.ParseDuration, "linger", "duration", "0s", "how long to take requests after SIGTERM, while balancers notice")
	cli.AddFlag(cmd, &c.Grace, cli.ParseDuration, "grace", "duration", "30s", "how long requests may take to finish after that")
	cli.AddOutput(cmd, &ask.format)
	return cmd
}

// parsePercentage reads a part of something.
func parsePercentage(text string) (float64, error) {
	var s testbed.Share
	err := s.UnmarshalText([]byte(text))
	return float64(s), err
}

// loading is what a loader that takes requests says of itself.
type loading struct {
	URL      string        `json:"url"`
	Digits   int           `json:"digits"`
	Memory   pricing.Bytes `json:"memoryBytes"`
	AskedMs  float64       `json:"askedMs,omitempty"`
	DemandMs float64       `json:"demandMs,omitempty"`
	Calls    []string      `json:"calls,omitempty"`
	Parallel bool          `json:"parallel,omitempty"`
}

func (l *loading) table(w io.Writer) {
	fmt.Fprintf(w, "url\t%s\n", l.URL)
	fmt.Fprintf(w, "work\t%d decimals of π", l.Digits)
	if l.Memory > 0 {
		fmt.Fprintf(w, ", %s of memory", l.Memory)
	}
	if l.AskedMs > 0 {
		fmt.Fprintf(w, ", %.4g ms of a core (asked: %.4g)", l.DemandMs, l.AskedMs)
	}
	fmt.Fprintln(w)
	if len(l.Calls) > 0 {
		how := "one after the other"
		if l.Parallel {
			how = "all at once"
		}
		fmt.Fprintf(w, "calls\t%s, %s\n", strings.Join(l.Calls, " "), how)
	}
	fmt.Fprintf(w, "metrics\t%smetrics\n", l.URL)
}

// run serves until the context is done.
func (ask *testbedLoader) run(cmd *cobra.Command, env *cli.Env) error {
	service, err := loader.New(ask.config)
	if err != nil {
		return cli.SeeHelp(cmd, cli.Misused("--%s", strings.ReplaceAll(err.Error(), "\n", "\n--")))
	}
	host, port, ok := cli.SplitAddress(ask.listen)
	if !ok {
		return cli.SeeHelp(cmd, cli.Misused("--listen: must be an address with a port, such as 127.0.0.1:8080, was %q", ask.listen))
	}
	if !ask.expose && !isThisMachine(host) {
		return cli.SeeHelp(cmd, cli.Misused("--listen: must be of this machine alone, such as 127.0.0.1:8080, unless --expose is given, was %q", ask.listen))
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w (port 0 takes a free one)", err)
		}
		return cli.WithCode(cli.ExitUnreachable, fmt.Errorf("--listen: %w", err))
	}
	if ask.config.Calibrate > 0 {
		fmt.Fprintln(env.Stderr, "looking for the work that takes", ask.config.Calibrate)
	}
	return service.Run(cmd.Context(), l, func(c loader.Calibration) error { return ask.announce(env, l.Addr(), c) })
}

// announce says that requests are taken, and warns of a calibration that did not come close: a
// machine whose speed changes all the time has no work that takes one time.
func (ask *testbedLoader) announce(env *cli.Env, at net.Addr, c loader.Calibration) error {
	asked := ask.config.Calibrate
	if off := float64(c.Demand-asked) / float64(asked); asked > 0 && math.Abs(off) > 0.1 {
		fmt.Fprintf(env.Stderr, "warning: what was found takes %s and not %s: this machine's speed changes\n", c.Demand.Round(time.Microsecond), asked)
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	said := &loading{
		URL: "http://" + at.String() + "/", Digits: c.Digits, Memory: c.Memory, AskedMs: ms(asked), DemandMs: ms(c.Demand),
		Calls: ask.config.Calls, Parallel: ask.config.Parallel,
	}
	return ask.format.Print(env.Stdout, said, said.table)
}
