// Package product is Plimsoll itself as a part of a lab: the real binary, run as operators run it
// outside of a cluster.
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

// Part is a Plimsoll. Its endpoint "metrics" is its own metrics, and "base" what those and its
// health are served below.
type Part struct {
	// Program is the plimsoll to run.
	Program string
	// PVE is the lab's Proxmox VE; nil leaves machines to others.
	PVE *machines.Part
	// Settings are put into its configuration, over what the lab says itself, by key.
	Settings map[string]any
	// Provider serves cluster-autoscaler, which decides on machines then. The endpoint "provider"
	// is where, and Certificates what it is called with.
	Provider bool

	port, calls int
	folder      string
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

// components are what it runs: all that it can, with cluster-autoscaler or without.
func (p *Part) components() string {
	switch {
	case p.PVE == nil:
		return "podscaler"
	case p.Provider:
		return "podscaler,provider"
	}
	return "podscaler,nodescaler"
}

// Certificates is the folder with the set that it makes on its first start, for itself and for
// cluster-autoscaler.
func (p *Part) Certificates() string { return filepath.Join(p.folder, "state", "provider") }

// Start makes Plimsoll's kinds known to the cluster, and starts it.
func (p *Part) Start(ctx context.Context, l *lab.Lab) (*lab.Running, error) {
	kinds, err := deploy.Manifests.ReadFile("manifests/crds.yaml")
	if err != nil {
		return nil, err
	}
	if err := l.Create(ctx, kinds); err != nil {
		return nil, err
	}
	for _, port := range []*int{&p.port, &p.calls} { // it comes back where it was
		if *port > 0 {
			continue
		}
		if *port, err = lab.FreePort(); err != nil {
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
	if p.Provider {
		process.Endpoints = append(process.Endpoints, lab.Endpoint{Name: "provider", URL: p.listen()})
	}
	return process.Start(ctx, l, p.Name())
}

func (p *Part) listen() string { return fmt.Sprintf("127.0.0.1:%d", p.calls) }

// configure writes the configuration, and returns where.
func (p *Part) configure(l *lab.Lab) (string, error) {
	folder, err := l.Folder(p.Name())
	if err != nil {
		return "", err
	}
	p.folder = folder
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
	// What objects name, as the example does, is on this machine.
	config["signals"] = map[string]any{"allowedHosts": []any{map[string]any{"hosts": []string{"127.0.0.1"}}}}
	if p.Provider {
		config["provider"] = map[string]any{"listen": p.listen()}
	}
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
