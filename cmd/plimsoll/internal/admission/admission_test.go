package admission

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	runtimes "runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// authority signs certificates for a name.
type authority struct {
	key  *ecdsa.PrivateKey
	self *x509.Certificate
	der  []byte
}

func newAuthority(t *testing.T) *authority {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key))(t)
	return &authority{key, must.Get(x509.ParseCertificate(der))(t), der}
}

// certificate is one of a number, and its key.
func (a *authority) certificate(t *testing.T, number int64) (certificate, key []byte) {
	own := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(number), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name},
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, form, a.self, &own.PublicKey, a.key))(t)
	private := must.Get(x509.MarshalECPrivateKey(own))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})
}

const name = "plimsoll-admission.plimsoll.svc"

// files are those of the certificate, which may change.
type files struct {
	mu               sync.Mutex
	certificate, key []byte
}

func (f *files) put(certificate, key []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.certificate, f.key = certificate, key
}

func (f *files) read(which *[]byte) func() ([]byte, error) {
	return func() ([]byte, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if *which == nil {
			return nil, errors.New("no such file")
		}
		return *which, nil
	}
}

// apiServer asks a webhook as one does, and applies what it is answered.
type apiServer struct {
	*testing.T
	client *http.Client
	url    string
	files  *files
	signs  *authority
}

// sizes is what the pods of a namespace get.
func sizes(namespace string, p *corev1.Pod) (string, []rightsize.Change) {
	switch {
	case namespace != "shop":
		return "", nil
	case len(p.Spec.InitContainers) > 0:
		return "web", []rightsize.Change{{Container: "proxy", Sidecar: true, Requests: pricing.Resources{CPU: 20}}}
	}
	return "web", []rightsize.Change{
		{Container: "app", Requests: pricing.Resources{CPU: 150, Memory: 96 * pricing.MiB}, Limits: pricing.Resources{Memory: 192 * pricing.MiB}},
		{Container: "gone", Requests: pricing.Resources{CPU: 1}},
	}
}

func newServer(t *testing.T) *apiServer {
	a := &apiServer{T: t, files: &files{}, signs: newAuthority(t)}
	a.files.put(a.signs.certificate(t, 2))
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- Serve(ctx, l, &Config{Created: sizes, Certificate: a.files.read(&a.files.certificate), Key: a.files.read(&a.files.key), Log: slog.New(slog.DiscardHandler)})
	}()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	roots := x509.NewCertPool()
	roots.AddCert(a.signs.self)
	a.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name}, DisableKeepAlives: true,
	}}
	a.url = "https://" + l.Addr().String() + Path
	return a
}

// admits asks about a pod, and returns it as it is created.
func (a *apiServer) admits(r *admissionv1.AdmissionRequest, pod string) string {
	a.Helper()
	r.UID, r.Object = types.UID("u"), runtime.RawExtension{Raw: must.Get(yaml.YAMLToJSON([]byte(pod)))(a.T)}
	review := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: r}
	res := must.Get(a.client.Post(a.url, "application/json", bytes.NewReader(must.Get(json.Marshal(review))(a.T))))(a.T)
	defer func() { _ = res.Body.Close() }()
	var answer admissionv1.AdmissionReview
	must.Do(a, json.NewDecoder(res.Body).Decode(&answer))
	if answer.Kind != "AdmissionReview" || answer.APIVersion != "admission.k8s.io/v1" || answer.Response.UID != "u" || !answer.Response.Allowed {
		a.Fatalf("%+v", answer)
	}
	return string(must.Get(yaml.JSONToYAML(patched(a.T, r.Object.Raw, answer.Response.Patch)))(a.T))
}

// patched applies a JSON patch of additions, each in an object that is there.
func patched(t *testing.T, object, patch []byte) []byte {
	t.Helper()
	var whole any
	var all []operation
	must.Do(t, json.Unmarshal(object, &whole))
	if patch == nil {
		return object
	}
	must.Do(t, json.Unmarshal(patch, &all))
	for _, o := range all {
		keys := strings.Split(strings.TrimPrefix(o.Path, "/"), "/")
		at := whole
		for _, key := range keys[:len(keys)-1] {
			switch in := at.(type) {
			case map[string]any:
				at = in[key]
			case []any:
				var i int
				if _, err := fmt.Sscan(key, &i); err != nil || i >= len(in) {
					t.Fatalf("%s: there is no %s", o.Path, key)
				}
				at = in[i]
			}
		}
		in, ok := at.(map[string]any)
		if o.Op != "add" || !ok {
			t.Fatalf("%+v: cannot be applied", o)
		}
		in[strings.ReplaceAll(keys[len(keys)-1], "~1", "/")] = o.Value
	}
	return must.Get(json.Marshal(whole))(t)
}

func create(namespace string) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{Namespace: namespace, Operation: admissionv1.Create, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}}
}

