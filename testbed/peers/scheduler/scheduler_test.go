package scheduler

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
)

// filters are the scheduler's default filters but for that of claimed devices, which no pod here
// has. Each of the first has to decide some cases alone.
var filters = []string{
	names.TaintToleration, names.NodeAffinity, names.NodePorts, names.NodeResourcesFit,
	names.InterPodAffinity, names.PodTopologySpread, names.VolumeBinding, names.NodeVolumeLimits, names.VolumeRestrictions,
	names.VolumeZone, names.NodeUnschedulable, names.NodeName,
}

const deciding = 10

// asked has each filter in a framework of its own, so that all of them answer: a framework stops at
// the first that refuses.
type asked struct {
	now     *Now
	filters map[string]framework.Framework
}

func newAsked(t *testing.T) *asked {
	t.Helper()
	s := &asked{&Now{cache.NewEmptySnapshot()}, map[string]framework.Framework{}}
	for _, name := range filters {
		f, err := Framework(t.Context(), s.now, stored.all(), name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s.filters[name] = f
	}
	return s
}

// refusing is, by node, the filters that refuse the pod.
func (s *asked) refusing(t *testing.T, p *corev1.Pod, nodes []*corev1.Node) [][]string {
	t.Helper()
	by := make([][]string, len(nodes))
	for _, name := range filters {
		f, state := s.filters[name], framework.NewCycleState()
		among, all, _ := f.RunPreFilterPlugins(t.Context(), state, p)
		for i, n := range nodes {
			status := all
			if status.IsSuccess() && (among.AllNodes() || among.NodeNames.Has(n.Name)) {
				info, err := s.now.NodeInfos().Get(n.Name)
				if err != nil {
					t.Fatal(err)
				}
				status = f.RunFilterPlugins(t.Context(), state, p, info)
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
	left                 int            // pods of nodes that are emptied
	alone, refused       map[string]int // by filter, and by our reason
}

// TestTheSchedulerAnswersTheSame asks nodescaler and the scheduler's filters which pods go onto
// which nodes.
func TestTheSchedulerAnswersTheSame(t *testing.T) {
	c, sum := chance{rand.New(rand.NewPCG(7, 3))}, tally{alone: map[string]int{}, refused: map[string]int{}}
	var s *asked
	for i := range 4200 {
		if i%700 == 0 {
			stored.Namespaces = c.namespaces()
			s = newAsked(t)
		}
		w := c.world()
		s.now.SharedLister = cache.NewSnapshot(w.placed, w.nodes)
		of := w.observe()
		answers := w.answers(of, w.pending)
		for i, p := range w.pending {
			sum.compare(t, &w, p, answers[i], s.refusing(t, p, w.nodes))
		}
		answers = c.drain(&w, of)
		s.now.SharedLister = cache.NewSnapshot(w.placed, w.nodes)
		for i, p := range w.leaving {
			sum.left++
			sum.compare(t, &w, p, answers[i], s.refusing(t, p, w.nodes))
		}
	}
	sum.judge(t)
}

// observed is what we see of a world.
type observed struct {
	*nodescaler.Index
	domains *nodescaler.Domains
	pods    map[string]*nodescaler.Pod
}

func (w *world) observe() *observed {
	o := stored
	o.Nodes, o.Pods = w.nodes, slices.Concat(w.placed, w.pending)
	state := kube.Read(&o.Objects)
	for _, name := range w.spares {
		state.Machines = append(state.Machines, nodescaler.Machine{Name: name, Phase: nodescaler.Spare})
	}
	of := &observed{nodescaler.NewIndex(&state), nil, map[string]*nodescaler.Pod{}}
	of.domains = nodescaler.NewDomains(of.Index)
	for i := range state.Pods {
		of.pods[state.Pods[i].Name] = &state.Pods[i]
	}
	return of
}

func (of *observed) pod(p *corev1.Pod) *nodescaler.Pod { return of.pods[p.Namespace+"/"+p.Name] }

// answers are ours, by pod and node: why it does not go there, or "".
func (w *world) answers(of *observed, pods []*corev1.Pod) (all [][]string) {
	for _, p := range pods {
		var ours []string
		for _, n := range w.nodes {
			ours = append(ours, answer(of.pod(p), of.Node(n.Name), of.domains))
		}
		all = append(all, ours)
	}
	return all
}

// drain cordons a node, as its controller does, and has its pods wait. It returns our answers to
// where they may go if that is simulated.
func (c chance) drain(w *world, of *observed) (ours [][]string) {
	k := c.IntN(len(w.nodes))
	n := w.nodes[k].DeepCopy()
	if n.Spec.Unschedulable {
		return nil
	}
	cordon(n)
	w.nodes = slices.Clone(w.nodes)
	w.nodes[k] = n
	of.domains.Cordon(of.Node(n.Name).Node)
	w.placed = slices.DeleteFunc(w.placed, func(p *corev1.Pod) bool {
		if p.Spec.NodeName != n.Name {
			return false
		}
		of.domains.Put(of.pod(p), of.Node(n.Name).Node, -1)
		if p.Spec.Volumes == nil { // by then others are bound, or in use elsewhere
			p = p.DeepCopy()
			p.Spec.NodeName = ""
			w.leaving = append(w.leaving, p)
		}
		return true
	})
	ours = w.answers(of, w.leaving)
	for i := range ours {
		ours[i][k] = "Cordoned"
	}
	return ours
}

// The Node of a machine that is stopped is a domain without pods to the scheduler, unless the pod's
// rule reads taints.
func TestNodesThatTakeNoPodsAreDomains(t *testing.T) {
	for _, policy := range []*corev1.NodeInclusionPolicy{nil, new(corev1.NodeInclusionPolicyIgnore), new(corev1.NodeInclusionPolicyHonor)} {
		s, w := newAsked(t), world{}
		for _, name := range []string{"n1", "n2"} {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: amount("9")}
			w.nodes = append(w.nodes, n)
		}
		stopped := w.nodes[1]
		stopped.Status.Conditions[0].Status = corev1.ConditionUnknown
		stopped.Spec.Unschedulable, stopped.Spec.Taints = true, []corev1.Taint{
			{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule},
		}
		for _, node := range []string{"n1", ""} {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p" + node, Namespace: "shop", Labels: map[string]string{"app": "a"}}}
			p.Spec.NodeName = node
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}, NodeTaintsPolicy: policy}}
			w.placed = append(w.placed, p)
		}
		w.placed, w.pending = w.placed[:1], w.placed[1:]
		s.now.SharedLister = cache.NewSnapshot(w.placed, w.nodes)
		theirs := slices.Contains(s.refusing(t, w.pending[0], w.nodes[:1])[0], names.PodTopologySpread)
		o := stored
		o.Nodes, o.Pods = w.nodes, slices.Concat(w.placed, w.pending)
		state := kube.Read(&o.Objects)
		state.Machines = []nodescaler.Machine{{Name: "n2", Phase: nodescaler.Spare}}
		x := nodescaler.NewIndex(&state)
		p := &state.Pods[slices.IndexFunc(state.Pods, func(p nodescaler.Pod) bool { return p.Node == "" })]
		if ours := nodescaler.NewDomains(x).Refuses(p, x.Node("n1").Node); ours != theirs || len(x.Nodes) != 1 {
			t.Errorf("taints policy %v: we refuse %t, the scheduler %t, among %d nodes", policy, ours, theirs, len(x.Nodes))
		}
	}
}

