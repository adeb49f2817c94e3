package rke2

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// Every fault names the site's own key, the rule and the value.
func TestBadSitesAreRefusedByTheirOwnKeys(t *testing.T) {
	for name, c := range map[string]struct{ was, is, says string }{
		"no version":                       {"version: v1.34.1+rke2r1", "", `rke2: must have either version or artefacts, was "version \"\" and artefacts \"\""`},
		"both":                             {"version: v1.34.1+rke2r1", "version: v1.34.1+rke2r1, artefacts: /opt", "rke2: must have either"},
		"k3s' version":                     {"+rke2r1", "+k3s1", `rke2.version: must be a version such as v1.34.1+rke2r1, was "v1.34.1+k3s1"`},
		"artefacts by a shell":             {"version: v1.34.1+rke2r1", "artefacts: /opt/$(id)", "rke2.artefacts: must be a folder's whole path"},
		"too few VMIDs":                    {"last: 5009", "last: 5004", "vmids: must be a range with room for the control plane, the load machine and workers.max, 6 in all, was \"5000-5004\""},
		"template in the range":            {"vmid: 9000", "vmid: 5001", "vmids: must not hold the template 5001"},
		"no address":                       {"first: 10.0.0.10/24, ", "", "network.first: must be the control plane's address"},
		"too few addresses":                {"10.0.0.10/24", "10.0.0.250/24", "network.first: must leave room in its network"},
		"gateway among machines":           {"gateway: 10.0.0.1,", "gateway: 10.0.0.11,", "network.gateway: must not be one of the machines' addresses"},
		"half a core":                      {"control: {cpu: 4", "control: {cpu: 500m", "control.cpu: must be a whole number of cores"},
		"half a core to load":              {"load: {cpu: 2", "load: {cpu: 500m", "load.cpu: must be a whole number of cores"},
		"half a worker":                    {"name: small, cpu: 2", "name: small, cpu: 1500m", "workers.shapes[0].cpu: must be a whole number of cores"},
		"start above max":                  {"start: 2", "start: 5", "workers.start: must be from 0 to max, 4, was 5"},
		"worker by control":                {"  max: 4", "  max: 4\n  name: control", "workers.name: must not be that of the other machines"},
		"no storage for discs":             {"iso: {storage: nfs}", "iso: {}", "iso.storage: must name a storage"},
		"storage of linked":                {"user: ops", "user: ops\nstorage: nfs", "storage: must be omitted unless clone is full"},
		"owner":                            {"owner: bench", "owner: Bench!", `owner: must be 1 to 32 of a-z`},
		"nearly a key":                     {"pvePool: bench", "pvePol: bench", "pvePool"},
		"image by no content":              {"user: ops", "user: ops\nimage: {volume: 'local:iso/debian.img', host: pve1, storage: nfs}", "image.volume: must be STORAGE:import/NAME"},
		"image of many hosts":              {"template: {vmid: 9000}", "template: {byHost: {pve1: 9000}}\nimage: {volume: 'local:import/debian.raw', host: pve1, storage: nfs}", "template.vmid: must be there beside image"},
		"image on no host":                 {"user: ops", "user: ops\nimage: {volume: 'local:import/debian.raw', host: pve/1, storage: nfs}", "image.host: must name a host"},
		"mode of the VMPool":               {"  max: 4", "  max: 4\n  vmPool: {mode: active}", `workers.vmPool.mode: must be Recommend or Active, was "active"`},
		"scaled by nobody":                 {"  max: 4", "  max: 4\n  vmPool: {mode: Active, scaledBy: hpa}", "workers.vmPool.scaledBy: must be Plimsoll or ClusterAutoscaler"},
		"node port":                        {"user: ops", "user: ops\naddons: {prometheus: {nodePort: 9090}}", "addons.prometheus.nodePort: must be from 30000 to 32767, was 9090"},
		"retention":                        {"user: ops", "user: ops\naddons: {prometheus: {retention: 2 days}}", `addons.prometheus.retention: must be a time of Prometheus' such as 7d, of 1h or more, was "2 days"`},
		"retention of a minute":            {"user: ops", "user: ops\naddons: {prometheus: {retention: 1m}}", `addons.prometheus.retention: must be`},
		"image of Prometheus":              {"user: ops", "user: ops\naddons: {prometheus: {image: 'a b'}}", `addons.prometheus.image: must be an image such as`},
		"no mode of Plimsoll":              {"user: ops", "user: ops\naddons: {plimsoll: {image: a}}", `addons.plimsoll.mode`},
		"mode of Plimsoll":                 {"user: ops", "user: ops\naddons: {plimsoll: {mode: active}}", `addons.plimsoll.mode: must be Active or Recommend, was "active"`},
		"image of Plimsoll":                {"user: ops", "user: ops\naddons: {plimsoll: {mode: Active, image: A}}", `addons.plimsoll.image: must be an image such as`},
		"nodes by nobody":                  {"  max: 4", "  max: 4\n  vmPool: {mode: Active}\naddons: {plimsoll: {mode: Active, nodes: hpa}}", `addons.plimsoll.nodes: must be Plimsoll or ClusterAutoscaler, was "hpa"`},
		"nodes without a VMPool":           {"user: ops", "user: ops\naddons: {plimsoll: {mode: Active, nodes: Plimsoll}}", `addons.plimsoll.nodes: must be omitted without workers.vmPool, which is what is decided on, was "Plimsoll"`},
		"nodes by another than its":        {"  max: 4", "  max: 4\n  vmPool: {mode: Active, scaledBy: ClusterAutoscaler}\naddons: {plimsoll: {mode: Active}}", `addons.plimsoll.nodes: must be what workers.vmPool.scaledBy is, ClusterAutoscaler, was "Plimsoll"`},
		"its by another than nodes":        {"  max: 4", "  max: 4\n  vmPool: {mode: Active}\naddons: {plimsoll: {mode: Active, nodes: ClusterAutoscaler, clusterAutoscalerImage: a}}", `addons.plimsoll.nodes: must be what workers.vmPool.scaledBy is, Plimsoll, was "ClusterAutoscaler"`},
		"Active that only recommends":      {"  max: 4", "  max: 4\n  vmPool: {mode: Active}\naddons: {plimsoll: {mode: Recommend}}", `addons.plimsoll.mode: must be Active where workers.vmPool.mode is, was "Recommend"`},
		"autoscaler of no image":           {"  max: 4", "  max: 4\n  vmPool: {mode: Active, scaledBy: ClusterAutoscaler}\naddons: {plimsoll: {mode: Active, nodes: ClusterAutoscaler}}", `addons.plimsoll.clusterAutoscalerImage: must be an image of the cluster's minor release`},
		"autoscaler that only recommends":  {"  max: 4", "  max: 4\n  vmPool: {mode: Recommend, scaledBy: ClusterAutoscaler}\naddons: {plimsoll: {mode: Recommend, nodes: ClusterAutoscaler, clusterAutoscalerImage: a}}", `addons.plimsoll.mode: must be Active where nodes is ClusterAutoscaler`},
		"image of an autoscaler not there": {"  max: 4", "  max: 4\n  vmPool: {mode: Active}\naddons: {plimsoll: {mode: Active, clusterAutoscalerImage: a}}", `addons.plimsoll.clusterAutoscalerImage: must be omitted but where nodes is ClusterAutoscaler, was "a"`},
		"OpenCost of no file":              {"user: ops", "user: ops\naddons: {openCost: {manifests: [], url: 'http://a'}}", `addons.openCost.manifests: must name a file at least`},
		"OpenCost at no URL":               {"user: ops", "user: ops\naddons: {openCost: {manifests: [a.yaml], url: 10.0.0.10}}", `addons.openCost.url: must be a URL such as http://10.0.0.10:30903, was "10.0.0.10"`},
		"kproximate of no file":            {"user: ops", "user: ops\naddons: {kproximate: {manifests: [], prefix: kp-node}}", `addons.kproximate.manifests: must name a file at least`},
		"prefix":                           {"user: ops", "user: ops\naddons: {kproximate: {manifests: [a.yaml], prefix: 'kp.*'}}", `addons.kproximate.prefix: must be at most 26 lower-case letters, digits and hyphens, was "kp.*"`},
		"prefix of our own machines":       {"user: ops", "user: ops\naddons: {kproximate: {manifests: [a.yaml], prefix: workers}}", `addons.kproximate.prefix: must not be, begin or go on from what begins the names of the test bed's own machines, workers, was "workers"`},
		"prefix that goes on from ours":    {"user: ops", "user: ops\naddons: {kproximate: {manifests: [a.yaml], prefix: load-kp}}", `addons.kproximate.prefix: must not be, begin or go on from`},
		"two who decide on machines":       {"  max: 4", "  max: 4\n  vmPool: {mode: Active}\naddons: {kproximate: {manifests: [a.yaml], prefix: kp-node}}", `addons.kproximate: must be omitted where workers.vmPool.mode is Active`},
		"nearly an add-on":                 {"user: ops", "user: ops\naddons: {istio: {}}", "istio"},
		"SSH key":                          {"user: ops", "user: ops\nsshKeys: [hello]", "sshKeys[0]: must"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(siteText, c.was, c.is, 1)
			if text == siteText {
				t.Fatalf("%q is not in the site", c.was)
			}
			var s Site
			err := strict.Unmarshal([]byte(text), &s)
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "pools[") {
				t.Errorf("%v\ndoes not say %q", err, c.says)
			}
		})
	}
}

