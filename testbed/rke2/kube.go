package rke2

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plimsoll/plimsoll/proxmox/pve"
)

// cluster is a Kubernetes that is reached by a kubeconfig.
type cluster struct{ client kubernetes.Interface }

// Reached is the Kubernetes of a kubeconfig.
func Reached(kubeconfig []byte) (Kubernetes, error) {
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	cfg.Timeout = 5 * time.Second // machines are made meanwhile, and wait for it
	client, err := kubernetes.NewForConfig(cfg)
	return &cluster{client}, err
}

// Nodes are the cluster's nodes.
func (c *cluster) Nodes(ctx context.Context) ([]pve.Node, error) {
	list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var all []pve.Node
	for i := range list.Items {
		n := &list.Items[i]
		node := pve.Node{Name: n.Name, ProviderID: n.Spec.ProviderID, SystemUUID: n.Status.NodeInfo.SystemUUID, JoinedAt: n.CreationTimestamp.Time}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				node.Ready, node.ReadySince = true, c.LastTransitionTime.Time
			}
		}
		all = append(all, node)
	}
	return all, nil
}
