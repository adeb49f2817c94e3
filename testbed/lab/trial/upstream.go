package trial

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/testbed/lab/upstream"
)

// handOver leaves the machines to cluster-autoscaler: the pools say so, and Plimsoll is to scale
// pods and to serve it. What it expects of pods it makes known where the row's cluster-autoscaler
// looks for that.
func (r *run) handOver(ctx context.Context) error {
	by := kube.ByNothing
	if r.flags().CapacityBufferPodInjectionEnabled {
		by = kube.ByCapacityBuffer
		if err := r.lab.Create(ctx, upstream.BufferKind); err != nil {
			return err
		}
	}
	r.plimsoll.Provider = true
	r.plimsoll.Settings = map[string]any{
		"mode": "Active", "interval": nodescaler.Duration(r.Tick), "handoff": map[string]any{"by": by},
		"journal": map[string]any{"file": filepath.Join(r.folder, journalFile)},
	}
	for i := range r.Pools {
		pool := &unstructured.Unstructured{}
		pool.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("VMPool"))
		pool.SetName(r.Pools[i].Name)
		change := fmt.Appendf(nil, `{"spec": {"scaledBy": %q}}`, v1alpha1.ScaledByClusterAutoscaler)
		if err := r.client.Patch(ctx, pool, client.RawPatch("application/merge-patch+json", change)); err != nil {
			return fmt.Errorf("VMPool %s: %w", pool.GetName(), err)
		}
	}
	return nil
}

// flags are those of the row's cluster-autoscaler.
func (r *run) flags() *upstream.Flags {
	if said := r.job.Policy.Nodes.Spec().Unneeded; said != nil {
		return said
	}
	usual := upstream.DefaultFlags()
	return &usual
}

// autoscale starts what plays cluster-autoscaler, once the provider answers and has the pools'
// groups.
func (r *run) autoscale(ctx context.Context) error {
	r.upstream = &upstream.Part{
		Address: r.lab.Endpoint(r.plimsoll.Name(), "provider"), Certificates: r.plimsoll.Certificates(),
		Unneeded: *r.flags(), Expander: upstream.Price,
	}
	if err := r.lab.Add(ctx, r.upstream); err != nil {
		return err
	}
	return await(ctx, "cluster-autoscaler's first scan", time.Minute, func(context.Context) error {
		if r.upstream.Scans() == 0 {
			return errors.New("it has made none")
		}
		return nil
	})
}