func TestManifestsAreNamedAndHoldSomething(t *testing.T) {
	s := readSite(t, siteText)
	s.Manifests = []string{"a/one.yaml", "b/one.yaml", "Two.yaml", "plimsoll-bench-secret.yaml", "none.yaml", "gone.yaml"}
	err := s.Read(func(name string) ([]byte, error) {
		switch name {
		case "none.yaml":
			return []byte(" \n"), nil
		case "gone.yaml":
			return nil, errors.New("it is not there")
		}
		return []byte("kind: List\n"), nil
	})
	want := []string{
		"manifests[1]: must have a name that no other has", "manifests[2]: must be named by", "manifests[3]: must be named by",
		"manifests[4]: must be a file with something in it", "manifests[5]: must be a file that can be read",
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%v", err)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("%q does not begin with %q", lines[i], want[i])
		}
	}
}

// controlFiles is the user-data of the control plane as cloud-init reads it.
func controlFiles(t *testing.T, s *Site, c *secrets) map[string]guestFile {
	t.Helper()
	p := must.Get(s.proxmox(c))(t)
	files := must.Get(p.Pools[control].Join.UserData(firstboot.Machine{Name: "control-1-0", Host: "pve1", VMID: 5000, UUID: "87F457B7-A7A0-4AA6-9A07-19D06A3596A1"}))(t)
	doc := must.Get(readCloudConfig(files[firstboot.UserData]))(t)
	if doc.Hostname != "control-1-0" || doc.User.Name != "ops" || !doc.Update || len(doc.Packages) != 1 || !cmp.Equal(doc.Run, [][]string{{"sh", installFile}}) {
		t.Errorf("%+v", doc)
	}
	all := map[string]guestFile{}
	for _, f := range doc.Files {
		if f.Owner != "root:root" || f.Permissions != "0600" && f.Permissions != "0700" {
			t.Errorf("%s is %s's, %s", f.Path, f.Owner, f.Permissions)
		}
		content := must.Get(machines.Unpack(f.Encoding, f.Content))(t)
		f.Content = string(content)
		all[f.Path] = f
	}
	return all
}

