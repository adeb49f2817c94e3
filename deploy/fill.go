package deploy

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"go.yaml.in/yaml/v3"
)

// The manifests of Plimsoll itself.
const (
	Recommend = "recommend" // it reads, and says what it would do
	Active    = "active"    // it decides on pods and machines
	Provider  = "provider"  // it decides on pods, and cluster-autoscaler on machines
)

// Plimsoll is Plimsoll's own manifests, as its chart renders them, with blanks for what differs
// between clusters.
type Plimsoll struct{ text string }

// Rendered returns the manifests of a name.
func Rendered(name string) (*Plimsoll, error) {
	text, err := Manifests.ReadFile("manifests/" + name + ".yaml")
	return &Plimsoll{string(text)}, err
}

// Kinds are the definitions of WorkloadAutoscaler, VMPool and PriceBook.
func Kinds() ([]byte, error) { return Manifests.ReadFile("manifests/crds.yaml") }

// Where the manifests hold what differs.
var (
	configHeld = regexp.MustCompile(`(?m)^  config\.yaml: \|\n(    .*\n)+`)
	sumHeld    = regexp.MustCompile(`(?m)^(        checksum/config: )[0-9a-f]{64}$`)
	// And what was ordered, under its name.
	leaseHeld = regexp.MustCompile(`(?m)^(    resourceNames: \[")plimsoll((-intents)?"\])$`)
	imageHeld = regexp.MustCompile(`(?m)^(          image: )"(.*)"$`)
)

// Image is the release's image.
func (p *Plimsoll) Image() string { return imageHeld.FindStringSubmatch(p.text)[2] }

// The rule that pods may be patched by, and what is before what is in the namespace of our own.
var (
	marksHeld = regexp.MustCompile(`(?m)^  - apiGroups: \[""\]\n    resources: \[pods\]\n    verbs: \[patch\].*\n`)
	ownHeld   = "# What is kept in the namespace of our own"
)

// markRole lets pods of one namespace be patched, as the chart has it.
const markRole = `# To say which pods go first when a workload shrinks, in this namespace.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: plimsoll-pods
  namespace: %[1]q
rules:
  - apiGroups: [""]
    resources: [pods]
    verbs: [patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: plimsoll-pods
  namespace: %[1]q
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: plimsoll-pods
subjects:
  - kind: ServiceAccount
    name: plimsoll
    namespace: plimsoll
---
`

// MarkPods gives the right to write deletion costs on pods of these namespaces alone, or of none.
func (p *Plimsoll) MarkPods(namespaces []string) {
	p.text = marksHeld.ReplaceAllLiteralString(p.text, "")
	var roles strings.Builder
	for _, n := range namespaces {
		fmt.Fprintf(&roles, markRole, n)
	}
	p.text = strings.Replace(p.text, ownHeld, roles.String()+ownHeld, 1)
	if len(namespaces) == 0 {
		p.drop("ValidatingAdmissionPolicy", "plimsoll-pods")
	}
}

// DropPolicies takes out the admission policies.
func (p *Plimsoll) DropPolicies() { p.drop("ValidatingAdmissionPolicy", "plimsoll-") }

// drop takes out the objects of which kind and name begin so.
func (p *Plimsoll) drop(kind, name string) {
	begins := regexp.MustCompile(`(?m)^kind: ` + kind + `\w*\nmetadata:\n  name: ` + name)
	documents := strings.Split(p.text, "\n---\n")
	documents = slices.DeleteFunc(documents, begins.MatchString)
	p.text = strings.Join(documents, "\n---\n")
}

