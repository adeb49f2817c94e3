package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/deploy"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/testbed/live"
	"github.com/plimsoll/plimsoll/testbed/rke2"
)

// autoscalerName is cluster-autoscaler's Deployment, and the label of its pods.
const autoscalerName = "cluster-autoscaler"

// statusName is where cluster-autoscaler writes how its scans go.
const statusName = "cluster-autoscaler-status"

// flags are those of the row's cluster-autoscaler.
func (r *manifests) flags() *nodepolicy.Unneeded { return rowFlags(r.job.Policy.Nodes.Spec()) }

func rowFlags(s nodepolicy.Spec) *nodepolicy.Unneeded {
	if s.Unneeded != nil {
		return s.Unneeded
	}
	usual := nodepolicy.DefaultUnneeded()
	return &usual
}

// checkFlags wants a row's settings to be what cluster-autoscaler's command line can say.
func checkFlags(u *nodepolicy.Unneeded, key string, must live.Must) {
	usual := nodepolicy.DefaultUnneeded()
	must(u.MaxEmptyBulkDelete == usual.MaxEmptyBulkDelete, key+".maxEmptyBulkDelete", "omitted, as cluster-autoscaler has no such flag any more,", u.MaxEmptyBulkDelete)
	must(u.MaxNodeStartupTime == usual.MaxNodeStartupTime, key+".maxNodeStartupTime", "omitted, as few releases of cluster-autoscaler have such a flag,", u.MaxNodeStartupTime)
	must(time.Duration(u.MaxGracefulTermination)%time.Second == 0, key+".maxGracefulTermination", "whole seconds", u.MaxGracefulTermination)
}

// commandLine are settings as cluster-autoscaler's flags. All are said: what a release does by
// default differs.
func commandLine(u *nodepolicy.Unneeded) []string {
	var out []string
	for _, f := range []struct {
		name  string
		value any
	}{
		{"scan-interval", u.ScanInterval},
		{"frequent-loops-enabled", u.FrequentLoopsEnabled},
		{"expendable-pods-priority-cutoff", u.ExpendablePodsPriorityCutoff},
		{"new-pod-scale-up-delay", u.NewPodScaleUpDelay},
		{"enforce-node-group-min-size", u.EnforceNodeGroupMinSize},
		{"max-node-provision-time", u.MaxNodeProvisionTime},
		{"initial-node-group-backoff-duration", u.InitialNodeGroupBackoffDuration},
		{"max-node-group-backoff-duration", u.MaxNodeGroupBackoffDuration},
		{"node-group-backoff-reset-timeout", u.NodeGroupBackoffResetTimeout},
		{"scale-down-utilization-threshold", u.ScaleDownUtilizationThreshold},
		{"ignore-daemonsets-utilization", u.IgnoreDaemonsetsUtilization},
		{"scale-down-unneeded-time", u.ScaleDownUnneededTime},
		{"scale-down-unready-time", u.ScaleDownUnreadyTime},
		{"scale-down-delay-after-add", u.ScaleDownDelayAfterAdd},
		{"scale-down-delay-after-delete", u.ScaleDownDelayAfterDelete},
		{"scale-down-delay-after-failure", u.ScaleDownDelayAfterFailure},
		{"max-scale-down-parallelism", u.MaxScaleDownParallelism},
		{"max-drain-parallelism", u.MaxDrainParallelism},
		{"max-pod-eviction-time", u.MaxPodEvictionTime},
		{"max-graceful-termination-sec", int(time.Duration(u.MaxGracefulTermination).Seconds())},
		{"node-delete-delay-after-taint", u.NodeDeleteDelayAfterTaint},
		{"ok-total-unready-count", u.OKTotalUnreadyCount},
		{"max-total-unready-percentage", u.MaxTotalUnreadyPercentage},
	} {
		out = append(out, fmt.Sprintf("--%s=%v", f.name, f.value))
	}
	return out
}

