// Package pve is the home of go-proxmox, and of a clock.
package pve

import (
	"context"
	"time"

	"github.com/luthermonson/go-proxmox"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// Client talks.
func Client(ctx context.Context) *proxmox.Client {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	go loop.Run(ctx)
	return nil
}
