package rke2

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base32"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/grpc/provider"
)

// secrets are what the machines and whoever speaks with them know of one another. They are made
// before there is a machine: RKE2 goes by authorities that it finds, so that a certificate signed
// here is an administrator's there.
type secrets struct {
	Token      string    `json:"token"`      // of servers
	AgentToken string    `json:"agentToken"` // of machines that are no servers
	ServerCA   authority `json:"serverCA"`   // signs what the API server shows
	ClientCA   authority `json:"clientCA"`   // signs what its clients show
	Admin      authority `json:"admin"`      // an administrator's certificate
	// Provider is what Plimsoll and cluster-autoscaler show one another.
	Provider mutual `json:"provider,omitzero"`
	// Proxmox is the API token of Plimsoll in the cluster, whole. It is empty until there is one.
	Proxmox string `json:"proxmox,omitempty"`
}

// authority is a certificate with its key, in PEM.
type authority struct {
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// mutual is what a server and its only client show one another, signed by an authority whose key is
// gone.
type mutual struct {
	CA     string    `json:"ca"`
	Server authority `json:"server"`
	Client authority `json:"client"`
}

// of are the files of one of the two.
func (m *mutual) of(a authority) map[string]any {
	return map[string]any{"tls.crt": a.Cert, "tls.key": a.Key, "ca.crt": m.CA}
}

func newMutual(now time.Time) (mutual, error) {
	host, _, _ := strings.Cut(deploy.UsualAutoscaler().Address, ":")
	made, err := provider.SelfMade([]string{host}, now, lasting)
	if err != nil {
		return mutual{}, err
	}
	return mutual{
		string(made.CA), authority{string(made.Server), string(made.ServerKey)}, authority{string(made.Client), string(made.ClientKey)},
	}, nil
}

// placeholders hold the place of secrets while no machine has any.
func placeholders() *secrets {
	a := authority{"certificate", "key"}
	return &secrets{Token: "token", AgentToken: "token", ServerCA: a, ClientCA: a, Admin: a, Provider: mutual{"certificate", a, a}, Proxmox: "token"}
}

// lasting is how long certificates hold: a test bed does not live as long.
const lasting = 2 * 365 * 24 * time.Hour

func newSecrets(now time.Time) (*secrets, error) {
	s := &secrets{Token: randomWord(), AgentToken: randomWord()}
	var err error
	if s.ServerCA, err = newAuthority("rke2-server-ca", now); err != nil {
		return nil, err
	}
	if s.ClientCA, err = newAuthority("rke2-client-ca", now); err != nil {
		return nil, err
	}
	if s.Provider, err = newMutual(now); err != nil {
		return nil, err
	}
	s.Admin, err = s.ClientCA.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "system:admin", Organization: []string{"system:masters"}},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, now)
	return s, err
}

// randomWord is a text that no one guesses.
func randomWord() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

func newAuthority(name string, now time.Time) (authority, error) {
	return authority{}.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
	}, now)
}

// sign makes a certificate by a template, signed by the authority, or by itself without one.
func (a authority) sign(template *x509.Certificate, now time.Time) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return authority{}, err
	}
	// Clocks of machines that have just booted may be behind.
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, now.Add(-24*time.Hour), now.Add(lasting)
	parent, signer := template, key
	if a.Cert != "" {
		if parent, signer, err = a.parse(); err != nil {
			return authority{}, err
		}
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return authority{}, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return authority{}, err
	}
	return authority{armour("CERTIFICATE", cert), armour("EC PRIVATE KEY", der)}, nil
}

func armour(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func (a authority) parse() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	cert, _ := pem.Decode([]byte(a.Cert))
	key, _ := pem.Decode([]byte(a.Key))
	if cert == nil || key == nil {
		return nil, nil, fmt.Errorf("an authority's certificate and key must be PEM")
	}
	c, err := x509.ParseCertificate(cert.Bytes)
	if err != nil {
		return nil, nil, err
	}
	k, err := x509.ParseECPrivateKey(key.Bytes)
	return c, k, err
}

// kubeconfig lets an administrator in.
func (s *secrets) kubeconfig(site *Site) ([]byte, error) {
	c := api.NewConfig()
	c.Clusters[site.Owner] = &api.Cluster{Server: fmt.Sprintf("https://%s:6443", hostOf(site.address())), CertificateAuthorityData: []byte(s.ServerCA.Cert)}
	c.AuthInfos["admin"] = &api.AuthInfo{ClientCertificateData: []byte(s.Admin.Cert), ClientKeyData: []byte(s.Admin.Key)}
	c.Contexts[site.Owner] = &api.Context{Cluster: site.Owner, AuthInfo: "admin"}
	c.CurrentContext = site.Owner
	return clientcmd.Write(*c)
}

func (s *secrets) marshal() ([]byte, error) { return json.MarshalIndent(s, "", "  ") }
