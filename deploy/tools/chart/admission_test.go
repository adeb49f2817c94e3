package chart

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// oldest is the oldest Kubernetes that the chart is for.
var oldest = version.MajorMinor(1, 30)

// judge is a policy as the API server compiles it.
func judge(t *testing.T, p *admissionv1.ValidatingAdmissionPolicy) validating.Validator {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(oldest))
	if err != nil {
		t.Fatal(err)
	}
	knows := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	var variables []cel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, knows, environment.StoredExpressions)
	var whose, rules []cel.ExpressionAccessor
	for i := range p.Spec.MatchConditions {
		whose = append(whose, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
	}
	for _, v := range p.Spec.Validations {
		rules = append(rules, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
	}
	compile := func(all []cel.ExpressionAccessor) cel.ConditionEvaluator {
		return compiler.CompileCondition(all, knows, environment.StoredExpressions)
	}
	matcher := matchconditions.NewMatcher(compile(whose), p.Spec.FailurePolicy, "policy", "validate", p.Name)
	return validating.NewValidator(compile(rules), matcher, compile(nil), compile(make([]cel.ExpressionAccessor, len(rules))), p.Spec.FailurePolicy, nil)
}

// patched is an object after a strategic merge patch, in which a list of labels, annotations or
// finalizers is as in a merge patch.
func patched[T runtime.Object](t *testing.T, before T, patch string) T {
	t.Helper()
	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	after := before.DeepCopyObject().(T)
	if text, err = strategicpatch.StrategicMergePatch(text, []byte(patch), after); err != nil {
		t.Fatal(err)
	}
	after = *new(T)
	if err := json.Unmarshal(text, &after); err != nil {
		t.Fatal(err)
	}
	return after
}

// denials are what the policies for a resource say to an update by a user, or to a creation if
// there is nothing before.
func denials(t *testing.T, r *rendered, resource, who string, before, after runtime.Object) []string {
	t.Helper()
	of, sub, _ := strings.Cut(resource, "/")
	gvk := map[string]schema.GroupVersionKind{
		"pods": {Version: "v1", Kind: "Pod"}, "nodes": {Version: "v1", Kind: "Node"}, "deployments": {Group: "apps", Version: "v1", Kind: "Deployment"},
	}[of]
	gvr := gvk.GroupVersion().WithResource(of)
	operation := admission.Update
	if before == nil {
		operation = admission.Create
	}
	attributes := admission.NewAttributesRecord(after, before, gvk, "", "x", gvr, sub, operation, nil, false, &user.DefaultInfo{Name: who})
	asked, err := admission.NewVersionedAttributes(attributes, gvk, admission.NewObjectInterfacesFromScheme(scheme.Scheme))
	if err != nil {
		t.Fatal(err)
	}
	said := []string{}
	for _, p := range all[*admissionv1.ValidatingAdmissionPolicy](r) {
		rule := p.Spec.MatchConstraints.ResourceRules[0]
		if !slices.Contains(rule.Resources, resource) || !slices.Contains(rule.Operations, admissionv1.OperationType(operation)) {
			continue
		}
		for _, d := range judge(t, p).Validate(t.Context(), gvr, asked, nil, nil, celconfig.RuntimeCELCostBudget, nil).Decisions {
			if d.Action != validating.ActionAdmit {
				said = append(said, d.Message)
			}
		}
	}
	return said
}

// read fills in an object from YAML.
func read(t *testing.T, into any, text string) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

const account = "system:serviceaccount:plimsoll:plimsoll"

// Each policy is bound, to deny, and is there when the rights are that it limits.
func TestPoliciesAreThereWithTheRights(t *testing.T) {
	for _, c := range []struct {
		values         string
		policies       []string
		everywhere, in bool // where pods may be patched
	}{
		{`{mode: Active, ` + site + `}`, []string{"plimsoll-nodes", "plimsoll-pods", "plimsoll-resize"}, true, false},
		{`{mode: Active, rbac: {deletionCosts: {enabled: false}}, ` + site + `}`, []string{"plimsoll-nodes", "plimsoll-resize"}, false, false},
		{`{mode: Active, rbac: {deletionCosts: {namespaces: [shop]}}, ` + site + `}`, []string{"plimsoll-nodes", "plimsoll-pods", "plimsoll-resize"}, false, true},
		{`{mode: Active, fullnameOverride: other, ` + site + `}`, []string{"plimsoll-other-nodes", "plimsoll-other-pods", "plimsoll-other-resize"}, true, false},
		{`{mode: Active, admissionPolicies: {enabled: false}, ` + site + `}`, nil, true, false},
		{`{mode: Active, components: [nodescaler], ` + site + `}`, []string{"plimsoll-nodes"}, false, false},
		{`{mode: Active, components: [podscaler]}`, []string{"plimsoll-resize"}, false, false},
		{installations["places"], []string{"plimsoll-placeholders", "plimsoll-resize"}, false, false},
		{installations["beside"], []string{"plimsoll-resize"}, false, false},
		{`{` + site + `}`, nil, false, false},
	} {
		r := render(t, c.values)
		var policies, bound []string
		for _, p := range all[*admissionv1.ValidatingAdmissionPolicy](r) {
			policies = append(policies, p.Name)
			if p.Spec.FailurePolicy == nil || *p.Spec.FailurePolicy != admissionv1.Fail {
				t.Errorf("%s: %s fails open", c.values, p.Name)
			}
		}
		for _, b := range all[*admissionv1.ValidatingAdmissionPolicyBinding](r) {
			if !slices.Equal(b.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) || b.Spec.MatchResources != nil {
				t.Errorf("%s: %s binds to %v of %v", c.values, b.Name, b.Spec.ValidationActions, b.Spec.MatchResources)
			}
			bound = append(bound, b.Spec.PolicyName)
		}
		slices.Sort(policies)
		slices.Sort(bound)
		if !slices.Equal(policies, c.policies) || !slices.Equal(bound, c.policies) {
			t.Errorf("%s: policies %v, bound %v, want %v", c.values, policies, bound, c.policies)
		}
		act, shop := "ClusterRole plimsoll-act", "Role shop/plimsoll-pods"
		if strings.Contains(c.values, "fullnameOverride") {
			act = "ClusterRole plimsoll:other-act"
		}
		if got := slices.Contains(rights(r, act), "patch /pods"); got != c.everywhere {
			t.Errorf("%s: pods may be patched everywhere: %v", c.values, got)
		}
		if got := slices.Contains(rights(r, shop), "patch /pods"); got != c.in {
			t.Errorf("%s: pods may be patched in shop: %v", c.values, got)
		}
	}
}

// The account may patch pods and nodes, and the policies leave it what it does and nothing else.
func TestAccountReachesWhatIsItsOwn(t *testing.T) {
	r := render(t, `{mode: Active, `+site+`}`)
	pod := &corev1.Pod{}
	read(t, pod, `{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: shop, labels: {app: web}, annotations: {a: b}, finalizers: [shop.example/f]}, spec: {containers: [{name: c, image: web:1}]}}`)
	bare := &corev1.Pod{}
	read(t, bare, `{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: shop}, spec: {containers: [{name: c, image: web:1}]}}`)
	node := &corev1.Node{}
	read(t, node, `{apiVersion: v1, kind: Node, metadata: {name: x, labels: {zone: a, plimsoll.dev/pool: web}, annotations: {a: b}}, spec: {podCIDR: 10.0.0.0/24, taints: [{key: team, value: shop, effect: NoSchedule}]}}`)
	empty := &corev1.Node{}
	read(t, empty, `{apiVersion: v1, kind: Node, metadata: {name: x}}`)
	const (
		runs       = "Plimsoll may not change what a pod runs"
		podMeta    = "Plimsoll may not change a pod's labels, finalizers or owners"
		podNotes   = "Of a pod's annotations Plimsoll may change its own and the deletion cost alone"
		nodeSpec   = "Plimsoll may cordon a node, and change no more of its spec than its own taints"
		nodeMeta   = "Plimsoll may not change a node's finalizers or owners"
		nodeNotes  = "Of a node's annotations Plimsoll may change its own alone"
		nodeLabels = "Of a node's labels Plimsoll may change its own alone"
		nodeTaints = "Of a node's taints Plimsoll may change its own alone"
	)
	for _, c := range []struct {
		name   string
		before runtime.Object
		patch  string
		want   string // what is denied; empty is nothing
	}{
		{"marked to go first", pod, `{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"-1876"}}}`, ""},
		{"the first annotation", bare, `{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"-1876"}}}`, ""},
		{"our own annotation", pod, `{"metadata":{"annotations":{"plimsoll.dev/x":"y"}}}`, ""},
		{"nothing", pod, `{}`, ""},
		{"another image", pod, `{"spec":{"containers":[{"name":"c","image":"evil:1"}]}}`, runs},
		{"another container", bare, `{"spec":{"containers":[{"name":"d","image":"evil:1"}]}}`, runs},
		{"a toleration", pod, `{"spec":{"tolerations":[{"operator":"Exists"}]}}`, runs},
		{"a shorter deadline", pod, `{"spec":{"activeDeadlineSeconds":1}}`, runs},
		{"another's annotation changed", pod, `{"metadata":{"annotations":{"a":"c"}}}`, podNotes},
		{"another's annotation removed", pod, `{"metadata":{"annotations":{"a":null}}}`, podNotes},
		{"all annotations removed", pod, `{"metadata":{"annotations":null}}`, podNotes},
		{"another's annotation added", bare, `{"metadata":{"annotations":{"sidecar.istio.io/inject":"true"}}}`, podNotes},
		{"what only begins like ours", bare, `{"metadata":{"annotations":{"plimsoll.devil/x":"y"}}}`, podNotes},
		{"a label", pod, `{"metadata":{"labels":{"app":"db"}}}`, podMeta},
		{"the first label", bare, `{"metadata":{"labels":{"app":"db"}}}`, podMeta},
		{"a finalizer", bare, `{"metadata":{"finalizers":["x.example/y"]}}`, podMeta},
		{"no finalizer", pod, `{"metadata":{"finalizers":null}}`, podMeta},
		{"an owner", pod, `{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"u"}]}}`, podMeta},

		{"cordoned and marked", node, `{"metadata":{"annotations":{"plimsoll.dev/draining":"cordoned"}},"spec":{"unschedulable":true}}`, ""},
		{"cordoned, with nothing before", empty, `{"metadata":{"annotations":{"plimsoll.dev/draining":"cordoned"}},"spec":{"unschedulable":true}}`, ""},
		{"our own label and taint", node, `{"metadata":{"labels":{"plimsoll.dev/x":"y"}},"spec":{"taints":[{"key":"team","value":"shop","effect":"NoSchedule"},{"key":"plimsoll.dev/full","effect":"NoSchedule"}]}}`, ""},
		{"our own label gone", node, `{"metadata":{"labels":{"plimsoll.dev/pool":null}}}`, ""},
		{"another's label", node, `{"metadata":{"labels":{"zone":"b"}}}`, nodeLabels},
		{"another's label gone", node, `{"metadata":{"labels":{"zone":null}}}`, nodeLabels},
		{"made a control plane", empty, `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`, nodeLabels},
		{"another's annotation of a node", node, `{"metadata":{"annotations":{"a":null}}}`, nodeNotes},
		{"a node's finalizer", empty, `{"metadata":{"finalizers":["x.example/y"]}}`, nodeMeta},
		{"a node's owner", empty, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"r","uid":"u"}]}}`, nodeMeta},
		{"another's taint", empty, `{"spec":{"taints":[{"key":"team","effect":"NoExecute"}]}}`, nodeTaints},
		{"another's taint changed", node, `{"spec":{"taints":[{"key":"team","value":"evil","effect":"NoSchedule"}]}}`, nodeTaints},
		{"no taints", node, `{"spec":{"taints":null}}`, nodeTaints},
		{"another's provider id", empty, `{"spec":{"providerID":"proxmox://home/100"}}`, nodeSpec},
		{"another range of pods", node, `{"spec":{"podCIDR":"10.0.1.0/24"}}`, nodeSpec},
		{"more ranges of pods", node, `{"spec":{"podCIDRs":["10.0.1.0/24"]}}`, nodeSpec},
		{"another source of configuration", node, `{"spec":{"configSource":{"configMap":{"namespace":"x","name":"y","kubeletConfigKey":"z"}}}}`, nodeSpec},
		{"another external id", node, `{"spec":{"externalID":"x"}}`, nodeSpec},
	} {
		resource, after := "pods", runtime.Object(nil)
		switch before := c.before.(type) {
		case *corev1.Pod:
			after = patched(t, before, c.patch)
		case *corev1.Node:
			resource, after = "nodes", patched(t, before, c.patch)
		}
		if got := strings.Join(denials(t, r, resource, account, c.before, after), "; "); got != c.want {
			t.Errorf("%s: denied is %q, want %q", c.name, got, c.want)
		}
		for _, other := range []string{"system:serviceaccount:kube-system:plimsoll", "system:serviceaccount:plimsoll:other", "admin"} {
			if got := denials(t, r, resource, other, c.before, after); len(got) > 0 {
				t.Errorf("%s: %s is denied %q", c.name, other, got)
			}
		}
	}
}

// At a resize the account sets CPU and memory of containers, which is all that it writes.
func TestAccountResizesContainersAlone(t *testing.T) {
	r := render(t, `{mode: Active, components: [podscaler]}`)
	pod := &corev1.Pod{}
	read(t, pod, `{apiVersion: v1, kind: Pod, metadata: {name: x, labels: {app: web}}, spec: {initContainers: [{name: i, image: "i:1", restartPolicy: Always}], containers: [
		{name: c, image: "web:1", resources: {requests: {cpu: 100m, memory: 1Gi, example.com/gpu: "1"}, limits: {memory: 1Gi, example.com/gpu: "1"}}}, {name: d, image: "d:1"}]}}`)
	const (
		alone   = "Plimsoll may resize a pod's containers, and change no more of them than resources"
		amounts = "Of a container's resources Plimsoll may set CPU and memory alone"
		meta    = "Plimsoll may not change a pod's metadata when it resizes it"
	)
	for patch, want := range map[string]string{
		`{}`: "",
		`{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"250m","memory":"2Gi"},"limits":{"memory":"2Gi"}}}]}}`:          "",
		`{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1"}}},{"name":"d","resources":{"requests":{"memory":"1Gi"}}}]}}`: "",
		`{"spec":{"containers":[{"name":"c","resources":{"limits":{"example.com/gpu":"2"}}}]}}`:                                            amounts,
		`{"spec":{"containers":[{"name":"d","resources":{"requests":{"ephemeral-storage":"2Gi"}}}]}}`:                                      amounts,
		`{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":null}}}]}}`:                                                     amounts,
		`{"spec":{"containers":[{"name":"c","resources":{"limits":null}}]}}`:                                                               amounts,
		`{"spec":{"containers":[{"name":"c","resources":{"claims":[{"name":"gpu"}]}}]}}`:                                                   amounts,
		`{"spec":{"containers":[{"name":"c","image":"evil:1"}]}}`:                                                                          alone,
		`{"spec":{"containers":[{"name":"d","resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"}]}]}}`:                alone,
		`{"spec":{"initContainers":[{"name":"i","resources":{"requests":{"cpu":"1"}}}]}}`:                                                  "",
		`{"spec":{"initContainers":[{"name":"i","resources":{"requests":{"ephemeral-storage":"1Gi"}}}]}}`:                                  amounts,
		`{"spec":{"initContainers":[{"name":"i","image":"evil:1"}]}}`:                                                                      alone,
		`{"metadata":{"labels":{"app":"db"}}}`:                                                                                             meta,
		`{"metadata":{"annotations":{"plimsoll.dev/x":"y"}}}`:                                                                              meta,
		`{"metadata":{"finalizers":["x.example/y"]}}`:                                                                                      meta,
	} {
		after := patched(t, pod, patch)
		if got := strings.Join(denials(t, r, "pods/resize", account, pod, after), "; "); got != want {
			t.Errorf("%s: denied is %q, want %q", patch, got, want)
		}
		if got := denials(t, r, "pods/resize", "admin", pod, after); len(got) > 0 {
			t.Errorf("%s: an admin is denied %q", patch, got)
		}
	}
}

