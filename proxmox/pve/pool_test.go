package pve

import (
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// aPool is a pool with nothing that is not needed.
func plainPool() settings.Pool {
	return settings.Pool{
		Name:     "web",
		Shapes:   []pricing.Shape{{Name: "small", CPU: 2 * pricing.Core, Memory: 4 * pricing.GiB, Disk: 20 * pricing.GiB}},
		Max:      5,
		Template: placement.Template{VMID: 9000},
		PVEPool:  "plimsoll",
		VMIDs:    placement.VMIDs{First: 1000, Last: 1099},
		Join:     firstboot.Profile{Kind: firstboot.Custom, ProviderID: firstboot.ProviderID{Scheme: firstboot.SchemeProxmox}},
		Region:   "home",
	}
}
