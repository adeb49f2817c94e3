package pve

import "github.com/plimsoll/plimsoll/proxmox/pvesim"

var _ = pvesim.Serve
