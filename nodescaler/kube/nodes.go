package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
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
		cfg.QPS = -1
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return &Nodes{client, copies.Patience}, nil
}

// List returns all nodes, sorted by name.
func (n *Nodes) List(ctx context.Context) ([]Node, error) {
	ctx, cancel := context.WithTimeout(ctx, n.patience)
	defer cancel()
	var all []Node
	err := pages(ctx, "nodes", metav1.ListOptions{}, n.client.CoreV1().Nodes().List, func(o runtime.Object) error {
		if is, ok := o.(*corev1.Node); ok {
			all = append(all, describe(kept.ShortNode(is)))
			all[len(all)-1].Version = is.Status.NodeInfo.KubeletVersion
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// paged is a list that may go on in another answer.
type paged interface {
	runtime.Object
	metav1.ListInterface
}

// pages reads a list page by page.
func pages[L paged](ctx context.Context, what string, how metav1.ListOptions, list func(context.Context, metav1.ListOptions) (L, error), one func(runtime.Object) error) error {
	how.Limit = copies.Page
	for {
		some, err := list(ctx, how)
		if err == nil {
			err = meta.EachListItem(some, one)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if how.Continue = some.GetContinue(); how.Continue == "" {
			return nil
		}
	}
}

func describe(n *kept.Node) Node {
	return Node{
		Name: n.Name, UID: string(n.UID), ProviderID: n.Said.ProviderID, SystemUUID: n.Said.SystemUUID,
		Labels: n.Labels, Ready: n.Ready, ReadySince: n.ReadySince, Joined: n.CreationTimestamp.Time,
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
	return unlessGone(err)
}

// unlessGone is the error of a write, but for an object that is gone, or another one of its name.
func unlessGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
