package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// command is what the flags say.
type command struct {
	settings []setting
	limit    time.Duration
	play     string // of a process that was started for one play: who plays
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil && c.play != "" {
		err = c.answer(ctx)
	} else if err == nil {
		err = c.run(ctx, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func parse(args []string, out io.Writer) (*command, error) {
	c := &command{}
	set := flag.NewFlagSet("peers", flag.ContinueOnError)
	set.SetOutput(out)
	names := set.String("rows", strings.Join(rowNames, ","), "the rows to play")
	pods := set.String("pods", "100,1000,5000,10000", "with how many pods")
	shapes := set.String("shapes", "20,400", "with how many shapes: 20, 400 or both")
	var machine pricing.Micros
	set.Func("machine", "the `price` of an hour of having one machine more, besides that of its shape (default 0)", func(text string) (err error) {
		machine, err = pricing.ParseMicros(text)
		return err
	})
	set.DurationVar(&c.limit, "limit", 10*time.Minute, "how long one plan may take")
	set.StringVar(&c.play, "play", "", "play one setting in this process, as karpenter or plimsoll")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if c.limit <= 0 {
		return nil, fmt.Errorf("-limit: must be above 0, was %s", c.limit)
	}
	counts, err := numbers("pods", *pods)
	if err != nil {
		return nil, err
	}
	sizes, err := numbers("shapes", *shapes)
	if err != nil {
		return nil, err
	}
	for _, row := range strings.Split(*names, ",") {
		for _, n := range counts {
			for _, of := range sizes {
				c.settings = append(c.settings, setting{row, n, of, machine})
			}
		}
	}
	for _, s := range c.settings {
		if err := s.check(); err != nil {
			return nil, err
		}
	}
	if c.play != "" && (players[c.play] == nil || len(c.settings) != 1) {
		return nil, fmt.Errorf("-play: must be one of %s with one setting, was %q with %d", strings.Join(playerNames, ", "), c.play, len(c.settings))
	}
	return c, nil
}

func numbers(name, list string) (all []int, err error) {
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("-%s: must be numbers with commas between them, was %q", name, list)
		}
		all = append(all, n)
	}
	return all, nil
}

// run plays all settings, and fails if a plan of ours breaks a rule.
func (c *command) run(ctx context.Context, out io.Writer) error {
	var sum tally
	fmt.Fprint(out, header)
	for _, s := range c.settings {
		var both pair
		for i, who := range playerNames {
			r, err := c.start(ctx, who, s)
			if err != nil {
				return fmt.Errorf("%s as %s: %w", s, who, err)
			}
			both[i] = r
		}
		fmt.Fprintln(out, sum.line(s, &both))
	}
	fmt.Fprint(out, sum.String())
	if n := sum.violations; n > 0 {
		return fmt.Errorf("%d pods of ours are where the scheduler would not have them", n)
	}
	return nil
}

// answer plays the one setting and prints the result for the process that asked.
func (c *command) answer(ctx context.Context) error {
	r, err := play(ctx, c.play, c.settings[0], c.limit)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// check names what is wrong with the setting.
func (s setting) check() error {
	switch {
	case !slices.Contains(rowNames, s.Row):
		return fmt.Errorf("-rows: must be of %s, was %q", strings.Join(rowNames, ", "), s.Row)
	case s.Pods < 1:
		return fmt.Errorf("-pods: must be 1 and more, was %d", s.Pods)
	case s.Shapes != 20 && s.Shapes != 400:
		return fmt.Errorf("-shapes: must be 20 or 400, was %d", s.Shapes)
	case s.Machine < 0:
		return fmt.Errorf("-machine: must be 0 and more, was %s", s.Machine)
	}
	return nil
}
