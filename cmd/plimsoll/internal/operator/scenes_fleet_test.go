package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/grpc/provider"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
)

const halfGiB = 512 * pricing.MiB

// machineScenes are about making machines, and about what is seen of them.
var machineScenes = []scene{
	{
		name: "answers are lost and tasks fail", services: []*service{deployment("web", 4, 500, halfGiB)}, long: 5 * time.Minute,
		acts: []act{
			fault(0, "lose answer POST …/clone times=1"), fault(0, "warn clone times=2"), fault(0, "fail start times=1"), fault(0, "answer 500 PUT …/config times=1"),
			fault(0, "answer 500 DELETE …/content/… times=2"),
		},
		says: []string{pvecode.AnswerLost, pvecode.TaskWarnings, pvecode.TaskFailed, pvecode.Retry, pvecode.DiscKept},
	},
	{
		name: "a guest hangs while it boots", objects: scenePool + "  joinTimeout: 2m\n", services: []*service{deployment("web", 1, 500, halfGiB)}, long: 5 * time.Minute,
		acts: []act{fault(0, "fail boot times=1")},
		says: []string{pvecode.JoinTimeout},
	},
	{
		name: "a task never ends", services: []*service{deployment("web", 1, 500, halfGiB)}, long: 20 * time.Minute,
		acts: []act{fault(0, "slow start by=40m times=1")},
		says: []string{pvecode.TaskHangs},
	},
	{
		name: "a host is online and does not answer", services: []*service{deployment("web", 3, 1000, halfGiB)}, long: 5 * time.Minute,
		acts: []act{fault(0, "answer 596 PUT /nodes/pve1/…/config times=1"), fault(25*time.Second, "answer 596 GET /nodes/pve1/tasks for=2m")},
		says: []string{pvecode.HostSilent},
	},
	{
		name: "the intents are lost", services: []*service{deployment("web", 3, 1000, halfGiB)}, long: 8 * time.Minute,
		acts: []act{
			fault(0, "fail boot nth=3"),
			{at: 3 * time.Minute, do: func(l *setting) {
				l.marks(l.ran(), "cluster="+lifeCluster, "")
				l.forget()
			}},
		},
		says: []string{pvecode.Adopted, pvecode.Unmarked, pvecode.NeverJoined},
	},
	{
		name: "a machine belongs to another cluster", services: []*service{deployment("web", 2, 1000, halfGiB)}, long: 5 * time.Minute,
		acts: []act{{at: 2 * time.Minute, do: func(l *setting) {
			l.marks(l.ran(), "cluster="+lifeCluster, "cluster=another")
			l.forget()
		}}},
		says: []string{pvecode.OtherCluster},
	},
	{
		name: "a machine is found stopped", services: []*service{deployment("web", 1, 1000, halfGiB)}, long: 70 * time.Minute,
		before: func(l *setting) { l.cfg.Interval = calmPace },
		acts: []act{{at: 2 * time.Minute, do: func(l *setting) {
			l.halts(l.ran())
			l.forget()
		}}},
		says: []string{pvecode.Unfinished},
	},
	{
		name: "the intents cannot be written", services: []*service{deployment("web", 1, 1000, halfGiB)}, long: 3 * time.Minute,
		before: func(l *setting) { l.leads.intents = &fullDisk{} },
		acts: []act{
			{at: 30 * time.Second, do: func(l *setting) { l.leads.intents.(*fullDisk).full = true }},
			{at: 2 * time.Minute, do: func(l *setting) { l.leads.intents.(*fullDisk).full = false }},
		},
		says: []string{pvecode.IntentNotKept},
	},
	{
		name: "a machine is migrated", objects: scenePool + "  clone: full\n", services: []*service{deployment("web", 1, 1000, halfGiB)}, long: 5 * time.Minute,
		acts: []act{{at: 2 * time.Minute, do: func(l *setting) {
			v := l.ran()
			to := map[string]string{"pve1": "pve2", "pve2": "pve3", "pve3": "pve1"}[v.Host]
			err := l.sim.Console().Run(fmt.Sprintf("pvesh create /nodes/%s/qemu/%d/migrate --target %s --online 1 --with-local-disks 1", v.Host, v.ID, to))
			l.note("A PERSON MIGRATES %d TO %s: %v", v.ID, to, err)
		}}},
		says: []string{pvecode.Moved},
	},
	{
		name: "a host leaves the cluster", services: []*service{deployment("web", 3, 1000, halfGiB)}, long: 4 * time.Minute,
		acts: []act{{at: 2 * time.Minute, do: func(l *setting) { l.way.host = "pve3" }}},
		says: []string{placement.CodeHostUnknown},
	},
	{
		name: "machines are not listed any more", services: []*service{deployment("web", 1, 1000, halfGiB)}, long: 5 * time.Minute,
		acts: []act{{at: 2 * time.Minute, do: func(l *setting) { l.inject(fmt.Sprintf("revoke VM.Audit path=/vms/%d for=2m", l.ran().ID)) }}},
		says: []string{pvecode.Hidden, pvecode.PermissionsShrunk},
	},
	{
		name: "not even templates are listed", long: 2 * time.Minute,
		acts: []act{fault(time.Minute, "revoke VM.Audit for=30s")},
		says: []string{pvecode.InventoryEmpty},
	},
	{
		name: "cluster-autoscaler asks for what cannot be", long: 4 * time.Minute, objects: strings.NewReplacer(
			"  max: 4\n", "  max: 4\n  scaledBy: ClusterAutoscaler\n  placement: {hosts: [pve1, pve2], maintenance: [pve1]}\n",
			"disk: 20GiB}]", "disk: 20GiB}, {name: roomy, cpu: 2, memory: 80GiB, disk: 20GiB}, {name: busy, cpu: 400, memory: 4GiB, disk: 20GiB}]").Replace(scenePool),
		before: provided,
		acts: []act{
			{at: time.Minute, do: func(l *setting) { l.asks(0); l.asks(1); l.asks(2) }},
			fault(2*time.Minute, "no quorum for=1m"),
			{at: 150 * time.Second, do: func(l *setting) { l.asks(0) }},
		},
		says: []string{placement.CodeNoHost, placement.CodeHostInMaintenance, placement.CodeHostNotInPool, placement.CodeNoMemory, placement.CodeNoCPU, pvecode.NoQuorum, pvecode.Frozen, pvecode.NoInventory},
	},
}

