package template

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

const templateUploadLong = `Upload an image to Proxmox VE and make a template of it: CPU x86-64-v2-AES, virtio disk and network card, serial
console, guest agent, and a cloud-init drive. On local storage every host gets a template, with consecutive VMIDs. If
it is interrupted, run it again: it continues.

The token needs more rights than Plimsoll's own: Datastore.AllocateTemplate on the storage for images,
Datastore.AllocateSpace on the one for disks, VM.Allocate and VM.Config.* on /vms/VMID, SDN.Use on the bridge. A token
of root@pam without privilege separation has all of them. Remove it afterwards.`

// templateUpload is what the upload verb is asked.
type templateUpload struct {
	pve   connect.Flags
	image string
	hosts []string
	to    Upload
}

func newTemplateUploadCommand(env *cli.Env) *cobra.Command {
	var ask templateUpload
	cmd := &cobra.Command{
		Use:   "upload --image FILE --endpoint URL --token-file FILE --storage STORAGE",
		Short: "Make a template of an image on Proxmox VE",
		Long:  templateUploadLong,
		Example: "  pveum user token add root@pam template --privsep 0      # on a host; afterwards: pveum user token remove root@pam template\n" +
			"  plimsoll template upload --image plimsoll-rke2-trixie.qcow2 --endpoint https://pve1.example:8006 --token-file token --storage local-lvm",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.RequireFlags(cmd, "image", "endpoint", "token-file", "storage"); err != nil {
				return err
			}
			return ask.answer(cmd.Context(), env)
		},
	}
	ask.pve.Add(cmd, "a `file` with an API token that may make templates, user@realm!name=value")
	f := cmd.Flags()
	f.StringVar(&ask.image, "image", "", "the `file` that 'plimsoll template build' wrote")
	f.StringVar(&ask.to.Storage, "storage", "", "the `storage` of the template's disk")
	f.StringVar(&ask.to.Import, "import-storage", "", "the `storage` with content import where the image is put first (default: one that has it)")
	f.StringSliceVar(&ask.hosts, "host", nil, "the `hosts` that get a template (default: one for a shared storage, else all that have it)")
	f.IntVar(&ask.to.VMID, "vmid", 9000, "the `VMID` of the first template")
	f.StringVar(&ask.to.Name, "name", "", "the template's `name` (default: the image's)")
	f.StringVar(&ask.to.Bridge, "bridge", "vmbr0", "the `bridge` of its network card")
	f.StringVar(&ask.to.VLAN, "vlan", "", "the `tag` of its VLAN")
	f.StringVar(&ask.to.CPU, "cpu", "x86-64-v2-AES", "the `type` of CPU; host is the fastest where all hosts have the same")
	return cmd
}

func (ask *templateUpload) answer(ctx context.Context, env *cli.Env) error {
	image, err := Read(ask.image)
	if err != nil {
		return cli.WithHint("'plimsoll template build' makes an image", cli.WithCode(cli.ExitConfig, fmt.Errorf("--image: %w", err)))
	}
	if ask.to.Name == "" {
		ask.to.Name = image.Name
	}
	client, err := ask.pve.Connect(ctx, env, 0)
	if err != nil {
		return err
	}
	defer client.Close()
	slow, err := ask.pve.Connect(ctx, env, 2*time.Hour)
	if err != nil {
		return err
	}
	defer slow.Close()
	places, err := ask.places(ctx, client)
	if err != nil {
		return err
	}
	u := &Uploader{Client: client, Slow: slow, Say: func(s string) { fmt.Fprintln(env.Stderr, s) }}
	for _, to := range places {
		if err := u.Make(ctx, image, to); err != nil {
			return advised(err)
		}
		fmt.Fprintf(env.Stdout, "template %d (%s) on %s, disk on %s\n", to.VMID, to.Name, to.Host, to.Storage)
	}
	return advised(u.Listed(ctx, places))
}

// advised adds what the error of an answer advises.
func advised(err error) error {
	if e, ok := errors.AsType[*pveapi.Error](err); ok && e.Advice() != "" {
		return cli.WithHint(e.Advice(), cli.WithCode(cli.ExitFailed, err))
	}
	return err
}

// places are the templates that are to be: where, and with which VMID.
func (ask *templateUpload) places(ctx context.Context, client *pveapi.Client) ([]Upload, error) {
	status, err := client.ClusterStatus(ctx)
	if err != nil {
		return nil, cli.WithCode(cli.ExitUnreachable, err)
	}
	var all []Upload
	for _, n := range status.Nodes {
		if !n.Online || len(ask.hosts) > 0 && !slices.Contains(ask.hosts, n.Name) {
			continue
		}
		to, shared, err := ask.place(ctx, client, n.Name)
		if err != nil {
			return nil, err
		}
		if to == nil || shared && len(all) > 0 {
			continue
		}
		to.VMID = ask.to.VMID + len(all)
		all = append(all, *to)
	}
	for _, host := range ask.hosts {
		if !slices.ContainsFunc(status.Nodes, func(n pveapi.ClusterNode) bool { return n.Name == host && n.Online }) {
			return nil, cli.WithCode(cli.ExitUsage, fmt.Errorf("--host: must be a host that is online, was %q", host))
		}
	}
	if len(all) == 0 {
		return nil, cli.WithCode(cli.ExitUsage, fmt.Errorf("--storage: must be an active storage with content images, was %q", ask.to.Storage))
	}
	return all, nil
}

// place is where a host's template goes, and whether its storage is all hosts'. It is nil if the
// host does not have the storage.
func (ask *templateUpload) place(ctx context.Context, client *pveapi.Client, host string) (*Upload, bool, error) {
	stores, err := client.Storages(ctx, host)
	if err != nil {
		return nil, false, cli.WithCode(cli.ExitUnreachable, err)
	}
	to := ask.to
	to.Host, to.Import = host, ""
	found, shared := false, false
	for _, s := range stores {
		usable := s.Active && s.Enabled
		if s.Name == ask.to.Storage && usable && slices.Contains(s.Content, "images") {
			found, shared = true, s.Shared
		}
		named := ask.to.Import == "" && to.Import == "" || ask.to.Import == s.Name
		if named && usable && slices.Contains(s.Content, "import") {
			to.Import = s.Name
		}
	}
	if !found {
		return nil, false, nil
	}
	if to.Import == "" {
		return nil, false, cli.WithHint("on a host: "+pveapi.Shell("pvesm", "set", "local", "--content", withImport(stores)),
			cli.WithCode(cli.ExitConfig, fmt.Errorf("--import-storage: must be an active storage of %s with content import (Proxmox VE 8.4 or later), was %q", host, ask.to.Import)))
	}
	return &to, shared, nil
}

// withImport is the content of the storage local, with import.
func withImport(stores []pveapi.StorageStatus) string {
	for _, s := range stores {
		if s.Name == "local" {
			return strings.Join(append(slices.Clone(s.Content), "import"), ",")
		}
	}
	return "iso,vztmpl,backup,import"
}
