// Package load is part of the test bed without a row of its own.
package load

import (
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/testbed/sim"
	"k8s.io/client-go/kubernetes"
	"pgregory.net/rapid"
)

var _, _, _, _ = pve.Client, sim.Run, kubernetes.New, rapid.Check
