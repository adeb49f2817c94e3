package kubesim

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kind is a kind of objects that the server has.
type Kind struct {
	Group, Version, Name string
	Resource             string // its name in paths
	ClusterWide          bool
	Status, Scale        bool // it has these subresources
	Custom               bool // it is defined by a CustomResourceDefinition
	more                 []string
}

// id is what the kind is called in this package: like kubectl does, pods or deployments.apps.
func (k *Kind) id() string {
	if k.Group == "" {
		return k.Resource
	}
	return k.Resource + "." + k.Group
}

func (k *Kind) apiVersion() string {
	if k.Group == "" {
		return k.Version
	}
	return k.Group + "/" + k.Version
}

// Builtin returns the kinds of Kubernetes that Plimsoll meets.
func Builtin() []Kind {
	return []Kind{
		{Version: "v1", Name: "Node", Resource: "nodes", ClusterWide: true, Status: true},
		{Version: "v1", Name: "Pod", Resource: "pods", Status: true, more: []string{"eviction", "resize"}},
		{Version: "v1", Name: "Namespace", Resource: "namespaces", ClusterWide: true, Status: true},
		{Version: "v1", Name: "PersistentVolume", Resource: "persistentvolumes", ClusterWide: true, Status: true},
		{Version: "v1", Name: "PersistentVolumeClaim", Resource: "persistentvolumeclaims", Status: true},
		{Group: "storage.k8s.io", Version: "v1", Name: "StorageClass", Resource: "storageclasses", ClusterWide: true},
		{Group: "storage.k8s.io", Version: "v1", Name: "CSINode", Resource: "csinodes", ClusterWide: true},
		{Group: "storage.k8s.io", Version: "v1", Name: "VolumeAttachment", Resource: "volumeattachments", ClusterWide: true, Status: true},
		{Version: "v1", Name: "LimitRange", Resource: "limitranges"},
		{Version: "v1", Name: "PodTemplate", Resource: "podtemplates"},
		{Group: "policy", Version: "v1", Name: "PodDisruptionBudget", Resource: "poddisruptionbudgets", Status: true},
		{Group: "apps", Version: "v1", Name: "ReplicaSet", Resource: "replicasets", Status: true, Scale: true},
		{Group: "apps", Version: "v1", Name: "Deployment", Resource: "deployments", Status: true, Scale: true},
		{Group: "apps", Version: "v1", Name: "StatefulSet", Resource: "statefulsets", Status: true, Scale: true},
		{Group: "apps", Version: "v1", Name: "DaemonSet", Resource: "daemonsets", Status: true},
		{Group: "autoscaling", Version: "v2", Name: "HorizontalPodAutoscaler", Resource: "horizontalpodautoscalers", Status: true},
		{Group: "scheduling.k8s.io", Version: "v1", Name: "PriorityClass", Resource: "priorityclasses", ClusterWide: true},
		{Group: "coordination.k8s.io", Version: "v1", Name: "Lease", Resource: "leases"},
		{Group: "events.k8s.io", Version: "v1", Name: "Event", Resource: "events"},
		{Group: "metrics.k8s.io", Version: "v1beta1", Name: "PodMetrics", Resource: "pods"},
	}
}

// discovered lists the kinds of a group and version, with their subresources.
func (s *Server) discovered(apiVersion string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: apiVersion}
	list.Kind, list.APIVersion = "APIResourceList", "v1"
	for _, id := range slices.Sorted(maps.Keys(s.tables)) {
		k := &s.tables[id].Kind
		if k.apiVersion() != apiVersion {
			continue
		}
		verbs := metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: k.Resource, Namespaced: !k.ClusterWide, Kind: k.Name, Verbs: verbs})
		for _, sub := range k.subresources() {
			r := metav1.APIResource{Name: k.Resource + "/" + sub, Namespaced: !k.ClusterWide, Kind: k.Name, Verbs: metav1.Verbs{"get", "patch", "update"}}
			if sub == "scale" {
				r.Group, r.Version, r.Kind = "autoscaling", "v1", "Scale"
			}
			list.APIResources = append(list.APIResources, r)
		}
	}
	return list
}

func (k *Kind) subresources() []string {
	all := slices.Clone(k.more)
	if k.Status {
		all = append(all, "status")
	}
	if k.Scale {
		all = append(all, "scale")
	}
	return all
}

// request is what a client asks for.
type request struct {
	method          string
	apiVersion      string // of a path below /api or /apis
	table           *table // nil for other paths
	namespace, name string
	sub             string
	path            string
	query           map[string][]string
	body            []byte
	patch           string // the type of a patch
	metadataOnly    bool
}

func (q *request) get(key string) string {
	if all := q.query[key]; len(all) > 0 {
		return all[0]
	}
	return ""
}

func (q *request) watches() bool {
	w := q.get("watch")
	return q.method == "GET" && q.name == "" && (w == "true" || w == "1")
}

func (q *request) writes() bool { return q.method != "GET" }

// key is the name of the object that is meant.
func (q *request) key() string { return keyOf(q.namespace, q.name) }

func keyOf(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// locate reads the path: /api/v1/namespaces/shop/pods/web-1/eviction and the like.
func (s *Server) locate(q *request) {
	parts := strings.Split(strings.Trim(q.path, "/"), "/")
	group := ""
	switch {
	case parts[0] == "api" && len(parts) > 1:
		q.apiVersion, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 2:
		group, q.apiVersion, parts = parts[1], parts[1]+"/"+parts[2], parts[3:]
	default:
		return
	}
	if len(parts) > 2 && parts[0] == "namespaces" && s.tables[id(parts[2], group)] != nil {
		q.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) == 0 {
		return
	}
	t := s.tables[id(parts[0], group)]
	if t == nil || t.apiVersion() != q.apiVersion {
		q.apiVersion = "" // no such kind
		return
	}
	q.table = t
	if len(parts) > 1 {
		q.name = parts[1]
	}
	if len(parts) > 2 {
		q.sub = parts[2]
	}
}

func id(resource, group string) string { return (&Kind{Group: group, Resource: resource}).id() }
