package plane

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

var group = v1beta1.SchemeGroupVersion

// resources serves metrics.k8s.io/v1beta1 as metrics-server does: what the pods and nodes used over
// the last span that was sampled. What has no sample yet is omitted.
func (p *Plane) resources() http.Handler {
	mux := http.NewServeMux()
	base := "/apis/" + group.String()
	mux.HandleFunc("GET /apis", func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, discoverGroups()) })
	mux.HandleFunc("GET /apis/"+group.Group, func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, discoverGroup()) })
	mux.HandleFunc("GET "+base, func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, discoverResources()) })
	for _, health := range []string{"/healthz", "/livez", "/readyz"} {
		mux.HandleFunc("GET "+health, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	}
	mux.HandleFunc("GET "+base+"/nodes", p.listNodes)
	mux.HandleFunc("GET "+base+"/nodes/{name}", p.getNode)
	mux.HandleFunc("GET "+base+"/pods", p.listPods)
	mux.HandleFunc("GET "+base+"/namespaces/{namespace}/pods", p.listPods)
	mux.HandleFunc("GET "+base+"/namespaces/{namespace}/pods/{name}", p.getPod)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, apierrors.NewGenericServerResponse(http.StatusNotFound, strings.ToLower(r.Method), schema.GroupResource{Group: group.Group}, "", r.URL.Path+" is not served", 0, false))
	})
	return mux
}

func discoverGroups() *metav1.APIGroupList {
	return &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{*discoverGroup()}}
}

func discoverGroup() *metav1.APIGroup {
	version := metav1.GroupVersionForDiscovery{GroupVersion: group.String(), Version: group.Version}
	return &metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: group.Group,
		Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
}

func discoverResources() *metav1.APIResourceList {
	verbs := metav1.Verbs{"get", "list"}
	return &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: group.String(),
		APIResources: []metav1.APIResource{
			{Name: "nodes", Kind: "NodeMetrics", Verbs: verbs},
			{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: verbs},
		},
	}
}

func write(w http.ResponseWriter, code int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // to a client that may be gone
}

func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	write(w, int(status.Code), &status)
}

// selection is what a list is limited to.
type selection struct {
	labels labels.Selector
	fields fields.Selector
}

// selected reads it from a request. Of the fields only the names are known.
func selected(r *http.Request) (selection, error) {
	q := r.URL.Query()
	byLabel, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		return selection{}, fmt.Errorf("labelSelector: %w", err)
	}
	byField, err := fields.ParseSelector(q.Get("fieldSelector"))
	if err != nil {
		return selection{}, fmt.Errorf("fieldSelector: %w", err)
	}
	for _, f := range byField.Requirements() {
		if f.Field != "metadata.name" && f.Field != "metadata.namespace" {
			return selection{}, fmt.Errorf("fieldSelector: must be of metadata.name and metadata.namespace, was %q", q.Get("fieldSelector"))
		}
	}
	return selection{byLabel, byField}, nil
}

func (s selection) takes(namespace, name string, own map[string]string) bool {
	return s.labels.Matches(labels.Set(own)) &&
		(s.fields.Empty() || s.fields.Matches(fields.Set{"metadata.name": name, "metadata.namespace": namespace}))
}

