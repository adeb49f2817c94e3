// Package rke2 builds a cluster of RKE2 on the reader's own Proxmox VE, for experiments, and takes
// it down to the last machine, disc, role, token and resource pool.
//
// What a site looks like is in a Site. A Bench builds it by a list of steps. Each step looks at the
// world before it acts, so that it can be ended anywhere and begun again. What was built is known
// by the marks that it carries, whether or not the folder with the bench's state is still there.
// Machines are made and destroyed by pve.Fleet, which proves that a machine is ours before it
// touches it.
//
// Nothing is ever done by hand on a machine: all that it learns is on its first-boot disc. The
// authorities of the cluster are made here too, so that its API is reached without fetching
// anything from a machine.
package rke2
