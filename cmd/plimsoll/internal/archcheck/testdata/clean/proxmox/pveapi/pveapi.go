// Package pveapi is the home of go-proxmox.
package pveapi

import "github.com/luthermonson/go-proxmox"

// Client talks.
func Client() *proxmox.Client { return nil }
