// Package loop knows an adapter.
package loop

import (
	"github.com/plimsoll/plimsoll/nodescaler/policy"
	_ "github.com/plimsoll/plimsoll/proxmox/pve"
)
