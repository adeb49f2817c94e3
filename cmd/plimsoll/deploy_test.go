package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/costs"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/operator"
	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/grpc/provider"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// someSite is a file that the chart could have made.
var someSite = fstest.MapFS{
	"config.yaml": {Data: []byte("{owner: home, endpoints: ['https://127.0.0.1:1'], tokenFile: token, insecure: true, state: kubernetes, namespace: plimsoll}")},
	"token":       {Data: []byte("plimsoll@pve!plimsoll=00000000-0000-0000-0000-000000000000\n")},
}

func someEnv(files fstest.MapFS) *cli.Env {
	return &cli.Env{
		Stdout: &strings.Builder{}, Stderr: &strings.Builder{}, Getenv: func(string) string { return "" },
		ReadFile: files.ReadFile, Stat: files.Stat, Now: time.Now,
	}
}

// everything is a registry with all series that any part of the program registers.
func everything(t *testing.T) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewRegistry()
	must.Get(operator.NewMetrics(registry))(t)
	must.Do(t, registry.Register(buildInfo()))
	must.Do(t, registry.Register(costs.NewExporter()))
	running := must.Get(readRunning(someEnv(someSite), "config.yaml", components))(t)
	site := must.Get(running.machines(registry))(t)
	site.client.Close()
	server := must.Get(provider.New(provider.Config{Machines: noMachines{}}))(t)
	door := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	over, cancel := context.WithCancel(t.Context())
	cancel() // it registers, and ends
	must.Do(t, server.Serve(over, door, provider.Listening{Metrics: registry}))
	return registry
}

type noMachines struct{ loop.Machines }

func (noMachines) List(context.Context) (loop.MachineState, error) { return loop.MachineState{}, nil }

// The list that dashboards and alerts are checked against is the one of the series that there are.
func TestCatalogueListsWhatIsExported(t *testing.T) {
	const file = "../../deploy/metrics.txt"
	text := must.Get(os.ReadFile(file))(t)
	types := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if kind, rest, ok := strings.Cut(line, " "); ok {
			name, _, _ := strings.Cut(rest, "{")
			types[name] = kind
		}
	}
	registry := everything(t)
	var want []string
	for name, line := range describe(t, registry) {
		want = append(want, types[name]+" "+line)
	}
	slices.SortFunc(want, func(a, b string) int { return strings.Compare(a[strings.Index(a, " "):], b[strings.Index(b, " "):]) })
	if got := strings.Join(want, ""); *update {
		must.Do(t, os.WriteFile(file, []byte(got), 0o644))
	} else if diff := cmp.Diff(got, string(text)); diff != "" {
		t.Errorf("%s, -exported +listed (go test -run %s -update writes what it can, and leaves the types to you):\n%s", file, t.Name(), diff)
	}
	families := must.Get(registry.Gather())(t)
	for _, f := range families {
		if kind := strings.ToLower(f.GetType().String()); strings.HasPrefix(f.GetName(), "plimsoll_") && types[f.GetName()] != kind {
			t.Errorf("%s is a %s, listed as %s", f.GetName(), kind, types[f.GetName()])
		}
	}
}

var described = regexp.MustCompile(`fqName: "([^"]+)", help: "([^"]*)".* variableLabels: \{([^}]*)\}`)

// describe are all series by name, each as name{labels}: help.
func describe(t *testing.T, registry *prometheus.Registry) map[string]string {
	t.Helper()
	descs := make(chan *prometheus.Desc, 1000)
	registry.Describe(descs)
	close(descs)
	all := map[string]string{}
	for d := range descs {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("cannot read %s", d)
		}
		all[m[1]] = fmt.Sprintf("%s{%s}: %s\n", m[1], m[3], m[2])
	}
	return all
}

