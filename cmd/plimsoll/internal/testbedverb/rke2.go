package testbedverb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/testbed/rke2"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

func newTestbedRKE2Command(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rke2",
		Short: "Build an RKE2 cluster on your own Proxmox VE, run experiments on it, and remove it",
		Long: "Build a cluster of RKE2 for experiments on your own Proxmox VE: a control plane, a machine that sends load, and workers.\n" +
			"Everything carries the site's owner in its marks and lies in a resource pool of its own, so that down can remove it. If\n" +
			"up or down ends early, run it again, and it continues.",
	}
	cmd.AddCommand(newRKE2UpCommand(env), newRKE2RunCommand(env), newRKE2DownCommand(env), newRKE2CostsCommand(env))
	return cli.VerbsOnly(cmd)
}

// testbedRKE2 is what the verbs are asked.
type testbedRKE2 struct {
	file, folder string
	dry          bool
	format       cli.Output
}

func (ask *testbedRKE2) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&ask.file, "config", "c", "", "the site's `file`")
	cmd.Flags().StringVar(&ask.folder, "folder", "", "the `folder` that its state is kept in (default: beside the site's file, named after it)")
}

func newRKE2UpCommand(env *cli.Env) *cobra.Command {
	var ask testbedRKE2
	cmd := &cobra.Command{
		Use:   "up --config FILE",
		Short: "Build the test bed, or its missing parts",
		Long: "Build the test bed, or its missing parts. It checks everything first, and reports each fault by the field of the site's\n" +
			"file, with the fix, before anything is made. The state folder holds the cluster's secrets and its kubeconfig.\n\n" +
			"With --dry-run it only reads the site, builds the test bed in an emulated cluster like yours, and prints every call and\n" +
			"every file. With -o json or yaml it prints the files' contents too.",
		Example: "  plimsoll testbed rke2 up --config site.yaml --dry-run\n" +
			"  plimsoll testbed rke2 up --config site.yaml && export KUBECONFIG=site.rke2/kubeconfig",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.RequireFlags(cmd, "config"); err != nil {
				return err
			}
			if cmd.Flags().Changed("output") && !ask.dry {
				return cli.SeeHelp(cmd, cli.Misused("--output: must be given with --dry-run, whose plan it prints"))
			}
			return ask.run(cmd.Context(), env, ask.up)
		},
	}
	ask.flags(cmd)
	cmd.Flags().BoolVar(&ask.dry, "dry-run", false, "print what would be done from the beginning, and do nothing")
	cli.AddOutput(cmd, &ask.format)
	return cmd
}

func newRKE2DownCommand(env *cli.Env) *cobra.Command {
	var ask testbedRKE2
	cmd := &cobra.Command{
		Use:   "down --config FILE",
		Short: "Remove the test bed: machines, first-boot discs, token, roles, resource pool and state",
		Long: "Remove the test bed: machines, first-boot discs, roles, token, resource pool, and then the state folder. The control\n" +
			"plane goes first, because Plimsoll runs there. What is not proved to be the test bed's is reported and not touched.",
		Example: "  plimsoll testbed rke2 down --config site.yaml",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.RequireFlags(cmd, "config"); err != nil {
				return err
			}
			return ask.run(cmd.Context(), env, func(ctx context.Context, _ *cli.Env, b *rke2.Bench) error { return b.Down(ctx) })
		},
	}
	ask.flags(cmd)
	return cmd
}

func (ask *testbedRKE2) up(ctx context.Context, env *cli.Env, b *rke2.Bench) error {
	if !ask.dry {
		return b.Up(ctx)
	}
	plan, err := b.Plan(ctx)
	if err != nil {
		return err
	}
	return ask.format.Print(env.Stdout, plan, plan.Table)
}

