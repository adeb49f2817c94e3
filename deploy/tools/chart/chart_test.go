package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/deploy/tools/internal/helm"
)

func writeFile(name, text string) error { return os.WriteFile(name, []byte(text), 0o600) }

// withMonitoring is a cluster that knows the Prometheus operator's kinds.
var withMonitoring = []string{"--api-versions", "monitoring.coreos.com/v1/ServiceMonitor", "--api-versions", "monitoring.coreos.com/v1/PrometheusRule"}

const (
	where = `config: {owner: home, endpoints: ["https://pve1.example:8006"]}`
	site  = where + `, proxmox: {existingSecret: pve}`
)

// installations are the values that everything which must always hold is tried with.
var installations = map[string]string{
	"machines": `{` + site + `}`,
	"pods":     `components: [podscaler]`,
	"provider": `{components: [podscaler, nodescaler, provider], provider: {tlsSecret: provider-tls}, ` + site + `}`,
	"active":   `{mode: Active, ` + site + `}`,
	"beside":   `{mode: Active, components: [podscaler, provider], provider: {tlsSecret: provider-tls}, ` + site + `}`,
	"places":   `{mode: Active, components: [podscaler], config: {handoff: {by: Placeholders}}}`,
	"admits":   `{mode: Active, components: [podscaler], admission: {enabled: true, tlsSecret: admission, caBundle: Y2E=}}`,
	"two":      `{mode: Active, replicas: 2, ` + site + `}`,
	"keda":     `{components: [podscaler], config: {kedaScaler: "0.0.0.0:8088"}}`,
	"measured": `{components: [podscaler], prometheus: {url: "http://prometheus:9090"}}`,
	"secret":   `{` + where + `, proxmox: {createSecret: true, secret: {token: "plimsoll@pve!plimsoll=0", join-token: x}}}`,
	"everything": `
mode: Active
components: [podscaler, nodescaler]
replicas: 2
journal: {sizeLimit: 1Gi}
image: {repository: registry.example/plimsoll, digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
imagePullSecrets: [{name: pull}]
config: {owner: home, endpoints: ["https://pve1.example:8006"], journal: {file: /var/lib/plimsoll/journal.ndjson}, recording: {folder: /var/lib/plimsoll/recording, limit: 512MiB}, lease: autoscaler}
proxmox: {existingSecret: pve}
rbac: {scaleTargets: {apps: [deployments], argoproj.io: [rollouts]}, secrets: {shop: [prometheus]}}
serviceAccount: {annotations: {a: b}}
metrics: {port: 9090}
provider: {port: 9086, expanderPort: 9087, tlsSecret: provider-tls, clients: [ca.kube-system.svc]}
joinSecrets: [workers-join, pve]
prometheus: {url: "https://mimir.monitoring/prometheus", headers: {X-Scope-OrgID: shop}, existingSecret: mimir, caKey: ca.crt, basicAuthKey: basic}
scrape: {serverName: pods.internal, existingSecret: scraper, caKey: ca.crt, tokenKey: token}
terminationGracePeriodSeconds: 60
nodeSelector: {kubernetes.io/os: linux}
affinity: {podAntiAffinity: {}}
podAnnotations: {a: b, checksum/config: mine}
podLabels: {team: platform, app.kubernetes.io/name: mine}
commonAnnotations: {owner: platform}
commonLabels: {team: platform, app.kubernetes.io/instance: mine}
extraEnv: [{name: HTTPS_PROXY, value: "http://proxy.example:3128"}]
networkPolicy: {enabled: true, metricsFrom: [{namespaceSelector: {}}], providerFrom: [{namespaceSelector: {}}], kedaFrom: [{namespaceSelector: {}}], dashboardFrom: [{namespaceSelector: {}}], egress: [{ports: [{port: 443}]}]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true, labels: {release: prometheus}}
dashboard: {enabled: true, namespace: monitoring, annotations: {folder: plimsoll}}
fullnameOverride: a-name-that-is-as-long-as-names-of-releases-ever-can-be-made
`,
}

// forEach renders every installation.
func forEach(t *testing.T, check func(*testing.T, *rendered)) {
	for name, values := range installations {
		t.Run(name, func(t *testing.T) { check(t, render(t, values, withMonitoring...)) })
	}
}

func TestChartsAreWithoutFault(t *testing.T) {
	for name, values := range installations {
		args := []string{"lint", "--strict", chartDir, "--values", write(t, values), "--kube-version", "1.37"}
		if strings.Contains(values, "serviceMonitor") {
			continue // lint knows no further kinds
		}
		if out, err := helm.Run(args...); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if out, err := helm.Run("lint", "--strict", kindsDir); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Server-side apply refuses what is twice; and two objects of a name are one.
func TestNothingStandsTwice(t *testing.T) {
	forEach(t, func(t *testing.T, r *rendered) {
		names := r.kinds()
		if unique := slices.Compact(slices.Clone(names)); len(unique) != len(names) {
			t.Errorf("objects %v", names)
		}
		for _, pod := range podsOf(r) {
			for _, c := range pod.Spec.Containers {
				var env []string
				for _, e := range c.Env {
					env = append(env, e.Name)
				}
				slices.Sort(env)
				if unique := slices.Compact(slices.Clone(env)); len(unique) != len(env) {
					t.Errorf("environment %v", env)
				}
			}
		}
	})
}

// podsOf are the pods that there will be: the deployment's and the test's.
func podsOf(r *rendered) []*corev1.Pod {
	pods := all[*corev1.Pod](r)
	for _, d := range all[*appsv1.Deployment](r) {
		pods = append(pods, &corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta, Spec: d.Spec.Template.Spec})
	}
	return pods
}

// The judge is Kubernetes' own.
func TestPodsAreAllowedUnderRestrictedPodSecurity(t *testing.T) {
	judge, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	forEach(t, func(t *testing.T, r *rendered) {
		for _, pod := range podsOf(r) {
			for _, verdict := range judge.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
				if !verdict.Allowed {
					t.Errorf("%s: %s: %s", pod.Name, verdict.ForbiddenReason, verdict.ForbiddenDetail)
				}
			}
			for _, c := range pod.Spec.Containers {
				s := c.SecurityContext
				if s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || c.Resources.Limits.Memory().IsZero() {
					t.Errorf("%s: the root can be written to, or memory has no limit", c.Name)
				}
			}
			if u := pod.Spec.SecurityContext.RunAsUser; u == nil || *u != 65532 {
				t.Errorf("%s runs as %v", pod.Name, u)
			}
		}
	})
}

