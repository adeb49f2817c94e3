// Package pve asks by the client, and has a clock.
package pve

import (
	"context"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// Run runs.
func Run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = pveapi.Client()
	go loop.Run(ctx)
}
