package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/starter"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/proxmox/doctor"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// poolsInCluster puts the pools that VMPools describe into a site whose file leaves them to the
// cluster. A fault of one of them is a check: the others are examined all the same. So is a cluster
// without the kind, or none at all: Proxmox VE is examined before anything is installed.
func (s *running) poolsInCluster(ctx context.Context) ([]doctor.Check, error) {
	described := func(status doctor.Status, text string, fix ...string) []doctor.Check {
		return []doctor.Check{{ID: doctor.GroupPools + ".described", Status: status, Text: text, Mend: fix}}
	}
	all, err := s.listPools(ctx)
	switch {
	case errors.Is(err, errNoCluster):
		return described(doctor.Warn, "VMPools are not checked: "+err.Error(),
			"plimsoll doctor --pools FILE, with their manifests, or --kubeconfig FILE, for those in the cluster"), nil
	case errors.Is(err, errNoKind):
		return described(doctor.Warn, "VMPools are not checked: "+err.Error(),
			"install the chart plimsoll-crds, or apply what 'plimsoll manifests crds' prints", "plimsoll doctor --pools FILE, with their manifests"), nil
	case err != nil:
		return nil, err
	case len(all) == 0:
		return described(doctor.Warn, "there is no VMPool: no machine will ever be made"), nil
	}
	var checks []doctor.Check
	for i := range all {
		p, err := resources.Pool(&all[i])
		checks = append(checks, s.describe(all[i].Name, &p, err, "kubectl edit vmpool "+all[i].Name)...)
	}
	return checks, nil
}

// describe takes a pool into the site with the files that it names, or says what is wrong with it.
func (s *siteFile) describe(name string, p *settings.Pool, err error, fix string) []doctor.Check {
	if err == nil {
		fix = "put the file beside the configuration file; in the cluster, into the secret with the token"
		err = p.Join.Read(func(name string) ([]byte, error) { return s.env.ReadFile(s.beside(name)) })
	}
	failed := func(text string) []doctor.Check {
		return []doctor.Check{{
			ID: doctor.GroupPools + ".described", Subject: name, Status: doctor.Fail, Mend: []string{fix},
			Text: fmt.Sprintf("VMPool %s: %s", name, text),
		}}
	}
	if err != nil {
		return failed(strings.ReplaceAll(err.Error(), "\n", "; ") + "; the pool is not checked further")
	}
	s.Pools = append(s.Pools, *p)
	if slices.Contains(p.Join.Servers, starter.NoServer) {
		fix = "write the address of a server of the cluster there"
		return failed("spec.join.servers: must hold addresses, was " + starter.NoServer + ", as 'plimsoll init' wrote it")
	}
	return nil
}

// handOffInCluster looks whether what is expected could be made known as the file says. Where it
// says nothing, that follows from the parts that run, which are not known here.
func (s *running) handOffInCluster(ctx context.Context) []doctor.Check {
	h := s.handOff()
	if s.HandOff == nil || !h.Used() {
		return nil
	}
	c := doctor.Check{ID: "handoff.usable", Subject: string(h.By), Status: doctor.OK, Text: fmt.Sprintf("what is expected can be made known by %s", h.By)}
	cfg, err := s.rest()
	if err == nil {
		err = h.Usable(ctx, cfg)
	}
	if err != nil {
		c.Status, c.Text = doctor.Warn, fmt.Sprintf("what is expected cannot be made known by %s: %v", h.By, err)
		if errors.Is(err, kube.ErrNoBuffers) {
			c.Mend = []string{"apply the kind, which comes with cluster-autoscaler's sources, or write handoff: {by: Placeholders}"}
		}
	}
	return []doctor.Check{c}
}

// errNoKind is why there are no VMPools to list.
var errNoKind = errors.New("the cluster does not know the kind VMPool")

// listPools asks the API server for all VMPools.
func (s *running) listPools(ctx context.Context) ([]v1alpha1.VMPool, error) {
	cfg, err := s.rest()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("kubeconfig: %w", err))
	}
	path := "/apis/" + v1alpha1.GroupVersion.String() + "/vmpools"
	data, err := client.RESTClient().Get().AbsPath(path).DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil, errNoKind
	case err != nil:
		return nil, cli.WithCode(cli.ExitUnreachable, fmt.Errorf("list VMPools: %w", err))
	}
	var list v1alpha1.VMPoolList
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("list VMPools: %w", err)
	}
	return list.Items, nil
}
