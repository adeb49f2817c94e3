package settings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// Faults collects what is wrong below a path.
type Faults struct {
	path string
	all  *[]error
}

// NewFaults returns Faults with no fault.
func NewFaults() Faults { return Faults{all: new([]error)} }

func (f Faults) at(key string) Faults {
	if f.path != "" && !strings.HasPrefix(key, "[") {
		key = "." + key
	}
	return Faults{f.path + key, f.all}
}

func (f Faults) index(key string, i int) Faults { return f.at(fmt.Sprintf("%s[%d]", key, i)) }

func (f Faults) add(key, rule string, was any) {
	path := f.path
	if key != "" {
		path = f.at(key).path
	}
	*f.all = append(*f.all, pricing.NewFault(path, fmt.Sprintf("%s, was %v", rule, was)))
}

// Must adds a fault unless the rule is kept. Text is quoted, so that blanks can be seen.
func (f Faults) Must(kept bool, key, rule string, was any) {
	if kept {
		return
	}
	if s, ok := was.(string); ok {
		was = fmt.Sprintf("%q", s)
	}
	f.add(key, "must "+rule, was)
}

// bare is a value that errors show without quotes: none was written.
type bare string

// Err returns all faults joined together, or nil.
func (f Faults) Err() error { return errors.Join(*f.all...) }

var (
	// dnsLabel is a name that fits into a host name. Upper case is omitted: nodes are named after
	// machines, and Kubernetes allows none.
	dnsLabel = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?$`)
	tagName  = regexp.MustCompile(`^[a-z0-9_][a-z0-9_+.-]*$`)
	// poolName is what Proxmox VE takes as the name of a resource pool, which may be in another.
	poolName = regexp.MustCompile(`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+){0,2}$`)
	// pveName is what Proxmox VE takes as the name of a storage, bridge or host.
	pveName    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]*$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$`)
	optionKey  = regexp.MustCompile(`^[a-z][a-z_]*[0-9]*$`)
)

const (
	lowestVMID  = 100
	highestVMID = 999_999_999
	// OrderLen is what an order and the hyphen before it take of a machine's name, with room to
	// spare: host names end at 63 characters.
	OrderLen = 20
)

// Validate reports every fault of the site, as Faults joined together. It makes no call.
func (s *Site) Validate() error {
	f := NewFaults()
	s.checkConnection(f)
	f.Must(len(s.Pools) > 0, "pools", "name at least one pool", bare("none"))
	s.CheckWork(f)
	return f.Err()
}

// CheckWork checks what is to be done there, whoever it is that connects.
func (s *Site) CheckWork(f Faults) {
	f.Must(tagName.MatchString(s.Owner) && len(s.Owner) <= 32, "owner", "be 1 to 32 of a-z, 0-9, _, -, + and ., no sign first", s.Owner)
	f.Must(s.ClusterID == "" || ValidClusterID(s.ClusterID), "clusterID", "be 1 to 63 of A-Z, a-z, 0-9, -, _ and ., no sign first or last", s.ClusterID)
	f.Must(s.ClonesPerStorage >= 0, "clonesPerStorage", "be ≥ 0", s.ClonesPerStorage)
	f.Must(slices.Contains([]HAMode{"", HAWait, HAPurge}, s.HA), "ha", "be wait or purge", string(s.HA))
	f.Must(s.OrphanGrace >= 0, "orphanGrace", "be ≥ 0", s.OrphanGrace)
	s.CheckPools(f)
}

// CheckPools checks each pool, and all of them together.
func (s *Site) CheckPools(f Faults) {
	for i := range s.Pools {
		s.Pools[i].check(f.index("pools", i))
	}
	s.checkPoolsTogether(f)
}

