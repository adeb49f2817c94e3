package resources

import (
	"errors"
	"reflect"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// notOfThePool are the keys of a VMPool that a pool of the configuration file does not have.
var notOfThePool = []string{"mode", "approval", "scaledBy"}

// Pool returns what machines a VMPool wants. The files that its join profile names have not been
// read.
func Pool(p *v1alpha1.VMPool) (settings.Pool, error) {
	var f faults
	var pool settings.Pool
	keys := plainStruct(reflect.ValueOf(p.Spec))
	for _, key := range notOfThePool {
		delete(keys, key)
	}
	keys["name"] = p.Name
	f.readKeys(spec, keys, &pool)
	for i, err := range f {
		if own, ok := errors.AsType[*pricing.Fault](err); ok && own.Path() == spec+".name" {
			f[i] = own.At("metadata.name")
		}
	}
	pool.At = v1alpha1.KindVMPool + " " + p.Name + ": " + spec
	return pool, f.err()
}
