package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A VMPool is a kind of virtual machine on Proxmox VE that may exist as a node of this cluster: how
// large, how many, where, and how it is made. It starts in mode Recommend, which makes and deletes
// nothing and says in its status what it would do. Machines are named after the pool.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=vmp,categories=plimsoll
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="ScaledBy",type=string,JSONPath=`.spec.scaledBy`
// +kubebuilder:printcolumn:name="Min",type=integer,JSONPath=`.spec.min`
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=`.spec.max`
// +kubebuilder:printcolumn:name="Machines",type=integer,JSONPath=`.status.machines.total`
// +kubebuilder:printcolumn:name="Joined",type=integer,JSONPath=`.status.machines.joined`,description="Machines that are nodes"
// +kubebuilder:printcolumn:name="Spare",type=integer,JSONPath=`.status.machines.spare`,description="Machines that joined once and are stopped"
// +kubebuilder:printcolumn:name="Cost/h",type=string,JSONPath=`.status.costPerHour`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Ordered",type=integer,JSONPath=`.status.machines.ordered`,priority=1
// +kubebuilder:printcolumn:name="Booting",type=integer,JSONPath=`.status.machines.booting`,priority=1
// +kubebuilder:printcolumn:name="Deleting",type=integer,JSONPath=`.status.machines.deleting`,priority=1
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.machines.failed`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 43 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')",messageExpression="'must have a name that begins a host name: 1 to 43 of a-z, 0-9 and -, a letter first and no - last, was ' + self.metadata.name"
type VMPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What machines there may be.
	// +required
	Spec VMPoolSpec `json:"spec"`
	// What machines there are.
	// +optional
	Status VMPoolStatus `json:"status,omitempty"`
}

// VMPoolList is a list of VMPools.
//
// +kubebuilder:object:root=true
type VMPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VMPool `json:"items"`
}

// VMPoolSpec is a kind of machine. Its keys, but for mode, approval, scaledBy and disruption, are
// those of a pool in the configuration file of plimsoll run, where the pool's name is in them too.
// By which policy machines are decided on is in that file: all pools are decided on together, or
// each would order for the same pods.
//
// +kubebuilder:validation:XValidation:rule="self.max >= self.min",fieldPath=".max",messageExpression="'must be at least min, which is %d, was %d'.format([self.min, self.max])"
// +kubebuilder:validation:XValidation:rule="self.vmids.first > self.vmids.last || self.vmids.last - self.vmids.first + 1 >= self.max",fieldPath=".vmids",messageExpression="'must have room for max, %d machines, was %d-%d'.format([self.max, self.vmids.first, self.vmids.last])"
// +kubebuilder:validation:XValidation:rule="!has(self.template.vmid) || self.template.vmid < self.vmids.first || self.template.vmid > self.vmids.last",fieldPath=".vmids",messageExpression="'must not hold the template %d, was %d-%d'.format([self.template.vmid, self.vmids.first, self.vmids.last])"
// +kubebuilder:validation:XValidation:rule="!has(self.template.byHost) || self.template.byHost.all(h, self.template.byHost[h] < self.vmids.first || self.template.byHost[h] > self.vmids.last)",fieldPath=".vmids",messageExpression="'must not hold a template of template.byHost, was %d-%d'.format([self.vmids.first, self.vmids.last])"
// +kubebuilder:validation:XValidation:rule="!has(self.storage) || has(self.clone) && self.clone == 'full'",fieldPath=".storage",messageExpression="'must be omitted unless clone is full: a linked clone lies where its template does, was ' + self.storage"
// +kubebuilder:validation:XValidation:rule="!has(self.format) || has(self.clone) && self.clone == 'full'",fieldPath=".format",messageExpression="'must be omitted unless clone is full, was ' + self.format"
// +kubebuilder:validation:XValidation:rule="!has(self.placement) || !has(self.placement.hosts) || !has(self.template.byHost) || self.placement.hosts.all(h, h in self.template.byHost)",fieldPath=".placement.hosts",messageExpression="'must each have a template in template.byHost, was ' + self.placement.hosts.filter(h, !(h in self.template.byHost))[0]"
// +kubebuilder:validation:XValidation:rule="!has(self.disruption) || !has(self.scaledBy) || self.scaledBy == 'Plimsoll'",fieldPath=".disruption",message="must not be set with scaledBy ClusterAutoscaler, which decides itself which machines go"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Approve' || !has(self.scaledBy) || self.scaledBy == 'Plimsoll'",fieldPath=".mode",message="must not be Approve with scaledBy ClusterAutoscaler, which asks no one"
type VMPoolSpec struct {
	// Recommend neither makes nor deletes a machine, and says in the status what would be done,
	// unless other pools are Active, which are then planned for without it. Approve proposes it as
	// ScalingProposals, and does what is approved. Active does it.
	// +optional
	// +kubebuilder:default=Recommend
	Mode VMPoolMode `json:"mode,omitempty"`

	// What mode Approve does without asking.
	// +optional
	Approval *PoolApproval `json:"approval,omitempty"`

	// Who decides how many machines there are: Plimsoll, or upstream's cluster-autoscaler, which
	// Plimsoll then serves as its provider.
	// +optional
	// +kubebuilder:default=Plimsoll
	ScaledBy ScaledBy `json:"scaledBy,omitempty"`

	// The sizes that machines may have: at least one.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Shapes []Shape `json:"shapes"`
	// The fewest machines.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Min int32 `json:"min"`
	// The most machines.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Max int32 `json:"max"`

	// What machines are cloned from.
	// +required
	Template Template `json:"template"`
	// Whether a clone shares its template's disk (linked, made in a moment) or has a copy of its
	// own (full). Default: linked.
	// +optional
	// +kubebuilder:validation:Enum=linked;full
	Clone string `json:"clone,omitempty"`
	// The storage that full clones are kept on. Default: the template's.
	// +optional
	Storage PVEName `json:"storage,omitempty"`
	// The format of full clones. Default: the template's.
	// +optional
	// +kubebuilder:validation:Enum=raw;qcow2;vmdk
	Format string `json:"format,omitempty"`

	// The bridge that machines are connected to. Default: vmbr0.
	// +optional
	Bridge PVEName `json:"bridge,omitempty"`
	// The VLAN tag. Default: none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	VLAN int32 `json:"vlan,omitempty"`
	// Whether Proxmox VE's firewall is on for the machine's interface.
	// +optional
	Firewall bool `json:"firewall,omitempty"`
	// The addresses of the machines. By default they ask by DHCP.
	// +optional
	Network *Addressing `json:"network,omitempty"`

	// The resource pool that machines are put into. Permissions hang on it, and a machine that was
	// taken out of it is left alone.
	// +required
	PVEPool ResourcePool `json:"pvePool"`
	// Further tags of the machines, beside Plimsoll's own.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Tags []Tag `json:"tags,omitempty"`
	// The VMIDs that belong to this pool alone.
	// +required
	VMIDs VMIDs `json:"vmids"`
	// How long a VMID is left alone once its machine is gone. Default: 1h.
	// +optional
	Cooldown Duration `json:"cooldown,omitempty"`

	// Which hosts may carry machines, and how far they are filled.
	// +optional
	Placement *Placement `json:"placement,omitempty"`

	// Labels of the nodes.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]NodeLabelValue `json:"labels,omitempty"`
	// Taints of the nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Taints []Taint `json:"taints,omitempty"`
	// The region of the nodes; provider ids of scheme proxmox hold it.
	// +optional
	Region NodeLabelValue `json:"region,omitempty"`
	// The zone of the nodes. Default: the host where only one may carry the pool, or where
	// join.topologyLabels is set.
	// +optional
	Zone NodeLabelValue `json:"zone,omitempty"`
	// What of a machine is not there for pods: the system and the kubelet. DaemonSets are counted
	// by themselves.
	// +optional
	Reserved *Reserved `json:"reserved,omitempty"`
	// How many pods fit on a node. Default: 110.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	PodSlots int32 `json:"podSlots,omitempty"`
	// What each node has besides CPU and memory, for pods that ask for it: {nvidia.com/gpu: 1,
	// hugepages-2Mi: 1Gi}. Memory set aside for huge pages belongs into reserved, too. Pods may use
	// of ephemeral-storage what is usual of the shape's disk, unless it is given here.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(r, r == 'ephemeral-storage' || r.matches('^hugepages-[1-9][0-9]*(Ki|Mi|Gi)$') || r.size() <= 317 && r.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$'))",messageExpression="'must name ephemeral-storage, hugepages-SIZE or extended resources such as nvidia.com/gpu, was ' + self.filter(r, !(r == 'ephemeral-storage' || r.matches('^hugepages-[1-9][0-9]*(Ki|Mi|Gi)$') || r.size() <= 317 && r.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$')))[0]"
	Resources map[string]Amount `json:"resources,omitempty"`

	// How machines become nodes.
	// +required
	Join Join `json:"join"`
	// The virtual hardware, where it is not the template's.
	// +optional
	Guest *Guest `json:"guest,omitempty"`
	// Where first-boot discs are kept; pools whose join profile needs none leave it out.
	// +optional
	ISO *ISO `json:"iso,omitempty"`

	// What may end machines that work: drift, age, and how many may go at once. Not set, machines
	// come and go by need alone, as many at once as the node policy says.
	// +optional
	Disruption *Disruption `json:"disruption,omitempty"`

	// How long a guest may take to shut down before it is stopped. Default: 1m.
	// +optional
	ShutdownGrace Duration `json:"shutdownGrace,omitempty"`
	// How long a started machine may take to become a node. Default: 15m.
	// +optional
	JoinTimeout Duration `json:"joinTimeout,omitempty"`
	// How many machines in a row may fail before no more are ordered. Above 1, failures on one host
	// let only that host rest while another takes machines. Default: 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxFailures int32 `json:"maxFailures,omitempty"`
}

// VMPoolMode is how far decisions go.
//
// +kubebuilder:validation:Enum=Recommend;Approve;Active
type VMPoolMode string

// The modes of a VMPool.
const (
	ModePoolRecommend VMPoolMode = "Recommend" // decide, say it in the status, do nothing
	ModePoolApprove   VMPoolMode = "Approve"   // decide, ask, and do what is approved
	ModePoolActive    VMPoolMode = "Active"    // decide and do it
)

// ScaledBy is who decides on machines.
//
// +kubebuilder:validation:Enum=Plimsoll;ClusterAutoscaler
type ScaledBy string

// Who decides on machines.
const (
	ScaledByPlimsoll          ScaledBy = "Plimsoll"
	ScaledByClusterAutoscaler ScaledBy = "ClusterAutoscaler"
)

// Shape is a size of machine.
type Shape struct {
	// The shape's name, which is also the nodes' label node.kubernetes.io/instance-type.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$')`,message="must be of letters, digits, -, _ and ., and begin and end with a letter or digit"
	Name string `json:"name"`
	// How many vCPUs it has: 2.
	// +required
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : string(self).matches('^0*[1-9][0-9]*([.]0+)?$') || string(self).matches('^0*[1-9][0-9]*000m$')",message="must be a whole number of cores, at least 1"
	CPU Cores `json:"cpu"`
	// How much memory it has, in whole MiB: 8Gi is 2³³ bytes, 8GB would not be whole MiB.
	// +required
	Memory Size `json:"memory"`
	// How large its disk is, in whole MiB: 40Gi. Default: as large as the template's.
	// +optional
	Disk Size `json:"disk,omitempty"`
}

