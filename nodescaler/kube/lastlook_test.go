package kube

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// listing is a Kubernetes API that lists what it is made of, two things to a page, and has pods
// selected by their node.
type listing struct {
	items     map[string][]any // by path
	forbidden string
	asked     []string
}

func (s *listing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	path := r.URL.Path
	s.asked = append(s.asked, r.Method+" "+path)
	if s.forbidden != "" && strings.HasSuffix(path, s.forbidden) {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
		return
	}
	items := slices.Clone(s.items[path])
	if of, selected := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "spec.nodeName="); selected {
		items = slices.DeleteFunc(items, func(o any) bool { p, is := o.(*corev1.Pod); return !is || p.Spec.NodeName != of })
	}
	kind := map[string]string{"nodes": "NodeList", "pods": "PodList", "persistentvolumes": "PersistentVolumeList", "persistentvolumeclaims": "PersistentVolumeClaimList"}
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	list := map[string]any{"kind": kind[path[strings.LastIndex(path, "/")+1:]], "apiVersion": "v1", "items": items[from:min(from+2, len(items))]}
	if from+2 < len(items) {
		list["metadata"] = map[string]any{"continue": strconv.Itoa(from + 2)}
	}
	_ = json.NewEncoder(w).Encode(list)
}

func (s *listing) nodes(t *testing.T) *Nodes {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	n := must.Get(NewNodes(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}))(t)
	return n
}

// aListing has three nodes: w-1, what is left over of it, and another's; and a volume on w-1's
// disk.
func aListing(t *testing.T) *listing {
	t.Helper()
	node := func(name, id, uuid string, ready corev1.ConditionStatus) *corev1.Node {
		n := aNode(name, "uid-"+name)
		n.Labels = map[string]string{"kubernetes.io/hostname": name}
		n.Spec.ProviderID, n.Status.NodeInfo.SystemUUID = id, uuid
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		return &n
	}
	yes, now := true, metav1.Now()
	pod := func(name, node string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		if change != nil {
			change(p)
		}
		return p
	}
	v := &corev1.PersistentVolume{}
	must.Do(t, yaml.UnmarshalStrict([]byte(written.LocalPath), v))
	claim := func(namespace, name string, uid types.UID) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid}}
	}
	return &listing{items: map[string][]any{
		"/api/v1/nodes": {
			node("zz-old", "proxmox://r/1", "UUID-1", corev1.ConditionUnknown), node("w-1", "proxmox://r/1", "uuid-1", corev1.ConditionTrue),
			node("w-2", "proxmox://r/2", "uuid-2", corev1.ConditionTrue),
		},
		"/api/v1/pods": {
			pod("web-2", "w-1", nil), pod("web-1", "w-1", nil), pod("away", "w-2", nil),
			pod("done", "w-1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
			pod("failed", "w-1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
			pod("agent", "w-1", func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", Controller: &yes}}
			}),
			pod("mirror", "w-1", func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "w-1", Controller: &yes}}
			}),
			pod("leaving", "w-1", func(p *corev1.Pod) { p.DeletionTimestamp = &now }),
			pod("left", "zz-old", func(p *corev1.Pod) { p.DeletionTimestamp = &now }),
			pod("stuck", "zz-old", nil),
			pod("place", "w-1", func(p *corev1.Pod) {
				low := int32(-10)
				p.Labels, p.Spec.Priority = map[string]string{kept.LabelPlaceholder: "web"}, &low
			}),
		},
		"/api/v1/persistentvolumes":                           {v},
		"/api/v1/namespaces/shop/persistentvolumeclaims":      {claim("shop", "a", "x"), claim("shop", "b", "y"), claim("shop", "data-postgres-0", "claim-uid")},
		"/api/v1/namespaces/elsewhere/persistentvolumeclaims": {},
	}}
}

var wOne = nodescaler.Identity{Name: "w-1", ProviderID: "proxmox://r/1", SystemUUID: "uuid-1", Machine: "w-1"}

func TestLastLookSeesAllNodesOfAMachine(t *testing.T) {
	got := must.Get(aListing(t).nodes(t).Sight(t.Context(), wOne))(t)
	want := nodescaler.Sight{Nodes: []nodescaler.SeenNode{
		{
			Identity: nodescaler.Identity{Name: "w-1", ProviderID: "proxmox://r/1", SystemUUID: "uuid-1"}, UID: "uid-w-1", Ready: true, Open: true,
			Pods: []string{"shop/leaving", "shop/web-1", "shop/web-2"}, LocalClaims: []string{"shop/data-postgres-0"},
		},
		{Identity: nodescaler.Identity{Name: "zz-old", ProviderID: "proxmox://r/1", SystemUUID: "UUID-1"}, UID: "uid-zz-old", Open: true, Pods: []string{"shop/stuck"}},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// A node that is cordoned, or that cluster-autoscaler is about to delete, takes no pods.
func TestLastLookSeesWhichNodesAreOpen(t *testing.T) {
	for name, c := range map[string]struct {
		close func(*corev1.Node)
		want  bool
	}{
		"open": {func(*corev1.Node) {}, true},
		"another taint": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		}, true},
		"cordoned": {func(n *corev1.Node) { n.Spec.Unschedulable = true }, false},
		"to be deleted": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: kept.TaintToBeDeleted, Effect: corev1.TaintEffectNoSchedule}}
		}, false},
		"to be left soon": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "DeletionCandidateOfClusterAutoscaler", Effect: corev1.TaintEffectPreferNoSchedule}}
		}, true},
	} {
		s := aListing(t)
		for _, o := range s.items["/api/v1/nodes"] {
			if n := o.(*corev1.Node); n.Name == "w-1" {
				c.close(n)
			}
		}
		if got := must.Get(s.nodes(t).Sight(t.Context(), wOne))(t); got.Nodes[0].Open != c.want {
			t.Errorf("%s: open %t, want %t", name, got.Nodes[0].Open, c.want)
		}
	}
}

