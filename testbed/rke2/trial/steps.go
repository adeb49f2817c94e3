package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/k6"
	"github.com/plimsoll/plimsoll/testbed/live"
	"github.com/plimsoll/plimsoll/testbed/rke2"
)

// run is a run that goes on.
type run struct {
	manifests
	kept rke2.Store

	journal *journal // of the Plimsoll that runs now
	quiet   func()   // ends the reading of it
	summary *k6.Summary

	// Of rows whose machines cluster-autoscaler decides on: its pod, and what it did to the
	// application's.
	scanner types.UID
	evicted evictions
}

// manifests are what a run applies, by its row.
type manifests struct {
	*testbed.Experiment
	world    *World
	job      *testbed.Job
	settings rke2.Run
	image    string
	attempt  string // its own name, which no other has
}

// step is one part of a run.
type step struct {
	title string
	takes time.Duration // about
	do    func(ctx context.Context) error
}

// afterwards is how long the last answers and the end of the load may take.
const afterwards = 10 * time.Minute

func (r *run) steps() []step {
	return []step{
		{"take away what an earlier run has left", 20 * time.Second, r.clear},
		{fmt.Sprintf("bring the workers to %d", r.Pools[0].Start), 3 * time.Minute, r.machines},
		{fmt.Sprintf("start the first pods, %d", r.Workloads[0].Replicas.Start), 30 * time.Second, r.pods},
		{"start Plimsoll with " + r.job.Policy.Name, 30 * time.Second, r.take},
		{fmt.Sprintf("let the users in, %d", r.job.Level.Users), r.job.Length + 30*time.Second, r.ask},
		{"collect what came of it", 20 * time.Second, r.collect},
	}
}

// make makes the run, from the first step on, regardless of what there is.
func (r *run) make(ctx context.Context) (testbed.Trial, error) {
	defer r.stopListening()
	steps := r.steps()
	left := time.Duration(0)
	for i := range steps {
		left += steps[i].takes
	}
	for i := range steps {
		s := &steps[i]
		r.world.say("[%d/%d] %s, about %s of %s", i+1, len(steps), s.title, s.takes, left.Round(time.Second))
		left -= s.takes
		if err := s.do(ctx); err != nil {
			return testbed.Trial{}, errors.Join(fmt.Errorf("%s: %w", s.title, err), r.keepJournal())
		}
	}
	return r.score(ctx)
}

// clear takes away all that a run makes in its namespace, the autoscaler first: what Plimsoll
// scales, it would scale while it goes. Machines that no pod needs then are returned by the
// Plimsoll that runs, if it decides on them. Cluster-autoscaler is stopped before all else.
func (r *run) clear(ctx context.Context) error {
	if err := r.rest(ctx); err != nil {
		return err
	}
	c := &r.world.Cluster
	lists := func() []client.ObjectList {
		return []client.ObjectList{
			&v1alpha1.WorkloadAutoscalerList{}, &batchv1.JobList{}, &appsv1.DeploymentList{}, &corev1.ServiceList{},
			&policyv1.PodDisruptionBudgetList{}, &corev1.ConfigMapList{},
		}
	}
	r.world.cleared = true
	return await(ctx, "the end of an earlier run", 5*time.Minute, func(ctx context.Context) error {
		for _, l := range lists() {
			found, err := c.removeAll(ctx, l, r.settings.Namespace)
			if meta.IsNoMatchError(err) {
				continue // Plimsoll was never installed
			}
			if err != nil || found {
				return errors.Join(err, fmt.Errorf("there are still %T", l))
			}
		}
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(r.settings.Namespace), client.MatchingLabels{mark: marked}); err != nil {
			return err
		}
		if n := len(pods.Items); n > 0 {
			return fmt.Errorf("there are still %d pods", n)
		}
		return nil
	})
}