// What alerts and dashboards match on by value are values that the program writes.
func TestAlertsAndDashboardsMatchValuesThatThereAre(t *testing.T) {
	known := map[string][]string{
		"type": {
			v1alpha1.ConditionReady, v1alpha1.ConditionScalingActive, v1alpha1.ConditionAbleToScale, v1alpha1.ConditionScalingLimited,
			v1alpha1.ConditionMetricsHealthy, v1alpha1.ConditionConflicted, v1alpha1.ConditionPaused, v1alpha1.ConditionBraked, v1alpha1.ConditionSLOAtRisk,
			v1alpha1.ConditionBudgetExceeded, v1alpha1.ConditionCapacityPending, v1alpha1.ConditionCostSourceMismatch,
		},
		"code": {
			loop.CodeClusterUnknown, loop.CodeMachinesUnknown,
			pvecode.Quarantined, pvecode.Vanished, pvecode.IDMismatch, pvecode.Braked, nodescaler.NodeContradicts, nodescaler.DuplicateNode, pvecode.NoQuorum, pvecode.PermissionsShrunk, pvecode.InventoryEmpty,
		},
		"phase":     {string(nodescaler.Failed), string(nodescaler.Joined), string(nodescaler.Ordered), string(nodescaler.Booting)},
		"kind":      {v1alpha1.KindWorkloadAutoscaler, v1alpha1.KindVMPool, string(nodescaler.Evict)},
		"reason":    append(nodescaler.UnplacedCodes(), nodescaler.LocalVolume),
		"result":    {"done", "failed", "held"},
		"direction": {"none", "up", "down"},
		"bound":     {"min", "max"},
		"status":    {"0", "5.."},
		"part":      {"late", "left"},
		"window":    {"5m", "30m", "1h", "6h", "72h"},
		"stage":     {string(pve.StageAll)},
	}
	for _, file := range []string{"alerts.yaml", "dashboards/plimsoll.json"} {
		text := must.Get(os.ReadFile("../../deploy/charts/plimsoll/files/" + file))(t)
		matches := regexp.MustCompile(`[{, ](\w+)(?:=|!=|=~)\\?"([\w.|]+)\\?"`).FindAllStringSubmatch(string(text), -1)
		if len(matches) == 0 {
			t.Fatalf("%s matches nothing", file)
		}
		for _, m := range matches {
			for _, value := range strings.Split(m[2], "|") {
				if !slices.Contains(known[m[1]], value) {
					t.Errorf("%s matches %s by %q, which nobody writes", file, m[1], value)
				}
			}
		}
	}
}

// The configuration file that the manifests hold is one that the program reads.
func TestManifestsHoldAConfigurationThatIsRead(t *testing.T) {
	for _, mode := range []string{"recommend", "active"} {
		text := configIn(t, mode)
		files := fstest.MapFS{
			"config.yaml": {Data: []byte(strings.NewReplacer("OWNER", "home", "https://PROXMOX", "https://pve1.example").Replace(text))},
			"token":       someSite["token"],
		}
		env := someEnv(files)
		env.Getenv = func(key string) string { return map[string]string{"POD_NAMESPACE": "plimsoll"}[key] }
		got, err := readRunning(env, "config.yaml", []string{partPodScaler, partNodeScaler})
		if err != nil {
			t.Errorf("%s: %v\n%s", mode, err, text)
			continue
		}
		if !strings.EqualFold(string(got.Mode), mode) || got.State != stateInCluster || got.Metrics != ":8080" {
			t.Errorf("%s: mode %s, state %s, metrics %s", mode, got.Mode, got.State, got.Metrics)
		}
	}
}

// configIn is the configuration file in a manifest.
func configIn(t *testing.T, mode string) string {
	t.Helper()
	text := must.Get(deploy.Manifests.ReadFile("manifests/" + mode + ".yaml"))(t)
	for _, document := range strings.Split(string(text), "\n---\n") {
		var m corev1.ConfigMap
		if err := yaml.Unmarshal([]byte(document), &m); err == nil && m.Kind == "ConfigMap" {
			return m.Data["config.yaml"]
		}
	}
	t.Fatalf("%s.yaml has no ConfigMap", mode)
	return ""
}

