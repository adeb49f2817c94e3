package rke2

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/prometheus/common/model"

	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// Addons are what RKE2 applies besides the site's own manifests. None is there that is not named.
type Addons struct {
	Prometheus *Prometheus `json:"prometheus,omitempty"`
	Plimsoll   *Plimsoll   `json:"plimsoll,omitempty"`
	OpenCost   *OpenCost   `json:"openCost,omitempty"`
	Kproximate *Kproximate `json:"kproximate,omitempty"`
}

// Prometheus is one of our own making, for the time of an experiment.
type Prometheus struct {
	Image string `json:"image,omitempty"`
	// NodePort is where it is reached, on every node.
	NodePort int `json:"nodePort,omitempty"`
	// Retention is how long it keeps what it has read, such as 7d.
	Retention string `json:"retention,omitempty"`
}

// Plimsoll is Plimsoll itself, as 'plimsoll manifests install' prints it for the site.
type Plimsoll struct {
	Mode string `json:"mode" strict:"required"` // Active or Recommend
	// Nodes is who decides on machines, Plimsoll or ClusterAutoscaler, and as workers.vmPool has
	// it.
	Nodes string `json:"nodes,omitempty"`
	Image string `json:"image,omitempty"`
	// ClusterAutoscalerImage is upstream's, of the cluster's minor release.
	ClusterAutoscalerImage string `json:"clusterAutoscalerImage,omitempty"`
}

// OpenCost is another owner's reckoning of what the cluster costs, to hold beside ours.
type OpenCost struct {
	Manifests []string `json:"manifests" strict:"required"`
	// URL is where its API is reached from here.
	URL string `json:"url" strict:"required"`
}

// Kproximate is another autoscaler of machines, to compare with. It knows its machines by their
// names alone, and puts no mark on them that could prove whose they are: they are looked for, and
// never touched.
type Kproximate struct {
	Manifests []string `json:"manifests" strict:"required"`
	// Prefix begins its machines' names: its kpNodeNamePrefix.
	Prefix string `json:"prefix" strict:"required"`
}

// What an add-on is where the site says nothing else.
const (
	usualPrometheus = "quay.io/prometheus/prometheus:v3.15.0"
	usualNodePort   = 30090
	usualRetention  = "7d"
)

// The files of add-ons, which RKE2 takes in the order of their names.
const (
	autoscalerAddon = "plimsoll-bench-autoscaler.yaml"
	kindsAddon      = "plimsoll-bench-kinds.yaml"
	plimsollAddon   = "plimsoll-bench-plimsoll.yaml"
	prometheusAddon = "plimsoll-bench-prometheus.yaml"
)

// Who decides on machines.
const (
	byPlimsoll   = "Plimsoll"
	byAutoscaler = "ClusterAutoscaler"
)

