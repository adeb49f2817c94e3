package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// named is a workload that is scaled by a queue, as a Prometheus of its own measures it.
const named = `{apiVersion: plimsoll.dev/v1alpha1, kind: PriceBook, metadata: {name: default}, spec: {currency: units, pricePerVCPUHour: 1, pricePerGBHour: 1}}
---
apiVersion: plimsoll.dev/v1alpha1
kind: WorkloadAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  mode: Recommend
  policy: HPA
  minReplicas: 1
  maxReplicas: 10
  hpa: {metrics: [{type: External, name: queue, averageValue: "10"}]}
  signals:
    prometheus: {url: "%s"}
    metrics: [{name: queue, query: sum(queue)}]
---
{apiVersion: v1, kind: Node, metadata: {name: w-1}, status: {capacity: {cpu: "4", memory: 7900Mi}, allocatable: {cpu: "4", memory: 7Gi, pods: "110"}, conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, uid: d1}, spec: {replicas: 1, selector: {matchLabels: {app: web}}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-1, namespace: shop, uid: r1, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d1, controller: true}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-1-a, namespace: shop, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: r1, controller: true}]}, spec: {nodeName: w-1, containers: [{name: c, resources: {requests: {cpu: 100m, memory: 64Mi}}}]}, status: {phase: Running, startTime: "2026-01-01T00:00:00Z", conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}
`

// The program, as an administrator runs it, asks what an object names if the configuration file
// lists it, and says no more of it than that it may not, that it could not, or that there was no
// answer.
func TestObjectsHaveOnlyThoseServersAskedThatTheFileLists(t *testing.T) {
	var asked atomic.Int32
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if strings.HasPrefix(r.URL.Path, "/secrets") {
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprint(w, "opensesame")
			return
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"scalar","result":[%d,"42"]}}`, time.Now().Unix())
	}))
	t.Cleanup(own.Close)
	at := must.Get(url.Parse(own.URL))(t)
	var api *httptest.Server
	for _, c := range []struct {
		name, url, config string
		asks              bool
		want              string
	}{
		{"without a file", own.URL, "", false, "refused by policy"},
		{"a file that lists nothing", own.URL, "{}", false, "refused by policy"},
		{"another namespace's", own.URL, "{allowedHosts: [{hosts: [127.0.0.1], namespaces: [bank]}]}", false, "refused by policy"},
		{"another port", own.URL, "{allowedHosts: [{hosts: ['127.0.0.1:1']}]}", false, "refused by policy"},
		{"listed", own.URL, "{allowedHosts: [{hosts: ['127.0.0.1:" + at.Port() + "'], namespaces: [shop]}]}", true, " 5 "},
		{"the API server", "API", "{allowedHosts: [{hosts: [localhost.example]}]}", false, "refused by policy"},
		{"what answers with something else", own.URL + "/secrets", "{allowedHosts: [{hosts: [127.0.0.1]}]}", true, "invalid answer"},
		{"nothing there", "http://127.0.0.1:1", "{allowedHosts: [{hosts: [127.0.0.1]}]}", false, "unreachable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked.Store(0)
			api = httptest.NewUnstartedServer(nil)
			api.StartTLS()
			t.Cleanup(api.Close)
			k := must.Get(newKubeAPI(fmt.Sprintf(named, strings.Replace(c.url, "API", api.URL, 1))))(t)
			api.Config.Handler = k
			folder := t.TempDir()
			args := []string{"plan", "--kubeconfig", filepath.Join(folder, "config")}
			if c.config != "" {
				args = append(args, "--config", filepath.Join(folder, "plimsoll.yaml"))
			}
			for name, text := range map[string]string{"config": string(kubeconfigOf(api)), "plimsoll.yaml": "signals: " + c.config + "\n"} {
				must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
			}
			out, err := exec.Command("plimsoll", args...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if !strings.Contains(string(out), c.want) {
				t.Errorf("it says\n%s\nwithout %q", out, c.want)
			}
			for _, secret := range []string{"opensesame", "418", "eapot", "refused:", "connection"} {
				if strings.Contains(string(out), secret) {
					t.Errorf("it says %q\n%s", secret, out)
				}
			}
			if n := asked.Load(); (n > 0) != c.asks {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
}