// Of Deployments the account makes those of placeholders, and they run what does nothing.
func TestAccountMakesPlaceholdersAlone(t *testing.T) {
	r := render(t, installations["places"])
	// As Plimsoll makes them.
	text, err := os.ReadFile("../../../nodescaler/kube/testdata/placeholders.yaml")
	if err != nil {
		t.Fatal(err)
	}
	made := &appsv1.Deployment{}
	read(t, made, string(text))
	yes, replicas := true, int32(2)
	made.Name, made.Namespace, made.Spec.Replicas = "plimsoll-ahead-web", "shop", &replicas
	made.Labels = map[string]string{"app.kubernetes.io/managed-by": "plimsoll"}
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "plimsoll.dev/v1alpha1", Kind: "WorkloadAutoscaler", Name: "web", UID: "u", Controller: &yes}}
	older := patched(t, made, `{"spec":{"template":{"spec":{"containers":[{"name":"placeholder","image":"registry.k8s.io/pause:3.9"}]}}}}`)
	anothers := patched(t, made, `{"metadata":{"ownerReferences":null}}`)
	const (
		alone  = "Plimsoll may write Deployments of placeholders alone"
		owned  = "A Deployment of placeholders must be a WorkloadAutoscaler's, and stay so"
		labels = "Placeholders must have their own labels and annotations alone"
		node   = "Placeholders must have the class that gives way, and nothing of their node's or their namespace's"
		runs   = "Placeholders must run the image that config.handoff names, and nothing of their own"
	)
	pod := func(spec string) string { return `{"spec":{"template":{"spec":` + spec + `}}}` }
	container := func(more string) string {
		return pod(`{"containers":[{"name":"placeholder",` + more + `}]}`)
	}
	for _, c := range []struct {
		before *appsv1.Deployment // nil for one that is made
		from   *appsv1.Deployment
		patch  string
		want   string
	}{
		{nil, made, `{}`, ""},
		{made, made, `{"spec":{"replicas":0}}`, ""},
		// Of an image that the configuration named before.
		{older, older, `{"spec":{"replicas":0}}`, ""},
		{older, made, `{}`, ""},
		{made, made, container(`"resources":{"requests":{"cpu":"2"}}`), ""},
		{nil, older, `{}`, runs},
		{nil, made, `{"metadata":{"name":"web"}}`, alone + "; " + labels},
		{nil, made, `{"metadata":{"finalizers":["x.example/y"]}}`, alone},
		{nil, made, `{"spec":{"selector":{"matchLabels":{"app":"web"}}}}`, alone},
		{anothers, made, `{}`, owned},
		{nil, anothers, `{}`, owned},
		{made, anothers, `{}`, owned},
		{nil, made, `{"spec":{"template":{"metadata":{"labels":{"app":"web"}}}}}`, labels},
		{nil, made, `{"spec":{"template":{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":"x"}}}}}`, labels},
		{nil, made, pod(`{"priorityClassName":"system-node-critical"}`), node},
		{nil, made, pod(`{"priorityClassName":null}`), "expression"},
		{nil, made, pod(`{"automountServiceAccountToken":true}`), node},
		{nil, made, pod(`{"serviceAccountName":"admin"}`), node},
		{nil, made, pod(`{"hostNetwork":true}`), node},
		{nil, made, pod(`{"hostPID":true}`), node},
		{nil, made, pod(`{"nodeName":"x"}`), node},
		{nil, made, pod(`{"volumes":[{"name":"v","hostPath":{"path":"/"}}]}`), node},
		{nil, made, pod(`{"initContainers":[{"name":"i","image":"evil:1"}]}`), node},
		{nil, made, pod(`{"securityContext":{"runAsNonRoot":false}}`), node},
		{nil, made, pod(`{"securityContext":{"sysctls":[{"name":"a","value":"b"}]}}`), node},
		{nil, made, pod(`{"containers":[{"name":"second","image":"registry.k8s.io/pause:3.10.1"}]}`), runs},
		{made, made, container(`"image":"evil:1"`), runs},
		{nil, made, container(`"command":["sh"]`), runs},
		{nil, made, container(`"env":[{"name":"a","value":"b"}]`), runs},
		{nil, made, container(`"livenessProbe":{"exec":{"command":["sh"]}}`), runs},
		{nil, made, container(`"securityContext":{"privileged":true}`), runs},
		{nil, made, container(`"securityContext":{"runAsUser":0}`), runs},
		{nil, made, container(`"securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}`), runs},
		{nil, made, container(`"securityContext":null`), "expression"},
	} {
		after := patched(t, c.from, c.patch)
		var before runtime.Object
		if c.before != nil {
			before = c.before
		}
		got := strings.Join(denials(t, r, "deployments", account, before, after), "; ")
		// What a rule asks about is not there.
		if c.want == "expression" && strings.HasPrefix(got, "expression '") {
			got = c.want
		}
		if got != c.want {
			t.Errorf("%s: denied is %q, want %q", c.patch, got, c.want)
		}
		if got := denials(t, r, "deployments", "admin", before, after); len(got) > 0 {
			t.Errorf("%s: an admin is denied %q", c.patch, got)
		}
	}
}
