package resources

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/crd"
	"github.com/plimsoll/plimsoll/testbed/must"
)

const testdata = "../../../../api/v1alpha1/testdata/"

// crdRules are those of the CRDs; they take a while to compile.
var crdRules = sync.OnceValues(func() (*crd.Judge, error) { return crd.Read(os.DirFS("../../../../deploy/crds")) })

func judge(t testing.TB) *crd.Judge {
	t.Helper()
	return must.Get(crdRules())(t)
}

// accepted decodes an accepted manifest as the API server stores it.
func accepted(t *testing.T, name string, into any) {
	t.Helper()
	manifest := must.Get(os.ReadFile(testdata + "accepted/" + name + ".yaml"))(t)
	obj := must.Get(judge(t).Create(manifest))(t)
	text := must.Get(obj.MarshalJSON())(t)
	must.Do(t, yaml.UnmarshalStrict(text, into))
}

// convert hands a stored object to the function for its kind.
func convert(kind string, text []byte) error {
	switch kind {
	case v1alpha1.KindWorkloadAutoscaler:
		var a v1alpha1.WorkloadAutoscaler
		if err := yaml.UnmarshalStrict(text, &a); err != nil {
			return &undecodable{err}
		}
		_, _, _, err := Autoscaler(&a)
		return err
	case v1alpha1.KindScalingProposal: // it means nothing beyond what it says
		if err := yaml.UnmarshalStrict(text, &v1alpha1.ScalingProposal{}); err != nil {
			return &undecodable{err}
		}
		return nil
	case v1alpha1.KindVMPool:
		var p v1alpha1.VMPool
		if err := yaml.UnmarshalStrict(text, &p); err != nil {
			return &undecodable{err}
		}
		_, err := Pool(&p)
		return err
	}
	var b v1alpha1.PriceBook
	if err := yaml.UnmarshalStrict(text, &b); err != nil {
		return &undecodable{err}
	}
	_, err := Book(&b)
	return err
}

// undecodable is what no accepted object may be.
type undecodable struct{ error }

func TestAcceptedManifestsMeanSomething(t *testing.T) {
	j := judge(t)
	all := must.Get(crd.Fixtures(os.DirFS(testdata + "accepted")))(t)
	for _, f := range all {
		obj := must.Get(j.Create(f.Documents[0]))(t)
		text := must.Get(obj.MarshalJSON())(t)
		if err := convert(obj.GetKind(), text); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

// Without an API server, the forms of texts are refused in its words.
func TestFormsOfTextsAreRefusedOfflineAsByTheServer(t *testing.T) {
	rejected := regexp.MustCompile(`^(\S+): Invalid value: ("(?:[^"\\]|\\.)*"): (.*)$`)
	mapKey := regexp.MustCompile(`\[([A-Za-z][^\]]*)\]`)
	tried := 0
	for _, f := range must.Get(crd.Fixtures(os.DirFS(testdata + "rejected")))(t) {
		if !strings.HasSuffix(f.Name, "-words") {
			continue
		}
		var object map[string]any
		if err := yaml.Unmarshal(f.Documents[0], &object); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, line := range f.Refused {
			m := rejected.FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("%s: not of a single value: %s", f.Name, line)
			}
			key := mapKey.ReplaceAllString(m[1], ".$1")
			want = append(want, fmt.Sprintf("%s: %s, was %s", key, m[3], m[2]))
		}
		err := must.Get(ReadSchema(object["kind"].(string)))(t).Check(object)
		var got []string
		for _, one := range unjoin(err) {
			got = append(got, one.Error())
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-server +offline):\n%s", f.Name, diff)
		}
		tried++
	}
	if tried != 3 {
		t.Errorf("%d manifests were tried, one of each kind is there", tried)
	}
}

func TestSignalsOfTheAPI(t *testing.T) {
	var a v1alpha1.WorkloadAutoscaler
	accepted(t, "wla-hpa-full", &a)
	_, _, from, err := Autoscaler(&a)
	if err != nil {
		t.Fatal(err)
	}
	want := signals.Spec{
		Preset:     signals.None,
		Prometheus: &signals.Prometheus{URL: "http://prometheus.monitoring:9090"},
		Scrape: &signals.Scrape{
			Port: 9100, Path: "/metrics", Scheme: "https", Every: podscaler.Duration(5 * time.Second),
			Latency: "http_request_duration_seconds", Unit: signals.Seconds, Requests: "http_requests_total", InFlight: "http_in_flight", StatusLabel: "code",
		},
		Metrics: []signals.Series{
			{Name: "requests_per_second", Query: `sum by (pod) (rate(http_requests_total{namespace="default"}[1m]))`, PerPod: "pod"},
			{Name: "queue", Query: `sum(queue_length{queue="orders"})`},
		},
		OpenCost:     &signals.OpenCost{},
		Registration: &signals.Registration{Query: `count by (version) (up{job="worker"})`, PerVersion: "version"},
	}
	if diff := cmp.Diff(want, from); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
}

