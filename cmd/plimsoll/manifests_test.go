package main

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// With any flags, the manifests are what Kubernetes takes, down to the last field.
func TestClusterAutoscalerManifestsAreTakenByKubernetes(t *testing.T) {
	for _, flags := range [][]string{nil, {"--capacity-buffers", "--expander", "random", "--address", "[fd00::5]:9000"}, {"--expander", "price", "--namespace", "true", "--tls-secret", "1e3", "--image", "12", "--address", "[fd00::5]:9000"}} {
		var out bytes.Buffer
		env := &cli.Env{Args: append([]string{"manifests", "cluster-autoscaler"}, flags...), Stdout: &out, Stderr: io.Discard}
		if code := run(context.Background(), env); code != cli.ExitDone {
			t.Fatalf("%v: exit %d", flags, code)
		}
		var kinds []string
		for _, text := range strings.Split(out.String(), "\n---\n") {
			var head struct{ Kind string }
			must.Do(t, yaml.Unmarshal([]byte(text), &head))
			into := map[string]any{
				"ServiceAccount": &corev1.ServiceAccount{}, "ConfigMap": &corev1.ConfigMap{}, "Deployment": &appsv1.Deployment{},
				"ClusterRole": &rbacv1.ClusterRole{}, "ClusterRoleBinding": &rbacv1.ClusterRoleBinding{},
				"Role": &rbacv1.Role{}, "RoleBinding": &rbacv1.RoleBinding{},
			}[head.Kind]
			if err := sigsyaml.UnmarshalStrict([]byte(text), into); err != nil {
				t.Errorf("%s: %v", head.Kind, err)
			}
			kinds = append(kinds, head.Kind)
			switch o := into.(type) {
			case *corev1.ConfigMap:
				checkCloudConfig(t, o, flags)
			case *appsv1.Deployment:
				command := o.Spec.Template.Spec.Containers[0].Command
				if got, want := slices.Contains(command, "--expander=grpc"), flags == nil; got != want {
					t.Errorf("%v: %v", flags, command)
				}
				if got, want := slices.Contains(command, "--capacity-buffer-pod-injection-enabled=true"), slices.Contains(flags, "--capacity-buffers"); got != want {
					t.Errorf("%v: %v", flags, command)
				}
			case *rbacv1.ClusterRole:
				checkRights(t, o.Rules, slices.Contains(flags, "--capacity-buffers"))
			}
		}
		want := []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ConfigMap", "Deployment"}
		if !slices.Equal(kinds, want) {
			t.Errorf("kinds %v, want %v", kinds, want)
		}
	}
}

// The expander is asked at the provider's host, at a port of its own, unless another address is
// said.
func TestExpanderIsAskedWhereItIsServed(t *testing.T) {
	for want, flags := range map[string][]string{
		"plimsoll.plimsoll.svc:8087": nil,
		"[fd00::5]:8087":             {"--address", "[fd00::5]:9000"},
		"asks.lab:1":                 {"--address", "plimsoll.lab:9000", "--expander-address", "asks.lab:1"},
	} {
		stdout, stderr, code := inProcess(t, nil, append([]string{"manifests", "cluster-autoscaler"}, flags...)...)
		if code != cli.ExitDone || !strings.Contains(stdout, "            - --grpc-expander-url="+want+"\n") {
			t.Errorf("%v: exit %d, %s%s", flags, code, stderr, stdout)
		}
	}
}