func (s *Site) checkConnection(f Faults) {
	f.Must(len(s.Endpoints) > 0, "endpoints", "name at least one host", bare("none"))
	for i, e := range s.Endpoints {
		at := fmt.Sprintf("endpoints[%d]", i)
		if err := pveapi.ValidEndpoint(e); err != nil {
			f.join(at, err) // it may have a password in it, and is repeated nowhere
			continue
		}
		f.Must(slices.IndexFunc(s.Endpoints, func(o string) bool { return pveapi.SameEndpoint(o, e) }) == i, at, "be there once", e)
	}
	f.Must(s.TokenFile != "", "tokenFile", "name a file", s.TokenFile)
	for i, p := range s.Fingerprints {
		f.join(fmt.Sprintf("fingerprints[%d]", i), pveapi.CheckFingerprints(p))
	}
	f.Must(s.CAFile == "" || len(s.Fingerprints) == 0, "fingerprints", "be omitted beside caFile, which answers the same question in another way", s.Fingerprints)
	f.Must(!s.Insecure || s.CAFile == "" && len(s.Fingerprints) == 0, "insecure", "be false beside caFile or fingerprints, which it would make worthless", s.Insecure)
}

// checkPoolsTogether looks at what one pool could do to another: take its VMIDs for its own, clone
// over a template, or give its addresses to other machines.
func (s *Site) checkPoolsTogether(f Faults) {
	for i := range s.Pools {
		p, at := &s.Pools[i], f.index("pools", i)
		for j := range s.Pools[:i] {
			q := &s.Pools[j]
			at.Must(p.Name != q.Name, "name", "be another pool's no more", p.Name)
			at.Must(p.VMIDs.First > q.VMIDs.Last || q.VMIDs.First > p.VMIDs.Last, "vmids",
				fmt.Sprintf("not overlap %d-%d of pool %s", q.VMIDs.First, q.VMIDs.Last, q.Name), p.VMIDs.String())
		}
		for j := range s.Pools {
			for _, id := range s.Pools[j].Template.IDs() {
				at.Must(!p.VMIDs.Holds(id), "vmids", fmt.Sprintf("not hold the template %d of pool %s", id, s.Pools[j].Name), p.VMIDs.String())
			}
		}
	}
	s.checkAddresses(f)
}

// Validate reports every fault of the pool, as Faults joined together. It makes no call.
func (p *Pool) Validate() error {
	f := NewFaults()
	p.check(f)
	for _, id := range p.Template.IDs() {
		f.Must(!p.VMIDs.Holds(id), "vmids", fmt.Sprintf("not hold the template %d", id), p.VMIDs.String())
	}
	return f.Err()
}

func (p *Pool) check(f Faults) {
	f.Must(dnsLabel.MatchString(p.Name) && len(p.Name) <= 63-OrderLen, "name",
		fmt.Sprintf("begin a host name: 1 to %d of a-z, 0-9 and -, a letter first and no - last", 63-OrderLen), p.Name)
	p.checkShapes(f)
	p.checkLimits(f)
	p.checkTemplate(f)
	p.checkNetwork(f)
	checkPlacement(&p.Placement, f.at("placement"))
	p.checkNode(f)
	p.Guest.check(f.at("guest"))
	p.checkJoin(f)
	checkDisruption(&p.Disruption, f.at("disruption"))
	f.Must(poolName.MatchString(p.PVEPool), "pvePool", "name a resource pool: letters, digits, ., _ and -, in up to three parts with / between them", p.PVEPool)
	f.Must(p.ISO.Storage == "" || pveName.MatchString(p.ISO.Storage), "iso.storage", "name a storage", p.ISO.Storage)
	for i, t := range p.Tags {
		f.Must(tagName.MatchString(t), fmt.Sprintf("tags[%d]", i), "be of a-z, 0-9, _, -, + and ., no sign first", t)
		f.Must(!strings.HasPrefix(t, tagPrefix), fmt.Sprintf("tags[%d]", i), "not begin with "+tagPrefix+", which marks machines as ours", t)
	}
}

func (p *Pool) checkShapes(f Faults) {
	f.Must(len(p.Shapes) > 0, "shapes", "name at least one shape", bare("none"))
	for i, s := range p.Shapes {
		at := f.index("shapes", i)
		at.Must(labelValue.MatchString(s.Name) && s.Name != "", "name", "be a label's value: 1 to 63 of A-Z, a-z, 0-9, -, _ and .", s.Name)
		at.Must(slices.IndexFunc(p.Shapes, func(o pricing.Shape) bool { return o.Name == s.Name }) == i, "name", "be there once", s.Name)
		at.Must(s.CPU > 0 && s.CPU%pricing.Core == 0, "cpu", "be a whole number of cores, at least 1", s.CPU)
		at.Must(s.Memory >= 512*pricing.MiB && s.Memory%pricing.MiB == 0, "memory", "be whole MiB, at least 512, such as 8Gi", s.Memory)
		at.Must(s.Disk >= 0 && s.Disk%pricing.MiB == 0, "disk", "be whole MiB, such as 40Gi, or nothing for the template's", s.Disk)
		at.Must(p.Reserved.Within(s.Resources()), "", "be larger than what is reserved, "+nodescaler.Amount(p.Reserved), nodescaler.Amount(s.Resources()))
	}
}