// What selects must find the pods that work, and never the one that tests the release.
func TestSelectorsFindThePodsThatWork(t *testing.T) {
	forEach(t, func(t *testing.T, r *rendered) {
		d := only[*appsv1.Deployment](t, r)
		selectors := map[string]map[string]string{"Deployment": d.Spec.Selector.MatchLabels}
		for _, s := range all[*corev1.Service](r) {
			selectors["Service "+s.Name] = s.Spec.Selector
			checkPorts(t, s, d)
		}
		for _, p := range all[*policyv1.PodDisruptionBudget](r) {
			selectors["PodDisruptionBudget"] = p.Spec.Selector.MatchLabels
		}
		for _, p := range all[*networkingv1.NetworkPolicy](r) {
			selectors["NetworkPolicy"] = p.Spec.PodSelector.MatchLabels
		}
		for name, selector := range selectors {
			finds := labels.SelectorFromSet(selector)
			if !finds.Matches(labels.Set(d.Spec.Template.Labels)) {
				t.Errorf("%s does not find the deployment's pods: %v", name, selector)
			}
			for _, p := range all[*corev1.Pod](r) {
				if finds.Matches(labels.Set(p.Labels)) {
					t.Errorf("%s finds the test's pod: %v", name, selector)
				}
			}
		}
		for _, u := range all[*unstructured.Unstructured](r) {
			if u.GetKind() == "ServiceMonitor" {
				checkMonitor(t, u, all[*corev1.Service](r))
			}
		}
	})
}

func checkPorts(t *testing.T, s *corev1.Service, d *appsv1.Deployment) {
	t.Helper()
	for _, p := range s.Spec.Ports {
		open := slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Ports, func(c corev1.ContainerPort) bool { return c.Name == p.TargetPort.StrVal })
		if !open {
			t.Errorf("Service %s: the pods have no port %s", s.Name, p.TargetPort.StrVal)
		}
	}
}

// checkMonitor wants the one service that serves metrics to be found.
func checkMonitor(t *testing.T, monitor *unstructured.Unstructured, services []*corev1.Service) {
	t.Helper()
	selector, _, err := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, s := range services {
		if labels.SelectorFromSet(selector).Matches(labels.Set(s.Labels)) {
			found = append(found, s.Spec.Ports[0].Name)
		}
	}
	if diff := cmp.Diff([]string{"metrics"}, found); diff != "" {
		t.Errorf("the monitor finds services with these ports, -want +got:\n%s", diff)
	}
}

// The file that is mounted is the one that is made, and what it names lies beside it.
func TestConfigurationAndSecretAreWhereTheProgramLooks(t *testing.T) {
	forEach(t, func(t *testing.T, r *rendered) {
		for _, pod := range podsOf(r) {
			sources := pod.Spec.Volumes[0].Projected.Sources
			made := slices.ContainsFunc(all[*corev1.ConfigMap](r), func(m *corev1.ConfigMap) bool {
				return m.Name == sources[0].ConfigMap.Name && m.Data["config.yaml"] != ""
			})
			if !made {
				t.Errorf("nobody makes ConfigMap %s", sources[0].ConfigMap.Name)
			}
			for _, s := range all[*corev1.Secret](r) {
				if len(sources) != 2 || sources[1].Secret.Name != s.Name {
					t.Errorf("Secret %s is made and not mounted", s.Name)
				}
			}
			if mode := *pod.Spec.Volumes[0].Projected.DefaultMode; mode != 0o440 {
				t.Errorf("a token that is mounted with mode %o", mode)
			}
			c := pod.Spec.Containers[0]
			if !slices.Contains(c.Args, "--config="+c.VolumeMounts[0].MountPath+"/config.yaml") {
				t.Errorf("%v does not name the file in %s", c.Args, c.VolumeMounts[0].MountPath)
			}
		}
	})
}

// Money is read digit by digit, and neither values nor YAML keep it so.
func TestMoneyIsRenderedAsItIsRead(t *testing.T) {
	for amount, want := range map[string]string{
		"40": "40", "4000000": "4000000", "1234567.5": "1234567.5", "0.000001": "0.000001", "98765432100.1": "98765432100.1", `"0.30"`: "0.30",
	} {
		for how, r := range map[string]*rendered{
			"values":     render(t, `{components: [podscaler], config: {limit: {amount: `+amount+`, per: 1h}}}`),
			"--set-json": render(t, `components: [podscaler]`, "--set-json", `config.limit={"amount":`+amount+`,"per":"1h"}`),
		} {
			if text := only[*corev1.ConfigMap](t, r).Data["config.yaml"]; !strings.Contains(text, "\n  amount: \""+want+"\"\n") {
				t.Errorf("amount %s by %s, want %s, is in\n%s", amount, how, want, text)
			}
		}
	}
}

func TestNothingIsOutsideTheReleasesNamespaceUnlessAskedFor(t *testing.T) {
	forEach(t, func(t *testing.T, r *rendered) {
		for _, o := range r.objects {
			switch o.GetNamespace() {
			case "plimsoll", "":
			case "monitoring":
				if o.GetLabels()["grafana_dashboard"] != "1" {
					t.Errorf("%s is in monitoring", o.GetName())
				}
			case "shop":
				if !strings.Contains(o.GetName(), "secrets") {
					t.Errorf("%s is in shop", o.GetName())
				}
			default:
				t.Errorf("%s is in %s", o.GetName(), o.GetNamespace())
			}
		}
	})
}

