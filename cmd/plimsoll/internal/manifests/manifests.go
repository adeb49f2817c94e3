// Package manifests is the verbs that print what is applied to a cluster beside Plimsoll itself.
package manifests

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// New returns the command, with further verbs that print manifests.
func New(env *cli.Env, more ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "manifests",
		Short: "Print manifests to apply to a cluster",
	}
	cmd.AddCommand(append(more, newManifestsClusterAutoscalerCommand(env), newManifestsLoaderCommand(env), newManifestsOpenCostCommand(env))...)
	return cli.VerbsOnly(cmd)
}

func newManifestsClusterAutoscalerCommand(env *cli.Env) *cobra.Command {
	v, usual := deploy.Autoscaler{}, deploy.UsualAutoscaler()
	var pools string
	cmd := &cobra.Command{
		Use:   "cluster-autoscaler",
		Short: "Print upstream's cluster-autoscaler with Plimsoll as its provider",
		Long: `Print upstream's cluster-autoscaler with Plimsoll as its provider: Deployment, RBAC and cloud-config.

The client's certificate is read from a secret with tls.crt, tls.key and ca.crt. 'plimsoll run' makes such a set at its
first start; cert-manager can keep one that is rotated. It needs the usage client auth and a name that
provider.tls.clients of Plimsoll's configuration lists, such as cluster-autoscaler. Restart cluster-autoscaler after a
rotation: it reads its files once.`,
		Example: "  plimsoll manifests cluster-autoscaler | kubectl apply -f -",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if host, _, _ := cli.SplitAddress(v.Address); !cmd.Flags().Changed("expander-address") {
				_, port, _ := cli.SplitAddress(usual.ExpanderAddress)
				v.ExpanderAddress = net.JoinHostPort(host, strconv.Itoa(port))
			}
			if err := sizeClones(env, cmd, pools, &v); err != nil {
				return err
			}
			if v.Namespace != usual.Namespace {
				fmt.Fprintf(env.Stderr, "note: Plimsoll's NetworkPolicy lets cluster-autoscaler in from namespace %s, and its calls would time out: "+
					"set networkPolicy.providerFrom of the chart to [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %q}}, podSelector: {matchLabels: {app: cluster-autoscaler}}}], "+
					"or change what 'plimsoll manifests install' prints alike\n", usual.Namespace, v.Namespace)
			}
			v.Command = pveapi.Shell(append([]string{"plimsoll"}, env.Args...)...)
			return v.Print(env.Stdout)
		},
	}
	cli.AddFlag(cmd, &v.Namespace, cli.ParseNamespace, "namespace", "name", usual.Namespace, "the namespace that it runs in")
	cli.AddFlag(cmd, &v.Image, cli.ParseImage, "image", "image", usual.Image,
		"cluster-autoscaler's image, of the cluster's own minor release")
	cli.AddFlag(cmd, &v.Address, readAddress, "address", "host:port", usual.Address, "the address of Plimsoll's provider")
	cli.AddFlag(cmd, &v.Expander, readExpander, "expander", "name", usual.Expander, "who chooses among groups: grpc (Plimsoll, the cheapest), price, least-waste, most-pods, priority or random")
	cli.AddFlag(cmd, &v.ExpanderAddress, readAddress, "expander-address", "host:port", usual.ExpanderAddress,
		"where Plimsoll's expander is reached; not given, the host of --address and this port")
	cli.AddFlag(cmd, &v.Secret, cli.ParseName, "tls-secret", "name", usual.Secret, "the secret with the client's certificate")
	cmd.Flags().BoolVar(&v.Buffers, "capacity-buffers", false, "enable CapacityBuffers; needs their kind in the cluster, and release 1.34 or later")
	cmd.Flags().StringVar(&pools, "pools", "", "a `file` of manifests whose VMPools say how many machines there may be, in place of --machines")
	cli.AddFlag(cmd, &v.Machines, cli.AtLeastOne, "machines", "number", strconv.Itoa(usual.Machines), "how many machines all pools may have: all may be ordered at once")
	cli.AddFlag(cmd, &v.Clones, cli.AtLeastOne, "clones-per-storage", "number", strconv.Itoa(usual.Clones), "clones at a time, as clonesPerStorage of Plimsoll's configuration")
	cli.AddFlag(cmd, &v.CloneTime, cli.Positive(cli.ParseDuration), "clone-time", "duration", "2m", "what a clone takes: seconds if linked, minutes if full")
	cli.AddFlag(cmd, &v.Timeout, readTimeout, "grpc-timeout", "duration", usual.Timeout, "how long it waits for an answer")
	return cmd
}

// sizeClones takes the number of machines from VMPools, if a file of them is named.
func sizeClones(env *cli.Env, cmd *cobra.Command, file string, v *deploy.Autoscaler) error {
	switch {
	case file == "":
		return nil
	case cmd.Flags().Changed("machines"):
		return cli.SeeHelp(cmd, cli.Misused("--machines: must be absent beside --pools, was %d", v.Machines))
	}
	pools, err := resources.ReadPools(env, file)
	if err != nil {
		return err
	}
	v.Machines = 0
	for i := range pools {
		v.Machines += pools[i].Max
	}
	return nil
}

// readAddress reads an address that others reach something at.
func readAddress(text string) (string, error) {
	if host, port, ok := cli.SplitAddress(text); !ok || port == 0 || !cli.IsHost(host) {
		return "", fmt.Errorf("must be host:port, was %q", text)
	}
	return text, nil
}

func readExpander(text string) (string, error) {
	known := []string{"grpc", "price", "least-waste", "most-pods", "priority", "random"}
	if !slices.Contains(known, text) {
		return "", fmt.Errorf("must be one of %s, was %q", strings.Join(known, ", "), text)
	}
	return text, nil
}

func readTimeout(text string) (string, error) {
	d, err := cli.ParseDuration(text)
	if err != nil {
		return "", err
	}
	if d < time.Second {
		return "", fmt.Errorf("must be 1s or more, was %q", text)
	}
	return d.String(), nil
}
