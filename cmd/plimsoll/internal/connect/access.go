// Package connect is how verbs reach Proxmox VE, with a token and a certificate authority in files
// that a configuration or flags name, and Kubernetes, with a kubeconfig.
package connect

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// Access is how a configuration file says that Proxmox VE is reached.
type Access struct {
	Env          *cli.Env
	Endpoints    []string
	Fingerprints []string
	Insecure     bool
	// TokenFile and CAFile are names of files; empty if the configuration has none.
	TokenFile, CAFile string

	token *tokenFile
	ca    []byte
}

// Read reads the files, and returns what is wrong with each.
func (a *Access) Read() error { return errors.Join(a.readToken(), a.readCA()) }

func (a *Access) readToken() error {
	if a.TokenFile == "" {
		return nil // the site says so
	}
	a.token = newTokenFile(a.Env, a.TokenFile)
	if _, err := a.token.read(); err != nil {
		made := ""
		if errors.Is(err, fs.ErrNotExist) {
			made = " (plimsoll pve setup prints what makes it: docs/tasks/connect-proxmox.md, step 3)"
		}
		return pricing.NewFault("tokenFile", err.Error()+made)
	}
	return nil
}

func (a *Access) readCA() error {
	if a.CAFile == "" {
		return nil
	}
	data, err := a.Env.ReadFile(a.CAFile)
	if err != nil {
		return pricing.NewFault("caFile", "must be a file that can be read: "+err.Error())
	}
	if err := CheckCertificates(data); err != nil {
		return pricing.NewFault("caFile", fmt.Sprintf("must hold certificates in PEM, but %s %s", a.CAFile, err))
	}
	a.ca = data
	return nil
}

// CheckCertificates wants nothing but certificates, and one at least.
func CheckCertificates(data []byte) error {
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

// Connection is how the API is called. What a person should know goes to stderr.
func (a *Access) Connection() pveapi.Connection {
	return pveapi.Connection{
		Endpoints: a.Endpoints, Token: a.token.read, CA: a.ca, Fingerprint: strings.Join(a.Fingerprints, ","), Insecure: a.Insecure,
		Now: a.Env.Now, Warn: func(text string) { fmt.Fprintln(a.Env.Stderr, "note:", text) },
	}
}
