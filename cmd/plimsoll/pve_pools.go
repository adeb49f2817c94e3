package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

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
	var pools []pve.Pool
	var faults []error
	for documents := yaml.NewDecoder(bytes.NewReader(manifests)); ; {
		var document any
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		for _, object := range objectsOf(document) {
			p, err := poolOf(schema, object)
			if err != nil {
				faults = append(faults, err)
			}
			pools = append(pools, p)
		}
	}
	if len(pools) == 0 {
		faults = append(faults, errors.New("there must be a VMPool, was none"))
	}
	return pools, errors.Join(faults...)
}

// objectsOf are the VMPools that a document is, or has as a list.
func objectsOf(document any) []any {
	object, _ := document.(map[string]any)
	if items, list := object["items"].([]any); list {
		var all []any
		for _, item := range items {
			all = append(all, objectsOf(item)...)
		}
		return all
	}
	if object["kind"] == v1alpha1.KindVMPool {
		return []any{document}
	}
	return nil
}

func poolOf(schema *resources.Schema, object any) (pve.Pool, error) {
	text, err := yaml.Marshal(object)
	if err != nil {
		return pve.Pool{}, err
	}
	if text, err = sigsyaml.YAMLToJSONStrict(text); err != nil {
		return pve.Pool{}, err
	}
	var p v1alpha1.VMPool
	if err := json.Unmarshal(text, &p); err != nil {
		return pve.Pool{}, fmt.Errorf("VMPool: %w", err)
	}
	err = schema.Check(json.RawMessage(text))
	var pool pve.Pool
	if err == nil {
		pool, err = resources.Pool(&p)
	}
	if err != nil {
		return pool, fmt.Errorf("VMPool %s: %w", p.Name, err)
	}
	return pool, nil
}
