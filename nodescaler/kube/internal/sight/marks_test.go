package sight

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/pricing"
)

// apartFrom is the spec of a pod with a required anti-affinity by host name.
func apartFrom(terms ...string) string {
	for i, t := range terms {
		terms[i] = "{topologyKey: kubernetes.io/hostname, " + t + "}"
	}
	return "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [" + strings.Join(terms, ", ") + "]}}"
}

// onPort is the spec of a pod that takes a port of its node.
func onPort(port string) string {
	return "containers: [{name: c, ports: [{containerPort: 80, " + port + "}]}]"
}

func TestPodsThatShareNoNode(t *testing.T) {
	const web, db = "labels: {app: web}", "labels: {app: db}"
	alsoWeb := apartFrom("labelSelector: {matchLabels: {app: web}}")
	for _, c := range []struct {
		name      string
		a, b      string // labels
		onA, onB  string // the rest of the spec
		elsewhere bool   // b is in another namespace
		clash     bool
	}{
		{name: "plain pods", a: web, b: web},
		{name: "replicas apart", a: web, b: web, onA: alsoWeb, onB: alsoWeb, clash: true},
		{name: "replicas apart, in two namespaces", a: web, b: web, onA: alsoWeb, onB: alsoWeb, elsewhere: true},
		{name: "one that does not mind the other", a: db, b: web, onA: alsoWeb, clash: true},
		{name: "of another kind", a: web, b: db, onA: alsoWeb},
		{name: "two that mind a third", a: db, b: db, onA: alsoWeb, onB: alsoWeb},
		{name: "in a namespace that is named", a: web, b: web, onA: apartFrom("namespaces: [other], labelSelector: {matchLabels: {app: web}}"), elsewhere: true, clash: true},
		{name: "in its own, where another is named", a: web, b: web, onA: apartFrom("namespaces: [other], labelSelector: {matchLabels: {app: web}}")},
		{name: "in every namespace", a: web, b: web, onA: apartFrom("namespaceSelector: {}, labelSelector: {matchLabels: {app: web}}"), elsewhere: true, clash: true},
		{name: "by an expression", a: web, b: db, onA: apartFrom("labelSelector: {matchExpressions: [{key: app, operator: NotIn, values: [web, cache]}]}"), clash: true},
		{name: "by two, of which one does not hold", a: web, b: db, onA: apartFrom("labelSelector: {matchExpressions: [{key: app, operator: Exists}, {key: tier, operator: Exists}]}")},
		{name: "by either of two terms", a: web, b: db, onA: apartFrom("labelSelector: {matchLabels: {app: cache}}", "labelSelector: {matchLabels: {app: db}}"), clash: true},
		{name: "every pod", a: web, b: db, onA: apartFrom("labelSelector: {}"), clash: true},
		{name: "no pod", a: web, b: web, onA: "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}]}}"},
		{name: "rather apart", a: web, b: web, onA: "affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}}]}}"},
		{name: "one port", a: web, b: db, onA: onPort("hostPort: 80"), onB: onPort("hostPort: 80, protocol: TCP"), clash: true},
		{name: "two ports", a: web, b: db, onA: onPort("hostPort: 80"), onB: onPort("hostPort: 81")},
		{name: "one port of two protocols", a: web, b: db, onA: onPort("hostPort: 53"), onB: onPort("hostPort: 53, protocol: UDP")},
		{name: "a port on two addresses", a: web, b: db, onA: onPort("hostPort: 80, hostIP: 10.0.0.1"), onB: onPort("hostPort: 80, hostIP: 10.0.0.2")},
		{name: "a port on one address", a: web, b: db, onA: onPort("hostPort: 80, hostIP: 10.0.0.1"), onB: onPort("hostPort: 80, hostIP: 10.0.0.1"), clash: true},
		{name: "a port on one address and on all", a: web, b: db, onA: onPort("hostPort: 80, hostIP: 10.0.0.1"), onB: onPort("hostPort: 80, hostIP: 0.0.0.0"), clash: true},
		{name: "a port of an init container, which ends", a: web, b: db, onA: "initContainers: [{name: i, ports: [{hostPort: 80}]}]", onB: onPort("hostPort: 80")},
		{name: "a port of a sidecar", a: web, b: db, onA: "initContainers: [{name: i, restartPolicy: Always, ports: [{hostPort: 80}]}]", onB: onPort("hostPort: 80"), clash: true},
		{name: "a port of the pod's own", a: web, b: db, onA: onPort("hostPort: 80"), onB: onPort("name: http")},
	} {
		t.Run(c.name, func(t *testing.T) {
			port := &shown{}
			namespace := "shop"
			if c.elsewhere {
				namespace = "other"
			}
			port.holds(t,
				written.Object[corev1.Pod](t, "{metadata: {namespace: shop, name: a, "+c.a+"}, spec: {"+c.onA+"}}"),
				written.Object[corev1.Pod](t, "{metadata: {namespace: "+namespace+", name: b, "+c.b+"}, spec: {"+c.onB+"}}"))
			said := port.look().Pods
			a := slices.IndexFunc(said, func(p nodescaler.Pod) bool { return p.Name == "shop/a" })
			if got, back := nodescaler.Clash(&said[a], &said[1-a]), nodescaler.Clash(&said[1-a], &said[a]); got != c.clash || back != c.clash {
				t.Errorf("clash %t, the other way round %t, want %t\n%+v\n%+v", got, back, c.clash, said[a], said[1-a])
			}
		})
	}
}

