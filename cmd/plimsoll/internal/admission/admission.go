// Package admission is the webhook that sets what pods request as they are created. It decides
// nothing: what is recommended for new pods is in the status of their WorkloadAutoscaler. It never
// refuses a pod.
package admission

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

const (
	// Path is where pods are asked about.
	Path = "/pods"
	// Annotation names, on a pod, the WorkloadAutoscaler by which its requests were set.
	Annotation = "plimsoll.dev/rightsized-by"
	// longest is how long a question may be: an object has at most half of it.
	longest = 3 << 20
	// maxCommas is how many things may be in it: {} is 3 bytes as it is written, and hundreds once
	// it is decoded. A pod of 1,000 variables has less than half as many.
	maxCommas = 20000
	// patience is how long a question may take to arrive, or its answer.
	patience = 10 * time.Second
	// atOnce is how many questions are read and answered at a time, each within milliseconds. A
	// further one waits as long as waits, and a question that has a place must come within arrival.
	atOnce  = 4
	waits   = time.Second
	arrival = 2 * time.Second
)

// Config is what answers are made of.
type Config struct {
	// Created is what the containers of a pod are to have that is about to be created in a
	// namespace, and the WorkloadAutoscaler that says so.
	Created func(namespace string, p *corev1.Pod) (workload string, changes []rightsize.Change)
	// Certificate and Key are read at every connection, so that rotated files serve without a
	// restart. What cannot be read leaves the last good ones in force.
	Certificate, Key func() ([]byte, error)
	Log              *slog.Logger

	places chan struct{} // of questions that are being answered

	refusing sync.Mutex
	refused  int       // questions, since that was logged
	last     error     // why
	logged   time.Time // last
}

// Check is what is wrong with the certificate as it is now.
func (c *Config) Check() error {
	_, err := c.read()
	return err
}

func (c *Config) read() (*tls.Certificate, error) {
	certificate, err := c.Certificate()
	if err != nil {
		return nil, fmt.Errorf("certificate: must be a file that can be read: %w", err)
	}
	key, err := c.Key()
	if err != nil {
		return nil, fmt.Errorf("key: must be a file that can be read: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("key: must be the private key of certificate, both in PEM, was not: %w", err)
	}
	return &pair, nil
}

// certificates are the ones in force.
type certificates struct {
	*Config
	mu    sync.Mutex
	good  *tls.Certificate
	fault string // that was last warned of
}

func (c *certificates) now(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh, err := c.read()
	switch {
	case err == nil:
		c.good, c.fault = fresh, ""
	case c.good == nil:
		return nil, err
	case c.fault != err.Error():
		c.fault = err.Error()
		c.Log.Warn("admission: the last certificate stays in force", "error", err)
	}
	return c.good, nil
}

// Serve answers until the context is done.
func Serve(ctx context.Context, l net.Listener, cfg *Config) error {
	cfg.places = make(chan struct{}, atOnce)
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path, cfg.answer)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10,
		TLSConfig:      &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: (&certificates{Config: cfg}).now},
		// Whoever reaches the port can fill it.
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// answer answers a question of the API server, which creates the pod as it is if that fails.
func (c *Config) answer(w http.ResponseWriter, r *http.Request) {
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	case <-time.After(waits):
		c.refuse(w, http.StatusServiceUnavailable, errors.New("too many questions are being answered"))
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(arrival))
	var review admissionv1.AdmissionReview
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, longest))
	if n := commas(body); err == nil && n > maxCommas {
		err = fmt.Errorf("must have at most %d commas outside of strings, has %d", maxCommas, n)
	}
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err == nil && review.Request == nil {
		err = errors.New("request: must be there, was not")
	}
	if err != nil {
		c.refuse(w, http.StatusBadRequest, fmt.Errorf("an AdmissionReview: %w", err))
		return
	}
	answer := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true},
	}
	if patch := c.patch(review.Request); patch != nil {
		kind := admissionv1.PatchTypeJSONPatch
		answer.Response.Patch, answer.Response.PatchType = patch, &kind
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		c.Log.Debug("admission: the answer was not read", "error", err)
	}
}

