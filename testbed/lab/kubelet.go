package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Kubelet is how a part is a kubelet to the control plane.
type Kubelet struct {
	REST *rest.Config // of a user of that name, who may do everything
	// To serve the kubelet's API on loopback with: it lets in no one but the API server.
	TLS *tls.Config
	CA  string // the file with the control plane's authority
}

// Kubelet returns what a part needs that plays kubelet.
func (l *Lab) Kubelet() (*Kubelet, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", l.plane.kubeconfig(l, kubeletUser))
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	files := l.plane.pki(l, "ca.crt")
	authority, err := tls.LoadX509KeyPair(files, l.plane.pki(l, "ca.key"))
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	own, err := signed(authority)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(files)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	return &Kubelet{REST: cfg, CA: files, TLS: &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert,
		// Everybody in the lab has a certificate of this authority, and not everybody may read
		// logs.
		VerifyConnection: func(s tls.ConnectionState) error {
			if who := s.PeerCertificates[0].Subject.CommonName; who != readerUser {
				return fmt.Errorf("%s is not the API server", who)
			}
			return nil
		},
	}}, nil
}

// signed is a certificate for a server on loopback.
func signed(by tls.Certificate) (tls.Certificate, error) {
	parent, err := x509.ParseCertificate(by.Certificate[0])
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: kubeletUser},
		NotBefore: parent.NotBefore, NotAfter: parent.NotAfter.Add(-time.Second),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by.PrivateKey)
	if err != nil {
		return tls.Certificate{}, errors.Join(errors.New("certificate of the kubelet"), err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