func TestControlPlaneIsToldAllThatItIs(t *testing.T) {
	s := readSite(t, siteText)
	c := must.Get(newSecrets(someday))(t)
	c.Proxmox = "root@pam!plimsoll-bench=s3cret"
	files := controlFiles(t, s, c)
	var config map[string]any
	must.Do(t, yaml.Unmarshal([]byte(files[configFile].Content), &config))
	if diff := cmp.Diff(map[string]any{
		"node-name": "control-1-0", "token": c.Token, "agent-token": c.AgentToken, "tls-san": []any{"10.0.0.10"},
		"node-taint": []any{controlTaint + "=true:NoSchedule"}, "kubelet-arg": []any{"provider-id=rke2://control-1-0"},
	}, config); diff != "" {
		t.Error(diff)
	}
	for path, want := range map[string]string{
		tlsFolder + "server-ca.crt": c.ServerCA.Cert, tlsFolder + "server-ca.key": c.ServerCA.Key,
		tlsFolder + "client-ca.crt": c.ClientCA.Cert, tlsFolder + "client-ca.key": c.ClientCA.Key,
		addonsFolder + "prometheus.yaml": "kind: List\nitems: ['{{none}}']\n",
	} {
		if diff := cmp.Diff(want, files[path].Content); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	if secret := files[addonsFolder+secretAddon].Content; !strings.Contains(secret, c.Proxmox) || !strings.Contains(secret, c.AgentToken) || strings.Contains(secret, c.Token) {
		t.Error(secret)
	}
	if script := files[installFile].Content; !strings.Contains(script, "INSTALL_RKE2_VERSION='v1.34.1+rke2r1'") || !strings.Contains(script, "rke2-server.service") {
		t.Error(script)
	}
}

func TestWithoutANetworkRKE2IsInstalledFromItsFolder(t *testing.T) {
	s := readSite(t, strings.Replace(siteText, "version: v1.34.1+rke2r1", "artefacts: /opt/rke2", 1))
	c := placeholders()
	const install = "INSTALL_RKE2_ARTIFACT_PATH=/opt/rke2 sh /opt/rke2/install.sh"
	if script := controlFiles(t, s, c)[installFile].Content; !strings.Contains(script, "INSTALL_RKE2_TYPE=server "+install) || strings.Contains(script, "https://") {
		t.Error(script)
	}
	p := must.Get(s.proxmox(c))(t)
	files := must.Get(p.Pools[workers].Join.UserData(firstboot.Machine{Name: "workers-1-0", Host: "pve1", VMID: 5002}))(t)
	doc := must.Get(readCloudConfig(files[firstboot.UserData]))(t)
	want := [][]string{{"sh", "-c", "INSTALL_RKE2_TYPE=agent " + install}, {"systemctl", "enable", "--now", "--no-block", "rke2-agent.service"}}
	if diff := cmp.Diff(want, doc.Run); diff != "" {
		t.Error(diff)
	}
}

// What is in braces in a text of the operator's is not filled in.
func TestTextsOfTheSiteAreNoTemplates(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHsmqjz2QZ1Qe5yY7G5u0YJr4b3mQvZJ5m6l0S1rB2rT {{.Token}}"
	s := readSite(t, strings.Replace(siteText, "user: ops", "user: ops\nsshKeys: ['"+key+"']", 1))
	p := must.Get(s.proxmox(placeholders()))(t)
	files := must.Get(p.Pools[control].Join.UserData(firstboot.Machine{Name: "control-1-0", VMID: 5000}))(t)
	doc, err := readCloudConfig(files[firstboot.UserData])
	if err != nil || !cmp.Equal(doc.Keys, []string{key}) {
		t.Errorf("%v %+v", err, doc)
	}
}

func TestKubeconfigIsAnAdministratorsOfTheSameCluster(t *testing.T) {
	c := must.Get(newSecrets(someday))(t)
	text := must.Get(c.kubeconfig(readSite(t, siteText)))(t)
	cfg := must.Get(clientcmd.RESTConfigFromKubeConfig(text))(t)
	ca, _, err := c.ClientCA.parse()
	if err != nil {
		t.Fatal(err)
	}
	admin, _, err := c.Admin.parse()
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.CheckSignatureFrom(ca); err != nil {
		t.Error(err)
	}
	if cfg.Host != "https://10.0.0.10:6443" || string(cfg.CAData) != c.ServerCA.Cert || admin.Subject.Organization[0] != "system:masters" {
		t.Errorf("%s %s", cfg.Host, admin.Subject)
	}
}

var someday = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// What people copy is taken.
func TestSiteOfTheDocumentationIsTaken(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "rke2.md")))(t)
	_, rest, found := strings.Cut(string(text), "```yaml\n")
	site, _, closed := strings.Cut(rest, "```\n")
	if !found || !closed {
		t.Fatal("there is no site in docs/rke2.md")
	}
	var s Site
	if err := strict.Unmarshal([]byte(site), &s); err != nil {
		t.Error(err)
	}
}