// run does something with the site's bench.
func (ask *testbedRKE2) run(ctx context.Context, env *cli.Env, do func(context.Context, *cli.Env, *rke2.Bench) error) error {
	b, _, _, err := ask.open(env)
	if err != nil {
		return err
	}
	defer b.Close()
	return benchFault(do(ctx, env, b))
}

// open is the site's bench, and what it is made of.
func (ask *testbedRKE2) open(env *cli.Env) (*rke2.Bench, *rke2.Site, pveapi.Connection, error) {
	site, connection, err := readRKE2Site(env, ask.file)
	if err != nil {
		return nil, nil, connection, err
	}
	folder := ask.folder
	if folder == "" {
		folder = strings.TrimSuffix(ask.file, filepath.Ext(ask.file)) + ".rke2"
	}
	b, err := rke2.New(rke2.Config{
		Site: site, Connection: connection, Store: rke2.Folder(folder), Kubernetes: rke2.Reached, Now: env.Now, Wait: delay,
		Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), Report: func(line string) { fmt.Fprintln(env.Stderr, line) },
	})
	return b, site, connection, benchFault(err)
}

// delay lets time pass, until the program is asked to end.
func delay(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// rke2Site is the site's file with the files that it names.
type rke2Site struct {
	rke2.Site
	access connect.Access
	folder string
}

// Validate adds what is wrong with the files that are named to what is wrong with the site.
func (s *rke2Site) Validate() error {
	a := &s.access
	a.Endpoints, a.Fingerprints, a.Insecure = s.Endpoints, s.Fingerprints, s.Insecure
	a.TokenFile, a.CAFile = s.beside(s.TokenFile), s.beside(s.CAFile)
	named := cli.Parts(s.Read(func(name string) ([]byte, error) { return a.Env.ReadFile(s.beside(name)) }))
	faults := append(cli.Parts(s.Site.Validate()), cli.Parts(a.Read())...)
	for _, fault := range named { // what is read twice is reported once
		if !slices.ContainsFunc(faults, func(f error) bool { return cli.KeyOf(f) == cli.KeyOf(fault) }) {
			faults = append(faults, fault)
		}
	}
	return errors.Join(faults...)
}

// beside is the name of a file that the site's file names; empty if it names none.
func (s *rke2Site) beside(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.folder, name)
}

func readRKE2Site(env *cli.Env, file string) (*rke2.Site, pveapi.Connection, error) {
	data, err := env.ReadFile(file)
	if err != nil {
		return nil, pveapi.Connection{}, cli.WithCode(cli.ExitConfig, fmt.Errorf("--config: %w", err))
	}
	s := &rke2Site{access: connect.Access{Env: env}, folder: filepath.Dir(file)}
	if err := strict.Unmarshal(data, s); err != nil {
		return nil, pveapi.Connection{}, cli.Misconfigured(file, err)
	}
	return &s.Site, s.access.Connection(), nil
}

// benchFault gives an error its code, and says what fixes it.
func benchFault(err error) error {
	var faults rke2.Faults
	var one *rke2.Fault
	said := err
	if errors.As(err, &faults) {
		lines := []string{cli.Count(len(faults), "thing", "things") + " must be fixed first"}
		for i := range faults {
			lines = append(lines, faultLines(&faults[i])...)
		}
		said = errors.New(strings.Join(lines, "\n"))
	} else if errors.As(err, &one) {
		said = errors.New(strings.Join(append([]string{err.Error()}, faultLines(one)[1:]...), "\n"))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rke2.ErrUnreachable) || pveapi.Is(err, pveapi.NoEndpoint, pveapi.Certificate):
		return cli.WithCode(cli.ExitUnreachable, said)
	case errors.Is(err, context.Canceled):
		return cli.WithHint("run it again: it goes on where it was", said)
	}
	return said
}

// faultLines is a fault with what fixes it.
func faultLines(f *rke2.Fault) []string {
	lines := []string{"  " + f.Error()}
	for _, m := range f.Mend {
		lines = append(lines, "    → "+m)
	}
	return lines
}
