//go:build lab

package twins

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// recording plays the CPU use of a service to whoever asks metrics.k8s.io: at any time there is one
// sum, which the ready pods of every Deployment bear in equal parts.
type recording struct {
	client kubernetes.Interface

	mu    sync.Mutex
	cores float64
}

func (r *recording) play(cores float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cores = cores
}

// serve answers on a loopback port, which it returns.
func (r *recording) serve(t *testing.T) int {
	t.Helper()
	mux := http.NewServeMux()
	const base = "/apis/metrics.k8s.io/v1beta1"
	mux.HandleFunc("GET "+base, func(w http.ResponseWriter, _ *http.Request) {
		say(w, &metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "metrics.k8s.io/v1beta1",
			APIResources: []metav1.APIResource{{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}}},
		})
	})
	mux.HandleFunc("GET "+base+"/pods", r.list)
	mux.HandleFunc("GET "+base+"/namespaces/{namespace}/pods", r.list)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	server := httptest.NewUnstartedServer(mux)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(t)}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port
}

func say(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // to a client that may be gone
}

func (r *recording) list(w http.ResponseWriter, req *http.Request) {
	namespace := req.PathValue("namespace")
	pods, err := r.client.CoreV1().Pods(namespace).List(req.Context(), metav1.ListOptions{LabelSelector: req.URL.Query().Get("labelSelector")})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	bearers := map[string][]*corev1.Pod{}
	for i := range pods.Items {
		if p := &pods.Items[i]; ready(p) {
			bearers[p.Labels["app"]] = append(bearers[p.Labels["app"]], p)
		}
	}
	r.mu.Lock()
	cores := r.cores
	r.mu.Unlock()
	list := v1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{Kind: "PodMetricsList", APIVersion: "metrics.k8s.io/v1beta1"}, Items: []v1beta1.PodMetrics{}}
	for _, all := range bearers {
		for _, p := range all {
			use := *resource.NewMilliQuantity(int64(1000*cores/float64(len(all))), resource.DecimalSI)
			list.Items = append(list.Items, v1beta1.PodMetrics{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels},
				Timestamp:  metav1.Now(), Window: metav1.Duration{Duration: time.Second},
				Containers: []v1beta1.ContainerMetrics{{Name: "server", Usage: corev1.ResourceList{corev1.ResourceCPU: use}}},
			})
		}
	}
	say(w, &list)
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
		}
	}
	return false
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
