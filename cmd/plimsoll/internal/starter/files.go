package starter

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/pricing"
)

// The names of the files.
const (
	ConfigFile = "plimsoll.yaml"
	PoolsFile  = "vmpools.yaml"
	PricesFile = "pricebook.yaml"
	CAFile     = "ca.crt"
)

// File is a file that is proposed.
type File struct {
	Name string
	Text []byte
}

// Files are the proposal as files, each choice with its reason.
func (p *Proposal) Files() ([]File, error) {
	var files []File
	for _, f := range []struct{ name, text string }{{ConfigFile, configText}, {PoolsFile, poolsText}, {PricesFile, pricesText}} {
		t, err := template.New(f.name).Funcs(template.FuncMap{
			"list": list, "q": func(s string) string { return fmt.Sprintf("%q", s) }, "word": word, "line": line,
		}).Parse(f.text)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, p); err != nil {
			return nil, err
		}
		files = append(files, File{f.name, b.Bytes()})
	}
	if p.CA != nil {
		files = append(files, File{CAFile, p.CA})
	}
	return files, nil
}

// list is a YAML list of texts on one line.
func list(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = fmt.Sprintf("%q", t)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// word is a name as YAML 1.1, which Kubernetes reads, takes it for text: in quotes where it would
// be a number, a boolean or nothing.
func word(name string) string {
	var read any
	if err := yaml.Unmarshal([]byte(name), &read); err != nil || read != any(name) || !plain.MatchString(name) {
		return fmt.Sprintf("%q", name)
	}
	return name
}

// plain is what YAML takes for one word within brackets and braces, too.
var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// line is text from elsewhere that goes into a comment.
func line(text string) string { return strings.Trim(fmt.Sprintf("%q", text), `"`) }

// Others are the names of templates that were not chosen.
func (p *Proposal) Others() string {
	var all []string
	for _, t := range p.Templates {
		if t.VMID != p.Template.VMID {
			all = append(all, fmt.Sprintf("%d (%s)", t.VMID, line(t.Name)))
		}
	}
	return strings.Join(all, ", ")
}

// TemplateShared is whether the template's storage is shared.
func (p *Proposal) TemplateShared() bool { return p.storage(p.Template.Storage).Shared }

// Host is the first host of known size, from which capacity is priced.
func (p *Proposal) Host() Host {
	for _, h := range p.Hosts {
		if h.CPUs > 0 {
			return h
		}
	}
	return Host{Name: "unknown", CPUs: 8, Memory: 32 << 30}
}

// HostGiB is that host's memory in GiB.
func (p *Proposal) HostGiB() int { return max(1, int(p.Host().Memory>>30)) }

// DiskPrice is that of a GB of disk for an hour that fits the others: a hundredth of memory's.
func (p *Proposal) DiskPrice() (pricing.Micros, error) {
	perKWh, err := pricing.ParseMicros(p.PerKWh)
	if err != nil {
		return 0, err
	}
	watts, err := pricing.ParseMicros(p.Watts)
	perHost := float64(perKWh) * float64(watts) / float64(pricing.Unit) / 1000
	return max(1, pricing.Micros(perHost/2/float64(p.HostGiB())/100+.5)), err
}

const configText = `# The configuration of Plimsoll, proposed by 'plimsoll init' from Proxmox VE {{.Release}}. It holds no pools:
# those are VMPools, in vmpools.yaml.

# Names this installation in tags and notes of its machines. Two installations on one
# Proxmox VE cluster need two names.
owner: {{q .Owner}}

# Hosts of one Proxmox VE cluster, in the order they are tried. Add others, so that one may be down:
# the cluster has{{range .Hosts}} {{.Name}}{{end}}.
endpoints: {{list .Endpoints}}
{{if .CA}}
# The authority that the hosts' certificates are signed by.
caFile: ca.crt
{{else if .Fingerprints}}
# The SHA-256 fingerprints of their certificates, as 'pvenode cert info' shows them on each host.
fingerprints: {{list .Fingerprints}}
{{end}}
# Plimsoll's own token, not the one that init read with: 'plimsoll pve setup' prints the commands
# that make it. One line, plimsoll@pve!plimsoll=VALUE.
tokenFile: token

# In a pod both are known. Outside of one they must be set.
# namespace: plimsoll # of Plimsoll's lease
# state: kubernetes   # a ConfigMap there, or a folder

# Machines that are stopped and wake in seconds: as many as pay for their disks, by how long pods have
# waited for machines, for at most 5 % of what the machines cost.
nodes: {policy: joint, joint: {spares: auto}}
`

const poolsText = `# The machines that Plimsoll may make, proposed by 'plimsoll init'. Apply it with kubectl.
apiVersion: plimsoll.dev/v1alpha1
kind: VMPool
metadata: {name: workers}
spec:
  # Recommend shows what would be done, in status and events. Active does it.
  mode: Recommend

  # {{if .TemplateShared}}On storage {{.Template.Storage}}, which all hosts share: any host can clone it.{{else if .ByHost}}On local storage: each host clones its own template named {{line .Template.Name}}.{{else if .Pinned}}On storage {{.Template.Storage}}, which only {{.Pinned}} has: other hosts need templates of their own (byHost).{{else}}On storage {{.Template.Storage}} of the only host.{{end}}
{{- with .Others}}
  # Other templates: {{.}}.{{end}}
{{- if .ByHost}}
  template:
    byHost: { {{- range $i, $t := .ByHost}}{{if $i}}, {{end}}{{word $t.Host}}: {{$t.VMID}}{{end -}} }
{{- else}}
  template: {vmid: {{.Template.VMID}}} # {{line .Template.Name}}
{{- end}}
{{- if .Pinned}}
  placement: {hosts: [{{word .Pinned}}]}
{{- end}}
{{- if .Full}}
  # Storage {{.Template.Storage}} cannot make linked clones.
  clone: full
{{- else}}
  # Shares the template's disk: made in moments, on the template's storage.
  clone: linked
{{- end}}

  # {{if eq .Bridge .Template.Bridge}}The template's bridge.{{else}}Not the template's bridge{{with .Template.Bridge}}, {{.}}{{end}}.{{end}} Every host has it.
  bridge: {{q .Bridge}}
{{- with .Template.VLAN}}
  vlan: {{.}} # as the template
{{- end}}

  # The sizes that machines may have{{if gt (len .Hosts) 0}}: each fits into half of the smallest host{{end}}. The disk holds the template's.
  shapes:
{{- range .Shapes}}
    - {name: {{.Name}}, cpu: {{.CPU}}, memory: {{.MemoryGiB}}GiB, disk: {{.Disk}}GiB}
{{- end}}
  # As many of the smallest as half of the hosts' memory holds, and at most 10.
  max: {{.Max}}

  # VMIDs for this pool alone: the first range from 5000 on in which none is taken.
  vmids: {first: {{.First}}, last: {{.Last}}}
  # The resource pool that rights hang on. 'plimsoll pve setup' prints the command that makes it.
  pvePool: plimsoll

  guest:
{{- if .CPUType}}
    # The template names {{if .Template.CPU}}{{.Template.CPU}}{{else}}no CPU type, so that machines get kvm64{{end}}: many current images do not run on it.
    cpuType: {{.CPUType}}
{{- else}}
    # The CPU type is the template's, {{line .Template.CPU}}.
{{- end}}
    # {{if .Template.Agent}}The template says that qemu-guest-agent is in it: shutdown asks it.{{else}}The template does not switch the guest agent on.{{end}}
    agent: {{.Template.Agent}}

  # Where first-boot discs are kept: {{if .ISO.Shared}}all hosts share it{{else}}every host has one of this name{{end}}.
  iso: {storage: {{q .ISO.Name}}}

  # {{line .Join.Why}}.
{{- with .Join.Region}}
  region: {{q .}} # as in the nodes' provider ids
{{- end}}
  join:
    kind: {{.Join.Kind}}
{{- with .Join.Servers}}
    # The control plane{{if eq (index . 0) "SERVER"}} was not seen: write the address of a server or load balancer{{end}}. A load balancer's address survives the loss of a server.
    servers: {{list .}}
{{- end}}
{{- if or (eq .Join.Kind "rke2") (eq .Join.Kind "k3s")}}
    # A file with the agents' own token: /var/lib/rancher/{{.Join.Kind}}/server/agent-token of a server.
    tokenFile: join-token
{{- with .Join.Version}}
    # The version that the control plane runs. With 'from: template' it is in the template.
    install: {from: script, version: {{q .}}}
{{- else}}
    # Its version was not seen. Unless it is in the template, add one as the control plane runs:
    # install: {from: script, version: v1.34.1+{{.Join.Kind}}{{if eq .Join.Kind "rke2"}}r{{end}}1}
{{- end}}
{{- else if eq .Join.Kind "kubeadm"}}
    # A file with a bootstrap token: 'kubeadm token create --ttl 0' prints one that does not expire.
    tokenFile: join-token
{{- if .Join.CAHashes}}
    # The hash of the cluster's CA, which cluster-info in kube-public has.
    caCertHashes: {{list .Join.CAHashes}}
{{- else}}
    # The hash of the cluster's CA was not seen: 'kubeadm token create --print-join-command' prints it.
    caCertHashes: ["sha256:0000000000000000000000000000000000000000000000000000000000000000"]
{{- end}}
{{- else}}
    # {{if eq .Join.Kind "talos"}}A worker's machine configuration, as talosctl gen config writes it.{{else}}User-data that joins the node.{{end}}
    userDataFile: user-data
{{- end}}
    # What the nodes' provider ids look like{{if eq .Join.Scheme .Join.Kind}}, as {{.Join.Kind}} sets them{{end}}.
    providerID: {scheme: {{.Join.Scheme}}}
`

const pricesText = `# What machines cost, proposed by 'plimsoll init'. Replace watts, tariff and hardware by your own:
# 'plimsoll price --book pricebook.yaml' shows the working.
apiVersion: plimsoll.dev/v1alpha1
kind: PriceBook
metadata: {name: default}
spec:
  currency: {{q .Currency}}
  derived:
    pricePerKWh: {{q .PerKWh}} # --price-per-kwh
    wattsPerHost: {{q .Watts}} # --watts: what a host draws on average; a guess until it is measured
    # What host {{.Host.Name}} has to give, as Proxmox VE says.
    hostVCPU: {{.Host.CPUs}}
    hostMemory: {{.HostGiB}}GiB
    vCPUSharePercent: 50 # the vCPUs bear half, memory the rest
    # What the hosts were bought for, spread over how long they serve.
    # hardwarePrice: "2000"
    # amortiseMonths: 48
  # What each machine costs beside its vCPUs and memory, such as a licence.
  # pricePerMachineHour: "0.01"
  # What a GB of machines' disks costs. Without it, spares that are stopped cost nothing.
  # A hundredth of what a GiB of memory costs, or the least that can be written: with much more, no spare pays for its disk.
  # pricePerDiskGBHour: "{{.DiskPrice}}"
`
