// Package product is Plimsoll itself as a part of a lab: the real binary, run as operators run it outside
// of a cluster.
package product

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
)

// Part is a Plimsoll. Its endpoint "metrics" is its own metrics, and "base" what those and its health
// are served below.
type Part struct {
	// Program is the plimsoll to run.
	Program string
	// PVE is the lab's Proxmox VE; nil leaves machines to others.
	PVE *machines.Part
	// Settings are put into its configuration, over what the lab says itself, by key.
	Settings map[string]any

	port int
}

// PartName is the part's name.
const PartName = "plimsoll"

// Name is the part's name.
func (*Part) Name() string { return PartName }

// Link lets every Plimsoll among the parts of a lab have the lab's Proxmox VE, if there is one.
func Link(parts []lab.Part) {
	var pve *machines.Part
	for _, p := range parts {
		switch p := p.(type) {
		case *machines.Part:
			pve = p
		case *Part:
			p.PVE = pve
		}
	}
}

// components are what it runs: all that it can without cluster-autoscaler.
func (p *Part) components() string {
	if p.PVE == nil {
		return "podscaler"
	}
	return "podscaler,nodescaler"
}

// Start makes Plimsoll's kinds known to the cluster, and starts it.
func (p *Part) Start(ctx context.Context, l *lab.Lab) (*lab.Running, error) {
	kinds, err := deploy.Manifests.ReadFile("manifests/crds.yaml")
	if err != nil {
		return nil, err
	}
	if err := l.Create(ctx, kinds); err != nil {
		return nil, err
	}
	if p.port == 0 {
		if p.port, err = lab.FreePort(); err != nil {
			return nil, err
		}
	}
	config, err := p.configure(l)
	if err != nil {
		return nil, err
	}
	if err := p.showExample(l); err != nil {
		return nil, err
	}
	base := fmt.Sprintf("http://127.0.0.1:%d", p.port)
	process := lab.Process{
		Path: p.Program, Args: []string{"run", "--components", p.components(), "--config", config},
		Answers:   func(ctx context.Context) error { return well(ctx, base+"/readyz") },
		Endpoints: []lab.Endpoint{{Name: "base", URL: base}, {Name: "metrics", URL: base + "/metrics"}},
	}
	return process.Start(ctx, l, p.Name())
}

// configure writes the configuration, and returns where.
func (p *Part) configure(l *lab.Lab) (string, error) {
	folder, err := l.Folder(p.Name())
	if err != nil {
		return "", err
	}
	config := map[string]any{"kubeconfig": l.Kubeconfig()}
	if p.PVE != nil {
		data, err := os.ReadFile(p.PVE.SiteFile())
		if err != nil {
			return "", err
		}
		if err := yaml.Unmarshal(data, &config); err != nil {
			return "", err
		}
		delete(config, "pools") // VMPools say them
	}
	config["state"] = filepath.Join(folder, "state")
	config["namespace"] = "kube-system" // where its lease is kept
	config["metrics"] = fmt.Sprintf("127.0.0.1:%d", p.port)
	maps.Copy(config, p.Settings)
	text, err := yaml.Marshal(config)
	if err != nil {
		return "", err
	}
	file := filepath.Join(folder, "plimsoll.yaml")
	return file, os.WriteFile(file, text, 0o600)
}

// well asks an address whether all is well.
func well(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close() // its status says it all
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, res.Status)
	}
	return nil
}
