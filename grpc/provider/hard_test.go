package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// Orders are named by the millisecond, and one whose name is known is taken for one that is
// repeated.
func TestOrdersWithinAMillisecondAreDifferentMachines(t *testing.T) {
	now := noon
	s, p := made(t, func(c *Config) {
		c.Now = func() time.Time { now = now.Add(time.Microsecond); return now }
	})
	id := groupOf(t, s, "workers.small")
	for range 4 {
		must.Do(t, increase(t, s, id, 1))
	}
	if len(p.machines) != 4 {
		t.Errorf("%d machines of 4", len(p.machines))
	}
}

func TestOrdersAfterAClockThatWasSetBackAreNewMachines(t *testing.T) {
	stands := func(c *Config) { c.Now = func() time.Time { return noon }; c.Fresh = time.Nanosecond }
	s, p := made(t, stands)
	id := groupOf(t, s, "workers.small")
	must.Do(t, increase(t, s, id, 2))
	again := must.Get(New(Config{Pools: pools(), Machines: p, Prices: defaultPrices, Now: func() time.Time { return noon }}))(t)
	must.Do(t, increase(t, again, id, 2))
	if len(p.machines) != 4 || target(t, again, id) != 4 {
		t.Errorf("%d machines, target %d, of 4", len(p.machines), target(t, again, id))
	}
}

// unsure is a port whose orders are taken and answered with an error.
type unsure struct{ *port }

func (p unsure) Create(ctx context.Context, o loop.Order) error {
	return errors.Join(p.port.Create(ctx, o), errors.New("the disk is full"))
}

func TestOrderOfUnknownOutcomeIsTakenBack(t *testing.T) {
	p := &port{room: 10}
	s, _ := made(t, func(c *Config) { c.Machines = unsure{p} })
	if got := status.Code(increase(t, s, groupOf(t, s, "workers.small"), 2)); got != codes.Unavailable {
		t.Errorf("%s, want Unavailable", got)
	}
	if len(p.machines) != 0 {
		t.Errorf("%d machines came of an increase that failed", len(p.machines))
	}
}

func TestChangesThatNobodyWaitsForAreNotMade(t *testing.T) {
	s, p := made(t, nil)
	id := groupOf(t, s, "workers.small")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.NodeGroupIncreaseSize(ctx, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: id, Delta: 1})
	if status.Code(err) != codes.Canceled || len(p.machines) != 0 {
		t.Errorf("%v, and %d machines", err, len(p.machines))
	}
}

// attentive is a port that heeds contexts.
type attentive struct{ *port }

func (p attentive) List(ctx context.Context) (loop.MachineState, error) {
	if err := ctx.Err(); err != nil {
		return loop.MachineState{}, err
	}
	return p.port.List(ctx)
}