// What is installed without Helm is the chart's render, with the file that was given, as the pod
// needs it.
func TestInstallPrintsTheRenderWithTheFile(t *testing.T) {
	const file = `{owner: home, endpoints: ["https://pve1.example:8006"], tokenFile: token, insecure: true,
		state: /var/lib/plimsoll, mode: Active, kubeconfig: /etc/kubernetes/admin.conf, interval: 20s}`
	files := fstest.MapFS{"site.yaml": {Data: []byte(file)}}
	stdout, stderr, code := inProcess(t, files, "manifests", "install", "--config", "site.yaml", "--image", "registry.example/plimsoll:v9", "--crds=false")
	if code != cli.ExitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	notes := "note: site.yaml: mode is Recommend in these manifests, and not Active\nnote: site.yaml: state is kubernetes in these manifests, and not /var/lib/plimsoll\n" +
		"note: site.yaml: kubeconfig is omitted, for the pod has an account of its own\n" +
		"note: --image names registry.example/plimsoll:v9 by a tag: whoever may push there gets the API token; name the digest, as in registry.example/plimsoll@sha256:...\n"
	if diff := cmp.Diff(notes, stderr); diff != "" {
		t.Errorf("what gives way, -want +got:\n%s", diff)
	}
	render := must.Get(deploy.Manifests.ReadFile("manifests/recommend.yaml"))(t)
	got, want := strings.Split(stdout, "\n"), strings.Split(string(render), "\n")
	lacks := func(all, of []string) (lines []string) {
		for _, line := range of {
			if !slices.Contains(all, line) {
				lines = append(lines, regexp.MustCompile("[0-9a-f]{64}").ReplaceAllString(line, "SUM"))
			}
		}
		return lines
	}
	diff := cmp.Diff([][]string{
		{"    insecure: true", "    interval: 20s", "    - https://pve1.example:8006", "    owner: home", "        checksum/config: SUM", `          image: "registry.example/plimsoll:v9"`},
		{"    - https://PROXMOX:8006", "    owner: OWNER", "        checksum/config: SUM", `          image: "plimsoll.invalid/plimsoll:v0.1.0"`},
	}, [][]string{lacks(want, got), lacks(got, want)}, cmpopts.SortSlices(strings.Compare))
	if diff != "" {
		t.Errorf("lines of its own and lines that it lacks, -want +got:\n%s", diff)
	}
	for _, text := range []string{"mode: Recommend", "state: kubernetes", `metrics: :8080`} {
		if !strings.Contains(stdout, "    "+text+"\n") {
			t.Errorf("the configuration lacks %q", text)
		}
	}

	with, _, _ := inProcess(t, files, "manifests", "install", "--config", "site.yaml", "--mode", "Active")
	kinds, _, _ := inProcess(t, nil, "manifests", "crds")
	if !strings.Contains(with, kinds[len("---\n"):]) || strings.Count(kinds, "\nkind: CustomResourceDefinition\n") != 4 {
		t.Error("the kinds are not printed")
	}
	if !strings.Contains(with, "name: plimsoll-act\n") || !strings.Contains(with, "    mode: Active\n") {
		t.Error("mode active gives no right to act")
	}
}