// upstream is cluster-autoscaler as its manifests have it, with the row's flags, in an attempt's
// name.
func (r *run) upstream() ([]client.Object, error) {
	a := deploy.UsualAutoscaler()
	a.Image, a.Command = r.world.Site.ClusterAutoscaler(), "plimsoll testbed rke2 run"
	a.Buffers = r.flags().CapacityBufferPodInjectionEnabled
	var text bytes.Buffer
	if err := a.Print(&text); err != nil {
		return nil, err
	}
	all, err := documents(text.Bytes())
	if err != nil {
		return nil, err
	}
	var out []client.Object
	for _, o := range all {
		if o.GetKind() != "Deployment" {
			out = append(out, o)
			continue
		}
		d := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
			return nil, err
		}
		d.Spec.Template.Annotations = map[string]string{attempt: r.attempt}
		c := &d.Spec.Template.Spec.Containers[0]
		c.Command = instead(c.Command, commandLine(r.flags()))
		out = append(out, d)
	}
	return out, nil
}

// instead is a command line with flags put in place of those of the same names.
func instead(command, flags []string) []string {
	name := func(flag string) string { before, _, _ := strings.Cut(flag, "="); return before }
	kept := slices.DeleteFunc(slices.Clone(command), func(was string) bool {
		return slices.ContainsFunc(flags, func(is string) bool { return name(is) == name(was) })
	})
	return append(kept, flags...)
}

// autoscalers are cluster-autoscaler's pods.
func (r *run) autoscalers(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := r.world.Cluster.List(ctx, &pods, client.InNamespace(deploy.UsualAutoscaler().Namespace), client.MatchingLabels{"app": autoscalerName})
	return pods.Items, err
}

// rest stops cluster-autoscaler, where the test bed has it, and takes back what it has begun: it
// takes its taints from nodes itself, but only when it starts again.
func (r *run) rest(ctx context.Context) error {
	if r.world.Site.ClusterAutoscaler() == "" {
		return nil
	}
	c := &r.world.Cluster
	return await(ctx, "the end of cluster-autoscaler", 5*time.Minute, func(ctx context.Context) error {
		var d appsv1.Deployment
		err := c.Get(ctx, client.ObjectKey{Namespace: deploy.UsualAutoscaler().Namespace, Name: autoscalerName}, &d)
		if err == nil && (d.Spec.Replicas == nil || *d.Spec.Replicas > 0) {
			none := int32(0)
			d.Spec.Replicas = &none
			err = c.Update(ctx, &d)
		}
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		pods, err := r.autoscalers(ctx)
		if err != nil {
			return err
		}
		if len(pods) > 0 {
			return fmt.Errorf("there are %d pods of it", len(pods))
		}
		return r.release(ctx)
	})
}

// The taints of cluster-autoscaler: of nodes that it empties, which are cordoned with it, and of
// those that it will empty.
const (
	emptiedTaint   = "ToBeDeletedByClusterAutoscaler"
	candidateTaint = "DeletionCandidateOfClusterAutoscaler"
)

// release takes cluster-autoscaler's taints from the workers: pods would keep off them, and no
// other client gives such nodes back.
func (r *run) release(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := r.world.Cluster.List(ctx, &nodes, client.MatchingLabels{poolLabel: r.world.Site.WorkersName()}); err != nil {
		return err
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		theirs := func(t corev1.Taint) bool { return t.Key == emptiedTaint || t.Key == candidateTaint }
		if !slices.ContainsFunc(n.Spec.Taints, theirs) {
			continue
		}
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == emptiedTaint }) {
			n.Spec.Unschedulable = false
		}
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, theirs)
		if err := r.world.Cluster.Update(ctx, n); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// servable wants what a row of cluster-autoscaler's needs of how the test bed was built.
func (r *run) servable(ctx context.Context) error {
	theirs := deploy.UsualAutoscaler()
	for _, key := range []client.ObjectKey{
		{Namespace: rke2.ProductNamespace, Name: rke2.ProviderSecret}, {Namespace: theirs.Namespace, Name: theirs.Secret},
	} {
		var s corev1.Secret
		err := r.world.Cluster.Get(ctx, key, &s)
		if apierrors.IsNotFound(err) {
			return ruin{fmt.Errorf("there is no secret %s: plimsoll testbed rke2 up makes it where addons.plimsoll.nodes is ClusterAutoscaler when it builds the test bed", key)}
		}
		if err != nil {
			return err
		}
	}
	if !r.flags().CapacityBufferPodInjectionEnabled {
		return nil
	}
	buffer := schema.GroupKind{Group: "autoscaling.x-k8s.io", Kind: "CapacityBuffer"}
	_, err := r.world.Cluster.RESTMapper().RESTMapping(buffer)
	if meta.IsNoMatchError(err) {
		return ruin{fmt.Errorf("the row has unneeded.capacityBufferPodInjectionEnabled, and the cluster does not know the kind %s: the site's manifests may define it", buffer)}
	}
	return err
}