func (p *Pool) checkLimits(f Faults) {
	f.Must(p.Min >= 0, "min", "be ≥ 0", p.Min)
	f.Must(p.Max >= 1, "max", "be at least 1", p.Max)
	f.Must(p.Min <= p.Max, "min", fmt.Sprintf("be at most max, %d", p.Max), p.Min)
	v := p.VMIDs
	f.Must(v.First >= lowestVMID && v.Last <= highestVMID && v.First <= v.Last, "vmids",
		fmt.Sprintf("run from first to last within %d-%d", lowestVMID, highestVMID), v.String())
	f.Must(v.Len() >= p.Max || v.First > v.Last, "vmids", fmt.Sprintf("have room for max, %d machines", p.Max), v.String())
	f.Must(p.Cooldown >= 0, "cooldown", "be ≥ 0", p.Cooldown)
	f.Must(p.ShutdownGrace >= 0, "shutdownGrace", "be ≥ 0", p.ShutdownGrace)
	f.Must(p.JoinTimeout >= 0, "joinTimeout", "be ≥ 0", p.JoinTimeout)
	f.Must(p.MaxFailures >= 0, "maxFailures", "be ≥ 0", p.MaxFailures)
	f.Must(p.PodSlots >= 0, "podSlots", "be ≥ 0", p.PodSlots)
	f.Must(p.Reserved.CPU >= 0 && p.Reserved.Memory >= 0, "reserved", "be ≥ 0", nodescaler.Amount(p.Reserved))
}

func (p *Pool) checkTemplate(f Faults) {
	t := p.Template
	f.Must((t.VMID != 0) != (len(t.ByHost) > 0), "template", "have either vmid or byHost with at least one host", fmt.Sprintf("vmid %d and %d hosts", t.VMID, len(t.ByHost)))
	f.Must(t.VMID == 0 || t.VMID >= lowestVMID && t.VMID <= highestVMID, "template.vmid", fmt.Sprintf("be within %d-%d", lowestVMID, highestVMID), t.VMID)
	for _, host := range slices.Sorted(maps.Keys(t.ByHost)) {
		id := t.ByHost[host]
		f.Must(dnsName(host), "template.byHost", "name hosts", host)
		f.Must(id >= lowestVMID && id <= highestVMID, "template.byHost."+host, fmt.Sprintf("be within %d-%d", lowestVMID, highestVMID), id)
	}
	for i, host := range p.Placement.Hosts {
		f.Must(len(t.ByHost) == 0 || t.ByHost[host] != 0, fmt.Sprintf("placement.hosts[%d]", i), "have a template in template.byHost", host)
	}
	f.Must(slices.Contains([]placement.CloneMode{"", placement.Linked, placement.Full}, p.Clone), "clone", "be linked or full", string(p.Clone))
	if p.Clone != placement.Full {
		f.Must(p.Storage == "", "storage", "be omitted unless clone is full: a linked clone lies where its template does", p.Storage)
		f.Must(p.Format == "", "format", "be omitted unless clone is full", p.Format)
	}
	f.Must(p.Storage == "" || pveName.MatchString(p.Storage), "storage", "name a storage", p.Storage)
	f.Must(slices.Contains([]string{"", "raw", "qcow2", "vmdk"}, p.Format), "format", "be raw, qcow2 or vmdk", p.Format)
}

