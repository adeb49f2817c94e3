//go:build guest

package realnode

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/k6"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/kubelet"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// hostPort is the node's port at which the pod is reached.
const hostPort = 8080

// service is a Deployment that needs a node of the pool.
const service = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {lab.plimsoll.dev/real: "yes"}
      tolerations: [{key: lab.plimsoll.dev/real, operator: Exists}]
      containers:
      - name: web
        image: ` + serviceImage + `
        imagePullPolicy: Never
        ports: [{containerPort: 8080, hostPort: 8080}]
        readinessProbe: {httpGet: {port: 8080, path: /}, periodSeconds: 1}
        resources: {requests: {cpu: "1", memory: 256Mi}}
`

// patience is for machines that are emulated, instruction by instruction.
const patience = 15 * time.Minute

// A pod that waits gets a machine that boots; a real kubelet in it joins, and the pod serves there,
// under load.
func TestAPendingPodRunsOnARealNode(t *testing.T) {
	t.Log("by emulation this takes seven minutes, and the image some minutes more, once")
	w := newWorld(t, site{})
	id := w.comesUp()
	w.isAsOrdered(id, "done")
	w.keepsTheToken(id)
	w.bearsLoad(id)
}

// A node comes back by itself or by Plimsoll, and stays the same node of the same machine.
func TestARealNodeComesBack(t *testing.T) {
	t.Log("by emulation this takes 25 minutes")
	w := newWorld(t, site{pool: func(p *settings.Pool) {
		p.Disruption.Repair = nodescaler.Repair{
			Conditions:   []nodescaler.Ailment{{Type: "Ready", Status: "Unknown", For: nodescaler.Duration(time.Minute)}},
			MaxUnhealthy: nodescaler.NodeCount{N: 1}, Reboot: &nodescaler.RebootRule{Within: nodescaler.Duration(10 * time.Minute)},
		}
	}})
	id := w.comesUp()
	w.rebootsByItself(id)
	w.crashLoops(id)
}

// comesUp makes a pod that waits, follows the machine until the pod is ready, and prints what
// each phase took of it, and what the timing model's stages did.
func (w *world) comesUp() (id int) {
	w.Helper()
	w.create(service)
	began := time.Now()
	at := []time.Time{began}
	add := func(what string, limit time.Duration, so func() bool) { at = append(at, w.until(what, limit, so)) }
	names := []string{"decide and clone", "configure and start", "boot until the agent answers", "first boot and join", "node Ready", "pod Ready"}
	add("a machine was cloned", time.Minute, func() bool { return len(w.vms()) == 1 })
	add("it runs", time.Minute, func() bool { return w.vms()[0].State == "running" })
	id = w.vms()[0].ID
	add("its agent answers", patience, func() bool { return w.answers(id) })
	add("its kubelet has registered", patience, func() bool { return len(w.nodes()) == 1 })
	add("the node is Ready", patience, func() bool { n := w.nodes(); return kubelet.Ready(&n[0]) })
	add("the pod is Ready", patience, func() bool { p := w.pods(); return len(p) == 1 && labtest.PodReady(&p[0]) })
	whole := at[len(at)-1].Sub(began)
	for i, name := range names {
		part := at[i+1].Sub(at[i])
		w.Logf("%-30s %5.1f s %3.0f %%", name, part.Seconds(), 100*part.Seconds()/whole.Seconds())
	}
	w.Logf("as the timing model divides it, from this one machine: clone %.0f s, boot %.0f s, start of a pod %.0f s",
		at[2].Sub(at[0]).Seconds(), at[5].Sub(at[2]).Seconds(), at[6].Sub(at[5]).Seconds())
	return id
}

// isAsOrdered compares node and guest with what was ordered. cloud-init is disabled without a disc.
func (w *world) isAsOrdered(id int, cloudInit string) {
	w.Helper()
	vm, node, pod := w.vms()[0], w.nodes()[0], w.pods()[0]
	uuid, _, _ := strings.Cut(strings.TrimPrefix(vm.Config["smbios1"], "uuid="), ",")
	for what, got := range map[string][2]string{
		"name":              {node.Name, vm.Config["name"]},
		"provider id":       {node.Spec.ProviderID, "proxmox://" + uuid},
		"system UUID":       {node.Status.NodeInfo.SystemUUID, uuid},
		"label":             {node.Labels["lab.plimsoll.dev/real"], "yes"},
		"zone":              {node.Labels[corev1.LabelTopologyZone], "pve1"},
		"region":            {node.Labels[corev1.LabelTopologyRegion], "lab"},
		"taint":             {fmt.Sprint(taints(&node)), "[lab.plimsoll.dev/real=yes:NoSchedule]"},
		"name of the pod's": {pod.Spec.NodeName, node.Name},
	} {
		if got[0] != got[1] {
			w.Errorf("the node's %s is %q, want %q", what, got[0], got[1])
		}
	}
	for line, want := range map[string]string{
		"hostname":          node.Name + "\n",
		"cloud-init status": "status: " + cloudInit + "\n",
		"curl -sS http://" + pod.Status.PodIP + ":8080": "served by " + pod.Name + "\n",
		"id -un ops": "ops\n",
		"df --output=size -BG / | tail -n 1 | tr -d ' '": "20G\n",
	} {
		if out, code := w.inside(id, line); out != want || code != 0 {
			w.Errorf("%s prints %q and ends with %d, want %q", line, out, code, want)
		}
	}
	for _, line := range []string{"cloud-init status --long", "cloud-init schema --system", "systemd-analyze time", "kubelet --version; containerd --version; uname -r"} {
		out, code := w.inside(id, line)
		w.Logf("%s (%d):\n%s", line, code, out)
	}
}

func taints(n *corev1.Node) []string {
	var all []string
	for _, t := range n.Spec.Taints {
		all = append(all, t.ToString())
	}
	return all
}

// keepsTheToken sees that no one but root reads the token that the machine joined with.
func (w *world) keepsTheToken(id int) {
	w.Helper()
	w.until("the disc is taken out", time.Minute, func() bool { return !strings.Contains(w.vms()[0].Config["ide2"], ".iso") })
	for user, found := range must.Get(w.shell.Finds(w.Context(), id, secret, "root", "nobody", "ops"))(w) {
		if w.Logf("%s finds the token in\n%s", user, found); user != "root" && found != "" {
			w.Errorf("%s reads the token in\n%s", user, found)
		}
	}
	if out, code := w.inside(id, "dd if=/dev/sr0 of=/dev/null count=1"); code == 0 {
		w.Errorf("the disc can be read: %s", out)
	}
}

// bearsLoad has users ask the pod for a minute, through its node. All are answered; how fast says
// nothing of real hosts.
func (w *world) bearsLoad(id int) {
	w.Helper()
	program := must.Get(w.lab.Tool(w.Context(), lab.ToolK6))(w)
	seen := must.Get(k6.Run(w.Context(), program, w.TempDir(), k6.Load{
		URL: "http://" + must.Get(w.machines.Forward(id, hostPort))(w) + "/", Kind: k6.Sleep, Users: 10, Think: time.Second, Spread: time.Second,
		Duration: time.Minute, Target: time.Second,
	}))(w)
	w.Logf("of %d requests in %.0f s %d failed; p50 %.0f ms, p90 %.0f ms, p99 %.0f ms", seen.Requests, seen.Seconds, seen.Failed, seen.P50, seen.P90, seen.P99)
	if seen.Failed > 0 || seen.Requests == 0 {
		w.Errorf("%d of %d requests failed", seen.Failed, seen.Requests)
	}
	if pod := w.pods()[0]; !labtest.PodReady(&pod) || pod.Status.ContainerStatuses[0].RestartCount > 0 {
		w.Errorf("the pod is %+v", pod.Status)
	}
}

// comesBack waits until the node has booted since, and its pod is ready on it again.
func (w *world) comesBack(what string, since *corev1.Node) {
	w.Helper()
	w.until(what, patience, func() bool {
		n := w.nodes()
		return len(n) == 1 && n[0].Status.NodeInfo.BootID != since.Status.NodeInfo.BootID && kubelet.Ready(&n[0])
	})
	w.until("the pod is Ready again", patience, func() bool { p := w.pods(); return len(p) == 1 && labtest.PodReady(&p[0]) })
	if n, vms := w.nodes()[0], w.vms(); n.UID != since.UID || len(vms) != 1 {
		w.Errorf("there are the node %s of %s and the machines %v, want the node and the machine from before", n.UID, since.UID, vms)
	}
}

// rebootsByItself has the guest reboot, as an upgrade does.
func (w *world) rebootsByItself(id int) {
	w.Helper()
	before := w.nodes()[0]
	w.inside(id, "systemd-run --on-active=1 systemctl reboot")
	w.comesBack("it has rebooted by itself, and is Ready", &before)
}

// crashLoops has the kubelet end at each start until the next boot. Plimsoll reboots the machine.
func (w *world) crashLoops(id int) {
	w.Helper()
	before := w.nodes()[0]
	const unit = "/run/systemd/system/kubelet.service.d"
	w.inside(id, "mkdir -p "+unit+"; printf '[Service]\nExecStart=\nExecStart=/bin/false\n' > "+unit+"/broken.conf; systemctl daemon-reload; systemctl restart kubelet")
	w.until("its kubelet crashes, and it is not Ready", 2*time.Minute, func() bool { n := w.nodes(); return !kubelet.Ready(&n[0]) })
	w.comesBack("Plimsoll has rebooted it, and it is Ready", &before)
}
