package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/rke2"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// siteText is a site whose workers are the machines of the experiment slo-cost.
const siteText = `
owner: bench
endpoints: [https://pve1:8006]
tokenFile: token
insecure: true
pvePool: bench
template: {vmid: 9000}
iso: {storage: nfs}
vmids: {first: 5000, last: 5019}
network: {first: 10.0.0.10/24, gateway: 10.0.0.1, nameservers: [10.0.0.2]}
rke2: {version: v1.34.1+rke2r1}
control: {cpu: 4, memory: 8Gi, disk: 40Gi}
load: {cpu: 2, memory: 4Gi}
workers:
  shapes: [{name: small, cpu: 2, memory: 7629Mi, disk: 20Gi}]
  start: 1
  max: 16
`

func readSite(t testing.TB, text string) *rke2.Site {
	t.Helper()
	var s rke2.Site
	if err := strict.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// experiment is slo-cost, short.
func experiment(t testing.TB) *testbed.Experiment {
	t.Helper()
	file, err := testbed.File("slo-cost")
	if err != nil {
		t.Fatal(err)
	}
	e := must.Get(testbed.Parse(file))(t)
	if e, err = e.With(testbed.Options{Policies: []string{"slocost-b"}, Users: []int{10}, Trials: 1, Duration: time.Minute}); err != nil {
		t.Fatal(err)
	}
	return e
}

// bed is a cluster that behaves: it has the controllers of Deployments and Jobs, a Plimsoll that
// keeps to its VMPool and scales once in a trial, and a k6. Its API is that of controller-runtime,
// in memory.
type bed struct {
	t       testing.TB
	objects client.WithWatch
	mortal  *mortal

	mu     sync.Mutex
	logs   map[string]*printed // by pod
	pods   int
	steps  int
	spent  pricing.Micros
	began  time.Time // of the load
	grown  bool
	number int // of machines
	site   string
	scans  int // of cluster-autoscaler
	kept   map[string]map[string][]byte
}

// printed is what a pod has printed, and when.
type printed struct {
	lines []string
	times []time.Time
}

func (p *printed) add(at time.Time, line string) {
	p.lines, p.times = append(p.lines, line), append(p.times, at)
}

func newBed(t testing.TB) *bed {
	t.Helper()
	scheme := must.Get(kinds())(t)
	b := &bed{t: t, mortal: &mortal{left: -1}, logs: map[string]*printed{}, kept: map[string]map[string][]byte{}, number: 3, site: siteText}
	b.objects = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&batchv1.Job{}, &appsv1.Deployment{}, &corev1.Pod{}).Build()
	b.must(b.objects.Create(t.Context(), node("load-0", map[string]string{rke2.LoadLabel: "true"})))
	return b
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		b.t.Error(err)
	}
}

func node(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// behave is what the cluster does in each second, until the context is done.
func (b *bed) behave(ctx context.Context) {
	for ctx.Err() == nil {
		b.mu.Lock()
		b.deployments(ctx)
		b.plimsoll(ctx)
		b.autoscaler(ctx)
		b.job(ctx)
		b.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// deployments has as many pods of each as it wants, of its template.
func (b *bed) deployments(ctx context.Context) {
	var all appsv1.DeploymentList
	b.must(b.objects.List(ctx, &all))
	var pods corev1.PodList
	b.must(b.objects.List(ctx, &pods))
	have := map[string]int{}
	for i := range pods.Items {
		p := &pods.Items[i]
		of := p.Annotations["of"]
		if of == "job" {
			continue
		}
		at := slices.IndexFunc(all.Items, func(d appsv1.Deployment) bool { return d.Namespace+"/"+d.Name == of })
		if at < 0 || *all.Items[at].Spec.Replicas <= int32(have[of]) || ended(p) || all.Items[at].Spec.Template.Annotations[attempt] != p.Annotations[attempt] {
			b.must(b.objects.Delete(ctx, p))
			continue
		}
		have[of]++
	}
	for i := range all.Items {
		d := &all.Items[i]
		of := d.Namespace + "/" + d.Name
		for n := have[of]; n < int(*d.Spec.Replicas); n++ {
			b.pod(ctx, d.Namespace, d.Name, of, &d.Spec.Template)
		}
	}
}

func (b *bed) pod(ctx context.Context, namespace, name, of string, like *corev1.PodTemplateSpec) {
	b.pods++
	annotations := map[string]string{"of": of, attempt: like.Annotations[attempt]}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", name, b.pods), Labels: like.Labels, Annotations: annotations, UID: types.UID(fmt.Sprint(b.pods))},
		Spec:       like.Spec,
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
		}},
	}
	b.must(b.objects.Create(ctx, p))
	b.logs[p.Name] = &printed{}
	if name == productName {
		b.steps, b.spent = 0, 0
	}
}