func TestAutoscalerOfThePaper(t *testing.T) {
	var a v1alpha1.WorkloadAutoscaler
	accepted(t, "wla-seed", &a)
	w, s, _, err := Autoscaler(&a)
	if err != nil {
		t.Fatal(err)
	}
	wantW := podscaler.Workload{
		Name: "default/nginx-autoscaler", Min: 1, Max: 48, RunPeriod: 30 * time.Second, Cooldown: 10 * time.Second,
		SLO:  podscaler.SLO{Quantile: 0.99, Target: 300 * time.Millisecond, Window: 20 * time.Minute},
		Cost: podscaler.CostTarget{Target: 100 * pricing.Unit, Per: time.Hour, Count: podscaler.CountPredicted, Measure: podscaler.MeasureRate},
	}
	wantS := policy.Spec{Policy: "SLOCost", SLOCost: &policy.SLOCost{Role: policy.Symmetric}}
	if diff := cmp.Diff(wantW, w); diff != "" {
		t.Errorf("workload (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantS, s); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
}

func TestBehaviorIsReadOverTheDefaultsOfAnHPA(t *testing.T) {
	var a v1alpha1.WorkloadAutoscaler
	accepted(t, "wla-slocost-full", &a)
	w, s, _, err := Autoscaler(&a)
	if err != nil {
		t.Fatal(err)
	}
	want := podscaler.DefaultBehavior()
	want.Up.Tolerance = new(0.05)
	want.Down = podscaler.Rules{
		Window: 300 * time.Second, Select: podscaler.SelectMin, Tolerance: new(0.2),
		Policies: []podscaler.StepLimit{{Percent: 10, Period: time.Minute}},
	}
	if diff := cmp.Diff(want, w.Behavior); diff != "" {
		t.Errorf("behavior (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&policy.SLOCost{RTWeight: new(0.6), Role: policy.Cap, Wait: true, Tolerance: 0.05}, s.SLOCost); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}

	accepted(t, "wla-hpa-minimal", &a)
	a.Spec.Behavior = &v1alpha1.Behavior{}
	if w, _, _, _ = Autoscaler(&a); !cmp.Equal(w.Behavior, podscaler.DefaultBehavior()) {
		t.Errorf("an empty behavior is %+v, should be an HPA's default", w.Behavior)
	}
}

func TestWithoutBehaviorOnlyHPAHasOne(t *testing.T) {
	var a v1alpha1.WorkloadAutoscaler
	accepted(t, "wla-hpa-minimal", &a)
	w, _, _, err := Autoscaler(&a)
	if err != nil || !cmp.Equal(w.Behavior, podscaler.LegacyBehavior()) {
		t.Errorf("HPA has the behavior %+v, %v; should have the legacy one", w.Behavior, err)
	}
	accepted(t, "wla-seed", &a)
	a.Spec.HPA = nil
	if w, _, _, err = Autoscaler(&a); err != nil || w.Behavior != nil {
		t.Errorf("SLOCost has the behavior %+v, %v; should have none", w.Behavior, err)
	}
}

func TestHPAOfTheAPI(t *testing.T) {
	var a v1alpha1.WorkloadAutoscaler
	accepted(t, "wla-hpa-full", &a)
	w, s, _, err := Autoscaler(&a)
	if err != nil {
		t.Fatal(err)
	}
	want := &policy.HPA{
		Metrics: []policy.Metric{
			{Type: policy.Resource, Name: "cpu", AverageUtilization: 60},
			{Type: policy.Resource, Name: "cpu", AverageValue: 500},
			{Type: policy.Pods, Name: "requests_per_second", AverageValue: 100_000},
			{Type: policy.Object, Name: "queue", Value: 2_000_000},
			{Type: policy.External, Name: "queue", AverageValue: 500},
		},
		Tolerance: new(0.1), CPUInitializationPeriod: new(podscaler.Duration(5 * time.Minute)), InitialReadinessDelay: new(podscaler.Duration(30 * time.Second)),
	}
	if diff := cmp.Diff(want, s.HPA); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	if w.Min != 0 || w.Behavior.Down.Select != podscaler.SelectDisabled || len(w.Behavior.Down.Policies) != 0 {
		t.Errorf("workload %+v", w)
	}
}

func TestPoolOfTheAPI(t *testing.T) {
	var p v1alpha1.VMPool
	accepted(t, "vmp-k3s", &p)
	pool := must.Get(Pool(&p))(t)
	want := settings.Pool{
		At: "VMPool k3s-agents: spec", Name: "k3s-agents", Max: 5, PVEPool: "plimsoll", Region: "site-a",
		Shapes:   []pricing.Shape{{Name: "small", CPU: 2 * pricing.Core, Memory: 4 * pricing.GiB}},
		Template: placement.Template{VMID: 9000}, VMIDs: placement.VMIDs{First: 6000, Last: 6019},
		Join: firstboot.Profile{
			Kind: firstboot.K3s, Servers: []string{"k3s.example"}, TokenFile: "/etc/plimsoll/join/token",
			ProviderID: firstboot.ProviderID{Scheme: firstboot.SchemeTemplate, Template: "example://{region}/{vmid}"},
			Install:    firstboot.Install{From: "script", Version: "v1.34.1+k3s1"},
		},
		ISO: settings.ISO{Storage: "local"},
	}
	if diff := cmp.Diff(want, pool, cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); diff != "" {
		t.Errorf("pool (-want +got):\n%s", diff)
	}
}

func TestRatiosOfAPool(t *testing.T) {
	var p v1alpha1.VMPool
	accepted(t, "vmp-rke2-full", &p)
	pool := must.Get(Pool(&p))(t)
	if pool.Placement.CPURatio != 2.5 || pool.Placement.MemoryRatio != 1 || pool.Placement.StorageReserve != 20*pricing.GB {
		t.Errorf("placement %+v", pool.Placement)
	}
	if want := (map[string]pricing.Quantity{"nvidia.com/gpu": 1, "hugepages-2Mi": 1 << 30, "example.com/fpga": 2}); !cmp.Equal(want, pool.Resources) {
		t.Errorf("resources %v, want %v", pool.Resources, want)
	}
}

func TestBookOfTheAPI(t *testing.T) {
	var b v1alpha1.PriceBook
	accepted(t, "book-units", &b)
	book, err := Book(&b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pricing.DefaultBook(), book); diff != "" {
		t.Errorf("book (-want +got):\n%s", diff)
	}
	b = v1alpha1.PriceBook{}
	accepted(t, "book-derived", &b)
	if book, err = Book(&b); err != nil || *book.Hosts["pve1"].WattsPerHost != 42_500 || *book.Tariffs[1].Percent != 87_500 {
		t.Errorf("book %+v, %v", book, err)
	}
}

// What the rules of the CRDs cannot say.
func TestFaultsNameFieldRuleAndValue(t *testing.T) {
	var a v1alpha1.WorkloadAutoscaler
	var p v1alpha1.VMPool
	var b v1alpha1.PriceBook
	pool := func(change func(*v1alpha1.VMPoolSpec)) func() error {
		return func() error {
			p = v1alpha1.VMPool{}
			accepted(t, "vmp-rke2-full", &p)
			change(&p.Spec)
			_, err := Pool(&p)
			return err
		}
	}
	book := func(change func(*v1alpha1.PriceBookSpec)) func() error {
		return func() error {
			b = v1alpha1.PriceBook{}
			accepted(t, "book-full", &b)
			change(&b.Spec)
			_, err := Book(&b)
			return err
		}
	}
	autoscaler := func(change func(*v1alpha1.WorkloadAutoscalerSpec)) func() error {
		return func() error {
			a = v1alpha1.WorkloadAutoscaler{}
			accepted(t, "wla-slocost-full", &a)
			change(&a.Spec)
			_, _, _, err := Autoscaler(&a)
			return err
		}
	}
	for _, c := range []struct {
		name string
		ask  func() error
		want []string
	}{
		{
			"shapes that are too small, or no whole MiB",
			pool(func(s *v1alpha1.VMPoolSpec) { s.Shapes[0].Memory, s.Shapes[1].Memory = "256Mi", "32GB" }),
			[]string{
				`spec.shapes[0].memory: must be whole MiB, at least 512, such as 8Gi, was 256MiB`,
				`spec.shapes[0]: must be larger than what is reserved, 500m CPU and 1.0 GiB, was "2000m CPU and 256 MiB"`,
				`spec.shapes[1].memory: must be whole MiB, at least 512, such as 8Gi, was 32GB`,
			},
		}, {
			"zeros in place of defaults",
			pool(func(s *v1alpha1.VMPoolSpec) { s.Cooldown, s.ShutdownGrace = "0s", "0m" }),
			[]string{
				`spec.cooldown: must be above 0, or omitted for its default, was "0s"`,
				`spec.shutdownGrace: must be above 0, or omitted for its default, was "0m"`,
			},
		}, {
			"a network with no room for every VMID, and a gateway outside of it",
			pool(func(s *v1alpha1.VMPoolSpec) { s.Network.First, s.Network.Gateway = "10.40.0.200/24", "10.41.0.1" }),
			[]string{
				`spec.network.first: must leave room in its network for an address for each of the VMIDs 5000-5099, was 10.40.0.200/24`,
				`spec.network.gateway: must be an address in the network of first, was 10.41.0.1`,
			},
		}, {
			"a join profile without its servers",
			pool(func(s *v1alpha1.VMPoolSpec) { s.Join.Servers, s.Join.TokenFile = nil, "" }),
			[]string{
				`spec.join.servers: must name a server at least, was empty`,
				`spec.join.tokenFile: must be there, for machines join with a token, was absent`,
			},
		}, {
			"an option that is Plimsoll's to set",
			pool(func(s *v1alpha1.VMPoolSpec) { s.Guest.Options = map[string]v1alpha1.OptionValue{"memory": "8192"} }),
			[]string{`spec.guest.options.memory: must be omitted: Plimsoll sets it on every machine, was "8192"`},
		}, {
			"a time zone that is not known",
			book(func(s *v1alpha1.PriceBookSpec) { s.TimeZone = "Europe/Atlantis" }),
			[]string{`spec.timeZone: must be UTC or the name of a time zone, such as Europe/Berlin, was "Europe/Atlantis"`},
		}, {
			"tariffs that overlap",
			book(func(s *v1alpha1.PriceBookSpec) { s.Tariffs[1].To = "23:00" }),
			[]string{`spec.tariffs[1]: must not overlap tariffs[0] (22:00–06:00), was Sat Sun 06:00–23:00: both hold on Sun 22:00`},
		}, {
			"what a CRD of another version let pass",
			autoscaler(func(s *v1alpha1.WorkloadAutoscalerSpec) {
				s.SLO.P, s.Cost.Target, s.RunPeriod, s.SLOCost.Tolerance = "100th", "much", "soon", new(v1alpha1.Ratio("low"))
				s.Behavior.ScaleDown.Policies[0].Type = "Nodes"
			}),
			[]string{
				`spec.slo.p: must be a quantile above 0th and below 100th, was "100th"`,
				`spec.cost.target: must be a decimal number such as 40 or 0.0316, was "much"`,
				`spec.runPeriod: must be a duration such as 30s or 5m, was "soon"`,
				`spec.behavior.scaleDown.policies[0].type: must be Pods or Percent, was "Nodes"`,
				`spec.sloCost.tolerance: must be a number, was "low"`,
			},
		}, {
			"a query with a name that stands for nothing",
			autoscaler(func(s *v1alpha1.WorkloadAutoscalerSpec) { s.Signals.Queries.Latency = "x{q=\"$quantil\"}" }),
			[]string{`spec.signals.queries.latency: must speak of $namespace, $quantile, $target, $targetMs, $window, $workload only, was $quantil`},
		}, {
			"a workload that Linkerd does not know by its kind",
			autoscaler(func(s *v1alpha1.WorkloadAutoscalerSpec) {
				s.Signals = &v1alpha1.Signals{Preset: v1alpha1.PresetLinkerd}
			}),
			[]string{`spec.scaleTargetRef.kind: must be Deployment, StatefulSet, DaemonSet, ReplicaSet or ReplicationController with preset Linkerd, which labels no other, was "Rollout"`},
		}, {
			"a policy that does not exist",
			autoscaler(func(s *v1alpha1.WorkloadAutoscalerSpec) { s.Policy, s.SLOCost = "Tides", nil }),
			[]string{"spec.policy: must be one of " + strings.Join(policy.Names(), ", ") + `, was "Tides"`},
		},
	} {
		err := c.ask()
		if err == nil {
			t.Errorf("%s: no fault", c.name)
			continue
		}
		if diff := cmp.Diff(c.want, strings.Split(err.Error(), "\n")); diff != "" {
			t.Errorf("%s: faults differ (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestAPoolsNameIsItsObjects(t *testing.T) {
	var p v1alpha1.VMPool
	accepted(t, "vmp-minimal", &p)
	p.Name = "9web"
	_, err := Pool(&p)
	if err == nil || !strings.HasPrefix(err.Error(), "metadata.name: must begin a host name") {
		t.Errorf("error %v", err)
	}
}

// Who writes a key nearly right reads of one fault.
func TestAKeyNearlyRightIsNotMissingAsWell(t *testing.T) {
	err := must.Get(ReadSchema(v1alpha1.KindVMPool))(t).Check(map[string]any{"spec": map[string]any{"join": map[string]any{"providerID": map[string]any{"schem": "uuid"}}}})
	var got []string
	for _, one := range unjoin(err) {
		if strings.HasPrefix(one.Error(), "spec.join.providerID.") {
			got = append(got, one.Error())
		}
	}
	if want := []string{"spec.join.providerID.schem: unknown key, did you mean scheme?"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
