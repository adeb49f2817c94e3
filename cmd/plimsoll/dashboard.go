package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/journals"
	"github.com/plimsoll/plimsoll/dashboard"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	"github.com/plimsoll/plimsoll/testbed/demo"
	"github.com/plimsoll/plimsoll/testbed/whatif"
)

func newDashboardCommand(env *cli.Env) *cobra.Command {
	var (
		file, at string
		recorded string // a recording
		simulate bool
		seed     uint64
	)
	cmd := &cobra.Command{
		Use:   "dashboard --journal FILE | --recording FOLDER | --demo",
		Short: "Serve a web page of a journal",
		Long: `Serve a web page of a journal: hosts, machines and pods, decisions with their reasons, and costs, at any time of the
journal. The page changes nothing and loads nothing from elsewhere.

--recording shows the steps of a recording, and has a view that plays its load by other settings (plimsoll replay --what-if).

The journal is a file with one record a line. The page follows it as it grows, and reads rotated files beside it, such
as FILE.1, first. plimsoll run serves the same page of its own records if its configuration has dashboard: host:port.`,
		Example: "  plimsoll dashboard --demo\n" +
			"  plimsoll dashboard --journal /var/lib/plimsoll/journal.ndjson\n" +
			"  plimsoll dashboard --recording /var/lib/plimsoll/recording\n" +
			"  kubectl logs deploy/plimsoll -n plimsoll | plimsoll dashboard --journal -",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" && recorded == "" && !simulate {
				file = env.Getenv(journals.Variable)
			}
			if given := map[bool]int{true: 1}; given[file != ""]+given[recorded != ""]+given[simulate] != 1 {
				return cli.SeeHelp(cmd, cli.Misused("--journal: must be given, or --recording, or --demo, and one of them only"))
			}
			h := dashboard.New(dashboard.Large)
			if recorded != "" {
				if err := showRecording(env, h, recorded); err != nil {
					return err
				}
			}
			l, err := net.Listen("tcp", at)
			if err != nil {
				return fmt.Errorf("--listen: %w", err)
			}
			fmt.Fprintf(env.Stderr, "dashboard on http://%s/, until it is interrupted\n", l.Addr())
			return serveDashboard(cmd.Context(), l, h, func(ctx context.Context, h *dashboard.History) error {
				switch {
				case recorded != "":
					return nil
				case simulate:
					return simulateInto(ctx, h, seed)
				case file == "-":
					return h.Read(journals.Records(env, env.Stdin))
				}
				return followInto(ctx, env, h, file)
			})
		},
	}
	cmd.Flags().StringVar(&file, "journal", "", "the journal, a `file` of one record a line; - is standard input (default $"+journals.Variable+")")
	cmd.Flags().StringVar(&recorded, "recording", "", "a recording, as plimsoll run writes it: a `folder` or one of its files")
	cmd.Flags().BoolVar(&simulate, "demo", false, "show the day that plimsoll demo simulates")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "the simulated day's seed")
	cmd.Flags().StringVar(&at, "listen", dashboard.UsualAddress, "the `address` of the page, host:port")
	return cmd
}

// serveDashboard serves a page of what is read, also once all is read. To be interrupted is no
// failure.
func serveDashboard(ctx context.Context, l net.Listener, h *dashboard.History, read func(context.Context, *dashboard.History) error) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return h.Serve(ctx, l) })
	both.Go(func() error { return read(ctx, h) })
	if err := both.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// simulateInto lives the demo's day at its usual speed.
func simulateInto(ctx context.Context, h *dashboard.History, seed uint64) error {
	const beat = 250 * time.Millisecond
	s, err := demo.New(demo.Config{Seed: seed, Length: 24 * time.Hour, Journal: h})
	if err != nil {
		return err
	}
	if _, err := s.Advance(ctx, 2*time.Hour); err != nil { // there is something to see at once
		return err
	}
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for !s.Done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if _, err := s.Advance(ctx, 960*beat); err != nil {
			return err
		}
	}
	return nil
}

// followInto reads a journal, and goes on with what is appended to it, until the context is done.
func followInto(ctx context.Context, env *cli.Env, h *dashboard.History, name string) error {
	n := 0
	for {
		if _, err := os.Stat(fmt.Sprintf("%s.%d", name, n+1)); err != nil {
			break
		}
		n++
	}
	for ; n > 0; n-- {
		if err := readInto(env, h, fmt.Sprintf("%s.%d", name, n)); err != nil {
			return err
		}
	}
	return journals.Follow(ctx, env, name, io.SeekStart, h.Append)
}

func readInto(env *cli.Env, h *dashboard.History, name string) (err error) {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := h.Read(journals.Records(env, f)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// showRecording shows the steps of a recording, decided again, and opens the door to What if.
func showRecording(env *cli.Env, h *dashboard.History, path string) error {
	var replay recording.Replay
	door := &whatIfDoor{}
	err := journals.ReadRecording(path, func(m *recording.Moment) error {
		if door.wrong == nil { // a load that cannot be played is no reason not to show its steps
			door.wrong = door.recorded.Add(m)
		}
		s, _, err := replay.Decide(m)
		if err != nil {
			return err
		}
		s.ID = m.Step.ID
		return s.Record(h)
	})
	if h.Doors.WhatIf = door; door.wrong != nil {
		h.Doors.WhatIf = nil
		fmt.Fprintln(env.Stderr, "note: the page has no view What if:", door.wrong)
	}
	return err
}

// whatIfDoor answers the page's questions, one at a time.
type whatIfDoor struct {
	recorded whatif.Recorded
	wrong    error // why the load cannot be played
	playing  sync.Mutex
}

// Choices are what can be asked.
func (d *whatIfDoor) Choices() any { return d.recorded.Choices() }

// whatIfAsked is a question as the page asks it.
type whatIfAsked struct {
	whatif.Change
	// ThinkMs is how long users think after each answer; 0 has requests arrive as recorded.
	ThinkMs float64 `json:"thinkMs,omitempty"`
}

// Ask plays the load.
func (d *whatIfDoor) Ask(ctx context.Context, question []byte) (any, error) {
	var asked whatIfAsked
	in := json.NewDecoder(bytes.NewReader(question))
	in.DisallowUnknownFields()
	if err := in.Decode(&asked); err != nil {
		return nil, dashboard.Refuse(http.StatusBadRequest, fmt.Errorf("question: %w", err))
	}
	if asked.ThinkMs < 0 || asked.ThinkMs > 3.6e6 {
		return nil, dashboard.Refuse(http.StatusBadRequest, fmt.Errorf("thinkMs: must be from 0 to an hour, was %g", asked.ThinkMs))
	}
	if !d.playing.TryLock() {
		return nil, dashboard.Refuse(http.StatusServiceUnavailable, errors.New("another question is being played: ask again when it is done"))
	}
	defer d.playing.Unlock()
	d.recorded.AllThink(asked.Workload, time.Duration(asked.ThinkMs*float64(time.Millisecond)))
	answer, err := d.recorded.Ask(ctx, &asked.Change)
	if err != nil {
		return nil, dashboard.Refuse(http.StatusBadRequest, err)
	}
	return answer, nil
}
