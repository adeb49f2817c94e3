package pve_test

import (
	"github.com/plimsoll/plimsoll/grpc/provider"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
)