// A pod that is on a machine which it may delete would delete itself.
func TestPodsKeepOffMachinesOfPools(t *testing.T) {
	r := render(t, installations["two"])
	spec := only[*appsv1.Deployment](t, r).Spec.Template.Spec
	term := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0]
	if term.Key != "plimsoll.dev/pool" || term.Operator != corev1.NodeSelectorOpDoesNotExist {
		t.Errorf("node affinity %+v", term)
	}
	if len(spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		t.Error("two pods may stand on one node")
	}
	if spec.PriorityClassName != "system-cluster-critical" {
		t.Errorf("priority %s", spec.PriorityClassName)
	}
	// Of control planes, as kubeadm, RKE2 and Rancher's documents have them.
	for _, taint := range []corev1.Taint{
		{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule},
		{Key: "node-role.kubernetes.io/etcd", Effect: corev1.TaintEffectNoExecute},
		{Key: "CriticalAddonsOnly", Value: "true", Effect: corev1.TaintEffectNoExecute},
	} {
		tolerated := slices.ContainsFunc(spec.Tolerations, func(o corev1.Toleration) bool {
			return o.Key == taint.Key && o.Operator == corev1.TolerationOpExists && (o.Effect == "" || o.Effect == taint.Effect)
		})
		if !tolerated {
			t.Errorf("%s is not tolerated: %v", taint.ToString(), spec.Tolerations)
		}
	}
}

// What is off unless asked for, and what two replicas need.
func TestWhatIsRendered(t *testing.T) {
	plain := []string{
		"ClusterRole plimsoll-approve", "ClusterRole plimsoll-edit", "ClusterRole plimsoll-read", "ClusterRole plimsoll-report", "ClusterRole plimsoll-view", "ClusterRoleBinding plimsoll-read", "ClusterRoleBinding plimsoll-report",
		"ConfigMap plimsoll", "Deployment plimsoll", "NetworkPolicy plimsoll", "Role plimsoll", "RoleBinding plimsoll", "Service plimsoll-metrics", "ServiceAccount plimsoll",
	}
	acts := []string{
		"Pod plimsoll-doctor", "ClusterRole plimsoll-act", "ClusterRoleBinding plimsoll-act",
		"ValidatingAdmissionPolicy plimsoll-nodes", "ValidatingAdmissionPolicy plimsoll-pods", "ValidatingAdmissionPolicy plimsoll-resize",
		"ValidatingAdmissionPolicyBinding plimsoll-nodes", "ValidatingAdmissionPolicyBinding plimsoll-pods", "ValidatingAdmissionPolicyBinding plimsoll-resize",
	}
	for _, c := range []struct {
		values string
		more   []string
	}{
		{installations["machines"], []string{"Pod plimsoll-doctor"}},
		{installations["active"], acts},
		{installations["two"], append(slices.Clone(acts), "PodDisruptionBudget plimsoll")},
		{`{components: [podscaler, provider], provider: {tlsSecret: provider-tls}, ` + site + `}`, []string{"Pod plimsoll-doctor", "Service plimsoll"}},
		{installations["secret"], []string{"Pod plimsoll-doctor", "Secret plimsoll-proxmox"}},
		{`{components: [podscaler], serviceMonitor: {enabled: true}}`, []string{"ServiceMonitor plimsoll"}},
		{`{components: [podscaler], prometheusRule: {enabled: true}}`, []string{"PrometheusRule plimsoll"}},
		{`{components: [podscaler], dashboard: {enabled: true}}`, []string{"ConfigMap plimsoll-dashboard"}},
	} {
		want := append(slices.Clone(plain), c.more...)
		slices.Sort(want)
		if diff := cmp.Diff(want, render(t, c.values, withMonitoring...).kinds()); diff != "" {
			t.Errorf("%s, -want +got:\n%s", c.values, diff)
		}
	}
}

// A pod that serves waits for the lead before it is ready, so the old one must not wait for it. All
// modes have one strategy: server-side apply leaves the fields that the API server filled in, with
// which another type is refused.
func TestARolloutDoesNotWaitForTheLead(t *testing.T) {
	forEach(t, func(t *testing.T, r *rendered) {
		none, one := intstr.FromInt32(0), intstr.FromInt32(1)
		want := appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &none, MaxUnavailable: &one}}
		if diff := cmp.Diff(want, only[*appsv1.Deployment](t, r).Spec.Strategy); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// What a site adds to the pod is there, beside what the program needs.
func TestPodTakesWhatASiteAdds(t *testing.T) {
	r := render(t, `{components: [podscaler], extraArgs: [--help], extraEnv: [{name: A, value: b}],
extraVolumes: [{name: ca, emptyDir: {}}], extraVolumeMounts: [{name: ca, mountPath: /ca}],
hostAliases: [{ip: 10.0.0.11, hostnames: [pve1.example]}], dnsConfig: {searches: [example]}, strategy: {type: Recreate},
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}],
extraObjects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: more}}]}`)
	d := all[*appsv1.Deployment](r)[0]
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || len(pod.HostAliases) != 1 || pod.DNSConfig == nil || len(pod.TopologySpreadConstraints) != 1 {
		t.Errorf("the pod: %+v", d.Spec)
	}
	if !slices.Contains(c.Args, "--help") || c.Env[0].Name != "GOMEMLIMIT" || c.Env[1].Name != "A" {
		t.Errorf("the container: %+v", c)
	}
	if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/ca" }) || !slices.Contains(r.kinds(), "ConfigMap more") {
		t.Errorf("mounts %+v, objects %v", c.VolumeMounts, r.kinds())
	}
}