var (
	imageName = regexp.MustCompile(`^[a-z0-9]+([./:_@-][A-Za-z0-9]+|--+[A-Za-z0-9]+|__[A-Za-z0-9]+)*$`)
	// With a UUID behind it a name of 63.
	kpPrefix = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,24}[a-z0-9])?$`)
)

// validate reports to must every setting that breaks a rule.
func (a *Addons) validate(s *Site, must func(kept bool, key, rule string, was any)) {
	if p := a.Prometheus; p != nil {
		must(p.Image == "" || imageName.MatchString(p.Image), "addons.prometheus.image", "be an image such as "+usualPrometheus, p.Image)
		must(p.NodePort == 0 || p.NodePort >= 30000 && p.NodePort <= 32767, "addons.prometheus.nodePort", "be from 30000 to 32767", p.NodePort)
		d, err := model.ParseDuration(cmp.Or(p.Retention, usualRetention))
		must(err == nil && time.Duration(d) >= time.Hour, "addons.prometheus.retention", "be a time of Prometheus' such as 7d, of 1h or more", p.Retention)
	}
	if p := a.Plimsoll; p != nil {
		p.validate(s.Workers.VMPool, must)
	}
	if o := a.OpenCost; o != nil {
		must(len(o.Manifests) > 0, "addons.openCost.manifests", "name a file at least", o.Manifests)
		must(address(o.URL), "addons.openCost.url", "be a URL such as http://10.0.0.10:30903", o.URL)
	}
	if k := a.Kproximate; k != nil {
		must(len(k.Manifests) > 0, "addons.kproximate.manifests", "name a file at least", k.Manifests)
		must(kpPrefix.MatchString(k.Prefix), "addons.kproximate.prefix", "be at most 26 lower-case letters, digits and hyphens", k.Prefix)
		for _, own := range []string{controlPool, loadPool, s.workersName()} {
			apart := k.Prefix != own && !strings.HasPrefix(k.Prefix, own+"-") && !strings.HasPrefix(own, k.Prefix+"-")
			must(apart, "addons.kproximate.prefix", "not be, begin or go on from what begins the names of the test bed's own machines, "+own, k.Prefix)
		}
		pool := s.Workers.VMPool
		must(pool == nil || pool.Mode != "Active", "addons.kproximate", "be omitted where workers.vmPool.mode is Active: two would decide on machines", k.Prefix)
	}
}

func (p *Plimsoll) validate(pool *VMPool, must func(kept bool, key, rule string, was any)) {
	must(slices.Contains([]string{"Active", "Recommend"}, p.Mode), "addons.plimsoll.mode", "be Active or Recommend", p.Mode)
	must(slices.Contains([]string{"", byPlimsoll, byAutoscaler}, p.Nodes), "addons.plimsoll.nodes", "be Plimsoll or ClusterAutoscaler", p.Nodes)
	must(p.Image == "" || imageName.MatchString(p.Image), "addons.plimsoll.image", "be an image such as ghcr.io/plimsoll/plimsoll:v0.1.0", p.Image)
	must(p.Nodes == "" || pool != nil, "addons.plimsoll.nodes", "be omitted without workers.vmPool, which is what is decided on", p.Nodes)
	if pool != nil {
		by := cmp.Or(pool.ScaledBy, byPlimsoll)
		must(cmp.Or(p.Nodes, byPlimsoll) == by, "addons.plimsoll.nodes", "be what workers.vmPool.scaledBy is, "+by, cmp.Or(p.Nodes, byPlimsoll))
		must(p.Mode == "Active" || pool.Mode != "Active", "addons.plimsoll.mode", "be Active where workers.vmPool.mode is", p.Mode)
	}
	if p.Nodes == byAutoscaler {
		must(p.Mode == "Active", "addons.plimsoll.mode", "be Active where nodes is ClusterAutoscaler, which decides in any mode", p.Mode)
		must(imageName.MatchString(p.ClusterAutoscalerImage), "addons.plimsoll.clusterAutoscalerImage",
			"be an image of the cluster's minor release, such as registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.0", p.ClusterAutoscalerImage)
		return
	}
	must(p.ClusterAutoscalerImage == "", "addons.plimsoll.clusterAutoscalerImage", "be omitted but where nodes is ClusterAutoscaler", p.ClusterAutoscalerImage)
}

// named are the site's lists of files, by their keys.
func (s *Site) named() []fileList {
	all := []fileList{{"manifests", s.Manifests}}
	if o := s.Addons.OpenCost; o != nil {
		all = append(all, fileList{"addons.openCost.manifests", o.Manifests})
	}
	if k := s.Addons.Kproximate; k != nil {
		all = append(all, fileList{"addons.kproximate.manifests", k.Manifests})
	}
	return all
}

type fileList struct {
	key   string
	files []string
}

// Read reads the files that the site names beside its token.
func (s *Site) Read(read func(path string) ([]byte, error)) error {
	s.manifests, s.ca = map[string][]byte{}, nil
	var faults []error
	for _, list := range s.named() {
		for i, file := range list.files {
			if err := s.readManifest(fmt.Sprintf("%s[%d]", list.key, i), file, read); err != nil {
				faults = append(faults, err)
			}
		}
	}
	if s.Addons.Plimsoll != nil && s.CAFile != "" {
		var err error
		if s.ca, err = read(s.CAFile); err != nil {
			faults = append(faults, &Fault{Field: "caFile", Text: "must be a file that can be read: " + err.Error()})
		}
	}
	return errors.Join(faults...)
}

func (s *Site) readManifest(key, file string, read func(path string) ([]byte, error)) error {
	name := path.Base(strings.ReplaceAll(file, `\`, "/"))
	data, err := read(file)
	switch {
	case err != nil:
		return &Fault{Field: key, Text: "must be a file that can be read: " + err.Error()}
	case !manifestName.MatchString(name) || strings.HasPrefix(name, "plimsoll-bench"):
		return &Fault{Field: key, Text: fmt.Sprintf("must be named by a-z, 0-9 and -, with .yaml behind, and not begin with plimsoll-bench, was %q", name)}
	case s.manifests[name] != nil:
		return &Fault{Field: key, Text: fmt.Sprintf("must have a name that no other has, was %q", name)}
	case len(strings.TrimSpace(string(data))) == 0:
		return &Fault{Field: key, Text: "must be a file with something in it, was empty"}
	}
	s.manifests[name] = data
	return nil
}

// PrometheusURL is where the test bed's Prometheus is reached from its network, or "" if it has
// none.
func (s *Site) PrometheusURL() string {
	if p := s.Addons.Prometheus; p != nil {
		return fmt.Sprintf("http://%s:%d", hostOf(s.address()), cmp.Or(p.NodePort, usualNodePort))
	}
	return ""
}

//go:embed addons
var addonFiles embed.FS

// manifest is Prometheus with all that it needs.
func (p *Prometheus) manifest() ([]byte, error) {
	config, err := addonFiles.ReadFile("addons/prometheus-config.yaml")
	if err != nil {
		return nil, err
	}
	t, err := template.ParseFS(addonFiles, "addons/prometheus.yaml")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Option("missingkey=error").Execute(&b, map[string]any{
		"Config": "    " + strings.ReplaceAll(strings.TrimSpace(string(config)), "\n", "\n    "),
		"Image":  cmp.Or(p.Image, usualPrometheus), "NodePort": cmp.Or(p.NodePort, usualNodePort), "Retention": cmp.Or(p.Retention, usualRetention),
	})
	return b.Bytes(), err
}

// installed are the manifests of Plimsoll, and of cluster-autoscaler where that decides on
// machines.
func (s *Site) installed() (map[string][]byte, error) {
	p := s.Addons.Plimsoll
	kinds, err := deploy.Kinds()
	if err != nil {
		return nil, err
	}
	name := strings.ToLower(p.Mode)
	if p.Nodes == byAutoscaler {
		name = deploy.Provider
	}
	rendered, err := deploy.Rendered(name)
	if err != nil {
		return nil, err
	}
	text, err := rendered.With(s.productConfig(), p.Image)
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{kindsAddon: kinds, plimsollAddon: []byte(text)}
	if p.Nodes == byAutoscaler {
		upstream := deploy.UsualAutoscaler()
		upstream.Image, upstream.Command = p.ClusterAutoscalerImage, "plimsoll testbed rke2 up"
		var b bytes.Buffer
		if err := upstream.Print(&b); err != nil {
			return nil, err
		}
		all[autoscalerAddon] = b.Bytes()
	}
	return all, nil
}

// productConfig is the configuration of Plimsoll in the cluster: the site's Proxmox VE, reached
// with the token that was made for it.
func (s *Site) productConfig() map[string]any {
	c := map[string]any{"owner": s.Owner, "adoptUnmarked": true, "endpoints": s.Endpoints, "tokenFile": tokenKey}
	if s.ca != nil {
		c["caFile"] = caKey
	}
	if len(s.Fingerprints) > 0 {
		c["fingerprints"] = s.Fingerprints
	}
	if s.Insecure {
		c["insecure"] = true
	}
	return c
}

// addons are the manifests that RKE2 applies: those of the site, the files that Plimsoll in the
// cluster needs, and its pool of the workers.
func (s *Site) addons(c *secrets, mine *settings.Pool) (map[string][]byte, error) {
	all := map[string][]byte{}
	maps.Copy(all, s.manifests)
	var err error
	if p := s.Addons.Prometheus; p != nil {
		if all[prometheusAddon], err = p.manifest(); err != nil {
			return nil, err
		}
	}
	if s.Addons.Plimsoll != nil {
		installed, err := s.installed()
		if err != nil {
			return nil, err
		}
		maps.Copy(all, installed)
	}
	if all[secretAddon], err = s.secretFiles(c, mine); err != nil || s.Workers.VMPool == nil {
		return all, err
	}
	pool := *mine
	pool.Min = s.Workers.Start // it keeps those that there are at the start
	o, err := vmPool(pool, *s.Workers.VMPool)
	if err != nil {
		return nil, err
	}
	all[poolAddon], err = documents(o)
	return all, err
}