func TestCallerThatGoesAwayBlindsNobodyElse(t *testing.T) {
	s, _ := made(t, func(c *Config) {
		c.Machines, c.Fresh, c.Now = attentive{&port{room: 10}}, time.Hour, time.Now
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = s.NodeGroups(ctx, &externalgrpc.NodeGroupsRequest{})
	if err := s.Healthy(t.Context()); err != nil {
		t.Errorf("unhealthy: %v", err)
	}
}

// Clients keep the list of groups from one refresh to the next: an id that comes meanwhile is one
// that they do not know, and one that goes is one that they ask for in vain.
func TestGroupsComeAndGoAtRefreshOnly(t *testing.T) {
	s, p := made(t, nil)
	retired := func() string {
		all := must.Get(s.NodeGroups(t.Context(), &externalgrpc.NodeGroupsRequest{}))(t)
		for _, g := range all.NodeGroups {
			if strings.Contains(g.Id, ".retired-") {
				return g.Id
			}
		}
		return ""
	}
	refresh := func() {
		must.Get(s.Refresh(t.Context(), &externalgrpc.RefreshRequest{}))(t)
	}
	refresh()
	p.machines = append(p.machines, nodescaler.Machine{
		Name: "edge-old-0", Order: "old-0", Pool: "edge", ProviderID: "proxmox://lab/900", Phase: nodescaler.Joined,
		Shape: pricing.Shape{Name: "small", CPU: 1000, Memory: pricing.GiB},
	})
	ours := func() string {
		answer := must.Get(s.NodeGroupForNode(t.Context(), &externalgrpc.NodeGroupForNodeRequest{Node: fake("proxmox://lab/900")}))(t)
		return answer.NodeGroup.Id
	}
	if listed, its := retired(), ours(); listed != "" || its != "" {
		t.Errorf("before a refresh: %q is listed, %q is the node's", listed, its)
	}
	if _, most := limits(t, s, "edge.small"); most != 2 {
		t.Errorf("the pool takes %d more: the machine counts, listed or not", most)
	}
	refresh()
	id := retired()
	if its := ours(); id == "" || its != id {
		t.Errorf("after it: %q is listed, %q is the node's", id, its)
	}
	p.machines = nil
	if got := target(t, s, id); got != 0 || len(instances(t, s, id)) != 0 {
		t.Errorf("its last machine is gone, and its target is %d", got)
	}
	refresh()
	if listed := retired(); listed != "" {
		t.Errorf("after a refresh %s is still listed", listed)
	}
}

// limits are the sizes that a group is listed with.
func limits(t *testing.T, s *Server, prefix string) (least, most int32) {
	t.Helper()
	all := must.Get(s.NodeGroups(t.Context(), &externalgrpc.NodeGroupsRequest{}))(t)
	for _, g := range all.NodeGroups {
		if strings.HasPrefix(g.Id, prefix) {
			return g.MinSize, g.MaxSize
		}
	}
	t.Fatalf("no group %s", prefix)
	return 0, 0
}

// With --enforce-node-group-min-size cluster-autoscaler grows every group to its own minimum.
func TestMinimumOfAPoolIsAskedForOnce(t *testing.T) {
	s, p := made(t, func(c *Config) { c.Pools[0].Min = 2 })
	check := func(when string, small, large int32) {
		t.Helper()
		s.memory.renew(t.Context())
		a, _ := limits(t, s, "workers.small")
		b, _ := limits(t, s, "workers.large")
		if a != small || b != large {
			t.Errorf("%s: minima %d and %d, want %d and %d", when, a, b, small, large)
		}
	}
	check("at zero", 2, 0)
	must.Do(t, increase(t, s, groupOf(t, s, "workers.large"), 1))
	check("with one large", 1, 1)
	must.Do(t, increase(t, s, groupOf(t, s, "workers.large"), 1))
	check("with two large", 0, 2)
	p.set(nodescaler.Joined, nil)
	large := groupOf(t, s, "workers.large")
	if got := status.Code(remove(t, s, large, instances(t, s, large)[0].Id)); got != codes.FailedPrecondition {
		t.Errorf("the pool's last but one went: %s", got)
	}
}

func TestHostilePodsAskForNoLessThanNothing(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	for _, amount := range []string{"9223372036854775807", "9e18", "1e100", "8Ei", "-1e100"} {
		q := resource.MustParse(amount)
		c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: q, corev1.ResourceMemory: q}}}
		beside := c
		beside.RestartPolicy = &always
		pod := corev1.Pod{Spec: corev1.PodSpec{
			Containers: []corev1.Container{c, c, c}, InitContainers: []corev1.Container{beside, c},
			Overhead: corev1.ResourceList{corev1.ResourceCPU: q, corev1.ResourceMemory: q},
		}}
		text := must.Get(pod.Marshal())(t)
		room, err := requests(text)
		most := pricing.Resources{CPU: math.MaxInt64, Memory: math.MaxInt64}
		if strings.HasPrefix(amount, "-") {
			most = pricing.Resources{}
		}
		if err != nil || room != most {
			t.Errorf("%s: %+v, %v, want %+v", amount, room, err, most)
		}
	}
}

