package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/k6"
)

// Service is a Deployment in a cluster whose pods are measured. It is scaled meanwhile.
type Service struct {
	Namespace, Name string
	Send            k6.Load       // URL, Duration, Target and Quantile; the rest is the search's
	K6, Folder      string        // the program, and where it leaves its files
	Patience        time.Duration // until all pods are ready
	Report          func(line string)

	client   client.Client
	replicas int32 // that it was given last
}

// ErrScaled is why a Deployment is not measured that something else scales.
var ErrScaled = errors.New("must not be scaled by anything else while it is measured")

// ErrLeft is that a Deployment has other replicas in the end than it had.
var ErrLeft = errors.New("its replicas were not put back")

// Connect takes the cluster that the Deployment is in.
func (s *Service) Connect(cfg *rest.Config) error {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err != nil {
		return err
	}
	// What is asked for is known, and need not be discovered.
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("Deployment"), corev1.SchemeGroupVersion.WithKind("Pod"),
		autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), v1alpha1.GroupVersion.WithKind(v1alpha1.KindWorkloadAutoscaler),
	} {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	s.client, err = client.New(cfg, client.Options{Scheme: scheme, Mapper: mapper})
	return err
}

// Measure measures it, and puts the replicas back that it had.
func (s *Service) Measure(ctx context.Context, p testbed.Profiling) (out *testbed.Profiled, err error) {
	d, err := s.deployment(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.alone(ctx); err != nil {
		return nil, err
	}
	had := replicas(d)
	s.replicas = had
	s.Report(fmt.Sprintf("%s has replicas: %d, which is put back at the end", s.key(), had))
	defer func() {
		// After an interrupt, too. What something else has set meanwhile stays.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if back := s.scale(ctx, had); back != nil {
			err = errors.Join(err, fmt.Errorf("%w, %d: %w; kubectl scale -n %s deployment/%s --replicas=%d does it", ErrLeft, had, back, s.Namespace, s.Name, had))
		}
	}()
	if err := s.settle(ctx, p.Pods[0]); err != nil {
		return nil, err
	}
	if p.Guess, err = s.guess(ctx, p.Pods[0]); err != nil {
		return nil, err
	}
	p.Length = s.Send.Duration
	return p.Of(ctx, s.key(), s.serve)
}

func (s *Service) key() string { return s.Namespace + "/" + s.Name }

func (s *Service) deployment(ctx context.Context) (*appsv1.Deployment, error) {
	var d appsv1.Deployment
	err := s.client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, &d)
	return &d, err
}

// replicas are what a Deployment asks for.
func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// alone refuses a Deployment that something scales.
func (s *Service) alone(ctx context.Context) error {
	var hpas autoscalingv2.HorizontalPodAutoscalerList
	if err := s.client.List(ctx, &hpas, client.InNamespace(s.Namespace)); err != nil {
		return err
	}
	for i := range hpas.Items {
		if to := hpas.Items[i].Spec.ScaleTargetRef; to.Kind == "Deployment" && to.Name == s.Name {
			return fmt.Errorf("%w; HorizontalPodAutoscaler %s scales it: delete that for as long, or measure a copy of the Deployment", ErrScaled, hpas.Items[i].Name)
		}
	}
	var ours v1alpha1.WorkloadAutoscalerList
	if err := s.client.List(ctx, &ours, client.InNamespace(s.Namespace)); err != nil {
		return client.IgnoreNotFound(err) // Plimsoll is not installed
	}
	for i := range ours.Items {
		o := &ours.Items[i]
		to, acts := o.Spec.ScaleTargetRef, o.Spec.Mode == v1alpha1.ModeActive || o.Spec.Mode == v1alpha1.ModeApprove
		if to.Kind == "Deployment" && to.Name == s.Name && acts && !paused(o) {
			return fmt.Errorf("%w; WorkloadAutoscaler %s is in mode %s: pause it with plimsoll pause, without an end", ErrScaled, o.Name, o.Spec.Mode)
		}
	}
	return nil
}

// paused reports whether nothing is done to the replicas until someone resumes.
func paused(o *v1alpha1.WorkloadAutoscaler) bool {
	return o.Annotations[v1alpha1.AnnotationPaused] == "true" && o.Annotations[v1alpha1.AnnotationPausedUntil] == ""
}

