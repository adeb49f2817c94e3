package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/prometheus/fakeprom"
)

// kubeAPI is a Kubernetes API that lists what a test states, page by page, and shows and patches
// objects of Plimsoll's. It refuses everything else.
type kubeAPI struct {
	objects   map[string][]unstructured.Unstructured // by path
	forbidden []string                               // resources
	// The most that one answer holds; 0 is what is asked for.
	page int
}

// kubePaths are where kinds are listed. Kinds of Plimsoll's are there if one of them is.
var kubePaths = map[string]string{
	"ConfigMap": "/api/v1/configmaps", "Node": "/api/v1/nodes", "Pod": "/api/v1/pods", "Namespace": "/api/v1/namespaces", "PersistentVolume": "/api/v1/persistentvolumes",
	"PersistentVolumeClaim": "/api/v1/persistentvolumeclaims", "LimitRange": "/api/v1/limitranges",
	"StorageClass": "/apis/storage.k8s.io/v1/storageclasses", "CSINode": "/apis/storage.k8s.io/v1/csinodes",
	"ResourceClaim": "/apis/resource.k8s.io/v1/resourceclaims", "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/resourceclaimtemplates",
	"ResourceSlice":       "/apis/resource.k8s.io/v1/resourceslices",
	"PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets", "ReplicaSet": "/apis/apps/v1/replicasets",
	"Deployment": "/apis/apps/v1/deployments", "StatefulSet": "/apis/apps/v1/statefulsets", "DaemonSet": "/apis/apps/v1/daemonsets",
	"VMPool": "/apis/plimsoll.dev/v1alpha1/vmpools", "PriceBook": "/apis/plimsoll.dev/v1alpha1/pricebooks",
	"WorkloadAutoscaler": "/apis/plimsoll.dev/v1alpha1/workloadautoscalers",
	"ScalingProposal":    "/apis/plimsoll.dev/v1alpha1/scalingproposals",
	"PodMetrics":         "/apis/metrics.k8s.io/v1beta1/pods",
	"CapacityBuffer":     "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers", "PodTemplate": "/api/v1/podtemplates",
}

func newKubeAPI(manifests string) (*kubeAPI, error) {
	k := &kubeAPI{objects: map[string][]unstructured.Unstructured{}}
	for _, path := range kubePaths {
		if !strings.Contains(path, "plimsoll.dev") {
			k.objects[path] = nil
		}
	}
	for text := range strings.SplitSeq(manifests, "\n---\n") {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			return nil, err
		}
		path, ok := kubePaths[o.GetKind()]
		if !ok {
			return nil, fmt.Errorf("a %q cannot be listed here", o.GetKind())
		}
		for kind, path := range kubePaths { // one CRD does not come alone
			if _, there := k.objects[path]; !there && strings.Contains(kubePaths[o.GetKind()], "plimsoll.dev") {
				k.objects[kubePaths[kind]] = nil
			}
		}
		k.objects[path] = append(k.objects[path], o)
	}
	return k, nil
}