func (p *Pool) checkNetwork(f Faults) {
	f.Must(p.Bridge == "" || pveName.MatchString(p.Bridge), "bridge", "name a bridge", p.Bridge)
	f.Must(p.VLAN >= 0 && p.VLAN <= 4094, "vlan", "be within 1-4094, or nothing", p.VLAN)
	n, at := p.Network, f.at("network")
	if !n.Static() {
		at.Must(!n.Gateway.IsValid() && len(n.Nameservers) == 0 && n.Search == "", "first", "be there beside gateway, nameservers or search", bare("nothing"))
		return
	}
	if p.VMIDs.Len() < 1 || p.VMIDs.Len() > 1<<24 {
		return // the range is at fault, and said to be
	}
	last := n.Address(p.VMIDs.Len() - 1)
	at.Must(n.First.Masked() == last.Masked(), "first", fmt.Sprintf("leave room in its network for an address for each of the VMIDs %s", p.VMIDs), n.First)
	at.Must(n.Gateway.IsValid() && n.First.Contains(n.Gateway), "gateway", "be an address in the network of first", n.Gateway)
	p.checkAddresses(f)
	at.Must(n.Search == "" || dnsName(n.Search), "search", "be a domain", n.Search)
}

// dnsName reports whether the text is a host name, in any case.
func dnsName(s string) bool {
	for _, label := range strings.Split(strings.ToLower(s), ".") {
		if len(label) > 63 || !dnsLabel.MatchString("a"+label) || strings.HasPrefix(label, "-") || label == "" {
			return false
		}
	}
	return len(s) <= 253
}

func checkPlacement(p *placement.Rules, f Faults) {
	for i, h := range p.Hosts {
		f.Must(dnsName(h), fmt.Sprintf("hosts[%d]", i), "name a host", h)
		f.Must(slices.Index(p.Hosts, h) == i, fmt.Sprintf("hosts[%d]", i), "be there once", h)
	}
	for i, h := range p.Maintenance {
		f.Must(dnsName(h), fmt.Sprintf("maintenance[%d]", i), "name a host", h)
	}
	f.Must(slices.Contains([]placement.Spread{"", placement.SpreadPrefer, placement.SpreadNone}, p.Spread), "spread", "be prefer or none", string(p.Spread))
	f.Must(p.MaxPerHost >= 0, "maxPerHost", "be ≥ 0", p.MaxPerHost)
	f.Must(p.MemoryReserve >= 0, "memoryReserve", "be ≥ 0", p.MemoryReserve)
	f.Must(p.StorageReserve >= 0, "storageReserve", "be ≥ 0", p.StorageReserve)
	f.Must(p.MemoryRatio >= 0 && p.MemoryRatio <= maxRatio, "memoryRatio", fmt.Sprintf("be above 0 and at most %d", maxRatio), p.MemoryRatio)
	f.Must(p.CPURatio >= 0 && p.CPURatio <= maxRatio, "cpuRatio", fmt.Sprintf("be above 0 and at most %d", maxRatio), p.CPURatio)
}

func checkDisruption(d *nodescaler.Disruption, f Faults) {
	f.Must(slices.Contains([]nodescaler.Drift{"", nodescaler.DriftKeep, nodescaler.DriftReplace}, d.Drift), "drift", "be Keep or Replace", string(d.Drift))
	f.Must(d.ExpireAfter == 0 || d.ExpireAfter >= minExpireAfter, "expireAfter", "be at least "+minExpireAfter.String()+", or nothing", d.ExpireAfter)
	f.Must(d.TerminationGracePeriod == 0 || d.TerminationGracePeriod >= nodescaler.Duration(time.Minute), "terminationGracePeriod", "be at least 1m, or nothing", d.TerminationGracePeriod)
	c, at := d.Consolidation, f.at("consolidation")
	at.Must(slices.Contains([]nodescaler.ConsolidationPolicy{"", nodescaler.WhenEmpty, nodescaler.WhenEmptyOrUnderutilized}, c.Policy), "policy", "be WhenEmpty or WhenEmptyOrUnderutilized", string(c.Policy))
	at.Must(c.After >= 0, "after", "be ≥ 0", c.After)
	at.Must(c.Policy != "" || c.After == 0, "after", "not be set without policy", c.After)
	for i, a := range d.Repair.Conditions {
		at := f.index("repair.conditions", i)
		at.Must(a.Type != "", "type", "name a condition", a.Type)
		at.Must(a.Type != nodescaler.Ready || a.Status != "True", "status", "be False or Unknown, with type Ready", a.Status)
		at.Must(slices.Contains([]string{"True", "False", "Unknown"}, a.Status), "status", "be True, False or Unknown", a.Status)
		at.Must(a.For >= nodescaler.Duration(time.Minute), "for", "be at least 1m", a.For)
	}
	if r := d.Repair.Reboot; r != nil {
		f.Must(r.Within >= nodescaler.Duration(time.Minute), "repair.reboot.within", "be at least 1m", r.Within)
		f.Must(len(d.Repair.Conditions) > 0, "repair.reboot", "not be set without conditions", r.Within)
	}
	checkRollout(d, f.at("rollout"))
	for i := range d.Budgets {
		b, at := &d.Budgets[i], f.index("budgets", i)
		for j, r := range b.Reasons {
			at.Must(slices.Contains(nodescaler.Causes, r), fmt.Sprintf("reasons[%d]", j), "be one of "+causes(), string(r))
		}
		if b.Schedule.IsZero() {
			at.Must(b.Duration == 0, "duration", "not be set without schedule", b.Duration)
			at.Must(b.TimeZone.Location == nil, "timeZone", "not be set without schedule", b.TimeZone)
			continue
		}
		at.Must(b.Duration > 0, "duration", "be there beside schedule, above 0", b.Duration)
	}
}

