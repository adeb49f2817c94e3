package convert

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

// What kproximate's chart has where its values do not say.
const (
	kpCores, kpMemory, kpMost = 2, 2048, 3
	kpPrefix                  = "kp-node"
)

// kproximate finds the values of its chart, alone or as a part of another chart's. They are no
// manifest: all settings are below the key kproximate, and there is no kind.
func kproximate(m tree) (tree, bool) {
	if m.at("kind").there() {
		return m, false
	}
	values := m
	if _, is := m.at("kproximate").at("kproximate").value.(map[string]any); is {
		values = m.at("kproximate")
	}
	in, is := values.at("kproximate").value.(map[string]any)
	return values, is && (in["config"] != nil || in["secrets"] != nil)
}

// fromKproximate makes a VMPool of the values. What a pool needs and the values do not have is an
// example, with a note that says so. Secrets are read, and never written.
func fromKproximate(values tree) *v1alpha1.VMPool {
	kp := values.at("kproximate")
	k := &kpPool{tree: values, config: kp.at("config"), secrets: kp.at("secrets"), pool: &v1alpha1.VMPool{}}
	p := k.pool
	p.APIVersion, p.Kind = v1alpha1.GroupVersion.String(), v1alpha1.KindVMPool
	prefix := k.config.at("kpNodeNamePrefix")
	prefix.becomes("metadata.name")
	p.Name = cmp.Or(prefix.text(), kpPrefix)
	p.Spec.Mode = v1alpha1.ModePoolRecommend
	k.sizes()
	k.template()
	k.placed()
	k.join()
	k.labels()
	k.connection()
	k.decisions()
	k.others()
	return p
}

// kpPool is a pool in the making.
type kpPool struct {
	tree
	config, secrets tree
	pool            *v1alpha1.VMPool
}

// is reads a true or false.
func (t tree) is() bool {
	switch word := t.word(); word {
	case "true":
		return true
	case "", "false":
	default:
		t.fault("must be true or false", word)
	}
	return false
}

// number reads a whole number; what is not there is otherwise.
func (t tree) number(otherwise int32) int32 {
	if n, there := t.whole(); there {
		return n
	}
	return otherwise
}

func (k *kpPool) sizes() {
	cores, memory, most := k.config.at("kpNodeCores"), k.config.at("kpNodeMemory"), k.config.at("maxKpNodes")
	cores.becomes("spec.shapes[0].cpu")
	memory.becomes("spec.shapes[0].memory")
	most.becomes("spec.max")
	s := &k.pool.Spec
	s.Shapes = []v1alpha1.Shape{{
		Name: "small", CPU: v1alpha1.Cores(fmt.Sprint(cores.number(kpCores))), Memory: v1alpha1.Size(fmt.Sprintf("%dMi", memory.number(kpMemory))),
	}}
	s.Max = most.number(kpMost)
	last := 10_000 + max(99, 2*s.Max-1)
	s.VMIDs = v1alpha1.VMIDs{First: 10_000, Last: v1alpha1.VMID(last)}
	k.note("vmids: {first: 10000, last: %d} is an example: kproximate takes the next free VMID, and a pool has a range that no other client uses", last)
}

func (k *kpPool) template() {
	t := k.config.at("kpNodeTemplateName")
	name := cmp.Or(t.text(), "NAME")
	s := &k.pool.Spec
	s.Template.VMID = 9000
	if k.config.at("kpLocalTemplateStorage").is() {
		k.note("template: {vmid: 9000} is an example: kproximate clones the template %s of each host, so name each one's VMID, as in {byHost: {pve1: 9000, pve2: 9001}}", name)
	} else {
		k.note("template: {vmid: 9000} is an example: kproximate names its template, %s, and a pool has the VMID that `qm list` shows beside that name", name)
	}
	s.PVEPool = "plimsoll"
	k.note("pvePool: plimsoll is an example: the resource pool that machines are put into, as `pvesh create /pools --poolid plimsoll` makes it")
}

