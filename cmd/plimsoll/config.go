package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// siteFile is the configuration file: a cluster, how it is reached, and the pools of machines
// there. Files that it names are looked for beside it.
type siteFile struct {
	settings.Site
	service
	clusterSettings
	measuring
	folder string
	env    *cli.Env
	access connect.Access
	// parts are those that are to run; nil for the verbs that only look at the site.
	parts []string
	// planning takes what of it there is, for the verb that only looks at a cluster.
	planning bool
	// examining takes it for any parts that may run, for the verb that looks whether they could.
	examining bool
	// reach is how a verb that only looks reaches the cluster; nil is as run does.
	reach *connect.Kube
	// offline leaves the files that it names alone, for verbs that make no call.
	offline bool
}

// addConfig gives a command the flag that names the configuration file.
func addConfig(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVarP(into, "config", "c", "", "the configuration `file`")
}

// readSite reads the configuration file and what it names. Every fault is said at once.
func readSite(env *cli.Env, file string, offline bool) (*siteFile, error) {
	return readFor(env, file, &siteFile{offline: offline})
}

// readFor reads the configuration file for what is to be done by it.
func readFor(env *cli.Env, file string, s *siteFile) (*siteFile, error) {
	data, err := env.ReadFile(file)
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("--config: %w", err))
	}
	s.folder, s.env = filepath.Dir(file), env
	if err := strict.Unmarshal(data, s); err != nil {
		err = cli.Misconfigured(file, err)
		if s.parts != nil && !s.examining && strings.Contains(err.Error(), " owner: must be set") {
			err = cli.WithHint("owner, endpoints and tokenFile are for nodescaler and provider: --components podscaler alone needs none of them", err)
		}
		return nil, err
	}
	return s, nil
}

// Validate adds what is wrong with the files that are named to what is wrong with the site.
func (s *siteFile) Validate() error {
	if s.planning {
		return nil
	}
	faults := s.readJoins() // before the site looks at what has been read
	if !s.makesMachines() && s.Owner == "" && len(s.Endpoints) == 0 && s.TokenFile == "" {
		return errors.Join(slices.Concat(faults, s.check(nil), s.checkCluster(), s.Nodes.check(), s.checkMeasuring())...)
	}
	for _, err := range cli.Parts(s.Site.Validate()) {
		unread := slices.ContainsFunc(faults, func(f error) bool { return cli.KeyOf(f) == cli.KeyOf(err) })
		noPools := s.parts != nil && cli.KeyOf(err) == "pools" && len(s.Pools) == 0
		if !unread && !noPools && !s.later(err) {
			faults = append(faults, err)
		}
	}
	var pools []string
	for i := range s.Pools {
		pools = append(pools, s.Pools[i].Name)
	}
	faults = append(faults, s.check(pools)...)
	faults = slices.Concat(faults, s.checkCluster(), s.Nodes.check(), s.checkMeasuring())
	if !s.offline {
		faults = append(faults, cli.Parts(s.readAccess())...)
	}
	return errors.Join(faults...)
}

// joinFiles are the keys of a join profile that name files.
var joinFiles = regexp.MustCompile(`^pools\[\d+\]\.join\.(tokenFile|registriesFile|cloudConfigFile|userDataFile)$`)

// later reports whether a fault is about a file that need not be there yet.
func (s *siteFile) later(err error) bool {
	return s.offline && joinFiles.MatchString(cli.KeyOf(err))
}

// readJoins reads the files that join profiles name.
func (s *siteFile) readJoins() []error {
	var faults []error
	for i := range s.Pools {
		join := &s.Pools[i].Join
		if s.offline {
			continue
		}
		err := join.Read(func(name string) ([]byte, error) { return s.env.ReadFile(s.beside(name)) })
		for _, err := range cli.Parts(err) {
			key, text, _ := strings.Cut(err.Error(), ": ")
			if cli.KeyOf(err) == "" {
				text = "must be a file that can be read: " + text
			}
			faults = append(faults, pricing.NewFault(fmt.Sprintf("pools[%d].join.%s", i, key), text))
		}
	}
	return faults
}

// readAccess reads the files by which Proxmox VE is reached.
func (s *siteFile) readAccess() error {
	s.access = connect.Access{
		Env: s.env, Endpoints: s.Endpoints, Fingerprints: s.Fingerprints, Insecure: s.Insecure,
		TokenFile: s.ifNamed(s.TokenFile), CAFile: s.ifNamed(s.CAFile),
	}
	return s.access.Read()
}

// ifNamed is the name of a file that need not be there.
func (s *siteFile) ifNamed(name string) string {
	if name == "" {
		return ""
	}
	return s.beside(name)
}

// beside is the name of a file that the configuration names.
func (s *siteFile) beside(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.folder, name)
}

// kubeBeside is the access with the configuration file's kubeconfig, where no flag names one.
func (s *siteFile) kubeBeside(k connect.Kube) *connect.Kube {
	if k.File == "" && s.Kubeconfig != "" {
		k.File = s.beside(s.Kubeconfig)
	}
	return &k
}
