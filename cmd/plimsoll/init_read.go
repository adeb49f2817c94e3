package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/costs"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/starter"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// readProxmox reads what there is on Proxmox VE.
func (ask *initQuestion) readProxmox(ctx context.Context, env *cli.Env, seen *starter.Seen) error {
	client, err := ask.pve.Connect(ctx, env, 0)
	if err != nil {
		return err
	}
	defer client.Close()
	status, err := client.ClusterStatus(ctx)
	if err != nil {
		return cli.WithCode(cli.ExitUnreachable, err)
	}
	version, err := client.Version(ctx)
	if err != nil {
		return cli.WithCode(cli.ExitUnreachable, err)
	}
	seen.Name, seen.Release = status.Name, version.Version
	return readInventory(ctx, env.Stderr, client, &status, seen)
}

// readInventory reads hosts, machines, templates, storages and bridges, of hosts that are online,
// and says which templates are elsewhere.
func readInventory(ctx context.Context, say io.Writer, client *pveapi.Client, status *pveapi.ClusterStatus, seen *starter.Seen) error {
	all, err := client.Resources(ctx)
	if err != nil {
		return cli.WithCode(cli.ExitUnreachable, err)
	}
	seen.Zones, _ = client.Zones(ctx) // networks of which none is known are taken for bridges
	for _, n := range status.Nodes {
		if !n.Online {
			continue
		}
		h := starter.Host{Name: n.Name}
		for _, r := range all {
			if r.Type == "node" && r.Node == n.Name && r.MaxCPU != nil && r.MaxMem != nil {
				h.CPUs, h.Memory = int(*r.MaxCPU), pricing.Bytes(*r.MaxMem)
			}
		}
		if err := readHost(ctx, client, len(seen.Hosts) == 0, n.Name, seen); err != nil {
			return err
		}
		seen.Hosts = append(seen.Hosts, h)
	}
	for _, r := range all {
		if r.VMID != 0 {
			seen.VMIDs = append(seen.VMIDs, r.VMID)
		}
		if r.Type != "qemu" || r.Template == nil || !*r.Template {
			continue
		}
		if !slices.ContainsFunc(seen.Hosts, func(h starter.Host) bool { return h.Name == r.Node }) {
			fmt.Fprintf(say, "template %d is not looked at: its host %s is offline\n", r.VMID, r.Node)
			continue
		}
		t, err := readTemplate(ctx, client, &r)
		if err != nil {
			return cli.WithCode(cli.ExitUnreachable, err)
		}
		seen.Templates = append(seen.Templates, t)
	}
	return nil
}

// readHost reads a host's storages and bridges. Of the bridges those remain that all hosts have.
func readHost(ctx context.Context, client *pveapi.Client, first bool, host string, seen *starter.Seen) error {
	stores, err := client.Storages(ctx, host)
	if err != nil {
		return cli.WithCode(cli.ExitUnreachable, err)
	}
	for _, s := range stores {
		i := slices.IndexFunc(seen.Storages, func(o starter.Storage) bool { return o.Name == s.Name })
		if i < 0 {
			i = len(seen.Storages)
			seen.Storages = append(seen.Storages, starter.Storage{Name: s.Name, Type: s.Type, Shared: s.Shared, Content: s.Content})
		}
		if s.Active && s.Enabled {
			seen.Storages[i].Hosts = append(seen.Storages[i].Hosts, host)
		}
	}
	networks, err := client.Networks(ctx, host)
	if err != nil {
		return cli.WithCode(cli.ExitUnreachable, err)
	}
	var names []string
	for _, n := range networks {
		names = append(names, n.Name)
	}
	if first {
		seen.Bridges = names
		return nil
	}
	seen.Bridges = slices.DeleteFunc(seen.Bridges, func(b string) bool { return !slices.Contains(names, b) })
	return nil
}

// readTemplate reads what clones of a template would have from it.
func readTemplate(ctx context.Context, client *pveapi.Client, r *pveapi.Resource) (starter.Template, error) {
	config, err := client.VM(r.Node, r.VMID).Config(ctx)
	if err != nil {
		return starter.Template{}, err
	}
	t := starter.Template{VMID: r.VMID, Name: config.Name, Host: r.Node, CPU: config.CPUType(), Agent: config.Agent()}
	if disk, ok := config.Disks[config.BootDisk()]; ok {
		t.Storage, t.Disk = disk.Storage, pricing.Bytes(disk.Size)
	}
	_, card := pveapi.Properties(config.Raw["net0"])
	t.Bridge, t.VLAN = card["bridge"], card["tag"]
	return t, nil
}

// readNodes reads the nodes of the Kubernetes cluster.
func (ask *initQuestion) readNodes(ctx context.Context, env *cli.Env, seen *starter.Seen) error {
	if *ask.answers["join"] != "" && ask.kube == (connect.Kube{}) {
		return nil // it is said what the cluster runs
	}
	reach, _, err := ask.kube.Config(env)
	if err != nil {
		return cli.WithHint("give --kubeconfig, or --join rke2, k3s, kubeadm, talos or custom", err)
	}
	client, err := typedv1.NewForConfig(reach)
	if err != nil {
		return cli.WithCode(cli.ExitConfig, err)
	}
	ctx, cancel := context.WithTimeout(ctx, connect.Patience)
	defer cancel()
	list, err := client.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return connect.Unread(err)
	}
	for i := range list.Items {
		n := &list.Items[i]
		node := starter.Node{
			Name: n.Name, Version: n.Status.NodeInfo.KubeletVersion, OS: n.Status.NodeInfo.OSImage,
			ProviderID: n.Spec.ProviderID, ControlPlane: costs.ControlPlane(n.Labels),
		}
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				node.Address = cmp.Or(node.Address, a.Address)
			}
		}
		seen.Nodes = append(seen.Nodes, node)
	}
	return readKubeadm(ctx, client, seen)
}

// readKubeadm reads whether kubeadm made the cluster, and what nodes join it by. Without the right
// to read what kubeadm leaves in its clusters, it is as if that were not there.
func readKubeadm(ctx context.Context, client *typedv1.CoreV1Client, seen *starter.Seen) error {
	for _, object := range []struct{ namespace, name string }{
		{metav1.NamespaceSystem, "kubeadm-config"}, {metav1.NamespacePublic, "cluster-info"},
	} {
		found, err := client.ConfigMaps(object.namespace).Get(ctx, object.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
			return nil
		case err != nil:
			return connect.Unread(err)
		}
		seen.Kubeadm = true
		seen.APIServer, seen.CAHashes = clusterInfo(found.Data["kubeconfig"])
	}
	return nil
}

// clusterInfo is the server that nodes are to join through, and the hashes of its authorities' keys
// as kubeadm writes them. Of a text that is not of one cluster there is neither.
func clusterInfo(kubeconfig string) (server string, hashes []string) {
	config, err := clientcmd.Load([]byte(kubeconfig))
	if err != nil || len(config.Clusters) != 1 {
		return "", nil
	}
	for _, c := range config.Clusters {
		server = c.Server
		authorities, err := cert.ParseCertsPEM(c.CertificateAuthorityData)
		if err != nil {
			return server, nil
		}
		for _, a := range authorities {
			hashes = append(hashes, fmt.Sprintf("sha256:%x", sha256.Sum256(a.RawSubjectPublicKeyInfo)))
		}
	}
	return server, hashes
}
