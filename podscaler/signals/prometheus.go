package signals

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// Credentials are what a server wants to see: a token, or a name and a password, and what TLS
// takes, in PEM. What it does not want stays empty.
type Credentials struct {
	Token, Username, Password string
	// CA are the authorities that may vouch for the server; empty are the system's.
	CA []byte
	// Cert and Key are shown to a server that asks who calls.
	Cert, Key []byte
	// ServerName is whom the server's certificate must be for; empty is the host of its address.
	ServerName string
}

// sameTLS reports whether connections that were made with one serve for the other.
func (c *Credentials) sameTLS(o *Credentials) bool {
	return bytes.Equal(c.CA, o.CA) && bytes.Equal(c.Cert, o.Cert) && bytes.Equal(c.Key, o.Key) && c.ServerName == o.ServerName
}

// endpoint is a Prometheus, and whose it is: a workload's own Prometheus is asked with what its
// namespace holds, never with the credentials of the one that all share.
type endpoint struct {
	namespace string
	server    Prometheus
	api       promv1.API
	door      *door
}

func newEndpoint(namespace string, p Prometheus, maxBytes int64) (*endpoint, error) {
	d := &door{headers: p.Headers, maxBytes: maxBytes}
	client, err := api.NewClient(api.Config{Address: p.URL, Client: d.client()})
	if err != nil {
		return nil, fmt.Errorf("signals.prometheus.url: must be a URL, was %q: %w", p.URL, err)
	}
	return &endpoint{namespace: namespace, server: p, api: promv1.NewAPI(client), door: d}, nil
}

// answer is what came of one query.
type answer struct {
	vector   model.Vector
	scalar   bool
	warnings []string
	code     string // of the finding, if err is not nil
	err      error
}

// ask sends one query and waits for its answer or the deadline.
func (e *endpoint) ask(ctx context.Context, query string) answer {
	var options []promv1.Option
	if deadline, ok := ctx.Deadline(); ok {
		options = append(options, promv1.WithTimeout(writable(time.Until(deadline))))
	}
	value, warnings, _, err := e.api.Query(ctx, query, time.Time{}, options...)
	a := answer{warnings: warnings, code: CodeMetricsUnknown}
	switch v := value.(type) {
	case model.Vector:
		a.vector = v
	case *model.Scalar:
		a.scalar, a.vector = true, model.Vector{{Value: v.Value, Timestamp: v.Timestamp}}
	default:
		if err == nil {
			err = fmt.Errorf("the query answers with %s, must be a number or a vector", kindOf(value))
		}
	}
	if err != nil {
		a.vector, a.err = nil, plain(ctx, err)
	}
	return a
}

// writable rounds a time down to what Prometheus reads as Go writes it: it takes no fractions, and
// refuses the whole query for one.
func writable(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Truncate(time.Second)
	}
	return max(d.Truncate(time.Millisecond), time.Millisecond)
}

func kindOf(v model.Value) string {
	if v == nil {
		return "nothing"
	}
	return "a " + v.Type().String()
}

// maxText is how much of a server's own words is passed on.
const maxText = 300

// plain makes of an error what a person needs, and what is the same each time it happens: no
// address of ours, no page of HTML.
func plain(ctx context.Context, err error) error {
	var network *net.OpError
	var answered *promv1.Error
	var dns *net.DNSError
	var request *url.Error
	switch {
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return errors.New("no answer in time")
	case errors.As(err, &dns):
		return fmt.Errorf("no address for %s", dns.Name)
	case errors.As(err, &network):
		where := ""
		if network.Addr != nil {
			where = " " + network.Addr.String()
		}
		return fmt.Errorf("%s%s: %w", network.Op, where, root(network.Err))
	case errors.As(err, &answered):
		return errors.New(short(answered.Msg))
	case errors.As(err, &request):
		return errors.New(short(request.Err.Error()))
	}
	return errors.New(short(err.Error()))
}

// root is the error that all others are wrapped around.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

func short(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

// door carries requests to a server with what it wants to see, and lets no more of an answer
// in than there is room for.
type door struct {
	headers  map[string]string
	maxBytes int64
	secured  bool // who is not asked by TLS is shown nothing

	mu    sync.Mutex
	creds Credentials
	base  *http.Transport
}

// client goes through the door, and nowhere else: a redirect would carry the credentials to
// whoever is named in it.
func (d *door) client() *http.Client {
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: d, CheckRedirect: stay}
}

// open takes the credentials for the requests to come. Connections are kept as long as what TLS
// takes stays the same.
func (d *door) open(c Credentials) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.base == nil || !c.sameTLS(&d.creds) {
		base, err := newTransport(c)
		if err != nil {
			return err
		}
		if d.base != nil {
			d.base.CloseIdleConnections()
		}
		d.base = base
	}
	d.creds = c
	return nil
}

// close lets go of connections that nothing will use any more.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.base != nil {
		d.base.CloseIdleConnections()
	}
}

func newTransport(c Credentials) (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 16
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if len(c.CA) > 0 {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(c.CA) {
			return nil, errors.New("ca.crt: must hold certificates in PEM, holds none")
		}
	}
	if len(c.Cert) > 0 || len(c.Key) > 0 {
		pair, err := tls.X509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("tls.crt and tls.key: must be a pair in PEM: %w", err)
		}
		t.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// RoundTrip adds what the server wants to see.
func (d *door) RoundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	base, c := d.base, d.creds
	d.mu.Unlock()
	if base == nil {
		return nil, errors.New("the server's credentials have not been read")
	}
	r = r.Clone(r.Context())
	for name, value := range d.headers {
		r.Header.Set(name, value)
	}
	switch {
	case d.secured && r.URL.Scheme != "https":
	case c.Token != "":
		r.Header.Set("Authorization", "Bearer "+c.Token)
	case c.Username != "" || c.Password != "":
		r.SetBasicAuth(c.Username, c.Password)
	}
	resp, err := base.RoundTrip(r)
	if err == nil {
		resp.Body = &limited{body: resp.Body, left: d.maxBytes, limit: d.maxBytes}
	}
	return resp, err
}

// limited fails, where io.LimitReader would end as if the answer did.
type limited struct {
	body        io.ReadCloser
	left, limit int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, fmt.Errorf("the answer is longer than %d bytes", l.limit)
	}
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.body.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return n, fmt.Errorf("the answer is longer than %d bytes", l.limit)
	}
	return n, err
}

func (l *limited) Close() error { return l.body.Close() }
