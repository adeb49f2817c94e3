package signals

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Credentials are what a server wants to see: a token, or a name and a password, and what TLS
// takes, in PEM. What it does not want stays empty.
type Credentials struct {
	Token, Username, Password string
	// CA are the authorities that may vouch for the server; empty are the system's.
	CA []byte
	// Cert and Key are shown to a server that asks who calls.
	Cert, Key []byte
	// ServerName is the name that the server's certificate must have; empty is the host of its
	// address.
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
	query     string // where queries are sent
	ranges    string // and those of a range
	door      *door
	complaint complaint
	kept      map[askedKey]asked // answers that the next round need not ask for
}

// asked is a query with its answer, which may be of a round before.
type asked struct {
	endpoint *endpoint
	key      askedKey
	answer   *answer
	at       time.Time
}

// askedKey is what queries have in common that have one answer.
type askedKey struct {
	line                    int
	namespace, text, labels string
}

// newEndpoint is a Prometheus that an object names as it is permitted to, or the administrator's
// own.
func newEndpoint(namespace string, p Prometheus, permit *permit, maxBytes int64) (*endpoint, error) {
	at, err := url.Parse(p.URL)
	if err != nil {
		return nil, fmt.Errorf("signals.prometheus.url: must be a URL, was %q: %w", redactText(p.URL), err)
	}
	return &endpoint{
		namespace: namespace, server: p, query: at.JoinPath("api/v1/query").String(), ranges: at.JoinPath("api/v1/query_range").String(),
		door: &door{headers: p.Headers, maxBytes: maxBytes, permit: permit},
	}, nil
}

// ask sends one query and reads of its answer the labels that are asked for, until it ends or the
// context does.
func (e *endpoint) ask(ctx context.Context, query string, labels []string, keep *room) answer {
	return e.exchange(ctx, e.query, url.Values{"query": {query}}, newDecoding(ctx, labels, keep))
}

// exchange sends a query and has its answer read.
func (e *endpoint) exchange(ctx context.Context, to string, values url.Values, read *decoding) answer {
	unanswered := func(err error) answer { return answer{code: CodeMetricsUnknown, err: err} }
	if deadline, ok := ctx.Deadline(); ok {
		values.Set("timeout", writable(time.Until(deadline)).String())
	}
	resp, err := e.send(ctx, to, values)
	if err != nil {
		return unanswered(failed(ctx, err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		// For the log, as much as there is.
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4*maxText))
		return unanswered(invalid("%s: %s", resp.Status, short(string(text))))
	}
	return read.answer(resp.Body)
}

// send sends a query by POST, and by GET where POST is refused.
func (e *endpoint) send(ctx context.Context, to string, values url.Values) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(values.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := e.door.client().Do(req)
	if err != nil || resp.StatusCode != http.StatusMethodNotAllowed && resp.StatusCode != http.StatusNotImplemented {
		return resp, err
	}
	_ = resp.Body.Close() // its status has said it all
	if req, err = http.NewRequestWithContext(ctx, http.MethodGet, to+"?"+values.Encode(), nil); err != nil {
		return nil, err
	}
	return e.door.client().Do(req)
}

// writable rounds a time down to what Prometheus reads as Go writes it: it takes no fractions, and
// refuses the whole query for one.
func writable(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Truncate(time.Second)
	}
	return max(d.Truncate(time.Millisecond), time.Millisecond)
}

// door carries requests to a server with what it wants to see, and lets no more of an answer
// in than there is room for.
type door struct {
	headers  map[string]string
	maxBytes int64
	secured  bool // who is not asked by TLS is shown nothing
	// permit is what an object may do that names the server; nil is the administrator's own.
	permit *permit

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
	if err := d.permit.shows(&c); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.base == nil || !c.sameTLS(&d.creds) {
		base, err := newTransport(c, d.permit)
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

func newTransport(c Credentials, p *permit) (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 16
	if p != nil {
		// Behind a proxy it would not be seen what is connected to.
		t.Proxy, t.DialContext = nil, p.dial
	}
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
		return 0, invalid("the answer is longer than %d bytes", l.limit)
	}
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.body.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return n, invalid("the answer is longer than %d bytes", l.limit)
	}
	return n, err
}

func (l *limited) Close() error { return l.body.Close() }

// pageTimeout is the longest that one page is waited for, so that pods that hang do not take
// the time of all others.
const pageTimeout = 2 * time.Second

// get has a metrics page read as it comes. complete says whether it is to end as OpenMetrics does.
func get(ctx context.Context, client *http.Client, url string, read func(body io.Reader, complete bool) error) error {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return failed(ctx, err)
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1")
	resp, err := client.Do(req)
	if err != nil {
		return failed(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return invalid("the page answers %s", resp.Status)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch err := read(resp.Body, kind == "application/openmetrics-text"); {
	case ctx.Err() != nil:
		return failed(ctx, ctx.Err())
	case err != nil:
		return invalid("%w", plain(ctx, err))
	}
	return nil
}
