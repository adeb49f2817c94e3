package pvesim

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// Limits of a connection. They are kept by the wall clock, as the client's are.
const (
	maxHeaderLines = 64
	maxHeaderBytes = 8 << 10
	maxUpload      = 1 << 30
)

// Serve answers connections to one of the cluster's hosts, until the listener or the cluster is
// closed. The API is spoken over TLS alone; plain HTTP is redirected. A host that is down hangs up.
func (c *Cluster) Serve(l net.Listener, hostName string, cfg *tls.Config) error {
	h := c.Node(hostName)
	if h == nil {
		return fmt.Errorf("host: must be one of the cluster's, was %q", hostName)
	}
	if cfg == nil || len(cfg.Certificates) == 0 {
		return errors.New("certificate: must be given, was none")
	}
	cfg = cfg.Clone()
	cfg.NextProtos = []string{"http/1.1"}
	c.With(func() { h.Certificate = Fingerprint(cfg.Certificates[0]) })
	served := make(chan struct{})
	defer close(served)
	go func() {
		select {
		case <-c.Over:
			_ = l.Close()
		case <-served:
		}
	}()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("serve %s: %w", hostName, err)
		}
		go c.welcome(conn, h, cfg)
	}
}

// welcome finds out whether a client speaks TLS.
func (f *front) welcome(conn net.Conn, h *world.Node, cfg *tls.Config) {
	defer func() { _ = conn.Close() }()
	up := false
	f.c.With(func() { up = h.Up })
	if !up {
		return
	}
	first := bufio.NewReader(patient{conn})
	b, err := first.Peek(1)
	if err != nil {
		return
	}
	const handshake = 22 // the first byte of TLS
	if b[0] != handshake {
		f.redirect(conn, first)
		return
	}
	secure := tls.Server(peeked{patient{conn}, first}, cfg)
	if secure.Handshake() == nil {
		f.converse(secure, h)
	}
}

// patient waits only so long for a client.
type patient struct{ net.Conn }

func (p patient) Read(b []byte) (int, error) {
	_ = p.SetReadDeadline(time.Now().Add(world.KeepAliveIdle))
	return p.Conn.Read(b)
}

// peeked is a connection of which the beginning has been read.
type peeked struct {
	net.Conn
	r io.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.r.Read(b) }

// redirect answers plain HTTP with the address for TLS.
func (f *front) redirect(w io.Writer, r *bufio.Reader) {
	req, proto, answer := readHead(r)
	if req == nil || req.header.Get("Host") == "" {
		return
	}
	if answer == nil {
		answer = plain(308, "Permanent Redirect")
		if req.method == "GET" || req.method == "HEAD" {
			answer = plain(301, "Moved Permanently")
		}
		answer.location = "https://" + req.header.Get("Host") + req.path
		if req.query != "" {
			answer.location += "?" + req.query
		}
	}
	_, _ = w.Write(answer.wire(f.c, proto, true))
}

// converse answers one request after the other on a connection.
func (f *front) converse(conn net.Conn, h *world.Node) {
	r := bufio.NewReader(conn)
	for left := world.KeepAliveCalls - 1; left >= 0; left-- {
		req, proto, answer := readHead(r)
		if req == nil {
			return
		}
		if answer == nil && !req.readBody(r) {
			return
		}
		if answer == nil {
			var err error
			if answer, err = f.ask(context.Background(), h, req); err != nil {
				return
			}
		}
		stay := left > 0 && answer.status < 400 && req.stays(proto)
		answer.compress(req)
		if _, err := conn.Write(answer.wire(f.c, proto, stay)); err != nil {
			return
		}
		if !stay {
			linger(conn, r, req)
			return
		}
	}
}

// linger reads what a client still sends of a body that was refused, for a while: hanging up on it
// could cost it the answer.
func linger(conn net.Conn, r io.Reader, req *request) {
	if half, can := conn.(interface{ CloseWrite() error }); can && (req.tooLarge || req.encoding != "") && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, r, 2*maxBody)
	}
}

var requestLine = regexp.MustCompile(`(\S+) (\S+) HTTP/(\d+)\.(\d+)`)

// readHead reads a request without its body. It is nil if the client has gone or sent too much, and
// then there is nothing to say; answer is why the request is not understood.
func readHead(r *bufio.Reader) (req *request, proto string, answer *response) {
	line, err := readLine(r, maxHeaderBytes)
	for err == nil && line == "" {
		line, err = readLine(r, maxHeaderBytes)
	}
	if err != nil {
		return nil, "", nil
	}
	req, proto = &request{header: http.Header{}}, "HTTP/1.1"
	m := requestLine.FindStringSubmatch(line)
	if m == nil {
		return req, proto, plain(400, "bad request")
	}
	if m[3] != "1" {
		return req, proto, plain(506, fmt.Sprintf("http protocol version %s.%s not supported", m[3], m[4]))
	}
	req.method, proto = m[1], "HTTP/1."+m[4]
	if at := strings.IndexByte(m[2], '@'); at >= 0 && !strings.Contains(m[2][:at], "/") {
		return req, proto, plain(400, "invalid url")
	}
	u, err := url.ParseRequestURI(m[2])
	if err != nil {
		return req, proto, plain(400, "bad request")
	}
	req.path, req.query = u.EscapedPath(), u.RawQuery
	if answer, err = req.readHeader(r); err != nil {
		return nil, "", nil
	}
	return req, proto, answer
}

