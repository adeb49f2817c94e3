package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/proxmox/pve"
)

// readSiteWithPools reads a configuration file without pools, and the VMPools of a file of manifests in their place.
func readSiteWithPools(env *Env, file, manifests string) (*siteFile, error) {
	site, err := readFor(env, file, &siteFile{parts: []string{partProvider}, examining: true, offline: true})
	if err != nil {
		return nil, err
	}
	if len(site.Pools) > 0 {
		return nil, misconfigured(file, &fileFault{"pools", fmt.Sprintf("must be left out beside --pools, was %d of them", len(site.Pools))})
	}
	data, err := env.ReadFile(manifests)
	if err != nil {
		return nil, withCode(exitConfig, fmt.Errorf("--pools: %w", err))
	}
	if site.Pools, err = poolsOf(data); err != nil {
		return nil, misconfigured(manifests, err)
	}
	return site, nil
}

// poolsOf are the VMPools among manifests, as the API server would have let them in. Other objects are passed over.
func poolsOf(manifests []byte) ([]pve.Pool, error) {
	schema, err := resources.ReadSchema(v1alpha1.KindVMPool)
	if err != nil {
		return nil, err
	}
	objects, err := resources.Objects(manifests)
	if err != nil {
		return nil, err
	}
	var pools []pve.Pool
	var faults []error
	for _, object := range objects {
		if object["kind"] != v1alpha1.KindVMPool {
			continue
		}
		p, err := poolOf(schema, object)
		if err != nil {
			faults = append(faults, err)
		}
		pools = append(pools, p)
	}
	if len(pools) == 0 {
		faults = append(faults, errors.New("there must be a VMPool, was none"))
	}
	return pools, errors.Join(faults...)
}

func poolOf(schema *resources.Schema, object map[string]any) (pve.Pool, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return pve.Pool{}, err
	}
	var p v1alpha1.VMPool
	if err := json.Unmarshal(text, &p); err != nil {
		return pve.Pool{}, fmt.Errorf("VMPool: %w", err)
	}
	err = schema.Check(object)
	var pool pve.Pool
	if err == nil {
		pool, err = resources.Pool(&p)
	}
	if err != nil {
		return pool, fmt.Errorf("VMPool %s: %w", p.Name, err)
	}
	return pool, nil
}
