package pveapi

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	connectTimeout = 5 * time.Second
	// idleTimeout is under the five seconds after which the server closes a connection that is
	// idle: a request that meets that moment is lost.
	idleTimeout = 4 * time.Second
)

type fingerprint [sha256.Size]byte

func (f fingerprint) String() string {
	parts := make([]string, len(f))
	for i, b := range f {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}

// parseFingerprints reads one fingerprint, or several separated by commas.
func parseFingerprints(text string) ([]fingerprint, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var all []fingerprint
	for part := range strings.SplitSeq(text, ",") {
		raw, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(part), ":", ""))
		if err != nil || len(raw) != sha256.Size {
			return nil, fmt.Errorf("must be the SHA-256 of a certificate, 64 hexadecimal digits with or without colons, was %q", part)
		}
		all = append(all, fingerprint(raw))
	}
	return all, nil
}

// certificateError is a certificate that is not trusted.
type certificateError struct {
	text  string
	shown fingerprint
	cause error
}

func (e *certificateError) Error() string { return e.text }
func (e *certificateError) Unwrap() error { return e.cause }

// ShownFingerprint is that of the certificate that was not trusted, if one was shown.
func ShownFingerprint(err error) (string, bool) {
	if ours, ok := errors.AsType[*certificateError](err); ok && ours.shown != (fingerprint{}) {
		return ours.shown.String(), true
	}
	if theirs, ok := errors.AsType[*tls.CertificateVerificationError](err); ok && len(theirs.UnverifiedCertificates) > 0 {
		return fingerprint(sha256.Sum256(theirs.UnverifiedCertificates[0].Raw)).String(), true
	}
	return "", false
}

// network returns the transport for a connection that has none of its own.
func network(c *Connection) *http.Transport {
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: connectTimeout,
		TLSClientConfig:     trust(c),
		// The server speaks HTTP/1.1 only, and its errors are in the status line, which HTTP/2
		// has not got.
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
		IdleConnTimeout:     idleTimeout,
		MaxIdleConnsPerHost: 8,
		DisableCompression:  true,
	}
}

// trust returns what certificates are accepted.
func trust(c *Connection) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	pins, _ := parseFingerprints(c.Fingerprint) // Validate has read them
	switch {
	case c.Insecure:
		config.InsecureSkipVerify = true
	case len(pins) > 0:
		// The pin is the whole proof: the certificate may be self-signed and of any name.
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return &certificateError{text: "no certificate was shown"}
			}
			shown := fingerprint(sha256.Sum256(state.PeerCertificates[0].Raw))
			if slices.Contains(pins, shown) {
				return nil
			}
			return &certificateError{text: "the certificate's fingerprint is " + shown.String() + ", which is not pinned", shown: shown}
		}
	case len(c.CA) > 0:
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(c.CA)
	}
	return config
}

// isCertificate reports whether a connection failed for its certificate.
func isCertificate(err error) bool {
	var ours *certificateError
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &ours) || errors.As(err, &verification) || errors.As(err, &authority) ||
		errors.As(err, &name) || errors.As(err, &invalid)
}

// CertificateOf asks an endpoint for its certificate, and says nothing to it.
func CertificateOf(ctx context.Context, endpoint string) (*x509.Certificate, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: connectTimeout}, Config: &tls.Config{InsecureSkipVerify: true, ServerName: u.Hostname()}}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	shown := conn.(*tls.Conn).ConnectionState().PeerCertificates
	if len(shown) == 0 {
		return nil, errors.New("no certificate was shown")
	}
	return shown[0], nil
}

// FingerprintOf is the fingerprint of a certificate, as hosts show it.
func FingerprintOf(c *x509.Certificate) string { return fingerprint(sha256.Sum256(c.Raw)).String() }

// CheckFingerprints reports what is wrong with a fingerprint, or with several separated by commas.
func CheckFingerprints(text string) error {
	_, err := parseFingerprints(text)
	return err
}