// What the API server lists now counts, and not what it listed before.
func TestLastLookAsksEveryTime(t *testing.T) {
	s := aListing(t)
	n := s.nodes(t)
	for i, pods := range [][]any{s.items["/api/v1/pods"], nil} {
		s.items["/api/v1/pods"] = pods
		if got, err := n.Sight(t.Context(), wOne); err != nil || (len(got.Nodes[0].Pods) > 0) != (i == 0) {
			t.Errorf("look %d: %v, %v", i, got, err)
		}
	}
}

func TestLastLookSeesVolumesOfANodeThatIsGone(t *testing.T) {
	s := aListing(t)
	s.items["/api/v1/nodes"] = s.items["/api/v1/nodes"][2:]
	want := nodescaler.Sight{Nodes: []nodescaler.SeenNode{{Identity: nodescaler.Identity{Name: "w-1"}, LocalClaims: []string{"shop/data-postgres-0"}}}}
	if got, err := s.nodes(t).Sight(t.Context(), wOne); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v %s", err, cmp.Diff(want, got))
	}
}

func TestLastLookKnowsClaimsThatMayBeLost(t *testing.T) {
	s := aListing(t)
	for _, o := range s.items["/api/v1/namespaces/shop/persistentvolumeclaims"] {
		o.(*corev1.PersistentVolumeClaim).Annotations = map[string]string{"plimsoll.dev/safe-to-lose": "true"}
	}
	got, err := s.nodes(t).Sight(t.Context(), wOne)
	if err != nil || len(got.Nodes) != 2 || got.Nodes[0].LocalClaims != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// What may not be read is an error: no answer is no proof that nothing is there.
func TestLastLookThatIsRefusedIsAnError(t *testing.T) {
	for _, what := range []string{"nodes", "pods", "persistentvolumes", "persistentvolumeclaims"} {
		s := aListing(t)
		s.forbidden = "/" + what
		if got, err := s.nodes(t).Sight(t.Context(), wOne); err == nil || !strings.Contains(err.Error(), what) || len(got.Nodes) > 0 {
			t.Errorf("without %s: %+v, %v", what, got, err)
		}
	}
	s := aListing(t)
	s.items["/api/v1/persistentvolumes"] = nil // then no claim is asked for
	if _, err := s.nodes(t).Sight(t.Context(), wOne); err != nil || slices.ContainsFunc(s.asked, func(r string) bool { return strings.Contains(r, "claims") }) {
		t.Errorf("%v, %v of %v", err, s.asked, slices.Collect(maps.Keys(s.items)))
	}
}

// A volume on the machine's disk is seen though its node is gone, has registered anew or has
// another name, and though another node says that it is the one.
func TestVolumesAreSeenThoughTheirNodeLacksTheLabel(t *testing.T) {
	gone := func(s *listing) { s.items["/api/v1/nodes"] = s.items["/api/v1/nodes"][2:] }
	anew := func(s *listing) { s.items["/api/v1/nodes"] = s.items["/api/v1/nodes"][1:] }
	all := func(label, value string) func(s *listing) {
		return func(s *listing) {
			anew(s)
			for _, n := range s.items["/api/v1/nodes"] {
				n.(*corev1.Node).Labels[label] = value
			}
		}
	}
	for _, c := range []struct {
		name, label, value string
		nodes              func(s *listing)
	}{
		{"a driver's label, and no node", "topology.topolvm.io/node", "w-1", gone},
		{"a driver's label that the node does not have yet", "openebs.io/nodename", "w-1", anew},
		{"a driver's label that another node has too", "topology.topolvm.io/node", "w-1", all("topology.topolvm.io/node", "w-1")},
		{"the full name, and no node", "kubernetes.io/hostname", "w-1.example.org", gone},
		{"the full name of a node that has its short one now", "kubernetes.io/hostname", "w-1.example.org", anew},
		{"the short name of a node whose label is the full one now", "kubernetes.io/hostname", "w-1", all("kubernetes.io/hostname", "w-1.example.org")},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := aListing(t)
			v := written.Object[corev1.PersistentVolume](t, written.LocalPath)
			v.Spec.NodeAffinity = written.OnLabel(c.label, c.value)
			s.items["/api/v1/persistentvolumes"] = []any{v}
			c.nodes(s)
			got := must.Get(s.nodes(t).Sight(t.Context(), wOne))(t)
			if !slices.ContainsFunc(got.Nodes, func(n nodescaler.SeenNode) bool { return len(n.LocalClaims) > 0 }) {
				t.Errorf("no claim is seen: %+v", got)
			}
		})
	}
}