// The rights on pods can be narrowed and taken away, and the policies be left to another owner's.
func TestInstallNarrowsWhatMayBePatched(t *testing.T) {
	files := fstest.MapFS{"site.yaml": {Data: []byte(`{owner: home, endpoints: ["https://pve1.example:8006"], tokenFile: token, insecure: true}`)}}
	for _, c := range []struct {
		flags    string
		pods     int // rules by which pods are patched
		policies []string
		says     string
	}{
		{"", 1, []string{"plimsoll-pods", "plimsoll-resize", "plimsoll-nodes"}, ""},
		{"--deletion-costs=all", 1, []string{"plimsoll-pods", "plimsoll-resize", "plimsoll-nodes"}, ""},
		{"--deletion-costs=none", 0, []string{"plimsoll-resize", "plimsoll-nodes"}, ""},
		{"--deletion-costs=shop,web", 2, []string{"plimsoll-pods", "plimsoll-resize", "plimsoll-nodes"}, "  name: plimsoll-pods\n  namespace: \"shop\"\n"},
		{"--admission-policies=false", 1, nil, ""},
	} {
		args := append([]string{"manifests", "install", "--config", "site.yaml", "--crds=false", "--mode", "active"}, strings.Fields(c.flags)...)
		stdout, stderr, code := inProcess(t, files, args...)
		if code != cli.ExitDone {
			t.Fatalf("%s: exit %d: %s", c.flags, code, stderr)
		}
		rules := regexp.MustCompile(`resources: \[pods\]\n    verbs: \[patch\]`).FindAllString(stdout, -1)
		if len(rules) != c.pods || !strings.Contains(stdout, c.says) {
			t.Errorf("%s: %d rules, want %d, and %q in\n%s", c.flags, len(rules), c.pods, c.says, stdout)
		}
		var policies, bound []string
		for _, document := range strings.Split(stdout, "\n---\n") {
			var o struct {
				Kind     string
				Metadata struct{ Name string }
			}
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				t.Fatalf("%s: %v in\n%s", c.flags, err, document)
			}
			switch o.Kind {
			case "ValidatingAdmissionPolicy":
				policies = append(policies, o.Metadata.Name)
			case "ValidatingAdmissionPolicyBinding":
				bound = append(bound, o.Metadata.Name)
			}
		}
		slices.Sort(bound)
		sorted := slices.Sorted(slices.Values(c.policies))
		if !slices.Equal(policies, c.policies) || !slices.Equal(bound, sorted) {
			t.Errorf("%s: policies %v, bound %v, want %v", c.flags, policies, bound, c.policies)
		}
	}
	for _, flags := range []string{"--deletion-costs=none", "--admission-policies=false", "--mode active --deletion-costs=a.b", "--mode active --deletion-costs=shop,"} {
		if _, stderr, code := inProcess(t, files, append([]string{"manifests", "install", "--config", "site.yaml"}, strings.Fields(flags)...)...); code != cli.ExitUsage {
			t.Errorf("%s: exit %d: %s", flags, code, stderr)
		}
	}
}

// Whoever can change what the image's name means gets the API token, so what is not safe is said.
func TestInstallSaysWhatTheImageIs(t *testing.T) {
	files := fstest.MapFS{"site.yaml": {Data: []byte(`{owner: home, endpoints: ["https://pve1.example:8006"], tokenFile: token, insecure: true}`)}}
	digest := "@sha256:" + strings.Repeat("0", 64)
	for image, want := range map[string]string{
		"":                                      "note: no registry has the image plimsoll.invalid/plimsoll:v0.1.0: ",
		"registry.example:5000/plimsoll:v9":     "note: --image names registry.example:5000/plimsoll:v9 by a tag: whoever may push there gets the API token; name the digest, as in registry.example:5000/plimsoll@sha256:...\n",
		"registry.example/plimsoll" + digest:    "",
		"registry.example/plimsoll:v9" + digest: "",
	} {
		args := []string{"manifests", "install", "--config", "site.yaml"}
		if image != "" {
			args = append(args, "--image", image)
		}
		if _, stderr, code := inProcess(t, files, args...); code != cli.ExitDone || !strings.HasPrefix(stderr, want) || want == "" && stderr != "" {
			t.Errorf("%s: exit %d, said %q, want %q", image, code, stderr, want)
		}
	}
}

