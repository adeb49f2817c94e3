package rke2

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	yamlreader "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// full is the site with all that may be added to it, upstream's autoscaler deciding on machines.
var full = strings.Replace(siteText, "  max: 4", `  max: 4
  vmPool: {mode: Active, scaledBy: ClusterAutoscaler}
addons:
  prometheus: {nodePort: 30091, retention: 3d}
  plimsoll: {mode: Active, nodes: ClusterAutoscaler, image: 'registry.example/plimsoll:v9', clusterAutoscalerImage: 'registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.0'}
  openCost: {manifests: [opencost.yaml], url: 'http://10.0.0.10:30903'}
`, 1)

// withKproximate is the site with an autoscaler of machines that is not ours.
func withKproximate(w *world) {
	w.site = readSite(w.t, siteText+"addons:\n  prometheus: {}\n  plimsoll: {mode: Active}\n  kproximate: {manifests: [kproximate.yaml], prefix: kp-node}\n")
}

func withAddons(w *world) { w.site = readSite(w.t, full) }

// kindsOf are Go's types for the kinds in our add-ons. Those that are defined beside them are
// judged by the API server of the lab.
func kindsOf(kind string) runtime.Object {
	switch kind {
	case "Namespace":
		return &corev1.Namespace{}
	case "ServiceAccount":
		return &corev1.ServiceAccount{}
	case "ConfigMap":
		return &corev1.ConfigMap{}
	case "Secret":
		return &corev1.Secret{}
	case "Service":
		return &corev1.Service{}
	case "Deployment":
		return &appsv1.Deployment{}
	case "ClusterRole":
		return &rbacv1.ClusterRole{}
	case "ClusterRoleBinding":
		return &rbacv1.ClusterRoleBinding{}
	case "Role":
		return &rbacv1.Role{}
	case "RoleBinding":
		return &rbacv1.RoleBinding{}
	case "NetworkPolicy":
		return &networkingv1.NetworkPolicy{}
	case "ValidatingAdmissionPolicy":
		return &admissionv1.ValidatingAdmissionPolicy{}
	case "ValidatingAdmissionPolicyBinding":
		return &admissionv1.ValidatingAdmissionPolicyBinding{}
	}
	return nil
}

// objectsIn are the objects of a manifest, read strictly, by kind and name.
func objectsIn(t *testing.T, text string) map[string]runtime.Object {
	t.Helper()
	all := map[string]runtime.Object{}
	for r := yamlreader.NewDocumentDecoder(io.NopCloser(strings.NewReader(text))); ; {
		buffer := make([]byte, 1<<20)
		n, err := r.Read(buffer)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		var head struct {
			Kind     string
			Metadata struct{ Name string }
		}
		must.Do(t, yaml.Unmarshal(buffer[:n], &head))
		o := kindsOf(head.Kind)
		if o == nil {
			if head.Kind != "CustomResourceDefinition" && head.Kind != "VMPool" {
				t.Errorf("there is a %s, of %s", head.Kind, bytes.TrimSpace(buffer[:min(n, 80)]))
			}
			continue
		}
		if err := yaml.UnmarshalStrict(buffer[:n], o); err != nil {
			t.Errorf("%s %s: %v", head.Kind, head.Metadata.Name, err)
		}
		all[head.Kind+" "+head.Metadata.Name] = o
	}
}

// added are the objects that a site adds to its cluster, by file.
func added(t *testing.T, s *Site, c *secrets) map[string]map[string]runtime.Object {
	t.Helper()
	all := map[string]map[string]runtime.Object{}
	for path, f := range controlFiles(t, s, c) {
		if name, is := strings.CutPrefix(path, addonsFolder); is && strings.HasPrefix(name, "plimsoll-bench") {
			all[name] = objectsIn(t, f.Content)
		}
	}
	return all
}

