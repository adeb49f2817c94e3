package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// authority signs for whoever asks, as that of a cluster does.
type authority struct {
	t    *testing.T
	root *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.root, a.key = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) sign(c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(a.t)
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	parent, by := a.root, a.key
	if parent == nil {
		parent, by = c, key
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by))(a.t)
	cert := must.Get(x509.ParseCertificate(der))(a.t)
	return cert, key
}

// client connects as a workload with a certificate of this name, or with none.
func (a *authority) client(name string) *tls.Config {
	cfg := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, ServerName: "127.0.0.1"}
	cfg.RootCAs.AddCert(a.root)
	if name != "" {
		cert, key := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		cfg.Certificates = []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}
	}
	return cfg
}

// files are the texts of a server's certificate, its key and the authority.
func (a *authority) files() (cert, key, root string) {
	c, k := a.sign(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	der := must.Get(x509.MarshalPKCS8PrivateKey(k))(a.t)
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("CERTIFICATE", c.Raw), text("PRIVATE KEY", der), text("CERTIFICATE", a.root.Raw)
}

// bytesOnly sends messages as they are.
type bytesOnly struct{}

func (bytesOnly) Name() string                    { return "proto" }
func (bytesOnly) Marshal(v any) ([]byte, error)   { return v.([]byte), nil } //nolint:forcetypeassert // it is
func (bytesOnly) Unmarshal(_ []byte, _ any) error { return nil }

var (
	mostHeld     = regexp.MustCompile(`VmHWM:\s+([0-9]+) kB`)
	callsCounted = regexp.MustCompile(`(?m)^plimsoll_provider_calls_total\{.*\} ([0-9.e+]+)$`)
)

// held is the most memory that the program had so far, in MiB.
func (s *site) held() int {
	s.t.Helper()
	s.mu.Lock()
	pid := s.child.Process.Pid
	s.mu.Unlock()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	m := mostHeld.FindSubmatch(text)
	if err != nil || m == nil {
		s.t.Skipf("NOT TRIED, for this system does not say what a process holds: %v", err)
	}
	kb := must.Get(strconv.Atoi(string(m[1])))(s.t)
	return kb >> 10
}

// A client without a certificate of a listed name has nothing that it sends decoded at the
// provider's port, and moves no machine. At the expander's, which takes no certificate, what is too
// much is refused before it is decoded: 30 MiB of empty options took 2.6 GB.
func TestStrangersCostNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	site := must.Get(os.ReadFile(filepath.Join(s.folder, "site.yaml")))(t)
	expander := freeAddress(t)
	s.write("site.yaml", strings.Replace(string(site), "provider: {", "provider: {expander: '"+expander+
		"', tls: {certificate: tls.crt, key: tls.key, clientCA: ca.crt, clients: [cluster-autoscaler]}, ", 1))
	a := newAuthority(t)
	cert, key, root := a.files()
	s.write("tls.crt", cert)
	s.write("tls.key", key)
	s.write("ca.crt", root)
	s.start()
	dial := func(address, name string) *grpc.ClientConn {
		conn := must.Get(grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(a.client(name)))))(t)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	list := func(name string) error {
		_, err := externalgrpc.NewCloudProviderClient(dial(s.listen, name)).NodeGroups(t.Context(), &externalgrpc.NodeGroupsRequest{})
		return err
	}
	empty := bytes.Repeat([]byte{0x0a, 0}, 15<<20)
	s.until("it serves", func() bool {
		c, err := net.Dial("tcp", s.listen)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	before := s.held()
	for _, name := range []string{"", "wordpress.tenant-a.svc"} {
		if err := list(name); err == nil {
			t.Errorf("%q: served", name)
		}
		for range 3 {
			// Whose own part of the handshake is done by then.
			c, err := tls.Dial("tcp", s.listen, a.client(name))
			if err != nil {
				continue
			}
			_, _ = c.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), empty...))
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Errorf("%q: answered", name)
			}
			_ = c.Close()
		}
	}
	metrics := regexp.MustCompile(`metrics: (\S+)`).FindSubmatch(site)[1]
	page := must.Get(http.Get(fmt.Sprintf("http://%s/metrics", metrics)))(t)
	text, err := io.ReadAll(page.Body)
	if err != nil || page.Body.Close() != nil {
		t.Fatal(err)
	}
	series := callsCounted.FindAllSubmatch(text, -1)
	for _, m := range series {
		if string(m[1]) != "0" {
			t.Errorf("%s", m[0])
		}
	}
	if len(series) == 0 {
		t.Error("there is no metric of calls")
	}
	grown := s.held() - before
	t.Logf("strangers at the provider's port took %d MiB", grown)
	if grown > 32 {
		t.Errorf("strangers at the provider's port took %d MiB", grown)
	}
	before = s.held()
	for _, n := range []int{30 << 20, 20 << 20} { // longer than a message may be, and no longer
		err := dial(expander, "").Invoke(t.Context(), externalgrpc.Expander_BestOptions_FullMethodName, empty[:n], nil, grpc.ForceCodec(bytesOnly{}))
		// On a busy machine it may come later than the port waits, which costs as little: the call
		// ends while the question is read (Canceled), or once it was.
		if code := grpcstatus.Code(err); !slices.Contains([]codes.Code{codes.ResourceExhausted, codes.DeadlineExceeded, codes.Canceled}, code) {
			t.Errorf("%d MiB of empty options: %v", n>>20, err)
		}
	}
	grown = s.held() - before
	t.Logf("empty options took %d MiB of memory", grown)
	if grown > 160 {
		t.Errorf("empty options took %d MiB", grown)
	}
	if err := list("cluster-autoscaler"); err != nil {
		t.Errorf("a listed name: %v", err)
	}
	if n := len(s.machines()); n != 0 {
		t.Errorf("%d machines", n)
	}
}