// placed is on which hosts.
func (k *kpPool) placed() {
	for _, key := range []string{"pmExcludeHosts", "excludedNodes"} {
		for i, host := range strings.FieldsFunc(k.config.at(key).text(), func(r rune) bool { return r == ',' || r == ' ' }) {
			if k.pool.Spec.Placement == nil {
				k.pool.Spec.Placement = &v1alpha1.Placement{}
			}
			k.config.at(key).becomes(fmt.Sprintf("spec.placement.maintenance[%d]", i))
			k.pool.Spec.Placement.Maintenance = append(k.pool.Spec.Placement.Maintenance, v1alpha1.HostName(host))
		}
	}
	if k.config.at("nodeSelectionStrategy").text() != "" {
		k.note("placement: hosts are chosen by price and spread; placement: {spread: none} fills the cheapest and roomiest first")
	}
	if n := k.config.at("minAvailableMemoryMB").number(0); n > 0 {
		k.note("minAvailableMemoryMB: a host keeps as much of its memory with placement: {memoryReserve: %dMi}", n)
	}
	if k.config.at("minAvailableCpuCores").number(0) > 0 {
		k.note("minAvailableCpuCores: how much of a host's CPU is promised is limited by placement: {cpuRatio: 2}")
	}
}

// The labels that Plimsoll sets by itself.
const (
	regionLabel, zoneLabel = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
)

// ofTheHost is a label's value that names the host.
var ofTheHost = regexp.MustCompile(`^\{\{-? *\.?[Tt]argetHost *-?\}\}$`)

func (k *kpPool) labels() {
	t := k.config.at("kpNodeLabels")
	s := &k.pool.Spec
	for pair := range strings.SplitSeq(t.text(), ",") {
		key, value, is := strings.Cut(strings.TrimSpace(pair), "=")
		switch {
		case pair == "":
		case !is || key == "":
			t.fault("must be labels KEY=VALUE with commas between them", pair)
		case (key == zoneLabel || key == regionLabel) && !k.byDisc():
			t.lose("label %s: without a first-boot disc a node has it by its kubelet alone, as by --node-labels; with join: {userDataFile: user-data, topologyLabels: true} it is written there", key)
		case key == zoneLabel && ofTheHost.MatchString(value):
			s.Join.TopologyLabels = true
		case strings.Contains(value, "{{"):
			t.lose("label %s: a pool's labels are the same on each host: make a pool for each host, with placement: {hosts: [pve1]}", key)
		case key == regionLabel:
			t.becomes("spec.region")
			s.Region, s.Join.TopologyLabels = v1alpha1.NodeLabelValue(value), true
		default:
			t.becomes("spec.labels")
			if s.Labels == nil {
				s.Labels = map[string]v1alpha1.NodeLabelValue{}
			}
			s.Labels[key] = v1alpha1.NodeLabelValue(value)
		}
	}
	if len(s.Labels) > 0 && s.Join.Kind == "custom" {
		k.note("labels: nodes must have them by themselves, as by their kubelets' --node-labels; pods are planned for as if they had")
	}
	if s.Join.TopologyLabels && s.Region == "" {
		s.Region = "home"
		k.note("region: home is an example: nodes are labelled with a region beside their zone, the host")
	}
}

// The servers that a join command names: k3s and RKE2 by their scripts.
var (
	k3sCommand  = regexp.MustCompile(`get\.k3s\.io|K3S_URL|\bk3s agent\b`)
	rke2Command = regexp.MustCompile(`get\.rke2\.io|rke2-agent|INSTALL_RKE2`)
	serverURL   = regexp.MustCompile(`(?:K3S_URL=|RKE2_URL=|--server[= ]|server: *)["']?(https://[A-Za-z0-9.:\[\]-]+)`)
)

func (k *kpPool) join() {
	command := k.secrets.at("kpJoinCommand").text()
	byAgent := k.config.at("kpQemuExecJoin").is()
	j, server := &k.pool.Spec.Join, ""
	if found := serverURL.FindStringSubmatch(command); found != nil {
		server = found[1]
	}
	switch {
	case k3sCommand.MatchString(command):
		k.agent("k3s", server, "https://k3s.example:6443", "K3S_TOKEN")
	case rke2Command.MatchString(command):
		k.agent("rke2", server, "https://rke2.example:9345", "RKE2_TOKEN")
	case command != "" || byAgent:
		j.Kind, j.UserDataFile, j.ProviderID.Scheme = "custom", "user-data", "uuid"
		k.note("join.userDataFile: user-data is an example: a file of Plimsoll's Secret that begins with #cloud-config and has kpJoinCommand under runcmd, as in runcmd: [kubeadm join 10.0.0.1:6443 --token …]")
	default:
		j.Kind, j.ProviderID.Scheme = "custom", "uuid"
		k.note("join: {kind: custom} without userDataFile: the template joins by itself, as without kpQemuExecJoin; add userDataFile: user-data to join by a first-boot disc")
	}
	if j.Kind == "custom" {
		k.note("join.providerID: {scheme: uuid} is an example: it must be what nodes get, which with Proxmox VE's cloud controller is proxmox")
	}
	if k.byDisc() {
		k.pool.Spec.ISO = &v1alpha1.ISO{Storage: "local"}
		k.note("iso: {storage: local} is an example: a storage with content iso, for first-boot discs")
	}
	k.secrets.at("sshKey").becomes("spec.join.sshKeys[0]")
	switch key, off := k.secrets.at("sshKey").text(), k.config.at("kpNodeDisableSsh").is(); {
	case key == "" || off:
	case j.Kind == "custom":
		k.note("sshKey: user-data of your own lets its owner in: ssh_authorized_keys: [%s]", key)
	default:
		j.SSHKeys = []string{key}
	}
	if wait, there := k.config.at("waitSecondsForJoin").whole(); there {
		k.config.at("waitSecondsForJoin").becomes("spec.joinTimeout")
		k.pool.Spec.JoinTimeout = duration(time.Duration(max(wait, 60)) * time.Second)
	}
}

