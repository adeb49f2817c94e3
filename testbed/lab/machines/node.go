package machines

import (
	"fmt"
	"maps"
	"net/netip"
	"strconv"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/lab"
)

// node is the Node that a kubelet registers: everything but its conditions, which KWOK keeps.
func (a *agent) node(b *pvesim.Boot, version string) (*corev1.Node, error) {
	status, err := a.status(b, version)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{
		corev1.LabelHostname: a.name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		lab.KubeletLabel: lab.KubeletLabelValue,
	}
	maps.Copy(labels, a.labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: a.name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: a.providerID, Taints: a.taints},
		Status:     *status,
	}, nil
}

func (a *agent) status(b *pvesim.Boot, version string) (*corev1.NodeStatus, error) {
	capacity, err := capacityOf(b.Config)
	if err != nil {
		return nil, err
	}
	address, err := addressOf(b)
	if err != nil {
		return nil, err
	}
	allocatable := capacity.DeepCopy()
	for name, reserved := range a.reserved {
		left := allocatable[name]
		if left.Sub(reserved); left.Sign() < 0 {
			return nil, fmt.Errorf("kubelet: %s is reserved of %s, and the machine has %s", reserved.String(), name, printed(capacity[name]))
		}
		allocatable[name] = left
	}
	return &corev1.NodeStatus{
		Capacity: capacity, Allocatable: allocatable,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: a.name}},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: b.UUID, SystemUUID: b.UUID, BootID: bootID(b), KernelVersion: "6.12.0-lab", OSImage: "Lab", ContainerRuntimeVersion: "containerd://2.0.0-lab",
			KubeletVersion: version, OperatingSystem: "linux", Architecture: "amd64",
		},
	}, nil
}

// bootID distinguishes one boot of a machine from the next.
func bootID(b *pvesim.Boot) string { return b.UUID + "-" + strconv.FormatInt(b.At.UnixMilli(), 36) }

func printed(q resource.Quantity) string { return q.String() }

// pods is how many of them a kubelet takes by default.
const pods = 110

// capacityOf is what a virtual machine of a configuration has.
func capacityOf(config map[string]string) (corev1.ResourceList, error) {
	number := func(key string, otherwise int64) (int64, error) {
		text, there := config[key]
		if !there {
			return otherwise, nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return 0, fmt.Errorf("machine: %s: must be a number of at least 1, was %q", key, text)
		}
		return n, nil
	}
	cores, err := number("cores", 1)
	if err != nil {
		return nil, err
	}
	sockets, err := number("sockets", 1)
	if err != nil {
		return nil, err
	}
	memory, err := number("memory", 512)
	if err != nil {
		return nil, err
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(cores*sockets, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory<<20, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(pods, resource.DecimalSI),
	}, nil
}

// addressOf is the machine's address: the first that its disc gives it, or one that a DHCP server
// would, which here goes by the VMID.
func addressOf(b *pvesim.Boot) (string, error) {
	var c struct {
		Ethernets map[string]struct{ Addresses []string }
	}
	if err := yaml.Unmarshal(b.NetworkConfig, &c); err != nil {
		return "", fmt.Errorf("network-config: %w", err)
	}
	if given := c.Ethernets["eth0"].Addresses; len(given) > 0 {
		p, err := netip.ParsePrefix(given[0])
		if err != nil {
			return "", fmt.Errorf("network-config: eth0: %w", err)
		}
		return p.Addr().String(), nil
	}
	return netip.AddrFrom4([4]byte{10, 99, byte(b.VMID >> 8), byte(b.VMID)}).String(), nil
}