func checkRollout(d *nodescaler.Disruption, f Faults) {
	r := d.Rollout
	if r == nil {
		return
	}
	f.Must(d.Drift == nodescaler.DriftReplace, "", "not be set unless drift is Replace", string(d.Drift))
	f.Must(r.MaxFailures >= 0, "maxFailures", "be ≥ 1, or nothing", r.MaxFailures)
	f.Must(r.MissedFor >= 0, "missedFor", "be above 0, or nothing", r.MissedFor)
	f.Must(slices.Contains([]nodescaler.RolloutFailure{"", nodescaler.RolloutRollback, nodescaler.RolloutStop}, r.OnFailure), "onFailure", "be Rollback or Stop", string(r.OnFailure))
	if c := r.Canary; c != (nodescaler.Canary{}) {
		f.Must(c.Machines > 0, "canary.machines", "be ≥ 1", c.Machines)
		f.Must(c.For > 0, "canary.for", "be above 0", c.For)
	}
}

// minExpireAfter keeps machines from being made all the time.
const minExpireAfter = nodescaler.Duration(time.Hour)

func causes() string {
	var all []string
	for _, c := range nodescaler.Causes {
		all = append(all, string(c))
	}
	return strings.Join(all, ", ")
}

// checkJoin hands on what the join profile finds wrong with itself, and sees whether the pool has
// what it needs.
func (p *Pool) checkJoin(f Faults) {
	f.join("join", p.Join.Validate())
	f.Must(!p.NeedsDisc() || p.ISO.Storage != "", "iso.storage", "name a storage for the discs that the join profile needs", p.ISO.Storage)
	f.Must(p.NeedsDisc() || p.ISO.Storage == "", "iso.storage", "be omitted: the join profile needs no disc", p.ISO.Storage)
	p.checkMachines(f)
}

// anyUUID is as long as the system UUID of any machine.
const anyUUID = "00000000-0000-0000-0000-000000000000"

// checkMachines plans machines of the pool and has their first boots checked: of each shape, on
// each host, and with the first and the last address. One that is refused later has cost a clone,
// and so has each one after it.
func (p *Pool) checkMachines(f Faults) {
	whole := p.Complete()
	hosts := whole.Hosts()
	if len(hosts) == 0 {
		hosts = []string{"host"}
	}
	check := func(shape int, host string, vmid int) {
		m := MachineOf{Name: p.Name + "-" + strings.Repeat("0", OrderLen-1), Host: host, UUID: anyUUID, VMID: vmid, MAC: "bc:24:11:00:00:00"}
		if shape < len(p.Shapes) {
			m.Shape = p.Shapes[shape].Name
		}
		f.machine(whole.Join.CheckMachine(whole.FirstBoot(m)), shape)
	}
	for i := range p.Shapes {
		check(i, hosts[0], p.VMIDs.First)
	}
	for _, host := range hosts {
		check(0, host, p.VMIDs.Last)
	}
}

