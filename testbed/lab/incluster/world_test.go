//go:build lab

package incluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
	"github.com/plimsoll/plimsoll/testbed/must"
)

const root = "../../.."

// world is a lab with our kinds in it, and the programs of ours that run.
type world struct {
	*testing.T
	lab      *lab.Lab
	machines *machines.Part
	site     settings.Site
	client   kubernetes.Interface
	any      dynamic.Interface
	names    meta.ResettableRESTMapper
	binary   string
	env      []string // of the programs of ours, added to this process's
	began    time.Time
	children int
}

// newWorld brings a lab up whose machines take some seconds.
func newWorld(t *testing.T, parts ...lab.Part) *world {
	t.Helper()
	return newWorldOn(t, &machines.Part{Hosts: 2, Speed: 10, Seed: 1}, parts...)
}

func newWorldOn(t *testing.T, part *machines.Part, parts ...lab.Part) *world {
	t.Helper()
	w := newWorldWithout(t, part, parts...)
	w.install(labtest.Program(t), root, 4)
	return w
}

// newWorldWithout brings up a lab that has no kinds and no program of ours yet.
func newWorldWithout(t *testing.T, part *machines.Part, parts ...lab.Part) *world {
	t.Helper()
	t.Parallel() // each has a lab of its own, and waits most of the time
	w := &world{T: t, machines: part}
	w.machines.Site = func(s *settings.Site) { w.site = *s }
	w.lab = labtest.Up(t, lab.Config{Parts: append([]lab.Part{&lab.KWOK{}, w.machines}, parts...)})
	w.client, w.any = kubernetes.NewForConfigOrDie(w.lab.REST()), dynamic.NewForConfigOrDie(w.lab.REST())
	w.names = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(w.client.Discovery()))
	w.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: plimsoll}}`)
	w.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: shop}}`)
	t.Cleanup(w.logObjects)
	w.began = time.Now()
	return w
}

// install makes a program the one that start runs, and applies the kinds of its checkout.
func (w *world) install(program, checkout string, kinds int) {
	w.Helper()
	w.binary = program
	files, err := filepath.Glob(filepath.Join(checkout, "deploy/crds/*.yaml"))
	if err != nil || len(files) != kinds {
		w.Fatalf("the files of our kinds: %v, %v", files, err)
	}
	for _, file := range files {
		w.apply(string(must.Get(os.ReadFile(file))(w)))
	}
	for _, kind := range []string{"WorkloadAutoscaler", "VMPool", "PriceBook"} {
		w.until("the API server serves "+kind, func() bool {
			w.names.Reset()
			_, err := w.names.RESTMapping(metav1GroupKind(kind), "v1alpha1")
			return err == nil
		})
	}
}

// logObjects logs the status of our objects when a test has failed.
func (w *world) logObjects() {
	if !w.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, resource := range []string{"workloadautoscalers", "vmpools"} {
		list, err := w.any.Resource(v1alpha1.GroupVersion.WithResource(resource)).List(ctx, metav1.ListOptions{})
		if err != nil {
			w.Log(err)
			continue
		}
		for _, o := range list.Items {
			text, err := yaml.Marshal(o.Object["status"])
			w.Logf("%s %s: %v\n%s", o.GetKind(), o.GetName(), err, text)
		}
	}
	w.logCluster(ctx)
}

// logCluster logs how nodes and pods were.
func (w *world) logCluster(ctx context.Context) {
	nodes, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		w.Log(err)
		return
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		w.Logf("node %s: cordoned %t, labels %v, taints %v, conditions %v", n.Name, n.Spec.Unschedulable, n.Labels, n.Spec.Taints, n.Status.Conditions)
	}
	pods, err := w.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		w.Log(err)
		return
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		w.Logf("pod %s: on %q, %s, deleted %v, conditions %v", p.Name, p.Spec.NodeName, p.Status.Phase, p.DeletionTimestamp, p.Status.Conditions)
	}
}