// With cluster-autoscaler deciding on machines, the provider is what runs, its Service and its
// certificates are there, and the file's options for it are kept.
func TestInstallBesideClusterAutoscaler(t *testing.T) {
	const file = `{owner: home, endpoints: ["https://pve1.example:8006"], tokenFile: token, insecure: true,
		provider: {options: {workers: {scaleDownUnneededTime: 3m}}}}`
	files := fstest.MapFS{"site.yaml": {Data: []byte(file)}}
	stdout, stderr, code := inProcess(t, files, "manifests", "install", "--config", "site.yaml", "--mode", "active", "--nodes", "cluster-autoscaler", "--crds=false")
	if code != cli.ExitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, text := range []string{
		"            - --components=podscaler,provider\n", "secret:\n                  name: plimsoll-provider\n", "  name: plimsoll\n  namespace: plimsoll\n",
		"    provider:\n      expander: :8087\n      listen: :8086\n      options:\n        workers:\n          scaleDownUnneededTime: 3m\n      tls:\n", "    mode: Active\n",
		"        clients:\n        - cluster-autoscaler\n", "    - {name: expander, port: 8087, targetPort: expander, protocol: TCP}\n",
		"    - {name: grpc, port: 8086, targetPort: provider, protocol: TCP}\n",
	} {
		if !strings.Contains(stdout, text) {
			t.Errorf("it lacks %q", text)
		}
	}
	if _, stderr, code := inProcess(t, files, "manifests", "install", "--config", "site.yaml", "--nodes", "cluster-autoscaler"); code != cli.ExitUsage || !strings.Contains(stderr, `--nodes: must be plimsoll but with --mode Active, was "cluster-autoscaler"`) {
		t.Errorf("in mode recommend: exit %d: %s", code, stderr)
	}
	files["site.yaml"].Data = []byte(strings.Replace(file, "provider: {", "provider: {names: [a.example], ", 1))
	if _, stderr, code := inProcess(t, files, "manifests", "install", "--config", "site.yaml", "--mode", "active", "--nodes", "cluster-autoscaler"); code != cli.ExitConfig || !strings.Contains(stderr, "provider: must have nothing but options here") {
		t.Errorf("with names of its own: exit %d: %s", code, stderr)
	}
}

// The pod reads what was written: no other YAML takes a name for true, or writes a number so that
// it is refused.
func TestInstallKeepsValuesAsTheyAreRead(t *testing.T) {
	file := "{owner: on, endpoints: [https://a:8006], tokenFile: n, insecure: true, limit: {amount: 1500000.5, per: 1h}," +
		" quotas: [{namespace: a, maxHourlyCost: 0.000001}, {namespace: b, maxHourlyCost: 4000000}]}"
	files := fstest.MapFS{"site.yaml": {Data: []byte(file)}}
	stdout, stderr, code := inProcess(t, files, "manifests", "install", "--config", "site.yaml")
	for _, line := range []string{`    owner: "?on"?`, `    tokenFile: "?n"?`, `      amount: 1500000\.5`, `    - maxHourlyCost: 0\.000001`, `    - maxHourlyCost: 4000000`} {
		if code != cli.ExitDone || !regexp.MustCompile("(?m)^"+line+"$").MatchString(stdout) {
			t.Errorf("exit %d, without %s: %s", code, line, stderr)
		}
	}
}

// The lease, what was ordered under its name, and the namespace that names the cluster are all that
// the pod has rights on by their names.
func TestInstallGivesTheRightsForTheLease(t *testing.T) {
	for lease, want := range map[string]string{"": "plimsoll", "other": "other"} {
		files := fstest.MapFS{"site.yaml": {Data: []byte(`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, lease: "` + lease + `"}`)}}
		stdout, stderr, code := inProcess(t, files, "manifests", "install", "--config", "site.yaml", "--mode", "active")
		if code != cli.ExitDone {
			t.Fatalf("lease %q: exit %d: %s", lease, code, stderr)
		}
		got := regexp.MustCompile(`(?m)^    resourceNames: .*$`).FindAllString(stdout, -1)
		named, name, ordered := `    resourceNames: [kube-system]`, `    resourceNames: ["`+want+`"]`, `    resourceNames: ["`+intentMap(want)+`"]`
		if diff := cmp.Diff([]string{named, name, ordered, ordered}, got); diff != "" {
			t.Errorf("lease %q, -want +got:\n%s", lease, diff)
		}
	}
}

func TestInstallTakesAJournalThatThePodCanWrite(t *testing.T) {
	for _, journal := range []string{"-", "/var/lib/plimsoll/journal.ndjson"} {
		file := "{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, namespace: plimsoll, journal: {file: '" + journal + "'}}"
		files := fstest.MapFS{"site.yaml": {Data: []byte(file)}}
		stdout, stderr, code := inProcess(t, files, "manifests", "install", "--config", "site.yaml", "--image", "registry.example/plimsoll@sha256:"+strings.Repeat("0", 64))
		if code != cli.ExitDone || stderr != "" || !regexp.MustCompile(`(?m)^      file: ["']?`+regexp.QuoteMeta(journal)+`["']?$`).MatchString(stdout) {
			t.Errorf("journal %s: exit %d, %s", journal, code, stderr)
		}
	}
}

