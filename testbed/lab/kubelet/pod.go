package kubelet

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pod is a pod that is run here. But for what is atomic, it belongs to the goroutine that runs it.
type pod struct {
	k               *kubelet
	uid             types.UID
	namespace, name string
	node            string
	folder, ip      string
	silent          atomic.Bool // its node has no kubelet
	kick            chan struct{}

	volumes    map[string]*volume
	containers atomic.Pointer[[]*container] // nil until they may start
	unmounted  string                       // why they may not
	account    string                       // the folder of the service account's files, or ""
	since      map[corev1.PodConditionType]corev1.PodCondition
	started    metav1.Time
	written    string
	finalised  bool
}

func (k *kubelet) newPod(o *corev1.Pod) *pod {
	p := &pod{
		k: k, uid: o.UID, namespace: o.Namespace, name: o.Name, node: o.Spec.NodeName,
		folder: filepath.Join(k.folder, "pods", string(o.UID)), ip: k.part.ips.take(), kick: make(chan struct{}, 1),
		volumes: map[string]*volume{}, since: map[corev1.PodConditionType]corev1.PodCondition{}, started: metav1.Now(),
	}
	if o.Status.StartTime != nil {
		p.started = *o.Status.StartTime
	}
	return p
}

// stir has the pod looked at soon.
func (p *pod) stir() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// farewell is how long processes have that no one waits for: of pods that were deleted by force,
// and when the part stops.
const farewell = 2 * time.Second

// run runs the pod until it is gone. When the context is done, its processes end, and the API
// server does not hear of it.
func (p *pod) run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		if p.step(ctx, p.k.look(p)) {
			p.k.clean(p.folder)
			return
		}
		select {
		case <-ctx.Done():
		case <-p.kick:
		case <-tick.C:
		}
	}
	p.terminate(farewell)
	p.await()
}

// step does what there is to do now, and reports whether nothing is left of the pod.
func (p *pod) step(ctx context.Context, now *corev1.Pod) bool {
	switch {
	case p.silent.Load():
		p.terminate(0)
		p.await()
		p.containers.Store(nil) // they are others when the node comes back
		return now == nil
	case now == nil:
		p.terminate(farewell)
		return p.ended()
	case now.DeletionTimestamp != nil:
		p.terminate(graceOf(now))
		if ended := p.ended(); !p.finalised && p.write(ctx, now, ended) && ended {
			p.finalised = p.finalise(ctx) // somebody's finalizer may keep it for a while
		}
		return false
	default:
		p.begin(ctx, now)
		p.write(ctx, now, false)
		return false
	}
}

func graceOf(o *corev1.Pod) time.Duration {
	for _, s := range []*int64{o.DeletionGracePeriodSeconds, o.Spec.TerminationGracePeriodSeconds} {
		if s != nil {
			return time.Duration(*s) * time.Second
		}
	}
	return 30 * time.Second
}

// begin brings volumes up to date, and starts the containers once all volumes are there.
func (p *pod) begin(ctx context.Context, now *corev1.Pod) {
	if now.Status.Phase == corev1.PodSucceeded || now.Status.Phase == corev1.PodFailed {
		return
	}
	if err := p.mount(ctx, now); err != nil {
		if text := err.Error(); text != p.unmounted && ctx.Err() == nil {
			p.unmounted = text
			p.k.log.Printf("pod %s/%s: %v", p.namespace, p.name, err)
		}
		return
	}
	p.unmounted = ""
	if p.all() != nil {
		return
	}
	all := make([]*container, 0, len(now.Spec.Containers))
	for i := range now.Spec.Containers {
		all = append(all, p.newContainer(now, &now.Spec.Containers[i]))
	}
	p.containers.Store(&all)
	for _, c := range all {
		go c.live(ctx)
	}
}

// all are the containers.
func (p *pod) all() []*container {
	if there := p.containers.Load(); there != nil {
		return *there
	}
	return nil
}

func (p *pod) terminate(grace time.Duration) {
	for _, c := range p.all() {
		c.terminate(grace)
	}
}

func (p *pod) ended() bool {
	for _, c := range p.all() {
		select {
		case <-c.over:
		default:
			return false
		}
	}
	return true
}

func (p *pod) await() {
	for _, c := range p.all() {
		<-c.over
	}
}

// finalise lets the API server forget the pod.
func (p *pod) finalise(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	at := int64(0)
	err := p.k.client.CoreV1().Pods(p.namespace).Delete(ctx, p.name, metav1.DeleteOptions{
		GracePeriodSeconds: &at, Preconditions: &metav1.Preconditions{UID: &p.uid},
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return true
	}
	p.k.log.Printf("pod %s/%s: %v", p.namespace, p.name, err)
	return false
}

// place is a folder of the pod.
func (p *pod) place(names ...string) (string, error) {
	folder := filepath.Join(append([]string{p.folder}, names...)...)
	return folder, os.MkdirAll(folder, 0o700)
}
