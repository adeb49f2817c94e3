package pveapi

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/luthermonson/go-proxmox"
)

// Connection is how one cluster is reached.
type Connection struct {
	// Endpoints are hosts of ONE cluster, as https://host:8006. All serve the whole API; the first
	// that is well is asked.
	Endpoints []string
	// Token returns user@realm!id=secret. It is asked before every request, so that a token that
	// was replaced is picked up.
	Token func() (string, error)

	// CA is the PEM of the authority that signs the hosts' certificates, in place of the system's.
	CA []byte
	// Fingerprint is the SHA-256 of the host's certificate, or of one for each host, separated by
	// commas. It is in place of an authority.
	Fingerprint string
	// Insecure accepts any certificate, and is reported through Warn.
	Insecure bool

	// Transport is in place of the network, for tests and virtual worlds; the endpoint is the
	// request's host. A request that never left must fail with a *net.OpError whose Op is dial:
	// after any other error it counts as sent.
	Transport http.RoundTripper
	// Now is the clock for what is left alone for a while; nil is time.Now.
	Now func() time.Time
	// Wait lets time pass between two looks at a task; nil really waits.
	Wait func(ctx context.Context, d time.Duration) error
	// Warn is called with what a person should know; nil drops it.
	Warn func(text string)
	// Observer is called for every request that was tried; nil drops it. It is called from many
	// goroutines at a time.
	Observer func(Call)
	// Timeout is how long one request may take; 0 is 40 s, because the server itself gives up on
	// the daemon behind it after 30.
	Timeout time.Duration
}

// Call is one request that was tried at one endpoint.
type Call struct {
	Method, Path string // Path is the API's, without query
	Endpoint     string
	Status       int // 0 when no answer came
	Duration     time.Duration
	Err          error
}

// defaultTimeout is longer than the 30 s after which pveproxy answers 596 in place of a daemon
// that is busy: that answer says more than a connection that we break.
const defaultTimeout = 40 * time.Second

// Client speaks with one cluster. It may be used from many goroutines at a time.
type Client struct {
	lib  *proxmox.Client
	wire *wire
	wait func(ctx context.Context, d time.Duration) error
	now  func() time.Time
}

// Connect returns the client of a cluster. It makes no call.
func Connect(c Connection) (*Client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Wait == nil {
		c.Wait = sleep
	}
	if c.Warn == nil {
		c.Warn = func(string) {}
	}
	if c.Observer == nil {
		c.Observer = func(Call) {}
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Insecure {
		c.Warn("insecure: any certificate of " + strings.Join(c.Endpoints, ", ") +
			" is accepted, so anybody in between can read the token and give orders; set caFile or fingerprints")
	}
	w := newWire(&c)
	return &Client{
		lib: proxmox.NewClient(anyEndpoint+apiRoot,
			proxmox.WithHTTPClient(&http.Client{Transport: w}),
			proxmox.WithUserAgent(userAgent),
			proxmox.WithLogger(silence{})),
		wire: w, wait: c.Wait, now: c.Now,
	}, nil
}

// Close gives up the connections that are idle. The client may still be used.
func (c *Client) Close() { c.wire.close() }

// Now is the time by the connection's clock.
func (c *Client) Now() time.Time { return c.now() }

// EndpointStatus is how one endpoint is.
type EndpointStatus struct {
	Endpoint string
	Version  Version // if there is no Err
	// An *Error: Certificate for one that is not trusted, with the fingerprint it shows.
	Err error
}

// Probe asks each endpoint for its version, those that are left alone too.
func (c *Client) Probe(ctx context.Context) []EndpointStatus {
	all := make([]EndpointStatus, len(c.wire.hosts.all))
	for i, p := range c.wire.hosts.all {
		s := EndpointStatus{Endpoint: p.url}
		data, failed := c.wire.try(ctx, &question{method: http.MethodGet, path: "/version", target: apiRoot + "/version"}, p)
		if failed != nil {
			s.Err = failed
		} else {
			var answer fields
			_ = json.Unmarshal(data, &answer) // what is of another kind names no version
			s.Version, s.Err = version(answer)
		}
		all[i] = s
	}
	return all
}

// String names the cluster's endpoints, and keeps what else is inside out of logs.
func (c *Client) String() string { return "proxmox " + strings.Join(c.wire.hosts.urls(), ",") }

// GoString is String.
func (c *Client) GoString() string { return c.String() }

// String names the endpoints and nothing else.
func (c Connection) String() string { return "proxmox " + strings.Join(c.Endpoints, ",") }

// GoString is String.
func (c Connection) GoString() string { return c.String() }

// Validate finds every fault of a connection without making a call. It asks for the token, which
// is named in no error.
func (c *Connection) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	if len(c.Endpoints) == 0 {
		fault("endpoints: must name one host at least, was empty")
	}
	for i, e := range c.Endpoints {
		if err := ValidEndpoint(e); err != nil {
			fault("endpoints[%d]: %w", i, err)
		} else if slices.IndexFunc(c.Endpoints, func(o string) bool { return SameEndpoint(o, e) }) < i {
			fault("endpoints[%d]: must be named once, was %q again", i, e)
		}
	}
	if c.Token == nil {
		fault("token: must be set")
	} else if token, err := c.Token(); err != nil {
		fault("token: %w", err)
	} else if _, err := tokenID(token); err != nil {
		fault("token: %w", err)
	}
	if len(c.CA) > 0 && !x509.NewCertPool().AppendCertsFromPEM(c.CA) {
		fault("ca: must be a certificate in PEM, and none was found in %d bytes", len(c.CA))
	}
	if _, err := parseFingerprints(c.Fingerprint); err != nil {
		fault("fingerprint: %w", err)
	}
	if len(c.CA) > 0 && c.Fingerprint != "" {
		fault("fingerprint: must not be set beside ca, which answers the same question in another way; was %q", c.Fingerprint)
	}
	if c.Insecure && (len(c.CA) > 0 || c.Fingerprint != "") {
		fault("insecure: must not be set beside ca or fingerprint, which it would leave unchecked; was true")
	}
	if c.Timeout < 0 {
		fault("timeout: must not be negative, was %s", c.Timeout)
	}
	return errors.Join(faults...)
}

// ValidEndpoint says what is wrong with an endpoint. One that may carry a password is not repeated.
func ValidEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || strings.Contains(endpoint, "@"):
		return errors.New("must be https://HOST:8006 and nothing else; what was given is not repeated here")
	case u.Scheme != "https":
		return fmt.Errorf("must begin with https://, was %q", endpoint)
	case !isHost(u.Hostname()):
		return fmt.Errorf("must name a host, was %q", endpoint)
	case !isPort(u.Port()):
		return fmt.Errorf("must end in a port, :8006 unless a proxy listens on another, was %q", endpoint)
	case (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("must end after the port, was %q", endpoint)
	}
	return nil
}

var hostName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.?$`)

func isPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// SameEndpoint reports whether two endpoints are written as one.
func SameEndpoint(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "/"), strings.TrimSuffix(b, "/"))
}

func isHost(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil || hostName.MatchString(name)
}

// sleep waits, or until the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// silence is go-proxmox's logger, which would print bodies, and with them passwords.
type silence struct{}

func (silence) Debugf(string, ...any) {}
func (silence) Errorf(string, ...any) {}
func (silence) Infof(string, ...any)  {}
func (silence) Warnf(string, ...any)  {}