// Template is what machines are cloned from: one VM, or one on every host, as local storage makes
// necessary.
//
// +kubebuilder:validation:XValidation:rule="has(self.vmid) != has(self.byHost)",messageExpression="'must have either vmid or byHost, was ' + (has(self.vmid) ? 'with both' : 'with neither')"
type Template struct {
	// The VMID of the template, on storage that all hosts share: 9000.
	// +optional
	VMID VMID `json:"vmid,omitempty"`
	// The VMID of each host's own template: {pve1: 9001, pve2: 9002}.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=128
	// +kubebuilder:validation:XValidation:rule="self.all(h, h.size() <= 63 && h.matches('^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$'))",messageExpression="'must name hosts, was ' + self.filter(h, h.size() > 63 || !h.matches('^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$'))[0]"
	ByHost map[string]VMID `json:"byHost,omitempty"`
}

// VMID is the number of a VM on Proxmox VE.
//
// +kubebuilder:validation:Minimum=100
// +kubebuilder:validation:Maximum=999999999
type VMID int32

// VMIDs is a range of VMIDs, both ends in it.
//
// +kubebuilder:validation:XValidation:rule="self.first <= self.last",messageExpression="'must run from first to last, was %d-%d'.format([self.first, self.last])"
type VMIDs struct {
	// The first of the range: 5000.
	// +required
	First VMID `json:"first"`
	// The last of the range: 5099.
	// +required
	Last VMID `json:"last"`
}