// lifeCluster is the UID of the lives' cluster.
const lifeCluster = "6f1d1b9e-6a0b-4c55-9c55-0d3a3a1f0c01"

// ran is the first of our machines that is a node.
func (l *setting) ran() pvesim.VMState {
	for _, v := range l.machines() {
		if slices.ContainsFunc(l.nodes, func(n *townNode) bool { return n.vmid == v.ID }) {
			return v
		}
	}
	l.fault("no machine is a node")
	return pvesim.VMState{}
}

// marks has a person write something else into a machine's notes.
func (l *setting) marks(v pvesim.VMState, old, text string) {
	notes := strings.ReplaceAll(v.Config["description"], old, text)
	if err := l.person.VM(v.Host, v.ID).SetConfig(context.Background(), map[string]string{"description": notes}, nil, ""); err != nil || notes == v.Config["description"] {
		l.fault("the notes of %d are %q: %v", v.ID, notes, err)
	}
}

// halts has a person stop a machine.
func (l *setting) halts(v pvesim.VMState) {
	if _, err := l.person.VM(v.Host, v.ID).Stop(context.Background(), false); err != nil {
		l.fault("stop %d: %v", v.ID, err)
	}
	l.sim.Advance(10 * time.Second)
}

// forget has the process start again without its intents.
func (l *setting) forget() {
	l.leads.intents = &intents.Memory{}
	if err := l.start(); err != nil {
		l.fault("it does not start again: %v", err)
	}
}

// fullDisk keeps intents, unless there is no room for them.
type fullDisk struct {
	intents.Memory
	full bool
}

func (d *fullDisk) Put(i intents.Intent) error {
	if d.full {
		return errors.New("no space left on device")
	}
	return d.Memory.Put(i)
}

// departing is the way to a cluster that a host was taken out of, as pvecm delnode does.
type departing struct {
	http.RoundTripper
	host string
}

// RoundTrip omits the host from the lists.
func (d *departing) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := d.RoundTripper.RoundTrip(r)
	if err != nil || d.host == "" || !strings.HasSuffix(r.URL.Path, "/cluster/status") && !strings.HasSuffix(r.URL.Path, "/cluster/resources") {
		return a, err
	}
	var body struct {
		Data []map[string]any `json:"data"`
	}
	if err := errors.Join(json.NewDecoder(a.Body).Decode(&body), a.Body.Close()); err != nil {
		return nil, err
	}
	body.Data = slices.DeleteFunc(body.Data, func(f map[string]any) bool {
		return f["node"] == d.host || f["type"] == "node" && f["name"] == d.host
	})
	for _, f := range body.Data {
		if n, counts := f["nodes"].(float64); counts {
			f["nodes"] = n - 1
		}
	}
	text, err := json.Marshal(body)
	a.Body, a.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return a, err
}

// present are the machines of the process as it is now.
type present struct{ l *setting }

func (p present) List(ctx context.Context) (loop.MachineState, error) {
	return p.l.fleet.ForAutoscaler().List(ctx)
}

func (p present) Create(ctx context.Context, o loop.Order) error {
	return p.l.fleet.ForAutoscaler().Create(ctx, o)
}

func (p present) Delete(ctx context.Context, name string) error {
	return p.l.fleet.ForAutoscaler().Delete(ctx, name)
}

// provided has the process serve cluster-autoscaler.
func provided(l *setting) {
	server, err := provider.New(provider.Config{Machines: present{l}, Now: l.now})
	if err != nil {
		l.fault("%v", err)
		return
	}
	l.upstream = server
	l.cfg.Provider = true
	l.cfg.Offer = func(pools []nodescaler.Pool, prices *pricing.Book) error {
		var all []provider.Pool
		for _, p := range pools {
			all = append(all, provider.Pool{Pool: p})
		}
		return server.Configure(all, prices)
	}
}

// asks has cluster-autoscaler ask for a machine of a group, by its place, and hears why it gets no
// machine.
func (l *setting) asks(group int) {
	all, err := l.upstream.NodeGroups(context.Background(), &externalgrpc.NodeGroupsRequest{})
	if err == nil {
		_, err = l.upstream.NodeGroupIncreaseSize(context.Background(), &externalgrpc.NodeGroupIncreaseSizeRequest{Id: all.GetNodeGroups()[group].GetId(), Delta: 1})
	}
	l.note("CLUSTER-AUTOSCALER ASKS: %v", err)
	if err != nil {
		l.hearTexts(err.Error())
	}
}

// starts has a person start a machine.
func (l *setting) starts(v pvesim.VMState) {
	_, err := l.person.VM(v.Host, v.ID).Start(context.Background())
	l.note("A PERSON STARTS %d: %v", v.ID, err)
}
