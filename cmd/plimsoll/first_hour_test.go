package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/kubesim"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/newcomer"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// newcomers is a newcomer's cluster: an emulated API server with a control plane of RKE2 and a pod
// that waits.
type newcomers struct {
	*testing.T
	api    *kubesim.Server
	config string
}

const waitingPod = `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: c, resources: {requests: {cpu: "1", memory: 1Gi}}}]},
  status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`

const controlPlane = `{apiVersion: v1, kind: Node, metadata: {name: cp-1, labels: {node-role.kubernetes.io/control-plane: "true"}},
  spec: {taints: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]},
  status: {addresses: [{type: InternalIP, address: 10.0.0.2}], nodeInfo: {kubeletVersion: v1.34.1+rke2r1, osImage: Debian GNU/Linux 13},
    conditions: [{type: Ready, status: "True"}], allocatable: {cpu: "2", memory: 4Gi, pods: "110"}}}`

// inJSON rewrites a request in protobuf, which the emulated server does not read.
func (n *newcomers) inJSON(r *http.Request) {
	const proto = "application/vnd.kubernetes.protobuf"
	if r.Header.Get("Content-Type") != proto {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		n.Errorf("%s %s: %v", r.Method, r.URL, err)
		return
	}
	text := must.Get(json.Marshal(o))(n.T)
	r.Header.Set("Content-Type", "application/json")
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
}

// newNewcomers serves the Kubernetes API, and writes the kubeconfig.
func newNewcomers(t *testing.T) *newcomers {
	t.Helper()
	var kinds []kubesim.Kind
	for kind, resource := range map[string]string{v1alpha1.KindWorkloadAutoscaler: "workloadautoscalers", v1alpha1.KindVMPool: "vmpools", v1alpha1.KindPriceBook: "pricebooks"} {
		kinds = append(kinds, kubesim.Kind{
			Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Name: kind, Resource: resource,
			ClusterWide: kind != v1alpha1.KindWorkloadAutoscaler, Status: true, Custom: true,
		})
	}
	n := &newcomers{T: t, api: kubesim.New(1, kinds...), config: filepath.Join(t.TempDir(), "config")}
	for _, o := range []string{`{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}`, controlPlane, waitingPod} {
		n.Apply(o)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: "kubesim"})
			n.inJSON(r.Out)
		},
		Transport: n.api.Client("plimsoll", nil), FlushInterval: -1,
	})
	n.Cleanup(front.Close)
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, users: [{name: x, user: {}}],
 contexts: [{name: x, context: {cluster: x, user: x}}], clusters: [{name: x, cluster: {server: %q}}]}`, front.URL)
	must.Do(t, os.WriteFile(n.config, []byte(text), 0o600))
	return n
}

func (n *newcomers) Kubeconfig() string { return n.config }

// Apply applies objects, but kinds: those that there are, it has.
func (n *newcomers) Apply(manifest string) {
	n.Helper()
	for one := range strings.SplitSeq(manifest, "\n---\n") {
		if strings.Contains(one, "kind: CustomResourceDefinition") {
			continue
		}
		if err := n.api.Apply(one); err != nil {
			n.Fatalf("%v: %s", err, one)
		}
	}
}

func (n *newcomers) Activate(pool string) {
	n.api.Change("vmpools.plimsoll.dev", pool, func(raw map[string]any) { raw["spec"].(map[string]any)["mode"] = "Active" })
}

// Pool is the pool as the API server has it.
func (n *newcomers) Pool(name string) (p v1alpha1.VMPool) {
	n.Helper()
	text := must.Get(yaml.Marshal(n.api.Get("vmpools.plimsoll.dev", name)))(n.T)
	must.Do(n, yaml.Unmarshal(text, &p))
	return p
}

// joins makes a machine that has booted a node, as its join profile does.
func (n *newcomers) joins(b pvesim.Boot) {
	n.Apply(fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %s}, spec: {providerID: "rke2://%[1]s"},
  status: {nodeInfo: {kubeletVersion: v1.34.1+rke2r1, systemUUID: %s}, allocatable: {cpu: "2", memory: 3Gi, pods: "110"},
    conditions: [{type: Ready, status: "True", lastTransitionTime: %q}]}}`, b.Name, b.UUID, time.Now().UTC().Format(time.RFC3339)))
}

// A newcomer gets from an empty folder to a node by the commands of the pages. The lab plays it
// with a control plane that is real.
func TestTheFirstHour(t *testing.T) {
	race.Skip(t)
	n, cluster := newcomer.New(t, "plimsoll", "../.."), newNewcomers(t)
	n.Sim.OnBoot(cluster.joins)
	n.FirstHour(cluster)
}