func TestInstallRefusesWhatThePodCouldNotRead(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{`{owner: home, endpoints: [https://a:8006], tokenFile: secrets/token, insecure: true}`, `tokenFile: must be a name without a folder, for it is looked for in a secret, was "secrets/token"`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, caFile: /etc/ca.pem}`, `caFile: must be a name without a folder, for it is looked for in a secret, was "/etc/ca.pem"`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, notifications: [{name: a, url: "http://a"}, {name: b, urlFile: c/url, tokenFile: c/token}]}`, `notifications[1].urlFile: must be a name without a folder`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, notifications: [{name: b, url: "http://a", tokenFile: c/token}]}`, `notifications[0].tokenFile: must be a name without a folder`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, prometheus: {url: "http://p", caFile: c/ca}}`, `prometheus.caFile: must be a name without a folder`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, prometheus: {url: "http://p", tokenFile: c/token}}`, `prometheus.tokenFile: must be a name without a folder`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, scrape: {basicAuthFile: 'c\basic'}}`, `scrape.basicAuthFile: must be a name without a folder, for it is looked for in a secret, was "c\\basic"`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, intervall: 1s}`, `intervall`},
		{`{owner: home, tokenFile: token}`, `endpoints`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, handoff: {by: Placeholders}}`, `handoff.by: must be none or omitted here, for these manifests give no rights for it (the chart does), was "Placeholders"`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, capacityBuffers: true}`, `capacityBuffers: must be omitted here, for these manifests have no rights for it (the chart does), was there`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, kedaScaler: ":8088"}`, `kedaScaler: must be omitted here, for these manifests have no Service for it (the chart does), was there`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, admission: {listen: ":9443", certificate: a.crt, key: a.key}}`, `admission: must be omitted here, for these manifests have no webhook and certificate for it (the chart does), was there`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, pools: [{name: a}]}`, `pools`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, namespace: other}`, `namespace: must be plimsoll or omitted here, for these manifests install there (the chart installs anywhere), was "other"`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, journal: {file: journal.ndjson}}`, `journal.file: must be - for standard output or a file in /var/lib/plimsoll/ here, for nothing else in the pod can be written to, was "journal.ndjson"`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, journal: {file: /var/lib/plimsoll/../j}}`, `journal.file`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, recording: {folder: recording}}`, `recording.folder: must be a folder in /var/lib/plimsoll/ here, for nothing else in the pod can be written to, was "recording"`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, recording: {folder: /var/lib/plimsoll/recording}}`, `recording.limit: must be lower here: journal and recording come to 5GiB, and a pod with 512MiB or more is evicted (the chart has journal.sizeLimit)`},
		{`{owner: home, endpoints: [https://a:8006], tokenFile: token, insecure: true, journal: {file: /var/lib/plimsoll/j, keep: 7}}`, `journal.rotateSize: must be lower here: journal and recording come to 512MiB, and a pod with 512MiB or more is evicted (the chart has journal.sizeLimit)`},
	} {
		files := fstest.MapFS{"site.yaml": {Data: []byte(c.file)}}
		stdout, stderr, code := inProcess(t, files, "manifests", "install", "--config", "site.yaml")
		if code != cli.ExitConfig || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%s: exit %d, %s", c.file, code, stderr)
		}
	}
	if _, stderr, code := inProcess(t, nil, "manifests", "install", "--config", "a", "--mode", "observe"); code != cli.ExitUsage || !strings.Contains(stderr, `must be one of Recommend, Active, was "observe"`) {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if _, stderr, code := inProcess(t, nil, "manifests", "install"); code != cli.ExitUsage {
		t.Errorf("without a file: exit %d: %s", code, stderr)
	}
}

