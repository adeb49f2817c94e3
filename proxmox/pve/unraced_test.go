//go:build !race

package pve

const raced = false
