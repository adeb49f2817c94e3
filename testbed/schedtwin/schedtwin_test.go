package schedtwin

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/testing/defaults"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// world is one line of the file.
type world struct {
	Nodes           []*corev1.Node
	Placed, Pending []*corev1.Pod
	// Answers are ours, by pending pod and node: why it does not go there, or "".
	Answers [][]string
}

// filters are the scheduler's default filters but for those of volumes and claimed devices, which
// no pod of the file has. Each of the first has to decide some cases alone.
var filters = []string{
	names.TaintToleration, names.NodeAffinity, names.NodePorts, names.NodeResourcesFit,
	names.InterPodAffinity, names.PodTopologySpread, names.NodeUnschedulable, names.NodeName,
}

const deciding = 6

// known are the reasons for which we may refuse what the scheduler accepts, as the file names them,
// with what is behind them. All others together are to be fewer than one answer in a thousand.
var known = map[string]string{
	"SelectorMismatch, no word for it": "it has no word for pods by the labels of their namespaces",
	"Domain, namespaces by label":      "as for Clash",
	"Clash, namespaces by label":       "the labels of namespaces are not read: a selector of them counts as all",
}

// lister is the snapshot of whichever world is asked about.
type lister struct{ fwk.SharedLister }

// scheduler has each filter in a framework of its own, so that all of them answer: a framework
// stops at the first that refuses.
type scheduler struct {
	now     *lister
	filters map[string]framework.Framework
}

func newScheduler(t *testing.T) *scheduler {
	t.Helper()
	metrics.Register()
	ctx := t.Context()
	client := fake.NewClientset(namespace("shop"), namespace("other"))
	factory := informers.NewSharedInformerFactory(client, 0)
	s := &scheduler{now: &lister{cache.NewEmptySnapshot()}, filters: map[string]framework.Framework{}}
	for _, name := range filters {
		one := func(name string) config.PluginSet {
			return config.PluginSet{Enabled: []config.Plugin{{Name: name}}}
		}
		profile := &config.KubeSchedulerProfile{SchedulerName: name, Plugins: &config.Plugins{
			QueueSort: one(names.PrioritySort), Bind: one(names.DefaultBinder), Filter: one(name), PreFilter: one(name),
		}, PluginConfig: defaults.PluginConfigsV1}
		f, err := runtime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile, runtime.WithClientSet(client),
			runtime.WithInformerFactory(factory), runtime.WithSnapshotSharedLister(s.now))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s.filters[name] = f
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return s
}

func namespace(name string) *corev1.Namespace {
	labels := map[string]string{corev1.LabelMetadataName: name}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// refusing is, by node, the filters that refuse the pod.
func (s *scheduler) refusing(t *testing.T, p *corev1.Pod, nodes []*corev1.Node) [][]string {
	t.Helper()
	by := make([][]string, len(nodes))
	for _, name := range filters {
		f, state := s.filters[name], framework.NewCycleState()
		among, all, _ := f.RunPreFilterPlugins(context.Background(), state, p)
		for i, n := range nodes {
			status := all
			if status.IsSuccess() && (among.AllNodes() || among.NodeNames.Has(n.Name)) {
				info, err := s.now.NodeInfos().Get(n.Name)
				if err != nil {
					t.Fatal(err)
				}
				status = f.RunFilterPlugins(context.Background(), state, p, info)
			} else if status.IsSuccess() {
				status = fwk.NewStatus(fwk.Unschedulable)
			}
			switch {
			case status.IsRejected():
				by[i] = append(by[i], name)
			case !status.IsSuccess():
				t.Fatalf("%s: %v", name, status.AsError())
			}
		}
	}
	return by
}

// tally is what the comparison found.
type tally struct {
	answers, fits, wrong int
	alone, refused       map[string]int // by filter, and by our reason
}

func TestTheSchedulerAnswersTheSame(t *testing.T) {
	file, err := os.Open("../../out/schedtwin.jsonl")
	if err != nil {
		t.Fatalf("make twin-test writes it: %v", err)
	}
	defer func() { _ = file.Close() }()
	s := newScheduler(t)
	sum := tally{alone: map[string]int{}, refused: map[string]int{}}
	for d := json.NewDecoder(file); ; {
		var w world
		if err := d.Decode(&w); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		s.now.SharedLister = cache.NewSnapshot(w.Placed, w.Nodes)
		for i, p := range w.Pending {
			sum.compare(t, &w, p, w.Answers[i], s.refusing(t, p, w.Nodes))
		}
	}
	sum.judge(t)
}

func (sum *tally) compare(t *testing.T, w *world, p *corev1.Pod, ours []string, theirs [][]string) {
	t.Helper()
	for i, refusing := range theirs {
		sum.answers++
		switch {
		case len(refusing) == 0 && ours[i] == "":
			sum.fits++
		case len(refusing) == 0:
			sum.fits++
			sum.refused[ours[i]]++
		case ours[i] == "":
			if sum.wrong++; sum.wrong <= 5 {
				pod, _ := json.Marshal(p)
				node, _ := json.Marshal(w.Nodes[i])
				t.Errorf("we place what %v refuses: %s on %s", refusing, pod, node)
			}
		}
		if len(refusing) == 1 {
			sum.alone[refusing[0]]++
		}
	}
}

func (sum *tally) judge(t *testing.T) {
	t.Helper()
	share := func(n int) float64 { return 100 * float64(n) / float64(max(sum.answers, 1)) }
	t.Logf("%d answers, of which %.1f %% are that the pod fits", sum.answers, share(sum.fits))
	if sum.answers < 200_000 || share(sum.fits) < 30 || share(sum.fits) > 70 {
		t.Error("want 200000 and more, and 30 to 70 %")
	}
	for _, name := range filters[:deciding] {
		t.Logf("%s alone refuses in %.1f %%", name, share(sum.alone[name]))
		if share(sum.alone[name]) < 2 {
			t.Errorf("%s alone is to refuse in 2 %% and more", name)
		}
	}
	others := 0
	for _, reason := range slices.Sorted(maps.Keys(sum.refused)) {
		n := sum.refused[reason]
		why, is := known[reason]
		if !is {
			why, others = "unknown", others+n
		}
		t.Logf("refused by us and accepted there: %d (%.2f %%) %s: %s", n, share(n), reason, why)
	}
	if share(others) >= 0.1 {
		t.Errorf("%d answers differ by what is not known", others)
	}
	if sum.wrong > 0 {
		t.Errorf("we place %d pods that the scheduler refuses", sum.wrong)
	}
}