// A key that names a file and is not looked at would be found out about in the pod.
func TestInstallLooksAtEveryKeyThatNamesAFile(t *testing.T) {
	s := &siteFile{measuring: measuring{Prometheus: &sharedPrometheus{}, Scrape: &scrapeAccess{}}}
	s.Notifications = make([]receiverSettings, 1)
	var got []string
	for _, f := range s.named() {
		got = append(got, strings.ReplaceAll(f.key, "[0]", ""))
	}
	var want []string
	var walk func(under string, in reflect.Type)
	walk = func(under string, in reflect.Type) {
		for in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice {
			in = in.Elem()
		}
		for i := 0; in.Kind() == reflect.Struct && i < in.NumField(); i++ {
			f := in.Field(i)
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous:
				walk(under, f.Type)
			case strings.HasSuffix(key, "File"):
				want = append(want, under+key)
			case f.IsExported() && key != "pools" && key != "nodes":
				walk(under+key+".", f.Type)
			}
		}
	}
	walk("", reflect.TypeFor[siteFile]())
	if diff := cmp.Diff(want, got, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("keys, -of the file +looked at:\n%s", diff)
	}
}

// The chart's schema refuses keys that the program does not know, and takes all that it does.
func TestChartKnowsTheKeysOfTheConfiguration(t *testing.T) {
	text := must.Get(os.ReadFile("../../deploy/charts/plimsoll/values.schema.json"))(t)
	var schema struct {
		Properties struct {
			Config struct{ Properties map[string]any }
		}
	}
	must.Do(t, yaml.Unmarshal(text, &schema))
	var want []string
	var walk func(reflect.Type)
	walk = func(in reflect.Type) {
		for i := range in.NumField() {
			f := in.Field(i)
			if f.Anonymous {
				walk(f.Type)
			} else if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() && key != "-" {
				want = append(want, key)
			}
		}
	}
	walk(reflect.TypeFor[siteFile]())
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(schema.Properties.Config.Properties))); diff != "" {
		t.Errorf("keys, -of the program +of the chart:\n%s", diff)
	}
}

// What docs/install.md has people write for a process outside of the cluster is read.
func TestConfigurationInTheDocumentIsRead(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/install.md"))(t)
	_, file, found := strings.Cut(string(text), "```yaml\n# /etc/plimsoll/plimsoll.yaml\n")
	if !found {
		t.Fatal("docs/install.md shows no plimsoll.yaml")
	}
	file, _, _ = strings.Cut(file, "```")
	files := fstest.MapFS{"plimsoll.yaml": {Data: []byte(file)}, "token": someSite["token"]}
	got := must.Get(readRunning(someEnv(files), "plimsoll.yaml", []string{partPodScaler, partNodeScaler}))(t)
	if got.Mode != runRecommend || got.State == "" || got.Namespace != "plimsoll" {
		t.Errorf("mode %s, state %q, namespace %q", got.Mode, got.State, got.Namespace)
	}
}

// The alerts on error budgets fire at the rates, and over the windows, at which the condition
// ErrorBudgetBurning turns True.
func TestAlertsBurnAsTheConditionDoes(t *testing.T) {
	text := strings.Join(strings.Fields(string(must.Get(os.ReadFile("../../deploy/charts/plimsoll/files/alerts.yaml"))(t))), " ")
	var page, ticket []string
	for _, a := range podscaler.BurnAlerts {
		over := func(window time.Duration) string {
			return fmt.Sprintf(`max by (cluster, namespace, name) (plimsoll_workload_burn_rate{window=%q}) > clamp_max(%v / max by (cluster, namespace, name) (plimsoll_workload_error_budget_ratio{part="late"}), %v)`,
				pricing.Short(window), podscaler.NearlyAllLate, a.Rate)
		}
		if both := over(a.Long) + " and " + over(a.Short); a.Page {
			page = append(page, "("+both+")")
		} else {
			ticket = append(ticket, both)
		}
	}
	for alert, want := range map[string]string{"Fast": strings.Join(page, " or "), "Slowly": strings.Join(ticket, " or ")} {
		if want = "PlimsollErrorBudgetBurns" + alert + " expr: | " + want + " labels:"; !strings.Contains(text, want) {
			t.Errorf("the alerts lack %s", want)
		}
	}
}