// scale sets the replicas, unless something else has set them since.
func (s *Service) scale(ctx context.Context, to int32) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		d, err := s.deployment(ctx)
		if err != nil {
			return err
		}
		if is := replicas(d); is != s.replicas {
			return fmt.Errorf("%w; its replicas were set to %d, and had been set to %d", ErrScaled, is, s.replicas)
		}
		if to == s.replicas {
			return nil
		}
		body := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"replicas":%d}}`, d.ResourceVersion, to)
		if err := s.client.Patch(ctx, d, client.RawPatch(types.MergePatchType, body), client.FieldOwner("plimsoll-profile")); err != nil {
			return err
		}
		s.replicas = to
		return nil
	})
}

// settle scales to so many pods, and waits until they are all that there are, and ready.
func (s *Service) settle(ctx context.Context, pods int) error {
	if err := s.scale(ctx, int32(pods)); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	for {
		there, ready, err := s.pods(ctx)
		switch {
		case err != nil:
			return cmp.Or(context.Cause(ctx), err)
		case there == pods && ready == pods:
			return nil
		case limited.Err() != nil:
			return cmp.Or(context.Cause(ctx), fmt.Errorf("pods: must be %d that are ready within %s, were %d, of which %d were ready: see kubectl describe pods", pods, s.Patience, there, ready))
		}
		select {
		case <-limited.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// pods counts the pods that the Deployment selects, those too that are on their way out, and the
// ready ones. Those that have ended, as evicted ones, stay for a long time and serve nothing.
func (s *Service) pods(ctx context.Context) (there, ready int, err error) {
	d, err := s.deployment(ctx)
	if err != nil {
		return 0, 0, err
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return 0, 0, err
	}
	var pods corev1.PodList
	if err := s.client.List(ctx, &pods, client.InNamespace(s.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return 0, 0, err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
			continue
		}
		there++
		if PodReady(p) && p.DeletionTimestamp == nil {
			ready++
		}
	}
	return there, ready, nil
}

// guessing is how long the first answer is waited for.
const guessing = time.Minute

// guess is what pods serve if each serves one request at a time, by how long one takes. It also
// finds a URL that leads nowhere before any load does.
func (s *Service) guess(ctx context.Context, pods int) (float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Send.URL, nil)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	answer, err := (&http.Client{Timeout: guessing}).Do(r)
	if err != nil {
		return 0, fmt.Errorf("url: must answer with 200: %w", err)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close() // it was read
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("url: must answer with 200, was %s (%s)", answer.Status, s.Send.URL)
	}
	return float64(pods) / max(time.Since(began).Seconds(), 1e-3), err
}

// serve puts a load on the pods. One that misses the objective is tried once more, for a machine
// that is busy with other things makes loads miss it, and none hold; unless requests could not be
// sent.
func (s *Service) serve(ctx context.Context, pods int, rate float64) (holds bool, requests int, err error) {
	for range 2 {
		sum, ready, err := s.load(ctx, pods, rate)
		if err != nil {
			return false, requests, err
		}
		requests += sum.Requests
		if holds = kept(sum, s.Send.Quantile) && ready >= pods; holds || sum.Dropped > 0 {
			break
		}
	}
	return holds, requests, nil
}

// load sends requests once, and says how many pods are ready then: some do not stay so.
func (s *Service) load(ctx context.Context, pods int, rate float64) (sum *k6.Summary, ready int, err error) {
	if err := s.settle(ctx, pods); err != nil {
		return nil, 0, err
	}
	load := s.Send
	load.Kind, load.Rate, load.Users, load.Fresh = k6.Open, rate, atOnce(rate, load.Target), true
	if load.Users > k6.MaxUsers {
		return nil, 0, fmt.Errorf("%.4g requests a second that each may take %s: must be at most %d on their way at a time, as many as k6 carries here, were %d: measure fewer pods, or by a shorter target",
			rate, load.Target, k6.MaxUsers, load.Users)
	}
	if sum, err = k6.Run(ctx, s.K6, s.Folder, load); err != nil {
		return nil, 0, cmp.Or(context.Cause(ctx), err)
	}
	s.Report(fmt.Sprintf("pods: %d, %.4g requests a second: %d of %d within %s, %d failed, %d not sent",
		pods, rate, sum.Good, sum.Requests, load.Target, sum.Failed, sum.Dropped))
	_, ready, err = s.pods(ctx)
	return sum, ready, err
}

// atOnce is how many requests may be on their way at a time. By Little's law there are rate ×
// target of them when each takes as long as the target: of twice as many, most are late.
func atOnce(rate float64, target time.Duration) int {
	return 10 + int(math.Ceil(2*rate*target.Seconds()))
}

// kept reports whether the objective's part of the requests was good. Those that could not be sent,
// for too many were on their way, are not.
func kept(s *k6.Summary, part float64) bool {
	asked := s.Requests + s.Dropped
	return asked > 0 && float64(s.Good) >= part*float64(asked)
}
