package main

import (
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/pricing"
)

// Who decides on machines.
const (
	byPlimsoll   = "plimsoll"
	byAutoscaler = "cluster-autoscaler"
)

// installation is what differs between clusters in Plimsoll's own manifests. The rest is as the
// chart renders it; whoever wants more of it otherwise takes the chart.
type installation struct {
	mode, nodes, image, config string
	kinds, policies            bool
	marks                      []string
}

func newManifestsInstallCommand(env *cli.Env) *cobra.Command {
	var v installation
	cmd := &cobra.Command{
		Use:   "install --config FILE",
		Short: "Print Plimsoll's own manifests, for clusters without Helm",
		Long: `Print what the Helm charts render: the kinds, and podscaler and nodescaler in the namespace plimsoll.

The configuration file goes into a ConfigMap. Its keys mode, metrics, state and kubeconfig are ignored with a warning,
because the manifests set them. Files that it and the VMPools name are read from the secret plimsoll-proxmox. A journal
goes to standard output (-) or into /var/lib/plimsoll, which lasts as long as the pod. For another namespace or other
settings, use the chart.`,
		Example: "  plimsoll manifests install --config plimsoll.yaml | kubectl apply --server-side -f -\n" +
			"  kubectl -n plimsoll create secret generic plimsoll-proxmox --from-file=token --from-file=join-token",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.RequireFlags(cmd, "config"); err != nil {
				return err
			}
			if v.nodes == byAutoscaler && v.mode != deploy.Active {
				return cli.SeeHelp(cmd, cli.Misused("--nodes: must be %s but with --mode %s, was %q", byPlimsoll, runActive, v.nodes))
			}
			if acts := v.mode == deploy.Active && v.nodes == byPlimsoll; !acts {
				for _, flag := range []string{"deletion-costs", "admission-policies"} {
					if f := cmd.Flags().Lookup(flag); f.Changed {
						return cli.SeeHelp(cmd, cli.Misused("--%s: must be omitted but with --mode %s and --nodes %s, for no pod or node is patched otherwise, was %q", flag, runActive, byPlimsoll, f.Value))
					}
				}
			}
			return v.print(env)
		},
	}
	addConfig(cmd, &v.config)
	cli.AddFlag(cmd, &v.mode, readInstallMode, "mode", "mode", string(runRecommend), "the mode: Recommend (read and report) or Active")
	cli.AddFlag(cmd, &v.nodes, cli.OneOf(byPlimsoll, byAutoscaler), "nodes", "who", byPlimsoll,
		"who decides on machines: plimsoll, or cluster-autoscaler, which asks for secret plimsoll-provider with tls.crt, tls.key and ca.crt")
	cli.AddFlag(cmd, &v.image, cli.ParseImage, "image", "image", "", "the image, best by its digest: registry.example/plimsoll@sha256:...")
	cli.AddFlag(cmd, &v.marks, readMarks, "deletion-costs", "namespaces", marksAll,
		"the namespaces in which pods may be patched to say which go first in a scale-down: all, none, or names with commas")
	cmd.Flags().BoolVar(&v.policies, "admission-policies", true, "print policies that limit what the account may change of pods, nodes and Deployments")
	cmd.Flags().BoolVar(&v.kinds, "crds", true, "print the kinds too")
	return cmd
}

func newManifestsKindsCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "crds",
		Short:   "Print the CustomResourceDefinitions",
		Example: "  plimsoll manifests crds | kubectl apply --server-side -f -",
		Args:    cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			text, err := deploy.Kinds()
			if err != nil {
				return err
			}
			_, err = env.Stdout.Write(text)
			return err
		},
	}
}

func readInstallMode(text string) (string, error) {
	// As in objects and in the configuration file, or in lower case.
	for _, known := range []runMode{runRecommend, runActive} {
		if lower := strings.ToLower(string(known)); text == string(known) || text == lower {
			return lower, nil
		}
	}
	return "", fmt.Errorf("must be one of %s, %s, was %q", runRecommend, runActive, text)
}

// Where pods may be patched, but for namespaces.
const marksAll, marksNone = "all", "none"

