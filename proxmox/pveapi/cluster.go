package pveapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Version is what the host that answered runs.
type Version struct {
	Version string // 9.2.11
	Release string // 9.2
}

// Version asks for the version. Every token may.
func (c *Client) Version(ctx context.Context) (Version, error) {
	f, err := get[fields](ctx, c, "/version", nil)
	if err != nil {
		return Version{}, err
	}
	return version(f)
}

func version(f fields) (Version, error) {
	v := Version{Version: f.text("version"), Release: f.text("release")}
	if v.Version == "" {
		return Version{}, &Error{Method: http.MethodGet, Path: "/version", Message: "the answer names no version", class: Garbled}
	}
	return v, nil
}

// ClusterStatus is who belongs to the cluster.
type ClusterStatus struct {
	Name    string // empty for a host without a cluster
	Quorate bool   // the host that answered is part of a majority
	Whole   bool   // Nodes are all that the cluster has, by its own count
	Nodes   []ClusterNode
}

// ClusterNode is a host as the others see it.
type ClusterNode struct {
	Name   string
	Online bool
	IP     string
	Local  bool // it is the host that answered
}

const clusterStatus = "/cluster/status"

// statusRead is an entry of the cluster's status: the cluster, or one of its hosts.
type statusRead struct {
	Type, Name, Quorate, Nodes, Online, IP, Local loose
}

// ClusterStatus asks who belongs to the cluster, whether there is a majority, and who is online.
func (c *Client) ClusterStatus(ctx context.Context) (ClusterStatus, error) {
	list, err := get[[]statusRead](ctx, c, clusterStatus, nil)
	if err != nil {
		return ClusterStatus{}, err
	}
	var s ClusterStatus
	clustered, count := false, 0
	for i := range list {
		switch e := &list[i]; e.Type {
		case "cluster":
			clustered = true
			s.Name, s.Quorate, count = string(e.Name), e.Quorate.is(), e.Nodes.count()
		case "node":
			s.Nodes = append(s.Nodes, ClusterNode{Name: string(e.Name), Online: e.Online.is(), IP: string(e.IP), Local: e.Local.is()})
		}
	}
	if len(s.Nodes) == 0 {
		return ClusterStatus{}, &Error{Method: http.MethodGet, Path: clusterStatus, Message: "the cluster's status names no host", class: Garbled}
	}
	if !clustered && len(s.Nodes) == 1 {
		s.Quorate = true // a host alone needs nobody's vote
	}
	// A host whose cluster file system has just started shows itself, and no cluster.
	s.Whole = clustered && count == len(s.Nodes)
	slices.SortFunc(s.Nodes, func(a, b ClusterNode) int { return cmp.Compare(a.Name, b.Name) })
	return s, nil
}

// Resource is a host, machine, storage or pool in the cluster's list. What the list does not say
// is nil or empty, which is not zero: of a machine that is younger than ten seconds it knows the
// number, the host, the tags and the lock, and nothing else.
type Resource struct {
	ID         string // qemu/100, node/pve1, storage/pve1/local
	Type       string // qemu, lxc, node, storage, pool, sdn, network
	Node       string
	VMID       int // 0 for what is no machine
	Name       string
	Status     string // running, stopped, unknown; of hosts and storages online, offline, available
	Pool       string
	Storage    string
	PluginType string
	Content    []string
	Tags       []string
	Lock       string
	HAState    string
	Template   *bool
	Shared     *bool
	CPU        *float64 // share of MaxCPU in use
	MaxCPU     *float64
	Mem        *int64
	MaxMem     *int64
	Disk       *int64
	MaxDisk    *int64
	Uptime     *int64 // seconds
}