// ResourcePool is the name of a resource pool on Proxmox VE.
//
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+){0,2}$')`,message="must be a pool as Proxmox has it: letters, digits, ., _ and -, in up to three parts with / between them"
type ResourcePool string

// PVEName is the name of a storage or bridge on Proxmox VE.
//
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z][A-Za-z0-9._/-]*$')`,message="must be a name as Proxmox has it: a letter, then letters, digits, ., _, / and -"
type PVEName string

// HostName is the name of a host.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$')`,message="must be the name of a host: letters, digits and -, neither end a -"
type HostName string

// Tag is a tag of a VM.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9_][a-z0-9_+.-]*$')`,message="must be a tag as Proxmox has it: lower-case letters, digits, _, +, . and -, none of the last three first"
// +kubebuilder:validation:XValidation:rule="!self.startsWith('plimsoll')",message="must not begin with plimsoll, which marks machines as ours"
type Tag string

// NodeLabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$')`,message="must be empty, or of letters, digits, -, _ and ., and begin and end with a letter or digit"
type NodeLabelValue string

// Addressing is a range of addresses, one for each VMID of the pool: the machine with the n-th VMID
// has the n-th address.
type Addressing struct {
	// The address of the machine with the first VMID, with the length of the network's prefix:
	// 10.0.0.50/24.
	// +required
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="must be an address with the length of its network's prefix, such as 10.0.0.50/24"
	First string `json:"first"`
	// The gateway, in the same network and not among the machines' addresses.
	// +required
	Gateway IP `json:"gateway"`
	// The name servers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Nameservers []IP `json:"nameservers,omitempty"`
	// The search domain.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$')`,message="must be a domain: example.com"
	Search string `json:"search,omitempty"`
}