// machineKeys are the keys of a pool that keys of its machines come from. The first whose beginning
// a key has counts.
var machineKeys = []struct{ of, from string }{
	{fmt.Sprintf("machine.labels[%q]", labelShape), "shapes[%d].name"},
	{fmt.Sprintf("machine.labels[%q]", labelRegion), "region"},
	{fmt.Sprintf("machine.labels[%q]", labelZone), "zone"},
	{"machine.host", "placement.hosts"},
	{"machine.vmid", "vmids"},
	{"machine.nics[0].ipv4", "network.first"},
	{"machine.nics[0].ipv6", "network.first"},
	{"machine.nics[0].gateway4", "network.gateway"},
	{"machine.nics[0].gateway6", "network.gateway"},
	{"machine.nics[0].dns", "network.nameservers"},
	{"machine.nics[0].search[0]", "network.search"},
	{"machine.", ""},
	{"", "join."},
}

// machine takes over the faults of a planned machine. It skips keys that are at fault already.
func (f Faults) machine(err error, shape int) {
	var several interface{ Unwrap() []error }
	if !errors.As(err, &several) {
		return
	}
	for _, e := range several.Unwrap() {
		fault, key := e.(*firstboot.Fault), "" //nolint:errorlint // nothing else is joined, and it is never wrapped
		for _, k := range machineKeys {
			if rest, is := strings.CutPrefix(fault.Path(), k.of); is {
				key = f.at(strings.Replace(k.from, "%d", strconv.Itoa(shape), 1) + rest).path
				break
			}
		}
		if !slices.ContainsFunc(*f.all, func(e error) bool { return e.(interface{ Path() string }).Path() == key }) { //nolint:errorlint // as above
			*f.all = append(*f.all, fault.At(key))
		}
	}
}

// join takes over the faults of a part that knows its own.
func (f Faults) join(key string, err error) {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		for _, e := range several.Unwrap() {
			f.join(key, e)
		}
		return
	}
	if err != nil {
		*f.all = append(*f.all, &partFault{f.at(key).path, err})
	}
}

// partFault is a fault of a part, under the part's own path.
type partFault struct {
	path string
	err  error
}

// Path is the key at fault, as it is written in configuration.
func (p *partFault) Path() string {
	var inner interface{ Path() string }
	if errors.As(p.err, &inner) && inner.Path() != "" {
		return p.path + "." + inner.Path()
	}
	return p.path
}

func (p *partFault) Error() string {
	var inner interface{ Path() string }
	if errors.As(p.err, &inner) && inner.Path() != "" {
		return p.path + "." + p.err.Error()
	}
	return p.path + ": " + p.err.Error()
}

func (p *partFault) Unwrap() error { return p.err }

// resourceName is what nodes may have besides CPU, memory and pods.
var resourceName = regexp.MustCompile(`^(ephemeral-storage|hugepages-[1-9][0-9]*(Ki|Mi|Gi)|[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)$`)

// maxRatio is more than anybody overcommits, and catches percentages.
const maxRatio = 32

func (p *Pool) checkNode(f Faults) {
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		at := fmt.Sprintf("labels[%q]", key)
		f.Must(!slices.Contains([]string{"kubernetes.io/hostname", labelPool, labelShape, labelRegion, labelZone}, key), at,
			"be left to Plimsoll, which sets it", key)
	}
	for i, t := range p.Taints {
		at := f.index("taints", i)
		at.Must(t.Effect == "NoSchedule" || t.Effect == "NoExecute", "effect", "be NoSchedule or NoExecute", t.Effect)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Resources)) {
		at := fmt.Sprintf("resources[%q]", name)
		f.Must(resourceName.MatchString(name), at, "be ephemeral-storage, hugepages-SIZE or the name of an extended resource such as nvidia.com/gpu", name)
		f.Must(p.Resources[name] > 0, at, "be above 0", int64(p.Resources[name]))
	}
}

