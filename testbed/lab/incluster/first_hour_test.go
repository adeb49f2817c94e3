//go:build lab

package incluster

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/newcomer"
)

// newcomers is the lab as a newcomer's cluster.
type newcomers struct {
	*testing.T
	lab   *lab.Lab
	pools dynamic.ResourceInterface
}

func (c *newcomers) Kubeconfig() string { return c.lab.Kubeconfig() }

func (c *newcomers) Apply(manifest string) {
	c.Helper()
	if err := c.lab.Create(c.Context(), []byte(manifest)); err != nil {
		c.Fatal(err)
	}
}

func (c *newcomers) Activate(pool string) {
	c.Helper()
	must.Get(c.pools.Patch(c.Context(), pool, types.MergePatchType, []byte(`{"spec": {"mode": "Active"}}`), metav1.PatchOptions{}))(c)
}

func (c *newcomers) Pool(name string) (p v1alpha1.VMPool) {
	c.Helper()
	text := must.Get(must.Get(c.pools.Get(c.Context(), name, metav1.GetOptions{}))(c).MarshalJSON())(c)
	if err := json.Unmarshal(text, &p); err != nil {
		c.Fatal(err)
	}
	return p
}

// A newcomer gets from an empty folder to a node by the commands of the pages. The machine joins
// by what is on its first-boot disc, with the token that the newcomer wrote.
func TestTheFirstHourInALab(t *testing.T) {
	t.Parallel() // it has a lab of its own
	c := &newcomers{T: t, lab: labtest.Up(t, lab.Config{Parts: []lab.Part{&lab.KWOK{}}})}
	// Its time passes faster: begun before the lab, its clock would be minutes ahead by now.
	n := newcomer.New(t, labtest.Program(t), root)
	must.Do(t, c.lab.Add(t.Context(), &machines.Joining{Cluster: n.Sim, Token: newcomer.JoinToken}))
	c.pools = dynamic.NewForConfigOrDie(c.lab.REST()).Resource(v1alpha1.GroupVersion.WithResource("vmpools"))
	c.Apply(strings.Join([]string{
		`{apiVersion: v1, kind: Node, metadata: {name: cp-1, labels: {node-role.kubernetes.io/control-plane: "true", ` + lab.KubeletLabel + `: ` + lab.KubeletLabelValue + `}},
  spec: {taints: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]}}`,
		`{apiVersion: v1, kind: Namespace, metadata: {name: shop}}`,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {selector: {matchLabels: {app: web}},
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: web, resources: {requests: {cpu: "1", memory: 1Gi}}}]}}}}`,
	}, "\n---\n"))
	status := []byte(`{"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}], "nodeInfo": {"kubeletVersion": "v1.34.1+rke2r1", "osImage": "Debian GNU/Linux 13"}}}`)
	must.Get(kubernetes.NewForConfigOrDie(c.lab.REST()).CoreV1().Nodes().Patch(t.Context(), "cp-1", types.StrategicMergePatchType, status, metav1.PatchOptions{}, "status"))(t)
	n.FirstHour(c)
}