// byDisc reports whether machines have a first-boot disc.
func (k *kpPool) byDisc() bool {
	return k.pool.Spec.Join.Kind != "custom" || k.pool.Spec.Join.UserDataFile != ""
}

// agent is how machines join as agents.
func (k *kpPool) agent(kind, server, example, token string) {
	j := &k.pool.Spec.Join
	j.Kind, j.TokenFile, j.ProviderID.Scheme = kind, "join-token", kind
	if server == "" {
		server = example
		k.note("join.servers: [%s] is an example: kpJoinCommand names none", example)
	}
	j.Servers = []string{server}
	k.note("join.tokenFile: join-token is an example: a file of Plimsoll's Secret with the value of %s, better an agents' token", token)
	k.note("join.install: kpJoinCommand may install %s; if it is not in the template: install: {from: script, version: …}", kind)
}

// connection is what is said of Proxmox VE.
func (k *kpPool) connection() {
	c := k.config
	if at := c.at("pmUrl").text(); at != "" {
		endpoint := "https://pve1.example:8006"
		if u, err := url.Parse(at); err == nil && u.Host != "" {
			endpoint = u.Scheme + "://" + u.Host
		}
		k.note("pmUrl belongs into plimsoll.yaml: endpoints: [%s]", endpoint)
	}
	if c.at("pmUserID").text()+k.secrets.at("pmToken").text()+k.secrets.at("pmPassword").text() != "" {
		k.note("pmUserID, pmToken and pmPassword are not used: Plimsoll has a token of its own, for which `plimsoll pve setup` prints the commands, in tokenFile: token of plimsoll.yaml")
	}
	if c.at("pmAllowInsecure").is() {
		k.note("pmAllowInsecure: certificates are always checked; in plimsoll.yaml: fingerprints: [C0:FF:EE:…], as `pvenode cert info` shows them, or caFile")
	}
}

// decisions are what is said of when machines come and go, which is of all pools.
func (k *kpPool) decisions() {
	c := k.config
	if c.at("loadHeadroom").text() != "" {
		k.note("loadHeadroom: machines go when their pods have places elsewhere; room is kept free by a CapacityBuffer, or in plimsoll.yaml fewer go: nodes: {policy: unneeded, unneeded: {scaleDownUtilizationThreshold: 0.5}}")
	}
	if n := c.at("pollInterval").number(0); n > 0 {
		k.note("pollInterval belongs into plimsoll.yaml: interval: %ds", max(n, 10))
	}
	if n := c.at("scaleDownCooldownSeconds").number(0); n > 0 {
		k.note("scaleDownCooldownSeconds belongs into plimsoll.yaml: nodes: {policy: unneeded, unneeded: {scaleDownDelayAfterAdd: %ds}}", n)
	}
	c.at("waitSecondsForProvision").number(0) // there is no limit on all of it, and none is needed
	c.at("enableAffinityScaling").is()        // selectors and affinity always count
}

// others are what is of kproximate's own pods.
func (k *kpPool) others() {
	for _, key := range []string{"debug", "pmDebug", "rabbitMQHost", "rabbitMQPort", "rabbitMQUser", "rabbitMQUseTLS"} {
		k.config.at(key).skip()
	}
	k.secrets.at("rabbitmqPassword").skip()
	k.secrets.at("rabbitMQPassword").skip()
	for _, key := range k.keys() {
		if key != "kproximate" {
			k.at(key).skip() // and of other charts, where these values are a part of theirs
		}
	}
}