// IP is an address.
//
// +kubebuilder:validation:MaxLength=45
// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be an address, such as 10.0.0.1"
type IP string

// Placement is which hosts may carry machines, and how far they are filled.
type Placement struct {
	// The hosts that may carry machines. Default: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	Hosts []HostName `json:"hosts,omitempty"`
	// Hosts that keep what they have and get nothing new.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	Maintenance []HostName `json:"maintenance,omitempty"`
	// prefer takes the host with fewest of the pool's machines first, none the cheapest, then the
	// roomiest. Default: prefer.
	// +optional
	// +kubebuilder:validation:Enum=prefer;none
	Spread string `json:"spread,omitempty"`
	// How many of the pool's machines a host may carry. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxPerHost int32 `json:"maxPerHost,omitempty"`
	// What every host keeps of its memory for itself: 4Gi.
	// +optional
	MemoryReserve Size `json:"memoryReserve,omitempty"`
	// How often the rest may be promised, up to 32. Default: once.
	// +optional
	MemoryRatio *Overcommit `json:"memoryRatio,omitempty"`
	// How often a host's CPU may be promised, up to 32. Default: once.
	// +optional
	CPURatio *Overcommit `json:"cpuRatio,omitempty"`
	// Leaves VMs that do not run out of what a host has promised. They may be started at any time,
	// so this is for those who know that they will not be.
	// +optional
	IgnoreStopped bool `json:"ignoreStopped,omitempty"`
	// What must stay free on the storage that a clone is made on: 20Gi.
	// +optional
	StorageReserve Size `json:"storageReserve,omitempty"`
}

// Overcommit is how often something may be promised.
//
// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 && self <= 32 : string(self).matches('[1-9]') && string(self).matches('^0*([12]?[0-9]([.][0-9]+)?|3[01]([.][0-9]+)?|32([.]0+)?)$')",message="must be above 0 and at most 32"
type Overcommit Ratio

