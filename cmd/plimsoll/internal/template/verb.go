package template

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/pricing"
)

// New returns the command.
func New(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "template",
		Short: "Make the template that machines are cloned from",
	}
	cmd.AddCommand(newTemplateBuildCommand(env), newTemplateUploadCommand(env))
	return cli.VerbsOnly(cmd)
}

const templateBuildLong = `Build the image of a Debian system that can become a node of RKE2, k3s or a kubeadm cluster: kernel, cloud-init,
qemu-guest-agent, sshd, and what a kubelet and network plugins need; for kubeadm also containerd. Kubernetes itself is
installed at the first boot ('install: {from: script}' of a pool), or comes from --package and --source.

It runs on Debian 12, Ubuntu 24.04 or later, on amd64, and needs the packages mmdebstrap, e2fsprogs, qemu-utils,
debian-archive-keyring and, without root, uidmap. An interrupted build continues with the packages in --cache. An image
of the same recipe is not built again; --anew builds it with today's packages.`

// templateBuild is what the build verb is asked.
type templateBuild struct {
	recipe     Recipe
	disk       pricing.Bytes
	out, cache string
	anew, log  bool
	format     cli.Output
}

func newTemplateBuildCommand(env *cli.Env) *cobra.Command {
	var ask templateBuild
	cmd := &cobra.Command{
		Use:   "build --join KIND",
		Short: "Build an image of Debian packages, without root",
		Long:  templateBuildLong,
		Example: "  plimsoll template build --join rke2\n" +
			"  plimsoll template build --join kubeadm --package kubelet --package kubeadm \\\n" +
			"    --source 'deb [signed-by=/usr/share/keyrings/kubernetes.gpg] https://pkgs.k8s.io/core:/stable:/v1.34/deb/ /'",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.RequireFlags(cmd, "join"); err != nil {
				return err
			}
			return ask.answer(cmd.Context(), env)
		},
	}
	f := cmd.Flags()
	f.StringVar(&ask.recipe.Kind, "join", "", "the `kind` of cluster: "+strings.Join(Kinds, ", "))
	f.StringVar(&ask.recipe.Suite, "suite", "trixie", "the `release` of Debian")
	f.StringVar(&ask.recipe.Mirror, "mirror", "http://deb.debian.org/debian", "the `URL` of Debian's archive")
	f.StringVar(&ask.recipe.Updates, "security-mirror", "http://deb.debian.org/debian-security", "the `URL` of the archive of security updates; empty for none")
	f.StringArrayVar(&ask.recipe.Extra, "package", nil, "a further `package`, NAME or NAME=VERSION")
	f.StringArrayVar(&ask.recipe.Sources, "source", nil, "a further `line` of sources.list")
	cli.AddFlag(cmd, &ask.disk, cli.Positive(pricing.ParseBytes), "disk", "size", "4GiB", "the template's disk, in whole GiB; a machine's grows to what its pool says")
	f.StringVar(&ask.out, "out", ".", "the `folder` for the image")
	f.StringVar(&ask.cache, "cache", "", "the `folder` for packages (default: plimsoll/packages in the user's cache)")
	f.BoolVar(&ask.recipe.Plain, "plain", false, "leave the system as its packages make it, which boots later")
	f.BoolVar(&ask.anew, "anew", false, "build even if an image of this recipe exists")
	f.BoolVarP(&ask.log, "verbose", "v", false, "print the output of the programs")
	cli.AddOutput(cmd, &ask.format)
	return cmd
}

func (ask *templateBuild) answer(ctx context.Context, env *cli.Env) error {
	ask.recipe.GiB = int(ask.disk / pricing.GiB)
	if ask.disk%pricing.GiB != 0 {
		return cli.WithCode(cli.ExitUsage, fmt.Errorf("--disk: must be whole GiB, was %s", ask.disk))
	}
	if err := ask.recipe.Validate(); err != nil {
		return cli.WithCode(cli.ExitUsage, err)
	}
	if ask.cache == "" {
		home, err := os.UserCacheDir()
		if err != nil {
			return cli.WithHint("give --cache", cli.WithCode(cli.ExitConfig, err))
		}
		ask.cache = filepath.Join(home, "plimsoll", "packages")
	}
	b := &Builder{Cache: ask.cache, Now: env.Now, Root: os.Geteuid() == 0, Log: io.Discard, Say: func(s string) { fmt.Fprintln(env.Stderr, s) }}
	if ask.log {
		b.Log = env.Stderr
	}
	image, err := b.Build(ctx, &ask.recipe, ask.out, ask.anew)
	if missing, ok := errors.AsType[*MissingError](err); ok {
		return cli.WithHint(missing.Advice(), cli.WithCode(cli.ExitConfig, err))
	}
	if err != nil {
		return cli.WithHint("--verbose prints all that the programs print", err)
	}
	return ask.format.Print(env.Stdout, image, func(w io.Writer) { builtTable(w, image) })
}

// builtTable says what was built, and what comes next.
func builtTable(w io.Writer, image *Image) {
	how := fmt.Sprintf("built; %d MiB of packages fetched, %d MiB from the cache", image.Fetched>>20, image.Kept>>20)
	if image.AtOnce {
		how = "it is there already; --anew builds it with the packages of today"
	}
	fmt.Fprintf(w, "%s: %d MiB, %s\nsha256 %s\nNext: plimsoll template upload --image %s --endpoint URL --token-file FILE --storage STORAGE\n",
		image.File, image.Size>>20, how, image.SHA256, image.File)
}
