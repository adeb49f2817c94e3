package firstboot

import (
	"regexp"
	"slices"
	"strings"
)

// kubeadmPort is that of the Kubernetes API, through which kubeadm joins.
const kubeadmPort = 6443

// kubeadmConfig is where a machine finds what it joins by. It holds the token.
const kubeadmConfig = "/etc/kubernetes/plimsoll-join.yaml"

var (
	bootstrapToken = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)
	caCertHash     = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// joinConfiguration is kubeadm's, of the version that it reads since Kubernetes 1.31.
func (p *Profile) joinConfiguration(m *Machine, id string) string {
	boot := mapping{{"apiServerEndpoint", strings.TrimPrefix(p.server(m.Name), "https://")}, {"token", string(p.Token)}}
	boot.some("caCertHashes", p.CACertHashes)
	args := list{argument("provider-id", id)}
	if labels := labelList(p.labels(m)); len(labels) > 0 {
		args = append(args, argument("node-labels", strings.Join(labels, ",")))
	}
	for _, arg := range p.KubeletArgs {
		name, value, _ := strings.Cut(arg, "=")
		args = append(args, argument(name, value))
	}
	node := mapping{{"name", m.Name}, {"kubeletExtraArgs", args}}
	if taints := p.taints(m); len(taints) > 0 {
		var all list
		for _, t := range slices.SortedFunc(slices.Values(taints), compareTaints) {
			all = append(all, mapping{{"key", t.Key}, {"value", t.Value}, {"effect", t.Effect}})
		}
		node.add("taints", all)
	}
	return document(mapping{
		{"apiVersion", "kubeadm.k8s.io/v1beta4"},
		{"kind", "JoinConfiguration"},
		{"discovery", mapping{{"bootstrapToken", boot}}},
		{"nodeRegistration", node},
	})
}

// argument is one of the kubelet's.
func argument(name, value string) mapping { return mapping{{"name", name}, {"value", value}} }

// checkKubeadm checks what kubeadm alone joins by.
func (p *Profile) checkKubeadm(f *faults) {
	if p.Kind != Kubeadm {
		return
	}
	f.must(p.Token == "" || bootstrapToken.MatchString(string(p.Token)), "tokenFile",
		"must hold a bootstrap token, six letters and digits, a dot and sixteen more, as kubeadm token create prints it", hidden(p.Token))
	f.must(len(p.CACertHashes) > 0, "caCertHashes", "must have the hash of the cluster's CA, as kubeadm token create --print-join-command prints it", words("empty"))
	for i, hash := range p.CACertHashes {
		f.must(caCertHash.MatchString(hash), at("caCertHashes", i), "must be sha256: and 64 hexadecimal digits in lower case", hash)
	}
}

// portOf is the port that machines of a kind join at, unless it is written.
func portOf(kind Kind) int {
	if kind == Kubeadm {
		return kubeadmPort
	}
	return agents[kind].port
}
