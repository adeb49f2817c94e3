package firstboot

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Taint keeps pods away that do not tolerate it.
type Taint struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
	// Effect is NoSchedule, PreferNoSchedule or NoExecute.
	Effect string `json:"effect"`
}

// String is the taint as the kubelet reads it.
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func (f *faults) name(path, name string) {
	if f.must(len(name) <= 63, path, fmt.Sprintf("must have at most 63 characters, has %d", len(name)), name) {
		f.must(dnsLabel.MatchString(name), path,
			"must be of lower-case letters, digits and -, with a letter or digit at both ends", name)
	}
}

// What Kubernetes takes as the parts of a label.
var (
	labelName   = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	labelPrefix = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// What a kubelet may say of its own node below kubernetes.io and k8s.io; the kubelet does not
// start with anything else in its --node-labels, and the NodeRestriction admission refuses it.
var (
	ownLabels = []string{
		"beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type", "beta.kubernetes.io/os",
		"failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
		"kubernetes.io/arch", "kubernetes.io/hostname", "kubernetes.io/os",
		"node.kubernetes.io/instance-type",
		"topology.kubernetes.io/region", "topology.kubernetes.io/zone",
	}
	ownPrefixes = []string{"kubelet.kubernetes.io", "node.kubernetes.io"}
)

const (
	hostnameLabel = "kubernetes.io/hostname"
	regionLabel   = "topology.kubernetes.io/region"
	zoneLabel     = "topology.kubernetes.io/zone"
)

// within reports whether a domain is another one or below it.
func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// mayLabelItself reports whether a kubelet may give its own node a label.
func mayLabelItself(key string) bool {
	prefix, _, found := strings.Cut(key, "/")
	if !found || !within(prefix, "kubernetes.io") && !within(prefix, "k8s.io") {
		return true
	}
	return slices.Contains(ownLabels, key) ||
		slices.ContainsFunc(ownPrefixes, func(own string) bool { return within(prefix, own) })
}

// qualified checks the key of a label or taint.
func (f *faults) qualified(path, key string) bool {
	prefix, name, found := strings.Cut(key, "/")
	if !found {
		prefix, name = "", key
	}
	kept := len(name) <= 63 && labelName.MatchString(name) &&
		(!found || len(prefix) <= 253 && labelPrefix.MatchString(prefix))
	return f.must(kept, path, "must be a name of at most 63 letters, digits, -, _ and ., with a DNS prefix and / before it or without", key)
}

// labelValue checks the value of a label or taint.
func (f *faults) labelValue(path, value string) bool {
	return f.must(value == "" || len(value) <= 63 && labelName.MatchString(value), path,
		"must be at most 63 letters, digits, -, _ and ., with a letter or digit at both ends", value)
}

// labels checks the labels of nodes whose kubelet gives them to itself. Names of nodes come
// later, so one label for all of them cannot hold one.
func (f *faults) labels(path string, labels map[string]string, node string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		path, value := under(path, key), labels[key]
		if !f.qualified(path, key) || !f.labelValue(path, value) {
			continue
		}
		if key == hostnameLabel {
			f.must(node != "" && value == node, path, "must be left to the kubelet, or be the node's own name", value)
			continue
		}
		f.must(mayLabelItself(key), path, "must be one that a kubelet may give its own node: below kubernetes.io and k8s.io only "+
			strings.Join(ownLabels, ", ")+", and what is in "+strings.Join(ownPrefixes, " or "), value)
	}
}

// taints checks taints; there is one of a key and effect on a node.
func (f *faults) taints(path string, taints []Taint) {
	for i, t := range taints {
		path := at(path, i)
		f.qualified(path+".key", t.Key)
		f.labelValue(path+".value", t.Value)
		oneOf(f, path+".effect", t.Effect, "NoSchedule", "PreferNoSchedule", "NoExecute")
		f.must(!slices.ContainsFunc(taints[:i], func(o Taint) bool { return o.Key == t.Key && o.Effect == t.Effect }),
			path, "must be the only taint of its key and effect", t.String())
	}
}

// labelList is labels as the kubelet reads them, sorted.
func labelList(labels map[string]string) []string {
	out := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, key+"="+labels[key])
	}
	return out
}

// taintList is taints as the kubelet reads them, sorted.
func taintList(taints []Taint) []string {
	out := make([]string, len(taints))
	for i, t := range slices.SortedFunc(slices.Values(taints), compareTaints) {
		out[i] = t.String()
	}
	return out
}

func compareTaints(a, b Taint) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect), cmp.Compare(a.Value, b.Value))
}