func (p *Plane) listNodes(w http.ResponseWriter, r *http.Request) {
	s, err := selected(r)
	if err != nil {
		refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	list := v1beta1.NodeMetricsList{TypeMeta: metav1.TypeMeta{Kind: "NodeMetricsList", APIVersion: group.String()}, Items: []v1beta1.NodeMetrics{}}
	for _, m := range p.nodeMetrics() {
		if s.takes(m.Namespace, m.Name, m.Labels) {
			list.Items = append(list.Items, m)
		}
	}
	write(w, http.StatusOK, &list)
}

func (p *Plane) getNode(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	for _, m := range p.nodeMetrics() {
		if m.Name == name {
			m.TypeMeta = metav1.TypeMeta{Kind: "NodeMetrics", APIVersion: group.String()}
			write(w, http.StatusOK, &m)
			return
		}
	}
	refuse(w, apierrors.NewNotFound(group.WithResource("nodes").GroupResource(), name))
}

func (p *Plane) listPods(w http.ResponseWriter, r *http.Request) {
	s, err := selected(r)
	if err != nil {
		refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	list := v1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{Kind: "PodMetricsList", APIVersion: group.String()}}
	list.Items = p.podMetrics(r.PathValue("namespace"), func(o *observed) bool { return s.takes(o.namespace, o.name, o.labels) })
	write(w, http.StatusOK, &list)
}

func (p *Plane) getPod(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	for _, m := range p.podMetrics(r.PathValue("namespace"), func(o *observed) bool { return o.name == name }) {
		m.TypeMeta = metav1.TypeMeta{Kind: "PodMetrics", APIVersion: group.String()}
		write(w, http.StatusOK, &m)
		return
	}
	refuse(w, apierrors.NewNotFound(group.WithResource("pods").GroupResource(), r.PathValue("namespace")+"/"+name))
}

// nodeMetrics are those of the nodes that have a sample, by name.
func (p *Plane) nodeMetrics() []v1beta1.NodeMetrics {
	p.mu.Lock()
	defer p.mu.Unlock()
	memory := map[string]int64{}
	for pod := range p.all {
		if pod.began {
			memory[pod.obs.node] += pod.obs.memory()
		}
	}
	var all []v1beta1.NodeMetrics
	for _, name := range slices.Sorted(maps.Keys(p.nodes)) {
		if n := p.nodes[name]; n.sample.known() {
			all = append(all, v1beta1.NodeMetrics{
				ObjectMeta: p.meta("", name, n.labels), Timestamp: p.time(n.sample.at), Window: metav1.Duration{Duration: n.sample.span},
				Usage: usage(n.sample.cores, memory[name]),
			})
		}
	}
	return all
}

// sampled is a pod with its sample.
type sampled struct {
	*observed
	sample sample
}

// samples are the pods that have a sample, in one namespace or all, as far as they are taken. What
// is made of them takes its time where there are many, and nothing moves under the lock meanwhile.
func (p *Plane) samples(namespace string, takes func(*observed) bool) []sampled {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []sampled
	for _, pod := range p.pods {
		if pod.sample.known() && !pod.dead && (namespace == "" || namespace == pod.obs.namespace) && takes(pod.obs) {
			all = append(all, sampled{pod.obs, pod.sample})
		}
	}
	return all
}

// podMetrics are those of the pods that are taken, by namespace and name.
func (p *Plane) podMetrics(namespace string, takes func(*observed) bool) []v1beta1.PodMetrics {
	pods := p.samples(namespace, takes)
	slices.SortFunc(pods, func(a, b sampled) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	all := make([]v1beta1.PodMetrics, 0, len(pods))
	for _, pod := range pods {
		m := v1beta1.PodMetrics{
			ObjectMeta: p.meta(pod.namespace, pod.name, pod.labels),
			Timestamp:  p.time(pod.sample.at), Window: metav1.Duration{Duration: pod.sample.span},
		}
		for _, c := range pod.containers {
			cores := 0.0
			if c.name == pod.worker() {
				cores = pod.sample.cores
			}
			m.Containers = append(m.Containers, v1beta1.ContainerMetrics{Name: c.name, Usage: usage(cores, c.memory)})
		}
		all = append(all, m)
	}
	return all
}

func (p *Plane) meta(namespace, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, CreationTimestamp: metav1.NewTime(time.Now())}
}

func (p *Plane) time(at time.Duration) metav1.Time { return metav1.NewTime(p.began.Add(at)) }

// usage is an amount of CPU, to the nano-core as metrics-server gives it, and of memory.
func usage(cores float64, memory int64) corev1.ResourceList {
	cpu := resource.NewScaledQuantity(int64(cores*1e9+0.5), resource.Nano)
	return corev1.ResourceList{corev1.ResourceCPU: *cpu, corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI)}
}

func (o *observed) memory() (bytes int64) {
	for _, c := range o.containers {
		bytes += c.memory
	}
	return bytes
}