// answer is the code of what refuses the pod, or "". Nothing goes to a machine that is stopped.
func answer(p *nodescaler.Pod, n *nodescaler.NodeLoad, domains *nodescaler.Domains) string {
	if n == nil {
		return "Spare"
	}
	code := nodescaler.Refusal(p, n.Node, n.Used)
	switch other := n.Crowd.Clash(p); {
	case code == "" && other != nil:
		code = "Clash"
	case code == "" && domains.Refuses(p, n.Node):
		code = "Domain"
	}
	return code
}

func (sum *tally) compare(t *testing.T, w *world, p *corev1.Pod, ours []string, theirs [][]string) {
	t.Helper()
	for i, refusing := range theirs {
		if ours[i] == "Spare" || ours[i] == "Cordoned" {
			continue
		}
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
				node, _ := json.Marshal(w.nodes[i])
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
	t.Logf("%d answers, of which %.1f %% are that the pod fits; %d pods left nodes that were emptied", sum.answers, share(sum.fits), sum.left)
	if sum.left < 2000 {
		t.Error("want 2000 pods and more that leave nodes")
	}
	if sum.answers < 200_000 || share(sum.fits) < 30 || share(sum.fits) > 70 {
		t.Error("want 200000 and more, and 30 to 70 %")
	}
	for i, name := range filters[:deciding] {
		least := 2.0
		if i >= 6 { // few pods have volumes
			least = 0.1
		}
		t.Logf("%s alone refuses in %.1f %%", name, share(sum.alone[name]))
		if share(sum.alone[name]) < least {
			t.Errorf("%s alone is to refuse in %v %% and more", name, least)
		}
	}
	others := 0
	for _, reason := range slices.Sorted(maps.Keys(sum.refused)) {
		n := sum.refused[reason]
		others += n
		t.Logf("refused by us and accepted there: %d (%.2f %%) %s", n, share(n), reason)
	}
	if share(others) >= 0.1 {
		t.Errorf("%d answers differ, and fewer than one in a thousand may", others)
	}
	if sum.wrong > 0 {
		t.Errorf("we place %d pods that the scheduler refuses", sum.wrong)
	}
}