// notOptions are the keys that guest.options may not hold, by name without number, and why.
var notOptions = map[string]string{
	"name": managed, "description": managed, "tags": managed, "smbios": managed, "vmgenid": managed,
	"cores": managed, "sockets": managed, "memory": managed, "balloon": managed, "protection": managed, "onboot": managed,
	"agent":   "set guest.agent",
	"cpu":     "set guest.cpuType",
	"machine": "set guest.machine",
	"numa":    "set guest.numa",
	"net":     "set bridge, vlan and firewall",
	"ide":     disks, "sata": disks, "scsi": disks, "virtio": disks, "efidisk": disks, "tpmstate": disks, "unused": disks,
	"bootdisk": disks, "cdrom": disks,
	"cicustom": firstBoot, "cipassword": firstBoot, "citype": firstBoot, "ciupgrade": firstBoot, "ciuser": firstBoot,
	"ipconfig": firstBoot, "nameserver": firstBoot, "searchdomain": firstBoot, "sshkeys": firstBoot,
	"args": rootOnly, "affinity": rootOnly, "lock": rootOnly, "skiplock": rootOnly, "hookscript": rootOnly,
	"startup": "it needs Sys.Modify on the whole cluster", "template": "a template is no machine",
	"delete": noKey, "digest": noKey, "force": noKey, "revert": noKey, "background_delay": noKey, "parent": noKey, "snapstate": noKey,
	"snaptime": noKey, "vmstate": noKey, "runningmachine": noKey, "runningcpu": noKey, "meta": noKey, "pending": noKey,
}

const (
	managed   = "Plimsoll sets it on every machine"
	disks     = "disks are the template's"
	firstBoot = "the join profile sets it"
	rootOnly  = "only root@pam may set it, and no token is root@pam"
	noKey     = "it is no setting of a VM"
)

func (g *Guest) check(f Faults) {
	f.Must(!strings.ContainsAny(g.CPUType, ", \t\n"), "cpuType", "be one word such as host", g.CPUType)
	f.Must(!strings.ContainsAny(g.Machine, ", \t\n"), "machine", "be one word such as q35", g.Machine)
	for _, key := range slices.Sorted(maps.Keys(g.Options)) {
		at := "options." + key
		f.Must(optionKey.MatchString(key), at, "be a key of qm set", key)
		why, denied := notOptions[strings.TrimRight(key, "0123456789")]
		f.Must(!denied, at, "be omitted: "+why, g.Options[key])
		f.Must(g.Options[key] != "", at, "have a value", "")
		f.Must(!strings.ContainsAny(g.Options[key], "\r\n"), at, "be one line", g.Options[key])
		rule := deviceRule(strings.TrimRight(key, "0123456789"), g.Options[key])
		f.Must(rule == "", at, rule, g.Options[key])
	}
}

// deviceRule is what the value of a key must be, if that is one that only root@pam may give a
// machine otherwise; empty if it may be set.
func deviceRule(name, value string) string {
	first, named := pveapi.Properties(value)
	switch {
	case name == "serial" && value != "socket":
		return "be socket: only root@pam may give a port of the host away"
	case name == "hostpci" && named["mapping"] == "":
		return "have mapping=NAME: only root@pam may name a device by its address"
	case name == "usb" && named["mapping"] == "" && cmp.Or(named["host"], first) != "spice":
		return "have mapping=NAME, or be spice: only root@pam may name a device by its address"
	}
	return ""
}

// Conflicts returns what is wrong with each of these pools, which are valid by themselves, beside
// those before it, by name. A pool that conflicts does not count beside the later ones, so that
// the others of a set can be used. Servers are where this program works through, as URLs.
func Conflicts(pools []Pool, servers ...string) map[string]error {
	bad := map[string]error{}
	var good []Pool
	for _, p := range pools {
		if err := beside(good, p, servers); err != nil {
			bad[p.Name] = err
			continue
		}
		good = append(good, p)
	}
	return bad
}

// beside says what keeps a pool from being used beside others.
func beside(others []Pool, p Pool, servers []string) error {
	f := NewFaults()
	s := Site{Endpoints: servers, Pools: append(slices.Clone(others), p)}
	s.checkPoolsTogether(f)
	var errs []error
	for _, err := range *f.all {
		at, path := err.(*pricing.Fault), "" //nolint:errorlint // nothing else is collected, and it is never wrapped
		for i, o := range s.Pools {
			key, of := strings.CutPrefix(at.Path(), fmt.Sprintf("pools[%d].", i))
			switch {
			case of && i == len(others):
				path = key
			case of:
				path = "beside pool " + o.Name + ": " + key
			}
		}
		errs = append(errs, at.At(path))
	}
	return errors.Join(errs...)
}