// A quantity of a few bytes may have as many digits as would take a day to go through.
func TestQuantitiesOfEndlessDigitsAreRefusedAtOnce(t *testing.T) {
	for _, amount := range []string{"1e2000000000", "1E+2000000000", "1e-2000000000", strings.Repeat("9", 1<<20), "1e-2147483648"} {
		entry := join(field(1, []byte("cpu")), field(2, field(1, []byte(amount))))
		// Of an environment variable, which is not asked for.
		divisor := field(4, field(3, field(3, field(1, []byte(amount)))))
		for name, c := range map[string]struct {
			container []byte
			want      codes.Code
		}{
			"asked for": {field(8, field(2, entry)), codes.InvalidArgument},
			"a limit":   {field(8, field(1, entry)), codes.OK},
			"elsewhere": {field(7, divisor), codes.OK},
		} {
			refused := make(chan error, 1)
			go func() {
				_, err := requests(field(2, field(2, c.container)))
				refused <- err
			}()
			select {
			case err := <-refused:
				if status.Code(err) != c.want {
					t.Errorf("%.20s, %s: %v, want %s", amount, name, err, c.want)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%.20s, %s: no answer", amount, name)
			}
		}
	}
}

// What is read of a pod's bytes is what Kubernetes' own reading of them gives.
func TestRoomIsWhatKubernetesReads(t *testing.T) {
	amounts := rapid.SampledFrom([]string{"0", "100m", "1", "1500m", "2Gi", "1e3", "1P", "0.5", "123456789", "7n"})
	always := corev1.ContainerRestartPolicyAlways
	rapid.Check(t, func(rt *rapid.T) {
		list := func(name string) corev1.ResourceList {
			return corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(amounts.Draw(rt, name)), corev1.ResourceMemory: resource.MustParse(amounts.Draw(rt, name)),
				"example.com/gpu": resource.MustParse("1"),
			}
		}
		milli := func(l corev1.ResourceList) pricing.Resources {
			return pricing.Resources{CPU: pricing.MilliCPU(l.Cpu().MilliValue()), Memory: pricing.Bytes(l.Memory().Value())}
		}
		pod := corev1.Pod{Spec: corev1.PodSpec{Overhead: list("overhead"), NodeName: "x"}}
		want, first, beside := pricing.Resources{}, pricing.Resources{}, pricing.Resources{}
		for range rapid.IntRange(0, 3).Draw(rt, "containers") {
			c := corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: list("request"), Limits: list("limit")}}
			pod.Spec.Containers = append(pod.Spec.Containers, c)
			want = want.Plus(milli(c.Resources.Requests))
		}
		for range rapid.IntRange(0, 3).Draw(rt, "before") {
			c := corev1.Container{Name: "i", Resources: corev1.ResourceRequirements{Requests: list("before")}}
			mine := milli(c.Resources.Requests)
			if rapid.Bool().Draw(rt, "stays") {
				c.RestartPolicy = &always
				beside = beside.Plus(mine)
			} else {
				first = most(first, mine.Plus(beside))
			}
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		}
		want = most(want.Plus(beside), first).Plus(milli(pod.Spec.Overhead))
		text := must.Get(pod.Marshal())(rt)
		if got, err := requests(text); err != nil || got != want {
			rt.Fatalf("%v (%v), want %v", got, err, want)
		}
	})
}

