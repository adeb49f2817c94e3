//go:build lab

package inlab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/lab/kubelet"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/rke2"
)

// until waits until there is no error any more.
func until(t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	labtest.Until(t, what, 200*time.Millisecond, ask)
}

// pools are those of the machines that are nodes, as their names begin.
func (r *Rig) pools(ctx context.Context) ([]string, error) {
	list, err := r.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var pools []string
	for i := range list.Items {
		pool, _, _ := strings.Cut(list.Items[i].Name, "-")
		pools = append(pools, pool)
	}
	slices.Sort(pools)
	return pools, nil
}

// A test bed's machines join a real control plane, which takes Plimsoll's own manifests and the
// secret that they look for, and nothing is left of the test bed behind it.
func TestMachinesJoinARealControlPlane(t *testing.T) {
	t.Parallel() // each has a lab of its own, and waits most of the time
	r := New(t, Config{Site: func(s *rke2.Site) {
		s.Workers.Start, s.Workers.VMPool = 2, &rke2.VMPool{Mode: "Active", ScaledBy: "ClusterAutoscaler"}
	}})
	r.Product(labtest.Program(t), nil)
	b := r.Bench()
	must.Do(t, b.Up(t.Context()))
	pools, err := r.pools(t.Context())
	if diff := cmp.Diff([]string{"control", "load", "workers", "workers"}, pools); diff != "" || err != nil {
		t.Error(err, diff)
	}
	secret, err := r.Client.CoreV1().Secrets("plimsoll").Get(t.Context(), "plimsoll-proxmox", metav1.GetOptions{})
	if err != nil || !strings.HasPrefix(string(secret.Data["token"]), "root@pam!plimsoll-bench=") {
		t.Errorf("the secret is %v, %v", secret, err)
	}
	objects := must.Get(dynamic.NewForConfig(r.Lab.REST()))(t)
	pool, err := objects.Resource(schema.GroupVersionResource{Group: "plimsoll.dev", Version: "v1alpha1", Resource: "vmpools"}).Get(t.Context(), "workers", metav1.GetOptions{})
	if err != nil {
		t.Fatal("the VMPool:", err)
	}
	join, _, err := unstructured.NestedString(pool.Object, "spec", "join", "tokenFile")
	if len(secret.Data[join]) == 0 || err != nil {
		t.Errorf("the VMPool names %q, which is not in the secret: %v", join, err)
	}
	// There is no program for it here.
	until(t, "Plimsoll's pod waits on the control plane", func(ctx context.Context) error {
		p, err := r.plimsoll(ctx)
		if err == nil && (!strings.HasPrefix(p.Spec.NodeName, "control-") || len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil || p.Status.ContainerStatuses[0].State.Waiting.Reason != "ErrImagePull") {
			err = fmt.Errorf("%s: %+v", p.Spec.NodeName, p.Status)
		}
		return err
	})
	must.Do(t, b.Down(t.Context()))
	if left := r.Left(); len(left) > 0 {
		t.Errorf("this is left: %q", left)
	}
}

// plimsoll is its one pod.
func (r *Rig) plimsoll(ctx context.Context) (*corev1.Pod, error) {
	list, err := r.Client.CoreV1().Pods("plimsoll").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	if len(list.Items) != 1 {
		return nil, fmt.Errorf("%d pods of Plimsoll", len(list.Items))
	}
	return &list.Items[0], nil
}