// machines brings the workers to those of the start. They come before the pods: were those there,
// node policies would order more.
func (r *run) machines(ctx context.Context) error {
	if err := await(ctx, "the load machine", outage, r.loadMachine); err != nil {
		return err
	}
	if r.job.Policy.Upstream() {
		if err := await(ctx, "what cluster-autoscaler needs", outage, r.servable); err != nil {
			return err
		}
	}
	kinds, err := manifest("crds")
	if err != nil {
		return err
	}
	for _, o := range kinds {
		if err := r.world.Cluster.put(ctx, o); err != nil {
			return err
		}
	}
	if err := r.stop(ctx); err != nil {
		return err
	}
	if err := r.bid(ctx, byPlimsoll); err != nil {
		return err
	}
	if err := r.start(ctx, byPlimsoll, r.starting(), r.attempt+"-start"); err != nil {
		return err
	}
	return await(ctx, "the first machines", time.Hour, r.joined)
}

// bid puts what machines there may be, by whose decision.
func (r *run) bid(ctx context.Context, how scaling) error {
	offer, err := r.offer(how)
	if err != nil {
		return err
	}
	return r.put(ctx, offer...)
}

func (r *run) put(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := r.world.Cluster.put(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// loadMachine wants the load machine to be a node.
func (r *run) loadMachine(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := r.world.Cluster.List(ctx, &nodes, client.MatchingLabels{rke2.LoadLabel: rke2.LoadValue}); err != nil {
		return err
	}
	if !slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return live.NodeReady(&n) }) {
		return fmt.Errorf("no node with the label %s=%s is ready: plimsoll testbed rke2 up makes it", rke2.LoadLabel, rke2.LoadValue)
	}
	return nil
}

// stop ends Plimsoll.
func (r *run) stop(ctx context.Context) error {
	r.stopListening()
	objects, err := r.installed(byPlimsoll, r.starting(), r.attempt+"-stopped", 0)
	if err != nil {
		return err
	}
	if err := r.put(ctx, objects...); err != nil {
		return err
	}
	return await(ctx, "the end of the Plimsoll before", outage, func(ctx context.Context) error {
		pods, err := r.plimsolls(ctx)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("there are %d pods of it", len(pods))
		}
		return err
	})
}

// plimsolls are Plimsoll's pods.
func (r *run) plimsolls(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := r.world.Cluster.List(ctx, &pods, client.InNamespace(rke2.ProductNamespace), client.MatchingLabels{
		"app.kubernetes.io/name": productName, "app.kubernetes.io/component": "autoscaler",
	})
	return pods.Items, err
}

// start starts Plimsoll with a configuration, when it is stopped, and begins to read its journal.
func (r *run) start(ctx context.Context, how scaling, config map[string]any, name string) error {
	objects, err := r.installed(how, config, name, 1)
	if err != nil {
		return err
	}
	if err := r.put(ctx, objects...); err != nil {
		return err
	}
	var pod string
	err = await(ctx, "Plimsoll's pod", 5*time.Minute, func(ctx context.Context) error {
		pods, err := r.plimsolls(ctx)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Annotations[attempt] == name && p.DeletionTimestamp == nil })
		if at < 0 {
			return errors.New("there is no such pod")
		}
		pod = pods[at].Name
		return running(&pods[at])
	})
	if err != nil {
		return err
	}
	r.listen(ctx, pod)
	return await(ctx, "Plimsoll's first look at the machines", 3*time.Minute, func(context.Context) error { return r.journal.known() })
}

// running wants a pod's containers to run.
func running(p *corev1.Pod) error {
	if p.Status.Phase == corev1.PodRunning {
		return nil
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Waiting != nil {
			return fmt.Errorf("%s is %s: %s %s", p.Name, p.Status.Phase, s.State.Waiting.Reason, s.State.Waiting.Message)
		}
	}
	return fmt.Errorf("%s is %s", p.Name, p.Status.Phase)
}

// listen reads the journal that a pod prints, until hush.
func (r *run) listen(ctx context.Context, pod string) {
	r.stopListening()
	j := &journal{}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		j.follow(ctx, &r.world.Cluster, rke2.ProductNamespace, pod, productName)
	}()
	r.journal, r.quiet = j, func() { cancel(); <-ended }
}