func TestRoomOfThePodAsAWholeIsWhatCounts(t *testing.T) {
	of := func(cpu string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	whole := of("1")
	text := must.Get((&corev1.Pod{Spec: corev1.PodSpec{
		Resources: &whole, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("1Gi"),
		}}}},
	}}).Marshal())(t)
	if got, err := requests(text); err != nil || got != (pricing.Resources{CPU: 1000, Memory: pricing.GiB}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Releases before 1.29 read no time to provision from an answer, and take it for zero: every
// machine that has just been ordered would be late.
func TestOptionsAreKeptFromClientsThatCannotReadAllOfThem(t *testing.T) {
	unneeded := nodescaler.Duration(3 * time.Minute)
	s, _ := made(t, func(c *Config) { c.Pools[0].Options = &Options{ScaleDownUnneededTime: &unneeded} })
	answer, err := s.NodeGroupGetOptions(t.Context(), &externalgrpc.NodeGroupAutoscalingOptionsRequest{
		Id: groupOf(t, s, "workers.small"), Defaults: &externalgrpc.NodeGroupAutoscalingOptions{
			ScaleDownUnneededTime: &externalgrpc.Nanoseconds{Duration: int64(10 * time.Minute)},
			ScaleDownUnreadyTime:  &externalgrpc.Nanoseconds{Duration: int64(20 * time.Minute)},
		},
	})
	if err != nil || answer.NodeGroupAutoscalingOptions != nil {
		t.Errorf("%v, %v", answer, err)
	}
}

// Every pending pod of a large cluster is sent to the expander, once for every group. The question
// must come within seconds, which are the bubble's: a busy machine takes none of them.
func TestExpanderTakesLargeQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := made(t, nil)
		l := loopback{bufconn.Listen(streamWindow)}
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- s.ServeExpander(ctx, l, Listening{}) }()
		conn := must.Get(grpc.NewClient("passthrough:expander", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })))(t)
		pod := must.Get((&corev1.Pod{Spec: corev1.PodSpec{NodeName: strings.Repeat("x", 1<<13)}}).Marshal())(t)
		option := &externalgrpc.Option{NodeGroupId: groupOf(t, s, "workers.small"), NodeCount: 1}
		for range 2000 {
			option.PodBytes = append(option.PodBytes, pod)
		}
		if _, err := externalgrpc.NewExpanderClient(conn).BestOptions(ctx, &externalgrpc.BestOptionsRequest{Options: []*externalgrpc.Option{option}}); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// loopback is a listener in memory that has an address of this machine.
type loopback struct{ *bufconn.Listener }

func (loopback) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func TestMetricTellsWhetherMachinesAreSeen(t *testing.T) {
	s, p := made(t, nil)
	registry := prometheus.NewRegistry()
	must.Do(t, call(t, dial(t, serve(t, s, Listening{Metrics: registry}), insecure.NewCredentials())))
	seen := func() float64 {
		families := must.Get(registry.Gather())(t)
		for _, f := range families {
			if f.GetName() == "plimsoll_provider_machines_seen" {
				return f.Metric[0].Gauge.GetValue()
			}
		}
		return -1
	}
	if got := seen(); got != 1 {
		t.Errorf("%g while they are seen, want 1", got)
	}
	p.mu.Lock()
	p.down = errDown
	p.mu.Unlock()
	s.memory.renew(t.Context())
	if got := seen(); got != 0 {
		t.Errorf("%g while they are not, want 0", got)
	}
}

// A machine gets its own pool and shape against its pool's labels; so does its template.
func TestTemplateIsLabelledAsItsMachinesAre(t *testing.T) {
	s, _ := made(t, func(c *Config) {
		c.Pools[0].Labels = map[string]string{PoolLabel: "other", ShapeLabel: "other", "kubernetes.io/arch": "arm64"}
	})
	answer := must.Get(s.NodeGroupTemplateNodeInfo(t.Context(), &externalgrpc.NodeGroupTemplateNodeInfoRequest{Id: groupOf(t, s, "workers.small")}))(t)
	var n corev1.Node
	must.Do(t, n.Unmarshal(answer.NodeBytes))
	if n.Labels[PoolLabel] != "workers" || n.Labels[ShapeLabel] != "small" || n.Labels["kubernetes.io/arch"] != "arm64" {
		t.Errorf("labels %v", n.Labels)
	}
}

func TestMachinesOfAnotherDiskAreAnotherGroups(t *testing.T) {
	s, p := made(t, nil)
	must.Do(t, increase(t, s, groupOf(t, s, "workers.small"), 1))
	reshaped := pools()
	reshaped[0].Shapes[0].Disk *= 2
	after := must.Get(New(Config{Pools: reshaped, Machines: p, Prices: defaultPrices, Now: s.cfg.Now}))(t)
	if got := len(instances(t, after, groupOf(t, after, "workers.small.retired"))); got != 1 {
		t.Errorf("%d machines of the old disk, want 1", got)
	}
}

