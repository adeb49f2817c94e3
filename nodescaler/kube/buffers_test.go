package kube

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/kubesim"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// capacityBuffers is their kind in a version.
func capacityBuffers(version string) kubesim.Kind {
	return kubesim.Kind{Group: copies.BufferGroup, Version: version, Name: "CapacityBuffer", Resource: copies.BufferResource, Status: true, Custom: true}
}

const bufferObjects = `
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {replicas: 10, selector: {matchLabels: {app: web}},
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, resources: {limits: {cpu: 500m, memory: 1Gi}}}]}}}}
---
{apiVersion: v1, kind: PodTemplate, metadata: {name: chunk, namespace: shop, generation: 3}, template: {spec: {nodeSelector: {disk: ssd},
  containers: [{name: c, resources: {requests: {cpu: 200m, memory: 128Mi}}}]}}}
`

// buffersIn observes buffers that are written as specs, by name, and reports what became of them.
func buffersIn(t *testing.T, version string, specs map[string]string, report func(ctx context.Context, c *Cluster, all []nodescaler.Headroom), then func(s *kubesim.Server)) {
	t.Helper()
	quiet()
	synctest.Test(t, func(t *testing.T) {
		s := kubesim.New(1, append(ourKinds(), capacityBuffers(version))...)
		all := bufferObjects
		for name, spec := range specs {
			all += fmt.Sprintf("---\n{apiVersion: %s/%s, kind: CapacityBuffer, metadata: {name: %s, namespace: shop, generation: 1}, spec: %s}\n", copies.BufferGroup, version, name, spec)
		}
		for o := range strings.SplitSeq(all, "---\n") {
			must.Do(t, s.Apply(o))
		}
		c := must.Get(New(Config{REST: s.Client("a", nil).Config(), Buffers: true, Mode: Active, Namespace: "plimsoll", Lease: "plimsoll"}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
		must.Do(t, c.Synced(ctx))
		worked := make(chan struct{})
		go func() {
			if err := c.Lead(ctx, "me", func(ctx context.Context) {
				defer close(worked)
				report(ctx, c, must.Get(c.Observe(ctx))(t).Headroom)
			}); err != nil {
				t.Error(err)
			}
		}()
		<-worked
		then(s)
		cancel()
		synctest.Wait()
	})
}

func TestCapacityBuffersAskForHeadroom(t *testing.T) {
	for _, version := range copies.BufferVersions {
		specs := map[string]string{
			"part":      `{scalableRef: {apiGroup: apps, kind: Deployment, name: web}, percentage: 25}`,
			"larger":    `{scalableRef: {apiGroup: apps, kind: Deployment, name: web}, percentage: 20, replicas: 1, provisioningStrategy: buffer.x-k8s.io/active-capacity}`,
			"limited":   `{podTemplateRef: {name: chunk}, replicas: 9, limits: {cpu: "1", memory: 1Gi}}`,
			"unlimited": `{podTemplateRef: {name: chunk}, limits: {cpu: "1"}}`,
			"absent":    `{podTemplateRef: {name: none}, replicas: 1}`,
			"other":     `{podTemplateRef: {name: chunk}, replicas: 1, provisioningStrategy: buffer.example/standby}`,
			"nothing":   `{podTemplateRef: {name: chunk}}`,
		}
		buffersIn(t, version, specs, func(ctx context.Context, c *Cluster, all []nodescaler.Headroom) {
			var got []string
			for _, h := range all {
				got = append(got, fmt.Sprintf("%s %d × %dm %s %v", h.Name, h.Count, h.Like.Requests.CPU, h.Like.Requests.Memory, h.Like.Selector))
			}
			want := []string{
				"shop/larger 2 × 500m 1GiB map[]", "shop/limited 5 × 200m 128MiB map[disk:ssd]", "shop/part 3 × 500m 1GiB map[]", "shop/unlimited 5 × 200m 128MiB map[disk:ssd]",
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: -want +got:\n%s", version, d)
			}
			why := nodescaler.Reason{Code: nodescaler.HeadroomShort, Text: "the pool is full"}
			states := []nodescaler.HeadroomState{
				{Name: "shop/larger", Wanted: 2, Ready: 2, Rate: pricing.Rate(1e9)}, {Name: "shop/limited", Wanted: 5, Ready: 1, Coming: 1, Why: &why}, {Name: "shop/part", Wanted: 3, Coming: 3},
			}
			if err := c.ReportHeadroom(ctx, states); err != nil {
				t.Error(err)
			}
		}, func(s *kubesim.Server) {
			for name, want := range map[string]string{
				"larger":  "2 ReadyForProvisioning=True/AttributesSetSuccessfully Provisioning=True/RoomKept",
				"limited": "5 ReadyForProvisioning=True/AttributesSetSuccessfully Provisioning=False/HeadroomShort",
				"part":    "3 ReadyForProvisioning=True/AttributesSetSuccessfully Provisioning=True/RoomComing",
				"absent":  "<nil> ReadyForProvisioning=False/BufferInvalid",
				"nothing": "<nil> ReadyForProvisioning=False/BufferInvalid",
				"other":   "",
			} {
				status, _ := s.Get(copies.BufferResource+"."+copies.BufferGroup, "shop/"+name)["status"].(map[string]any)
				got := ""
				if status != nil {
					got = fmt.Sprint(status["replicas"])
				}
				conditions, _ := status["conditions"].([]any)
				for _, o := range conditions {
					is, _ := o.(map[string]any)
					got += fmt.Sprintf(" %s=%s/%s", is["type"], is["status"], is["reason"])
				}
				if got != want {
					t.Errorf("%s: the status of %s is %q, want %q: %v", version, name, got, want, status)
				}
			}
		})
	}
}