// readMarks reads the namespaces in which pods may be patched; nil is all.
func readMarks(text string) ([]string, error) {
	switch text {
	case marksAll:
		return nil, nil
	case marksNone:
		return []string{}, nil
	}
	namespaces := strings.Split(text, ",")
	for _, n := range namespaces {
		if _, err := cli.ParseNamespace(n); err != nil {
			return nil, fmt.Errorf("must be %s, %s, or namespaces with commas between, was %q", marksAll, marksNone, text)
		}
	}
	return namespaces, nil
}

// sayImage says what there is to know of the image: whoever can change what its name means gets
// the API token.
func (v *installation) sayImage(env *cli.Env, release string) {
	switch {
	case v.image == "":
		fmt.Fprintf(env.Stderr, "note: no registry has the image %s: it starts where what 'make image' builds was loaded on the nodes; "+
			"or push that to a registry of yours, and name it: --image registry.example/plimsoll@sha256:...\n", release)
	case !strings.Contains(v.image, "@sha256:"):
		fmt.Fprintf(env.Stderr, "note: --image names %s by a tag: whoever may push there gets the API token; name the digest, as in %s@sha256:...\n",
			v.image, imageTag.ReplaceAllString(v.image, ""))
	}
}

// imageTag is the tag at the end of an image's name.
var imageTag = regexp.MustCompile(`:[^:/@]+$`)

// Where the manifests install, and where the pod may write to.
const (
	installedIn = "plimsoll"
	journalsIn  = "/var/lib/plimsoll/"
	// Beyond it the pod is evicted.
	journalsHold = 512 * pricing.MiB
)

// sayLeft says what of the file gives way to the manifests' values.
func (v *installation) sayLeft(env *cli.Env, s *siteFile) {
	mode := strings.ToUpper(v.mode[:1]) + v.mode[1:]
	for _, left := range []struct{ key, was, is string }{
		{"mode", string(s.Mode), mode}, {"metrics", s.Metrics, ":8080"}, {"state", s.State, stateInCluster},
		{"kubeconfig", s.Kubeconfig, ""},
	} {
		switch {
		case left.was == "" || left.was == left.is:
		case left.is == "":
			fmt.Fprintf(env.Stderr, "note: %s: %s is omitted, for the pod has an account of its own\n", v.config, left.key)
		default:
			fmt.Fprintf(env.Stderr, "note: %s: %s is %s in these manifests, and not %s\n", v.config, left.key, left.is, left.was)
		}
	}
}

// print prints the manifests with the configuration in them.
func (v *installation) print(env *cli.Env) error {
	name := v.mode
	if v.nodes == byAutoscaler {
		name = deploy.Provider
	}
	manifests, err := deploy.Rendered(name)
	if err != nil {
		return err
	}
	config, err := v.file(env)
	if err != nil {
		return err
	}
	if v.marks != nil {
		manifests.MarkPods(v.marks)
	}
	if !v.policies {
		manifests.DropPolicies()
	}
	v.sayImage(env, manifests.Image())
	out, err := manifests.With(config, v.image)
	if err != nil {
		return err
	}
	if v.kinds {
		kinds, err := deploy.Kinds()
		if err != nil {
			return err
		}
		out = strings.TrimPrefix(string(kinds), "---\n") + "---\n" + out
	}
	_, err = io.WriteString(env.Stdout, out)
	return err
}

// file is the configuration file, which the pod must be able to take.
func (v *installation) file(env *cli.Env) (map[string]any, error) {
	parts := []string{partPodScaler, partNodeScaler}
	if v.nodes == byAutoscaler {
		parts = []string{partPodScaler, partProvider}
	}
	s, err := readFor(env, v.config, &siteFile{parts: parts, offline: true})
	if err != nil {
		return nil, err
	}
	if err := v.check(s); err != nil {
		return nil, cli.Misconfigured(v.config, err)
	}
	data, err := env.ReadFile(v.config)
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, err)
	}
	v.sayLeft(env, s)
	var file map[string]any
	if err := yaml.Unmarshal(data, &file); err != nil {
		return nil, cli.Misconfigured(v.config, err)
	}
	return file, nil
}

