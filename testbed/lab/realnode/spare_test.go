//go:build guest

package realnode

import (
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/lab/kubelet"
)

// A node that is emptied is stopped and kept. A pod that waits wakes it, and it is the same node.
func TestARealNodeIsStashedAndWoken(t *testing.T) {
	t.Log("by emulation this takes ten minutes")
	// Without a price of disks, any spare pays for itself.
	w := newWorld(t, site{
		settings: map[string]any{"nodes": map[string]any{"policy": "joint", "joint": map[string]any{"spares": map[string]any{"most": 1}}}},
		pool:     func(p *settings.Pool) { p.ShutdownGrace = nodescaler.Duration(patience) },
	})
	id := w.comesUp()
	before, certificate := w.nodes()[0], w.clientCertificate(id)
	w.scale("0")
	w.until("it is stopped, for it was emptied", patience, func() bool { return w.vms()[0].State == "stopped" })
	w.until("its node is cordoned and not Ready", patience, func() bool { n := w.nodes(); return n[0].Spec.Unschedulable && !kubelet.Ready(&n[0]) })
	w.scale("1")
	w.until("it runs", patience, func() bool { return w.vms()[0].State == "running" })
	w.until("its agent answers", patience, func() bool { return w.answers(id) })
	w.comesBack("it is woken, and Ready", &before)
	w.isAsOrdered(id, "disabled")
	w.knowsTheTime(id)
	if now := w.clientCertificate(id); !now.Equal(certificate) {
		w.Errorf("its kubelet has got another certificate, of %s, in place of that of %s", now.NotBefore, certificate.NotBefore)
	}
}

func (w *world) scale(replicas string) {
	w.Helper()
	if _, err := w.client.AppsV1().Deployments(metav1.NamespaceDefault).Patch(w.Context(), "web", types.MergePatchType,
		[]byte(`{"spec": {"replicas": `+replicas+`}}`), metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
}

// knowsTheTime compares a guest's clock with this computer's.
func (w *world) knowsTheTime(id int) {
	w.Helper()
	const slack = 2 * time.Second
	began := time.Now()
	out, _ := w.inside(id, "date -u +%Y-%m-%dT%H:%M:%S.%NZ | tr -d '\n'")
	ended := time.Now()
	said, err := time.Parse(time.RFC3339Nano, out)
	if err != nil || said.Before(began.Add(-slack)) || said.After(ended.Add(slack)) {
		w.Errorf("its clock says %q, between %s and %s", out, began, ended)
	}
	w.Logf("its clock said %s, asked between %s and %s", out, began.UTC(), ended.UTC())
}

// clientCertificate is what a node's kubelet proves itself with now. It must be valid.
func (w *world) clientCertificate(id int) *x509.Certificate {
	w.Helper()
	out, _ := w.inside(id, "cat /var/lib/kubelet/pki/kubelet-client-current.pem")
	block, _ := pem.Decode([]byte(out))
	if block == nil {
		w.Fatalf("the kubelet has no certificate: %s", out)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		w.Fatal(err)
	}
	roots := x509.NewCertPool()
	_, authority := w.api()
	roots.AddCert(authority)
	if _, err := c.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		w.Errorf("the kubelet's certificate: %v", err)
	}
	if want := "system:node:" + w.nodes()[0].Name; c.Subject.CommonName != want {
		w.Errorf("the kubelet's certificate is %s's, want %s", c.Subject.CommonName, want)
	}
	w.Logf("the kubelet's certificate is valid from %s until %s", c.NotBefore, c.NotAfter)
	return c
}
