package rke2

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"regexp"
	"slices"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// Run is what experiments on the test bed are given. What is omitted is as DefaultRun has it.
type Run struct {
	// Namespace is where the application and the load are; all in it that the test bed put there is
	// removed before a run and behind it.
	Namespace string `json:"namespace,omitempty"`
	Images    Images `json:"images,omitzero"`
	// Digits are the decimals of π of a request. Without them every pod finds out when it starts
	// what takes the experiment's demand on its machine.
	Digits int `json:"digits,omitempty"`
	// Prometheus is one that is in the cluster; omitted, the add-on, if there is that. Without any,
	// its data are not kept.
	Prometheus *PrometheusAt `json:"prometheus,omitempty"`
	Signals    Signals       `json:"signals,omitzero"`
}

// Images are what runs in pods. An empty one of Plimsoll is the release's.
type Images struct {
	Plimsoll string `json:"plimsoll,omitempty"`
	K6       string `json:"k6,omitempty"`
}

// PrometheusAt is how a Prometheus is reached.
type PrometheusAt struct {
	// URL is its address for whoever runs the experiment; without it, nothing is collected from it.
	URL string `json:"url,omitempty"`
	// InCluster is its address for Plimsoll, which reads Istio's metrics there; without it, and
	// with OTel, it reads them from the pods.
	InCluster string `json:"inCluster,omitempty"`
}

// Signals are whose metrics measure the application's requests.
type Signals struct {
	// Preset is OTel, the loader's own metrics, or Istio, its proxy's.
	Preset v1alpha1.Preset `json:"preset,omitempty"`
	// Inject has Istio put its proxy into the application's pods.
	Inject bool `json:"inject,omitempty"`
}

// DefaultRun is what a site that says nothing of experiments says of them.
func DefaultRun() Run {
	return Run{Namespace: "plimsoll-testbed", Images: Images{K6: "grafana/k6:1.8.1"}, Signals: Signals{Preset: v1alpha1.PresetOTel}}
}

// Experiments is what experiments are given, with defaults for what the site does not set.
func (s *Site) Experiments() Run {
	out, r := DefaultRun(), Run{}
	if s.Run != nil {
		r = *s.Run
	}
	if r.Prometheus == nil && s.Addons.Prometheus != nil {
		r.Prometheus = &PrometheusAt{URL: s.PrometheusURL()}
	}
	r.Namespace, r.Images.K6 = cmp.Or(r.Namespace, out.Namespace), cmp.Or(r.Images.K6, out.Images.K6)
	r.Signals.Preset = cmp.Or(r.Signals.Preset, out.Signals.Preset)
	return r
}

var namespaceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// mostDigits are those that the loader takes.
const mostDigits = 50_000

// check says what is wrong with it by key, rule and value.
func (r *Run) check(must func(kept bool, key, rule string, was any)) {
	if r == nil {
		return
	}
	theirs := []string{"default", "kube-system", "kube-public", "kube-node-lease", productNamespace}
	must(r.Namespace == "" || namespaceName.MatchString(r.Namespace), "run.namespace", "be a name of at most 63 lower-case letters, digits and '-'", r.Namespace)
	must(!slices.Contains(theirs, r.Namespace), "run.namespace", "be one of its own", r.Namespace)
	must(r.Images.Plimsoll == "" || imageName.MatchString(r.Images.Plimsoll), "run.images.plimsoll", "be an image", r.Images.Plimsoll)
	must(r.Images.K6 == "" || imageName.MatchString(r.Images.K6), "run.images.k6", "be an image such as grafana/k6:1.8.1", r.Images.K6)
	must(r.Digits >= 0 && r.Digits <= mostDigits, "run.digits", fmt.Sprintf("be from 1 to %d", mostDigits), r.Digits)
	presets := []v1alpha1.Preset{"", v1alpha1.PresetOTel, v1alpha1.PresetIstio}
	must(slices.Contains(presets, r.Signals.Preset), "run.signals.preset", "be OTel or Istio", string(r.Signals.Preset))
	must(!r.Signals.Inject || r.Signals.Preset == v1alpha1.PresetIstio, "run.signals.inject", "be omitted but with preset Istio", r.Signals.Inject)
	if p := r.Prometheus; p != nil {
		must(p.URL != "" || p.InCluster != "", "run.prometheus", "have url, inCluster or both", "neither")
		must(p.URL == "" || address(p.URL), "run.prometheus.url", "be an http or https address", p.URL)
		must(p.InCluster == "" || r.Signals.Preset == v1alpha1.PresetIstio, "run.prometheus.inCluster", "be omitted but with preset Istio", p.InCluster)
		must(p.InCluster == "" || address(p.InCluster), "run.prometheus.inCluster", "be an http or https address", p.InCluster)
	}
}

func address(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.RawQuery == "" && u.Fragment == ""
}

// WorkersName is the name of the workers' pool.
func (s *Site) WorkersName() string { return s.workersName() }

// ClusterAutoscaler is the image of the one that the site has, or empty if it has none.
func (s *Site) ClusterAutoscaler() string {
	if p := s.Addons.Plimsoll; p != nil && p.Nodes == byAutoscaler {
		return p.ClusterAutoscalerImage
	}
	return ""
}

// Offer is the workers' pool as a VMPool by which Plimsoll decides on them, with what a run wants
// otherwise than up made it, or as one that another decides on.
func (s *Site) Offer(scaledBy string, change func(*settings.Pool)) (map[string]any, error) {
	p, err := s.proxmox(placeholders()) // no token is in it: it names the secret's files
	if err != nil {
		return nil, err
	}
	mine := p.Pools[workers]
	change(&mine)
	return vmPool(mine, VMPool{Mode: string(v1alpha1.ModePoolActive), ScaledBy: scaledBy})
}

// Kubeconfig is how the cluster is reached that is up.
func (b *Bench) Kubeconfig() ([]byte, error) {
	text, err := b.cfg.Store.Read(kubeconfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the test bed is not up: plimsoll testbed rke2 up builds it")
	}
	return text, err
}

// The secret with the files that Plimsoll's configuration names, and its namespace.
const (
	ProductNamespace = productNamespace
	ProductToken     = tokenKey
	// ProviderSecret has what Plimsoll shows cluster-autoscaler.
	ProviderSecret = providerSecret
)

// The mark of the load machine: a label, and a taint of the same name.
const (
	LoadLabel = loadLabel
	LoadValue = "true"
)
