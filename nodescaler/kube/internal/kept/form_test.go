package kept

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/pricing"
)

// The API server fills in what pods request that their form limits only: of a container, and of the
// pod as a whole.
func TestFormsRequestWhatTheirPodsWill(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		want pricing.Resources
		huge int64
	}{
		"a container's limit": {`containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Gi}}}]`, pricing.Resources{CPU: 1000, Memory: pricing.GiB}, 0},
		"the pod's limit": {
			`resources: {limits: {cpu: 2, memory: 1Gi}}, containers: [{name: a}]`, pricing.Resources{CPU: 2000, Memory: pricing.GiB}, 0},
		"what containers request, below it": {
			`resources: {limits: {cpu: 2, memory: 1Gi}}, containers: [{name: a, resources: {requests: {cpu: 300m}}}, {name: b, resources: {limits: {cpu: 200m}}}]`,
			pricing.Resources{CPU: 500, Memory: pricing.GiB}, 0},
		"what the pod requests": {
			`resources: {requests: {cpu: 1}, limits: {cpu: 2, memory: 1Gi}}, containers: [{name: a, resources: {requests: {cpu: 300m}}}]`,
			pricing.Resources{CPU: 1000, Memory: pricing.GiB}, 0},
		"huge pages": {
			`resources: {limits: {cpu: 1, hugepages-2Mi: 6Mi}}, containers: [{name: a, resources: {requests: {memory: 1Gi, hugepages-2Mi: 4Mi}}}]`,
			pricing.Resources{CPU: 1000, Memory: pricing.GiB}, 6 << 20},
		"and the overhead of its runtime": {
			`resources: {limits: {cpu: 2}}, overhead: {cpu: 250m}, containers: [{name: a}]`, pricing.Resources{CPU: 2250}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			said := shortForm("shop", "web", written.Object[corev1.PodTemplateSpec](t, `spec: {`+c.spec+`}`)).Says()
			if d := cmp.Diff(c.want, said.Requests); d != "" || said.Extra.Of("hugepages-2Mi") != c.huge {
				t.Errorf("-want +got:\n%s%d huge pages, want %d", d, said.Extra.Of("hugepages-2Mi"), c.huge)
			}
		})
	}
}
