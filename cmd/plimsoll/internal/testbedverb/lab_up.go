package testbedverb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
	"github.com/plimsoll/plimsoll/testbed/lab/product"
)

// labUp is what the up verb is asked.
type labUp struct {
	labFolder
	foreground, spawned           bool
	parts                         []string
	podStart, podStop             timing.Range
	hosts                         int
	speed                         float64
	seed                          uint64
	program                       string
	apiserver, manager, scheduler []string
	format                        cli.Output
}

// labParts are the parts that a lab can have besides its control plane, in the order in which they
// are started.
var labParts = []struct {
	name string
	make func(ask *labUp) lab.Part
}{
	{lab.KWOKPart, func(ask *labUp) lab.Part { return &lab.KWOK{PodStart: ask.podStart, PodStop: ask.podStop} }},
	{lab.PrometheusPart, func(*labUp) lab.Part { return &lab.Prometheus{} }},
	{machines.PartName, func(ask *labUp) lab.Part { return &machines.Part{Hosts: ask.hosts, Speed: ask.speed, Seed: ask.seed} }},
	{plane.PartName, func(ask *labUp) lab.Part { return &plane.Part{Seed: ask.seed} }},
	{product.PartName, func(ask *labUp) lab.Part {
		return &product.Part{Program: ask.program, Settings: map[string]any{"mode": "Active", "interval": "5s"}}
	}},
}

func newLabUpCommand(env *cli.Env) *cobra.Command {
	var ask labUp
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a lab, and print how to reach it",
		Long:  "Start a lab in the background, and print how to reach it. A lab on the folder of an earlier one keeps its objects.",
		Example: "  plimsoll testbed lab up\n" +
			"  plimsoll testbed lab up --name second --parts kwok --pod-start 5s-20s\n" +
			"  plimsoll testbed lab up --controller-manager-arg --horizontal-pod-autoscaler-sync-period=5s",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ask.foreground || ask.spawned {
				return ask.stay(cmd.Context(), env)
			}
			return ask.leave(cmd.Context(), env)
		},
	}
	f := cmd.Flags()
	addLabFolder(cmd, &ask.labFolder)
	f.BoolVar(&ask.foreground, "foreground", false, "run in the foreground, and stop the lab when interrupted")
	f.BoolVar(&ask.spawned, "spawned", false, "stay, and leave it to the process that spawned this one to say how to reach the lab")
	if err := f.MarkHidden("spawned"); err != nil {
		panic(err)
	}
	cli.AddFlag(cmd, &ask.parts, parseLabParts, "parts", "names", strings.Join(labPartNames(), ","), "the parts besides the control plane; none for no parts")
	cli.AddFlag(cmd, &ask.podStart, parseRange, "pod-start", "range", "1s-3s", "how long a pod takes from being bound to being ready")
	cli.AddFlag(cmd, &ask.podStop, parseRange, "pod-stop", "range", "0s-1s", "how long a pod takes to go once it is deleted")
	cli.AddFlag(cmd, &ask.hosts, cli.AtLeastOne, "hosts", "number", "3", "how many hosts the Proxmox VE has")
	cli.AddFlag(cmd, &ask.speed, parseSpeed, "speed", "factor", "1", "how fast time passes in the Proxmox VE")
	f.Uint64Var(&ask.seed, "seed", 1, "where all chance in the Proxmox VE and in the requests' demands comes from")
	f.StringArrayVar(&ask.apiserver, "apiserver-arg", nil, "an `argument` for kube-apiserver; can be repeated")
	f.StringArrayVar(&ask.manager, "controller-manager-arg", nil, "an `argument` for kube-controller-manager; can be repeated")
	f.StringArrayVar(&ask.scheduler, "scheduler-arg", nil, "an `argument` for kube-scheduler; can be repeated")
	cli.AddOutput(cmd, &ask.format)
	return cmd
}

func labPartNames() []string {
	var names []string
	for _, p := range labParts {
		names = append(names, p.name)
	}
	return names
}

// parseLabParts reads names of parts, each once.
func parseLabParts(text string) ([]string, error) {
	if text == "none" {
		return nil, nil
	}
	known, names := labPartNames(), strings.Split(text, ",")
	for i, name := range names {
		if !slices.Contains(known, name) || slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("must be none, or some of %s, each once, was %q", strings.Join(known, ","), text)
		}
	}
	return names, nil
}

// parseRange reads a time, or two with a hyphen between them.
func parseRange(text string) (timing.Range, error) {
	least, most, two := strings.Cut(text, "-")
	if !two {
		most = least
	}
	low, err := time.ParseDuration(least)
	high, also := time.ParseDuration(most)
	r := timing.Range{Min: low, Max: high}
	if err != nil || also != nil || !r.Valid() {
		return timing.Range{}, fmt.Errorf("must be a time such as 2s, or two such as 1s-3s, was %q", text)
	}
	return r, nil
}

