// Package demoverb is the verb demo: a simulated day on a terminal, as lines or as records. It is
// apart from the other verbs so that 'make demo' need not compile what they need.
package demoverb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/dashboard"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/demo"
)

// demoSpeed is how much faster than life the demo runs by default: a day in a minute and
// a half.
const demoSpeed = pace(960)

// longestDemo is the longest time that the demo simulates. It keeps every minute of it.
const longestDemo = 31 * 24 * time.Hour

// demoOptions are the demo's flags.
type demoOptions struct {
	wall    time.Duration
	speed   pace
	seed    uint64
	format  string
	plain   bool
	noColor bool
	journal string
	page    string
	url     string // of the page, while it is served
}

// New makes the verb.
func New(env *cli.Env) *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a simulated day of a small cluster",
		Long: `Show a simulated day of a small cluster: three Proxmox hosts, a web shop, its search and nightly
reports on them, and what Plimsoll decides, in a minute and a half. Nothing is installed, and
nothing leaves this machine.

A web page shows the same day, on this machine alone, until the demo ends. On a terminal the hosts
are drawn as hulls, and faults and prices can be tried; ? explains the keys. Elsewhere, and with
--plain, each thing that happens is a line, which ends with the id of the decision.

With -o json each step is a record. plimsoll explain ID --journal FILE reads them. The same seed
gives the same records.`,
		Example: "  plimsoll demo\n" +
			"  plimsoll demo --for 30s --seed 7 --plain\n" +
			"  plimsoll demo -o json --speed max > day.ndjson",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.length() <= 0 {
				return cli.SeeHelp(cmd, cli.Misused("--for: must simulate some time, was %s at %s", o.wall, o.lengthSpeed()))
			}
			if o.length() > longestDemo {
				return cli.SeeHelp(cmd, cli.Misused("--for: must not simulate more than %s, was %s at %s", pricing.Short(longestDemo), o.wall, o.lengthSpeed()))
			}
			return runDemo(cmd.Context(), env, o)
		},
	}
	cli.AddFlag(cmd, &o.wall, cli.Positive(cli.ParseDuration), "for", "duration", "90s", "how long the demo runs, at its speed")
	cli.AddFlag(cmd, &o.speed, parsePace, "speed", "factor", demoSpeed.String(), "how much faster than life, such as 960x; max does not wait, and simulates what "+demoSpeed.String()+" would")
	cmd.Flags().Uint64Var(&o.seed, "seed", 1, "the day's seed: same seed, same day")
	cli.AddShortFlag(cmd, &o.format, cli.OneOf("text", "json"), "output", "o", "format", "text", "print the day as text, or its records as json")
	cmd.Flags().BoolVar(&o.plain, "plain", false, "print lines even on a terminal")
	cmd.Flags().BoolVar(&o.noColor, "no-color", false, "draw without colours (also: set NO_COLOR)")
	cmd.Flags().StringVar(&o.page, "page", dashboard.UsualAddress, "serve a web page of the day at this `address`, host:port; off for none")
	cmd.Flags().StringVar(&o.journal, "journal", "", "write the records to a `file` besides what is shown")
	return cmd
}

// pageServed reports whether a page is to be served. A day that does not wait is over at once.
func (o *demoOptions) pageServed() bool {
	return o.page != "off" && (o.page != dashboard.UsualAddress || !o.speed.unpaced())
}

// lengthSpeed is the speed that --for is meant at.
func (o *demoOptions) lengthSpeed() pace {
	if o.speed.unpaced() {
		return demoSpeed
	}
	return o.speed
}

// length is how much is to be simulated.
func (o *demoOptions) length() time.Duration { return o.lengthSpeed().of(o.wall) }

// runDemo shows the day in the way that suits who looks at it.
func runDemo(ctx context.Context, env *cli.Env, o demoOptions) (err error) {
	var journals loop.Journals
	if o.journal != "" {
		// As plimsoll run, it does not make the folder of its journal.
		if _, err := env.Stat(filepath.Dir(o.journal)); err != nil {
			return fmt.Errorf("--journal: %w", err)
		}
		file, err := env.Create(o.journal)
		if err != nil {
			return fmt.Errorf("--journal: %w", err)
		}
		records := bufio.NewWriter(file)
		defer func() { err = errors.Join(err, records.Flush(), file.Close()) }()
		journals = append(journals, loop.NewNDJSON(records))
	}
	out := bufio.NewWriter(env.Stdout)
	defer func() { err = errors.Join(err, out.Flush()) }()
	if o.format == "json" {
		journals = append(journals, loop.NewNDJSON(out))
	} else if o.pageServed() {
		page, err := openPage(ctx, o.page)
		if err != nil {
			return fmt.Errorf("--page: %w", err)
		}
		defer func() { err = errors.Join(err, page.close()) }()
		journals, o.url = append(journals, page.history), page.url
	}
	session, err := demo.New(demo.Config{Seed: o.seed, Length: o.length(), Journal: journals})
	if err != nil {
		return err
	}
	switch {
	case o.format == "json":
		if !env.IsTerminal {
			o.speed = unpaced
		}
		err := live(ctx, env, session, o.speed, func([]demo.Event) error { return out.Flush() })
		if errors.Is(err, context.Canceled) {
			return fmt.Errorf("stopped after %s of %s", pricing.Short(session.Elapsed().Round(time.Second)), pricing.Short(o.length()))
		}
		return err
	case o.plain || !env.IsTerminal || !env.HasKeys || env.Getenv("TERM") == "dumb":
		return plainDemo(ctx, env, session, o)
	}
	return screenDemo(ctx, env, session, o)
}

// beat is how often a paced demo moves on.
const beat = 40 * time.Millisecond

// unpacedBeat is how far one that does not wait moves on at a time.
const unpacedBeat = 10 * time.Minute

// live lives the session through at a speed, and hands on what happens as it does.
func live(ctx context.Context, env *cli.Env, s *demo.Session, speed pace, tell func([]demo.Event) error) error {
	began := env.Now()
	for !s.Done() {
		by := unpacedBeat
		if !speed.unpaced() {
			by = speed.of(env.Now().Sub(began)) - s.Elapsed()
		}
		events, err := s.Advance(ctx, by)
		if err := errors.Join(err, tell(events)); err != nil {
			return err
		}
		if err := sleep(ctx, speed, beat); err != nil {
			return err
		}
	}
	return nil
}

// sleep waits for as long as a beat at a speed lasts.
func sleep(ctx context.Context, speed pace, beat time.Duration) error {
	if speed.unpaced() {
		return ctx.Err()
	}
	timer := time.NewTimer(beat)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// pace is how much faster than life time goes by.
type pace float64

// unpaced is as fast as it can.
var unpaced = pace(math.Inf(1))

func (p pace) unpaced() bool { return math.IsInf(float64(p), 1) }

// of is how much passes at this pace while so much passes on the wall.
func (p pace) of(wall time.Duration) time.Duration {
	return time.Duration(min(float64(p)*float64(wall), float64(1<<62)))
}

// String prints the pace as it is read: 960x, max.
func (p pace) String() string {
	if p.unpaced() {
		return "max"
	}
	return strconv.FormatFloat(float64(p), 'g', -1, 64) + "x"
}

func parsePace(text string) (pace, error) {
	if text == "max" {
		return unpaced, nil
	}
	v, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSuffix(text, "x"), "×"), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("must be max, or a factor above 0 such as 960x, was %q", text)
	}
	return pace(v), nil
}
