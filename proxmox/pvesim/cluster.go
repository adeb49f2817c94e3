package pvesim

import "github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"

// What a cluster is made of before it starts.
type (
	// Config is a cluster before it starts.
	Config = world.Config
	// Host is one of its hosts.
	Host = world.Host
	// Zone is a zone of its software-defined network.
	Zone = world.Zone
	// VNet is a network of a zone.
	VNet = world.VNet
	// Image is a disk image on a storage.
	Image = world.Image
	// Storage is a storage of its hosts.
	Storage = world.Storage
	// VM is a virtual machine.
	VM = world.VM
	// Boot is a machine that has booted.
	Boot = world.Boot
	// Halt is a machine whose guest runs no more.
	Halt = world.Halt
)

// What runs machines for real, in place of what is only emulated of them.
type (
	// Guests runs machines.
	Guests = world.Guests
	// Running is a machine that runs.
	Running = world.Running
	// Machine is what is to run.
	Machine = world.Machine
	// Drive is a disk or disc of a machine.
	Drive = world.Drive
)

// Cluster is an emulated Proxmox VE cluster: a world, and the API that shows it.
type Cluster struct {
	*world.World
	front
}