// ServeHTTP answers lists as the API server does.
func (k *kubeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	path, _ := everywhere(r.URL.Path)
	all, ok := k.objects[path]
	switch {
	case r.Header.Get("Authorization") == "Bearer secret" && k.ours(r.URL.Path) != nil:
		k.single(w, r, k.ours(r.URL.Path))
	case r.Method != http.MethodGet:
		status(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, r.Method+" was not expected")
	case r.Header.Get("Authorization") != "Bearer secret":
		status(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	case slices.Contains(k.forbidden, resource):
		status(w, http.StatusForbidden, metav1.StatusReasonForbidden, resource+` is forbidden: User "reader" cannot list resource "`+resource+`" at the cluster scope`)
	case !ok && k.knows(r.URL.Path):
		status(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%q not found", resource))
	case !ok: // a kind that is not installed is no Status
		http.NotFound(w, r)
	default:
		k.list(w, r, all)
	}
}

// knows reports whether a path is that of an object, which is not there, of a kind that is.
func (k *kubeAPI) knows(path string) bool {
	list, _ := everywhere(path[:strings.LastIndex(path, "/")])
	_, known := k.objects[list]
	return known
}

// everywhere is the path that lists in all namespaces what another lists in one.
func everywhere(path string) (whole, namespace string) {
	before, within, one := strings.Cut(path, "/namespaces/")
	if !one {
		return path, ""
	}
	namespace, resource, _ := strings.Cut(within, "/")
	return before + "/" + resource, namespace
}

// ours is the object at a path of those that are asked for by name, Plimsoll's and ConfigMaps, or
// nil.
func (k *kubeAPI) ours(path string) *unstructured.Unstructured {
	for kind, all := range kubePaths {
		for i, o := range k.objects[all] {
			at := all[:strings.LastIndex(all, "/")]
			if o.GetNamespace() != "" {
				at += "/namespaces/" + o.GetNamespace()
			}
			if (strings.Contains(all, "plimsoll.dev") || kind == "ConfigMap") && path == at+all[strings.LastIndex(all, "/"):]+"/"+o.GetName() && kind == o.GetKind() {
				return &k.objects[all][i]
			}
		}
	}
	return nil
}

// single shows an object, or merges a change into it.
func (k *kubeAPI) single(w http.ResponseWriter, r *http.Request, o *unstructured.Unstructured) {
	var change map[string]any
	switch {
	case r.Method == http.MethodGet:
	case r.Method != http.MethodPatch || r.Header.Get("Content-Type") != "application/merge-patch+json" || json.NewDecoder(r.Body).Decode(&change) != nil:
		status(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, r.Method+" was not expected")
		return
	}
	merge(o.Object, change)
	_ = json.NewEncoder(w).Encode(o.Object)
}

// merge merges a change into an object, as RFC 7386 has it.
func merge(into, change map[string]any) {
	for key, value := range change {
		inner, nested := value.(map[string]any)
		switch there, is := into[key].(map[string]any); {
		case value == nil:
			delete(into, key)
		case nested && is:
			merge(there, inner)
		case nested:
			there = map[string]any{}
			merge(there, inner)
			into[key] = there
		default:
			into[key] = value
		}
	}
}

func (k *kubeAPI) list(w http.ResponseWriter, r *http.Request, all []unstructured.Unstructured) {
	selector, err := fields.ParseSelector(r.FormValue("fieldSelector"))
	if err != nil {
		status(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	at, namespace := everywhere(r.URL.Path)
	all = slices.DeleteFunc(slices.Clone(all), func(o unstructured.Unstructured) bool {
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		return !selector.Matches(fields.Set{"status.phase": phase}) || namespace != "" && o.GetNamespace() != namespace
	})
	from, _ := strconv.Atoi(r.FormValue("continue"))
	most, _ := strconv.Atoi(r.FormValue("limit"))
	if k.page > 0 {
		most = min(most, k.page)
	}
	to, more := len(all), ""
	if most > 0 && from+most < to {
		to = from + most
		more = strconv.Itoa(to)
	}
	items := []any{}
	for _, o := range all[from:to] {
		items = append(items, o.Object)
	}
	kind := ""
	for k, path := range kubePaths {
		if path == at {
			kind = k + "List"
		}
	}
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		kind = "PartialObjectMetadataList"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": kind, "apiVersion": apiVersion(at, kind), "metadata": map[string]any{"continue": more}, "items": items})
}

func apiVersion(path, kind string) string {
	if kind == "PartialObjectMetadataList" {
		return "meta.k8s.io/v1"
	}
	words := strings.Split(strings.Trim(path, "/"), "/")
	return strings.Join(words[1:len(words)-1], "/")
}

func status(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

// serveKube serves the objects of a file and writes a kubeconfig: kube FILE KUBECONFIG
// [forbidden]...
func serveKube(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: kube file kubeconfig [forbidden resource]...")
	}
	k, err := newKubeAPI(ts.ReadFile(args[0]))
	ts.Check(err)
	k.forbidden, k.page = args[2:], 2
	server := httptest.NewTLSServer(k) // over plain HTTP clients send no token
	ts.Defer(server.Close)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), kubeconfigOf(server), 0o600))
}

// kubeconfigOf leads to a server, and with other contexts nowhere, or there with a wrong token.
func kubeconfigOf(server *httptest.Server) []byte {
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: home,
users: [{name: reader, user: {token: secret}}, {name: stranger, user: {token: wrong}}],
contexts: [{name: home, context: {cluster: home, user: reader}}, {name: stranger, context: {cluster: home, user: stranger}}, {name: away, context: {cluster: away, user: reader}}],
clusters: [{name: home, cluster: {server: %q, certificate-authority-data: %s}}, {name: away, cluster: {server: "https://127.0.0.1:1"}}]}`, server.URL, ca)
}

// servePrometheus serves series from a file, a line each: how long ago they began and ended, the
// value, and name{labels}: 24h 0s 0.5 plimsoll_cost_known{}. The script finds it under PROMETHEUS.
func servePrometheus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: prometheus file")
	}
	now := time.Now()
	var store []fakeprom.Series
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(words) < 4 {
			continue
		}
		begun, err := time.ParseDuration(words[0])
		ts.Check(err)
		ended, err := time.ParseDuration(words[1])
		ts.Check(err)
		value, err := strconv.ParseFloat(words[2], 64)
		ts.Check(err)
		from, to := now.Add(-begun), now.Add(-ended)
		store = append(store, fakeprom.Series{Text: words[3], At: func(at time.Time) (float64, bool) {
			return value, !at.Before(from) && (ended == 0 || at.Before(to))
		}})
	}
	server := httptest.NewServer(fakeprom.Handler(store))
	ts.Defer(server.Close)
	ts.Setenv("PROMETHEUS", server.URL)
}
