//go:build lab

package rke2

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
)

// inLab is a real control plane in place of the one that RKE2 would run. It applies what the control
// plane's machine finds among RKE2's manifests, and the machines' nodes are put into it.
type inLab struct {
	*world
	lab    *lab.Lab
	client kubernetes.Interface
	boots  chan pvesim.Boot
}

// joining registers nodes as machines boot.
func (l *inLab) joining(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-l.boots:
			if err := l.join(ctx, b); err != nil && ctx.Err() == nil {
				l.t.Errorf("%s does not join: %v", b.Name, err)
			}
		}
	}
}

func (l *inLab) join(ctx context.Context, b pvesim.Boot) error {
	doc, err := readCloudConfig(b.UserData)
	if err != nil {
		return err
	}
	for _, f := range doc.Files {
		if !strings.HasPrefix(f.Path, addonsFolder) {
			continue
		}
		content, err := f.written()
		if err != nil {
			return err
		}
		if err := l.lab.Create(ctx, content); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	l.net.mu.Lock()
	n := l.net.nodes[b.Name]
	l.net.mu.Unlock()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: corev1.NodeSpec{ProviderID: n.ProviderID}}
	if _, err := l.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the controller manager writes to new nodes, too
		made, err := l.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		made.Status.NodeInfo.SystemUUID = n.SystemUUID
		made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		_, err = l.client.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{})
		return err
	})
}

// A test bed's machines join a real control plane, which takes Plimsoll's own manifests and the secret that
// they look for, and nothing is left of the test bed behind it.
func TestMachinesJoinARealControlPlane(t *testing.T) {
	l := &inLab{boots: make(chan pvesim.Boot, 16)}
	l.lab = labtest.Up(t, lab.Config{})
	l.client = kubernetes.NewForConfigOrDie(l.lab.REST())
	kubeconfig, err := os.ReadFile(l.lab.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	const fast = 20
	w := newWorld(t, func(c *pvesim.Config) { c.Speed = fast })
	t.Cleanup(w.sim.Close)
	l.world = w
	w.sim.OnBoot(func(b pvesim.Boot) {
		w.net.booted(b)
		l.boots <- b
	})
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	go l.joining(ctx)
	w.serve()
	w.site.Workers.VMPool = &VMPool{Mode: "Active", ScaledBy: "ClusterAutoscaler"}
	w.site.manifests = map[string][]byte{}
	for name, file := range map[string]string{"a-crds.yaml": "manifests/crds.yaml", "b-plimsoll.yaml": "manifests/active.yaml"} {
		if w.site.manifests[name], err = deploy.Manifests.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	begin := func() *Bench {
		wait := func(ctx context.Context, d time.Duration) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(d / fast):
				return nil
			}
		}
		b, err := New(Config{
			Site: w.site, Store: Folder(t.TempDir() + "/bench"), Now: w.sim.Now, Wait: wait, Rand: rand.New(rand.NewPCG(1, 1)),
			Connection: pve.Connection{
				Endpoints: w.site.Endpoints, Fingerprint: strings.Join(w.site.Fingerprints, ","), Now: w.sim.Now, Wait: wait,
				Token: func() (string, error) { return w.token, nil },
			},
			Kubernetes: func([]byte) (Kubernetes, error) { return Reached(kubeconfig) },
			Report:     func(line string) { t.Log(line) },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	b := begin()
	if err := b.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := l.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var pools []string
	for i := range list.Items {
		pool, _, _ := strings.Cut(list.Items[i].Name, "-")
		pools = append(pools, pool)
	}
	slices.Sort(pools)
	if diff := cmp.Diff(whole, pools); diff != "" {
		t.Error(diff)
	}
	secret, err := l.client.CoreV1().Secrets(productNamespace).Get(t.Context(), productSecret, metav1.GetOptions{})
	if err != nil || strings.TrimSpace(string(secret.Data["token"])) != b.secrets.Proxmox {
		t.Errorf("the secret is %v, %v", secret, err)
	}
	if _, err := l.client.AppsV1().Deployments(productNamespace).Get(t.Context(), "plimsoll", metav1.GetOptions{}); err != nil {
		t.Error("Plimsoll's Deployment:", err)
	}
	objects, err := dynamic.NewForConfig(l.lab.REST())
	if err != nil {
		t.Fatal(err)
	}
	pool, err := objects.Resource(schema.GroupVersionResource{Group: "plimsoll.dev", Version: "v1alpha1", Resource: "vmpools"}).Get(t.Context(), "workers", metav1.GetOptions{})
	if err != nil {
		t.Fatal("the VMPool:", err)
	}
	join, _, err := unstructured.NestedString(pool.Object, "spec", "join", "tokenFile")
	if len(secret.Data[join]) == 0 || err != nil {
		t.Errorf("the VMPool names %q, which is not in the secret: %v", join, err)
	}
	if err := b.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := w.left(); len(left) > 0 {
		t.Errorf("this is left: %q", left)
	}
}
