package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/dashboard"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed/demo"
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
				file = env.Getenv(journalVariable)
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
					return h.Read(env.Stdin)
				}
				return followInto(ctx, h, file)
			})
		},
	}
	cmd.Flags().StringVar(&file, "journal", "", "the journal, a `file` of one record a line; - is standard input (default $"+journalVariable+")")
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
func followInto(ctx context.Context, h *dashboard.History, name string) error {
	n := 0
	for {
		if _, err := os.Stat(fmt.Sprintf("%s.%d", name, n+1)); err != nil {
			break
		}
		n++
	}
	for ; n > 0; n-- {
		if err := readInto(h, fmt.Sprintf("%s.%d", name, n)); err != nil {
			return err
		}
	}
	return followFile(ctx, name, io.SeekStart, h.Append)
}

// followFile calls f with the records of a journal from its start or its end on, and with those
// that are appended, also when it is put aside, until the context is done.
func followFile(ctx context.Context, name string, whence int, f func(*loop.Step) error) error {
	for ; ctx.Err() == nil; whence = io.SeekStart {
		file, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("--journal: %w", err)
		}
		if _, err = file.Seek(0, whence); err == nil {
			err = loop.Read(&growing{ctx: ctx, file: file}, f)
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return ctx.Err()
}

func readInto(h *dashboard.History, name string) (err error) {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := h.Read(f); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// growing is a file that is appended to. It ends when another file has its name, as after the
// journal was put aside, or when the context is done.
type growing struct {
	ctx  context.Context
	file *os.File
}

// Read waits at the end of the file for more.
func (g *growing) Read(data []byte) (int, error) {
	for {
		n, err := g.file.Read(data)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if g.replaced() {
			return g.file.Read(data) // what was written until then
		}
		select {
		case <-g.ctx.Done():
			return 0, io.EOF
		case <-time.After(time.Second):
		}
	}
}

func (g *growing) replaced() bool {
	now, err := os.Stat(g.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false // it is being put aside
	}
	mine, mineErr := g.file.Stat()
	return err == nil && mineErr == nil && !os.SameFile(now, mine)
}