func TestEveryFaultOfOptionsIsSaidWithItsKey(t *testing.T) {
	share, none := 1.5, nodescaler.Duration(0)
	all := pools()
	all[1].Options = &Options{ScaleDownUtilizationThreshold: &share, ScaleDownUnneededTime: &none}
	_, err := New(Config{Pools: all, Machines: &port{}})
	want := `pools[1].options.scaleDownUtilizationThreshold: must be from 0 to 1, was 1.5
pools[1].options.scaleDownUnneededTime: must be greater than 0, was 0s`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

// A provider id and a name are different things, even where they read the same.
func TestNodesAreFoundByTheIDThatTheyHave(t *testing.T) {
	s, p := made(t, nil)
	must.Do(t, increase(t, s, groupOf(t, s, "workers.small"), 1))
	p.machines[0].ProviderID = "edge-x-0"
	p.machines = append(p.machines, nodescaler.Machine{Name: "edge-x-0", Pool: "edge", Shape: small, ProviderID: "edge-y-0", Phase: nodescaler.Joined})
	v := s.memory.look(t.Context())
	for _, c := range []struct{ id, name, want string }{
		{"edge-x-0", "edge-x-0", p.machines[0].Name}, // not registered
		{"edge-y-0", "edge-x-0", "edge-x-0"},
		{"", "edge-x-0", "edge-x-0"},
		{"edge-z-0", "edge-x-0", ""},
		{p.machines[0].Name, p.machines[0].Name, ""}, // its id is another one
	} {
		got := ""
		if m := v.find(c.id, c.name); m != nil {
			got = m.machine.Name
		}
		if got != c.want {
			t.Errorf("id %q, name %q: %q, want %q", c.id, c.name, got, c.want)
		}
	}
}

// What half a write leaves is not taken, and said once, not at every connection.
func TestTornCertificatesAreRefusedAndToldOnce(t *testing.T) {
	one, other := certificates(t, time.Now(), time.Hour), certificates(t, time.Now(), time.Hour)
	texts := [3][]byte{one.Server, one.ServerKey, one.CA}
	warned := 0
	read := func(i int) func() ([]byte, error) {
		return func() ([]byte, error) {
			if texts[i] == nil {
				return nil, fmt.Errorf("file %d is gone", i)
			}
			return texts[i], nil
		}
	}
	files := &TLS{Certificate: read(0), Key: read(1), ClientCA: read(2), Clients: []string{SelfMadeClient}, Warn: func(error) { warned++ }}
	must.Do(t, (&Listening{TLS: files}).Check("listen", nil))
	good := files.good
	bundle := append(append([]byte{}, one.CA...), other.CA...)
	for name, torn := range map[string][3][]byte{
		"a certificate without its key":  {other.Server, one.ServerKey, one.CA},
		"half a certificate":             {one.Server[:len(one.Server)/2], one.ServerKey, one.CA},
		"half a key":                     {one.Server, one.ServerKey[:len(one.ServerKey)/2], one.CA},
		"no authority":                   {one.Server, one.ServerKey, {}},
		"half of the second authority":   {one.Server, one.ServerKey, bundle[:len(bundle)-40]},
		"a key among the authorities":    {one.Server, one.ServerKey, append(append([]byte{}, one.CA...), one.ClientKey...)},
		"an authority that is not there": {one.Server, one.ServerKey, nil},
	} {
		warned, texts = 0, torn
		for range 3 {
			got, err := files.config()
			if err != nil || got != good {
				t.Errorf("%s: taken (%v)", name, err)
			}
		}
		if warned != 1 {
			t.Errorf("%s: warned %d times", name, warned)
		}
	}
	texts = [3][]byte{other.Server, other.ServerKey, bundle}
	if got, err := files.config(); err != nil || got == good || !bytes.Equal(got.mutual.Certificates[0].Certificate[0], mustPair(t, other).Certificate[0]) {
		t.Errorf("a whole set: %v", err)
	}
}