// plimsoll makes a step every five seconds, while it runs.
func (b *bed) plimsoll(ctx context.Context) {
	now := time.Now()
	var pods corev1.PodList
	b.must(b.objects.List(ctx, &pods, client.InNamespace(rke2.ProductNamespace)))
	var pool v1alpha1.VMPool
	var config corev1.ConfigMap
	if len(pods.Items) != 1 || now.Unix()%5 != 0 || b.objects.Get(ctx, client.ObjectKey{Name: "workers"}, &pool) != nil {
		return
	}
	b.must(b.objects.Get(ctx, client.ObjectKey{Namespace: rke2.ProductNamespace, Name: productName}, &config))
	var c struct {
		Nodes    struct{ Policy string }
		Journal  struct{ File string }
		Provider struct{ TLS struct{ ClientCA string } }
	}
	if err := yaml.Unmarshal([]byte(config.Data["config.yaml"]), &c); err != nil || c.Journal.File != "-" {
		b.t.Errorf("Plimsoll is told %q: %v", config.Data["config.yaml"], err)
	}
	if c.Provider.TLS.ClientCA != "" {
		c.Nodes.Policy = "provider"
	}
	b.decides(ctx, &pods.Items[0], &pool, c.Nodes.Policy)
	var step loop.Step
	if c.Nodes.Policy == "unneeded" && int(pool.Spec.Min) < b.number {
		b.number--
	}
	b.workers(ctx)
	step = loop.Step{
		Time: now, Workloads: b.scale(ctx, now, c.Nodes.Policy),
		Observed: loop.Observed{
			Machines: map[nodescaler.Phase]int{nodescaler.Joined: b.number},
			Cost:     loop.Cost{Known: b.steps > 0, Ordered: pricing.RateOf(pricing.Micros(b.number) * 10 * pricing.Unit), Spent: b.spent},
		},
	}
	if len(step.Workloads) > 0 && step.Workloads[0].Decision != nil {
		step.Outcomes = []loop.Outcome{{Action: -1, Workload: step.Workloads[0].Workload}}
	}
	var machines []loop.MachineLoad
	for i := range b.number {
		created := time.Unix(0, 0)
		if i > 0 && b.grown {
			created = b.began.Add(18 * time.Second)
		}
		machines = append(machines, loop.MachineLoad{Name: fmt.Sprint("workers-", i), Phase: nodescaler.Joined, Created: created})
	}
	step.Observed.Hosts = []loop.HostLoad{{Name: "pve1", Machines: machines}}
	b.spent += pricing.RateOf(pricing.Micros(b.number) * 10 * pricing.Unit).For(5 * time.Second)
	b.print(pods.Items[0].Name, now, &step)
}

// print prints a step among other things, now and then in two pieces with something between.
func (b *bed) print(pod string, now time.Time, s *loop.Step) {
	b.steps++
	s.ID = fmt.Sprintf("d-%06d", b.steps)
	if b.steps%4 == 0 {
		s.Problems = []nodescaler.Reason{{Code: "Long", Text: strings.Repeat("x", 2*piece)}}
	}
	text, err := json.Marshal(s)
	b.must(err)
	log := b.logs[pod]
	log.add(now, fmt.Sprintf("time=%s level=INFO msg=step\n", now.Format(time.RFC3339)))
	if b.steps%4 == 0 {
		log.add(now, string(text[:piece])+"time=x level=WARN msg=\"between\"\n")
		log.add(now, string(text[piece:])+"\n")
		return
	}
	log.add(now, string(text)+"\n")
}

