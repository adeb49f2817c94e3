package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
)

// kubeAccess is how a verb that only reads reaches a cluster.
type kubeAccess struct{ file, context string }

// beside is the access with the configuration file's kubeconfig, where no flag names one.
func (k kubeAccess) beside(site *siteFile) *kubeAccess {
	if k.file == "" && site.Kubeconfig != "" {
		k.file = site.beside(site.Kubeconfig)
	}
	return &k
}

// addKubeconfig gives a command the flags that kubectl has.
func addKubeconfig(cmd *cobra.Command, into *kubeAccess) {
	cmd.Flags().StringVar(&into.file, "kubeconfig", "", "the kubeconfig `file` (default: as kubectl finds it, or the pod's own account)")
	cmd.Flags().StringVar(&into.context, "context", "", "the `name` of the kubeconfig's context (default: its current one)")
}

// config reads the kubeconfig, and says which cluster it leads to.
func (k *kubeAccess) config(env *cli.Env) (cfg *rest.Config, cluster string, err error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: k.file, Precedence: filepath.SplitList(env.Getenv("KUBECONFIG"))}
	if home := env.Getenv("HOME"); len(rules.Precedence) == 0 && home != "" {
		rules.Precedence = []string{filepath.Join(home, ".kube", "config")}
	}
	found := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: k.context})
	raw, err := found.RawConfig()
	if err == nil {
		cluster = raw.CurrentContext
		if k.context != "" {
			cluster = k.context
		}
		cfg, err = found.ClientConfig()
	}
	switch {
	case clientcmd.IsEmptyConfig(err):
		rule := "must lead to a cluster, was not found"
		if looked := rules.Precedence; len(looked) > 0 {
			rule = "must lead to a cluster; found no kubeconfig in " + strings.Join(looked, ", ")
		}
		return nil, "", cli.WithHint("give --kubeconfig", cli.WithCode(cli.ExitConfig, noKubeconfig("kubeconfig: "+rule)))
	case err != nil:
		return nil, "", cli.WithCode(cli.ExitConfig, fmt.Errorf("kubeconfig: %w", err))
	}
	return cfg, cluster, nil
}

// noKubeconfig says where no kubeconfig was found. It is errNoCluster.
type noKubeconfig string

func (e noKubeconfig) Error() string        { return string(e) }
func (e noKubeconfig) Is(target error) bool { return target == errNoCluster }

// patience is how long a verb waits for a cluster, all in all.
const patience = time.Minute

// ask has a verb ask the API server for objects of any kind, for as long as it has patience.
func (k *kubeAccess) ask(ctx context.Context, env *cli.Env, do func(context.Context, dynamic.Interface) error) error {
	cfg, _, err := k.config(env)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return cli.WithCode(cli.ExitConfig, err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return do(ctx, client)
}

// unread is an error of a verb that only reads a cluster, with what the user can do about it.
func unread(err error) error {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsUnauthorized(err):
		return cli.WithHint("the cluster does not know the user of this context; see kubectl auth whoami", cli.WithCode(cli.ExitConfig, err))
	case apierrors.IsForbidden(err):
		return cli.WithHint("the user of this context must be allowed to list nodes and pods", cli.WithCode(cli.ExitConfig, err))
	case errors.As(err, &status):
		return err
	}
	return cli.WithCode(cli.ExitUnreachable, err)
}