// What tests the release reaches what the Deployment's pod reaches: it runs in the same places,
// knows the same names and sees the same files, but for the journal.
func TestTheTestOfAReleaseIsWhereItsPodIs(t *testing.T) {
	r := render(t, `{`+site+`, nodeSelector: {disk: ssd}, affinity: {podAntiAffinity: {}}, tolerations: [{key: a, operator: Exists}],
hostAliases: [{ip: 10.0.0.11, hostnames: [pve1.example]}], dnsConfig: {searches: [example]},
extraVolumes: [{name: ca, emptyDir: {}}], extraVolumeMounts: [{name: ca, mountPath: /ca}]}`)
	for _, r := range []*rendered{r, render(t, `{`+site+`}`)} {
		test, works := only[*corev1.Pod](t, r).Spec, only[*appsv1.Deployment](t, r).Spec.Template.Spec
		works.Volumes = slices.DeleteFunc(works.Volumes, func(v corev1.Volume) bool { return v.Name == "journal" })
		mounts := slices.DeleteFunc(works.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "journal" })
		for what, diff := range map[string]string{
			"host aliases": cmp.Diff(works.HostAliases, test.HostAliases), "DNS": cmp.Diff(works.DNSConfig, test.DNSConfig),
			"node selector": cmp.Diff(works.NodeSelector, test.NodeSelector), "affinity": cmp.Diff(works.Affinity, test.Affinity),
			"tolerations": cmp.Diff(works.Tolerations, test.Tolerations), "volumes": cmp.Diff(works.Volumes, test.Volumes),
			"mounts": cmp.Diff(mounts, test.Containers[0].VolumeMounts),
		} {
			if diff != "" {
				t.Errorf("%s, -deployment +test:\n%s", what, diff)
			}
		}
	}
}

// Unless values say otherwise, Prometheus alone is let in for metrics, and cluster-autoscaler, as
// its printed manifests have it, for the provider and the expander. The kubelet's probes come from
// the node, which no policy keeps out.
func TestNobodyElseReachesThePorts(t *testing.T) {
	type client struct {
		namespace string
		labels    labels.Set
	}
	prometheus := client{"monitoring", labels.Set{"app.kubernetes.io/name": "prometheus"}}
	autoscaler := client{"kube-system", labels.Set{"app": "cluster-autoscaler"}}
	strangers := []client{
		{"tenant-a", prometheus.labels}, {"monitoring", labels.Set{"app": "grafana"}},
		{"tenant-a", labels.Set{"app": "cluster-autoscaler"}}, {"kube-system", labels.Set{"app": "coredns"}}, {"tenant-a", labels.Set{"app": "wordpress"}}, {"tenant-a", nil},
	}
	reaches := func(p *networkingv1.NetworkPolicy, port string, c client) bool {
		for _, rule := range p.Spec.Ingress {
			if !slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.String() == port }) {
				continue
			}
			if len(rule.From) == 0 {
				return true
			}
			for _, peer := range rule.From {
				space, err := metav1.LabelSelectorAsSelector(peer.NamespaceSelector)
				if err != nil {
					t.Fatal(err)
				}
				pod := labels.Everything() // of the namespace
				if peer.PodSelector != nil {
					if pod, err = metav1.LabelSelectorAsSelector(peer.PodSelector); err != nil {
						t.Fatal(err)
					}
				}
				if space.Matches(labels.Set{"kubernetes.io/metadata.name": c.namespace}) && pod.Matches(c.labels) {
					return true
				}
			}
		}
		return false
	}
	r := render(t, installations["provider"])
	for _, p := range all[*networkingv1.NetworkPolicy](r) {
		if !slices.Equal(p.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) || p.Spec.Egress != nil {
			t.Errorf("%v: what it reaches is bounded, though nobody said by what", p.Spec.PolicyTypes)
		}
		for port, open := range map[string]client{"metrics": prometheus, "provider": autoscaler, "expander": autoscaler} {
			for _, c := range append([]client{prometheus, autoscaler}, strangers...) {
				if got, want := reaches(p, port, c), reflect.DeepEqual(c, open); got != want {
					t.Errorf("%s from %v: %v, want %v", port, c, got, want)
				}
			}
		}
	}
	keda := client{"keda", labels.Set{"app": "keda-operator"}}
	for from, open := range map[string][]client{"": {keda}, `, networkPolicy: {kedaFrom: []}`: append(strangers, keda, prometheus)} {
		for _, p := range all[*networkingv1.NetworkPolicy](render(t, `{components: [podscaler], config: {kedaScaler: "0.0.0.0:8088"}`+from+`}`)) {
			for _, c := range append(strangers, keda, prometheus) {
				want := slices.ContainsFunc(open, func(o client) bool { return reflect.DeepEqual(o, c) })
				if got := reaches(p, "8088", c); got != want {
					t.Errorf("kedaScaler from %v with %q: %v, want %v", c, from, got, want)
				}
			}
		}
	}
	ingress := client{"kube-system", labels.Set{"app.kubernetes.io/name": "rke2-ingress-nginx"}}
	for values, open := range map[string][]client{
		`{dashboard: "0.0.0.0:8642"}`: {ingress}, `{dashboard: ":8642"}, networkPolicy: {dashboardFrom: []}`: append(strangers, ingress, prometheus),
		`{dashboard: "127.0.0.1:8642"}`: nil, `{dashboard: "[::1]:8642"}`: nil, `{dashboard: "localhost:8642"}`: nil, `{}`: nil,
	} {
		for _, p := range all[*networkingv1.NetworkPolicy](render(t, `{components: [podscaler], config: `+values+`}`)) {
			for _, c := range append(strangers, ingress, prometheus) {
				want := slices.ContainsFunc(open, func(o client) bool { return reflect.DeepEqual(o, c) })
				if got := reaches(p, "8642", c); got != want {
					t.Errorf("dashboard from %v with %s: %v, want %v", c, values, got, want)
				}
			}
		}
	}
	for _, p := range all[*networkingv1.NetworkPolicy](render(t, `{components: [podscaler], networkPolicy: {metricsFrom: [], egress: [{ports: [{port: 443}]}]}}`)) {
		if !reaches(p, "metrics", strangers[0]) || len(p.Spec.PolicyTypes) != 2 || len(p.Spec.Egress) != 1 || len(p.Spec.Ingress) != 1 {
			t.Errorf("%+v", p.Spec)
		}
	}
	if n := len(all[*networkingv1.NetworkPolicy](render(t, `{components: [podscaler], networkPolicy: {enabled: false}}`))); n != 0 {
		t.Errorf("%d policies, though it is off", n)
	}
}