// Plimsoll's own manifests, which a site names, find a node to run on, and their files in the
// secret that is made.
func TestPlimsollRunsOnTheControlPlane(t *testing.T) {
	text := must.Get(deploy.Manifests.ReadFile("manifests/active.yaml"))(t)
	tolerated, keepsOff := false, false
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o struct {
			Kind     string
			Metadata struct{ Namespace string }
			Spec     struct {
				Template struct {
					Spec struct {
						Tolerations []struct{ Effect, Key, Operator string }
						Affinity    any
					}
				}
			}
		}
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			continue // of another shape
		}
		if o.Kind != "Deployment" {
			continue
		}
		pod := o.Spec.Template.Spec
		for _, toleration := range pod.Tolerations {
			tolerated = tolerated || toleration.Key == controlTaint && toleration.Effect == "NoSchedule" && toleration.Operator == "Exists"
		}
		keepsOff = strings.Contains(fmt.Sprint(pod.Affinity), "plimsoll.dev/pool")
		if o.Metadata.Namespace != productNamespace || !strings.Contains(string(text), productSecret) {
			t.Errorf("it is in %s, or does not know %s", o.Metadata.Namespace, productSecret)
		}
	}
	if !tolerated {
		t.Errorf("it does not tolerate %s", controlTaint)
	}
	w := newWorld(t)
	t.Cleanup(w.sim.Close)
	plan := w.planned()
	for _, f := range plan.Discs[0].Guest {
		if f.Name == configFile && keepsOff && strings.Contains(f.Content, "plimsoll.dev/pool") {
			t.Errorf("it keeps off the control plane, which says %s", f.Content)
		}
	}
}