// A namespace whose labels are not known counts where pods are to be apart, and nowhere where they
// are to be together.
func TestTermsAreAboutNamespacesAsTheSchedulerReadsThem(t *testing.T) {
	for _, c := range []struct {
		name, term string
		want       string // namespaces
		unknown    string // and with those, if that of one more pod is not known
	}{
		{name: "its own", want: "shop", unknown: "shop"},
		{name: "by name", term: "namespaces: [other, none]", want: "other", unknown: "other"},
		{name: "every one", term: "namespaceSelector: {}", want: "bare new other shop", unknown: "bare new other shop"},
		{name: "every one, though some are named", term: "namespaces: [other], namespaceSelector: {}", want: "bare new other shop", unknown: "bare new other shop"},
		{name: "by a label, and not its own", term: "namespaceSelector: {matchLabels: {team: blue}}", want: "other", unknown: "new other"},
		{name: "by a label or by name", term: "namespaces: [bare, shop], namespaceSelector: {matchLabels: {team: blue}}", want: "bare other shop", unknown: "bare new other shop"},
		{name: "without a label", term: "namespaceSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}", want: "bare new", unknown: "bare new"},
		{name: "with either of two", term: "namespaceSelector: {matchExpressions: [{key: team, operator: In, values: [red, blue]}]}", want: "other shop", unknown: "new other shop"},
		{name: "by a label that none has", term: "namespaceSelector: {matchLabels: {team: green}}", unknown: "new"},
	} {
		for _, unknown := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, one unknown: %t", c.name, unknown), func(t *testing.T) {
				port, want := &shown{}, c.want
				for name, labels := range map[string]map[string]string{"shop": {"team": "red"}, "other": {"team": "blue"}, "bare": nil, "new": nil} {
					port.holds(t, written.Object[corev1.Pod](t, "{metadata: {namespace: "+name+", name: b, labels: {app: web}}}"))
					if name == "new" && unknown {
						want = c.unknown
						continue
					}
					port.holds(t, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
				}
				for _, kind := range []string{"podAntiAffinity", "podAffinity"} {
					port.holds(t, written.Object[corev1.Pod](t, "{metadata: {namespace: shop, name: "+strings.ToLower(kind)+"}, spec: {affinity: {"+kind+
						": {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}, "+c.term+"}]}}}}"))
				}
				said := map[string]nodescaler.Pod{}
				for _, p := range port.look().Pods {
					said[p.Name] = p
				}
				apart, together := said["shop/podantiaffinity"], said["shop/podaffinity"]
				var in []string
				for _, name := range []string{"bare", "new", "other", "shop"} {
					if slices.Contains(said[name+"/b"].Has, apart.Topology[0].Mark) {
						in = append(in, name)
					}
				}
				if got := strings.Join(in, " "); got != want {
					t.Errorf("of namespaces %q, want %q: %s", got, want, apart.Topology[0].Mark)
				}
				byLabels := strings.Contains(c.term, "match")
				if together.Topology[0].Mark != apart.Topology[0].Mark || together.Nowhere() != (unknown && byLabels) || apart.Nowhere() {
					t.Errorf("together %+v", together)
				}
			})
		}
	}
}

