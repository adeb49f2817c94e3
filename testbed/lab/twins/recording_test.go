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

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// recording plays the CPU use of a service to all that ask metrics.k8s.io: at any time there is one
// sum, which the pods of every Deployment use in equal parts. A Deployment that is being scaled has
// no metrics. Otherwise a scaler may divide the use of 36 pods by the 14 that are left of them, and
// which of the two does so depends on how busy the machine is.
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
	deployments, err := r.client.AppsV1().Deployments(namespace).List(req.Context(), metav1.ListOptions{})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	bearers := map[string][]*corev1.Pod{}
	for i := range deployments.Items {
		if d := &deployments.Items[i]; atRest(d) {
			bearers[d.Name] = podsOf(d, pods.Items)
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

// atRest is whether a Deployment has all the pods that it shall have, all ready, and no others.
func atRest(d *appsv1.Deployment) bool {
	n, s := *d.Spec.Replicas, d.Status
	return s.ObservedGeneration == d.Generation && s.Replicas == n && s.ReadyReplicas == n
}

// podsOf returns the pods of a Deployment, none if they are not as many as it shall have: pods that
// are being deleted are not in its status.
func podsOf(d *appsv1.Deployment, all []corev1.Pod) []*corev1.Pod {
	var its []*corev1.Pod
	for i := range all {
		if p := &all[i]; p.Labels["app"] == d.Name {
			its = append(its, p)
		}
	}
	if len(its) != int(*d.Spec.Replicas) {
		return nil
	}
	return its
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der := must.Get(x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