// Plimsoll's own Deployment runs in the test bed that up has built, with the token that was made
// for it and its service account's rights. It makes a worker when pods wait, and down leaves
// nothing of it, or of what it has made.
func TestPlimsollRunsInItsTestBed(t *testing.T) {
	t.Parallel() // each has a lab of its own, and waits most of the time
	program := labtest.Program(t)
	r := New(t, Config{Programs: map[string]kubelet.Program{"plimsoll": kubelet.Plimsoll(program)}})
	r.Product(program, nil)
	t.Cleanup(func() {
		if p, err := r.plimsoll(context.Background()); err == nil && t.Failed() {
			log, err := r.Client.CoreV1().Pods("plimsoll").GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(context.Background())
			t.Logf("Plimsoll says: %s %v\n%+v", log, err, p.Status)
		}
	})
	must.Do(t, r.Bench().Up(t.Context()))
	var pod *corev1.Pod
	until(t, "Plimsoll is ready", func(ctx context.Context) (err error) {
		if pod, err = r.plimsoll(ctx); err == nil && !labtest.PodReady(pod) {
			err = fmt.Errorf("%+v", pod.Status)
		}
		return err
	})
	until(t, "it leads", func(ctx context.Context) error {
		lease, err := r.Client.CoordinationV1().Leases("plimsoll").Get(ctx, "plimsoll", metav1.GetOptions{})
		if err == nil && (lease.Spec.HolderIdentity == nil || !strings.HasPrefix(*lease.Spec.HolderIdentity, pod.Name+"_")) {
			err = fmt.Errorf("the lease is held by %v", lease.Spec.HolderIdentity)
		}
		return err
	})
	r.deploy(2, "1500m") // one fits onto a worker
	until(t, "there is a second worker, and both pods run", func(ctx context.Context) error {
		pools, err := r.pools(ctx)
		if err != nil {
			return err
		}
		list, err := r.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		running := 0
		for i := range list.Items {
			if labtest.PodReady(&list.Items[i]) {
				running++
			}
		}
		if running != 2 || !slices.Equal(pools, []string{"control", "load", "workers", "workers"}) {
			return fmt.Errorf("%d pods run on %v", running, pools)
		}
		return nil
	})
	r.checkRights(pod)
	r.rollOut(pod)
	must.Do(t, r.Bench().Down(t.Context()))
	if left := r.Left(); len(left) > 0 {
		t.Errorf("this is left: %q", left)
	}
}

// rollOut starts Plimsoll anew as a rollout does: the successor is up before the first goes, and
// leads then.
func (r *Rig) rollOut(before *corev1.Pod) {
	t, _ := r.t.(*testing.T)
	patch := []byte(`{"spec":{"template":{"metadata":{"annotations":{"rolled":"out"}}}}}`)
	must.Get(r.Client.AppsV1().Deployments("plimsoll").Patch(t.Context(), "plimsoll", types.StrategicMergePatchType, patch, metav1.PatchOptions{}))(t)
	until(t, "its successor leads", func(ctx context.Context) error {
		now, err := r.plimsoll(ctx)
		if err != nil {
			return err
		}
		lease, err := r.Client.CoordinationV1().Leases("plimsoll").Get(ctx, "plimsoll", metav1.GetOptions{})
		if err == nil && (now.Name == before.Name || !labtest.PodReady(now) || !strings.HasPrefix(*lease.Spec.HolderIdentity, now.Name+"_")) {
			err = fmt.Errorf("%s leads, %s is there", *lease.Spec.HolderIdentity, now.Name)
		}
		return err
	})
}

// checkRights wants Plimsoll to have written as its service account, and never to have been
// refused.
func (r *Rig) checkRights(pod *corev1.Pod) {
	r.t.Helper()
	text := must.Get(os.ReadFile(r.Lab.AuditLog()))(r.t)
	wrote := 0
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte(`"username":"system:serviceaccount:plimsoll:plimsoll"`)) || !bytes.Contains(line, []byte(pod.Name)) {
			continue
		}
		if bytes.Contains(line, []byte(`"code":403`)) {
			r.t.Errorf("it was refused: %s", line)
		}
		if bytes.Contains(line, []byte(`"verb":"update"`)) || bytes.Contains(line, []byte(`"verb":"patch"`)) {
			wrote++
		}
	}
	if wrote == 0 {
		r.t.Error("its service account, bound to its pod, has written nothing")
	}
}

// deploy makes an application whose pods ask for so much.
func (r *Rig) deploy(replicas int32, cpu string) {
	r.t.Helper()
	labels := map[string]string{"app": "shop"}
	must.Get(r.Client.AppsV1().Deployments("default").Create(r.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "shop", Image: "shop", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("256Mi"),
				}},
			}}}},
		},
	}, metav1.CreateOptions{}))(r.t)
}
