package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/kubelet"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
)

// kubelets do what the agents in the virtual machines would. The emulator stops while it reports
// boots and halts; they act on them afterwards, in order, until the API server has taken it.
type kubelets struct {
	client  kubernetes.Interface
	token   string // that machines must have been given
	version string // of the API server, and so of the kubelets
	log     *log.Logger
	// processes says which nodes have their pods run as processes; the others are KWOK's, and all
	// if it is nil.
	processes func(*corev1.Node) bool
	// apply creates what a manifest of a server says. Without it, no server joins.
	apply func(ctx context.Context, manifest []byte) error

	// By UUID: what is on the disks of machines, whose discs are taken away.
	agents map[string]*agent

	mu    sync.Mutex
	queue []event
	more  chan struct{} // holds something while the queue does
}

// event is a boot or a halt.
type event struct {
	boot *pvesim.Boot
	halt *pvesim.Halt
}

func newKubelets(client kubernetes.Interface, token string, l *log.Logger) *kubelets {
	return &kubelets{client: client, token: token, log: l, agents: map[string]*agent{}, more: make(chan struct{}, 1)}
}

func (k *kubelets) booted(b pvesim.Boot) { k.put(event{boot: &b}) }
func (k *kubelets) halted(h pvesim.Halt) { k.put(event{halt: &h}) }

func (k *kubelets) put(e event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queue = append(k.queue, e)
	select {
	case k.more <- struct{}{}:
	default:
	}
}

func (k *kubelets) take() (event, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.queue) == 0 {
		return event{}, false
	}
	e := k.queue[0]
	k.queue = k.queue[1:]
	return e, true
}