// With returns the manifests with a configuration file in them, and with another image if one is
// named. Of the file, what follows from how the pod is made gives way to what the manifests say.
func (p *Plimsoll) With(config map[string]any, image string) (string, error) {
	var ours map[string]any
	held := strings.TrimPrefix(strings.ReplaceAll(configHeld.FindString(p.text), "\n    ", "\n"), "  config.yaml: |\n")
	if err := yaml.Unmarshal([]byte(held), &ours); err != nil {
		return "", err
	}
	file := map[string]any{}
	maps.Copy(file, config)
	for _, key := range []string{"mode", "metrics", "state"} {
		file[key] = ours[key]
	}
	if served, is := ours["provider"].(map[string]any); is {
		merged := map[string]any{}
		if named, is := file["provider"].(map[string]any); is {
			maps.Copy(merged, named)
		}
		maps.Copy(merged, served)
		file["provider"] = merged
	}
	delete(file, "kubeconfig")
	delete(file, "namespace")
	text, err := written(file)
	if err != nil {
		return "", err
	}
	out := configHeld.ReplaceAllLiteralString(p.text, "  config.yaml: |\n    "+strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ")+"\n")
	// Pods start anew when it is another.
	out = sumHeld.ReplaceAllString(out, fmt.Sprintf("${1}%x", sha256.Sum256([]byte(text))))
	if lease, is := config["lease"].(string); is && lease != "" {
		out = leaseHeld.ReplaceAllString(out, "${1}"+lease+"${2}") // or it may not lead
	}
	if image != "" {
		out = imageHeld.ReplaceAllString(out, fmt.Sprintf("${1}%q", image))
	}
	return out, nil
}

// written is a configuration as the chart writes it.
func written(config map[string]any) (string, error) {
	var b strings.Builder
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(decimal(config)); err != nil {
		return "", err
	}
	return b.String(), e.Close()
}

// decimal is a value with its numbers in digits: encoded as they are, large and small ones have
// exponents, which the program refuses.
func decimal(value any) any {
	switch v := value.(type) {
	case map[string]any:
		all := map[string]any{}
		for key, each := range v {
			all[key] = decimal(each)
		}
		return all
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = decimal(v[i])
		}
		return all
	case float64:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatFloat(v, 'f', -1, 64)}
	}
	return value
}

// Autoscaler is upstream's cluster-autoscaler, with what differs between clusters.
type Autoscaler struct {
	Namespace, Image, Address, Expander, Secret, Timeout string
	// ExpanderAddress is where the expander grpc is asked.
	ExpanderAddress string
	// Command is what printed it.
	Command string
	// Buffers has it keep room for CapacityBuffers.
	Buffers bool
	// Machines are the most that all pools may have, Clones how many are made at a time, and
	// CloneTime is what one takes.
	Machines, Clones int
	CloneTime        time.Duration
}

// lead is what a machine may take that waits for no other: cluster-autoscaler's own default.
const lead = 15 * time.Minute

// ProvisionTime is how long the last machine of the largest order may take to become a node.
func (a *Autoscaler) ProvisionTime() string {
	waves := (a.Machines + a.Clones - 1) / a.Clones
	return short(lead + time.Duration(waves)*a.CloneTime)
}

// short is a duration without parts that are 0.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

var minorRelease = regexp.MustCompile(`:v1\.(\d+)\.`)

// FrequentLoops is whether the image's release surely knows the flag: with an unknown one it ends.
func (a *Autoscaler) FrequentLoops() bool {
	found := minorRelease.FindStringSubmatch(a.Image)
	if found == nil {
		return false
	}
	minor, err := strconv.Atoi(found[1])
	return err == nil && minor >= 31
}

// UsualAutoscaler is cluster-autoscaler beside Plimsoll where it is installed as its manifests have
// it.
func UsualAutoscaler() Autoscaler {
	return Autoscaler{
		Namespace: "kube-system", Image: "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1", Address: "plimsoll.plimsoll.svc:8086",
		Expander: "grpc", ExpanderAddress: "plimsoll.plimsoll.svc:8087", Secret: "plimsoll-provider-client", Timeout: "10s",
		Machines: 10, Clones: 2, CloneTime: 2 * time.Minute,
	}
}

// Print writes its manifests.
func (a *Autoscaler) Print(w io.Writer) error {
	t, err := template.ParseFS(ClusterAutoscaler, "cluster-autoscaler/manifests.yaml")
	if err != nil {
		return err
	}
	return t.Option("missingkey=error").Execute(w, a)
}