// The last machine of the largest order waits for the clones of all others, and is not given up.
func TestProvisionTimeAllowsForTheQueueOfClones(t *testing.T) {
	pools := "apiVersion: plimsoll.dev/v1alpha1\nkind: VMPool\nmetadata: {name: web}\nspec: {shapes: [{name: small, cpu: 2, memory: 4GiB}], max: 60, " +
		"template: {vmid: 9000}, pvePool: k8s, vmids: {first: 5000, last: 5199}, join: {kind: custom, providerID: {scheme: uuid}}}\n"
	for want, flags := range map[string][]string{
		"25m":    nil,
		"1h15m":  {"--pools", "vmpools.yaml"},
		"17m":    {"--machines", "12", "--clone-time", "20s"},
		"15m50s": {"--machines", "9", "--clones-per-storage", "2", "--clone-time", "10s"},
	} {
		stdout, stderr, code := inProcess(t, fstest.MapFS{"vmpools.yaml": {Data: []byte(pools)}}, append([]string{"manifests", "cluster-autoscaler"}, flags...)...)
		if code != cli.ExitDone || !strings.Contains(stdout, "            - --max-node-provision-time="+want+"\n") {
			t.Errorf("%v: exit %d, want %s: %s%s", flags, code, want, stderr, stdout)
		}
	}
	for image, want := range map[string]bool{"cluster-autoscaler:v1.36.1": true, "cluster-autoscaler:v1.30.7": false, "cluster-autoscaler@sha256:ab": false} {
		stdout, _, _ := inProcess(t, nil, "manifests", "cluster-autoscaler", "--image", image)
		if got := strings.Contains(stdout, "- --frequent-loops-enabled=true"); got != want {
			t.Errorf("%s: frequent loops %v, want %v", image, got, want)
		}
	}
}

// checkCloudConfig reads the file as cluster-autoscaler does.
func checkCloudConfig(t *testing.T, m *corev1.ConfigMap, flags []string) {
	t.Helper()
	var got struct {
		Address string `json:"address"`
		Key     string `json:"key"`
		Cert    string `json:"cert"`
		CACert  string `json:"cacert"`
		Timeout string `json:"grpc_timeout"`
	}
	must.Do(t, sigsyaml.UnmarshalStrict([]byte(m.Data["cloud-config.yaml"]), &got))
	want := "plimsoll.plimsoll.svc:8086"
	if flags != nil {
		want = "[fd00::5]:9000"
	}
	if got.Address != want || got.Timeout != "10s" || got.Cert == "" || got.Key == "" || got.CACert == "" {
		t.Errorf("cloud-config %+v", got)
	}
}

// checkRights wants what releases 1.30 to 1.37 read of the whole cluster with any flags, and
// nothing that changes more than they do: without one of these they log errors for ever, or do
// nothing. For CapacityBuffers they read more, and keep pod templates.
func checkRights(t *testing.T, rules []rbacv1.PolicyRule, buffers bool) {
	t.Helper()
	got := map[string]string{}
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				verbs := slices.Clone(r.Verbs)
				slices.Sort(verbs)
				key := group + "/" + resource
				verbs = append(verbs, strings.Fields(got[key])...)
				slices.Sort(verbs)
				got[key] = strings.Join(slices.Compact(verbs), " ")
			}
		}
	}
	want := map[string]string{
		"/events": "create patch", "/pods/eviction": "create", "/pods/status": "update", "/nodes": "get list update watch",
		"policy/poddisruptionbudgets": "list watch",
	}
	for _, read := range strings.Fields(`/namespaces /pods /services /replicationcontrollers /persistentvolumeclaims
		/persistentvolumes apps/daemonsets apps/replicasets apps/statefulsets batch/jobs batch/cronjobs
		storage.k8s.io/storageclasses storage.k8s.io/csinodes storage.k8s.io/csidrivers storage.k8s.io/csistoragecapacities
		storage.k8s.io/volumeattachments resource.k8s.io/resourceclaims resource.k8s.io/resourceslices resource.k8s.io/deviceclasses`) {
		want[read] = "get list watch"
	}
	if buffers {
		want["/pods"] = "create get list watch" // a dry run
		want["autoscaling.x-k8s.io/capacitybuffers"], want["autoscaling.x-k8s.io/capacitybuffers/status"] = "get list watch", "patch update"
		want["/resourcequotas"], want["apps/deployments"], want["/podtemplates"] = "get list watch", "get list watch", "create get list update watch"
		want["apps/deployments/scale"], want["apps/replicasets/scale"], want["apps/statefulsets/scale"] = "get", "get", "get"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights, -want +got:\n%s", diff)
	}
}