// config is the lab that was asked for.
func (ask *labUp) config(data string, progress func(string)) lab.Config {
	cfg := lab.Config{
		Data: data, Progress: progress,
		ControlPlane: lab.ControlPlane{APIServerArgs: ask.apiserver, ControllerManagerArgs: ask.manager, SchedulerArgs: ask.scheduler},
	}
	for _, p := range labParts {
		if slices.Contains(ask.parts, p.name) {
			cfg.Parts = append(cfg.Parts, p.make(ask))
		}
	}
	product.Link(cfg.Parts)
	return cfg
}

// stay runs a lab until it is interrupted.
func (ask *labUp) stay(ctx context.Context, env *cli.Env) error {
	data, err := ask.folder()
	if err != nil {
		return err
	}
	if ask.program, err = env.Program(); err != nil {
		return err
	}
	l, err := lab.Up(ctx, ask.config(data, func(line string) { fmt.Fprintln(env.Stderr, line) }))
	if err != nil {
		return labFault(err)
	}
	if err := ask.answer(env, data); err != nil {
		return errors.Join(err, l.Down())
	}
	<-ctx.Done()
	return l.Down()
}

// answer says how to reach the lab, unless another client does.
func (ask *labUp) answer(env *cli.Env, data string) error {
	if ask.spawned {
		return nil
	}
	r, err := lab.Look(data)
	if err != nil {
		return err
	}
	return ask.print(env, r)
}

// leave starts a process that runs the lab, waits until it is up, and leaves it.
func (ask *labUp) leave(ctx context.Context, env *cli.Env) error {
	data, err := ask.folder()
	if err != nil {
		return err
	}
	if r, err := lab.Look(data); err == nil && r.Up {
		return cli.WithHint("see plimsoll testbed lab status, and down", fmt.Errorf("a lab is up in %s, run by process %d", data, r.PID))
	}
	log := lab.Log(data, "lab")
	tail := tailOf(log)
	defer tail.close()
	program, err := env.Program()
	if err != nil {
		return err
	}
	p, err := lab.Spawn(program, append(slices.Clone(env.Args), "--spawned"), log)
	if err != nil {
		return err
	}
	for {
		select {
		case err := <-p.Ended:
			tail.copy(env.Stderr)
			return cli.WithHint("what it said is in "+log, stillborn(err))
		case <-ctx.Done():
			fmt.Fprintln(env.Stderr, "interrupted; taking the lab down")
			if err := p.End(); err != nil {
				return err
			}
			return fmt.Errorf("interrupted: the lab's process ended: %w", <-p.Ended)
		case <-time.After(100 * time.Millisecond):
		}
		tail.copy(env.Stderr)
		if r, err := lab.Look(data); err == nil && r.Ready && r.PID == p.PID {
			return ask.print(env, r)
		}
	}
}

// stillborn is the error for a lab whose process has ended, with the code that it ended with.
func stillborn(err error) error {
	code := cli.ExitFailed
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		code = exit.ExitCode()
	}
	return cli.WithCode(code, fmt.Errorf("the lab did not come up: %w", err))
}

// tail shows what is added to a log.
type tail struct {
	name string
	file *os.File
	from int64
}

func tailOf(name string) *tail {
	t := &tail{name: name}
	if info, err := os.Stat(name); err == nil {
		t.from = info.Size()
	}
	return t
}

// copy shows what was added since.
func (t *tail) copy(to io.Writer) {
	if t.file == nil {
		f, err := os.Open(t.name)
		if err != nil {
			return // not there yet
		}
		t.file = f
		if _, err := f.Seek(t.from, io.SeekStart); err != nil {
			return
		}
	}
	_, _ = io.Copy(to, t.file) // the log is there to be read, too
}

func (t *tail) close() {
	if t.file != nil {
		_ = t.file.Close()
	}
}

// print says how to reach a lab.
func (ask *labUp) print(env *cli.Env, r *lab.Report) error {
	return ask.format.Print(env.Stdout, r, func(w io.Writer) {
		fmt.Fprintf(w, "kubeconfig\t%s\n", r.Kubeconfig)
		for _, p := range r.Parts {
			for _, e := range p.Endpoints {
				fmt.Fprintf(w, "%s %s\t%s\n", p.Name, e.Name, e.URL)
			}
		}
		fmt.Fprintf(w, "try\texport KUBECONFIG=%s\n", r.Kubeconfig)
		fmt.Fprintf(w, "\tkubectl get --raw /readyz\n")
		if slices.Contains(ask.parts, product.PartName) && slices.Contains(ask.parts, machines.PartName) {
			fmt.Fprintf(w, "\tkubectl apply -f %s\n", product.ExampleFile(r.Data))
		}
		fmt.Fprintf(w, "\tplimsoll testbed lab status%s\n", ask.option())
		fmt.Fprintf(w, "\tplimsoll testbed lab down%s\n", ask.option())
	})
}
