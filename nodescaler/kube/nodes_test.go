package kube

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// cluster serves the nodes' part of the Kubernetes API, as far as it goes here.
type cluster struct {
	nodes    []corev1.Node
	lists    int
	afterGet func()
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, one := strings.CutPrefix(r.URL.Path, "/api/v1/nodes/")
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/api/v1/nodes":
		c.lists++
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		list := corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}}
		to := min(from+limit, len(c.nodes))
		list.Items = c.nodes[from:to]
		if to < len(c.nodes) {
			list.Continue = strconv.Itoa(to)
		}
		_ = json.NewEncoder(w).Encode(list)
	case r.Method == http.MethodGet && one:
		for i := range c.nodes {
			if c.nodes[i].Name == name {
				_ = json.NewEncoder(w).Encode(c.nodes[i])
				if c.afterGet != nil {
					c.afterGet()
				}
				return
			}
		}
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodDelete && one:
		var options metav1.DeleteOptions
		_ = json.NewDecoder(r.Body).Decode(&options)
		for i := range c.nodes {
			if c.nodes[i].Name != name {
				continue
			}
			if options.Preconditions == nil || *options.Preconditions.UID != c.nodes[i].UID {
				refuse(w, http.StatusConflict, metav1.StatusReasonConflict)
				return
			}
			c.nodes = append(c.nodes[:i], c.nodes[i+1:]...)
			_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusSuccess})
			return
		}
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	default:
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
	})
}

func nodesOf(t *testing.T, c *cluster) *Nodes {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	n := must.Get(NewNodes(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}))(t)
	return n
}

func aNode(name, uid string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
}

func TestListReadsWhoNodesAre(t *testing.T) {
	joined := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := aNode("b", "u-b")
	b.CreationTimestamp, b.Labels, b.Spec.ProviderID = metav1.NewTime(joined), map[string]string{"plimsoll.dev/pool": "workers"}, "rke2://b"
	b.Status.NodeInfo.SystemUUID = "4c4c4544"
	b.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	a := aNode("a", "u-a")
	a.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	got := must.Get(nodesOf(t, &cluster{nodes: []corev1.Node{b, a}}).List(t.Context()))(t)
	want := []Node{{Name: "a", UID: "u-a"}, {
		Name: "b", UID: "u-b", ProviderID: "rke2://b", SystemUUID: "4c4c4544", Ready: true, Joined: joined,
		Labels: map[string]string{"plimsoll.dev/pool": "workers"},
	}}
	for i := range got {
		got[i].Joined = got[i].Joined.UTC()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestListReadsEveryPage(t *testing.T) {
	c := &cluster{}
	for i := range 2*copies.Page + 1 {
		c.nodes = append(c.nodes, aNode("n"+strconv.Itoa(i), strconv.Itoa(i)))
	}
	got, err := nodesOf(t, c).List(t.Context())
	if err != nil || len(got) != len(c.nodes) {
		t.Errorf("%d nodes, %v, want %d", len(got), err, len(c.nodes))
	}
}

func TestRemoveTakesOneNodeAndListsNone(t *testing.T) {
	c := &cluster{nodes: []corev1.Node{aNode("a", "1"), aNode("b", "2")}}
	n := nodesOf(t, c)
	if err := n.Remove(t.Context(), "a"); err != nil || len(c.nodes) != 1 || c.nodes[0].Name != "b" {
		t.Errorf("the node: %v, %v are left", err, c.nodes)
	}
	if err := n.Remove(t.Context(), "a"); err != nil {
		t.Errorf("a node that is gone: %v", err)
	}
	if c.lists != 0 {
		t.Errorf("%d lists were asked for", c.lists)
	}
}

func TestRemoveSparesANodeThatComesMeanwhile(t *testing.T) {
	c := &cluster{nodes: []corev1.Node{aNode("a", "old")}}
	c.afterGet = func() { c.nodes[0].UID = "new" }
	if err := nodesOf(t, c).Remove(t.Context(), "a"); err != nil || len(c.nodes) != 1 {
		t.Errorf("%v, %d nodes are left, want 1", err, len(c.nodes))
	}
}

func TestClusterThatDoesNotAnswerIsNotWaitedForLong(t *testing.T) {
	held := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held }))
	defer server.Close()
	defer close(held)
	nodes := must.Get(NewNodes(&rest.Config{Host: server.URL}))(t)
	nodes.patience = 50 * time.Millisecond
	if _, err := nodes.List(t.Context()); err == nil {
		t.Error("listed nodes without an event")
	}
	if err := nodes.Remove(t.Context(), "a"); err == nil {
		t.Error("removed a node without an event")
	}
}