var headerLine = regexp.MustCompile(`^([^:\s]+)\s*:\s*(.*)`)

func (r *request) readHeader(from *bufio.Reader) (*response, error) {
	last, size := "", 0
	for n := 1; ; n++ {
		line, err := readLine(from, maxHeaderBytes)
		if err != nil {
			return nil, err
		}
		size += len(line)
		if n >= maxHeaderLines || size >= maxHeaderBytes {
			return nil, errors.New("header too large")
		}
		m := headerLine.FindStringSubmatch(line)
		switch {
		case line == "":
			r.encoding = strings.ToLower(r.header.Get("Transfer-Encoding"))
			return nil, nil
		case m != nil:
			last = http.CanonicalHeaderKey(m[1])
			r.header.Add(last, m[2])
		case last != "" && (line[0] == ' ' || line[0] == '\t'):
			all := r.header[last]
			all[len(all)-1] += " " + strings.TrimSpace(line)
		default:
			return plain(506, "unable to parse request header"), nil
		}
	}
}

// readLine reads a line that is not too long.
func readLine(r *bufio.Reader, most int) (string, error) {
	var line []byte
	for {
		b, err := r.ReadByte()
		if err != nil {
			return "", err
		}
		if b == '\n' {
			return strings.TrimSuffix(string(line), "\r"), nil
		}
		if line = append(line, b); len(line) > most {
			return "", errors.New("line too long")
		}
	}
}

// readBody reads a body of the length that was announced, unless it is refused for that, and
// reports whether the client is still there.
func (r *request) readBody(from io.Reader) bool {
	length, err := strconv.ParseInt(r.header.Get("Content-Length"), 10, 64)
	if err != nil || length <= 0 || r.encoding != "" {
		return true
	}
	most := int64(maxBody)
	if path, err := url.PathUnescape(r.path); err == nil && r.method == "POST" && strings.HasSuffix(strings.TrimSuffix(path, "/"), "/upload") {
		most = maxUpload
	}
	if length > most {
		r.tooLarge = true
		return true
	}
	var body bytes.Buffer
	if _, err := io.CopyN(&body, from, length); err != nil {
		return false
	}
	r.body = body.Bytes()
	return true
}

// stays reports whether the client wants the connection to be kept.
func (r *request) stays(proto string) bool {
	wish := strings.ToLower(r.header.Get("Connection"))
	if r.tooLarge || strings.Contains(wish, "close") {
		return false
	}
	return wish != "" || proto != "HTTP/1.0"
}

// compress shortens long bodies for those who can read that.
func (a *response) compress(req *request) {
	if a.kind == "" || len(a.body) <= 1024 || !strings.Contains(req.header.Get("Accept-Encoding"), "gzip") {
		return
	}
	var short bytes.Buffer
	w := gzip.NewWriter(&short)
	if _, err := w.Write(a.body); err == nil && w.Close() == nil {
		a.body, a.coding = short.Bytes(), "gzip"
	}
}

// wire is an answer as it goes over the wire, with its lines in the order in which the server
// writes them.
func (a *response) wire(c *Cluster, proto string, stay bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %d %s\r\n", proto, a.status, oneLine(a.reason))
	h := a.header(c)
	h.Set("Connection", "close")
	if stay {
		h.Set("Connection", "Keep-Alive")
	}
	for _, name := range []string{
		"Cache-Control", "Connection", "Date", "Pragma", "Location", "Server", "Content-Encoding", "Content-Length", "Content-Type", "Expires",
	} {
		if value := h.Get(name); value != "" {
			fmt.Fprintf(&b, "%s: %s\r\n", name, oneLine(value))
		}
	}
	b.WriteString("\r\n")
	b.Write(a.body)
	return b.Bytes()
}

var lineEnds = strings.NewReplacer("\r", " ", "\n", " ")

// oneLine keeps what a caller sent from beginning a line of its own.
func oneLine(s string) string { return lineEnds.Replace(s) }

// SelfSigned makes a certificate for hosts, by name or address, and its SHA-256 fingerprint as the
// server writes it: pairs of hexadecimal digits with colons between them.
func SelfSigned(hosts ...string) (tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{"Proxmox Virtual Environment"}, CommonName: "pvesim"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(2, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	for _, name := range hosts {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("certificate: %w", err)
	}
	cert := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return cert, Fingerprint(cert), nil
}

// Fingerprint is that of a certificate, as Proxmox VE writes it.
func Fingerprint(cert tls.Certificate) string {
	sum := sha256.Sum256(cert.Certificate[0])
	return colons(sum[:])
}

// colons writes bytes as fingerprints are written.
func colons(b []byte) string {
	return strings.ReplaceAll(fmt.Sprintf("% X", b), " ", ":")
}

// fingerprint is that of the certificate that a host is served with, or would be.
func fingerprint(c *world.World, h *world.Node) string {
	if h.Certificate != "" {
		return h.Certificate
	}
	return colons(c.Access.Sign("certificate of " + h.Name))
}
