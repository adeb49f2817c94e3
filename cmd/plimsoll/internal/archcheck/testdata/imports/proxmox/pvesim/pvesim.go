// Package pvesim knows the client it is there to catch out.
package pvesim

import "github.com/plimsoll/plimsoll/proxmox/pve"