func TestPrometheusIsAsTheSiteSays(t *testing.T) {
	s := readSite(t, full)
	objects := added(t, s, placeholders())[prometheusAddon]
	if diff := cmp.Diff([]string{
		"ClusterRole plimsoll-testbed-prometheus", "ClusterRoleBinding plimsoll-testbed-prometheus", "ConfigMap prometheus", "Deployment prometheus",
		"Namespace plimsoll-testbed", "Service prometheus", "ServiceAccount prometheus",
	}, slices.Sorted(maps.Keys(objects))); diff != "" {
		t.Fatal(diff)
	}
	service := objects["Service prometheus"].(*corev1.Service)
	if p := service.Spec.Ports[0]; service.Spec.Type != corev1.ServiceTypeNodePort || p.NodePort != 30091 || s.PrometheusURL() != "http://10.0.0.10:30091" {
		t.Errorf("%+v, and it is looked for at %s", service.Spec, s.PrometheusURL())
	}
	pod := objects["Deployment prometheus"].(*appsv1.Deployment).Spec.Template
	for key, value := range service.Spec.Selector {
		if pod.Labels[key] != value {
			t.Errorf("the Service looks for %s=%s, and the pod has %v", key, value, pod.Labels)
		}
	}
	if c := pod.Spec.Containers[0]; c.Image != usualPrometheus || !slices.Contains(c.Args, "--storage.tsdb.retention.time=3d") {
		t.Errorf("%+v", c)
	}
	tolerated := map[string]bool{}
	for _, toleration := range pod.Spec.Tolerations {
		tolerated[toleration.Key] = true
	}
	if !tolerated[controlTaint] || !tolerated[loadLabel] {
		t.Errorf("it tolerates %v", tolerated)
	}
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	var places []string
	for _, term := range terms {
		places = append(places, term.MatchExpressions[0].Key)
	}
	if diff := cmp.Diff([]string{controlTaint, loadLabel}, places); diff != "" {
		t.Error("workers are not left free:", diff)
	}
	if readSite(t, siteText).PrometheusURL() != "" {
		t.Error("there is a Prometheus where the site has none")
	}
}

// Plimsoll finds the Proxmox VE that the site names, with the token that is made for it, and
// decides on what the VMPool says.
func TestPlimsollIsInstalledForTheSite(t *testing.T) {
	text := strings.Replace(full, "insecure: true", "caFile: ca.pem", 1)
	s := readSite(t, text)
	c := must.Get(newSecrets(someday))(t)
	c.Proxmox = "root@pam!plimsoll-bench=s3cret"
	all := added(t, s, c)
	if diff := cmp.Diff([]string{autoscalerAddon, kindsAddon, plimsollAddon, prometheusAddon, secretAddon, poolAddon}, slices.Sorted(maps.Keys(all))); diff != "" {
		t.Fatal(diff)
	}
	product := all[plimsollAddon]
	var config map[string]any
	must.Do(t, yaml.Unmarshal([]byte(product["ConfigMap plimsoll"].(*corev1.ConfigMap).Data["config.yaml"]), &config))
	if diff := cmp.Diff(map[string]any{
		"owner": "bench", "adoptUnmarked": true, "endpoints": []any{"https://pve1:8006"}, "tokenFile": "token", "caFile": "proxmox-ca.crt",
		"mode": "Active", "metrics": ":8080", "state": "kubernetes",
		"provider": map[string]any{"listen": ":8086", "expander": ":8087", "tls": map[string]any{
			"certificate": "provider-tls.crt", "key": "provider-tls.key", "clientCA": "provider-ca.crt", "clients": []any{"cluster-autoscaler"},
		}},
	}, config); diff != "" {
		t.Error(diff)
	}
	pod := product["Deployment plimsoll"].(*appsv1.Deployment).Spec.Template.Spec
	if container := pod.Containers[0]; container.Image != "registry.example/plimsoll:v9" || !slices.Contains(container.Args, "--components=podscaler,provider") {
		t.Errorf("%+v", container)
	}
	secrets := all[secretAddon]
	held := secrets["Secret "+productSecret].(*corev1.Secret).StringData
	for _, key := range []string{"tokenFile", "caFile"} {
		if name, _ := config[key].(string); held[name] == "" {
			t.Errorf("%s is %q, which is not in the secret", key, name)
		}
	}
	if _, again := secrets["Namespace plimsoll"]; again || product["Namespace plimsoll"] == nil {
		t.Error("the namespace is in no file or in two, which would take turns with it")
	}
	upstream := all[autoscalerAddon]["Deployment cluster-autoscaler"].(*appsv1.Deployment)
	if upstream.Spec.Template.Spec.Containers[0].Image != "registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.0" {
		t.Errorf("%+v", upstream.Spec.Template.Spec.Containers[0])
	}
	for _, v := range upstream.Spec.Template.Spec.Volumes {
		if v.Secret != nil && secrets["Secret "+v.Secret.SecretName] == nil {
			t.Errorf("it looks for the secret %s, which is not made", v.Secret.SecretName)
		}
	}
	trusting(t, secrets["Secret "+providerSecret].(*corev1.Secret), secrets["Secret plimsoll-provider-client"].(*corev1.Secret))
}

