package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/starter"
	"github.com/plimsoll/plimsoll/grpc/provider"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/proxmox/doctor"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// doctorAnswer is what the doctor found.
type doctorAnswer struct {
	OK      int            `json:"ok"`
	Warn    int            `json:"warn"`
	Fail    int            `json:"fail"`
	Skipped int            `json:"skipped"`
	Checks  []doctor.Check `json:"checks"`
}

func newDoctorCommand(env *cli.Env) *cobra.Command {
	var ask examining
	cmd := &cobra.Command{
		Use:   "doctor --config FILE",
		Short: "Check that machines can be made, and how to fix what prevents it",
		Long: "Check everything that Plimsoll needs to make machines on Proxmox VE: the connection, the cluster, the token's\n" +
			"rights, templates, storages, networks, pools and machines. Each fault comes with the command or the line that\n" +
			"fixes it. The doctor only reads. If the file names no pools, it checks the VMPools of the file that --pools names,\n" +
			"or else those of the cluster.\n\n" +
			"Exits with 1 if something must be fixed first, with 3 if the configuration file is wrong, and with 4 if no\n" +
			"endpoint answers. Warnings are no failure.",
		Example: "  plimsoll doctor --config site.yaml\n" +
			"  plimsoll doctor --config plimsoll.yaml --pools vmpools.yaml\n" +
			"  plimsoll doctor --config site.yaml -o json | jq '.checks[] | select(.status == \"fail\")'",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.RequireFlags(cmd, "config"); err != nil {
				return err
			}
			return ask.examine(cmd.Context(), env)
		},
	}
	addConfig(cmd, &ask.file)
	addPools(cmd, &ask.pools)
	ask.kube.Add(cmd)
	cli.AddOutput(cmd, &ask.format)
	return cmd
}

// examining is what the doctor is asked.
type examining struct {
	file, pools string
	kube        connect.Kube
	format      cli.Output
}

// read reads the site, with pools from the file, from manifests or from the cluster.
func (ask *examining) read(ctx context.Context, env *cli.Env) (*siteFile, []doctor.Check, error) {
	if ask.pools != "" {
		site, err := readSiteWithPools(env, ask.file, ask.pools, false)
		if err != nil {
			return nil, nil, err
		}
		site.reach = &ask.kube
		pools := site.Pools
		site.Pools = nil
		var checks []doctor.Check
		for i := range pools {
			checks = append(checks, site.describe(pools[i].Name, &pools[i], nil, "edit "+ask.pools)...)
		}
		return site, checks, nil
	}
	site, err := readFor(env, ask.file, &siteFile{parts: []string{partProvider}, examining: true, reach: &ask.kube})
	if err != nil || !site.inCluster() {
		return site, nil, err
	}
	checks, err := (&running{site}).poolsInCluster(ctx)
	return site, checks, err
}

// examine makes all checks and prints them.
func (ask *examining) examine(ctx context.Context, env *cli.Env) error {
	site, known, err := ask.read(ctx, env)
	if err != nil {
		return err
	}
	known = append(site.checks(), known...)
	connection := site.access.Connection()
	connection.Warn = nil // the checks say it
	examiner := doctor.Doctor{Site: &site.Site, Connection: connection, Known: known, Cluster: (&running{site}).clusterOnce(ctx)}
	report, err := examiner.Examine(ctx)
	if report == nil {
		return cli.Misconfigured(ask.file, err)
	}
	report.Checks = append(report.Checks, site.Provider.checks()...)
	report.Checks = append(report.Checks, (&running{site}).handOffInCluster(ctx)...)
	answer := &doctorAnswer{
		OK: report.Count(doctor.OK), Warn: report.Count(doctor.Warn), Fail: report.Count(doctor.Fail), Skipped: report.Count(doctor.Skipped),
		Checks: report.Checks,
	}
	if printed := ask.format.Print(env.Stdout, answer, answer.table); printed != nil {
		return printed
	}
	switch {
	case err != nil:
		return fmt.Errorf("interrupted: %w", err)
	case !report.Reached:
		return cli.WithCode(cli.ExitUnreachable, errors.New("no endpoint answers"))
	case answer.Fail > 0:
		return fmt.Errorf("%s must be fixed first", cli.Count(answer.Fail, "thing", "things"))
	}
	return nil
}

// checks are what can be said of the files without any call.
func (s *siteFile) checks() []doctor.Check {
	var all []doctor.Check
	if s.access.TokenFile != "" {
		all = s.checkOpen(all, "connection.tokenFile", "the token", s.access.TokenFile)
	}
	for i := range s.Pools {
		p := &s.Pools[i]
		if p.Join.TokenFile == "" {
			continue
		}
		file := s.beside(p.Join.TokenFile)
		if !slices.ContainsFunc(s.Pools[:i], func(o settings.Pool) bool { return o.Join.TokenFile == p.Join.TokenFile }) {
			all = s.checkOpen(all, doctor.GroupPools+".joinTokenFile", "the join token", file)
		}
		if p.Join.Token.JoinsServers() {
			all = append(all, doctor.Check{
				ID: doctor.GroupPools + ".joinToken", Subject: "pool " + p.Name, Status: doctor.Warn,
				Text: fmt.Sprintf("%s holds the servers' token: whoever gets hold of one machine of pool %s can join the cluster as a server", file, p.Name),
				Mend: []string{fmt.Sprintf("write agent-token: VALUE into the config.yaml of all %s servers, restart them, and put what is then in server/agent-token into %s", p.Join.Kind, file)},
			})
		}
	}
	return all
}