// Plimsoll in the cluster makes workers as up does: of the pool's keys none is lost, and its files
// are in the secret.
func TestWorkersVMPoolIsTheirPool(t *testing.T) {
	s := readSite(t, strings.Replace(strings.Replace(siteText, "version: v1.34.1+rke2r1", "artefacts: /opt/rke2", 1), "  max: 4", "  max: 4\n  vmPool: {mode: Active}", 1))
	files := controlFiles(t, s, placeholders())
	var o struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     map[string]any
	}
	must.Do(t, yaml.Unmarshal([]byte(files[addonsFolder+poolAddon].Content), &o))
	if o.Kind != "VMPool" || o.Metadata.Name != "workers" || o.Spec["mode"] != "Active" || o.Spec["min"] != 2 || o.Spec["max"] != 4 || o.Spec["pvePool"] != "bench" {
		t.Errorf("%+v", o)
	}
	if diff := cmp.Diff([]any{map[string]any{"name": "small", "cpu": 2, "memory": "4096Mi", "disk": "20480Mi"}}, o.Spec["shapes"]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{"first": 5002, "last": 5009}, o.Spec["vmids"]); diff != "" {
		t.Error(diff)
	}
	join, _ := o.Spec["join"].(map[string]any)
	for _, key := range []string{"tokenFile", "cloudConfigFile"} {
		name, _ := join[key].(string)
		if name == "" || !strings.Contains(files[addonsFolder+secretAddon].Content, "\n    "+name+":") {
			t.Errorf("%s is %q, which is not in\n%s", key, name, files[addonsFolder+secretAddon].Content)
		}
	}
}