// trusting wants the two who hold the secrets to trust one another by the name that
// cluster-autoscaler calls.
func trusting(t *testing.T, server, client *corev1.Secret) {
	t.Helper()
	if server.Namespace != productNamespace || client.Namespace != "kube-system" {
		t.Errorf("they are in %s and %s", server.Namespace, client.Namespace)
	}
	for _, c := range []struct {
		of, by *corev1.Secret
		how    x509.VerifyOptions
	}{
		{server, client, x509.VerifyOptions{DNSName: "plimsoll.plimsoll.svc", KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}},
		{client, server, x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}},
	} {
		pair := must.Get(tls.X509KeyPair([]byte(c.of.StringData["tls.crt"]), []byte(c.of.StringData["tls.key"])))(t)
		c.how.Roots, c.how.CurrentTime = x509.NewCertPool(), someday
		if !c.how.Roots.AppendCertsFromPEM([]byte(c.by.StringData["ca.crt"])) {
			t.Fatal("there is no authority")
		}
		if _, err := pair.Leaf.Verify(c.how); err != nil {
			t.Errorf("%s: %v", c.of.Name, err)
		}
	}
}

// In either mode by itself, there is neither the provider nor cluster-autoscaler.
func TestPlimsollByItselfDecidesOnMachines(t *testing.T) {
	for mode, acts := range map[string]bool{"Active": true, "Recommend": false} {
		all := added(t, readSite(t, siteText+"addons: {plimsoll: {mode: "+mode+"}}\n"), placeholders())
		if diff := cmp.Diff([]string{kindsAddon, plimsollAddon, secretAddon}, slices.Sorted(maps.Keys(all))); diff != "" {
			t.Error(mode, diff)
		}
		if may := all[plimsollAddon]["ClusterRole plimsoll-act"] != nil; may != acts {
			t.Errorf("%s: it may act: %v", mode, may)
		}
		config := all[plimsollAddon]["ConfigMap plimsoll"].(*corev1.ConfigMap).Data["config.yaml"]
		if !strings.Contains(config, "mode: "+mode+"\n") || !strings.Contains(config, "insecure: true\n") || strings.Contains(config, "provider") {
			t.Errorf("%s: %s", mode, config)
		}
		if len(all[secretAddon]) != 1 {
			t.Errorf("%s: %v", mode, slices.Sorted(maps.Keys(all[secretAddon])))
		}
	}
}