// checkOpen adds a check if others than its owner can read a file.
func (s *siteFile) checkOpen(all []doctor.Check, id, what, file string) []doctor.Check {
	info, err := s.env.Stat(file)
	if err != nil || info.Mode().Perm()&0o004 == 0 {
		return all
	}
	return append(all, doctor.Check{
		ID: id, Subject: file, Status: doctor.Warn,
		Text: fmt.Sprintf("everybody on this machine can read %s (mode %04o)", what, info.Mode().Perm()),
		Mend: []string{"chmod 600 " + file},
	})
}

// warn says what doctor would warn of before any call, to those who never ask it.
func (s *siteFile) warn() {
	for _, c := range s.checks() {
		fmt.Fprintf(s.env.Stderr, "warning: %s: %s; %s\n", c.Subject, c.Text, strings.Join(c.Mend, ", "))
	}
}

// checks are what can be said of how cluster-autoscaler is let in.
func (p *providerSettings) checks() []doctor.Check {
	warn := func(id, text, fix string) []doctor.Check {
		return []doctor.Check{{ID: "provider." + id, Status: doctor.Warn, Text: text, Mend: []string{fix}}}
	}
	switch {
	case p.Plaintext == plainAnywhere:
		return warn("clients", "whoever reaches the provider's port can order and destroy machines, for plaintext is anywhere",
			"take provider.plaintext out: a set of certificates is made on the first start, or name yours in provider.tls")
	case p.TLS != nil && len(p.TLS.Clients) == 0:
		return warn("clients", "the provider will not start: every certificate that "+p.TLS.ClientCA+" signs could order and destroy machines",
			"name cluster-autoscaler's in the configuration file: provider: {tls: {clients: ["+provider.SelfMadeClient+"]}}")
	}
	return nil
}

// signs are printed before a check's line. A status that is not good is printed as a word, too.
var signs = map[doctor.Status]string{doctor.OK: "✓", doctor.Warn: "! warning:", doctor.Fail: "✗ failed:", doctor.Skipped: "- skipped:"}

func (a *doctorAnswer) table(w io.Writer) {
	group := ""
	for i := range a.Checks {
		c := &a.Checks[i]
		if g := c.Group(); g != group {
			if group != "" {
				fmt.Fprintln(w)
			}
			group = g
			fmt.Fprintln(w, strings.ToUpper(g[:1])+g[1:])
		}
		fmt.Fprintln(w, " ", signs[c.Status], c.Text)
		for _, m := range c.Mend {
			fmt.Fprintln(w, "     →", m)
		}
	}
	fmt.Fprintf(w, "\n%d ok, %s, %d failed, %d skipped\n", a.OK, cli.Count(a.Warn, "warning", "warnings"), a.Fail, a.Skipped)
}

