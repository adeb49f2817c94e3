// Package testbedverb is the verbs testbed and simulate: experiments and recorded loads are played,
// and the worlds that they are played in are started.
package testbedverb

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/worlds"
)

// New makes the verb testbed.
func New(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "testbed",
		Short: "Run experiments that compare policies under the same load and chance",
	}
	cmd.AddCommand(newTestbedListCommand(env), newTestbedShowCommand(env), newTestbedRunCommand(env), newTestbedReportCommand(env), newTestbedProfileCommand(env),
		newTestbedPVECommand(env), newTestbedLabCommand(env), newTestbedLoaderCommand(env), newTestbedRKE2Command(env))
	return cli.VerbsOnly(cmd)
}

// listed is an experiment in the list.
type listed struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	Shows    string   `json:"shows"`
	Policies []string `json:"policies"`
	Levels   []string `json:"levels"`
	Trials   int      `json:"trials"`
}

// listedPolicy is a pod policy in the list.
type listedPolicy struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
}

// catalogue is what there is to run.
type catalogue struct {
	Experiments []listed       `json:"experiments"`
	Policies    []listedPolicy `json:"policies"`
}

func (c catalogue) table(w io.Writer) {
	for _, l := range c.Experiments {
		fmt.Fprintf(w, "%s\t%s\t%s, %s, %s\n", l.Name, l.Title,
			cli.Count(len(l.Policies), "policy", "policies"), cli.Count(len(l.Levels), "level", "levels"), cli.Count(l.Trials, "trial", "trials"))
	}
	fmt.Fprintln(w)
	for _, p := range c.Policies {
		fmt.Fprintf(w, "%s\t%s\n", strings.ToLower(p.Name), p.Summary)
	}
}

func newTestbedListCommand(env *cli.Env) *cobra.Command {
	var format cli.Output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the built-in experiments and pod policies",
		Args:  cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			var all catalogue
			for _, name := range slices.Sorted(slices.Values(append(testbed.Names(), worlds.Name))) {
				l, err := listing(env, name)
				if err != nil {
					return err
				}
				all.Experiments = append(all.Experiments, l)
			}
			for _, p := range podpolicy.All() {
				all.Policies = append(all.Policies, listedPolicy(p))
			}
			return format.Print(env.Stdout, all, all.table)
		},
	}
	cli.AddOutput(cmd, &format)
	return cmd
}

// listing is an experiment as it is listed, of either kind.
func listing(env *cli.Env, name string) (listed, error) {
	data, err := readFile(env, name)
	if err != nil {
		return listed{}, err
	}
	if testbed.Replays(data) {
		e, err := parseReplay(name, data)
		if err != nil {
			return listed{}, err
		}
		return listed{e.Name, e.Title, e.Shows, e.RowNames(), e.CaseNames(), e.Trials}, nil
	}
	e, err := parseExperiment(name, data)
	if err != nil {
		return listed{}, err
	}
	if name == worlds.Name {
		e.Title = worlds.Title
	}
	return listed{e.Name, e.Title, e.Shows, e.PolicyNames(), e.LevelNames(), e.Trials}, nil
}

func newTestbedShowCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Print the file of a built-in experiment",
		Example: "  plimsoll testbed show slo-cost > my-own.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.SeeHelp(cmd, cli.Misused("show takes the name of one experiment, was given %d", len(args)))
			}
			data, err := shipped(args[0])
			if err != nil {
				return cli.WithHint("see plimsoll testbed list", cli.WithCode(cli.ExitUsage, err))
			}
			_, err = env.Stdout.Write(data)
			return err
		},
	}
}

// shipped is the file of an experiment that comes with the program; of random worlds, the first.
func shipped(name string) ([]byte, error) {
	if name == worlds.Name {
		return worlds.File(firstWorld), nil
	}
	return testbed.File(name)
}

// readFile reads an experiment's file, by the experiment's name or else by the file's.
func readFile(env *cli.Env, name string) ([]byte, error) {
	data, err := shipped(name)
	if err == nil {
		return data, nil
	}
	if !strings.ContainsAny(name, `/\.`) {
		return nil, cli.WithHint("see plimsoll testbed list", cli.WithCode(cli.ExitUsage, err))
	}
	if data, err = env.ReadFile(name); err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("experiment: %w", err))
	}
	return data, nil
}

// parseExperiment reads what a file says.
func parseExperiment(name string, data []byte) (*testbed.Experiment, error) {
	e, err := testbed.Parse(data)
	if err != nil {
		return nil, cli.Misconfigured(name, err)
	}
	return e, nil
}