// workers are the nodes of the pool.
func (b *bed) workers(ctx context.Context) {
	var nodes corev1.NodeList
	b.must(b.objects.List(ctx, &nodes, client.MatchingLabels{poolLabel: "workers"}))
	for i := b.number; i < len(nodes.Items); i++ {
		b.must(b.objects.Delete(ctx, &nodes.Items[i]))
	}
	for i := len(nodes.Items); i < b.number; i++ {
		b.must(b.objects.Create(ctx, node(fmt.Sprintf("workers-%d", i), map[string]string{poolLabel: "workers"})))
	}
}

// scale scales the workload that has an autoscaler, twenty seconds after the load has begun.
func (b *bed) scale(ctx context.Context, now time.Time, policy string) []loop.WorkloadStep {
	var all v1alpha1.WorkloadAutoscalerList
	b.must(b.objects.List(ctx, &all))
	if len(all.Items) == 0 {
		b.grown = false
		return nil
	}
	a := &all.Items[0]
	if policy != "pending" && policy != "provider" {
		b.t.Errorf("there is an autoscaler while Plimsoll runs with policy %s", policy)
	}
	name := a.Namespace + "/" + a.Name
	var d appsv1.Deployment
	if err := b.objects.Get(ctx, client.ObjectKeyFromObject(a), &d); err != nil {
		b.must(err)
		return nil
	}
	out := loop.WorkloadStep{Workload: name, Replicas: int(*d.Spec.Replicas)}
	if !b.grown && !b.began.IsZero() && now.Sub(b.began) >= 18*time.Second {
		more := int32(3)
		b.grown, d.Spec.Replicas = true, &more
		b.must(b.objects.Update(ctx, &d))
		out.Decision = &podscaler.Decision{Workload: name, From: out.Replicas, To: 3}
		if policy != "provider" {
			b.number++
		}
	}
	return []loop.WorkloadStep{out}
}

// job runs k6, whose users come at two seconds past a step.
func (b *bed) job(ctx context.Context) {
	var job batchv1.Job
	now := time.Now()
	if err := b.objects.Get(ctx, client.ObjectKey{Namespace: "plimsoll-testbed", Name: loadName}, &job); err != nil {
		b.must(err)
		b.began = time.Time{}
		var pods corev1.PodList
		b.must(b.objects.List(ctx, &pods))
		for i := range pods.Items {
			if pods.Items[i].Annotations["of"] == "job" {
				b.must(b.objects.Delete(ctx, &pods.Items[i]))
			}
		}
		return
	}
	if b.began.IsZero() {
		b.began = now.Truncate(5 * time.Second).Add(7 * time.Second)
		b.pod(ctx, job.Namespace, loadName, "job", &job.Spec.Template)
		return
	}
	if len(job.Status.Conditions) > 0 || now.Before(b.began.Add(time.Minute)) {
		return
	}
	summary := fmt.Sprintf(`{"began":%q,"seconds":60,"requests":500,"failed":1,"good":450,"dropped":0,"meanMs":100,"minMs":80,"p50Ms":90,"p90Ms":200,"p95Ms":250,"p99Ms":300,"maxMs":400,"minutes":[{"requests":500,"failed":1,"quantileMs":200}]}`, b.began.UTC().Format(time.RFC3339Nano))
	b.logs[fmt.Sprintf("%s-%d", loadName, b.loadPod(ctx))].add(now, "500 requests in 60.0 s\nplimsoll-summary "+summary+"\n")
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	b.must(b.objects.Status().Update(ctx, &job))
}

func (b *bed) loadPod(ctx context.Context) int {
	var pods corev1.PodList
	b.must(b.objects.List(ctx, &pods))
	n := 0
	for i := range pods.Items {
		if pods.Items[i].Annotations["of"] == "job" {
			_, err := fmt.Sscanf(pods.Items[i].Name, loadName+"-%d", &n)
			b.must(err)
		}
	}
	return n
}

