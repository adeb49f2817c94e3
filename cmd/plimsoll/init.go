package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/starter"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/template"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

const initLong = `Read a Proxmox VE cluster and a Kubernetes cluster, and write the first files of an installation: plimsoll.yaml,
vmpools.yaml with a VMPool, and pricebook.yaml with a PriceBook. Every choice has its reason in a comment. Nothing is
changed in either cluster.

The token needs to read, and no more: the role PVEAuditor on /. Choices with several options are asked for on a terminal;
elsewhere, and with --yes, the first option is taken. A flag answers its question.`

// initQuestion is what the init verb is asked.
type initQuestion struct {
	kube                           connect.Kube
	pve                            connect.Flags
	out                            string
	owner, currency, perKWh, watts string
	answers                        map[string]*string
	yes, force                     bool
}

// initAnswers are the flags that answer questions.
var initAnswers = []struct{ name, usage string }{
	{"template", "the `VMID` of the template to clone"},
	{"bridge", "the `bridge` of the machines"},
	{"iso-storage", "the `storage` of first-boot discs"},
}

func newInitCommand(env *cli.Env) *cobra.Command {
	ask := initQuestion{answers: map[string]*string{"join": new(string)}}
	cmd := &cobra.Command{
		Use:   "init --endpoint URL --token-file FILE",
		Short: "Write the first configuration, from what Proxmox VE and the cluster have",
		Long:  initLong,
		Example: "  pveum user token add root@pam init --privsep 1 && pveum acl modify / --tokens 'root@pam!init' --roles PVEAuditor   # on a host\n" +
			"  plimsoll init --endpoint https://pve1.example:8006 --token-file reader\n" +
			"  plimsoll init --endpoint https://pve1.example:8006 --token-file reader --fingerprint C0:FF:... --template 9000 --yes --out site",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.RequireFlags(cmd, "endpoint", "token-file"); err != nil {
				return err
			}
			return ask.answer(cmd.Context(), env)
		},
	}
	ask.pve.Add(cmd, "a `file` with an API token that may read, user@realm!name=value")
	f := cmd.Flags()
	ask.kube.Add(cmd)
	f.StringVar(&ask.owner, "owner", "", "the `name` of this installation (default: that of the Proxmox VE cluster)")
	for _, a := range initAnswers {
		ask.answers[a.name] = f.String(a.name, "", a.usage)
	}
	cli.AddFlag(cmd, ask.answers["join"], cli.OneOf("rke2", "k3s", "kubeadm", "talos", "custom"), "join", "kind", "", "the kind of join, rke2, k3s, kubeadm, talos or custom; with it no kubeconfig is needed")
	f.StringVar(&ask.currency, "currency", "EUR", "the `name` of the currency")
	cli.AddFlag(cmd, &ask.perKWh, amount, "price-per-kwh", "price", "0.30", "the price of a kilowatt-hour")
	cli.AddFlag(cmd, &ask.watts, amount, "watts", "watts", "40", "the watts that a host draws")
	f.StringVar(&ask.out, "out", ".", "the `folder` to write to")
	f.BoolVar(&ask.yes, "yes", false, "ask nothing: take the first option")
	f.BoolVar(&ask.force, "force", false, "overwrite existing files")
	return cmd
}

// amount reads a decimal that is not negative, and keeps it as it is written.
func amount(text string) (string, error) {
	v, err := pricing.ParseMicros(text)
	if err == nil && v < 0 {
		err = fmt.Errorf("must not be negative, was %q", text)
	}
	return text, err
}

// answer reads both clusters, makes the choices and writes the files.
func (ask *initQuestion) answer(ctx context.Context, env *cli.Env) error {
	if err := ask.checkFolder(env); err != nil {
		return err
	}
	p := &starter.Proposal{
		Endpoints: ask.pve.Endpoints, Fingerprints: ask.pve.Fingerprints,
		Currency: ask.currency, PerKWh: ask.perKWh, Watts: ask.watts,
	}
	if err := ask.readProxmox(ctx, env, &p.Seen); err != nil {
		return err
	}
	if err := ask.readNodes(ctx, env, &p.Seen); err != nil {
		return err
	}
	var err error
	if p.CA, err = ask.pve.Authority(env); err != nil {
		return err
	}
	if p.Owner = ask.owner; p.Owner == "" {
		p.Owner = starter.Owner(p.Name)
	}
	if err := p.Propose(ask.choose(env)); errors.Is(err, starter.ErrNoTemplate) {
		return cli.WithHint(ask.offer(&p.Seen), cli.WithCode(cli.ExitConfig, err))
	} else if err != nil {
		return err
	}
	files, err := p.Files()
	if err != nil {
		return err
	}
	if err := checkProposed(env, files); err != nil {
		return err
	}
	for _, file := range files {
		name := filepath.Join(ask.out, file.Name)
		write := func(w io.Writer) error { _, err := w.Write(file.Text); return err }
		if err := env.WriteFile(name, write); err != nil {
			return cli.WithCode(cli.ExitConfig, fmt.Errorf("--out: %w", err))
		}
		fmt.Fprintln(env.Stderr, "wrote", name)
	}
	return ask.next(env, p)
}

