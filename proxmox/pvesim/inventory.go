package pvesim

import (
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
)

// Inventory is what is really there, even if the API hides it from callers.
type Inventory struct {
	VMs     []VMState     // by VMID
	Volumes []VolumeState // by host, storage and name
}

// VMState is a virtual machine as it is.
type VMState struct {
	ID     int
	Host   string
	Pool   string
	State  string // stopped, running, paused, prelaunch
	Config map[string]string
}

// VolumeState is a volume as it is.
type VolumeState struct {
	ID   string // storage:name
	Host string // empty where the storage is shared
	Size int64
	VMID int
}

// Inventory looks at the cluster from outside: no time passes, and nobody's rights matter.
func (c *Cluster) Inventory() Inventory {
	var all Inventory
	c.With(func() {
		for _, id := range slices.Sorted(maps.Keys(c.VMs)) {
			m := c.VMs[id]
			state := VMState{ID: id, Host: m.Host.Name, State: m.State, Config: maps.Clone(m.Conf)}
			for name, p := range c.Access.Pools {
				if p.Vms[id] {
					state.Pool = name
				}
			}
			all.VMs = append(all.VMs, state)
		}
		for _, name := range slices.Sorted(maps.Keys(c.Storages)) {
			s := c.Storages[name]
			for _, host := range slices.Sorted(maps.Keys(s.Volumes)) {
				for _, v := range s.Volumes[host] {
					all.Volumes = append(all.Volumes, VolumeState{ID: s.VolID(v), Host: host, Size: v.Size, VMID: v.VMID})
				}
			}
		}
	})
	slices.SortFunc(all.Volumes, func(a, b VolumeState) int { return strings.Compare(a.Host+" "+a.ID, b.Host+" "+b.ID) })
	return all
}

// Unlock takes a virtual machine's lock away, as a person does with qm unlock on its host.
func (c *Cluster) Unlock(vmid int) error {
	err := failure.New("unable to find configuration file for VM %d", vmid)
	c.With(func() {
		if m := c.VMs[vmid]; m != nil {
			delete(m.Conf, "lock")
			err = nil
		}
	})
	return err
}