// stopListening ends the reading of the journal. What was read stays.
func (r *run) stopListening() {
	if r.quiet != nil {
		r.quiet()
		r.quiet = nil
	}
}

// joined wants as many workers as at the start, all of them nodes, and none on its way in or out,
// as the last step saw it.
func (r *run) joined(ctx context.Context) error {
	var last *loop.Step
	err := r.journal.each(func(s *loop.Step) error { last = s; return nil })
	if err != nil {
		return ruin{err}
	}
	want := r.Pools[0].Start
	all := 0
	for _, n := range last.Observed.Machines {
		all += n
	}
	if joined := last.Observed.Machines[nodescaler.Joined]; all != want || joined != want {
		return fmt.Errorf("there are to be %d, and Plimsoll sees %v", want, last.Observed.Machines)
	}
	var nodes corev1.NodeList
	if err := r.world.Cluster.List(ctx, &nodes, client.MatchingLabels{poolLabel: r.world.Site.WorkersName()}); err != nil {
		return err
	}
	ready := 0
	for i := range nodes.Items {
		if n := &nodes.Items[i]; live.NodeReady(n) && !n.Spec.Unschedulable {
			ready++
		}
	}
	if ready != want || len(nodes.Items) != want {
		return fmt.Errorf("%d of %d nodes are ready, and there are to be %d", ready, len(nodes.Items), want)
	}
	return nil
}

// poolLabel is on the nodes of a pool.
const poolLabel = "plimsoll.dev/pool"

// pods starts those that there are to be at the start.
func (r *run) pods(ctx context.Context) error {
	if err := r.put(ctx, append([]client.Object{r.namespace()}, r.service()...)...); err != nil {
		return err
	}
	return await(ctx, "the first pods", 10*time.Minute, r.ready)
}

// ready wants all pods of the start to have been ready for a moment.
func (r *run) ready(ctx context.Context) error {
	w := &r.Workloads[0]
	var pods corev1.PodList
	if err := r.world.Cluster.List(ctx, &pods, client.InNamespace(r.settings.Namespace), client.MatchingLabels(live.Labels(w))); err != nil {
		return err
	}
	ready := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !live.PodReady(&p) })
	if n := w.Replicas.Start; len(ready) != n {
		return fmt.Errorf("%d of %d pods are ready", len(ready), n)
	}
	return nil
}

// take lets Plimsoll scale the workload, with the row's policies. It starts anew: policies remember
// nothing of how the start was brought about, and no money is spent. Machines are handed over
// before it starts, where cluster-autoscaler decides on them.
func (r *run) take(ctx context.Context) error {
	if err := r.stop(ctx); err != nil {
		return err
	}
	a, err := r.autoscaler()
	if err != nil {
		return err
	}
	if err := r.put(ctx, a); err != nil {
		return err
	}
	if !r.job.Policy.Upstream() {
		return r.start(ctx, byPlimsoll, r.row(), r.attempt)
	}
	if err := r.bid(ctx, byAutoscaler); err != nil {
		return err
	}
	if err := r.start(ctx, byAutoscaler, r.row(), r.attempt); err != nil {
		return err
	}
	return r.autoscale(ctx)
}

// ask lets the users in, until the trial is over.
func (r *run) ask(ctx context.Context) error {
	objects, err := r.load()
	if err != nil {
		return err
	}
	if err := r.put(ctx, objects...); err != nil {
		return err
	}
	return await(ctx, "the load", r.job.Length+afterwards+time.Minute, r.asked)
}

// asked wants the load to be over, and everything well until then.
func (r *run) asked(ctx context.Context) error {
	if err := r.journal.each(func(*loop.Step) error { return nil }); err != nil {
		return ruin{fmt.Errorf("journal: %w", err)}
	}
	if r.job.Policy.Upstream() {
		if err := errors.Join(r.look(ctx), r.scans(ctx)); err != nil {
			return err
		}
	}
	var job batchv1.Job
	if err := r.world.Cluster.Get(ctx, client.ObjectKey{Namespace: r.settings.Namespace, Name: loadName}, &job); err != nil {
		return err
	}
	for _, c := range job.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			return nil
		case c.Type == batchv1.JobFailed:
			return ruin{errors.Join(fmt.Errorf("k6 has failed: %s %s", c.Reason, c.Message), r.lastWords(ctx))}
		}
	}
	return errors.New("k6 is not done")
}

