package plane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/proxmox/pvesim"
)

// frontProxy is how the API server proves that it is the one who passes a request on.
type frontProxy struct {
	roots *x509.CertPool
	names []string // that its certificate may have; none is any
}

// readFrontProxy reads it from where every API server publishes it.
func readFrontProxy(ctx context.Context, client kubernetes.Interface) (*frontProxy, error) {
	const published = "extension-apiserver-authentication"
	m, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, published, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	f := &frontProxy{roots: x509.NewCertPool()}
	if !f.roots.AppendCertsFromPEM([]byte(m.Data["requestheader-client-ca-file"])) {
		return nil, fmt.Errorf("configmap %s: requestheader-client-ca-file: must hold the certificate that front proxies are signed with, was %q: is the aggregation layer on?",
			published, m.Data["requestheader-client-ca-file"])
	}
	if names := m.Data["requestheader-allowed-names"]; names != "" {
		if err := json.Unmarshal([]byte(names), &f.names); err != nil {
			return nil, fmt.Errorf("configmap %s: requestheader-allowed-names: %w", published, err)
		}
	}
	return f, nil
}

// listener lets no one in but the front proxy.
func (f *frontProxy) listener(on net.Listener, certificate tls.Certificate) net.Listener {
	return tls.NewListener(on, &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: f.roots,
		VerifyConnection: func(state tls.ConnectionState) error {
			if name := state.PeerCertificates[0].Subject.CommonName; len(f.names) > 0 && !slices.Contains(f.names, name) {
				return fmt.Errorf("client certificate: must be of one of %q, was of %q", f.names, name)
			}
			return nil
		},
	})
}

// selfSigned makes a certificate for a name, and the bundle that it is verified with.
func selfSigned(name string) (tls.Certificate, []byte, error) {
	certificate, _, err := pvesim.SelfSigned(name)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}), nil
}