// Taint keeps pods off the nodes that do not tolerate it.
type Taint struct {
	// The key.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$')`,message="must be a taint's key, with its prefix if it has one: example.com/dedicated"
	Key string `json:"key"`
	// The value.
	// +optional
	Value NodeLabelValue `json:"value,omitempty"`
	// NoSchedule or NoExecute.
	// +required
	// +kubebuilder:validation:Enum=NoSchedule;NoExecute
	Effect string `json:"effect"`
}

// JoinTaint keeps pods off the nodes that do not tolerate it.
type JoinTaint struct {
	// The key.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$')`,message="must be a taint's key, with its prefix if it has one: example.com/dedicated"
	Key string `json:"key"`
	// The value.
	// +optional
	Value NodeLabelValue `json:"value,omitempty"`
	// NoSchedule, PreferNoSchedule or NoExecute.
	// +required
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect string `json:"effect"`
}

// Reserved is what of a machine is not there for pods.
type Reserved struct {
	// Of its CPU: 500m.
	// +optional
	// +kubebuilder:default="0"
	CPU Cores `json:"cpu"`
	// Of its memory: 1Gi.
	// +optional
	// +kubebuilder:default="0B"
	Memory Size `json:"memory"`
}

// Join is how machines become nodes.
//
// +kubebuilder:validation:XValidation:rule="(self.kind == 'kubeadm') == has(self.caCertHashes)",fieldPath=".caCertHashes",messageExpression="'must be there with kind kubeadm and with no other, was ' + (has(self.caCertHashes) ? 'there' : 'absent') + ' with ' + self.kind"
type Join struct {
	// As an agent of RKE2 or k3s, by kubeadm, by a machine configuration of Talos, or by user-data
	// of your own, or what is in the template already (custom).
	// +required
	// +kubebuilder:validation:Enum=rke2;k3s;kubeadm;talos;custom
	Kind string `json:"kind"`
	// What machines join through: HOST, HOST:PORT or https://HOST:PORT. Without a port it is 9345
	// for RKE2 and 6443 for k3s and kubeadm.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=300
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^(https://)?[A-Za-z0-9.:\[\]-]+$')`,message="must be HOST, HOST:PORT or https://HOST:PORT"
	Servers []string `json:"servers,omitempty"`
	// The file that holds the token that agents join with: with RKE2 and k3s the agents' own, which
	// their servers are given as agent-token, for with the servers' own a lost worker can join as a
	// server. With kubeadm it is a bootstrap token, which must not expire before it is replaced.
	// Like all files named here, it is one in Plimsoll's pod, where the chart's joinSecrets mount
	// it.
	// +optional
	TokenFile File `json:"tokenFile,omitempty"`
	// For kubeadm: the hashes of the cluster's authorities, one of which must have signed the
	// server's certificate. kubeadm token create --print-join-command prints it: sha256:, and 64
	// digits.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Pattern=`^sha256:[0-9a-f]{64}$`
	CACertHashes []string `json:"caCertHashes,omitempty"`
	// What the provider ids of the nodes look like. It must be the scheme of whoever else sets
	// them.
	// +required
	ProviderID ProviderID `json:"providerID"`
	// Labels that the nodes' kubelets give to themselves.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]NodeLabelValue `json:"labels,omitempty"`
	// Taints that the nodes' kubelets give to themselves.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Taints []JoinTaint `json:"taints,omitempty"`
	// Labels nodes with the region and, as their zone, the pool's zone or else the host, where
	// there is no cloud controller that does.
	// +optional
	TopologyLabels bool `json:"topologyLabels,omitempty"`
	// Further arguments of agents' kubelets, as NAME=VALUE.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	KubeletArgs []string `json:"kubeletArgs,omitempty"`
	// Further keys of the agents' config.yaml, each with a list of values.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Config map[string][]ConfigValue `json:"config,omitempty"`
	// The file that holds a registries.yaml for the agents.
	// +optional
	RegistriesFile File `json:"registriesFile,omitempty"`
	// Where RKE2 or k3s comes from. By default it is in the template.
	// +optional
	Install *Install `json:"install,omitempty"`
	// The guest's user. Default: the image's own.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z_][a-z0-9_-]*$')`,message="must be the name of a user: lower-case letters, digits, _ and -, a letter or _ first"
	User string `json:"user,omitempty"`
	// Public keys that let one in as that user.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=8192
	SSHKeys []string `json:"sshKeys,omitempty"`
	// Packages that are installed before the machine joins.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=128
	Packages []string `json:"packages,omitempty"`
	// The file that holds user-data of your own to go beside the profile's.
	// +optional
	CloudConfigFile File `json:"cloudConfigFile,omitempty"`
	// The file that holds the whole user-data of kind custom, or Talos' machine configuration, as a
	// template.
	// +optional
	UserDataFile File `json:"userDataFile,omitempty"`
}

// File names a file in Plimsoll's pod.
//
// +kubebuilder:validation:MaxLength=1024
type File string

// ConfigValue is a value of a flag.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=4096
type ConfigValue string

// ProviderID says what the provider ids of a pool's nodes look like.
//
// +kubebuilder:validation:XValidation:rule="(self.scheme == 'template') == has(self.template)",fieldPath=".template",messageExpression="'must be there with scheme template and with no other, was ' + (has(self.template) ? 'there' : 'absent') + ' with ' + self.scheme"
type ProviderID struct {
	// proxmox is proxmox://REGION/VMID, uuid proxmox://UUID, rke2 rke2://NAME, k3s k3s://NAME,
	// talos talos://nocloud/NAME, and template a text of your own.
	// +required
	// +kubebuilder:validation:Enum=proxmox;rke2;k3s;talos;uuid;template
	Scheme string `json:"scheme"`
	// The text of scheme template, with {name}, {vmid}, {region}, {uuid} and {host} in it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Template string `json:"template,omitempty"`
}

// Install says how RKE2 or k3s gets onto a machine.
type Install struct {
	// template, where it is there already, or script. Default: template.
	// +optional
	// +kubebuilder:validation:Enum=template;script
	From string `json:"from,omitempty"`
	// The https address of the install script. Default: the project's own.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Script string `json:"script,omitempty"`
	// The version that is installed, such as v1.34.1+rke2r1.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// The channel that is installed from, such as v1.34.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Channel string `json:"channel,omitempty"`
	// Further variables of the script.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Env map[string]EnvValue `json:"env,omitempty"`
}

// EnvValue is the value of a variable.
//
// +kubebuilder:validation:MaxLength=4096
type EnvValue string

// Guest is the virtual hardware, where it is not the template's.
type Guest struct {
	// The type of CPU, such as host or x86-64-v2-AES.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[^,\s]*$')`,message="must have no comma and no white space"
	CPUType string `json:"cpuType,omitempty"`
	// The type of machine, such as q35.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[^,\s]*$')`,message="must have no comma and no white space"
	Machine string `json:"machine,omitempty"`
	// Whether the guest sees NUMA.
	// +optional
	NUMA bool `json:"numa,omitempty"`
	// Whether the QEMU guest agent runs in the template.
	// +optional
	Agent bool `json:"agent,omitempty"`
	// Leaves out the balloon device, by which the host knows how much of its memory a guest uses.
	// +optional
	NoBalloon bool `json:"noBalloon,omitempty"`
	// Further keys of the VM's configuration, as qm set takes them.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Options map[string]OptionValue `json:"options,omitempty"`
}

// OptionValue is a value of a VM's configuration.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[^\r\n]*$')`,message="must be of one line"
type OptionValue string

// ISO is where first-boot discs are kept.
type ISO struct {
	// The storage.
	// +optional
	Storage PVEName `json:"storage,omitempty"`
}

// Disruption is what may end a pool's machines although nothing forces it to. A machine's
// replacement is ready before its pods are evicted.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rollout) || has(self.drift) && self.drift == 'Replace'",fieldPath=".rollout",message="must not be set unless drift is Replace"
type Disruption struct {
	// What becomes of machines that are not what the pool would make now, since its template, join
	// profile, hardware, network or labels changed. Keep leaves them, Replace replaces them. Not
	// set, Keep.
	// +optional
	// +kubebuilder:validation:Enum=Keep;Replace
	Drift string `json:"drift,omitempty"`
	// How old machines become, at least 1h: 720h. Machines are replaced up to a tenth earlier, so
	// that those which were made together do not go together. Not set, they may be of any age.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) >= duration('1h')",message="must be at least 1h"
	ExpireAfter Duration `json:"expireAfter,omitempty"`
	// How long the drain of a machine may take that is unhealthy, expired or drifted, at least 1m:
	// 1h. Pods that must not be evicted, or whose budgets allow none, keep it until then. They are
	// deleted so early that their own grace periods fit. Not set, they keep it for ever.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) >= duration('1m')",message="must be at least 1m"
	TerminationGracePeriod Duration `json:"terminationGracePeriod,omitempty"`
	// Which machines go because less would do. Not set, those that the node policy finds not
	// needed.
	// +optional
	Consolidation *Consolidation `json:"consolidation,omitempty"`
	// Which nodes are broken, so that their machines are replaced. Not set, none.
	// +optional
	Repair *Repair `json:"repair,omitempty"`
	// How machines are replaced that drifted: how many at once, which first, and when it stops. Not
	// set, as budgets allow.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`
	// How many machines may be on their way out at once, those included that are not needed. Of the
	// budgets that apply the lowest counts. Not set, 10%.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Budgets []NodeBudget `json:"budgets,omitempty"`
}

// Consolidation is which machines of a pool go because less would do.
type Consolidation struct {
	// WhenEmpty lets those go that have no pods to move. WhenEmptyOrUnderutilized lets those go,
	// too, whose pods have places elsewhere, and replaces machines by cheaper ones, if what that
	// saves within eight hours pays for the move.
	// +required
	// +kubebuilder:validation:Enum=WhenEmpty;WhenEmptyOrUnderutilized
	Policy string `json:"policy"`
	// For how long a machine's pods must have been the same: 30m. Not set, 10m before it is
	// replaced, and the node policy's time before it goes as not needed.
	// +optional
	After Duration `json:"after,omitempty"`
}

// Repair is which nodes of a pool are broken.
type Repair struct {
	// The conditions by which nodes say so, as those of the node problem detector: DiskPressure,
	// KernelDeadlock, ReadonlyFilesystem. At least one.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Conditions []NodeAilment `json:"conditions"`
	// How many of the pool's nodes may be broken or not ready: 2, or a part, rounded up: 20%. With
	// more of them none is replaced, and the condition RepairHalted says so. Not set, 20%.
	// +optional
	MaxUnhealthy NodeCount `json:"maxUnhealthy,omitempty"`
	// Has a machine stopped and started once, through Proxmox VE, before it is replaced. Its node
	// is emptied first if it is ready. Not set, machines are replaced at once.
	// +optional
	Reboot *Reboot `json:"reboot,omitempty"`
}

// Reboot is for how long a reboot is waited for.
type Reboot struct {
	// How long the node may take to be healthy, from the reboot on: 10m. Then its machine is
	// replaced, and not rebooted again within a day.
	// +required
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) >= duration('1m')",message="must be at least 1m"
	Within Duration `json:"within"`
}