func TestWhatIsSaidForExperimentsIsRefusedByKeyRuleAndValue(t *testing.T) {
	for _, c := range []struct{ run, want string }{
		{`{namespace: bed, digits: 800, images: {plimsoll: 'ghcr.io/plimsoll/plimsoll:v0.1.0', k6: 'grafana/k6:1.8.1'}, prometheus: {url: 'http://a:9090/x', inCluster: 'http://b'}, signals: {preset: Istio, inject: true}}`, ""},
		{`{namespace: Bed}`, `run.namespace: must be a name of at most 63 lower-case letters, digits and '-', was "Bed"`},
		{`{namespace: plimsoll}`, `run.namespace: must be one of its own, was "plimsoll"`},
		{`{images: {plimsoll: 'a b'}}`, `run.images.plimsoll: must be an image, was "a b"`},
		{`{images: {k6: ':1'}}`, `run.images.k6: must be an image such as grafana/k6:1.8.1, was ":1"`},
		{`{digits: 50001}`, `run.digits: must be from 1 to 50000, was 50001`},
		{`{signals: {preset: Envoy}}`, `run.signals.preset: must be OTel or Istio, was "Envoy"`},
		{`{signals: {inject: true}}`, `run.signals.inject: must be omitted but with preset Istio, was true`},
		{`{prometheus: {}}`, `run.prometheus: must have url, inCluster or both, was "neither"`},
		{`{prometheus: {url: 'a:9090'}}`, `run.prometheus.url: must be an http or https address, was "a:9090"`},
		{`{prometheus: {inCluster: 'http://a'}}`, `run.prometheus.inCluster: must be omitted but with preset Istio, was "http://a"`},
		{`{signals: {preset: Istio}, prometheus: {inCluster: 'http://a?b'}}`, `run.prometheus.inCluster: must be an http or https address, was "http://a?b"`},
	} {
		s := &Site{}
		got := ""
		if err := strict.Unmarshal([]byte(siteText+"run: "+c.run+"\n"), s); err != nil {
			got = err.Error()
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.run, got, c.want)
		}
	}
}

func TestExperimentsHaveWhatTheSiteLeavesOut(t *testing.T) {
	want := DefaultRun()
	for _, text := range []string{"", "run: {}\n", "run: {prometheus: {url: 'http://a'}}\n"} {
		s := readSite(t, siteText+text)
		got := s.Experiments()
		got.Prometheus = nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(text, diff)
		}
	}
	s := readSite(t, siteText+"addons: {prometheus: {nodePort: 30100}}\n")
	if p := s.Experiments().Prometheus; p == nil || p.URL != s.PrometheusURL() || !strings.HasSuffix(p.URL, ":30100") {
		t.Errorf("with the add-on Prometheus is %v", p)
	}
	// The load of the lab and that of a site are sent by the same k6.
	mod, err := os.ReadFile(filepath.Join("..", "lab", "tools", "k6", "go.mod"))
	_, version, _ := strings.Cut(want.Images.K6, ":")
	if err != nil || !strings.Contains(string(mod), "go.k6.io/k6 v"+version+" ") {
		t.Errorf("%s is not the lab's, %v", want.Images.K6, err)
	}
}

// The pool is the one that up made workers by, with the secret's files and no secret in it.
func TestTheWorkersPoolIsOfferedWithoutSecrets(t *testing.T) {
	s := readSite(t, siteText)
	o := must.Get(s.Offer("Plimsoll", func(p *settings.Pool) { p.Min, p.Max = 1, 3 }))(t)
	text := must.Get(json.Marshal(o))(t)
	for _, part := range []string{`"kind":"VMPool"`, `"name":"workers"`, `"mode":"Active"`, `"scaledBy":"Plimsoll"`, `"min":1`, `"max":3`, `"tokenFile":"join-token"`, `"memory":"4096Mi"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s is not in %s", part, text)
		}
	}
	if strings.Contains(string(text), `"token":`) || strings.Contains(string(text), `"cloudConfig":`) {
		t.Errorf("there is a secret in %s", text)
	}
}
