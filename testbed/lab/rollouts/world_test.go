//go:build lab

package rollouts

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
	"github.com/plimsoll/plimsoll/testbed/lab/product"
	"github.com/plimsoll/plimsoll/testbed/must"
)

const (
	pool  = "workers" // the lab's
	speed = 20        // of the emulated Proxmox VE
	// share of the machines may be on their way out at once, and be beside those they replace.
	share = "40%"
)

// The templates after the lab's own.
const (
	good = 9001 + iota
	next
	bad // no machine boots of it
)

// world is a lab with the product in it, whose pool makes as many machines as there are pods.
type world struct {
	*testing.T
	lab      *lab.Lab
	machines *machines.Part
	client   kubernetes.Interface
	pools    dynamic.ResourceInterface
	binary   string
	began    time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, binary: labtest.Program(t), began: time.Now(), machines: &machines.Part{
		Speed: speed, Seed: 1, Templates: map[int]string{good: "system", next: "system", bad: "none"},
		Site: func(s *settings.Site) { s.ClonesPerStorage = 5 },
	}}
	parts := []lab.Part{
		&lab.KWOK{PodStart: timing.Range{Min: 5 * time.Second, Max: 7 * time.Second}, PodStop: timing.Range{Max: time.Second}},
		&lab.Prometheus{}, w.machines, &plane.Part{Seed: 1, Gateway: true},
		&product.Part{Program: w.binary, Settings: map[string]any{"mode": "Active", "interval": "1s"}},
	}
	product.Link(parts)
	w.lab = labtest.Up(t, lab.Config{Parts: parts})
	w.client = kubernetes.NewForConfigOrDie(w.lab.REST())
	w.pools = dynamic.NewForConfigOrDie(w.lab.REST()).Resource(v1alpha1.GroupVersion.WithResource("vmpools"))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the pool:\n%s", must.Get(yaml.Marshal(w.pool().Status))(t))
		}
	})
	return w
}

// create creates objects.
func (w *world) create(objects ...any) {
	w.Helper()
	for _, o := range objects {
		text := must.Get(yaml.Marshal(o))(w)
		if err := w.lab.Create(w.Context(), text); err != nil {
			w.Fatal(err)
		}
	}
}

// makePool makes the lab's pool, with a rollout.
func (w *world) makePool() {
	w.Helper()
	o := must.Get(product.Pools(w.machines))(w)[0]
	spec := o["spec"].(map[string]any)
	spec["max"], spec["joinTimeout"] = *count+*count/2, "30s"
	spec["disruption"] = map[string]any{
		"drift": "Replace", "budgets": []any{map[string]any{"nodes": share}},
		"rollout": map[string]any{"surge": share, "canary": map[string]any{"machines": 1, "for": "5s"}},
	}
	w.create(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "PriceBook", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{"currency": "units", "pricePerVCPUHour": 1, "pricePerGBHour": 1},
	}, o)
}

// change merges keys into the pool's spec.
func (w *world) change(spec string) {
	w.Helper()
	w.logf("the pool's spec: %s", spec)
	if _, err := w.pools.Patch(w.Context(), pool, types.MergePatchType, []byte(`{"spec": `+spec+`}`), metav1.PatchOptions{FieldManager: "kubectl"}); err != nil {
		w.Fatal(err)
	}
}

// template is the key of a pool that names its template.
func template(vmid int) string { return fmt.Sprintf(`"template": {"vmid": %d}`, vmid) }

// pool reads the pool.
func (w *world) pool() (p v1alpha1.VMPool) {
	w.Helper()
	o := must.Get(w.pools.Get(context.WithoutCancel(w.Context()), pool, metav1.GetOptions{}))(w)
	text := must.Get(o.MarshalJSON())(w)
	if err := json.Unmarshal(text, &p); err != nil {
		w.Fatal(err)
	}
	return p
}

// vms are the machines of the pool.
func (w *world) vms() (all []pvesim.VMState) {
	for _, v := range w.machines.Cluster().Inventory().VMs {
		if v.Pool != "" {
			all = append(all, v)
		}
	}
	return all
}

// rollout waits until the pool's rollout is as it should be, and returns the phases on the way.
func (w *world) rollout(what string, so func(*v1alpha1.RolloutStatus) bool) (phases []string) {
	w.Helper()
	labtest.Until(w, what, 100*time.Millisecond, func(context.Context) error {
		st := w.pool().Status.Rollout
		if st == nil {
			return fmt.Errorf("the pool says nothing of its rollout")
		}
		if len(phases) == 0 || phases[len(phases)-1] != st.Phase {
			phases = append(phases, st.Phase)
			w.logf("%s: %s", st.Phase, st.Message)
		}
		if !so(st) {
			return fmt.Errorf("%s: %s", st.Phase, st.Message)
		}
		return nil
	})
	w.logf("%s", what)
	return phases
}

func (w *world) logf(format string, args ...any) {
	w.Helper()
	w.Logf("%6.1fs  %s", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

// plimsoll runs another verb of the binary, and returns what it prints.
func (w *world) plimsoll(args ...string) string {
	w.Helper()
	return labtest.Verb(w, w.binary, w.lab.Kubeconfig(), args...)
}

// events are the reasons of the pool's events.
func (w *world) events() map[string]bool {
	w.Helper()
	list := must.Get(w.client.EventsV1().Events("").List(w.Context(), metav1.ListOptions{}))(w)
	all := map[string]bool{}
	for i := range list.Items {
		if e := &list.Items[i]; e.Regarding.Kind == v1alpha1.KindVMPool && e.Regarding.Name == pool {
			all[e.Reason] = true
		}
	}
	return all
}
