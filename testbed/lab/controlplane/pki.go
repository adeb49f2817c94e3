package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pki makes keys and certificates in a folder, once: what is there already is used again, so that
// kubeconfigs and tokens outlive a restart.
type pki struct{ folder string }

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// The files of a name.
func (p pki) cert(name string) string { return filepath.Join(p.folder, name+".crt") }
func (p pki) key(name string) string  { return filepath.Join(p.folder, name+".key") }

// validity is longer than a lab is kept, and starts early enough for clocks that are set back.
const validity = 365 * 24 * time.Hour

// authority reads or makes a certificate authority.
func (p pki) authority(name string) (*authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	cert, key, err := p.pair(name, template, nil)
	return &authority{cert, key}, err
}

// server reads or makes the certificate of a server on loopback, with the names it also goes by.
// It proves its bearer as a client, too, which etcd asks of its own members.
func (p pki) server(name string, by *authority, also ...string) error {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    append([]string{"localhost"}, also...),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), serviceIP},
	}
	_, _, err := p.pair(name, template, by)
	return err
}

// client reads or makes the certificate of a user.
func (p pki) client(file string, who user, by *authority) error {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: who.name, Organization: who.groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	_, _, err := p.pair(file, template, by)
	return err
}

// pair reads a certificate and its key, or makes them if they are not there. Without an authority
// the certificate signs itself.
func (p pki) pair(name string, template *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := p.privateKey(name)
	if err != nil {
		return nil, nil, err
	}
	block, err := p.read(p.cert(name))
	if errors.Is(err, fs.ErrNotExist) {
		block, err = p.sign(name, template, key, by)
	}
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(block)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", p.cert(name), err)
	}
	return cert, key, nil
}

// sign makes a certificate for a key.
func (p pki) sign(name string, template *x509.Certificate, key *ecdsa.PrivateKey, by *authority) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, now.Add(-24*time.Hour), now.Add(validity)
	if by == nil {
		by = &authority{template, key}
	}
	block, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", name, err)
	}
	return block, p.write(p.cert(name), "CERTIFICATE", block)
}

// privateKey reads or makes a key.
func (p pki) privateKey(name string) (*ecdsa.PrivateKey, error) {
	block, err := p.read(p.key(name))
	switch {
	case err == nil:
		key, err := x509.ParseECPrivateKey(block)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.key(name), err)
		}
		return key, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if block, err = x509.MarshalECPrivateKey(key); err != nil {
		return nil, err
	}
	return key, p.write(p.key(name), "EC PRIVATE KEY", block)
}

// read reads the first block of a PEM file.
func (p pki) read(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s: no PEM block in it", file)
	}
	return block.Bytes, nil
}

func (p pki) write(file, kind string, block []byte) error {
	return writeFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: block}))
}

// writeFile puts a file in place as a whole, so that no one reads half of it, for its owner alone.
func writeFile(name string, text []byte) error {
	part := name + ".part"
	if err := os.WriteFile(part, text, 0o600); err != nil {
		return err
	}
	return os.Rename(part, name)
}
