package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
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
	token  *tokenFile
	ca     []byte
	// parts are those that are to run; nil for the verbs that only look at the site.
	parts []string
	// planning takes what of it there is, for the verb that only looks at a cluster.
	planning bool
	// examining takes it for any parts that may run, for the verb that looks whether they could.
	examining bool
	// reach is how a verb that only looks reaches the cluster; nil is as run does.
	reach *kubeAccess
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
		return nil, cli.Misconfigured(file, err)
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
		return errors.Join(slices.Concat(faults, s.check(nil), s.checkCluster(), s.checkMeasuring())...)
	}
	for _, err := range flatten(s.Site.Validate()) {
		unread := slices.ContainsFunc(faults, func(f error) bool { return keyOf(f) == keyOf(err) })
		noPools := s.parts != nil && keyOf(err) == "pools" && len(s.Pools) == 0
		if !unread && !noPools && !s.later(err) {
			faults = append(faults, err)
		}
	}
	var pools []string
	for i := range s.Pools {
		pools = append(pools, s.Pools[i].Name)
	}
	faults = append(faults, s.check(pools)...)
	faults = slices.Concat(faults, s.checkCluster(), s.checkMeasuring())
	if !s.offline {
		faults = append(faults, s.readToken(), s.readCA()) // nil is no fault
	}
	return errors.Join(faults...)
}

// joinFiles are the keys of a join profile that name files.
var joinFiles = regexp.MustCompile(`^pools\[\d+\]\.join\.(tokenFile|registriesFile|cloudConfigFile|userDataFile)$`)

// later reports whether a fault is about a file that need not be there yet.
func (s *siteFile) later(err error) bool {
	return s.offline && joinFiles.MatchString(keyOf(err))
}

// keyOf is the key at fault, if the error names one.
func keyOf(err error) string {
	var keyed interface{ Path() string }
	if errors.As(err, &keyed) {
		return keyed.Path()
	}
	return ""
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
		for _, err := range flatten(err) {
			key, text, _ := strings.Cut(err.Error(), ": ")
			if keyOf(err) == "" {
				text = "must be a file that can be read: " + text
			}
			faults = append(faults, pricing.NewFault(fmt.Sprintf("pools[%d].join.%s", i, key), text))
		}
	}
	return faults
}

// flatten takes a joined error apart.
func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return nil
}

// beside is the name of a file that the configuration names.
func (s *siteFile) beside(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.folder, name)
}

func (s *siteFile) readToken() error {
	if s.TokenFile == "" {
		return nil // the site says so
	}
	s.token = &tokenFile{env: s.env, name: s.beside(s.TokenFile)}
	if _, err := s.token.read(); err != nil {
		return pricing.NewFault("tokenFile", err.Error())
	}
	return nil
}

func (s *siteFile) readCA() error {
	if s.CAFile == "" {
		return nil
	}
	name := s.beside(s.CAFile)
	data, err := s.env.ReadFile(name)
	if err != nil {
		return pricing.NewFault("caFile", "must be a file that can be read: "+err.Error())
	}
	if err := checkCertificates(data); err != nil {
		return pricing.NewFault("caFile", fmt.Sprintf("must hold certificates in PEM, but %s %s", name, err))
	}
	s.ca = data
	return nil
}

// checkCertificates wants nothing but certificates, and one at least.
func checkCertificates(data []byte) error {
	count := 0
	for rest := data; ; count++ {
		var block *pem.Block
		switch block, rest = pem.Decode(rest); {
		case block == nil && count == 0:
			return fmt.Errorf("has none in its %d bytes", len(data))
		case block == nil:
			return nil
		case block.Type != "CERTIFICATE":
			return fmt.Errorf("has a %s in it", strings.ToLower(block.Type))
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("has one that cannot be read: %w", err)
		}
	}
}

// connection is how the site is reached. What a person should know goes to stderr.
func (s *siteFile) connection() pveapi.Connection {
	return pveapi.Connection{
		Endpoints: s.Endpoints, Token: s.token.read, CA: s.ca, Fingerprint: strings.Join(s.Fingerprints, ","), Insecure: s.Insecure,
		Now: s.env.Now, Warn: func(text string) { fmt.Fprintln(s.env.Stderr, "note:", text) },
	}
}

// tokenFile is a file with an API token in it, which is read again when it has changed.
type tokenFile struct {
	env  *cli.Env
	name string

	mu    sync.Mutex
	token string
	mod   time.Time
	size  int64
	at    time.Time // it was read
}

// granularity is more than the time within which a file may change twice and look unchanged.
const granularity = 2 * time.Second

// read returns the token. Errors name file and rule, and nothing of what is in the file.
func (t *tokenFile) read() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := t.env.Stat(t.name)
	if err != nil {
		return "", fmt.Errorf("must be a file that can be read: %w", err)
	}
	if t.token != "" && info.ModTime().Equal(t.mod) && info.Size() == t.size && t.at.Sub(t.mod) > granularity {
		return t.token, nil
	}
	data, err := t.env.ReadFile(t.name)
	if err != nil {
		return "", fmt.Errorf("must be a file that can be read: %w", err)
	}
	token, err := parseTokenFile(data)
	if err != nil {
		return "", fmt.Errorf("%s %w", t.name, err)
	}
	t.token, t.mod, t.size, t.at = token, info.ModTime(), info.Size(), t.env.Now()
	return token, nil
}

// trimmed is the text of a file without blanks around it, and without the mark that some editors
// begin a file with.
func trimmed(data []byte) string {
	return string(bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff"))))
}

// parseTokenFile reads a file of one line.
func parseTokenFile(data []byte) (string, error) {
	text := trimmed(data)
	lines := len(strings.Split(text, "\n"))
	switch {
	case text == "":
		return "", errors.New("must hold a token, was empty")
	case lines > 1:
		return "", fmt.Errorf("must hold a token on one line, and has %d lines", lines)
	}
	if _, err := pveapi.ParseToken(text); err != nil {
		return "", err
	}
	return text, nil
}
