// Package pve is the machine port, over Proxmox VE: it makes, follows and destroys the virtual
// machines that the loop orders, and touches none that is not proved to be ours.
package pve