func TestPodsAreCreatedWithWhatIsRecommended(t *testing.T) {
	a := newServer(t)
	const plain = "metadata: {}\nspec: {containers: [{name: app}]}\n"
	for _, c := range []struct {
		name, pod, want string
		request         *admissionv1.AdmissionRequest
	}{{
		name: "what else there is stays", request: create("shop"),
		pod: `metadata: {annotations: {a: b}}
spec:
  containers:
  - {name: other, resources: {requests: {cpu: 1}}}
  - {name: app, image: x, resources: {requests: {cpu: 200m, example.com/gpu: 1}, limits: {memory: 128Mi, example.com/gpu: 1}, claims: [{name: gpu}]}}
`,
		want: `metadata:
  annotations:
    a: b
    plimsoll.dev/rightsized-by: web
spec:
  containers:
  - name: other
    resources:
      requests:
        cpu: 1
  - image: x
    name: app
    resources:
      claims:
      - name: gpu
      limits:
        example.com/gpu: "1"
        memory: 192Mi
      requests:
        cpu: 150m
        example.com/gpu: "1"
        memory: 96Mi
`,
	}, {
		name: "the first requests", request: create("shop"), pod: plain,
		want: `metadata:
  annotations:
    plimsoll.dev/rightsized-by: web
spec:
  containers:
  - name: app
    resources:
      limits:
        memory: 192Mi
      requests:
        cpu: 150m
        memory: 96Mi
`,
	}, {
		name: "of a sidecar", request: create("shop"),
		pod: "metadata: {}\nspec: {containers: [{name: proxy}], initContainers: [{name: first}, {name: proxy, restartPolicy: Always}]}\n",
		want: `metadata:
  annotations:
    plimsoll.dev/rightsized-by: web
spec:
  containers:
  - name: proxy
  initContainers:
  - name: first
  - name: proxy
    resources:
      requests:
        cpu: 20m
    restartPolicy: Always
`,
	}, {
		name: "nothing is recommended", request: create("else"), pod: plain,
	}, {
		name: "it is there already", pod: plain,
		request: &admissionv1.AdmissionRequest{Namespace: "shop", Operation: admissionv1.Update, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}},
	}, {
		name: "it is no pod", pod: plain,
		request: &admissionv1.AdmissionRequest{Namespace: "shop", Operation: admissionv1.Create, Resource: metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}},
	}, {
		name: "it is a part of one", pod: plain,
		request: &admissionv1.AdmissionRequest{Namespace: "shop", Operation: admissionv1.Create, SubResource: "eviction", Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}},
	}, {
		name: "it cannot be read", request: create("shop"), pod: "spec: {containers: 1}\n",
	}} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == "" {
				c.want = string(must.Get(yaml.JSONToYAML(must.Get(yaml.YAMLToJSON([]byte(c.pod)))(t)))(t))
			}
			if diff := cmp.Diff(c.want, a.admits(c.request, c.pod)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestWhatIsNoQuestionIsRefused(t *testing.T) {
	a := newServer(t)
	for body, want := range map[string]string{
		"":                         "an AdmissionReview: unexpected end of JSON input",
		"{}":                       "an AdmissionReview: request: must be there, was not",
		strings.Repeat(" ", 1<<22): "an AdmissionReview: http: request body too large",
		`{"request": {"object": 1`: "an AdmissionReview: unexpected end of JSON input",
	} {
		res := must.Get(a.client.Post(a.url, "application/json", strings.NewReader(body)))(t)
		var text bytes.Buffer
		_, _ = text.ReadFrom(res.Body)
		_ = res.Body.Close()
		if got := strings.TrimSpace(text.String()); res.StatusCode != http.StatusBadRequest || got != want {
			t.Errorf("%.20q: %d %s, want %s", body, res.StatusCode, got, want)
		}
	}
	if res := must.Get(a.client.Get(a.url))(t); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %s", res.Status)
	}
}

// Some bytes of JSON are many more once they are decoded. What has too many things in it is not
// decoded, whoever asks; the API server creates the pod as it is.
func TestAFewBytesDoNotBecomeMany(t *testing.T) {
	review := func(pod string) string {
		return `{"request": {"uid": "u", "operation": "CREATE", "resource": {"version": "v1", "resource": "pods"}, "namespace": "shop", "object": ` + pod + `}}`
	}
	containers := func(n int) string {
		return `{"spec": {"containers": [` + strings.Repeat("{},", n-1) + "{}]}}"
	}
	c := Config{Created: sizes, Log: slog.New(slog.DiscardHandler), places: make(chan struct{}, atOnce)}
	for name, body := range map[string]string{
		"containers":         review(containers(1_000_000)),
		"as many as may be":  review(containers(maxCommas - 10)),
		"of the review":      `{"request": {"userInfo": {"groups": [` + strings.Repeat(`"",`, 1_000_000) + `""]}}}`,
		"annotations":        review(`{"metadata": {"annotations": {` + strings.Repeat(`"":"",`, 500_000) + `"":""}}}`),
		"much in few things": review(`{"metadata": {"annotations": {"a": "` + strings.Repeat("x", 3_000_000) + `"}}}`),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtimes.MemStats
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body))
			runtimes.ReadMemStats(&before)
			c.answer(w, r)
			runtimes.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got >= 64<<20 {
				t.Errorf("%d MiB are allocated for %d bytes", got>>20, len(body))
			}
			if w.Code != http.StatusOK && (w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "must have at most")) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
}

