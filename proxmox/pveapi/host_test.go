package pveapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/luthermonson/go-proxmox"
)

// testToken is not one of any server.
const (
	testTokenID = "auto@pve!t1"
	testSecret  = "5ec12e70-0000-4000-8000-00000000beef"
	testToken   = testTokenID + "=" + testSecret
)

// reply is what a host answers. net/http's server cannot put a text into the status line, which is
// where Proxmox VE has them.
type reply struct {
	status int // 0 breaks the connection in place of an answer
	reason string
	body   string
	wait   func() // before the answer
	close  bool   // after it, without saying so
	stall  bool   // no answer at all, until the host goes
}

// data is a good answer.
func data(json string) reply { return reply{status: 200, reason: "OK", body: `{"data":` + json + `}`} }

// fault is a bad one, as newer servers send them: the text in both places.
func fault(status int, text string) reply {
	return reply{status: status, reason: text, body: fmt.Sprintf(`{"data":null,"message":%q}`, text+"\n")}
}

// host plays one Proxmox VE host over TLS.
type host struct {
	URL         string
	Fingerprint string
	CA          []byte // PEM of its own certificate
	answer      func(r *http.Request, body string) reply

	mu    sync.Mutex
	seen  []string // "GET /nodes body"
	conns int
	gone  chan struct{}
}

// newHost starts a host that answers with the given function, until the test is over.
func newHost(t testing.TB, answer func(r *http.Request, body string) reply) *host {
	t.Helper()
	certificate, leaf := selfSigned(t)
	sum := sha256.Sum256(leaf)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	h := &host{
		URL: "https://" + ln.Addr().String(), Fingerprint: fingerprint(sum).String(), gone: make(chan struct{}), answer: answer,
		CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf}),
	}
	var serving sync.WaitGroup
	conns := map[net.Conn]bool{}
	t.Cleanup(func() {
		_ = ln.Close()
		close(h.gone)
		h.mu.Lock()
		for c := range conns {
			_ = c.Close()
		}
		h.mu.Unlock()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			h.mu.Lock()
			conns[conn] = true
			h.conns++
			h.mu.Unlock()
			serving.Go(func() { h.serve(conn) })
		}
	})
	return h
}

// serve answers one connection's requests.
func (h *host) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		h.mu.Lock()
		h.seen = append(h.seen, strings.TrimSpace(req.Method+" "+strings.TrimPrefix(req.URL.RequestURI(), apiRoot)+" "+string(body)))
		h.mu.Unlock()
		a := h.answer(req, string(body))
		if a.wait != nil {
			a.wait()
		}
		if a.stall {
			<-h.gone
		}
		if a.status == 0 {
			return
		}
		res := http.Response{
			Status: fmt.Sprintf("%d %s", a.status, a.reason), StatusCode: a.status, ProtoMajor: 1, ProtoMinor: 1,
			Header:        http.Header{"Content-Type": {"application/json;charset=UTF-8"}, "Server": {"pve-api-daemon/3.0"}},
			ContentLength: int64(len(a.body)), Body: io.NopCloser(strings.NewReader(a.body)),
			Close: a.status >= 400,
		}
		if a.body == "" {
			res.ContentLength, res.Close = -1, true // as 401 and 59x are
		}
		if res.Write(conn) != nil || res.Close || a.close {
			return
		}
	}
}

// asked returns the requests that came so far.
func (h *host) asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// selfSigned makes a certificate as a fresh host has one.
func selfSigned(t testing.TB) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	leaf, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "pve1"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}, &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "pve1"}}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key}, leaf
}

// clock is a time that only tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Wait lets the clock's time pass and none of ours.
func (c *clock) Wait(ctx context.Context, d time.Duration) error {
	c.Advance(d)
	return ctx.Err()
}

// connected returns a client of hosts, each pinned by its own fingerprint. Changes are made to the
// connection before it is used.
func connected(t testing.TB, hosts []*host, changes ...func(*Connection)) *Client {
	t.Helper()
	c := Connection{Token: func() (string, error) { return testToken, nil }, Timeout: 10 * time.Second}
	var pins []string
	for _, h := range hosts {
		c.Endpoints = append(c.Endpoints, h.URL)
		pins = append(pins, h.Fingerprint)
	}
	c.Fingerprint = strings.Join(pins, ",")
	for _, change := range changes {
		change(&c)
	}
	client, err := Connect(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// one returns a host with one answer for everything, and a client of it.
func one(t testing.TB, a reply, changes ...func(*Connection)) (*host, *Client) {
	t.Helper()
	h := newHost(t, func(*http.Request, string) reply { return a })
	return h, connected(t, []*host{h}, changes...)
}

// plain returns go-proxmox as it is used without us, for what it does by itself.
func plain(t testing.TB, h *host, options ...proxmox.Option) *proxmox.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(h.CA)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	options = append([]proxmox.Option{
		proxmox.WithHTTPClient(&http.Client{Transport: transport, Timeout: 10 * time.Second}),
		proxmox.WithAPIToken(testTokenID, testSecret),
		proxmox.WithLogger(silence{}),
	}, options...)
	return proxmox.NewClient(h.URL+apiRoot, options...)
}

// inMemory is a transport without a network: a function of the request.
func inMemory(answer func(r *http.Request, body string) reply) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		var body []byte
		if req.Body != nil {
			body, _ = io.ReadAll(req.Body)
			_ = req.Body.Close()
		}
		a := answer(req, string(body))
		if a.wait != nil {
			a.wait()
		}
		switch {
		case a.status == 0:
			return nil, io.ErrUnexpectedEOF
		case a.status < 0:
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("connect: connection refused")}
		}
		return &http.Response{
			Status: fmt.Sprintf("%d %s", a.status, a.reason), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{}, Body: io.NopCloser(bytes.NewReader([]byte(a.body))), Request: req,
		}, nil
	})
}

// refuseDial is the answer of a host that is not there.
var refuseDial = reply{status: -1}

// virtual returns a client over a function, in the time of a clock.
func virtual(t testing.TB, endpoints int, answer func(r *http.Request, body string) reply, changes ...func(*Connection)) (*Client, *clock) {
	t.Helper()
	k := newClock()
	c := Connection{
		Token:     func() (string, error) { return testToken, nil },
		Transport: inMemory(answer), Now: k.Now, Wait: k.Wait,
	}
	for i := range endpoints {
		c.Endpoints = append(c.Endpoints, fmt.Sprintf("https://pve%d:8006", i+1))
	}
	for _, change := range changes {
		change(&c)
	}
	client, err := Connect(c)
	if err != nil {
		t.Fatal(err)
	}
	return client, k
}