// Two releases in a namespace have a lease each, and each may lead by its own alone.
func TestEveryReleaseHasItsOwnLease(t *testing.T) {
	for values, want := range map[string]string{
		"{" + site + "}": "plimsoll",
		"{fullnameOverride: second, " + site + "}":   "second",
		"{nameOverride: plimsoll-two, " + site + "}": "plimsoll-plimsoll-two",
		installations["everything"]:                  "autoscaler",
	} {
		r := render(t, values, withMonitoring...)
		var config struct{ Lease string }
		for _, m := range all[*corev1.ConfigMap](r) {
			if text, is := m.Data["config.yaml"]; is {
				if err := yaml.Unmarshal([]byte(text), &config); err != nil {
					t.Fatal(err)
				}
			}
		}
		got := config.Lease
		if got == "" {
			got = "plimsoll"
		}
		if got != want {
			t.Errorf("%s: lease %s, want %s", values, got, want)
		}
		for _, role := range all[*rbacv1.Role](r) {
			for _, rule := range role.Rules {
				if name := strings.TrimSuffix(strings.Join(rule.ResourceNames, ","), "-intents"); name != "" && role.Namespace == "plimsoll" && name != want {
					t.Errorf("%s: rights for %s, want %s", values, name, want)
				}
			}
		}
	}
}