// NodeAilment is a condition of a node that has its machine replaced.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'Ready' || self.status != 'True'",fieldPath=".status",message="must be False or Unknown, with type Ready"
type NodeAilment struct {
	// The type of the condition. Of a node that is not Ready the machine is stopped, and its node
	// deleted with its pods.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Type string `json:"type"`
	// The status that means that the node is broken.
	// +required
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Status string `json:"status"`
	// How long it must have had that status: 15m.
	// +required
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) >= duration('1m')",message="must be at least 1m"
	For Duration `json:"for"`
}

// NodeBudget is how many machines may be on their way out at once.
//
// +kubebuilder:validation:XValidation:rule="has(self.schedule) == has(self.duration)",fieldPath=".schedule",messageExpression="'must be there together with duration, was ' + (has(self.schedule) ? self.schedule + ' without it' : 'absent')"
// +kubebuilder:validation:XValidation:rule="!has(self.timeZone) || has(self.schedule)",fieldPath=".timeZone",messageExpression="'must not be set without schedule, was ' + self.timeZone"
type NodeBudget struct {
	// How many: 2, or a part of the pool's machines, rounded up: 10%. Nodes that are not ready
	// count among those on their way out. 0 lets none go.
	// +required
	Nodes NodeCount `json:"nodes"`
	// What it applies to: Unhealthy, Expired, Drifted, Empty and Underutilized machines. Not set,
	// all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:Enum=Unhealthy;Expired;Drifted;Empty;Underutilized
	Reasons []string `json:"reasons,omitempty"`
	// When it begins to apply, as cron writes it: "0 9 * * 1-5". Not set, it always applies.
	// +optional
	Schedule CronTime `json:"schedule,omitempty"`
	// For how long it applies each time: 8h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) > duration('0s')",message="must be above 0s"
	Duration Duration `json:"duration,omitempty"`
	// The time zone of schedule by its IANA name, such as Europe/Berlin. Not set, UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$')`,message="must be UTC or the name of a time zone: Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`
}

