package connect

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// Flags are how a verb reaches Proxmox VE before there is a configuration file.
type Flags struct {
	Endpoints, Fingerprints []string
	TokenFile, CAFile       string
}

// Add gives a command the flags.
func (a *Flags) Add(cmd *cobra.Command, tokenUsage string) {
	f := cmd.Flags()
	f.StringSliceVar(&a.Endpoints, "endpoint", nil, "hosts of the Proxmox VE cluster, `https://HOST:8006`")
	f.StringVar(&a.TokenFile, "token-file", "", tokenUsage)
	f.StringSliceVar(&a.Fingerprints, "fingerprint", nil, "the SHA-256 `fingerprints` of the hosts' certificates, as pvenode cert info shows them")
	f.StringVar(&a.CAFile, "ca-file", "", "a `file` with the authority of the hosts' certificates, in place of fingerprints")
}

// Authority returns the certificates of the authority that is named, or nil.
func (a *Flags) Authority(env *cli.Env) ([]byte, error) {
	if a.CAFile == "" {
		return nil, nil
	}
	ca, err := env.ReadFile(a.CAFile)
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("--ca-file: %w", err))
	}
	if err := CheckCertificates(ca); err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("--ca-file: must hold certificates in PEM, but %s %w", a.CAFile, err))
	}
	return ca, nil
}

// Connect returns a client of a cluster that answers. A timeout of 0 is the client's own.
func (a *Flags) Connect(ctx context.Context, env *cli.Env, timeout time.Duration) (*pveapi.Client, error) {
	token := newTokenFile(env, a.TokenFile)
	if _, err := token.read(); err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("--token-file: %w", err))
	}
	c := pveapi.Connection{
		Endpoints: a.Endpoints, Token: token.read, Fingerprint: strings.Join(a.Fingerprints, ","), Now: env.Now, Timeout: timeout,
	}
	var err error
	if c.CA, err = a.Authority(env); err != nil {
		return nil, err
	}
	client, err := pveapi.Connect(c)
	if err != nil {
		return nil, cli.Misused("%s", asFlags.Replace("\n" + err.Error())[1:])
	}
	if _, err = client.Version(ctx); err == nil {
		return client, nil
	}
	client.Close()
	switch {
	case pveapi.Is(err, pveapi.Certificate):
		return nil, untrusted(ctx, a.Endpoints[0], err)
	case pveapi.Is(err, pveapi.Unauthorized):
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("--token-file: must hold a token that Proxmox VE accepts, was another: %w", err))
	}
	return nil, cli.WithCode(cli.ExitUnreachable, err)
}

// asFlags replaces the keys of a connection, each at the beginning of a line, by the flags.
var asFlags = strings.NewReplacer("\nendpoints[", "\n--endpoint[", "\nfingerprint:", "\n--fingerprint:")

// untrusted says which fingerprint a host shows. The token was not sent to it.
func untrusted(ctx context.Context, endpoint string, err error) error {
	shown, ok := pveapi.ShownFingerprint(err)
	if !ok {
		certificate, failed := pveapi.CertificateOf(ctx, endpoint)
		if failed != nil {
			return cli.WithCode(cli.ExitUnreachable, err)
		}
		shown = pveapi.FingerprintOf(certificate)
	}
	return cli.WithHint("compare it with what 'pvenode cert info' shows on that host, and give --fingerprint "+shown,
		cli.WithCode(cli.ExitConfig, fmt.Errorf("--fingerprint: must be that of a host's certificate, which shows %s", shown)))
}
