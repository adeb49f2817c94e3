package connect

import (
	"cmp"
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

// Kube is how a verb that only reads reaches a cluster.
type Kube struct{ File, Context string }

// Add gives a command the flags that kubectl has.
func (k *Kube) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&k.File, "kubeconfig", "", "the kubeconfig `file` (default: as kubectl finds it, or the pod's own account)")
	cmd.Flags().StringVar(&k.Context, "context", "", "the `name` of the kubeconfig's context (default: its current one)")
}

// Config reads the kubeconfig, and says which cluster it leads to.
func (k *Kube) Config(env *cli.Env) (cfg *rest.Config, cluster string, err error) {
	rules := k.rules(env)
	found := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: k.Context})
	raw, err := found.RawConfig()
	if err == nil {
		cluster = raw.CurrentContext
		if k.Context != "" {
			cluster = k.Context
		}
		cfg, err = found.ClientConfig()
	}
	switch {
	case clientcmd.IsEmptyConfig(err) && k.File != "":
		return nil, "", cli.WithCode(cli.ExitConfig, fmt.Errorf("kubeconfig: must lead to a cluster; %s names none", k.File))
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

// rules are where kubectl would look for a kubeconfig.
func (k *Kube) rules(env *cli.Env) *clientcmd.ClientConfigLoadingRules {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: k.File, Precedence: filepath.SplitList(env.Getenv("KUBECONFIG"))}
	if home := env.Getenv("HOME"); len(rules.Precedence) == 0 && home != "" {
		rules.Precedence = []string{filepath.Join(home, ".kube", "config")}
	}
	return rules
}

// Account names what an API server is shown: file, context and user of the kubeconfig, or the
// account of the pod.
func (k *Kube) Account(env *cli.Env) string {
	raw, err := k.rules(env).Load()
	if err != nil {
		return "the kubeconfig"
	}
	name := cmp.Or(k.Context, raw.CurrentContext)
	c := raw.Contexts[name]
	if c == nil {
		return "the pod's own account"
	}
	text := fmt.Sprintf("kubeconfig %s, context %s", c.LocationOfOrigin, name)
	if c.AuthInfo != "" {
		text += ", user " + c.AuthInfo
	}
	return text
}

// noKubeconfig says where no kubeconfig was found. It is errNoCluster.
type noKubeconfig string

func (e noKubeconfig) Error() string        { return string(e) }
func (e noKubeconfig) Is(target error) bool { return target == ErrNoCluster }

// Patience is how long a verb waits for a cluster, all in all.
const Patience = time.Minute

// Ask has a verb ask the API server for objects of any kind, for as long as it has patience.
func (k *Kube) Ask(ctx context.Context, env *cli.Env, do func(context.Context, dynamic.Interface) error) error {
	cfg, _, err := k.Config(env)
	if err != nil {
		return err
	}
	cfg.QPS = -1 // the API server's priority and fairness is limit enough
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return cli.WithCode(cli.ExitConfig, err)
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	return do(ctx, client)
}

// Unread is an error of a verb that only reads a cluster, with what the user can do about it.
func Unread(err error) error {
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

// ErrNoCluster is why a cluster cannot be reached that nothing leads to.
var ErrNoCluster = errors.New("must be given outside of a cluster, was not")