// run acts on boots and halts until the context is done.
func (k *kubelets) run(ctx context.Context) {
	var pods sync.WaitGroup
	defer pods.Wait()
	for {
		e, there := k.take()
		if !there {
			select {
			case <-ctx.Done():
				return
			case <-k.more:
			}
			continue
		}
		name, back := "", false
		for ; ctx.Err() == nil; pause(ctx, time.Second) {
			var err error
			if name, back, err = k.act(ctx, e); err == nil {
				break
			}
			k.log.Print(err) // the API server is away; an agent tries for ever
		}
		if back {
			pods.Go(func() { k.restartPods(ctx, name) })
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// act does what an event asks for once, and returns the node that has come back, if one has. An
// error is the API server's; what is wrong with a machine is in the log and is no error.
func (k *kubelets) act(ctx context.Context, e event) (name string, back bool, err error) {
	if e.halt != nil {
		return "", false, k.fallSilent(ctx, e.halt)
	}
	if k.version == "" {
		v, err := k.client.Discovery().ServerVersion()
		if err != nil {
			return "", false, err
		}
		k.version = v.GitVersion
	}
	return k.join(ctx, e.boot)
}

// join registers the node of a machine that has booted, or wakes it.
func (k *kubelets) join(ctx context.Context, b *pvesim.Boot) (name string, back bool, err error) {
	a, err := k.agentOf(ctx, b)
	if err != nil || a == nil {
		return "", false, err
	}
	n, wrong := a.node(b, k.version)
	if wrong == nil && a.serves != nil && k.apply == nil {
		wrong = errors.New("the lab has a control plane of its own")
	}
	if wrong != nil {
		k.log.Printf("VM %d (%s) does not join: %v", b.VMID, b.Name, wrong)
		return "", false, nil
	}
	if k.processes != nil && k.processes(n) {
		delete(n.Labels, lab.KubeletLabel)
		n.Labels[kubelet.Label] = kubelet.LabelValue
	}
	if a.serves != nil {
		k.token = a.serves.token
		if err := a.serves.deploy(ctx, k.apply); err != nil {
			return "", false, fmt.Errorf("VM %d (%s): %w", b.VMID, b.Name, err)
		}
	}
	_, err = k.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	switch {
	case err == nil:
		k.log.Printf("VM %d (%s) has joined as node %s", b.VMID, b.Name, n.Name)
		return "", false, nil
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err):
		k.log.Printf("VM %d (%s) does not join: %v", b.VMID, b.Name, err)
		return "", false, nil
	case !apierrors.IsAlreadyExists(err):
		return "", false, err
	}
	old, err := k.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return "", false, err
	}
	if old.Status.NodeInfo.SystemUUID != b.UUID {
		k.log.Printf("VM %d (%s) does not join: node %s is that of machine %s, and names are not given away", b.VMID, b.Name, n.Name, old.Status.NodeInfo.SystemUUID)
		return "", false, nil
	}
	return n.Name, n.Labels[lab.KubeletLabel] != "", k.wake(ctx, n)
}

// agentOf is the agent in a machine, as the disc of its first boot made it. Without one, the
// machine does not join. An error is the API server's.
func (k *kubelets) agentOf(ctx context.Context, b *pvesim.Boot) (*agent, error) {
	if a := k.agents[b.UUID]; a != nil {
		return a, nil
	}
	a, wrong := readAgent(b.UserData)
	if errors.Is(wrong, errNotToldToJoin) {
		n, err := k.nodeOf(ctx, b.UUID)
		if err != nil {
			return nil, err
		}
		if n != nil { // that it joined was before this process
			a, wrong = agentOfNode(n), nil
		}
	} else if wrong == nil && a.serves == nil && a.token != k.token {
		wrong = fmt.Errorf("%s: the token is not that of the server %s", a.kind, a.server)
	}
	if wrong != nil {
		k.log.Printf("VM %d (%s) does not join: %v", b.VMID, b.Name, wrong)
		return nil, nil
	}
	k.agents[b.UUID] = a
	return a, nil
}

// nodeOf is the node of a machine, or nil.
func (k *kubelets) nodeOf(ctx context.Context, uuid string) (*corev1.Node, error) {
	list, err := k.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].Status.NodeInfo.SystemUUID == uuid {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// agentOfNode is the agent that registered a node.
func agentOfNode(n *corev1.Node) *agent {
	a := &agent{name: n.Name, labels: n.Labels, taints: n.Spec.Taints, providerID: n.Spec.ProviderID, reserved: corev1.ResourceList{}}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		left := n.Status.Capacity[name]
		left.Sub(n.Status.Allocatable[name])
		a.reserved[name] = left
	}
	return a
}

// wake makes a node heard again. Its labels and taints stay as they are: kubelets give them at
// registration only.
func (k *kubelets) wake(ctx context.Context, n *corev1.Node) error {
	status := map[string]any{"status": map[string]any{
		"capacity": n.Status.Capacity, "allocatable": n.Status.Allocatable,
		"nodeInfo": map[string]any{"bootID": n.Status.NodeInfo.BootID, "kubeletVersion": n.Status.NodeInfo.KubeletVersion},
	}}
	if err := k.patchNode(ctx, n.Name, status, "status"); err != nil {
		return err
	}
	k.log.Printf("node %s is back", n.Name)
	return k.mark(ctx, n.Name, n.Labels, nil)
}

// fallSilent is the end of a machine's kubelet: no one reports its node any more, and Kubernetes
// finds that out by itself.
func (k *kubelets) fallSilent(ctx context.Context, h *pvesim.Halt) error {
	n, err := k.nodeOf(ctx, h.UUID)
	if err != nil || n == nil {
		return err
	}
	k.log.Printf("node %s falls silent: VM %d does not run", n.Name, h.VMID)
	err = k.mark(ctx, n.Name, map[string]string{}, h.At.UTC().Format(time.RFC3339))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// mark labels a node for KWOK, or another that does it, with whether to play its kubelet, and for
// the traffic plane with since when it does not run.
func (k *kubelets) mark(ctx context.Context, node string, labels map[string]string, halted any) error {
	change := map[string]any{lab.KubeletLabel: nil, kubelet.Label: nil}
	for key := range change {
		if value, there := labels[key]; there {
			change[key] = value
		}
	}
	return k.patchNode(ctx, node, map[string]any{"metadata": map[string]any{
		"labels": change, "annotations": map[string]any{plane.AnnotationHalted: halted},
	}})
}

func (k *kubelets) patchNode(ctx context.Context, name string, change map[string]any, sub ...string) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, sub...)
	return err
}