// check is what is wrong with a file where these manifests install it.
func (v *installation) check(s *siteFile) error {
	given := kube.ByNothing // the rights that the manifests give
	if v.nodes == byAutoscaler {
		given = kube.ByCapacityBuffer
	}
	if s.Namespace != "" && s.Namespace != installedIn {
		return pricing.NewFault("namespace", fmt.Sprintf("must be %s or omitted here, for these manifests install there (the chart installs anywhere), was %q", installedIn, s.Namespace))
	}
	if err := s.checkKept(); err != nil {
		return err
	}
	if h := s.handOff(); h.Used() && h.By != given {
		return pricing.NewFault("handoff.by", fmt.Sprintf("must be none or omitted here, for these manifests give no rights for it (the chart does), was %q", s.HandOff.By))
	}
	for _, lacking := range []struct {
		key, what string
		there     bool
	}{{"capacityBuffers", "rights", s.CapacityBuffers}, {"kedaScaler", "Service", s.KEDAScaler != ""}, {"admission", "webhook and certificate", s.Admission != nil}} {
		if lacking.there {
			return pricing.NewFault(lacking.key, fmt.Sprintf("must be omitted here, for these manifests have no %s for it (the chart does), was there", lacking.what))
		}
	}
	if p := &s.Provider; v.nodes == byAutoscaler && (p.Listen != "" || p.Expander != "" || p.TLS != nil || p.Plaintext != plainNever || len(p.Names) > 0) {
		return pricing.NewFault("provider", "must have nothing but options here, for these manifests say how cluster-autoscaler is let in, and had more")
	}
	return s.checkNamed()
}

// checkKept wants what the pod writes to be where it can, and to fit there.
func (s *siteFile) checkKept() error {
	if j := s.Journal; j != nil && j.File != standardOutput && !strings.HasPrefix(path.Clean(j.File), journalsIn) {
		return pricing.NewFault("journal.file", fmt.Sprintf("must be - for standard output or a file in %s here, for nothing else in the pod can be written to, was %q", journalsIn, j.File))
	}
	if r := s.Recording; r != nil && !strings.HasPrefix(path.Clean(r.Folder), journalsIn) {
		return pricing.NewFault("recording.folder", fmt.Sprintf("must be a folder in %s here, for nothing else in the pod can be written to, was %q", journalsIn, r.Folder))
	}
	if n := s.keeps(); n >= journalsHold {
		key := "journal.rotateSize"
		if s.Recording != nil {
			key = "recording.limit"
		}
		return pricing.NewFault(key, fmt.Sprintf("must be lower here: journal and recording come to %s, and a pod with %s or more is evicted (the chart has journal.sizeLimit)", n, journalsHold))
	}
	return nil
}

// checkNamed wants the files that the configuration names to be where the keys of a secret lie.
func (s *siteFile) checkNamed() error {
	var faults []error
	for _, f := range s.named() {
		if strings.ContainsAny(f.name, `/\`) {
			faults = append(faults, pricing.NewFault(f.key, fmt.Sprintf("must be a name without a folder, for it is looked for in a secret, was %q", f.name)))
		}
	}
	return errors.Join(faults...)
}

// namedFile is a file that a key of the configuration names.
type namedFile struct{ key, name string }

// named are the files that the configuration names, but for those of pools and of the provider's
// own certificates.
func (s *siteFile) named() []namedFile {
	all := []namedFile{{"tokenFile", s.TokenFile}, {"caFile", s.CAFile}}
	of := func(under string, a *access) {
		all = append(all, namedFile{under + "caFile", a.CAFile}, namedFile{under + "tokenFile", a.TokenFile}, namedFile{under + "basicAuthFile", a.BasicAuthFile})
	}
	if s.Prometheus != nil {
		of("prometheus.", &s.Prometheus.access)
	}
	if s.Scrape != nil {
		of("scrape.", &s.Scrape.access)
	}
	for i, r := range s.Notifications {
		under := fmt.Sprintf("notifications[%d].", i)
		all = append(all, namedFile{under + "urlFile", r.URLFile}, namedFile{under + "tokenFile", r.TokenFile})
	}
	return all
}