// A comma in a value is a letter, and what is refused is logged: once a minute, with how many were.
func TestCommasInValuesAreLettersAndRefusalsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := Config{Created: sizes, Log: slog.New(slog.NewTextHandler(&log, nil)), places: make(chan struct{}, atOnce)}
		ask := func(value string) int {
			w := httptest.NewRecorder()
			c.answer(w, httptest.NewRequest(http.MethodPost, Path, strings.NewReader(`{"request": {"uid": "u", "userInfo": {"groups": [`+value+`"",""]}}}`)))
			return w.Code
		}
		if code := ask(`"\\` + strings.Repeat(",", 2*maxCommas) + `\"` + strings.Repeat(",", 2*maxCommas) + `",`); code != http.StatusOK || log.Len() > 0 {
			t.Errorf("a long value: %d, logged %s", code, &log)
		}
		many := strings.Repeat(`"\\",`, maxCommas)
		for range 3 {
			if code := ask(many); code != http.StatusBadRequest {
				t.Errorf("many values: %d", code)
			}
		}
		c.refusing.Lock() // under which it is logged
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "must have at most 20000 commas outside of strings, has 20002") || !strings.Contains(text, "refused=1") {
			t.Errorf("at first it logs %s", text)
		}
		log.Reset()
		c.refusing.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "refused=2") {
			t.Errorf("a minute later it logs %s", &log)
		}
	})
}

// Few questions are read at once. A further one waits a moment, and the pod is created as it is.
func TestFewQuestionsAreReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Config{Created: sizes, Log: slog.New(slog.DiscardHandler), places: make(chan struct{}, atOnce)}
		ask := func(body io.Reader) int {
			w := httptest.NewRecorder()
			c.answer(w, httptest.NewRequest(http.MethodPost, Path, body))
			return w.Code
		}
		silent, end := io.Pipe()
		for range atOnce {
			go ask(silent)
		}
		synctest.Wait()
		const question = `{"request": {"uid": "u"}}`
		start := time.Now()
		if code := ask(strings.NewReader(question)); code != http.StatusServiceUnavailable || time.Since(start) != waits {
			t.Errorf("%d after %s", code, time.Since(start))
		}
		_ = end.Close()
		if code := ask(strings.NewReader(question)); code != http.StatusOK {
			t.Errorf("%d with a place", code)
		}
	})
}

// A question that does not come gives its place up, before others have waited in vain for long.
func TestASilentQuestionEnds(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	silent, end := io.Pipe()
	defer time.AfterFunc(patience, func() { _ = end.Close() }).Stop() // which the client waits for
	start := time.Now()
	res, err := a.client.Post(a.url, "application/json", silent)
	if err == nil {
		_ = res.Body.Close()
	}
	if took := time.Since(start); took > patience-time.Second {
		t.Errorf("it had its place for %s", took)
	}
}

// A rotated certificate serves at the next connection; one that cannot be used leaves the last one
// in force.
func TestCertificatesAreRotated(t *testing.T) {
	a := newServer(t)
	serial := func() int64 {
		res := must.Get(a.client.Get(a.url))(t)
		_ = res.Body.Close()
		return res.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 2 {
		t.Errorf("number %d", got)
	}
	fresh, key := a.signs.certificate(t, 3)
	a.files.put(fresh, a.files.key) // half of it is written
	if got := serial(); got != 2 {
		t.Errorf("between: number %d", got)
	}
	a.files.put(nil, nil)
	if got := serial(); got != 2 {
		t.Errorf("without files: number %d", got)
	}
	a.files.put(fresh, key)
	if got := serial(); got != 3 {
		t.Errorf("after: number %d", got)
	}
}

func TestACertificateThatCannotServeIsRefusedAtTheStart(t *testing.T) {
	signs := newAuthority(t)
	certificate, key := signs.certificate(t, 2)
	_, other := signs.certificate(t, 3)
	for _, c := range []struct {
		certificate, key []byte
		want             string
	}{
		{certificate, key, ""},
		{nil, key, "certificate: must be a file that can be read: no such file"},
		{certificate, nil, "key: must be a file that can be read: no such file"},
		{certificate, other, "key: must be the private key of certificate, both in PEM, was not: tls: private key does not match public key"},
	} {
		f := &files{}
		f.put(c.certificate, c.key)
		got := ""
		if err := (&Config{Certificate: f.read(&f.certificate), Key: f.read(&f.key)}).Check(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