// A pod goes to what all of its terms are about.
func TestTermsOfOnePodAreAboutTheSamePods(t *testing.T) {
	port := &shown{}
	for name, team := range map[string]string{"shop": "red", "other": "blue", "third": "blue"} {
		port.holds(t, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}})
		port.holds(t, written.Object[corev1.Pod](t, "{metadata: {namespace: "+name+", name: b, labels: {app: web}}}"))
	}
	term := "{topologyKey: zone, labelSelector: {matchLabels: {app: web}}, "
	port.holds(t, written.Object[corev1.Pod](t, "{metadata: {namespace: shop, name: a}, spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: ["+
		term+"namespaceSelector: {matchLabels: {team: blue}}}, "+term+"namespaces: [other, shop]}, "+term+"namespaceSelector: {}}]}}}}"))
	state := port.look()
	mark := state.Pods[1].Topology[0].Mark
	if want := "labels app=web,app=web,app=web in namespace other,shop and in namespaces with labels team=blue"; mark != want {
		t.Errorf("the mark is %q", mark)
	}
	for _, p := range state.Pods {
		if slices.Contains(p.Has, mark) != (p.Name == "other/b") {
			t.Errorf("%s has %v", p.Name, p.Has)
		}
	}
}

// A DaemonSet's port is taken on a machine before there is one.
func TestDaemonsRepelOnNewNodes(t *testing.T) {
	port := &shown{}
	port.holds(t, aDaemonSet(t, "ingress", "hostNetwork: true"))
	d := aDaemonSet(t, "proxy", "hostNetwork: true")
	d.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	port.holds(t, d)
	port.holds(t, written.Object[corev1.Pod](t, "{metadata: {namespace: shop, name: a}, spec: {"+onPort("hostPort: 80")+"}}"))
	state := port.look()
	crowd := (&nodescaler.Pool{Daemons: state.Daemons(&nodescaler.Pool{Name: "workers"})}).Empty(pricing.Shape{CPU: 2000, Memory: pricing.GiB}).Crowd
	if other := crowd.Clash(&state.Pods[0]); len(crowd) != 1 || other == nil || other.Name != "shop/proxy" {
		t.Errorf("the pod clashes with %v of %v", other, crowd)
	}
}

