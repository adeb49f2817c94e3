package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/proxmox/doctor"
)

// poolsInCluster puts the pools that VMPools describe into a site whose file leaves them to the cluster. What is
// wrong with one of them is a check: the others are examined all the same.
func (s *running) poolsInCluster(ctx context.Context) ([]doctor.Check, error) {
	all, err := s.listPools(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return []doctor.Check{{ID: doctor.GroupPools + ".described", Status: doctor.Warn, Text: "there is no VMPool: no machine will ever be made"}}, nil
	}
	var checks []doctor.Check
	for i := range all {
		name, mend := all[i].Name, "kubectl edit vmpool "+all[i].Name
		p, err := resources.Pool(&all[i])
		if err == nil {
			mend = "put the file into " + s.folder + ", or into the secret that is mounted there"
			err = p.Join.Read(func(name string) ([]byte, error) { return s.env.ReadFile(s.beside(name)) })
		}
		if err == nil {
			s.Pools = append(s.Pools, p)
			continue
		}
		checks = append(checks, doctor.Check{
			ID: doctor.GroupPools + ".described", Subject: name, Status: doctor.Fail, Mend: []string{mend},
			Text: fmt.Sprintf("VMPool %s: %s", name, strings.ReplaceAll(err.Error(), "\n", "; ")),
		})
	}
	return checks, nil
}

// handOffInCluster looks whether what is expected could be made known as the file says. Where it says nothing, that
// follows from the parts that run, which are not known here.
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
		return nil, errors.New("the cluster does not know VMPools: install the chart plimsoll-crds, or apply what 'plimsoll manifests crds' prints")
	case err != nil:
		return nil, cli.WithCode(cli.ExitUnreachable, fmt.Errorf("list VMPools: %w", err))
	}
	var list v1alpha1.VMPoolList
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("list VMPools: %w", err)
	}
	return list.Items, nil
}
