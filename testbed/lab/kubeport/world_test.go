//go:build lab

package kubeport

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// world is a control plane, and what a test does to it.
type world struct {
	*testing.T
	lab    *lab.Lab
	client kubernetes.Interface
	any    dynamic.Interface
	names  meta.ResettableRESTMapper
}

// newWorld is a control plane with our kinds.
func newWorld(t *testing.T, plane lab.ControlPlane) *world {
	t.Helper()
	w := bareWorld(t, plane)
	w.install()
	return w
}

// bareWorld is one that does not know our kinds.
func bareWorld(t *testing.T, plane lab.ControlPlane) *world {
	t.Helper()
	t.Parallel() // each has a lab of its own, and waits most of the time
	// These nodes have no kubelet that reports them alive.
	plane.ControllerManagerArgs = append(plane.ControllerManagerArgs, "--node-monitor-grace-period=1h")
	l := labtest.Up(t, lab.Config{ControlPlane: plane})
	w := &world{T: t, lab: l, client: kubernetes.NewForConfigOrDie(l.REST()), any: dynamic.NewForConfigOrDie(l.REST())}
	w.names = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(w.client.Discovery()))
	w.make(`{apiVersion: v1, kind: Namespace, metadata: {name: shop}}`)
	w.make(`{apiVersion: v1, kind: Namespace, metadata: {name: plimsoll}}`)
	w.allow(kube.Needs(kube.Active))
	return w
}

// install makes our kinds.
func (w *world) install() {
	w.Helper()
	files, err := filepath.Glob("../../../deploy/crds/*.yaml")
	if err != nil || len(files) != 3 {
		w.Fatalf("the files of our kinds: %v, %v", files, err)
	}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(w)
		w.make(string(text))
	}
	w.kind("plimsoll.dev", "v1alpha1", "WorkloadAutoscaler")
	w.kind("plimsoll.dev", "v1alpha1", "VMPool")
	w.kind("plimsoll.dev", "v1alpha1", "PriceBook")
}

// The users that ports speak as. They have the rights that are needed and no others.
const (
	user      = "plimsoll"
	otherUser = "plimsoll-other"
)

// allow gives the ports' users the rights that are said to be needed.
func (w *world) allow(needs []kube.Need) {
	w.Helper()
	var everywhere, own []map[string]any
	for _, n := range needs {
		rule := map[string]any{"apiGroups": []string{n.Group}, "resources": []string{n.Resource}, "verbs": []string{n.Verb}}
		if n.Own {
			own = append(own, rule)
		} else {
			everywhere = append(everywhere, rule)
		}
	}
	text := func(o any) string {
		b := must.Get(json.Marshal(o))(w)
		return string(b)
	}
	const subjects = `[{kind: User, name: ` + user + `}, {kind: User, name: ` + otherUser + `}]`
	const group = `apiVersion: rbac.authorization.k8s.io/v1`
	w.make(`{` + group + `, kind: ClusterRole, metadata: {name: plimsoll}, rules: ` + text(everywhere) + `}`)
	w.make(`{` + group + `, kind: Role, metadata: {name: plimsoll, namespace: plimsoll}, rules: ` + text(own) + `}`)
	w.make(`{` + group + `, kind: ClusterRoleBinding, metadata: {name: plimsoll}, subjects: ` + subjects + `, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: plimsoll}}`)
	w.make(`{` + group + `, kind: RoleBinding, metadata: {name: plimsoll, namespace: plimsoll}, subjects: ` + subjects + `, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: plimsoll}}`)
}

// as is a connection by which a user speaks who has only his own rights.
func as(cfg *rest.Config, name string) *rest.Config {
	cfg.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	return cfg
}

// kind waits until the API server serves a kind.
func (w *world) kind(group, version, kind string) {
	w.Helper()
	w.until(kind, func(context.Context) error {
		w.names.Reset()
		_, err := w.names.RESTMapping(schema.GroupKind{Group: group, Kind: kind}, version)
		return err
	})
}

// resource finds where an object of YAML belongs.
func (w *world) resource(text string) (dynamic.ResourceInterface, *unstructured.Unstructured) {
	w.Helper()
	var o unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		w.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	gvk := o.GroupVersionKind()
	mapping := must.Get(w.names.RESTMapping(gvk.GroupKind(), gvk.Version))(w)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if o.GetNamespace() == "" {
			o.SetNamespace("shop")
		}
		return w.any.Resource(mapping.Resource).Namespace(o.GetNamespace()), &o
	}
	return w.any.Resource(mapping.Resource), &o
}

