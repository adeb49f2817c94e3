package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// readSiteWithPools reads a configuration file without pools, and the VMPools of a file of
// manifests in their place.
func readSiteWithPools(env *cli.Env, file, manifests string, offline bool) (*siteFile, error) {
	site, err := readFor(env, file, &siteFile{parts: []string{partProvider}, examining: true, offline: offline})
	if err != nil {
		return nil, err
	}
	site.Pools, err = poolsBeside(env, site, file, manifests)
	return site, err
}

// addPools gives a command the flag that names a file of VMPools.
func addPools(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVar(into, "pools", "", "a `file` of manifests whose VMPools are the pools, where the configuration file has none")
}

// poolsBeside reads the VMPools of manifests, beside a configuration file that must have none.
func poolsBeside(env *cli.Env, site *siteFile, file, manifests string) ([]settings.Pool, error) {
	if len(site.Pools) > 0 {
		return nil, cli.Misconfigured(file, pricing.NewFault("pools", fmt.Sprintf("must be omitted beside --pools, was %d of them", len(site.Pools))))
	}
	return resources.ReadPools(env, manifests)
}