// commas counts those of a text of JSON that are not within strings.
func commas(text []byte) (n int) {
	within := false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			within = !within
		case '\\':
			i++ // what follows ends no string
		case ',':
			if !within {
				n++
			}
		}
	}
	return n
}

// logEvery is how often refusals are logged: whoever reaches the port could fill the log.
const logEvery = time.Minute

// refuse answers that a question is not answered. The API server then creates the pod as it is.
func (c *Config) refuse(w http.ResponseWriter, code int, err error) {
	http.Error(w, err.Error(), code)
	c.refusing.Lock()
	defer c.refusing.Unlock()
	c.last = err
	if c.refused++; c.refused > 1 {
		return
	}
	wait := logEvery - time.Since(c.logged)
	if wait <= 0 {
		c.logRefusals()
		return
	}
	time.AfterFunc(wait, func() {
		c.refusing.Lock()
		defer c.refusing.Unlock()
		c.logRefusals()
	})
}

// logRefusals logs those that were not logged yet.
func (c *Config) logRefusals() {
	c.Log.Warn("admission: questions are refused, and pods that they were about are created as they are", "refused", c.refused, "last", c.last)
	c.refused, c.logged = 0, time.Now()
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patch is what is changed of a pod that is created; nil is nothing.
func (c *Config) patch(r *admissionv1.AdmissionRequest) []byte {
	if r.Operation != admissionv1.Create || r.Resource != (metav1.GroupVersionResource{Version: "v1", Resource: "pods"}) || r.SubResource != "" {
		return nil
	}
	var p corev1.Pod
	if err := json.Unmarshal(r.Object.Raw, &p); err != nil {
		c.Log.Warn("admission: a pod that cannot be read is left as it is", "namespace", r.Namespace, "error", err)
		return nil
	}
	workload, changes := c.Created(r.Namespace, &p)
	var patch []operation
	for i := range changes {
		patch = append(patch, resize(&p, &changes[i])...)
	}
	if len(patch) == 0 {
		return nil
	}
	text, err := json.Marshal(append(patch, annotate(&p, workload)))
	if err != nil {
		c.Log.Warn("admission: a pod is left as it is", "namespace", r.Namespace, "error", err)
		return nil
	}
	c.Log.Debug("admission: requests are set", "namespace", r.Namespace, "owner", workload)
	return text
}

func resize(p *corev1.Pod, change *rightsize.Change) []operation {
	list, path := p.Spec.Containers, "/spec/containers"
	if change.Sidecar {
		list, path = p.Spec.InitContainers, "/spec/initContainers"
	}
	i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == change.Container })
	if i < 0 {
		return nil
	}
	has := list[i].Resources.DeepCopy()
	has.Requests, has.Limits = with(has.Requests, change.Requests), with(has.Limits, change.Limits)
	return []operation{{"add", fmt.Sprintf("%s/%d/resources", path, i), has}}
}

// with is a list with other amounts of CPU and memory. An amount of 0 changes nothing.
func with(list corev1.ResourceList, r pricing.Resources) corev1.ResourceList {
	set := func(name corev1.ResourceName, is, should int64, q *resource.Quantity) {
		if should <= 0 || is == should {
			return
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = *q
	}
	set(corev1.ResourceCPU, list.Cpu().MilliValue(), int64(r.CPU), resource.NewMilliQuantity(int64(r.CPU), resource.DecimalSI))
	set(corev1.ResourceMemory, list.Memory().Value(), int64(r.Memory), resource.NewQuantity(int64(r.Memory), resource.BinarySI))
	return list
}

func annotate(p *corev1.Pod, workload string) operation {
	if p.Annotations == nil {
		return operation{"add", "/metadata/annotations", map[string]string{Annotation: workload}}
	}
	return operation{"add", "/metadata/annotations/" + strings.ReplaceAll(Annotation, "/", "~1"), workload}
}
