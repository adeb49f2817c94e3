package pvesim

import "github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"

// A cluster before it starts, and what it says of its machines' guests.
type (
	Config  = world.Config
	Host    = world.Host
	Image   = world.Image
	Storage = world.Storage
	VM      = world.VM
	Boot    = world.Boot
	Halt    = world.Halt
)

// What runs machines for real, and what it is given to run.
type (
	Guests  = world.Guests
	Running = world.Running
	Machine = world.Machine
	Drive   = world.Drive
)

// Cluster is an emulated Proxmox VE cluster: a world, and the API that shows it.
type Cluster struct {
	*world.World
	front
}