// Every bad value is refused with the key, the rule and the value, before anything is rendered.
func TestBadValuesAreRefused(t *testing.T) {
	for _, c := range []struct{ values, want string }{
		{`mode: observe`, `'/mode': value must be one of 'Recommend', 'Active'`},
		{`{components: []}`, `'/components': minItems: got 0, want 1`},
		{`{components: [podscaler, podscaler]}`, `'/components': items at 0 and 1 are equal`},
		{`{components: [dashboard]}`, `'/components/0': value must be one of 'podscaler', 'nodescaler', 'provider'`},
		{`replicas: 0`, `'/replicas': minimum: got 0, want 1`},
		{`replicas: 3`, `'/replicas': maximum: got 3, want 2`},
		{`replicas: "1"`, `'/replicas': got string, want integer`},
		{`replcias: 2`, `additional properties 'replcias' not allowed`},
		{`image: {tag: "a b"}`, `'/image/tag': 'a b' does not match pattern`},
		{`image: {digest: "sha256:12"}`, `'/image/digest': 'sha256:12' does not match pattern`},
		{`image: {pullpolicy: Always}`, `'/image': additional properties 'pullpolicy' not allowed`},
		{`imagePullSecrets: [pull]`, `'/imagePullSecrets/0': got string, want object`},
		{`config: site.yaml`, `'/config': got string, want object`},
		{`proxmox: {token: x}`, `'/proxmox': additional properties 'token' not allowed`},
		{`proxmox: {existingSecret: Plimsoll}`, `'/proxmox/existingSecret': 'Plimsoll' does not match pattern`},
		{`proxmox: {existingSecret: pve, createSecret: true, secret: {token: x}}`, `proxmox.existingSecret: must be omitted with createSecret, was "pve"`},
		{`proxmox: {existingSecret: pve, secret: {token: x}}`, `proxmox.secret: must be omitted unless createSecret is true`},
		{`proxmox: {createSecret: true, secret: {join-token: x}}`, `proxmox.secret: must hold the API token under the key "token", which config.tokenFile names`},
		{`proxmox: {createSecret: true, secret: {token: ""}}`, `'/proxmox/secret/token': minLength: got 0, want 1`},
		{`{}`, `proxmox.existingSecret: must name a secret with the API token`},
		{`proxmox: {existingSecret: pve}`, `config.owner: must be set, for nodescaler and provider make machines`},
		{`{proxmox: {existingSecret: pve}, config: {owner: home, endpoints: []}}`, `config.endpoints: must be set, for nodescaler and provider make machines`},
		{`{components: [provider], replicas: 2, ` + site + `}`, `replicas: must be 1 with provider: one that does not lead cannot answer cluster-autoscaler, was 2`},
		{`{components: [podscaler], replicas: 2, config: {kedaScaler: ":8088"}}`, `replicas: must be 1 with config.kedaScaler: one that does not lead cannot answer KEDA, was 2`},
		{`{components: [provider], ` + site + `}`, `provider.tlsSecret: must name a secret with tls.crt, tls.key and ca.crt`},
		{`{components: [provider], provider: {tlsSecret: a}, proxmox: {existingSecret: pve}, config: {owner: home, endpoints: [x], provider: {plaintext: anywhere}}}`, `provider.tlsSecret: must be omitted beside config.provider.tls and config.provider.plaintext, was "a"`},
		{`joinSecrets: [a, a]`, `'/joinSecrets': items at 0 and 1 are equal`},
		{`config: {tokenFile: ""}`, `'/config/tokenFile': minLength: got 0, want 1`},
		{`config: {tokenFile: null}`, `'/config': missing property 'tokenFile'`},
		{`config: {ownr: x}`, `'/config': additional properties 'ownr' not allowed`},
		{`config: {owner: 12}`, `'/config/owner': got number, want string`},
		{`config: {tokenFile: /etc/token}`, `'/config/tokenFile': '/etc/token' does not match pattern`},
		{`config: {notifications: [{urlFile: chat/url}]}`, `'/config/notifications/0/urlFile': 'chat/url' does not match pattern`},
		{`{components: [provider], provider: {port: 8080, tlsSecret: a}, ` + site + `}`, `provider.port: must not take the port of metrics.port, was 8080`},
		{`{components: [podscaler], config: {mode: Active}}`, `config.mode: must be omitted, for mode says it`},
		{`{components: [podscaler], config: {pools: []}}`, `config.pools: must be omitted, for VMPools say it`},
		{`{components: [podscaler], config: {state: /var}}`, `config.state: must be omitted, for the chart says it`},
		{`journal: {sizeLimit: much}`, `'/journal/sizeLimit': 'much' does not match pattern`},
		{`{components: [provider], provider: {expanderPort: 8086, tlsSecret: a}, ` + site + `}`, `provider.expanderPort: must not take the port of provider.port, was 8086`},
		{`{components: [provider], provider: {expanderPort: 8080, tlsSecret: a}, ` + site + `}`, `provider.expanderPort: must not take the port of metrics.port, was 8080`},
		{`{components: [podscaler, provider], provider: {tlsSecret: a}, config: {kedaScaler: "0.0.0.0:8087", owner: home, endpoints: ["https://pve1.example:8006"]}, proxmox: {existingSecret: pve}}`, `config.kedaScaler: must not take the port of provider.expanderPort, was 0.0.0.0:8087`},
		{`{components: [podscaler], config: {kedaScaler: ":8080"}}`, `config.kedaScaler: must not take the port of metrics.port, was :8080`},
		{`{components: [podscaler], config: {kedaScaler: "0.0.0.0:8088", dashboard: "127.0.0.1:8088"}}`, `config.dashboard: must not take the port of config.kedaScaler, was 127.0.0.1:8088`},
		{`{components: [podscaler], config: {kedaScaler: "127.0.0.1:8088"}}`, `config.kedaScaler: must have no loopback address, which KEDA does not reach: 0.0.0.0:8088, was "127.0.0.1:8088"`},
		{`{components: [podscaler], config: {kedaScaler: "[::1]:8088"}}`, `config.kedaScaler: must have no loopback address`},
		{`{components: [podscaler], config: {kedaScaler: "localhost:8088"}}`, `config.kedaScaler: must have no loopback address`},
		{`{components: [provider], provider: {clients: [], tlsSecret: a}, ` + site + `}`, `provider.clients: must name whose certificates may order and destroy machines, such as [cluster-autoscaler], was empty`},
		{`{components: [provider], provider: {clients: ["*.svc"], tlsSecret: a}, ` + site + `}`, `'/provider/clients/0'`},
		{`{components: [podscaler], config: {provider: {expander: ":9"}}}`, `config.provider.expander: must be omitted, for provider.expanderPort says it`},
		{`{components: [provider]}`, `proxmox.existingSecret: must name a secret with the API token`},
		{`{components: [podscaler], config: {metrics: ":9"}}`, `config.metrics: must be omitted, for metrics.port says it`},
		{`{components: [podscaler], config: {provider: {listen: ":9"}}}`, `config.provider.listen: must be omitted, for provider.port says it`},
		{`{components: [podscaler], config: {journal: {file: journal.ndjson}}}`, `config.journal.file: must be - for standard output or a file in /var/lib/plimsoll/ here, for nothing else in the pod can be written to, was "journal.ndjson"`},
		{`{components: [podscaler], config: {journal: {file: /var/lib/plimsoll/../j}}}`, `config.journal.file: must be -`},
		{`{components: [podscaler], config: {recording: {folder: recording, limit: 1MiB}}}`, `config.recording.folder: must be a folder in /var/lib/plimsoll/ here, for nothing else in the pod can be written to, was "recording"`},
		{`{components: [podscaler], config: {recording: {folder: /var/lib/plimsoll/recording}}}`, `journal.sizeLimit: must be above 5120Mi, what config.journal and config.recording.limit take, or the pod is evicted, was 512Mi`},
		{`{components: [podscaler], config: {recording: {folder: /var/lib/plimsoll/recording, limit: 1.5GB}}}`, `journal.sizeLimit: must be above 1431Mi`},
		{`{components: [podscaler], config: {journal: {file: /var/lib/plimsoll/j, rotateSize: 128MiB}}}`, `journal.sizeLimit: must be above 512Mi`},
		{`{components: [podscaler], config: {journal: {file: /var/lib/plimsoll/j, keep: 2}, recording: {folder: /var/lib/plimsoll/r, limit: 320Mi}}}`, `journal.sizeLimit: must be above 512Mi`},
		{`{components: [podscaler], config: {prometheus: {url: "http://p"}}}`, `config.prometheus: must be omitted, for prometheus says it`},
		{`prometheus: {url: "prometheus:9090"}`, `'/prometheus/url': 'prometheus:9090' does not match pattern`},
		{`prometheus: {uri: "http://p"}`, `'/prometheus': additional properties 'uri' not allowed`},
		{`scrape: {tokenKey: a/b}`, `'/scrape/tokenKey': 'a/b' does not match pattern`},
		{`{components: [podscaler], prometheus: {existingSecret: p, tokenKey: token}}`, `prometheus.url: must be set, for headers and a secret are given for it`},
		{`{components: [podscaler], prometheus: {url: "http://p", caKey: ca, tokenKey: token}}`, `prometheus.existingSecret: must name the secret that has ca and token`},
		{`{components: [podscaler], scrape: {existingSecret: p}}`, `scrape.existingSecret: must be omitted without caKey, tokenKey or basicAuthKey, which say what is in it, was "p"`},
		{`{components: [podscaler], scrape: {existingSecret: p, tokenKey: token, basicAuthKey: basic}}`, `scrape.basicAuthKey: must be omitted beside tokenKey, was "basic"`},
		{`metrics: {port: 70000}`, `'/metrics/port': maximum: got 70,000, want 65,535`},
		{`resources: {limits: null}`, `'/resources': missing property 'limits'`},
		{`{components: [podscaler], extraEnv: [{name: A, value: x}, {name: A, value: "y"}]}`, `extraEnv: must name every variable once, was A twice`},
		{`extraEnv: [{value: x}]`, `'/extraEnv/0': missing property 'name'`},
		{`serviceMonitor: {interval: often}`, `'/serviceMonitor/interval': 'often' does not match pattern`},
		{`{components: [podscaler], admission: {enabled: true, caBundle: Y2E=}}`, `admission.tlsSecret: must name a secret with tls.crt and tls.key, for the API server asks by TLS alone`},
		{`{components: [podscaler], admission: {enabled: true, tlsSecret: a}}`, `admission.caBundle: must be the authority that signed the certificate, in base64, unless annotations have it injected`},
		{`{components: [podscaler], admission: {enabled: true, tlsSecret: a, caBundle: "a b"}}`, `'/admission/caBundle': 'a b' does not match pattern`},
		{`{components: [podscaler], admission: {enabled: true, tlsSecret: a, caBundle: Y2E=, port: 8080}}`, `admission.port: must not take the port of metrics.port, was 8080`},
		{`{components: [nodescaler], admission: {enabled: true, tlsSecret: a, caBundle: Y2E=}, ` + site + `}`, `admission.enabled: must be false without podscaler, which decides what pods request, was true`},
		{`{components: [podscaler], config: {admission: {listen: ":9"}}}`, `config.admission: must be omitted, for admission says it`},
		{`{components: [podscaler], serviceMonitor: {enabled: true}}`, `serviceMonitor.enabled: must be false where the cluster has no ServiceMonitor`},
		{`{components: [podscaler], prometheusRule: {enabled: true}}`, `prometheusRule.enabled: must be false where the cluster has no PrometheusRule`},
		{`prometheusRule: {runbookURL: docs}`, `'/prometheusRule/runbookURL': 'docs' does not match pattern`},
		{`podLabels: {a: 1}`, `'/podLabels/a': got number, want string`},
		{`rbac: {scaleTargets: {apps: []}}`, `'/rbac/scaleTargets/apps': minItems: got 0, want 1`},
		{`rbac: {scaleTargets: {apps: ["*"]}}`, `'/rbac/scaleTargets/apps/0': '*' does not match pattern`},
	} {
		_, err := tryRender(t, chartDir, c.values)
		if err == nil {
			t.Errorf("%s: rendered", c.values)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.values, err, c.want)
		}
	}
}