// NodeCount is a number of machines, or a part of a pool's in percent.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:MaxLength=5
// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 99999 : self.matches('^([0-9]{1,5}|([0-9]{1,2}|100)%)$')",message="must be from 0 to 99999, or from 0% to 100%"
type NodeCount string

// UnmarshalJSON reads a number or a text.
func (c *NodeCount) UnmarshalJSON(data []byte) error { return unmarshal((*string)(c), data) }

// VMPoolStatus is what was seen of a pool, and decided.
type VMPoolStatus struct {
	// The generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// The pool's machines by phase. Omitted while they are not known.
	// +optional
	Machines *MachineCounts `json:"machines,omitempty"`
	// What the machines cost in an hour at the present rate: "40".
	// +optional
	CostPerHour string `json:"costPerHour,omitempty"`
	// The price book's currency.
	// +optional
	Currency string `json:"currency,omitempty"`
	// The last plan that had something to do for the pool.
	// +optional
	LastPlan *PlanStatus `json:"lastPlan,omitempty"`
	// How far the machines are replaced by such as the pool would make now, with disruption.drift
	// Replace.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`
	// What holds of the object: Ready, Conflicted, Paused, Braked, CapacityPending, PodsUnplaced,
	// MachinesHeld, MachinesOutdated, RolledOut, RepairHalted, DisruptionHalted and SparesAdvised.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MachineCounts counts machines by phase.
type MachineCounts struct {
	// All of them.
	Total int32 `json:"total"`
	// Asked for; cloning, or waiting to.
	Ordered int32 `json:"ordered"`
	// Started and not yet nodes.
	Booting int32 `json:"booting"`
	// Nodes of the cluster.
	Joined int32 `json:"joined"`
	// Stopped and kept, to be nodes again soon after they are started.
	// +optional
	Spare int32 `json:"spare"`
	// Being stopped and destroyed.
	Deleting int32 `json:"deleting"`
	// Never to join; to be reclaimed.
	Failed int32 `json:"failed"`
}

// PlanStatus is what a plan has to do for a pool.
type PlanStatus struct {
	// The step that it was made in, as explain takes it: d-000042.
	// +optional
	ID string `json:"id,omitempty"`
	// When.
	// +optional
	Time metav1.Time `json:"time,omitempty"`
	// Whether it was carried out: not in mode Recommend.
	// +optional
	Applied bool `json:"applied"`
	// What it had to do, at most the first 16 actions.
	// +optional
	// +listType=atomic
	Actions []PlanAction `json:"actions,omitempty"`
}

// PlanAction is one thing to do.
type PlanAction struct {
	// Buy, Cordon, Uncordon, Evict, DeletePod or Return.
	Kind string `json:"kind"`
	// What it is done to: a machine, node or pod, or the shape that is bought.
	// +optional
	Subject string `json:"subject,omitempty"`
	// What it adds to or takes off the cost of an hour: "10", "-10".
	// +optional
	CostPerHour string `json:"costPerHour,omitempty"`
	// Why, in the order in which the reasons applied.
	// +optional
	// +listType=atomic
	Reasons []Reason `json:"reasons,omitempty"`
}