// Servers of RKE2 and k3s may be tainted so that only what is critical runs there.
func TestAutoscalerRunsOnServersForCriticalAddons(t *testing.T) {
	stdout, _, _ := inProcess(t, nil, "manifests", "cluster-autoscaler")
	if !strings.Contains(stdout, "        - key: CriticalAddonsOnly\n          operator: Exists\n") {
		t.Errorf("the taint is not tolerated in\n%s", stdout)
	}
}

// The NetworkPolicy names the usual namespace. In another one, calls would time out without a word.
func TestAnotherNamespaceIsNamedInANote(t *testing.T) {
	_, stderr, _ := inProcess(t, nil, "manifests", "cluster-autoscaler", "--namespace", "autoscaling")
	if want := `networkPolicy.providerFrom of the chart to [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "autoscaling"}}`; !strings.Contains(stderr, want) {
		t.Errorf("%q is not in %q", want, stderr)
	}
	if _, stderr, _ := inProcess(t, nil, "manifests", "cluster-autoscaler", "--namespace", "kube-system"); stderr != "" {
		t.Errorf("in the usual namespace: %q", stderr)
	}
}

func TestManifestsAreRefusedWithFlagRuleAndValue(t *testing.T) {
	for _, c := range []struct{ flag, value, want string }{
		{"--namespace", "a.b", `must be a name of at most 63 lower-case letters, digits and '-', was "a.b"`},
		{"--namespace", "", "must be"},
		{"--tls-secret", "a..b", "must be a name"},
		{"--address", "plimsoll", "must be host:port"},
		{"--address", "fd00::5:9000", "must be host:port"},
		{"--address", "plimsoll:0", "must be host:port"},
		{"--expander-address", "plimsoll", "must be host:port"},
		{"--expander", "cheapest", "must be one of grpc, price"},
		{"--grpc-timeout", "100ms", "must be 1s or more"},
		{"--image", "a\n- b", "must be an image"},
	} {
		_, stderr, code := inProcess(t, nil, "manifests", "cluster-autoscaler", c.flag, c.value)
		if code != cli.ExitUsage || !strings.Contains(stderr, c.flag) || !strings.Contains(stderr, c.want) {
			t.Errorf("%s %q: exit %d, %s", c.flag, c.value, code, stderr)
		}
	}
	if _, stderr, code := inProcess(t, nil, "manifests", "cluster-autoscaler", "more"); code != cli.ExitUsage {
		t.Errorf("an argument: exit %d, %s", code, stderr)
	}
}

// What a stopped machine's disk costs is nothing to OpenCost, and the notes say that it is omitted.
func TestOpenCostNotesSayWhichDisksItDoesNotSee(t *testing.T) {
	const book = "{currency: EUR, pricePerVCPUHour: 1, pricePerGiBHour: 1}"
	files := fstest.MapFS{"plain.yaml": {Data: []byte(book)}, "disks.yaml": {Data: []byte(strings.Replace(book, "{", "{pricePerDiskGBHour: 0.5, ", 1))}}
	for file, want := range map[string]string{
		"plain.yaml": "", "disks.yaml": "note: disks.yaml: pricePerDiskGBHour is omitted: it is of machines that are stopped, which OpenCost does not see\n",
	} {
		stdout, stderr, code := inProcess(t, files, "manifests", "opencost", "--prices", file)
		if code != cli.ExitDone || stderr != want || !strings.Contains(stdout, `"storage": "0"`) {
			t.Errorf("%s: exit %d, %q, want %q", file, code, stderr, want)
		}
	}
}
