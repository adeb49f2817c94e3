// Package kube orders a machine itself.
package kube

import (
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/proxmox/pve"
)