// As part of another chart, with values that are meant for it and for all.
func TestChartIsPartOfAnother(t *testing.T) {
	whole := t.TempDir()
	for name, text := range map[string]string{
		"Chart.yaml": `{apiVersion: v2, name: platform, version: 1.0.0, dependencies: [
			{name: plimsoll-crds, version: "*", condition: plimsoll-crds.enabled},
			{name: plimsoll, version: "*", condition: plimsoll.enabled}]}`,
		"values.yaml":              `{global: {imageRegistry: x}, plimsoll: {enabled: true, components: [podscaler]}, plimsoll-crds: {enabled: true}}`,
		"charts/plimsoll":          "",
		"charts/plimsoll-crds":     "",
		"templates/something.yaml": "",
	} {
		at := filepath.Join(whole, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if part, ok := strings.CutPrefix(name, "charts/"); ok {
			if err := os.CopyFS(at, os.DirFS(filepath.Join(filepath.Dir(chartDir), part))); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := writeFile(at, text); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := helm.Run("lint", "--strict", whole); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	with, err := tryRender(t, whole, "{}")
	if err != nil {
		t.Fatal(err)
	}
	if names := with.kinds(); !slices.Contains(names, "Deployment plimsoll") || !slices.Contains(names, "CustomResourceDefinition vmpools.plimsoll.dev") {
		t.Errorf("rendered %v", names)
	}
	without, err := tryRender(t, whole, "{plimsoll: {enabled: false}, plimsoll-crds: {enabled: false}}")
	if err != nil {
		t.Fatal(err)
	}
	if names := without.kinds(); len(names) > 0 {
		t.Errorf("switched off, and rendered %v", names)
	}
}

// Helm upgrades templates, and leaves what is to be kept.
func TestKindsAreUpgradedAndKept(t *testing.T) {
	sources, err := filepath.Glob("../../crds/*.yaml")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no kinds: %v", err)
	}
	want := map[string]any{}
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		u := only[*unstructured.Unstructured](t, r)
		want[u.GetName()] = u.Object["spec"]
	}
	r, err := tryRender(t, kindsDir, `{commonAnnotations: {a: b, helm.sh/resource-policy: delete, controller-gen.kubebuilder.io/version: x}, commonLabels: {c: d}}`)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, u := range all[*unstructured.Unstructured](r) {
		got[u.GetName()] = u.Object["spec"]
		if a := u.GetAnnotations(); a["helm.sh/resource-policy"] != "keep" || a["a"] != "b" || u.GetLabels()["c"] != "d" {
			t.Errorf("%s: annotations %v, labels %v", u.GetName(), a, u.GetLabels())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds, -want +got:\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(kindsDir, "crds")); err == nil {
		t.Error("Helm never upgrades what is in a folder crds")
	}
	if _, err := os.Stat(filepath.Join(chartDir, "crds")); err == nil {
		t.Error("Helm never upgrades what is in a folder crds")
	}
}

// NOTES.txt is all that most people read.
func TestNotesSayWhatToDoNext(t *testing.T) {
	for _, c := range []struct {
		values       string
		says, silent []string
	}{
		{installations["machines"], []string{"in mode Recommend", "helm test plimsoll --namespace plimsoll --logs", "kubectl get plimsoll", "--set mode=Active", "install the chart plimsoll-crds", "WARNING: no registry has the image plimsoll.invalid/plimsoll:v0.1.0"}, []string{"API token"}},
		{installations["active"], []string{"in mode Active"}, []string{"no right to change", "--set mode=Active", "API token"}},
		{`{components: [podscaler], image: {repository: registry.example/plimsoll, tag: v9}}`, []string{"WARNING: the image registry.example/plimsoll:v9 is named by a tag", "set image.digest"}, []string{"no registry"}},
		{`{components: [podscaler], image: {repository: registry.example/plimsoll, digest: "sha256:` + strings.Repeat("0", 64) + `"}}`, nil, []string{"WARNING"}},
		{installations["pods"], []string{"kubectl get plimsoll"}, []string{"helm test"}},
		{installations["secret"], []string{"WARNING: the API token was given in the values"}, nil},
	} {
		out, err := helm.Run("install", "plimsoll", chartDir, "--namespace", "plimsoll", "--dry-run=client", "--values", write(t, c.values))
		if err != nil {
			t.Fatal(err)
		}
		_, notes, found := strings.Cut(string(out), "\nNOTES:\n")
		if !found {
			t.Fatalf("no notes in:\n%s", out)
		}
		for _, text := range c.says {
			if !strings.Contains(notes, text) {
				t.Errorf("%s: the notes do not say %q:\n%s", c.values, text, notes)
			}
		}
		for _, text := range c.silent {
			if strings.Contains(notes, text) {
				t.Errorf("%s: the notes say %q:\n%s", c.values, text, notes)
			}
		}
	}
}

// Files that pools and the provider name lie beside the configuration, whichever secret they are
// from.
func TestFilesOfAllSecretsLieSideBySide(t *testing.T) {
	r := render(t, `{components: [nodescaler, provider], joinSecrets: [workers-join, pve], provider: {tlsSecret: provider-tls}, `+site+`}`)
	var got []string
	for _, s := range podsOf(r)[0].Spec.Volumes[0].Projected.Sources[1:] {
		got = append(got, s.Secret.Name)
		for _, item := range s.Secret.Items {
			got = append(got, "  "+item.Key+" as "+item.Path)
		}
	}
	want := []string{"pve", "workers-join", "provider-tls", "  tls.crt as provider-tls.crt", "  tls.key as provider-tls.key", "  ca.crt as provider-ca.crt"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("secrets, -want +got:\n%s", diff)
	}
	config := all[*corev1.ConfigMap](r)[0].Data["config.yaml"]
	for _, file := range []string{"certificate: provider-tls.crt", "key: provider-tls.key", "clientCA: provider-ca.crt", "clients:\n    - cluster-autoscaler\n", "expander: :8087"} {
		if !strings.Contains(config, file) {
			t.Errorf("the configuration does not name %s:\n%s", file, config)
		}
	}
}

// What a Prometheus and pods want to see lies beside the configuration, under names that are no
// other secret's.
func TestMeasuringSeesItsOwnSecrets(t *testing.T) {
	r := render(t, installations["everything"], withMonitoring...)
	var got []string
	for _, s := range podsOf(r)[0].Spec.Volumes[0].Projected.Sources[1:] {
		for _, item := range s.Secret.Items {
			got = append(got, s.Secret.Name+" "+item.Key+" as "+item.Path)
		}
	}
	want := []string{
		"mimir ca.crt as prometheus-ca", "mimir basic as prometheus-basic-auth",
		"scraper ca.crt as scrape-ca", "scraper token as scrape-token",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files, -want +got:\n%s", diff)
	}
	config := all[*corev1.ConfigMap](r)[0].Data["config.yaml"]
	for _, part := range []string{
		"prometheus:\n  basicAuthFile: prometheus-basic-auth\n  caFile: prometheus-ca\n  headers:\n    X-Scope-OrgID: shop\n  url: https://mimir.monitoring/prometheus\n",
		"scrape:\n  caFile: scrape-ca\n  serverName: pods.internal\n  tokenFile: scrape-token\n",
	} {
		if !strings.Contains(config, part) {
			t.Errorf("the configuration does not have\n%s\nbut\n%s", part, config)
		}
	}
	if plain := all[*corev1.ConfigMap](render(t, installations["pods"]))[0].Data["config.yaml"]; strings.Contains(plain, "prometheus") || strings.Contains(plain, "scrape") {
		t.Errorf("nobody asked for it:\n%s", plain)
	}
}

// The chart takes the values of docs/install.md.
func TestValuesInTheDocumentAreTaken(t *testing.T) {
	text, err := os.ReadFile("../../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, values, found := strings.Cut(string(text), "```yaml\n# values.yaml\n")
	if !found {
		t.Fatal("docs/install.md shows no values.yaml")
	}
	values, _, _ = strings.Cut(values, "```")
	if names := render(t, values).kinds(); !slices.Contains(names, "Deployment plimsoll") {
		t.Errorf("rendered %v", names)
	}
}

// The API server asks about pods that are created, elsewhere than in our own namespace and
// kube-system, and makes them without us when we do not answer. It reaches the port, whose
// certificate is beside the configuration.
func TestTheWebhookHoldsNoPodUp(t *testing.T) {
	r := render(t, `
components: [podscaler]
admission:
  enabled: true
  port: 9444
  tlsSecret: admission
  annotations: {cert-manager.io/inject-ca-from: plimsoll/plimsoll-admission}
  namespaceSelector: {matchLabels: {sized: "yes"}, matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [shop]}]}
  objectSelector: {matchLabels: {app: web}}
`)
	hooks := all[*admissionv1.MutatingWebhookConfiguration](r)
	if len(hooks) != 1 || len(hooks[0].Webhooks) != 1 || hooks[0].Annotations["cert-manager.io/inject-ca-from"] != "plimsoll/plimsoll-admission" {
		t.Fatalf("%+v", hooks)
	}
	w := &hooks[0].Webhooks[0]
	path, port, ignore, seconds, none, anew, scope := "/pods", int32(443), admissionv1.Ignore, int32(3), admissionv1.SideEffectClassNone, admissionv1.IfNeededReinvocationPolicy, admissionv1.NamespacedScope
	want := admissionv1.MutatingWebhook{
		Name: "pods.plimsoll.dev", AdmissionReviewVersions: []string{"v1"}, FailurePolicy: &ignore, TimeoutSeconds: &seconds, SideEffects: &none, ReinvocationPolicy: &anew,
		ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Name: "plimsoll-admission", Namespace: "plimsoll", Path: &path, Port: &port}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: &scope},
		}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"sized": "yes"}, MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", "plimsoll"}},
			{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"shop"}},
		}},
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}
	if diff := cmp.Diff(want, *w); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, s := range all[*corev1.Service](r) {
		if s.Name == "plimsoll-admission" && (len(s.Spec.Ports) != 1 || s.Spec.Ports[0].Port != 443 || s.Spec.Ports[0].TargetPort.String() != "admission") {
			t.Errorf("%+v", s.Spec.Ports)
		}
	}
	pod := podsOf(r)
	open := false
	for _, p := range pod {
		for _, c := range p.Spec.Containers {
			open = open || slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == "admission" && p.ContainerPort == 9444 })
		}
	}
	if !open {
		t.Error("the port is not open")
	}
	if text := fmt.Sprint(all[*corev1.ConfigMap](r)[0].Data); !strings.Contains(text, "admission:\n") || !strings.Contains(text, "listen: :9444") || !strings.Contains(text, "certificate: admission-tls.crt") {
		t.Errorf("%s", text)
	}
}
