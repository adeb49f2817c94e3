package machines

import (
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// call is a call about virtual machines.
type call struct{ *api.Call }

func do(do func(k *call) (any, error)) func(*api.Call) (any, error) {
	return func(k *api.Call) (any, error) { return do(&call{k}) }
}

// job is a caller at work on virtual machines and their volumes.
type job struct{ *world.Errand }

// job is the call's own work.
func (k *call) job() *job { return &job{k.Errand()} }

// task starts a task on the host that answers, and returns its UPID.
func (k *call) task(kind, id string, body func(j *job) error) string {
	return k.Call.Task(kind, id, atWork(body))
}

func atWork(body func(j *job) error) func(j *world.Errand) error {
	return func(j *world.Errand) error { return body(&job{j}) }
}