func metav1GroupKind(kind string) (gk struct{ Group, Kind string }) {
	gk.Group, gk.Kind = "plimsoll.dev", kind
	return gk
}

// at is where objects of a manifest's kind are.
func (w *world) at(text string) (dynamic.ResourceInterface, *unstructured.Unstructured) {
	w.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		w.Fatal(err)
	}
	gvk := o.GroupVersionKind()
	mapping := must.Get(w.names.RESTMapping(gvk.GroupKind(), gvk.Version))(w)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if o.GetNamespace() == "" {
			o.SetNamespace("shop")
		}
		return w.any.Resource(mapping.Resource).Namespace(o.GetNamespace()), o
	}
	return w.any.Resource(mapping.Resource), o
}

// apply makes an object what a manifest says, as kubectl apply does.
func (w *world) apply(text string) {
	w.Helper()
	where, o := w.at(text)
	if _, err := where.Apply(w.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "kubectl", Force: true}); err != nil {
		w.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

// delete deletes an object.
func (w *world) delete(text string) {
	w.Helper()
	where, o := w.at(text)
	if err := where.Delete(w.Context(), o.GetName(), metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
}

// pool makes a VMPool of at most 16 machines with two cores, with further keys.
func (w *world) pool(name, more string) {
	w.Helper()
	w.poolUpTo(name, 16, more)
}

func (w *world) poolUpTo(name string, most int, more string) {
	w.Helper()
	w.poolOf(name, most, "5000, last: 5199", "{name: small, cpu: 2, memory: 8GiB, disk: 20GiB}", more)
}

func (w *world) poolOf(name string, most int, vmids, shapes, more string) {
	w.Helper()
	w.apply(fmt.Sprintf(`
apiVersion: plimsoll.dev/v1alpha1
kind: VMPool
metadata: {name: %s}
spec:
  min: 0
  max: %d
  shapes: [%s]
  template: {vmid: 9000}
  pvePool: plimsoll
  vmids: {first: %s}
  cooldown: 1m
  region: lab
  guest: {agent: true}
  iso: {storage: discs}
  reserved: {cpu: "0.2", memory: 100MiB}
  join: {kind: rke2, servers: [rke2.lab.internal], tokenFile: %s, topologyLabels: true, providerID: {scheme: uuid}, kubeletArgs: [system-reserved=cpu=200m]}
%s`, name, most, shapes, vmids, w.site.Pools[0].Join.TokenFile, more))
}

// begins starts the program, and waits until it and the pool are ready.
func (w *world) begins(components, settings string) *child {
	w.Helper()
	c := w.start(components, settings)
	w.until("it is ready", func() bool { code, _ := c.get(w, "/readyz"); return code == 200 })
	w.until("the pool is ready", func() bool { return w.condition(poolObject, "Ready") == "True Active" })
	return c
}

// child is a program of ours that runs.
type child struct {
	*exec.Cmd
	user    string // who it is to the API server
	metrics string
	page    string
	log     *os.File
	ended   chan error
}

// quick are settings under which nodes are returned within seconds.
const quick = `
mode: Active
interval: 1s
nodes:
  policy: unneeded
  unneeded:
    scanInterval: 1s
    scaleDownUnneededTime: 3s
    scaleDownDelayAfterAdd: 1s
    scaleDownDelayAfterFailure: 1s
    scaleDownUnreadyTime: 3s
    nodeDeleteDelayAfterTaint: 1s
    maxNodeProvisionTime: 5m
`

// start starts the program with the site, a page, and further settings.
func (w *world) start(components, settings string) *child {
	w.Helper()
	page := must.Get(lab.FreeAddress())(w)
	c := w.startAsIs(components, settings+fmt.Sprintf("\ndashboard: %s\nsignals: {allowedHosts: [{hosts: [127.0.0.1]}]}\n", page))
	c.page = page
	return c
}

// startAsIs is start without the settings that early versions do not know.
func (w *world) startAsIs(components, settings string) *child {
	w.Helper()
	folder := must.Get(os.MkdirTemp(w.ArtifactDir(), "run"))(w)
	site := w.site
	site.Pools = nil
	text := must.Get(yaml.Marshal(site))(w)
	keep := strings.ReplaceAll(string(text), "pools: null\n", "")
	w.children++
	c := &child{user: fmt.Sprintf("plimsoll-%d", w.children), metrics: must.Get(lab.FreeAddress())(w), ended: make(chan error, 1)}
	file := filepath.Join(folder, "plimsoll.yaml")
	if !strings.Contains(settings, "\nstate: ") {
		settings += "\nstate: kubernetes\n"
	}
	all := keep + fmt.Sprintf("\nkubeconfig: %s\nmetrics: %s\nnamespace: plimsoll\njournal: {file: journal.ndjson}\n", w.kubeconfig(folder, c.user), c.metrics) + settings
	if err := os.WriteFile(file, []byte(all), 0o600); err != nil {
		w.Fatal(err)
	}
	c.log = must.Get(os.Create(filepath.Join(folder, "stderr")))(w)
	c.Cmd = exec.Command(w.binary, "run", "--components", components, "--config", file)
	c.Stderr, c.Env = c.log, append(os.Environ(), w.env...)
	if err := c.Start(); err != nil {
		w.Fatal(err)
	}
	go func() { c.ended <- c.Wait() }()
	w.Cleanup(func() {
		c.stop(w)
		if w.Failed() || testing.Verbose() {
			out, _ := os.ReadFile(c.log.Name())
			w.Logf("the program said:\n%s", out)
		}
	})
	return c
}

// kubeconfig is the lab's own, for a user who may do everything and has a name of their own in the
// audit log.
func (w *world) kubeconfig(folder, user string) string {
	w.Helper()
	cfg := must.Get(clientcmd.LoadFromFile(w.lab.Kubeconfig()))(w)
	for _, u := range cfg.AuthInfos {
		u.Impersonate, u.ImpersonateGroups = user, []string{"system:masters"}
	}
	file := filepath.Join(folder, "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, file); err != nil {
		w.Fatal(err)
	}
	return file
}

// write is a write of one of our programs that the API server took.
type write struct {
	User, Verb, What string
	At               time.Time
}

// writes are those in the audit log, in their order.
func (w *world) writes() []write {
	w.Helper()
	f := must.Get(os.Open(w.lab.AuditLog()))(w)
	defer f.Close() //nolint:errcheck // it was read
	var all []write
	for d := json.NewDecoder(f); ; {
		var r struct {
			Verb, Stage              string
			ImpersonatedUser         struct{ Username string }
			ObjectRef                struct{ Resource, Subresource string }
			ResponseStatus           struct{ Code int }
			RequestReceivedTimestamp time.Time
		}
		if err := d.Decode(&r); err != nil { // at the end, or at a line that is being written
			return all
		}
		reads := slices.Contains([]string{"get", "list", "watch"}, r.Verb)
		if !reads && strings.HasPrefix(r.ImpersonatedUser.Username, "plimsoll-") && r.ResponseStatus.Code/100 == 2 {
			what := strings.TrimSuffix(r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/")
			all = append(all, write{r.ImpersonatedUser.Username, r.Verb, what, r.RequestReceivedTimestamp})
		}
	}
}

// leads reports whether a program says that it leads.
func (c *child) leads(w *world) bool {
	_, page := c.get(w, "/metrics")
	return regexp.MustCompile(`\nplimsoll_leader\{component="\w+"\} 1\n`).MatchString(page)
}

// kill ends the program without asking it.
func (c *child) kill() {
	_ = c.Process.Kill()
	<-c.ended //nolint:errcheck // it was killed
	c.ended <- nil
}

// stop asks the program to end, and waits.
func (c *child) stop(w *world) {
	_ = c.Process.Signal(os.Interrupt)
	select {
	case err := <-c.ended:
		c.ended <- err
		if err != nil && !w.Failed() {
			w.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		_ = c.Process.Kill()
		w.Error("it did not end when it was asked to")
	}
}

// get reads one of the program's pages.
func (c *child) get(w *world, page string) (int, string) {
	w.Helper()
	answer, err := http.Get("http://" + c.metrics + page)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

// until waits until something is so, and says how long after the beginning it was.
func (w *world) until(what string, so func() bool) time.Duration {
	w.Helper()
	end := time.Now().Add(15 * time.Minute) // for a machine that is busy with other things
	for !so() {
		if time.Now().After(end) {
			w.Fatalf("it is not so that %s", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
	after := time.Since(w.began)
	if !w.began.IsZero() {
		w.Logf("%6.1fs  %s", after.Seconds(), what)
	}
	return after
}

func (w *world) pods() []corev1.Pod {
	w.Helper()
	list := must.Get(w.client.CoreV1().Pods("shop").List(w.Context(), metav1.ListOptions{}))(w)
	return list.Items
}

// running counts the pods that are Ready.
func (w *world) running() int {
	n := 0
	for _, p := range w.pods() {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
				n++
			}
		}
	}
	return n
}

func (w *world) nodes() []corev1.Node {
	w.Helper()
	list := must.Get(w.client.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{}))(w)
	return list.Items
}

// vms are the machines in the pool's range.
func (w *world) vms() []pvesim.VMState {
	var all []pvesim.VMState
	for _, v := range w.machines.Cluster().Inventory().VMs {
		if w.site.Pools[0].VMIDs.Holds(v.ID) {
			all = append(all, v)
		}
	}
	return all
}

// deployment makes a Deployment whose pods ask for so much.
func (w *world) deployment(name string, replicas int, cpu string) {
	w.Helper()
	w.workload(name, replicas, fmt.Sprintf("containers: [{name: %[1]s, image: %[1]s, resources: {requests: {cpu: %[2]s, memory: 256Mi}}}]", name, cpu))
}

// workload makes a Deployment whose pods have more in their spec.
func (w *world) workload(name string, replicas int, spec string) {
	w.Helper()
	w.apply(fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {terminationGracePeriodSeconds: 1, %[3]s}
`, name, replicas, spec))
}

// condition is a condition of an object, as status and reason.
func (w *world) condition(text, kind string) string {
	w.Helper()
	where, o := w.at(text)
	seen, err := where.Get(w.Context(), o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		w.Fatal(err)
	}
	list, _, err := unstructured.NestedSlice(seen.Object, "status", "conditions")
	if err != nil {
		w.Fatal(err)
	}
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return fmt.Sprintf("%v %v", c["status"], c["reason"])
		}
	}
	return ""
}

// find walks into an object.
func (w *world) find(text string, path ...string) any {
	w.Helper()
	where, o := w.at(text)
	seen := must.Get(where.Get(w.Context(), o.GetName(), metav1.GetOptions{}))(w)
	var v any = seen.Object
	for _, key := range path {
		switch at := v.(type) {
		case map[string]any:
			v = at[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(at) {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
	}
	return v
}

func (w *world) number(text string, path ...string) int64 {
	w.Helper()
	n, _ := w.find(text, path...).(int64)
	return n
}

func (w *world) text(object string, path ...string) string {
	w.Helper()
	s, _ := w.find(object, path...).(string)
	return s
}

// hasEvent reports whether there is an event with a reason.
func (w *world) hasEvent(reason string) bool {
	w.Helper()
	list := must.Get(w.client.EventsV1().Events("").List(w.Context(), metav1.ListOptions{}))(w)
	for _, e := range list.Items {
		if e.Reason == reason {
			return true
		}
	}
	return false
}

func isDisc(v pvesim.VolumeState) bool { return strings.Contains(v.ID, ":iso/") }