// poolsInCluster puts the pools that VMPools describe into a site whose file leaves them to the
// cluster. A fault of one of them is a check: the others are examined all the same. So is a cluster
// without the kind, or none at all: Proxmox VE is examined before anything is installed.
func (s *running) poolsInCluster(ctx context.Context) ([]doctor.Check, error) {
	described := func(status doctor.Status, text string, fix ...string) []doctor.Check {
		return []doctor.Check{{ID: doctor.GroupPools + ".described", Status: status, Text: text, Mend: fix}}
	}
	all, err := s.listPools(ctx)
	switch {
	case errors.Is(err, connect.ErrNoCluster):
		return described(doctor.Warn, "VMPools are not checked: "+err.Error(),
			"plimsoll doctor --pools FILE, with their manifests, or --kubeconfig FILE, for those in the cluster"), nil
	case errors.Is(err, errNoKind):
		return described(doctor.Warn, "VMPools are not checked: "+err.Error(),
			"install the chart plimsoll-crds, or apply what 'plimsoll manifests crds' prints", "plimsoll doctor --pools FILE, with their manifests"), nil
	case errors.Is(err, errNoRight):
		return described(doctor.Fail, "VMPools are not checked: "+err.Error(), "kubectl auth can-i list vmpools.plimsoll.dev, and give that user the right",
			"plimsoll doctor --pools FILE, with their manifests"), nil
	case errors.Is(err, errRefused):
		return described(doctor.Fail, "VMPools are not checked: "+err.Error(), "renew these credentials; 'kubectl auth whoami' with the same kubeconfig and context shows whether they are accepted",
			"plimsoll doctor --pools FILE, with their manifests"), nil
	case cli.ExitCode(err) == cli.ExitUnreachable:
		return described(doctor.Fail, "VMPools are not checked: "+err.Error(), "see whether the API server is up, and whether it is reached from here",
			"plimsoll doctor --pools FILE, with their manifests"), nil
	case err != nil:
		return nil, err
	case len(all) == 0:
		return described(doctor.Warn, "there is no VMPool: no machine will ever be made"), nil
	}
	// Of two in conflict, the older one counts.
	slices.SortFunc(all, func(a, b v1alpha1.VMPool) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	var checks []doctor.Check
	for i := range all {
		p, err := resources.Pool(&all[i])
		checks = append(checks, s.describe(all[i].Name, &p, err, "kubectl edit vmpool "+all[i].Name)...)
	}
	return checks, nil
}

// describe takes a pool into the site with the files that it names, or says what is wrong with it.
func (s *siteFile) describe(name string, p *settings.Pool, err error, fix string) []doctor.Check {
	if err == nil {
		err = s.besideOthers(p)
	}
	if err == nil {
		fix = "put the file beside the configuration file; in the cluster, into the secret with the token"
		err = p.Join.Read(func(name string) ([]byte, error) { return s.env.ReadFile(s.beside(name)) })
	}
	failed := func(text string) []doctor.Check {
		return []doctor.Check{{
			ID: doctor.GroupPools + ".described", Subject: name, Status: doctor.Fail, Mend: []string{fix},
			Text: fmt.Sprintf("VMPool %s: %s", name, text),
		}}
	}
	if err != nil {
		return failed(strings.ReplaceAll(err.Error(), "\n", "; ") + "; the pool is not checked further")
	}
	s.Pools = append(s.Pools, *p)
	if slices.Contains(p.Join.Servers, starter.NoServer) {
		fix = "write the address of a server of the cluster there"
		return failed("spec.join.servers: must hold addresses, was " + starter.NoServer + ", as 'plimsoll init' wrote it")
	}
	return nil
}

// besideOthers says what keeps a pool from being used beside those before it, by its manifest's
// keys.
func (s *siteFile) besideOthers(p *settings.Pool) error {
	parts := cli.Parts(settings.Conflicts(append(slices.Clone(s.Pools), *p), s.Endpoints...)[p.Name])
	for i, err := range parts {
		if !strings.HasPrefix(err.Error(), "beside ") {
			parts[i] = fmt.Errorf("spec.%w", err)
		}
	}
	return errors.Join(parts...)
}

// handOffInCluster looks whether what is expected could be made known as the file says. Where it
// says nothing, that follows from the parts that run, which are not known here.
func (s *running) handOffInCluster(ctx context.Context) []doctor.Check {
	h := s.handOff()
	if s.HandOff == nil || !h.Used() {
		return nil
	}
	c := doctor.Check{ID: "handoff.usable", Subject: string(h.By), Status: doctor.OK, Text: fmt.Sprintf("what is expected can be made known by %s", h.By)}
	cfg, err := s.rest()
	if err == nil {
		err = h.Usable(ctx, cfg)
	}
	if err != nil {
		c.Status, c.Text = doctor.Warn, fmt.Sprintf("what is expected cannot be made known by %s: %v", h.By, err)
		if errors.Is(err, kube.ErrNoBuffers) {
			c.Mend = []string{"apply the kind, which comes with cluster-autoscaler's sources, or write handoff: {by: Placeholders}"}
		}
	}
	return []doctor.Check{c}
}

// errNoKind is why there are no VMPools to list.
var errNoKind = errors.New("the cluster does not know the kind VMPool")

// errNoRight is why VMPools may not be listed.
var errNoRight = errors.New("the API server does not let the kubeconfig's user list VMPools")

// errRefused is why nothing may be asked.
var errRefused = errors.New("the API server refuses the credentials")

// listPools asks the API server for all VMPools.
func (s *running) listPools(ctx context.Context) ([]v1alpha1.VMPool, error) {
	cfg, err := s.rest()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("kubeconfig: %w", err))
	}
	path := "/apis/" + v1alpha1.GroupVersion.String() + "/vmpools"
	answer := client.RESTClient().Get().AbsPath(path).Do(ctx)
	data, _ := answer.Raw()
	err = answer.Error() // which has the server's text, as that of Raw has not
	switch {
	case apierrors.IsNotFound(err):
		return nil, errNoKind
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%w: %w", errNoRight, err)
	case apierrors.IsUnauthorized(err):
		return nil, fmt.Errorf("%w of %s: %w", errRefused, s.kubeBeside(*s.reach).Account(s.env), err)
	case err != nil:
		return nil, cli.WithCode(cli.ExitUnreachable, fmt.Errorf("list VMPools: %w", err))
	}
	var list v1alpha1.VMPoolList
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("list VMPools: %w", err)
	}
	return list.Items, nil
}
