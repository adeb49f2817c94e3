package kept

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestBufferCounts(t *testing.T) {
	like := nodescaler.Pod{Requests: pricing.Resources{CPU: 500, Memory: pricing.GiB}, Extra: pricing.Amounts{{Name: "gpu", N: 1}}}
	n := func(v int64) *int64 { return &v }
	limits := func(pairs ...string) map[string]resource.Quantity {
		all := map[string]resource.Quantity{}
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i]] = resource.MustParse(pairs[i+1])
		}
		return all
	}
	ref := &struct{ APIGroup, Kind, Name string }{"apps", "Deployment", "web"}
	for _, c := range []struct {
		spec BufferSpec
		of   int
		want int // -1 is an error
	}{
		{BufferSpec{Replicas: n(3)}, 0, 3},
		{BufferSpec{Replicas: n(0)}, 0, 0},
		{BufferSpec{Percentage: n(20), ScalableRef: ref}, 10, 2},
		{BufferSpec{Percentage: n(1), ScalableRef: ref}, 10, 1},
		{BufferSpec{Percentage: n(150), ScalableRef: ref}, 3, 5},
		{BufferSpec{Percentage: n(50), ScalableRef: ref}, 0, 0},
		{BufferSpec{Percentage: n(50)}, 10, -1},
		{BufferSpec{Percentage: n(20), Replicas: n(5), ScalableRef: ref}, 10, 5},
		{BufferSpec{Replicas: n(9), Limits: limits("cpu", "2")}, 0, 4},
		{BufferSpec{Replicas: n(1), Limits: limits("cpu", "2")}, 0, 1},
		{BufferSpec{Limits: limits("cpu", "2", "memory", "3Gi")}, 0, 3},
		{BufferSpec{Limits: limits("gpu", "7")}, 0, 7},
		{BufferSpec{Replicas: n(2), Limits: limits("tpu", "7")}, 0, -1},
		{BufferSpec{Limits: limits("cpu", "100m")}, 0, 0},
		{BufferSpec{}, 0, -1},
	} {
		got, err := c.spec.Count(c.of, &like)
		if err != nil {
			got = -1
		}
		if got != c.want {
			t.Errorf("%+v of %d: %d, %v, want %d", c.spec, c.of, got, err, c.want)
		}
	}
}
