package resources

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// ReadPools reads the VMPools of the file of manifests that --pools names.
func ReadPools(env *cli.Env, file string) ([]settings.Pool, error) {
	data, err := env.ReadFile(file)
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("--pools: %w", err))
	}
	pools, err := poolsOf(data)
	if err != nil {
		return nil, cli.Misconfigured(file, err)
	}
	return pools, nil
}

// poolsOf are the VMPools among manifests, as the API server would have let them in. Other objects
// are passed over.
func poolsOf(manifests []byte) ([]settings.Pool, error) {
	schema, err := ReadSchema(v1alpha1.KindVMPool)
	if err != nil {
		return nil, err
	}
	objects, err := Objects(manifests)
	if err != nil {
		return nil, err
	}
	var pools []settings.Pool
	var faults []error
	seen := map[string]bool{}
	for _, object := range objects {
		if err := ofOurKinds(object); err != nil {
			faults = append(faults, err)
		}
		if object["kind"] != v1alpha1.KindVMPool {
			continue
		}
		p, err := poolOf(schema, object)
		if err == nil && seen[p.Name] {
			err = fmt.Errorf("VMPool %s: metadata.name: must be there once, was there again", p.Name)
		}
		if err != nil {
			faults = append(faults, err)
		}
		seen[p.Name] = true
		pools = append(pools, p)
	}
	if len(pools) == 0 {
		faults = append(faults, errors.New("there must be a VMPool, was none"))
	}
	return pools, errors.Join(faults...)
}

// ofOurKinds refuses an object that was likely meant to be one of ours: passed over, its rights
// would be missing.
func ofOurKinds(object map[string]any) error {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	group, _, _ := strings.Cut(version, "/")
	known := []string{v1alpha1.KindPriceBook, v1alpha1.KindVMPool, v1alpha1.KindWorkloadAutoscaler}
	switch ours := v1alpha1.GroupVersion; {
	case kind == v1alpha1.KindVMPool && version != ours.String():
		return fmt.Errorf("%s: apiVersion: must be %s, was %q", titled(object), ours, version)
	case group == ours.Group && !slices.Contains(known, kind):
		return fmt.Errorf("%s: kind: must be one of %s, was %q", titled(object), strings.Join(known, ", "), kind)
	}
	return nil
}

// titled is an object's kind and name, as far as it has them.
func titled(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	return strings.TrimSpace(fmt.Sprint(cmp.Or(object["kind"], "an object"), " ", cmp.Or(metadata["name"], "")))
}

// poolOf is one VMPool. Every fault names the object.
func poolOf(schema *Schema, object map[string]any) (settings.Pool, error) {
	err := schema.Check(object)
	var p v1alpha1.VMPool
	if err == nil {
		var text []byte
		if text, err = json.Marshal(object); err == nil {
			err = json.Unmarshal(text, &p)
		}
	}
	var pool settings.Pool
	if err == nil {
		pool, err = Pool(&p)
	}
	var faults []error
	for _, err := range cli.Each(err) {
		faults = append(faults, fmt.Errorf("%s: %w", titled(object), err))
	}
	return pool, errors.Join(faults...)
}
