package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Node is a node as the machine side needs it: who it is, and whether it is there.
type Node struct {
	Name       string
	UID        string
	ProviderID string
	SystemUUID string // as the machine's system management BIOS reports it
	Labels     map[string]string
	Ready      bool
	Joined     time.Time
	ReadySince time.Time // when Ready last became true; zero where that is not known
	Version    string    // of its kubelet
}

// Nodes reads and deletes nodes, and looks at what is on them, without copies.
type Nodes struct {
	client   kubernetes.Interface
	patience time.Duration
}

// NewNodes makes a client. It makes no call.
func NewNodes(cfg *rest.Config) (*Nodes, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 { // a last look is several calls, and may be taken at many machines at once
		cfg.QPS, cfg.Burst = 50, 100
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return &Nodes{client, patience}, nil
}

// page is how many nodes one answer holds, so that a large cluster is not one large answer.
const page = 500

// List returns all nodes, sorted by name.
func (n *Nodes) List(ctx context.Context) ([]Node, error) {
	ctx, cancel := context.WithTimeout(ctx, n.patience)
	defer cancel()
	var all []Node
	for from := ""; ; {
		list, err := n.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: page, Continue: from})
		if err != nil {
			return nil, fmt.Errorf("nodes: %w", err)
		}
		for i := range list.Items {
			all = append(all, describe(&list.Items[i]))
		}
		if from = list.Continue; from == "" {
			break
		}
	}
	slices.SortFunc(all, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func describe(n *corev1.Node) Node {
	ready, since := readyByKubelet(n)
	return Node{
		Name: n.Name, UID: string(n.UID), ProviderID: n.Spec.ProviderID, SystemUUID: n.Status.NodeInfo.SystemUUID,
		Labels: n.Labels, Ready: ready, ReadySince: since, Joined: n.CreationTimestamp.Time, Version: n.Status.NodeInfo.KubeletVersion,
	}
}

// Remove deletes the node of that name, and no other that may come under it meanwhile. A node that
// is gone already is no error.
func (n *Nodes) Remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, n.patience)
	defer cancel()
	if err := removeNode(ctx, n.client, name, func(string, types.UID) error { return nil }); err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	return nil
}

func removeNode(ctx context.Context, client kubernetes.Interface, name string, meant func(string, types.UID) error) error {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		err = meant(name, node.UID)
	}
	if err == nil {
		err = client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &node.UID}})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
