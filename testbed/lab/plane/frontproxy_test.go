package plane

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// published is what an API server says of its front proxy.
func published(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"}, Data: data}
}

// client is a certificate for clients that is its own authority.
func client(t *testing.T, name string) (tls.Certificate, string) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestOnlyTheFrontProxyIsLetIn(t *testing.T) {
	own, bundle, err := selfSigned("metrics.kube-system.svc")
	if err != nil {
		t.Fatal(err)
	}
	known, knownPEM := client(t, "front-proxy-client")
	stranger, _ := client(t, "front-proxy-client")
	other, otherPEM := client(t, "somebody")
	api := fake.NewClientset(published(map[string]string{"requestheader-client-ca-file": knownPEM + otherPEM, "requestheader-allowed-names": `["front-proxy-client"]`}))
	proof := must.Get(readFrontProxy(context.Background(), api))(t)
	on := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := httptest.NewUnstartedServer(New(1).resources())
	server.Listener, server.Config.ErrorLog = proof.listener(on, own), log.New(io.Discard, "", 0)
	server.Start()
	defer server.Close()

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for name, c := range map[string]struct {
		certificates []tls.Certificate
		in           bool
	}{
		"the front proxy": {[]tls.Certificate{known}, true},
		"nobody":          {nil, false},
		"a stranger":      {[]tls.Certificate{stranger}, false},
		"another":         {[]tls.Certificate{other}, false},
	} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "metrics.kube-system.svc", Certificates: c.certificates}}}
		r, err := client.Get("https://" + on.Addr().String() + "/apis/metrics.k8s.io/v1beta1")
		if (err == nil) != c.in {
			t.Errorf("%s is let in: %v, want %v: %v", name, err == nil, c.in, err)
		}
		if err == nil {
			text, _ := io.ReadAll(r.Body)
			_ = r.Body.Close()
			if !strings.Contains(string(text), "PodMetrics") {
				t.Errorf("%s reads %s", name, text)
			}
		}
		client.CloseIdleConnections()
	}
}

func TestWithoutAFrontProxyNobodyIs(t *testing.T) {
	for want, data := range map[string]map[string]string{
		`configmap extension-apiserver-authentication: requestheader-client-ca-file: must hold the certificate that front proxies are signed with, was "": is the aggregation layer on?`: {},
		`configmap extension-apiserver-authentication: requestheader-allowed-names: invalid character`:                                                                                   {"requestheader-client-ca-file": "CA", "requestheader-allowed-names": "x"},
	} {
		if data["requestheader-client-ca-file"] != "" {
			_, data["requestheader-client-ca-file"] = client(t, "x")
		}
		if _, err := readFrontProxy(context.Background(), fake.NewClientset(published(data))); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
