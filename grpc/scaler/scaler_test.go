package scaler_test

import (
	"context"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/plimsoll/plimsoll/grpc/externalscaler"
	"github.com/plimsoll/plimsoll/grpc/scaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// keda scales as KEDA and the HorizontalPodAutoscaler that it makes do: by the first metric of a
// trigger, as an average of its target.
type keda struct {
	externalscaler.ExternalScalerClient
	ref      *externalscaler.ScaledObjectRef
	replicas int
	min      int // of the HorizontalPodAutoscaler
}

// poll asks once, and has as many replicas as follow: none if the scaler is not active, those that
// there are if it does not answer or the change is within a tenth.
func (k *keda) poll(t *testing.T) error {
	t.Helper()
	active, err := k.IsActive(t.Context(), k.ref)
	if err != nil {
		return err
	}
	spec, err := k.GetMetricSpec(t.Context(), k.ref)
	if err != nil {
		return err
	}
	name, target := spec.GetMetricSpecs()[0].GetMetricName(), spec.GetMetricSpecs()[0].GetTargetSizeFloat()
	values, err := k.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: k.ref, MetricName: name})
	if err != nil {
		return err
	}
	value := float64(values.GetMetricValues()[0].GetMetricValue())
	if f := values.GetMetricValues()[0].GetMetricValueFloat(); f > 0 {
		value = f
	}
	switch ratio := value / (target * float64(k.replicas)); {
	case !active.GetResult():
		k.replicas = 0
	case k.replicas == 0:
		k.replicas = max(k.min, 1)
	case math.Abs(ratio-1) > 0.1:
		k.replicas = max(int(math.Ceil(value/target)), k.min, 1)
	}
	return nil
}

// serving is a server at an address of its own, and a client of it.
func serving(t *testing.T, now *time.Time) (*scaler.Server, externalscaler.ExternalScalerClient) {
	t.Helper()
	s := scaler.New(func() time.Time { return *now })
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	conn := must.Get(grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = conn.Close() })
	client := externalscaler.NewExternalScalerClient(conn)
	must.Get(client.GetMetricSpec(t.Context(), ref(nil), grpc.WaitForReady(true)))(t)
	return s, client
}

func ref(metadata map[string]string) *externalscaler.ScaledObjectRef {
	return &externalscaler.ScaledObjectRef{Name: "web", Namespace: "shop", ScalerMetadata: metadata}
}

func decided(t *testing.T, s *scaler.Server, at time.Time, to int, f podscaler.Forecast) {
	t.Helper()
	step := &loop.Step{Time: at, Workloads: []loop.WorkloadStep{
		{Workload: "shop/web", Decision: &podscaler.Decision{To: to, Forecast: f}}, {Workload: "bank/web", Decision: &podscaler.Decision{To: 99}},
	}}
	must.Do(t, s.Append(step))
}

func TestKEDAFollowsWhatIsRecommended(t *testing.T) {
	now := t0
	s, client := serving(t, &now)
	k := &keda{ExternalScalerClient: client, ref: ref(nil), replicas: 3}
	if err := k.poll(t); status.Code(err) != codes.NotFound || k.replicas != 3 {
		t.Errorf("before a decision: %v, %d replicas", err, k.replicas)
	}
	for _, want := range []int{5, 12, 7, 0, 4, 40, 1} {
		decided(t, s, now, want, podscaler.Forecast{})
		for range 2 { // from 0, KEDA wakes the workload first
			must.Do(t, k.poll(t))
		}
		if k.replicas != want {
			t.Errorf("%d recommended, and KEDA has %d", want, k.replicas)
		}
	}
	// A step in which it is not the workload's turn changes nothing, nor does one that saw nothing
	// of the cluster; one without it forgets it.
	_ = s.Append(&loop.Step{Time: now, Workloads: []loop.WorkloadStep{{Workload: "shop/web"}}})
	_ = s.Append(&loop.Step{Time: now, Problems: []podscaler.Reason{podscaler.Because(loop.CodeClusterUnknown, "no answer in time")}})
	if err := k.poll(t); err != nil || k.replicas != 1 {
		t.Errorf("%v, %d replicas", err, k.replicas)
	}
	now = now.Add(16 * time.Minute)
	if err := k.poll(t); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "the last decision for shop/web is 16m0s old, must be at most 15m0s") {
		t.Errorf("an old decision: %v", err)
	}
	_ = s.Append(&loop.Step{Time: now})
	if err := k.poll(t); status.Code(err) != codes.NotFound || k.replicas != 1 {
		t.Errorf("of a workload that is gone: %v, %d replicas", err, k.replicas)
	}
}

func TestKEDAFollowsWhatIsForecast(t *testing.T) {
	now := t0
	s, client := serving(t, &now)
	k := &keda{ExternalScalerClient: client, ref: ref(map[string]string{"workload": "web", "metric": "forecast", "target": "12.5"}), replicas: 2}
	decided(t, s, now, 3, podscaler.Forecast{})
	if err := k.poll(t); status.Code(err) != codes.Unavailable || k.replicas != 2 {
		t.Errorf("without a forecast: %v, %d replicas", err, k.replicas)
	}
	decided(t, s, now, 3, podscaler.Forecast{Load: 101, Unit: podscaler.RequestsPerSecond, Within: time.Minute})
	if err := k.poll(t); err != nil || k.replicas != 9 {
		t.Errorf("101 of 12.5: %v, %d replicas", err, k.replicas)
	}
}

func TestTriggersAreRefusedWithKeyRuleAndValue(t *testing.T) {
	now := t0
	s, client := serving(t, &now)
	decided(t, s, now, 3, podscaler.Forecast{})
	for want, metadata := range map[string]map[string]string{
		`metric: must be replicas or forecast, was "pods"`:                                          {"metric": "pods"},
		`target: must be omitted with metric replicas, of which each replica counts as 1, was "2"`:  {"target": "2"},
		`target: must be the load that one replica takes, above 0, with metric forecast, was ""`:    {"metric": "forecast"},
		`target: must be the load that one replica takes, above 0, with metric forecast, was "NaN"`: {"metric": "forecast", "target": "NaN"},
		`target: must be the load that one replica takes, above 0, with metric forecast, was "-1"`:  {"metric": "forecast", "target": "-1"},
	} {
		_, err := client.GetMetricSpec(t.Context(), ref(metadata))
		if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != want {
			t.Errorf("%v: %v, should be %q", metadata, err, want)
		}
	}
	_, err := client.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: ref(nil), MetricName: "forecast"})
	if want := `metricName: must be replicas, which the trigger asks for, was "forecast"`; status.Convert(err).Message() != want {
		t.Errorf("%v, should be %q", err, want)
	}
	other := &externalscaler.ScaledObjectRef{Name: "web", Namespace: "elsewhere"}
	if _, err := client.IsActive(t.Context(), other); status.Code(err) != codes.NotFound {
		t.Errorf("another namespace: %v", err)
	}
}

func TestAStreamSaysWhenAWorkloadIsWoken(t *testing.T) {
	now := t0
	s, client := serving(t, &now)
	stream := must.Get(client.StreamIsActive(t.Context(), ref(nil)))(t)
	for i, to := range []int{0, 0, 3, 4, 0} {
		decided(t, s, now, to, podscaler.Forecast{})
		if i == 1 || i == 3 {
			continue // nothing has changed
		}
		said, err := stream.Recv()
		if err != nil || said.GetResult() != (to > 0) {
			t.Fatalf("%d replicas: %v, %v", to, said, err)
		}
	}
}
