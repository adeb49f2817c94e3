package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/proxmox/doctor"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

func newPVECommand(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pve",
		Short: "Prepare a Proxmox VE cluster",
	}
	cmd.AddCommand(newPVESetupCommand(env))
	return cli.VerbsOnly(cmd)
}

// pveSetup is what the setup verb is asked.
type pveSetup struct {
	file     string
	pools    string // a file of VMPools
	release  doctor.Release
	account  pveapi.Account
	storages []string
	zones    map[string]string // by VNet
	format   cli.Output
}

// pveSetupAnswer is what gives Plimsoll its rights.
type pveSetupAnswer struct {
	Release doctor.Release `json:"release"`
	User    string         `json:"user"`
	Token   string         `json:"token"`
	Blocks  []doctor.Block `json:"blocks"`
	Needs   []doctor.Need  `json:"needs"`
	owner   string
	file    string
}

func newPVESetupCommand(env *cli.Env) *cobra.Command {
	var ask pveSetup
	cmd := &cobra.Command{
		Use:   "setup --config FILE",
		Short: "Print the commands that grant Plimsoll its rights, and no others",
		Long: "Print the commands that grant Plimsoll the rights that its configuration needs, and no others. Read them, and run them\n" +
			"as root on one host of the Proxmox VE cluster. Run them again after a change of the configuration. The command itself\n" +
			"calls no cluster and changes nothing.\n\n" +
			"Rights depend on the pools: those of the configuration file, or the VMPools of the file that --pools names.",
		Example: "  plimsoll pve setup --config site.yaml --storage local-lvm\n" +
			"  plimsoll pve setup --config plimsoll.yaml --pools vmpools.yaml --storage local-lvm\n" +
			"  plimsoll pve setup --config site.yaml --storage local-lvm --zone tenants=vlans\n" +
			"  plimsoll pve setup --config site.yaml --release 8 --user autoscaler@pve --token prod",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.RequireFlags(cmd, "config"); err != nil {
				return err
			}
			answer, err := ask.answer(env, cmd)
			if err != nil {
				return err
			}
			return ask.format.Print(env.Stdout, answer, answer.table)
		},
	}
	addConfig(cmd, &ask.file)
	addPools(cmd, &ask.pools)
	cli.AddFlag(cmd, &ask.release, doctor.ParseRelease, "release", "number", "9", "the release of Proxmox VE, 8 or 9: rights differ between them")
	cmd.Flags().StringVar(&ask.account.User, "user", "plimsoll@pve", "the `user@realm` that the token belongs to")
	cmd.Flags().StringVar(&ask.account.Token, "token", "plimsoll", "the `name` of the user's token")
	cmd.Flags().StringSliceVar(&ask.storages, "storage", nil, "the `storages` that the templates' disks lie on; linked clones lie there too")
	cmd.Flags().StringToStringVar(&ask.zones, "zone", nil, "the SDN zone that a pool's network belongs to if it is a VNet, as `VNET=ZONE`")
	cli.AddOutput(cmd, &ask.format)
	return cmd
}

func (ask *pveSetup) answer(env *cli.Env, cmd *cobra.Command) (*pveSetupAnswer, error) {
	if err := doctor.CheckAccount(ask.account); err != nil {
		return nil, cli.SeeHelp(cmd, cli.Misused("--%s", strings.ReplaceAll(err.Error(), "\n", "\n--")))
	}
	site, err := ask.site(env)
	if err != nil {
		return nil, err
	}
	parts, err := ask.parts(&site.Site)
	if err != nil {
		return nil, cli.SeeHelp(cmd, err)
	}
	if err := ask.checkZones(&site.Site); err != nil {
		return nil, cli.SeeHelp(cmd, err)
	}
	needs := doctor.Needs(&site.Site, ask.release, parts, ask.zones)
	return &pveSetupAnswer{
		Release: ask.release, User: ask.account.User, Token: ask.account.Token,
		Blocks: doctor.Setup(&site.Site, needs, ask.account), Needs: needs, owner: site.Owner, file: ask.file,
	}, nil
}

// site is what the rights are for.
func (ask *pveSetup) site(env *cli.Env) (*siteFile, error) {
	if ask.pools != "" {
		return readSiteWithPools(env, ask.file, ask.pools, true)
	}
	site, err := readSite(env, ask.file, true)
	if err != nil && strings.Contains(err.Error(), " pools: must be set") {
		return nil, fmt.Errorf("%w\n  Where pools are VMPools of a cluster, --pools names the file with their manifests", err)
	}
	return site, err
}

// parts are what the flags say of the templates. Of those that linked clones are made of, the
// storage must be known: without it, the rights would not do.
func (ask *pveSetup) parts(site *settings.Site) (map[int]pveapi.Parts, error) {
	parts, named := map[int]pveapi.Parts{}, []string{}
	for i, p := range site.Complete().Pools {
		if p.Storage != "" {
			named = append(named, p.Storage)
			continue
		}
		ids := p.Template.IDs()
		if len(ask.storages) == 0 {
			return nil, cli.Misused("--storage: must be given, for pools[%d] (%s) names no storage of its own: its machines' disks lie where those of template %d do, see qm config %d",
				i, p.Name, ids[0], ids[0])
		}
		for _, id := range ids {
			parts[id] = pveapi.Parts{Storages: slices.Clone(ask.storages)}
		}
	}
	if len(ask.storages) > 0 && len(parts) == 0 {
		slices.Sort(named)
		return nil, cli.Misused("--storage: must be omitted where every pool names its own storage (%s), was %s", strings.Join(slices.Compact(named), ", "), strings.Join(ask.storages, ", "))
	}
	return parts, nil
}

// checkZones refuses a zone of a network that no pool is on: rights on another would be missed.
func (ask *pveSetup) checkZones(site *settings.Site) error {
	var networks []string
	for _, p := range site.Complete().Pools {
		networks = append(networks, p.Bridge)
	}
	slices.Sort(networks)
	for _, vnet := range slices.Sorted(maps.Keys(ask.zones)) {
		if !slices.Contains(networks, vnet) {
			return cli.Misused("--zone: must be of a bridge that a pool names (%s), was %s=%s", strings.Join(slices.Compact(networks), ", "), vnet, ask.zones[vnet])
		}
		if !doctor.SDNName.MatchString(ask.zones[vnet]) {
			return cli.Misused("--zone: must name a zone of 2 to 8 letters and digits, a letter first, was %s=%s: pvesh get /cluster/sdn/vnets shows it", vnet, ask.zones[vnet])
		}
	}
	return nil
}

// table prints a script.
func (a *pveSetupAnswer) table(w io.Writer) {
	fmt.Fprintf(w, "# Rights for Plimsoll (%s) on Proxmox VE %d, as %s asks for them.\n", a.owner, a.Release, a.file)
	fmt.Fprintln(w, "# Run this as root on one host of the cluster. Nothing has been changed yet.")
	for _, b := range a.Blocks {
		fmt.Fprintln(w)
		for _, line := range b.Why {
			fmt.Fprintln(w, "#", line)
		}
		for _, c := range b.Commands {
			fmt.Fprintln(w, c)
		}
	}
}