// Resources returns all that the token may see, sorted by ID. It is ten seconds late in what
// machines and hosts do, and leaves out silently what the token may not see: it says that
// something is there, and never that something is not.
func (c *Client) Resources(ctx context.Context) ([]Resource, error) {
	list, err := get[[]resourceRead](ctx, c, "/cluster/resources", nil)
	if err != nil {
		return nil, err
	}
	all := make([]Resource, 0, len(list))
	for i := range list {
		all = append(all, list[i].resource())
	}
	slices.SortFunc(all, func(a, b Resource) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// resourceRead is an entry of the list as it is read, which is most of what a look costs: as
// fields, an entry would take three times as long.
type resourceRead struct {
	ID, Type, Node, VMID, Name, Status, Pool, Storage, PluginType, Content, Tags, Lock, HAState, Template, Shared loose

	CPU, MaxCPU, Mem, MaxMem, Disk, MaxDisk, Uptime loose
}

func (f *resourceRead) resource() Resource {
	r := Resource{
		ID: string(f.ID), Type: string(f.Type), Node: string(f.Node), VMID: f.VMID.count(), Name: string(f.Name),
		Status: string(f.Status), Pool: string(f.Pool), Storage: string(f.Storage), PluginType: string(f.PluginType),
		Content: splitList(string(f.Content)), Tags: splitList(string(f.Tags)), Lock: string(f.Lock), HAState: string(f.HAState),
		Template: f.Template.flag(), Shared: f.Shared.flag(),
		CPU: f.CPU.number(), MaxCPU: f.MaxCPU.number(),
		Mem: f.Mem.whole(), MaxMem: f.MaxMem.whole(), Disk: f.Disk.whole(), MaxDisk: f.MaxDisk.whole(),
		Uptime: f.Uptime.whole(),
	}
	kind, id, _ := strings.Cut(r.ID, "/")
	if r.VMID == 0 && (kind == "qemu" || kind == "lxc") {
		r.VMID, _ = strconv.Atoi(id)
	}
	return r
}

// VMIDFree asks whether no machine has this number. It is the one question about machines whose
// answer does not depend on what the token may see.
func (c *Client) VMIDFree(ctx context.Context, vmid int) (bool, error) {
	const path = "/cluster/nextid"
	if vmid < minVMID || vmid > maxVMID {
		return false, invalid(http.MethodGet, path, "vmid must be %d to %d, was %d", minVMID, maxVMID, vmid)
	}
	data, err := c.call(ctx, http.MethodGet, path+"?"+url.Values{"vmid": {strconv.Itoa(vmid)}}.Encode(), nil)
	if Is(err, Exists) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if got := asText(data); got != strconv.Itoa(vmid) {
		return false, &Error{Method: http.MethodGet, Path: path, Message: "the answer is not the number asked about: " + strconv.Quote(got), class: Garbled}
	}
	return true, nil
}

// VMIDGone asks whether no machine has this number, of a host that is part of a majority as it
// answers. One that was cut off goes on saying what it last knew, and a machine that was made since
// does not exist for it.
func (c *Client) VMIDGone(ctx context.Context, vmid int) (bool, error) {
	var judged, answered string
	status, err := c.ClusterStatus(context.WithValue(ctx, answerer{}, &judged))
	if err != nil {
		return false, err
	}
	gone, err := c.VMIDFree(context.WithValue(ctx, answerer{}, &answered), vmid)
	switch {
	case err != nil || !gone:
		return false, err
	case !status.Quorate || judged != answered:
		return false, &Error{Method: http.MethodGet, Path: "/cluster/nextid", Message: fmt.Sprintf("VMID %d is free to a host that may have been cut off", vmid), Endpoint: answered, class: NoQuorum}
	}
	return true, nil
}

// CertificateOwner is the host whose certificate has the fingerprint, if the cluster knows one.
func (c *Client) CertificateOwner(ctx context.Context, fingerprint string) (string, error) {
	nodes, err := get[[]fields](ctx, c, "/nodes", nil)
	for _, n := range nodes {
		if strings.EqualFold(n.text("ssl_fingerprint"), fingerprint) {
			return n.text("node"), nil
		}
	}
	return "", err
}