// autoscale starts cluster-autoscaler, once Plimsoll serves it, and waits until it has scanned.
func (r *run) autoscale(ctx context.Context) error {
	objects, err := r.upstream()
	if err != nil {
		return err
	}
	status := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.UsualAutoscaler().Namespace, Name: statusName}}
	err = r.world.Cluster.insist(ctx, "remove what an earlier cluster-autoscaler says of itself", func(ctx context.Context) error {
		return client.IgnoreNotFound(r.world.Cluster.Delete(ctx, status))
	})
	if err != nil {
		return err
	}
	if err := r.put(ctx, objects...); err != nil {
		return err
	}
	return await(ctx, "cluster-autoscaler's first scan", 5*time.Minute, func(ctx context.Context) error {
		return errors.Join(r.scans(ctx), r.scanned(ctx))
	})
}

// scans wants the attempt's cluster-autoscaler to run, and to be the one that was started: with
// another, all that it had waited for would begin anew.
func (r *run) scans(ctx context.Context) error {
	pods, err := r.autoscalers(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Annotations[attempt] == r.attempt })
	if at < 0 {
		return errors.New("cluster-autoscaler has no pod")
	}
	p := &pods[at]
	if r.scanner != "" && r.scanner != p.UID {
		return ruin{fmt.Errorf("cluster-autoscaler has begun anew, as pod %s", p.Name)}
	}
	r.scanner = p.UID
	for i := range p.Status.ContainerStatuses {
		if s := &p.Status.ContainerStatuses[i]; s.RestartCount > 0 {
			last := s.LastTerminationState.Terminated
			if last == nil {
				last = &corev1.ContainerStateTerminated{}
			}
			return ruin{fmt.Errorf("cluster-autoscaler has begun anew: it ended with %d %s %s; its log says why", last.ExitCode, last.Reason, last.Message)}
		}
	}
	return running(p)
}

// scanned wants cluster-autoscaler to say that a scan came to its end.
func (r *run) scanned(ctx context.Context) error {
	var c corev1.ConfigMap
	err := r.world.Cluster.Get(ctx, client.ObjectKey{Namespace: deploy.UsualAutoscaler().Namespace, Name: statusName}, &c)
	if err == nil && (c.Data["status"] == "" || strings.Contains(c.Data["status"], "Initializing")) {
		err = errors.New("it has made none")
	}
	return err
}

// evictions are the application's pods that were seen to be evicted, and when. They are seen while
// they end.
type evictions struct {
	at   map[types.UID]time.Time
	last time.Time     // look
	most time.Duration // between two looks
}

// look takes note of the pods that are on their way out because another client evicted them: where
// Plimsoll leaves machines alone, that is cluster-autoscaler.
func (r *run) look(ctx context.Context) error {
	var pods corev1.PodList
	err := r.world.Cluster.List(ctx, &pods, client.InNamespace(r.settings.Namespace), client.MatchingLabels(live.Labels(&r.Workloads[0])))
	if err != nil {
		return err
	}
	e, now := &r.evicted, time.Now()
	if !e.last.IsZero() {
		e.most = max(e.most, now.Sub(e.last))
	}
	e.last = now
	for i := range pods.Items {
		for _, c := range pods.Items[i].Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "EvictionByEvictionAPI" {
				e.note(pods.Items[i].UID, c.LastTransitionTime.Time)
			}
		}
	}
	return nil
}

func (e *evictions) note(pod types.UID, at time.Time) {
	if e.at == nil {
		e.at = map[types.UID]time.Time{}
	}
	e.at[pod] = at
}

// between is how many there were after a time, up to another.
func (e *evictions) between(from, to time.Time) int {
	n := 0
	for _, at := range e.at {
		if at.After(from) && !at.After(to) {
			n++
		}
	}
	return n
}

// doubt says why some may not have been seen, if pods may end in a time.
func (e *evictions) doubt(ending time.Duration) string {
	if e.most < ending {
		return ""
	}
	return fmt.Sprintf("pods that cluster-autoscaler moved are counted by looks at those that end, of which two were %s apart, and a pod ends in %s: some may be missing in podMoves",
		e.most.Round(time.Second), ending)
}