// offer is how a template is made for the cluster, with what is known of both.
func (ask *initQuestion) offer(seen *starter.Seen) string {
	kind := seen.Runs()
	switch kind {
	case "talos":
		return "take an image of https://factory.talos.dev (docs/proxmox.md#templates)"
	case "custom":
		kind = template.Kubeadm
	}
	upload := []string{"plimsoll", "template", "upload", "--image", (&template.Recipe{Kind: kind, Suite: "trixie"}).Name() + ".qcow2",
		"--endpoint", strings.Join(ask.pve.Endpoints, ",")}
	if len(ask.pve.Fingerprints) > 0 {
		upload = append(upload, "--fingerprint", strings.Join(ask.pve.Fingerprints, ","))
	}
	upload = append(upload, "--token-file", "TOKEN", "--storage", seen.DiskStorage())
	return "plimsoll template build --join " + kind + " && " + pveapi.Shell(upload...)
}

// checkFolder refuses to write over files, before anything is asked.
func (ask *initQuestion) checkFolder(env *cli.Env) error {
	names := []string{starter.ConfigFile, starter.PoolsFile, starter.PricesFile}
	if ask.pve.CAFile != "" && filepath.Clean(ask.pve.CAFile) != filepath.Join(ask.out, starter.CAFile) {
		names = append(names, starter.CAFile)
	}
	for _, name := range names {
		path := filepath.Join(ask.out, name)
		switch _, err := env.Stat(path); {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return cli.WithCode(cli.ExitConfig, fmt.Errorf("--out: must be a folder: %w", err))
		case err == nil && !ask.force:
			return cli.WithHint("give --force, or another folder with --out", cli.WithCode(cli.ExitConfig, fmt.Errorf("--out: %s is there already", path)))
		}
	}
	return nil
}

// choose answers questions: by flags, or else on a terminal, or else by the first option.
func (ask *initQuestion) choose(env *cli.Env) func(starter.Question) (string, error) {
	lines := bufio.NewScanner(env.Stdin)
	return func(q starter.Question) (string, error) {
		if given := *ask.answers[q.Key]; given != "" {
			if !slices.Contains(q.Options, given) {
				return "", cli.WithCode(cli.ExitUsage, fmt.Errorf("--%s: must be one of %s, was %q", q.Key, strings.Join(q.Options, ", "), given))
			}
			return given, nil
		}
		if ask.yes || !env.HasKeys || len(q.Options) == 1 {
			return q.Options[0], nil
		}
		for {
			fmt.Fprintf(env.Stderr, "%s (%s) [%s]: ", q.Text, strings.Join(q.Options, ", "), q.Options[0])
			if !lines.Scan() {
				return "", errors.Join(lines.Err(), errors.New("interrupted: no answer"))
			}
			switch line := strings.TrimSpace(lines.Text()); {
			case line == "":
				return q.Options[0], nil
			case slices.Contains(q.Options, line):
				return line, nil
			}
		}
	}
}

// checkProposed holds the files to the rules of those who read them, before they are written.
func checkProposed(env *cli.Env, files []starter.File) error {
	inside := *env
	inside.ReadFile = func(name string) ([]byte, error) {
		for _, f := range files {
			if f.Name == name {
				return f.Text, nil
			}
		}
		return nil, fs.ErrNotExist
	}
	if _, err := readSiteWithPools(&inside, starter.ConfigFile, starter.PoolsFile, true); err != nil {
		return err
	}
	book, err := resources.ReadPrices(&inside, "prices", starter.PricesFile)
	if err != nil {
		return err
	}
	if err := book.Validate(); err != nil {
		return cli.Misconfigured(starter.PricesFile, err)
	}
	return nil
}

// next says what comes after the files.
func (ask *initQuestion) next(env *cli.Env, p *starter.Proposal) error {
	at := func(name string) string { return pveapi.Shell(filepath.Join(ask.out, name)) }
	storage := ""
	if !p.Full {
		storage = " --storage " + pveapi.Shell(p.Template.Storage)
	}
	further := ""
	if zone := p.Zones[p.Bridge]; zone != "" {
		further = " --zone " + pveapi.Shell(p.Bridge+"="+zone)
	}
	if strings.HasPrefix(p.Release, "8") {
		further += " --release 8"
	}
	config, pools, edit := at(starter.ConfigFile), at(starter.PoolsFile), ""
	if slices.Contains(p.Join.Servers, starter.NoServer) {
		edit = " write the address of a server in place of " + starter.NoServer + " in " + pools + ","
	}
	_, err := fmt.Fprintf(env.Stdout, `Read the files,%s then:
  plimsoll pve setup --config %s --pools %s%s%s
  plimsoll doctor --config %s --pools %s
  plimsoll plan --config %s --pools %s --prices %s
In a chart, copy the keys of %s below config. Outside of the cluster, set kubeconfig, namespace and state in it.
`, edit, config, pools, storage, further, config, pools, config, pools, at(starter.PricesFile), config)
	return err
}
