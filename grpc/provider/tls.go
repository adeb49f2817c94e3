package provider

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// TLS is the certificate of the server, the authority that its clients' are signed by, and the
// names of those clients. An authority alone proves nothing: that of a cluster signs every
// workload's certificate. The texts, in PEM, are asked for at every connection, so that rotated
// files serve without a restart; what cannot be read or does not fit together leaves the last good
// ones in force.
type TLS struct {
	Certificate, Key, ClientCA func() ([]byte, error)
	// Clients are the names of those who may order and destroy machines. A certificate bears a name
	// that is exactly one of its DNS names or URIs, or its common name.
	Clients []string
	// Warn takes texts that are not taken, once, and clients that are refused, one a minute.
	Warn func(error)

	mu     sync.Mutex
	texts  [3]string
	good   *configs
	fault  string    // that was last warned of
	warned time.Time // of a client that was refused
}

// configs are how clients are let in: those that must show who they are, and those that cannot.
type configs struct{ mutual, open *tls.Config }

// check is what is wrong with the settings and the texts as they are now.
func (t *TLS) check() error {
	if len(t.Clients) == 0 {
		return errors.New("tls.clients: must name whose certificates may order and destroy machines, such as [cluster-autoscaler]" +
			" (exactly a DNS name, URI or common name of the client's certificate), was empty")
	}
	_, err := t.config()
	return err
}

// config is the configuration by the texts as they are now.
func (t *TLS) config() (*configs, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fresh, texts, err := t.read()
	switch {
	case err == nil:
		t.good, t.texts, t.fault = fresh, texts, ""
	case t.good == nil:
		return nil, err
	case t.Warn != nil && t.fault != err.Error():
		t.fault = err.Error()
		t.Warn(fmt.Errorf("the last certificates stay in force: %w", err))
	}
	return t.good, nil
}

// read makes a configuration of the texts, if they are others than before.
func (t *TLS) read() (*configs, [3]string, error) {
	var texts [3]string
	keys := [3]string{"tls.certificate", "tls.key", "tls.clientCA"}
	for i, from := range []func() ([]byte, error){t.Certificate, t.Key, t.ClientCA} {
		text, err := from()
		if err != nil {
			return nil, texts, fmt.Errorf("%s: must be a file that can be read: %w", keys[i], err)
		}
		texts[i] = string(text)
	}
	if texts == t.texts && t.good != nil {
		return t.good, texts, nil
	}
	if _, err := certificatesOf(texts[0]); err != nil {
		return nil, texts, fmt.Errorf("%s: %w", keys[0], err)
	}
	pair, err := tls.X509KeyPair([]byte(texts[0]), []byte(texts[1]))
	if err != nil {
		return nil, texts, fmt.Errorf("%s: must be the private key of %s in PEM, was not: %w", keys[1], keys[0], err)
	}
	authorities, err := certificatesOf(texts[2])
	if err != nil {
		return nil, texts, fmt.Errorf("%s: %w", keys[2], err)
	}
	open := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{pair},
		// A resumed session would go on with a client whose certificate has expired since.
		SessionTicketsDisabled: true,
	}
	mutual := open.Clone()
	mutual.ClientAuth, mutual.ClientCAs, mutual.VerifyConnection = tls.RequireAndVerifyClientCert, x509.NewCertPool(), t.admit
	for _, c := range authorities {
		mutual.ClientCAs.AddCert(c)
	}
	return &configs{mutual, open}, texts, nil
}

// admit ends the handshake of a client that is not listed: nothing that it sends is read as a
// message.
func (t *TLS) admit(c tls.ConnectionState) error {
	if len(c.VerifiedChains) == 0 {
		return errors.New("client certificate: must be shown, none was")
	}
	err := admitted(c.VerifiedChains[0][0], t.Clients)
	if err != nil {
		t.refused(err)
	}
	return err
}

// refused warns of a client, but not so often that whoever keeps on trying fills the log.
func (t *TLS) refused(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.Warn != nil && now.Sub(t.warned) >= time.Minute {
		t.warned = now
		t.Warn(fmt.Errorf("a client is refused: %w", err))
	}
}

// admitted is why a certificate is not of a listed client, or nil. One without extended key usages
// would be good for anything by X.509, and is what a workload gets that asked for none.
func admitted(c *x509.Certificate, clients []string) error {
	names := append(slices.Clone(c.DNSNames), c.Subject.CommonName)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "" })
	if !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return fmt.Errorf("client certificate of %q: must have the extended key usage client auth, had not", names)
	}
	if !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(clients, n) }) {
		return fmt.Errorf("client certificate: must bear one of the names in tls.clients, which are %q, was of %q", clients, names)
	}
	return nil
}

// certificatesOf reads a text that holds certificates and nothing else. What a write has left half
// is refused, though its first part could be used.
func certificatesOf(text string) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	block, rest := pem.Decode([]byte(text))
	for ; block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("must hold certificates in PEM and nothing else, held a %s", strings.ToLower(block.Type))
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("must hold certificates in PEM, number %d was none: %w", len(all)+1, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 || bytes.Contains(rest, []byte("-----BEGIN")) {
		return nil, fmt.Errorf("must hold certificates in PEM, after %d of them %d bytes were none", len(all), len(rest))
	}
	return all, nil
}
