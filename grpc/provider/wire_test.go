package provider

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// raw is messages as bytes, so that a client can be played that knows none of our fields.
type raw struct{}

func (raw) Name() string { return "proto" }
func (raw) Marshal(v any) ([]byte, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("must be bytes, was %T", v)
	}
	return b, nil
}
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

var _ encoding.Codec = raw{}

// field is a field of a message as it is on the wire.
func field(n protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), content)
}

func number(n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), v)
}

func join(parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// find returns the field of a message, at the end of a path of field numbers.
func find(message []byte, path ...protowire.Number) ([]byte, bool) {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return nil, false
		}
		message = message[size:]
		size = protowire.ConsumeFieldValue(n, kind, message)
		value := message[:size]
		message = message[size:]
		if n != path[0] {
			continue
		}
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		if len(path) == 1 {
			return value, true
		}
		return find(value, path[1:]...)
	}
	return nil, false
}

// A client of cluster-autoscaler up to 1.34.1 and one of 1.35 and later, each with only the fields
// that it knows, read the same values from one server.
func TestOldAndNewClientsReadEqualValues(t *testing.T) {
	unneeded := nodescaler.Duration(3 * time.Minute)
	s, _ := made(t, func(c *Config) { c.Pools[0].Options = &Options{ScaleDownUnneededTime: &unneeded} })
	group := groupOf(t, s, "workers.small")
	conn := dial(t, serve(t, s, Listening{}), insecure.NewCredentials())
	ask := func(method string, in []byte) []byte {
		t.Helper()
		var out []byte
		err := conn.Invoke(context.Background(), "/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/"+method, in, &out, grpc.ForceCodec(raw{}))
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		return out
	}
	must := func(message []byte, what string, path ...protowire.Number) string {
		t.Helper()
		value, ok := find(message, path...)
		if !ok {
			t.Errorf("%s is not there", what)
		}
		return string(value)
	}
	// A Timestamp, a metav1.Time and a Duration alike.
	seconds := func(n int64) []byte { return number(1, uint64(n)) }

	template := ask("NodeGroupTemplateNodeInfo", field(1, []byte(group)))
	if old, recent := must(template, "nodeInfo", 1), must(template, "nodeBytes", 2); old != recent || old == "" {
		t.Error("they see different nodes")
	}

	label := func(key, value string) []byte { return field(3, join(field(1, []byte(key)), field(2, []byte(value)))) }
	node := field(1, join(field(2, []byte("template-node-for-x")), label(PoolLabel, "workers"), label(ShapeLabel, "small")))
	from, to := seconds(noon.Unix()), seconds(noon.Add(time.Hour).Unix())
	old := must(ask("PricingNodePrice", join(node, field(2, from), field(3, to))), "price", 1)
	recent := must(ask("PricingNodePrice", join(node, field(4, from), field(5, to))), "price", 1)
	if old != recent || len(old) != 8 {
		t.Errorf("a node costs %x and %x", old, recent)
	}

	pod, err := (&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
	}}}}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	old = must(ask("PricingPodPrice", join(field(1, pod), field(2, from), field(3, to))), "price", 1)
	recent = must(ask("PricingPodPrice", join(field(4, pod), field(5, from), field(6, to))), "price", 1)
	if old != recent || len(old) != 8 {
		t.Errorf("a pod costs %x and %x", old, recent)
	}

	nanoseconds := number(1, uint64(10*time.Minute)) // a metav1.Duration
	options := ask("NodeGroupGetOptions", join(field(1, []byte(group)), field(2, join(field(3, nanoseconds), field(4, nanoseconds), field(5, nanoseconds)))))
	for i, what := range []string{"unneeded", "unready", "provision"} {
		before := must(options, "old "+what, 1, protowire.Number(3+i), 1)
		now := must(options, "new "+what, 1, protowire.Number(8+i), 1)
		b, _ := protowire.ConsumeVarint([]byte(before))
		n, _ := protowire.ConsumeVarint([]byte(now))
		if time.Duration(b) != time.Duration(n)*time.Second || b == 0 {
			t.Errorf("%s: %s for old clients, %s for new ones", what, time.Duration(b), time.Duration(n)*time.Second)
		}
	}
	// What the releases between send has neither the old durations nor the start time.
	gap := ask("NodeGroupGetOptions", join(field(1, []byte(group)), field(2, field(8, seconds(600)))))
	if len(gap) != 0 {
		t.Errorf("options %x for a client that would take every start for late", gap)
	}
}