// lastWords are the end of what k6 has printed.
func (r *run) lastWords(ctx context.Context) error {
	text, err := r.printed(ctx)
	if err != nil || len(text) == 0 {
		return err
	}
	return fmt.Errorf("its last words: %s", text[max(0, len(text)-2000):])
}

// printed is what k6 has printed.
func (r *run) printed(ctx context.Context) ([]byte, error) {
	var pods corev1.PodList
	if err := r.world.Cluster.List(ctx, &pods, client.InNamespace(r.settings.Namespace), client.MatchingLabels{attempt: r.attempt}); err != nil {
		return nil, err
	}
	if len(pods.Items) != 1 {
		return nil, fmt.Errorf("k6 has %d pods", len(pods.Items))
	}
	log, err := r.world.Cluster.Logs(ctx, r.settings.Namespace, pods.Items[0].Name, &corev1.PodLogOptions{Container: loadName})
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // only read
	return io.ReadAll(log)
}

// collect reads what k6 and Plimsoll say of the trial, to its end.
func (r *run) collect(ctx context.Context) error {
	err := await(ctx, "k6's summary", outage, func(ctx context.Context) error {
		text, err := r.printed(ctx)
		if err == nil {
			r.summary, err = k6.Told(text)
		}
		return err
	})
	if err != nil {
		return err
	}
	end := r.summary.Began.Add(r.job.Length)
	return await(ctx, "the journal to the end of the trial", outage, func(context.Context) error { return r.journal.covers(end) })
}

// score keeps what was collected and what it comes to. When the result is kept, the run is made.
func (r *run) score(ctx context.Context) (testbed.Trial, error) {
	r.stopListening()
	out := testbed.Trial{
		Policy: r.job.Policy.Name, NodePolicy: r.job.Policy.Nodes.Policy, Users: r.job.Level.Users, Trial: r.job.Trial,
	}
	if r.job.Policy.Upstream() {
		out.NodePolicy = string(testbed.ScaledByClusterAutoscaler)
		out.PodMoves = r.evicted.between(r.summary.Began, r.summary.Began.Add(r.job.Length))
		out.Warning = r.evicted.doubt(linger(&r.Workloads[0]))
	}
	err := errors.Join(
		r.keepJournal(), rke2.WriteJSON(r.kept, summaryFile, r.summary), r.measure(ctx),
		live.Score(&out, r.Experiment, r.job, r.journal.each, r.summary),
	)
	if err != nil {
		return out, err
	}
	if err := rke2.WriteJSON(r.kept, trialFile, &out); err != nil {
		return out, err
	}
	return out, r.clear(ctx)
}

func (r *run) keepJournal() error {
	if r.journal == nil {
		return nil
	}
	return r.kept.Write(journalFile, r.journal.text())
}

// measure keeps what Prometheus has of the trial.
func (r *run) measure(ctx context.Context) error {
	p := r.settings.Prometheus
	if p == nil || p.URL == "" {
		r.world.say("      the site names no run.prometheus.url: nothing is kept of Prometheus")
		return nil
	}
	w := &r.Workloads[0]
	namespace, name := live.Names(w)
	asks := queries(r.settings.Signals.Preset, namespace, name, r.world.Site.WorkersName(), float64(w.SLO.P))
	got := collect(ctx, p.URL, asks, r.summary.Began, r.summary.Began.Add(r.job.Length))
	if n := got.failed(); n > 0 {
		r.world.say("      Prometheus did not answer %d of %d queries; %s says why", n, len(asks), prometheusFile)
	}
	return rke2.WriteJSON(r.kept, prometheusFile, got)
}
