package provider

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Certificates are a set of certificates that trust each other, in PEM.
type Certificates struct {
	CA                []byte // of both; its key is thrown away, so that no one can add to the set
	Server, ServerKey []byte
	Client, ClientKey []byte
	NotAfter          time.Time
}

// SelfMadeClient is the name that the client's certificate of such a set bears.
const SelfMadeClient = "cluster-autoscaler"

// SelfMade makes a server's and a client's certificate, for hosts that are names or addresses. They
// are for a first start; what rotates them (cert-manager, say) takes their place.
func SelfMade(hosts []string, now time.Time, lasts time.Duration) (*Certificates, error) {
	authority := &x509.Certificate{
		Subject: pkix.Name{CommonName: "plimsoll provider"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "plimsoll"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	client := &x509.Certificate{
		Subject:     pkix.Name{CommonName: SelfMadeClient},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
			continue
		}
		server.DNSNames = append(server.DNSNames, h)
	}
	made := &Certificates{NotAfter: now.Add(lasts)}
	root, rootKey, err := sign(authority, nil, nil, now, lasts)
	if err != nil {
		return nil, err
	}
	made.CA = pemOf("CERTIFICATE", root.Raw)
	for _, pair := range []struct {
		template  *x509.Certificate
		cert, key *[]byte
	}{{server, &made.Server, &made.ServerKey}, {client, &made.Client, &made.ClientKey}} {
		cert, key, err := sign(pair.template, root, rootKey, now, lasts)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, err
		}
		*pair.cert, *pair.key = pemOf("CERTIFICATE", cert.Raw), pemOf("PRIVATE KEY", der)
	}
	return made, nil
}

func sign(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey, now time.Time, lasts time.Duration) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial
	// Clocks differ a little.
	template.NotBefore, template.NotAfter = now.Add(-time.Minute), now.Add(lasts)
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate of %s: %w", template.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