// make creates an object, and sets its status if it has one.
func (w *world) make(text string) *unstructured.Unstructured {
	w.Helper()
	where, o := w.resource(text)
	made, err := where.Create(w.Context(), o, metav1.CreateOptions{})
	if err != nil {
		w.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	if status, ok := o.Object["status"]; ok {
		body, err := json.Marshal(map[string]any{"status": status})
		if err != nil {
			w.Fatal(err)
		}
		if made, err = where.Patch(w.Context(), o.GetName(), types.MergePatchType, body, metav1.PatchOptions{}, "status"); err != nil {
			w.Fatalf("status of %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	return made
}

// node makes a node that is ready, with a machine of ours behind it if it has a pool.
func (w *world) node(name, pool string) {
	w.Helper()
	labels := "{}"
	if pool != "" {
		labels = "{plimsoll.dev/pool: " + pool + "}"
	}
	w.make(fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %s, labels: %s},
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}, capacity: {cpu: "4", memory: 8Gi, pods: "110"},
    conditions: [{type: Ready, status: "True"}]}}`, name, labels))
	// The controllers take it for not ready until they have seen it once.
	w.until("node "+name+" has no taints", func(ctx context.Context) error {
		n, err := w.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(n.Spec.Taints) > 0 {
			err = fmt.Errorf("has %v", n.Spec.Taints)
		}
		return err
	})
}

// deployment makes one whose pods ask for 100m.
func (w *world) deployment(name string, replicas int) {
	w.Helper()
	w.make(fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s}, spec: {replicas: %[2]d,
  selector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}}, spec: %[3]s}}}`, name, replicas, podSpec("100m")))
}

func podSpec(cpu string) string {
	return `{containers: [{name: main, image: none, resources: {requests: {cpu: ` + cpu + `, memory: 64Mi}}}]}`
}

// autoscaler makes one in a mode.
func (w *world) autoscaler(name, apiVersion, kind, target, mode string) {
	w.Helper()
	w.make(fmt.Sprintf(`{apiVersion: plimsoll.dev/v1alpha1, kind: WorkloadAutoscaler, metadata: {name: %s},
  spec: {scaleTargetRef: {apiVersion: %s, kind: %s, name: %s}, policy: HPA, mode: %s, maxReplicas: 50}}`, name, apiVersion, kind, target, mode))
}

// cluster makes a port and runs it for as long as the test lasts.
func (w *world) cluster(cfg kube.Config) *kube.Cluster {
	w.Helper()
	cfg.REST, cfg.Namespace, cfg.Lease = as(w.lab.REST(), user), "plimsoll", "plimsoll"
	c := must.Get(kube.New(cfg))(w)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("running the port: %v", err)
		}
	})
	w.until("there is a picture", func(ctx context.Context) error { return c.Synced(ctx) })
	return c
}

// leader makes a port that leads.
func (w *world) leader() *kube.Cluster {
	w.Helper()
	c := w.cluster(kube.Config{Mode: kube.Active})
	w.lead(c, "leader")
	return c
}

// lead has a port lead until the test ends.
func (w *world) lead(c *kube.Cluster, identity string) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	led, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- c.Lead(ctx, identity, func(ctx context.Context) { close(led); <-ctx.Done() })
	}()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("leading: %v", err)
		}
	})
	select {
	case <-led:
	case <-time.After(2 * time.Minute):
		w.Fatalf("%s does not lead", identity)
	}
}

// until waits for something to be so.
func (w *world) until(what string, ask func(context.Context) error) {
	w.Helper()
	labtest.Until(w.T, what, 20*time.Millisecond, ask)
}

// sees waits until the port observes what a test is about.
func (w *world) sees(c *kube.Cluster, what string, ok func(*loop.ClusterState) bool) loop.ClusterState {
	w.Helper()
	var state loop.ClusterState
	w.until(what, func(ctx context.Context) (err error) {
		if state, err = c.Observe(ctx); err != nil || ok(&state) {
			return err
		}
		return fmt.Errorf("saw %s", brief(&state))
	})
	return state
}

func brief(s *loop.ClusterState) string {
	text, _ := json.Marshal(map[string]any{"nodes": len(s.Nodes), "pods": len(s.Pods), "replicas": s.Replicas, "budgets": s.Budgets})
	return string(text)
}

// bound waits until all pods of an app are on nodes, and ready by the kubelet that there is not.
func (w *world) bound(app string, count int) []corev1.Pod {
	w.Helper()
	var list *corev1.PodList
	w.until("pods of "+app+" are bound", func(ctx context.Context) (err error) {
		list, err = w.client.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return err
		}
		n := 0
		for i := range list.Items {
			if list.Items[i].Spec.NodeName != "" && list.Items[i].DeletionTimestamp == nil {
				n++
			}
		}
		if n != count {
			return fmt.Errorf("%d of %d: %s", n, count, w.pods(ctx))
		}
		return nil
	})
	return list.Items
}

// pods lists all pods with what the scheduler says of them.
func (w *world) pods(ctx context.Context) string {
	list, err := w.client.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	text := ""
	for i := range list.Items {
		p := &list.Items[i]
		text += fmt.Sprintf("\n%s on %q, nominated to %q, goes %v", p.Name, p.Spec.NodeName, p.Status.NominatedNodeName, p.DeletionTimestamp)
		for _, c := range p.Status.Conditions {
			text += fmt.Sprintf("; %s %s %s", c.Type, c.Status, c.Message)
		}
	}
	return text
}

// ready plays the kubelet for a pod.
func (w *world) ready(p *corev1.Pod) {
	w.Helper()
	p.Status.Phase = corev1.PodRunning
	now := metav1.Now()
	p.Status.StartTime = &now
	for _, c := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	if _, err := w.client.CoreV1().Pods(p.Namespace).UpdateStatus(w.Context(), p, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// decode reads what was got as a map.
func decode(t *testing.T, from map[string]any, to any) {
	t.Helper()
	text := must.Get(json.Marshal(from))(t)
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatal(err)
	}
}