// log is a pod's log. What follows it is cut off every twenty seconds, wherever it is.
func (b *bed) log(ctx context.Context, _, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	if b.mortal.gone() {
		return nil, errDead
	}
	b.mu.Lock()
	p := b.logs[pod]
	b.mu.Unlock()
	if p == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), pod)
	}
	out, in := io.Pipe()
	go func() {
		end := time.Now().Add(20 * time.Second)
		for next := 0; ctx.Err() == nil; {
			b.mu.Lock()
			lines, times := p.lines[next:], p.times[next:]
			next = len(p.lines)
			b.mu.Unlock()
			for i, line := range lines {
				if o.SinceTime != nil && times[i].Before(o.SinceTime.Time) {
					continue
				}
				if _, err := io.WriteString(in, line); err != nil {
					return
				}
			}
			if !o.Follow || time.Now().After(end) {
				break
			}
			time.Sleep(300 * time.Millisecond)
		}
		_, _ = io.WriteString(in, `{"id":"d-0000`)
		_ = in.Close()
	}()
	return out, nil
}

// mortal is a process that dies at a moment: before a call or a write is done, or after.
type mortal struct {
	mu    sync.Mutex
	left  int // negative lives
	after bool
	dead  bool
	all   []string
	end   context.CancelFunc
}

var errDead = errors.New("the process is dead")

func (m *mortal) gone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

func (m *mortal) moment(what string, do func() error) error {
	m.mu.Lock()
	if m.dead {
		m.mu.Unlock()
		return errDead
	}
	m.all = append(m.all, what)
	m.left--
	dies := m.left == -1
	if dies {
		m.dead = true
	}
	m.mu.Unlock()
	var err error
	if !dies || m.after {
		err = do()
	}
	if dies {
		m.end()
		return errDead
	}
	return err
}

// mortals are the calls of a process that may die.
func (b *bed) mortals() client.Client {
	m := b.mortal
	said := func(verb string, o client.Object) string {
		return fmt.Sprintf("%s %s %s", verb, kindOf(b.objects.Scheme(), o), client.ObjectKeyFromObject(o))
	}
	return interceptor.NewClient(b.objects, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if m.gone() {
				return errDead
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if m.gone() {
				return errDead
			}
			return c.List(ctx, l, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return m.moment(said("create", o), func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return m.moment(said("update", o), func() error { return c.Update(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return m.moment(said("delete", o), func() error { return c.Delete(ctx, o, opts...) })
		},
	})
}

// store is a folder in memory, of a mortal process.
type store struct {
	b     *bed
	files map[string][]byte
}

func (s store) Read(name string) ([]byte, error) {
	data, there := s.files[name]
	if !there {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return data, nil
}

func (s store) Write(name string, data []byte) error {
	return s.b.mortal.moment("write "+name, func() error { s.files[name] = bytes.Clone(data); return nil })
}

func (s store) Append(string, []byte) error { return errors.ErrUnsupported }
func (s store) Remove(string) error         { return errors.ErrUnsupported }

// world is a process that begins with what is kept.
func (b *bed) world() *World {
	return &World{
		Site: readSite(b.t, b.site), Cluster: Cluster{b.mortals(), b.log}, Identity: Identity{Experiment: "slo-cost"},
		Report: func(line string) { b.t.Log(time.Now().Format(time.TimeOnly), line) },
		Keep: func(run string) rke2.Store {
			if b.kept[run] == nil {
				b.kept[run] = map[string][]byte{}
			}
			return store{b, b.kept[run]}
		},
	}
}

// run makes the experiment, in a process that may die.
func (b *bed) run(ctx context.Context, e *testbed.Experiment) (*testbed.Results, error) {
	ctx, b.mortal.end = context.WithCancel(ctx)
	defer b.mortal.end()
	return testbed.Run(ctx, e, testbed.Options{World: b.world()})
}

// within runs something beside a cluster that behaves.
func within(t *testing.T, do func(t *testing.T, b *bed)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		b := newBed(t)
		go b.behave(ctx)
		do(t, b)
	})
}

// left is what runs have left in the cluster that is theirs.
func (b *bed) left(ctx context.Context) []string {
	var out []string
	for _, l := range []client.ObjectList{&v1alpha1.WorkloadAutoscalerList{}, &batchv1.JobList{}, &appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.PodList{}} {
		b.must(b.objects.List(ctx, l, client.InNamespace("plimsoll-testbed")))
		text, err := json.Marshal(l)
		b.must(err)
		if !bytes.Contains(text, []byte(`"items":null`)) && !bytes.Contains(text, []byte(`"items":[]`)) {
			out = append(out, string(text))
		}
	}
	return out
}
