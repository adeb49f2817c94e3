package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/statedir"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// namingNamespace is the namespace whose UID names a cluster: each cluster has it from its
// beginning, with a UID of its own, and it cannot be deleted.
const namingNamespace = "kube-system"

// identityRest is the time between two questions for the cluster's UID.
const identityRest = 5 * time.Second

// reachCluster connects a fleet with the cluster that its machines are nodes of, and returns what
// names that. Without a kubeconfig the fleet sees no nodes, and the name is that of the file or of
// the state.
func (s *running) reachCluster(ctx context.Context, file string, state *statedir.Folder, cfg *pve.FleetConfig) (string, error) {
	to, err := s.rest()
	if s.Kubeconfig == "" && errors.Is(err, connect.ErrNoCluster) {
		fmt.Fprintln(s.env.Stderr, "note: without a kubeconfig it is not seen which machines have joined: none fails for not having done so, and first-boot discs stay until their machines go")
		return s.keptClusterID(file, state)
	}
	if err != nil {
		return "", err
	}
	nodes, err := kube.NewNodes(to)
	if err != nil {
		return "", err
	}
	cfg.Nodes, cfg.LastLook, cfg.RemoveNode = clusterNodes{nodes}.list, nodes.Sight, nodes.Remove
	return s.clusterUID(ctx, to)
}

// clusterUID reads what names the cluster, and waits for as long as the API server does not answer:
// machines that are marked with another name are never touched again, so that none is guessed.
func (s *running) clusterUID(ctx context.Context, to *rest.Config) (string, error) {
	client, err := typedv1.NewForConfig(to)
	if err != nil {
		return "", fmt.Errorf("cluster: %w", err)
	}
	said := false
	for {
		uid, err := readClusterUID(ctx, client)
		switch {
		case err == nil && s.ClusterID != "" && s.ClusterID != uid:
			return "", cli.WithCode(cli.ExitConfig, pricing.NewFault("clusterID", fmt.Sprintf("must be the UID of the cluster's namespace %s, %s, or omitted, was %s", namingNamespace, uid, s.ClusterID)))
		case err == nil:
			return uid, nil
		case apierrors.IsUnauthorized(err):
			return "", cli.WithHint("renew the credentials of the kubeconfig or of the pod's account; kubectl auth whoami shows whether they are accepted",
				cli.WithCode(cli.ExitConfig, fmt.Errorf("kubeconfig: must hold credentials that the API server accepts: %w", err)))
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err), uid != "":
			return "", cli.WithHint("allow get on namespaces with the name "+namingNamespace+", as 'plimsoll manifests' does", cli.WithCode(cli.ExitConfig, fmt.Errorf("read what names the cluster: %w", err)))
		}
		if !said {
			fmt.Fprintln(s.env.Stderr, "waiting for the API server, to read what names the cluster:", err)
			said = true
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(identityRest):
		}
	}
}

// readClusterUID asks once. With an error that is for good it returns what was read, too.
func readClusterUID(ctx context.Context, client typedv1.NamespacesGetter) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	n, err := client.Namespaces().Get(ctx, namingNamespace, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if uid := string(n.UID); !settings.ValidClusterID(uid) {
		return uid + " ", fmt.Errorf("namespace %s has the UID %q", namingNamespace, uid)
	}
	return string(n.UID), nil
}

// clusterFile keeps the name of a cluster that nothing else names.
const clusterFile = "cluster-id"

// keptClusterID is the name in the file, or the one that was made at the first start and is kept
// with the orders.
func (s *running) keptClusterID(file string, state *statedir.Folder) (string, error) {
	if s.ClusterID != "" {
		return s.ClusterID, nil
	}
	kept := state.File(clusterFile)
	data, err := kept.Read()
	if err != nil {
		return "", cli.WithCode(cli.ExitConfig, fmt.Errorf("state: %w", err))
	}
	if id := strings.TrimSpace(string(data)); len(data) > 0 {
		if !settings.ValidClusterID(id) {
			return "", cli.WithCode(cli.ExitConfig, fmt.Errorf("state: %s must hold what names the cluster, was %q; write clusterID into %s, as the notes of the machines have it in cluster=", string(kept), id, file))
		}
		return id, nil
	}
	id := strings.ToLower(rand.Text())
	if err := kept.Replace([]byte(id + "\n")); err != nil {
		return "", cli.WithCode(cli.ExitConfig, fmt.Errorf("state: %w", err))
	}
	fmt.Fprintf(s.env.Stderr, "note: made a name for the cluster, which the machines are marked with; without the state it would be another, so write into %s:\nclusterID: %s\n", file, id)
	return id, nil
}

// clusterOnce is what names the cluster, if it can be read now, for a verb that only looks.
func (s *running) clusterOnce(ctx context.Context) string {
	to, err := s.rest()
	if err != nil {
		return ""
	}
	client, err := typedv1.NewForConfig(to)
	if err != nil {
		return ""
	}
	uid, err := readClusterUID(ctx, client)
	if err != nil {
		return ""
	}
	return uid
}