func TestRulesOfTopology(t *testing.T) {
	const web = "labels app=web in namespace shop"
	for _, c := range []struct {
		name, spec string
		want       []nodescaler.Topology
	}{
		{name: "spread over zones", spec: "topologySpreadConstraints: [{maxSkew: 2, minDomains: 3, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]", want: []nodescaler.Topology{{Key: "zone", Mark: web, Skew: 2, MinDomains: 3}}},
		{
			name: "with all nodes, but those that it does not tolerate",
			spec: "topologySpreadConstraints: [{maxSkew: 1, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]",
			want: []nodescaler.Topology{{Key: "zone", Mark: web, Skew: 1, AnyNode: true, Tolerated: true}},
		},
		{
			name: "of one revision",
			spec: "topologySpreadConstraints: [{maxSkew: 1, matchLabelKeys: [hash, none], topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]",
			want: []nodescaler.Topology{{Key: "zone", Mark: "labels app=web,hash in (1) in namespace shop", Skew: 1}},
		},
		{name: "rather spread", spec: "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]"},
		{name: "apart by zone", spec: "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}]}}", want: []nodescaler.Topology{{Key: "zone", Mark: web}}},
		{name: "apart by node", spec: apartFrom("labelSelector: {matchLabels: {app: web}}")},
	} {
		t.Run(c.name, func(t *testing.T) {
			port := &shown{}
			port.holds(t, written.Object[corev1.Pod](t, "{metadata: {namespace: shop, name: a, labels: {app: web, hash: '1'}}, spec: {"+c.spec+"}}"))
			p := port.look().Pods[0]
			if d := cmp.Diff(c.want, p.Topology); d != "" {
				t.Error(d)
			}
			for _, r := range p.Topology {
				if !slices.Contains(p.Has, r.Mark) {
					t.Errorf("it has %v, and not %s", p.Has, r.Mark)
				}
			}
		})
	}
}

// A spread of no pods counts none, its own among them. But its nodes need the label all the same.
func TestASpreadOfNoPodsStillWantsALabel(t *testing.T) {
	port := &shown{}
	port.holds(t, written.Object[corev1.Pod](t, `{metadata: {namespace: shop, name: a, labels: {app: web}}, spec: {topologySpreadConstraints: [
  {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 3},
  {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule},
  {maxSkew: 1, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}]}}`))
	pod := port.look().Pods[0]
	if len(pod.Topology) != 1 || pod.Topology[0].Key != "zone" || len(pod.Has)+len(pod.Prefers) > 0 {
		t.Errorf("rules %+v, marks %v, preferences %v", pod.Topology, pod.Has, pod.Prefers)
	}
}

func TestPreferences(t *testing.T) {
	const web = "labels app=web in namespace shop"
	rather := func(kind, term string) string {
		return "affinity: {" + kind + ": {preferredDuringSchedulingIgnoredDuringExecution: [" + term + "]}}"
	}
	byZone := "{weight: 7, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {app: web}}}}"
	for _, c := range []struct {
		name, spec string
		want       []nodescaler.Preference
	}{
		{"spread", "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}]",
			[]nodescaler.Preference{{Weight: 100, Rule: nodescaler.Topology{Key: "zone", Mark: web, Skew: 1}}}},
		{"apart", rather("podAntiAffinity", byZone), []nodescaler.Preference{{Weight: 7, Rule: nodescaler.Topology{Key: "zone", Mark: web}}}},
		{"together", rather("podAffinity", byZone), []nodescaler.Preference{{Weight: 7, Rule: nodescaler.Topology{Key: "zone", Mark: web, Together: true}}}},
		{"apart by node, of which a new machine is another one anyway", rather("podAntiAffinity", strings.Replace(byZone, "zone", "kubernetes.io/hostname", 1)), nil},
		{"labels", rather("nodeAffinity", "{weight: 3, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}"),
			[]nodescaler.Preference{{Weight: 3, Affinity: nodescaler.Affinity{{{Key: "disk", Operator: nodescaler.In, Values: []string{"ssd"}}}}}}},
		{"labels that mean nothing", rather("nodeAffinity", "{weight: 3, preference: {}}"), nil},
	} {
		port := &shown{}
		port.holds(t, written.Object[corev1.Pod](t, "{metadata: {namespace: shop, name: a, labels: {app: web}}, spec: {"+c.spec+"}}"))
		p := port.look().Pods[0]
		if d := cmp.Diff(c.want, p.Prefers); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		var noted []string
		for i := range c.want {
			if c.want[i].Rule.Mark != "" {
				noted = []string{web}
			}
		}
		if !slices.Equal(p.Noted, noted) || p.Marked() {
			t.Errorf("%s: noted as %v, and of a kind of its own by %v, %v", c.name, p.Noted, p.Has, p.Topology)
		}
	}
}