func TestFilesOfAddonsAreReadAndToldByTheirKeys(t *testing.T) {
	s := readSite(t, full)
	if s.manifests["opencost.yaml"] == nil || s.manifests["prometheus.yaml"] == nil {
		t.Errorf("%v", slices.Sorted(maps.Keys(s.manifests)))
	}
	s.Addons.Kproximate = &Kproximate{Manifests: []string{"other/opencost.yaml", "gone.yaml"}}
	s.CAFile = "gone.pem"
	err := s.Read(func(name string) ([]byte, error) {
		if strings.HasPrefix(name, "gone") {
			return nil, errors.New("it is not there")
		}
		return []byte("kind: List\n"), nil
	})
	for _, want := range []string{
		`addons.kproximate.manifests[0]: must have a name that no other has, was "opencost.yaml"`, "addons.kproximate.manifests[1]: must be a file that can be read", "caFile: must be a file",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// A plan has every file of every add-on in it, and what is added fits onto the disc.
func TestPlanHasTheAddons(t *testing.T) {
	for name, prepare := range map[string]func(*world){"all": withAddons, "kproximate": withKproximate} {
		t.Run(name, func(t *testing.T) {
			plannedAsDone(t, prepare)
			w := newWorld(t)
			t.Cleanup(w.sim.Close)
			prepare(w)
			plan := w.planned()
			var files []string
			for _, f := range plan.Discs[0].Guest {
				if file, is := strings.CutPrefix(f.Name, addonsFolder); is {
					files = append(files, file)
				}
			}
			want := []string{"opencost.yaml", autoscalerAddon, kindsAddon, plimsollAddon, prometheusAddon, secretAddon, poolAddon, "prometheus.yaml"}
			if name == "kproximate" {
				want = []string{"kproximate.yaml", kindsAddon, plimsollAddon, prometheusAddon, secretAddon, "prometheus.yaml"}
			}
			if diff := cmp.Diff(want, files); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUpAndDownWithAddonsGoOnWhereverTheyDied(t *testing.T) {
	race.Skip(t)
	for name, prepare := range map[string]func(*world){"all": withAddons, "kproximate": withKproximate} {
		t.Run(name, func(t *testing.T) {
			eachDeath(t, prepare, (*world).up, (*world).upAgainAndDown)
		})
	}
}

// A test bed of a time when fewer secrets were made goes on with those that it has.
func TestSecretsThatAreMissingAreMadeAndTheOthersKept(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(w.sim.Close)
	w.mustUp()
	b := must.Get(w.bench())(t)
	before := *b.secrets
	b.secrets.Provider = mutual{}
	must.Do(t, b.keepSecrets(b.secrets))
	withAddons(w)
	w.mustUp()
	b = must.Get(w.bench())(t)
	if b.secrets.Provider.CA == "" {
		t.Error("they are not made")
	}
	after := *b.secrets
	after.Provider = before.Provider
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}

// itsMachine has the name that kproximate gives.
const itsMachine = "kp-node-0b6c2f0e-7d4f-4f6e-9a53-3c1d2e4f5a6b"

// stray puts a machine of kproximate's there: of no pool, and without a mark.
func (w *world) stray(id string) {
	w.t.Helper()
	must.Do(w.t, w.sim.Console().Run("pvesh create /nodes/pve2/qemu --vmid "+id+" --name "+itsMachine+" --memory 512"))
	w.sim.Advance(time.Minute)
}

func (w *world) there(id int) bool {
	return slices.ContainsFunc(w.sim.Inventory().VMs, func(m pvesim.VMState) bool { return m.ID == id })
}

// Machines of kproximate are reported and not touched, when all else is gone; without them, down
// comes to its end.
func TestKproximatesMachinesAreReportedAndNotTouched(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(w.sim.Close)
	withKproximate(w)
	w.mustUp()
	w.stray("9001")
	if err := w.up(); err != nil {
		t.Fatal("up again, with machines of the kproximate that runs there:", err)
	}
	for range 2 {
		err := w.down()
		var f *Fault
		if !errors.As(err, &f) || f.Field != "addons.kproximate.prefix" || !strings.Contains(f.Text, "9001 on pve2 "+itsMachine) || !strings.Contains(f.Mend[0], "qm destroy 9001") {
			t.Fatalf("down says %v", err)
		}
		if !w.there(9001) || !w.there(300) {
			t.Fatal("it was destroyed")
		}
	}
	if left := slices.DeleteFunc(w.left(), func(what string) bool { return strings.HasPrefix(what, "file ") }); !slices.Equal(left, []string{"machine 9001 " + itsMachine}) {
		t.Errorf("this is left: %q", left)
	}
	must.Do(t, w.sim.Console().Run("pvesh delete /nodes/pve2/qemu/9001"))
	w.downWithoutTrace()
}

// Where a machine has a name by which kproximate would take it for its own, none is let at it.
func TestNamesThatKproximateWouldTakeAreRefused(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(w.sim.Close)
	withKproximate(w)
	w.stray("9001")
	before := writes(w)
	err := w.up()
	var f *Fault
	if !errors.As(err, &f) || f.Field != "addons.kproximate.prefix" || !strings.Contains(f.Text, itsMachine) {
		t.Errorf("up says %v", err)
	}
	if writes(w) != before {
		t.Error("something was made")
	}
	w.site.Addons.Kproximate.Prefix = "kp"
	if err := w.up(); err != nil {
		t.Error("with another prefix:", err)
	}
}
