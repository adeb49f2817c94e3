package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/deploy"
)

// installation is what differs between clusters in Plimsoll's own manifests. The rest is as the chart
// renders it; whoever wants more of it otherwise takes the chart.
type installation struct {
	mode, image, config string
	kinds               bool
}

func newManifestsInstallCommand(env *Env) *cobra.Command {
	var v installation
	cmd := &cobra.Command{
		Use:   "install --config FILE",
		Short: "Print Plimsoll itself, for a cluster without Helm",
		Long: `Print what the Helm charts render: the kinds, and podscaler and nodescaler in the namespace plimsoll.

The configuration file goes into a ConfigMap, all but mode, metrics and state, which the manifests say. Files that
it and the VMPools name are looked for in the secret plimsoll-proxmox, by their names.`,
		Example: "  plimsoll manifests install --config plimsoll.yaml | kubectl apply --server-side -f -\n" +
			"  kubectl -n plimsoll create secret generic plimsoll-proxmox --from-file=token --from-file=join-token",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requireFlags(cmd, "config"); err != nil {
				return err
			}
			return v.print(env)
		},
	}
	addConfig(cmd, &v.config)
	addFlag(cmd, &v.mode, readInstallMode, "mode", "mode", "recommend", "what it may do: recommend (read, and say what it would do) or active")
	addFlag(cmd, &v.image, readImage, "image", "image", "", "the image, in place of the release's")
	cmd.Flags().BoolVar(&v.kinds, "crds", true, "print the kinds too")
	return cmd
}

func newManifestsKindsCommand(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "crds",
		Short:   "Print the kinds WorkloadAutoscaler, VMPool and PriceBook",
		Example: "  plimsoll manifests crds | kubectl apply --server-side -f -",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			text, err := deploy.Manifests.ReadFile("manifests/crds.yaml")
			if err != nil {
				return err
			}
			_, err = env.Stdout.Write(text)
			return err
		},
	}
}

func readInstallMode(text string) (string, error) {
	if known := []string{"recommend", "active"}; !slices.Contains(known, text) {
		return "", fmt.Errorf("must be one of %s, was %q", strings.Join(known, ", "), text)
	}
	return text, nil
}

// Where the rendered manifests hold what differs.
var (
	configHeld = regexp.MustCompile(`(?m)^  config\.yaml: \|\n(    .*\n)+`)
	sumHeld    = regexp.MustCompile(`(?m)^(        checksum/config: )[0-9a-f]{64}$`)
	imageHeld  = regexp.MustCompile(`(?m)^(          image: )".*"$`)
)

// print prints the manifests with the configuration in them.
func (v *installation) print(env *Env) error {
	kinds, err := deploy.Manifests.ReadFile("manifests/crds.yaml")
	if err != nil {
		return err
	}
	text, err := deploy.Manifests.ReadFile("manifests/" + v.mode + ".yaml")
	if err != nil {
		return err
	}
	manifests := strings.TrimPrefix(strings.ReplaceAll(configHeld.FindString(string(text)), "\n    ", "\n"), "  config.yaml: |\n")
	config, err := v.installed(env, manifests)
	if err != nil {
		return err
	}
	out := configHeld.ReplaceAllLiteralString(string(text), "  config.yaml: |\n    "+strings.ReplaceAll(strings.TrimSpace(config), "\n", "\n    ")+"\n")
	out = sumHeld.ReplaceAllString(out, fmt.Sprintf("${1}%x", sha256.Sum256([]byte(config)))) // pods start anew when it is another
	if v.image != "" {
		out = imageHeld.ReplaceAllString(out, fmt.Sprintf("${1}%q", v.image))
	}
	if v.kinds {
		out = strings.TrimPrefix(string(kinds), "---\n") + "---\n" + out
	}
	_, err = io.WriteString(env.Stdout, out)
	return err
}

// installed is the configuration file as the pod reads it: with what the manifests say of the pod in place
// of what the file says of wherever it was written for.
func (v *installation) installed(env *Env, manifests string) (string, error) {
	s, err := readFor(env, v.config, &siteFile{parts: []string{partPodScaler, partNodeScaler}, offline: true})
	if err != nil {
		return "", err
	}
	if s.handOff().Used() {
		return "", misconfigured(v.config, &fileFault{"handoff.by", fmt.Sprintf("must be none or left out here, for these manifests give no rights for it (the chart does), was %q", s.HandOff.By)})
	}
	for key, name := range map[string]string{"tokenFile": s.TokenFile, "caFile": s.CAFile} {
		if strings.ContainsAny(name, `/\`) {
			return "", misconfigured(v.config, &fileFault{key, fmt.Sprintf("must be a name without a folder, for it is looked for in a secret, was %q", name)})
		}
	}
	data, err := env.ReadFile(v.config)
	if err != nil {
		return "", withCode(exitConfig, err)
	}
	var file, ours map[string]any
	if err := errors.Join(yaml.Unmarshal(data, &file), yaml.Unmarshal([]byte(manifests), &ours)); err != nil {
		return "", misconfigured(v.config, err)
	}
	for _, key := range []string{"mode", "metrics", "state"} {
		file[key] = ours[key]
	}
	delete(file, "kubeconfig")
	delete(file, "namespace")
	text, err := yaml.Marshal(file)
	return string(text), err
}
