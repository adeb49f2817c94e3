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

const onVM = "/nodes/{node}/qemu/{vmid}"

// id is that of the virtual machine that the call is about.
func (k *call) id() int { return k.In.Int("vmid", 0) }

// vm is the virtual machine that the call is about.
func (k *call) vm() (*world.Guest, error) { return k.Errand().Config(k.id()) }
